"""CUDA C++ → PTX → LLVM → object code, for the simulated device.

The front half is NVIDIA's own: NVRTC turns the learner's CUDA C++ into PTX, exactly as under CuPy. The
back half is ours: PTX is parsed, cut at barriers and warp operations, and lowered through LLVM to code for
this machine's processor. Both run in helper processes, never in the caller.

- ``frontend``      NVRTC: options, headers, signatures, diagnostics and hints
- ``ptx``           the parser, the nodes, and the table of opcodes
- ``passes``        what is found out before code is written; its docstring lists every pass in order
- ``lowering``      PTX instructions to LLVM IR, a row of a table each
- ``codegen``       the functions around them: kernels, regions, checks, wide code
- ``runtime``       what compiled kernels call, LLVM IR too
- ``processes``     the helper processes and their messages
- ``machine_code``  what ptxas made of a kernel, for counts by line
- ``program``, ``semantics``, ``timed_code``  what the machine and the device are told of a kernel

``compile`` and ``compile_ptx`` give a ``Program``; ``native(program, variant)`` its object code. As under CuPy,
``-ftz=true`` and ``--device-as-default-execution-space`` are always on. A compile is one call of NVRTC for ``sm_90``
with ``-lineinfo`` and ``--ptxas-options=-v``, so PTX and register counts agree. Parameter types come from an added
``__global__`` template instantiated with ``decltype(&kernel)``, whose lowered name spells them.
"""

from __future__ import annotations

from cudalab.sim.compiler.frontend.diagnostics import CompileError, CompilerUnavailable, Diagnostic
from cudalab.sim.compiler.processes.helper import limits, prewarm, set_limits
from cudalab.sim.compiler.processes.messages import Limits
from cudalab.sim.compiler.program import Program
from cudalab.sim.compiler.translation import compile, compile_ptx, native, prefetch

__all__ = [
    "CompileError",
    "CompilerUnavailable",
    "Diagnostic",
    "Limits",
    "Program",
    "compile",
    "compile_ptx",
    "limits",
    "native",
    "prefetch",
    "prewarm",
    "set_limits",
]
