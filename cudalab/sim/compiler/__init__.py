"""CUDA C++ → PTX → LLVM → object code, for the simulated device.

The front half is NVIDIA's own: NVRTC turns the learner's CUDA C++ into PTX, exactly as under CuPy. The
back half is ours: PTX is read, cut at barriers and warp operations, and lowered through LLVM to code for
this machine's processor (``docs/dev/layers.md``). Both run in helper processes, never in the caller.
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
