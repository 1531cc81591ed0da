"""From analysed functions to LLVM IR.

``analysis`` plans a module (which passes ran, sites, roots, memory layout); ``unit`` collects the IR text of one
object file; ``emitter`` writes instructions, ``checks`` the bounds checks; ``simple``, ``region`` and ``device`` are
the skeletons around them: a kernel that never waits, a kernel cut at its suspension points, and a device function.

Overview of the generated IR::

    run_KERNEL(ctx, first, end)           a kernel that never waits
        for block in first … end:
            values of the block
            for z, y, x in the block:     the body, inlined

    run_KERNEL(ctx, first, end)           a kernel with suspension points
        return cl_run(ctx, first, end, descriptor)        # the driver in the runtime object
    region_KERNEL_k(ctx, block, warp, mask, state)
        for lane in mask:
            values kept for point k; code up to the next points; store what is kept
        return (common state of all lanes, or DIVERGED) | lanes still alive << 32

    func_NAME(ctx, block, thread, stack, returns…, arguments…) -> status

A kernel is cut at its *suspension points*: block barriers, warp operations, and the way back of loops that poll memory.
A *region* is the code from one suspension point (or the entry) up to the next ones; basic blocks that several points
reach are cloned. The driver runs a region for the whole block as long as all threads agree on the next point, then for
each warp, and in a warp that has diverged for each group of lanes. So a region is called once a barrier in the usual
case, not once a warp. Values live across a point are kept in frames (structure of arrays: slot, then thread); what can
be computed from parameters and special registers is recomputed instead.

The variants (``program.VARIANTS``) differ in what accesses do besides:

- ``plain``, ``atomic``         bounds and alignment checks; ``atomic`` for blocks that run on several workers
- ``wide``, ``wide_atomic``     the same, and a form for 8 or 16 neighbouring threads at once (``wide``, ``lanes``).
  Lowering stays for one thread: ``Lanes`` widens its lines, and raises ``NotWide`` for what it does not know
- ``footprint…``                mark the bytes touched (``footprint_marks``)
- ``traced``                    append a record before each access, at each point and basic block (``tracing``), but for
  those that can be told from another (``elided_records``); log old bytes when ``context.undo.data`` is set
- ``sanitize``                  skip invalid accesses and keep shadow cells (``shadow_cells``)
- ``sanitize_trace``            skip invalid accesses and write every record in its order

Each back-edge burns fuel; when it is used up, ``context.stop`` is read, so that a launch can be stopped.
"""
