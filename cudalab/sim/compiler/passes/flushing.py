"""Selection of modules that can run in the host processor's flush-to-zero mode.

CuPy compiles kernels with ``-ftz=true``, so nearly every float operation carries ``.ftz``. Flushing operands and
results in software costs several instructions each. x86-64 has a mode that does it for free, but for all float *and*
double operations. It is therefore used for modules in which every float operation carries ``.ftz`` and none computes in
double precision; others flush in software. Both give the same results.
"""

from __future__ import annotations

import platform

from cudalab.sim.compiler.ptx.nodes import Instruction, Module

#: Operations whose subnormal operands and results the mode flushes.
IN_HARDWARE = frozenset("add sub mul div fma mad rcp sqrt rsqrt setp set".split())
_COMPUTES = IN_HARDWARE | frozenset("abs neg min max sin cos ex2 lg2 tanh slct testp atom red cvt".split())


def has_mode() -> bool:
    """Whether this host's processor has the mode (flush to zero, subnormals are zero)."""
    return platform.machine().lower() in ("x86_64", "amd64")


def flushes_in_hardware(module: Module) -> bool:
    """Whether the module may run in the processor's flush-to-zero mode."""
    bodies = [function.body for function in module.functions.values() if function.body is not None]
    return has_mode() and not any(
        _needs_subnormals(item) for body in bodies for item in body if isinstance(item, Instruction)
    )


def _needs_subnormals(instruction: Instruction) -> bool:
    name, *modifiers = instruction.opcode.split(".")
    if name in _COMPUTES and {"bf16", "bf16x2"} & set(modifiers):
        return True  # half precision is computed in float, and its subnormals matter
    if name not in _COMPUTES or not {"f32", "f64"} & set(modifiers):
        return False
    if name == "cvt":
        # integers convert to normal numbers; elsewhere .ftz makes subnormals irrelevant
        directed = {"rmi", "rpi", "sat", *(("rm", "rp") if "f16" in modifiers else ())}
        seen = "f64" in modifiers or (modifiers[-1] == "f32" and directed & set(modifiers))
        return bool(seen) and "f32" in modifiers and "ftz" not in modifiers
    if "f64" in modifiers:
        return True
    if name in ("atom", "red"):
        return "global" not in modifiers  # float atomics on global memory flush, on shared memory they do not
    return "ftz" not in modifiers
