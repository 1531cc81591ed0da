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
"""
