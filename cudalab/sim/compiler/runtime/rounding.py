"""Arithmetic with directed rounding: ``.rz``, ``.rm``, ``.rp``.

The processor's rounding mode is switched around a single operation, written with LLVM's constrained intrinsics, which
the optimiser does not move. This is slow (some ten nanoseconds) but exact on every host; such operations are rare in
kernels.
"""

from __future__ import annotations

from cudalab.sim.compiler.runtime.assembler import Library

_MODES = {"rz": 0, "rp": 2, "rm": 3}  # of llvm.set.rounding; 1 is to nearest
_OPERATIONS = {
    "add": ("fadd", 2),
    "sub": ("fsub", 2),
    "mul": ("fmul", 2),
    "div": ("fdiv", 2),
    "fma": ("fma", 3),
    "sqrt": ("sqrt", 1),
}
_KIND = {32: "float", 64: "double"}


def write(library: Library) -> None:
    """Add the functions of this module."""
    library.declare("llvm.set.rounding", "declare void @llvm.set.rounding(i32)")
    for mode in _MODES:
        for bits, kind in _KIND.items():
            for name, (operation, count) in _OPERATIONS.items():
                arguments = [f"{kind} %{letter}" for letter in "abc"[:count]]
                _one(library, f"cl_{name}_{mode}_f{bits}", mode, kind, f"{operation}.f{bits}", arguments)
            for sign, operation in (("s", "sitofp"), ("u", "uitofp")):
                name = f"cl_from_{sign}64_{mode}_f{bits}"
                _one(library, name, mode, kind, f"{operation}.f{bits}.i64", ["i64 %a"])
        _one(library, f"cl_narrow_{mode}", mode, "float", "fptrunc.f32.f64", ["double %a"])


def _one(library: Library, name: str, mode: str, kind: str, operation: str, arguments: list[str]) -> None:
    intrinsic = f"llvm.experimental.constrained.{operation}"
    types = ", ".join(argument.split()[0] for argument in arguments)
    library.declare(intrinsic, f"declare {kind} @{intrinsic}({types}, metadata, metadata)")
    library.defined.add(name)
    library.raw.append(
        f"define {kind} @{name}({', '.join(arguments)}) nounwind strictfp noinline {{\n"
        f"call void @llvm.set.rounding(i32 {_MODES[mode]}) strictfp\n"
        f"%r = call {kind} @{intrinsic}({', '.join(arguments)}, "
        f'metadata !"round.dynamic", metadata !"fpexcept.ignore") strictfp\n'
        f"call void @llvm.set.rounding(i32 1) strictfp\nret {kind} %r\n}}"
    )
