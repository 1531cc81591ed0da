"""What compiled kernels call: the block driver, warp operations, faults, traces, directed rounding.

No C compiler is needed on a user's machine: these functions are LLVM IR too, written with the small assembler of
``assembler`` and compiled once per process. Their object code travels with that of each program (``loader``).

- ``driver``       runs blocks of a kernel that waits: warps, barriers, deadlocks
- ``collectives``  resolves warp operations
- ``faults``       finds out what was wrong with an access, records faults, polls the host
- ``records``      the trace, the undo log, ``printf``, the clock
- ``rounding``     arithmetic with directed rounding
- ``texture``      fetches and surface accesses, with ``texel`` and ``filtering``; only in programs that need them
"""
