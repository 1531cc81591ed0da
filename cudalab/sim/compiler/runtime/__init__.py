"""What compiled kernels call: the block driver, warp operations, faults, traces, directed rounding.

No C compiler is needed on a user's machine: these functions are LLVM IR too, written with the small assembler of
``assembler`` and compiled once per process. Their object code travels with that of each program (``loader``).

- ``driver``        runs blocks of a kernel that waits: warps, barriers, deadlocks; with ``states`` of threads
- ``barriers``      barriers at which not all threads of a block wait in the same place
- ``cluster``       the barrier of a cluster, and distributed shared memory
- ``collectives``   resolves warp operations: when every lane of the mask that has not exited waits at the same kind
- ``faults``        finds out what was wrong with an access, records faults, polls the host
- ``records``       the trace, the undo log, ``printf``, the clock
- ``marks``         reads and wipes the maps of footprints
- ``race``, ``skipping``  shadow cells, and accesses that sanitized code skips
- ``rounding``, ``narrow``  directed rounding, and narrow floating-point formats
- ``mbarrier``, ``mbarrier_waits``, ``async_copy``, ``async_checks``, ``bulk_reduction``  asynchronous copies
- ``texture``, ``texel``, ``filtering``  fetches and surface accesses; only in programs that need them
- ``host_fault``    the fault handler that watches page-locked memory
- ``layout``, ``assembler``, ``traits``  offsets and constants, the writing of IR, what callers are like
"""
