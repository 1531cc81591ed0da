"""One LLVM module under construction: declarations, constants and functions as text."""

from __future__ import annotations

from collections.abc import Callable

from cudalab.sim.compiler.codegen.analysis import ModulePlan
from cudalab.sim.compiler.codegen.plan import Plan
from cudalab.sim.compiler.passes.accesses import Access
from cudalab.sim.compiler.passes.flushing import flushes_in_hardware
from cudalab.sim.compiler.passes.undefined_values import UndefinedValues, find_undefined_values
from cudalab.sim.compiler.ptx import scope
from cudalab.sim.compiler.ptx.table import Table
from cudalab.sim.compiler.runtime.assembler import Library
from cudalab.sim.compiler.runtime.layout import ACCESS


class Unit:
    """The text of one object file. ``variant`` is one of ``VARIANTS``; ``table`` lowers each instruction."""

    def __init__(self, plan: ModulePlan, variant: str, table: Table) -> None:
        self.plan = plan
        self.table = table
        self.variant = variant
        self.traced = variant in ("traced", "sanitize_trace")
        self.shadowed = variant in ("sanitize", "sanitize_shuffled")  # keeps shadow cells (shadow_cells.py)
        self.skips = variant.startswith("sanitize")  # skips invalid accesses
        self.follows = variant == "sanitize_trace"  # follows undefined values (undefined_values.py)
        self.shuffles = self.traced or variant == "sanitize_shuffled"  # threads in the order of context.thread_order
        self.atomic = variant in ("atomic", "wide_atomic", "footprint_atomic")
        self.marked = variant in ("footprint", "footprint_atomic")
        self.hardware_flush = flushes_in_hardware(plan.module)
        self.declarations: dict[str, str] = {}
        self.constants: list[str] = []
        self.functions: list[str] = []
        self._tables: dict[tuple[object, ...], str] = {}
        self._included: set[str] = set()
        self._defined: set[str] = set()
        self._undefined: dict[str, UndefinedValues] = {}

    def declare(self, name: str, text: str) -> None:
        """Declare a function once, unless it is defined here."""
        if name not in self._defined:
            self.declarations.setdefault(name, text)

    def include(self, name: str, write: Callable[[Library, Unit], None]) -> None:
        """Add functions that only some programs need to this object file, once."""
        if name in self._included:
            return
        self._included.add(name)
        library = Library()
        write(library, self)
        self.functions += [*library.raw, *(function.text() for function in library.functions)]
        self._defined |= library.defined
        for symbol in library.defined:
            self.declarations.pop(symbol, None)
        for symbol, text in library.declarations.items():
            self.declare(symbol, text)

    def constant(self, stem: str, text: str) -> str:
        """Add a private constant and return its name."""
        name = f"@{stem}.{len(self.constants)}"
        self.constants.append(f"{name} = private unnamed_addr constant {text}")
        return name

    def access_table(self, members: list[Access]) -> str:
        """The table by which a failed check finds the offending access of a group."""
        rows = ", ".join(
            f"{ACCESS} {{i64 {m.offset}, i64 {m.low}, i64 {m.length}, i32 {m.size}, i32 {m.site}, i32 {m.root + 1}, "
            f"i32 {int(m.extent)}}}"
            for m in members
        )
        return self.constant("accesses", f"[{len(members)} x {ACCESS}] [{rows}]")

    def advice(self, opcode: str) -> str:
        """What to use instead of an opcode that is out of scope."""
        return scope.refusal(opcode) or scope.GENERAL

    def entry(self, kernel: str) -> str:
        """The head of the definition of a kernel's native entry. If the processor flushes subnormals, the actual entry
        is a wrapper that switches the mode on and off."""
        if not self.hardware_flush:
            return f'define i32 @"run_{kernel}"'
        self.declare("llvm.x86.sse.stmxcsr", "declare void @llvm.x86.sse.stmxcsr(ptr)")
        self.declare("llvm.x86.sse.ldmxcsr", "declare void @llvm.x86.sse.ldmxcsr(ptr)")
        self.functions.append(_FLUSHING_ENTRY.replace("NAME", kernel))
        return f'define internal i32 @"flushing_{kernel}"'

    @property
    def attributes(self) -> str:
        """Attributes of every function. If the processor flushes subnormals, constant folding must flush them too."""
        return 'nounwind "denormal-fp-math"="preserve-sign,preserve-sign"' if self.hardware_flush else "nounwind"

    def text(self) -> str:
        """The whole module."""
        return "\n".join([*self.constants, *self.declarations.values(), *self.functions, _METADATA])

    def undefined_values(self, plan: Plan) -> UndefinedValues | None:
        """What undefined values can reach in a function, or None: nothing has to be followed."""
        if not self.skips:
            return None
        if not plan.function.is_kernel:
            local = any(each.undefined_words and each.local_offsets for each in self.plan.kernels)
            return UndefinedValues(in_local=True) if local else None
        if not plan.undefined_words:
            return None
        if plan.function.name not in self._undefined:
            self._undefined[plan.function.name] = find_undefined_values(
                plan.blocks, plan.accesses, plan.liveness, plan.function.registers, bool(plan.local_offsets)
            )
        return self._undefined[plan.function.name]

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
