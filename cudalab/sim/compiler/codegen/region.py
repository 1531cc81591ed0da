"""The skeleton of a kernel with suspension points: one function per region, run for a range of the block's threads.

``region(ctx, block, first, end, state)`` runs threads ``first … end − 1`` one after the other from their suspension
point to the next. Live registers are spilled to the thread's frame. The region returns the point at which all its
threads are suspended, or ``EXITED`` if all have exited the kernel; otherwise ``DIVERGED``, after writing each thread's
state to ``context.states``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from cudalab.sim.abi import Progress
from cudalab.sim.compiler.codegen import polling, work
from cudalab.sim.compiler.codegen.emitter import register_type
from cudalab.sim.compiler.codegen.environment import WaitingEnvironment
from cudalab.sim.compiler.codegen.plan import Plan
from cudalab.sim.compiler.codegen.point_results import take_results
from cudalab.sim.compiler.codegen.threads import ThreadCode
from cudalab.sim.compiler.codegen.unit import Unit
from cudalab.sim.compiler.codegen.wide.part import WidePart
from cudalab.sim.compiler.passes.control_flow import Block
from cudalab.sim.compiler.passes.regions import Point, Region
from cudalab.sim.compiler.passes.rematerialisation import Level
from cudalab.sim.compiler.passes.suspension import INTERLEAVE, PointKind, is_poll
from cudalab.sim.compiler.ptx.nodes import Register
from cudalab.sim.compiler.runtime import layout

_LITERAL_BITS = {
    layout.MASK: layout.LITERAL_MASK,
    layout.B: layout.LITERAL_B,
    layout.C: layout.LITERAL_C,
}


_COUNT_ROUND = (
    f"%round.at = getelementptr i8, ptr %ctx, i64 {layout.field('print_round')}",
    "%round = load i32, ptr %round.at",
    "%round.next = add i32 %round, 1",
    "store i32 %round.next, ptr %round.at",
)
"""Tells what lanes print between two suspension points from what they print later (``machine/launch/printf.py``)."""


@dataclass
class PointTables:
    """``kinds``: the kind of each point; ``literals``: its literal operands, by scratch row."""

    kinds: dict[int, PointKind] = field(default_factory=lambda: {0: PointKind.ENTRY})
    literals: dict[int, dict[int, int]] = field(default_factory=dict)


class RegionKernel(ThreadCode, WaitingEnvironment):
    """Writes one region. ``points`` collects the descriptor of each suspension point."""

    def __init__(self, unit: Unit, plan: Plan, region: Region, points: PointTables) -> None:
        super().__init__(unit, plan)
        self.region = region
        self.kinds, self.literals = points.kinds, points.literals
        self.waits: list[tuple[int, str]] = []  # (point, label it comes from)
        self.points = {point.block: point for point in plan.points}
        self.point: Point | None = None
        self.exits = region.exits or any(
            instruction.opcode.startswith("call")
            for index in region.blocks
            for instruction in plan.blocks[index].instructions
        )

    def level_here(self, level: Level) -> Level:
        return level if level is Level.THREAD else (Level.THREAD if level is Level.ROW else Level.LAUNCH)

    def entry_state(self) -> str:
        return "%state"

    def tid(self, axis: int) -> str:
        """Read from the driver's tables: a warp's lanes may span rows of the block."""
        table = self.block_field((layout.TID_X, layout.TID_Y, layout.TID_Z)[axis], "ptr")

        def make() -> str:
            place = self.new(f"getelementptr i32, ptr {table}, i32 %thread")
            return self.new(f"load i32, ptr {place}, !invariant.load !0")

        return self.cached(("tid", axis), Level.THREAD, make)

    # -- frames and scratch memory

    def _row(self, field: str, offset: int) -> str:
        """The start of a per-thread array of the block."""

        def make() -> str:
            base = self._load_field(field, "ptr")
            if not offset:
                return base
            warps = self.context_field("warps", "i32")
            wide = self.cached("warps wide", Level.LAUNCH, lambda: self.new(f"zext i32 {warps} to i64"))
            return self.new(f"getelementptr i8, ptr {base}, i64 {self.new(f'mul i64 {wide}, {offset}')}")

        return self.cached((field, offset), Level.LAUNCH, make)

    def _frame_place(self, register: Register) -> str:
        row = self._row("frames", self.plan.slots[register])
        return self.new(f"getelementptr {_memory_type(register)}, ptr {row}, i64 %thread.wide")

    def _scratch_place(self, row: int) -> str:
        return self.new(f"getelementptr i32, ptr {self._row('scratch', row)}, i64 %thread.wide")

    # -- suspension

    def note(self, row: int, value: str) -> None:
        """Store an operand of this thread in scratch memory, unless it is a literal that the descriptor can hold."""
        if self.is_literal_of(row, value):
            return
        self.emit(f"store i32 {value}, ptr {self._scratch_place(row)}")

    def is_literal_of(self, row: int, value: str) -> bool:
        """Whether the operand of the current point is a literal; if so, enter it in the descriptor."""
        assert self.point is not None
        literals = self.literals.setdefault(self.point.number, {})
        if value[0] == "%" or row not in _LITERAL_BITS:
            return False
        literals[row] = int(value)
        return True

    def result(self, row: int) -> str:
        """Read a result that the driver stored for this thread."""
        return self.new(f"load i32, ptr {self._scratch_place(row)}")

    def suspend(self, block: Block) -> None:
        self.point = self.points[block.index]
        assert block.ending is not None
        if is_poll(block.ending.opcode):
            polling.wait(self)
        elif block.ending.opcode == INTERLEAVE:
            self.interleave()
        else:
            if self.follower is not None:
                self.follower.suspend(block.ending)
            self.lower(block.ending)

    def interleave(self) -> None:
        """Let the other threads come as far (``passes.races``): wait as in a polling loop, for one round."""
        assert self.point is not None
        self.kinds[self.point.number] = PointKind.POLL
        polling.mark(self, Progress.INTERLEAVED)
        self.keep_registers()
        self.waits.append((self.point.number, self.label_now))
        self.emit("br label %wait")

    def wait(self, kind: PointKind) -> None:
        """Spill live registers and suspend at the current point."""
        point = self.point
        assert point is not None
        self.kinds[point.number] = kind
        # an mbarrier wait is recorded when it is over, and counting conflicts is no wait in the program
        if self.unit.traced and kind not in (PointKind.MBARRIER, PointKind.CONFLICTS):
            mask = "0"
            literal = self.literals.get(point.number, {}).get(layout.MASK)
            if literal is not None:
                mask = str(literal)
            elif kind in (PointKind.NAMED_BARRIER, PointKind.ARRIVE):
                mask = self._barrier_tag()
            elif kind >= PointKind.SYNC and kind is not PointKind.ACTIVE_MASK:
                word = self.new(f"load i32, ptr {self._scratch_place(layout.MASK)}")
                mask = self.new(f"zext i32 {word} to i64")
            self.record(self.plan.site_of_point(point.number), mask)
        if self.plan.polls:
            polling.arrive(self, point.number, tells=kind is not PointKind.MBARRIER)
        self.keep_registers()
        self.waits.append((point.number, self.label_now))
        self.emit("br label %wait")

    def _barrier_tag(self) -> str:
        """The trace tag of the named barrier here (i64): its number, and the thread count in the upper bits."""
        assert self.point is not None
        literals = self.literals.get(self.point.number, {})
        parts = []
        for row in (layout.B, layout.C):
            known = literals.get(row)
            word = str(known) if known is not None else self.new(f"load i32, ptr {self._scratch_place(row)}")
            parts.append(self.new(f"zext i32 {word} to i64"))
        number = self.new(f"and i64 {parts[0]}, {layout.BARRIERS - 1}")
        return self.new(f"or i64 {number}, {self.new(f'shl i64 {parts[1]}, 32')}")

    def site_of_current_point(self) -> int:
        """The site of the current point."""
        assert self.point is not None
        return self.plan.site_of_point(self.point.number)

    def keep_registers(self) -> None:
        """Spill the registers live at the current point to the frame."""
        point = self.point
        assert point is not None
        for register in self._registers(point.live & self.region.written):
            value = self.value(register)
            if register.type == "pred":
                value = self.new(f"zext i1 {value} to i8")
            self.emit(f"store {_memory_type(register)} {value}, ptr {self._frame_place(register)}")

    def frame_word(self, offset: int) -> str:
        return self.new(f"getelementptr i64, ptr {self._row('frames', offset)}, i64 %thread.wide")

    def leave_loops(self, block: Block) -> None:
        polling.leave(self, block)

    def _registers(self, bits: int) -> list[Register]:
        registers = self.plan.function.registers
        return [register for register in self.plan.slots if bits >> register.index & 1 and registers]

    def leave(self) -> None:
        if self.unit.traced:
            self.record(self.plan.exit_site)
        if self.plan.polls:
            polling.mark(self, Progress.REAL)
        self.emit("br label %leave")

    # -- text

    def write(self, name: str, wide: WidePart | None = None) -> str:
        """The function's text; ``wide``: the code for groups of neighbouring threads."""
        needed = self.region.written
        for index in self.region.blocks:
            needed |= self.plan.liveness.exposed[index]
        for number, start in self.region.starts:
            self._write_start(number, start, needed)
        self.write_blocks(self.region.blocks)
        if len(self.region.starts) == 1:
            enter = f"br label %start.{self.region.starts[0][0]}"
        else:
            cases = " ".join(f"i32 {number}, label %start.{number}" for number, _ in self.region.starts)
            enter = f"switch i32 %state, label %start.0 [ {cases} ]"
        slots = work.begin_launch(self)
        begin = work.begin_thread(self)
        latch = self._latch(wide)
        loop = self._threads(wide)
        lines = [
            f'define internal i32 @"{name}"(ptr noalias %ctx, ptr noalias %blk, i32 %first, i32 %end, i32 %state) '
            f"{self.unit.attributes} {{",
            "entry:",
            *(_COUNT_ROUND if self.plan.prints else ()),
            *self.allocas,
            *(wide.allocas if wide else ()),
            *self.prologues[Level.LAUNCH],
            *slots,
            *(wide.launch if wide else ()),
            *loop,
            *self.prologues[Level.THREAD],
            *begin,
            enter,
            *self.body,
            *self.failures,
            *(_side_by_side(wide) if wide else ()),
            *latch,
            "fault:",
            f"ret i32 {layout.FAULTED}",
            "stopped:",
            f"ret i32 {layout.STOPPED}",
            "}",
        ]
        return "\n".join(lines)

    def _write_start(self, number: int, start: int, needed: int) -> None:
        """The resumption code of a point: reload spilled registers and fetch the operation's results."""
        self.values, self.dirty = {}, {}
        self.label(f"start.{number}")
        if self.plan.polls:
            polling.begin(self, number)
        if not number and self.plan.waits_for_cluster:
            self.emit(f"store i64 0, ptr {self.frame_word(self.plan.cluster_offset)}")
        if number:
            point = self.plan.points[number - 1]
            for register in self._registers(point.live & needed):
                value = self.new(f"load {_memory_type(register)}, ptr {self._frame_place(register)}")
                if register.type == "pred":
                    value = self.new(f"trunc i8 {value} to i1")
                self.emit(f"store {register_type(register)} {value}, ptr {self.slot(register)}")
            self.instruction = point.instruction
            take_results(self, point)
            if self.follower is not None:
                self.follower.resume(point.instruction)
            self.flush(-1)
        self.emit(f"br label %b{start}")

    def _threads(self, wide: WidePart | None) -> list[str]:
        """The header of the loop over threads. Threads before ``%until`` run one by one."""
        lines = ["br label %thread.start", "thread.start:"]
        if wide is None:
            lines += [
                "%position = phi i32 [ %first, %entry ], [ %position.next, %latch ]",
                "%or = phi i32 [ 0, %entry ], [ %or.next, %latch ]",
                "%and = phi i32 [ -1, %entry ], [ %and.next, %latch ]",
            ]
        else:
            lines += [
                "%position = phi i32 [ %first, %entry ], [ %position.next, %latch ], [ %wide.next, %wide.latch ], "
                "[ %position, %wide.again ]",
                "%or = phi i32 [ 0, %entry ], [ %or.next, %latch ], [ %wide.or, %wide.latch ], [ %or, %wide.again ]",
                "%and = phi i32 [ -1, %entry ], [ %and.next, %latch ], [ %wide.and, %wide.latch ], "
                "[ %and, %wide.again ]",
                "%until = phi i32 [ 0, %entry ], [ %until, %latch ], [ 0, %wide.latch ], [ %wide.until, %wide.again ]",
                "%left = sub i32 %end, %position",
                f"%room = icmp uge i32 %left, {wide.width}",
                f"%odd = and i32 %position, {wide.width - 1}",
                "%even = icmp eq i32 %odd, 0",
                "%free = icmp uge i32 %position, %until",
                f"%side.1 = and i1 %room, {wide.fits}",
                "%side.2 = and i1 %even, %free",
                "%side = and i1 %side.1, %side.2",
                "br i1 %side, label %wide.start, label %thread.one",
                "thread.one:",
            ]
        if self.unit.shuffles:
            order = self._order()
            self.unit.declare("cl_thread", "declare i32 @cl_thread(ptr, i32) nounwind")
            lines.append(f"%thread = call i32 @cl_thread(ptr {order}, i32 %position)")
        else:
            lines.append("%thread = add i32 %position, 0")
        return [*lines, "%thread.wide = zext nneg i32 %thread to i64"]

    @property
    def leaving(self) -> list[str]:
        found = super().leaving
        if self.plan.waits_for_cluster:  # the cluster's barrier no longer counts the thread
            saved, self.lines = self.lines, found
            word = self.frame_word(self.plan.cluster_offset)
            self.runtime("cl_cluster_exit", "void", f"ptr {self.context}", f"ptr {word}")
            self.lines = saved
        return found

    def _order(self) -> str:
        """The thread order: over the whole block if the region runs all of it, otherwise within each warp."""

        def make() -> str:
            whole, within = self.context_field("thread_order", "ptr"), self.block_field(layout.ORDER, "ptr")
            count = self.context_field("threads", "i32")
            last = self.new(f"icmp eq i32 %end, {count}")
            every = self.new(f"and i1 {last}, {self.new('icmp eq i32 %first, 0')}")
            return self.new(f"select i1 {every}, ptr {whole}, ptr {within}")

        return self.cached("thread order", Level.LAUNCH, make)

    def _latch(self, wide: WidePart | None) -> list[str]:
        """The latch of the loop over threads, and the result."""
        arrivals = [f"[ {number}, %{label} ]" for number, label in self.waits]
        lines = []
        if self.waits:
            lines += ["wait:", f"%point = phi i32 {', '.join(arrivals)}", "br label %latch"]
        sources = ["[ %point, %wait ]"] if self.waits else []
        if self.exits:
            lines += ["leave:", *self.leaving, "br label %latch"]
            sources.append(f"[ {layout.EXITED}, %leave ]")
        lines += ["latch:", f"%next = phi i32 {', '.join(sources)}"] if sources else ["latch:", "%next = add i32 0, 0"]
        if len(self.region.ends) + self.exits > 1:
            states = self.context_field("states", "ptr")
            lines += [
                f"%state.at = getelementptr i32, ptr {states}, i64 %thread.wide",
                "store i32 %next, ptr %state.at",
            ]
        more = ", [ %wide.{0}, %wide.latch ]" if wide else ""
        counted: list[str] = []
        if work.counts_work(self):
            linear = self.block_field(layout.LINEAR, "i64", Level.LAUNCH)
            counted = work.end_thread(self, "%thread", "%position.next", "%end", linear)
        return [
            *lines,
            "%or.next = or i32 %or, %next",
            "%and.next = and i32 %and, %next",
            "%position.next = add nuw nsw i32 %position, 1",
            *counted,
            "%more = icmp ult i32 %position.next, %end",
            "br i1 %more, label %thread.start, label %done",
            "done:",
            f"%or.all = phi i32 [ %or.next, %latch ]{more.format('or')}",
            f"%and.all = phi i32 [ %and.next, %latch ]{more.format('and')}",
            "%same = icmp eq i32 %or.all, %and.all",
            f"%answer = select i1 %same, i32 %or.all, i32 {layout.DIVERGED}",
            "ret i32 %answer",
        ]


