"""Generation of LLVM IR from analysed functions.

``analysis`` plans a module (passes, sites, roots, memory layout); ``unit`` collects the IR text of one object file;
``emitter`` writes instructions, ``checks`` the bounds checks; ``simple``, ``region`` and ``device`` are the skeletons
around them: a kernel without suspension points, a kernel partitioned at its suspension points, and a device function.

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

A kernel is partitioned at its *suspension points*: block barriers, warp operations, back-edges of polling loops, and
stores that may overwrite others' updates (``passes.races``). A *region* is the code from one suspension point (or the
entry) up to the next ones; basic blocks reachable from several points are cloned. The driver runs a region for the
whole block as long as all threads agree on the next point, then per warp, and in a diverged warp per group of lanes. So
a region is usually called once per barrier, not once per warp.
Values live across a point are spilled to frames (structure of arrays: slot, then thread), or rematerialised from
parameters and special registers.

The variants (``program.VARIANTS``) differ in the instrumentation of accesses:

- ``plain``, ``atomic``         bounds and alignment checks; ``atomic`` for blocks that run on several workers
- ``wide``, ``wide_atomic``     the same, and a vectorised form for 8 or 16 neighbouring threads (``wide``).
  Lowering is written for one thread: ``Lanes`` widens its lines, and raises ``NotWide`` where it cannot
- ``footprint…``                mark the bytes touched (``footprint_marks``)
- ``traced``                    append a record before each access, at each point and basic block (``tracing``), except
  for elided ones (``elided_records``); log old bytes when ``context.undo.data`` is set
- ``sanitize``                  skip invalid accesses and keep shadow cells (``shadow_cells``)
- ``sanitize_trace``            skip invalid accesses, write every record in its order, and follow undefined values
                              (``undefined_values``)

Each back-edge consumes fuel; when it runs out, ``context.stop`` is polled, so that a launch can be stopped.
"""
