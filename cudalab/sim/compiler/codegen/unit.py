"""One LLVM module in the making: declarations, constants and functions as text."""

from __future__ import annotations

from collections.abc import Callable

from cudalab.sim.compiler.codegen.analysis import ModulePlan, Plan
from cudalab.sim.compiler.passes.accesses import Access
from cudalab.sim.compiler.passes.flushing import flushes_in_hardware
from cudalab.sim.compiler.runtime.assembler import Library
from cudalab.sim.compiler.runtime.layout import ACCESS

VARIANTS = ("plain", "atomic", "traced", "footprint", "footprint_atomic")

#: Advice for opcodes outside the scope, by their beginning; the first that fits is taken.
_ADVICE = (
    (
        ("wmma", "mma", "wgmma", "tcgen05", "ldmatrix", "stmatrix"),
        "tensor cores are not simulated; write the product with scalar code",
    ),
    (
        ("cp.async.bulk", "cp.reduce", "tensormap"),
        "tensor-map and bulk copies are not simulated; copy with a loop",
    ),
    (
        ("tex", "tld4", "txq", "suld", "sust", "sured", "suq"),
        "this form of a texture or surface access is not simulated; use the functions of the CUDA C++ Programming "
        'Guide, "Texture Object API" and "Surface Object API"',
    ),
    (
        ("cp.async", "mbarrier"),
        "asynchronous copies inside a kernel are not simulated yet; load into a register and store to shared memory",
    ),
    (
        ("barrier.cluster", "mapa", "getctarank"),
        "thread block clusters are not simulated yet; use one block",
    ),
    (
        ("griddepcontrol",),
        "programmatic dependent launch is not simulated yet; launch the kernels one after the other",
    ),
    (
        ("shfl", "vote"),
        "the forms without .sync were withdrawn with compute capability 7.0; use __shfl_sync and its like",
    ),
    (
        ("bar.arrive", "barrier.arrive", "barrier.cta.arrive", "bar.cta.arrive"),
        "arriving at a barrier without waiting is not simulated; let these threads wait with bar.sync too",
    ),
    (("alloca", "stacksave", "stackrestore"), "alloca is not simulated; use a local array of fixed size"),
)


class Unit:
    """The text of one object file. ``variant`` is one of ``VARIANTS``."""

    def __init__(self, plan: ModulePlan, variant: str) -> None:
        self.plan = plan
        self.variant = variant
        self.traced = variant == "traced"
        self.atomic = variant in ("atomic", "footprint_atomic")
        self.marked = variant in ("footprint", "footprint_atomic")
        self.hardware_flush = flushes_in_hardware(plan.module)
        self.declarations: dict[str, str] = {}
        self.constants: list[str] = []
        self.functions: list[str] = []
        self._tables: dict[tuple[object, ...], str] = {}
        self._included: set[str] = set()

    def declare(self, name: str, text: str) -> None:
        """Declare a function once."""
        self.declarations.setdefault(name, text)

    def include(self, name: str, write: Callable[[Library, Unit], None]) -> None:
        """Add functions that few programs need to this object file, once."""
        if name in self._included:
            return
        self._included.add(name)
        library = Library()
        write(library, self)
        self.functions += [*library.raw, *(function.text() for function in library.functions)]
        for symbol, text in library.declarations.items():
            if symbol not in library.defined:
                self.declare(symbol, text)

    def constant(self, stem: str, text: str) -> str:
        """Add a private constant and return its name."""
        name = f"@{stem}.{len(self.constants)}"
        self.constants.append(f"{name} = private unnamed_addr constant {text}")
        return name

    def access_table(self, members: list[Access]) -> str:
        """The table that says, when a check fails, which access of a group it was."""
        rows = ", ".join(
            f"{ACCESS} {{i64 {m.offset}, i64 {m.low}, i64 {m.length}, i32 {m.size}, i32 {m.site}, i32 {m.root + 1}, "
            f"i32 {int(m.extent)}}}"
            for m in members
        )
        return self.constant("accesses", f"[{len(members)} x {ACCESS}] [{rows}]")

    def advice(self, opcode: str) -> str:
        """What to use instead of an opcode that is out of scope."""
        for beginnings, text in _ADVICE:
            if opcode.startswith(beginnings):
                return text
        if "b128" in opcode:
            return "128-bit atomics and moves are not simulated; use two 64-bit ones"
        return "it is outside the part of PTX that is simulated; write it with other operations"

    def entry(self, kernel: str) -> str:
        """How the definition of a kernel's native entry begins. Where the processor flushes subnormals, the entry
        proper is a function that switches the mode on and off around it."""
        if not self.hardware_flush:
            return f'define i32 @"run_{kernel}"'
        self.declare("llvm.x86.sse.stmxcsr", "declare void @llvm.x86.sse.stmxcsr(ptr)")
        self.declare("llvm.x86.sse.ldmxcsr", "declare void @llvm.x86.sse.ldmxcsr(ptr)")
        self.functions.append(_FLUSHING_ENTRY.replace("NAME", kernel))
        return f'define internal i32 @"flushing_{kernel}"'

    @property
    def attributes(self) -> str:
        """Of every function. Where the processor flushes subnormals, LLVM must when it computes with constants."""
        return 'nounwind "denormal-fp-math"="preserve-sign,preserve-sign"' if self.hardware_flush else "nounwind"

    def text(self) -> str:
        """The whole module."""
        return "\n".join([*self.constants, *self.declarations.values(), *self.functions, _METADATA])

    def globals_index(self, name: str) -> int:
        return self.plan.global_index[name]

    def function_plan(self, name: str) -> Plan | None:
        return self.plan.plans.get(name)


_FLUSHING_ENTRY = """define i32 @"run_NAME"(ptr %ctx, i64 %first, i64 %end) nounwind {
%mode.at = alloca i32
%flush.at = alloca i32
call void @llvm.x86.sse.stmxcsr(ptr %mode.at)
%mode = load i32, ptr %mode.at
%flush = or i32 %mode, 32832
store i32 %flush, ptr %flush.at
call void @llvm.x86.sse.ldmxcsr(ptr %flush.at)
%status = call i32 @"flushing_NAME"(ptr %ctx, i64 %first, i64 %end)
call void @llvm.x86.sse.ldmxcsr(ptr %mode.at)
ret i32 %status
}"""

_METADATA = """!0 = !{}
!1 = !{!"branch_weights", i32 1048575, i32 1}
!2 = !{!"branch_weights", i32 1, i32 1048575}"""