def _side_by_side(wide: WidePart) -> list[str]:
    """The code for a group of neighbouring threads."""
    return [
        "wide.start:",
        "%wthread = add i32 %position, 0",
        *wide.group,
        *wide.body,
        *wide.latch,
        f"%wide.next = add i32 %position, {wide.width}",
        "%wide.more = icmp ult i32 %wide.next, %end",
        "br i1 %wide.more, label %thread.start, label %done",
        "wide.again:",
        f"%wide.until = add i32 %position, {wide.width}",
        "br label %thread.start",
    ]


def _memory_type(register: Register) -> str:
    return "i8" if register.type == "pred" else register_type(register)


def write_waiting_kernel(unit: Unit, plan: Plan, wide: Mapping[int, WidePart]) -> None:
    """Add a kernel's regions, its descriptor and its entry point to the unit; ``wide``: regions' forms for lanes."""
    name = plan.function.name
    tables = PointTables()
    functions: dict[int, str] = {}
    for number, region in enumerate(plan.regions):
        symbol = f"region_{name}_{number}"
        unit.functions.append(RegionKernel(unit, plan, region, tables).write(symbol, wide.get(number)))
        for point, _ in region.starts:
            functions[point] = symbol
    count = len(plan.points) + 1
    table = ", ".join(f'ptr @"{functions[number]}"' for number in range(count))
    regions = unit.constant("regions", f"[{count} x ptr] [{table}]")
    bytes_ = ", ".join(f"i8 {int(tables.kinds[number])}" for number in range(count))
    kinds = unit.constant("kinds", f"[{count} x i8] [{bytes_}]")
    rows = ", ".join(_literal_record(plan, tables, number) for number in range(count))
    literals = unit.constant("literals", f"[{count} x {layout.LITERALS}] [{rows}]")
    descriptor = unit.constant(
        "kernel",
        f"{layout.DESCRIPTOR} {{i64 {plan.site_of_point(1)}, ptr {regions}, ptr {kinds}, ptr {literals}, "
        f"i64 {plan.parameter_bytes}, ptr {'@cl_async_settle' if plan.copies_asynchronously else 'null'}}}",
    )
    unit.declare("cl_run", "declare i32 @cl_run(ptr, i64, i64, ptr)")
    unit.functions.append(
        f"{unit.entry(name)}(ptr %ctx, i64 %first, i64 %end) nounwind {{\n"
        f"%status = tail call i32 @cl_run(ptr %ctx, i64 %first, i64 %end, ptr {descriptor})\nret i32 %status\n}}"
    )


def _literal_record(plan: Plan, tables: PointTables, number: int) -> str:
    """The literal operands of one point, as the driver reads them."""
    found = tables.literals.get(number, {})
    flags = sum(_LITERAL_BITS[row] for row in found)
    for region in plan.regions:
        if region.unordered:
            starts = [start for start, _ in region.starts]
            flags |= (number in starts) * layout.UNORDERED | (not number) * layout.ANY_UNORDERED
    if number and len(plan.points[number - 1].results) > 1:
        second = plan.points[number - 1].results[1]
        if not plan.liveness.ever_read >> second.index & 1:
            flags |= layout.NO_PREDICATE
    elif number:
        flags |= layout.NO_PREDICATE
    if number and plan.points[number - 1].instruction.opcode.startswith(("bar.", "barrier.")):
        flags |= layout.REDUCING if ".red" in plan.points[number - 1].instruction.opcode else 0
    mask, b, c = (found.get(row, 0) for row in _LITERAL_BITS)
    return f"{layout.LITERALS} {{i32 {flags}, i32 {mask}, i32 {b}, i32 {c}}}"
