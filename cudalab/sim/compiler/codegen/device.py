"""The skeleton of a device function: ``func_NAME(ctx, block, thread, stack, returns…, arguments…)``.

Parameters are passed as pointers to their bytes. The result is a status: returned, fault, stopped, or the thread exited
the kernel.
"""

from __future__ import annotations

from cudalab.sim.compiler.codegen.plan import Plan
from cudalab.sim.compiler.codegen.threads import ThreadCode
from cudalab.sim.compiler.codegen.unit import Unit
from cudalab.sim.compiler.passes.rematerialisation import Level
from cudalab.sim.compiler.runtime import layout


class DeviceFunction(ThreadCode):
    """Writes one device function."""

    def __init__(self, unit: Unit, plan: Plan) -> None:
        super().__init__(unit, plan)
        formals = [*plan.function.returns, *plan.function.parameters]
        self.formals = {variable.name: f"%p{number}" for number, variable in enumerate(formals)}

    def level_here(self, level: Level) -> Level:
        return Level.LAUNCH

    def parameter_variable(self, name: str) -> str:
        return self.formals.get(name) or super().parameter_variable(name)

    def stack(self) -> str:
        return "%stack"

    def tid(self, axis: int) -> str:
        """Computed by division from the thread's linear index."""

        def make() -> str:
            width = self._special_word("%ntid.x")
            if axis == 0:
                return self.new(f"urem i32 %thread, {width}")
            rows = self.new(f"udiv i32 %thread, {width}")
            return self.new(f"{'urem' if axis == 1 else 'udiv'} i32 {rows}, {self._special_word('%ntid.y')}")

        return self.cached(("tid", axis), Level.LAUNCH, make)

    def leave(self) -> None:
        self.emit(f"ret i32 {layout.RETURNED}")

    def exit(self) -> None:
        self.emit("br label %leave")

    def unwind(self, status: str) -> None:
        self.emit(f"ret i32 {status}")

    def write(self) -> str:
        """The function's text."""
        self.write_blocks([block.index for block in self.plan.blocks])
        leaving: list[str] = []
        if self.unit.traced:
            self.lines = leaving
            self.record(self.plan.exit_site)
        arguments = "".join(f", ptr noalias {name}" for name in self.formals.values())
        poll = []
        if self.plan.recursive:
            poll = [
                f"%stop.at = getelementptr i8, ptr %ctx, i64 {layout.field('stop')}",
                "%stop = load volatile i32, ptr %stop.at",
                "%halt = icmp ne i32 %stop, 0",
                "br i1 %halt, label %stopped, label %begin, !prof !2",
                "begin:",
            ]
        lines = [
            f'define internal i32 @"func_{self.plan.function.name}"(ptr noalias %ctx, ptr noalias %blk, i32 %thread, '
            f"i64 %stack{arguments}) {self.unit.attributes} {{",
            "entry:",
            *self.allocas,
            *poll,
            *self.prologues[Level.LAUNCH],
            "br label %b0",
            *self.body,
            *self.failures,
            "fault:",
            f"ret i32 {layout.FUNCTION_FAULT}",
            "stopped:",
            f"ret i32 {layout.FUNCTION_STOPPED}",
            "leave:",
            *leaving,
            f"ret i32 {layout.FUNCTION_EXIT}",
            "}",
        ]
        return "\n".join(lines)
