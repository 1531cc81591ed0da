"""The runtime object called by compiled kernels: block driver, warp operations, faults, traces, directed rounding.

The user's machine needs no C compiler: these functions are LLVM IR too, written with the small assembler in
``assembler`` and compiled once per process. Their object code is linked with that of each program (``loader``).

- ``driver``        runs blocks of kernels with suspension points: warps, barriers, deadlocks; ``states``: thread states
- ``barriers``      barriers at which the threads of a block wait at different instructions
- ``cluster``       the barrier of a cluster, and distributed shared memory
- ``collectives``   resolves warp operations once every lane of the mask that has not exited waits at the same kind
- ``faults``        diagnoses failed checks, records faults, polls the host
- ``records``       the trace, the undo log, ``printf``, the clock
- ``marks``         reads and clears the footprint maps
- ``race``, ``skipping``  shadow cells, and invalid accesses in sanitized code
- ``rounding``, ``narrow``  directed rounding, and narrow floating-point formats
- ``mbarrier``, ``mbarrier_waits``, ``async_copy``, ``async_checks``, ``bulk_reduction``  asynchronous copies
- ``textures``      fetches and surface accesses; only in programs that need them
- ``host_fault``    the SIGSEGV handler for page-locked memory
- ``layout``, ``assembler``, ``traits``  offsets and constants, IR assembler, traits of the calling code
"""
