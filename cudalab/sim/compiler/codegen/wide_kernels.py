"""Wide forms of the two skeletons: a region, and a kernel without suspension points.

Frames hold spilled registers as contiguous per-thread arrays, and scratch memory likewise holds the operands and
results of warp operations; a group of lanes accesses them as one vector.
"""

from __future__ import annotations

from collections.abc import Callable

from cudalab.sim.compiler.codegen import work
from cudalab.sim.compiler.codegen.emitter import register_type
from cudalab.sim.compiler.codegen.plan import Plan
from cudalab.sim.compiler.codegen.point_results import take_results
from cudalab.sim.compiler.codegen.region import PointTables, RegionKernel
from cudalab.sim.compiler.codegen.shapes import Affine, NotWide, Vector
from cudalab.sim.compiler.codegen.simple import SimpleKernel
from cudalab.sim.compiler.codegen.unit import Unit
from cudalab.sim.compiler.codegen.wide.code import Facts, Shape, WideCode, may_be_wide
from cudalab.sim.compiler.codegen.wide.part import WidePart
from cudalab.sim.compiler.object_code import lanes_of_host
from cudalab.sim.compiler.passes.divergence import Flow, find_flow
from cudalab.sim.compiler.passes.regions import Region
from cudalab.sim.compiler.passes.rematerialisation import Level
from cudalab.sim.compiler.passes.suspension import PointKind, is_poll
from cudalab.sim.compiler.ptx.nodes import Register
from cudalab.sim.compiler.runtime import layout

_MOST_ATTEMPTS = 12


class WideRegion(WideCode, RegionKernel):
    """Writes the wide form of a region."""

    def __init__(self, unit: Unit, plan: Plan, region: Region, facts: Facts, flow: Flow) -> None:
        super().__init__(unit, plan, region, PointTables())
        self.set_up(facts, flow, lanes_of_host())
        self.outcomes = len(region.ends) + self.exits
        self._kept: set[Register] = set()

    def tid(self, axis: int) -> str:
        table = self.block_field((layout.TID_X, layout.TID_Y, layout.TID_Z)[axis], "ptr")

        def make() -> str:
            place = self.raw(f"getelementptr i32, ptr {table}, i32 %wthread")
            first = self.raw(f"load i32, ptr {place}, !invariant.load !0")
            zeros = self.width.bit_length() - 1
            return self.keyed(Affine(first, 1, zeros, "i32")) if axis == 0 else first

        return self.cached(("tid", axis), Level.THREAD, make)

    # -- frames and scratch memory

    def _frame_place(self, register: Register) -> str:
        row = self._row("frames", self.plan.slots[register])
        return self.raw(f"getelementptr {_memory_type(register)}, ptr {row}, i64 %wthread.wide")

    def _scratch_place(self, row: int) -> str:
        raise NotWide("an operation with scratch memory of its own")

    def frame_word(self, offset: int) -> str:
        raise NotWide("a word in the frame")

    def _scratch_row(self, row: int) -> str:
        return self.raw(f"getelementptr i32, ptr {self._row('scratch', row)}, i64 %wthread.wide")

    def note(self, row: int, value: str) -> None:
        assert self.point is not None
        if self.is_literal_of(row, value):
            return
        place = self.keyed(Affine(self._scratch_row(row), 4, 0, "ptr"))
        self.emit(f"store i32 {value}, ptr {place}, align 4")

    def result(self, row: int) -> str:
        whole = self.vector_type("i32")
        return self.made(f"load {whole}, ptr {self._scratch_row(row)}, align 4", "i32")

    def keep_registers(self) -> None:
        point = self.point
        assert point is not None
        for register in self._registers(point.live & self.region.written):
            value = self.value(register)
            type = register_type(register)
            self.facts.note(self.facts.frames, register, None if type == "i1" else self.shape_of(register, value))
            if type == "i1":
                value = self.new(f"zext i1 {value} to i8")
                type = "i8"
            place = self.keyed(Affine(self._frame_place(register), _bytes(register), 0, "ptr"))
            self.emit(f"store {type} {value}, ptr {place}, align {_bytes(register)}")

    def keeps_from_start(self, register: Register) -> bool:
        return register in self._kept

    def wait(self, kind: PointKind) -> None:
        point = self.point
        assert point is not None
        if is_poll(point.instruction.opcode):
            raise NotWide("a loop that polls memory")
        self.keep_registers()
        self._arrive(point.number)

    def leave(self) -> None:
        self._arrive(layout.EXITED)

    def _arrive(self, state: int) -> None:
        """The active lanes have reached the region's end in this state."""
        if self.outcomes > 1:
            whole, lanes = self.vector_type("i32"), self.vector_type("i1")
            value = f"splat (i32 {state})"
            if self.mask is not None:
                old = self.raw(f"load {whole}, ptr {self._next()}")
                value = self.raw(f"select {lanes} {self.mask}, {whole} {value}, {whole} {old}")
            self.lines.append(f"store {whole} {value}, ptr {self._next()}")
        self.single_state = state
        self.all_arrived()

    single_state = 0

    def _next(self) -> str:
        return self.cached("next states", Level.LAUNCH, lambda: self.alloca(self.vector_type("i32")))

    # -- text

    def part(self) -> WidePart:
        """Write everything."""
        number, start = self.region.starts[0]
        self._write_wide_start(number, start)
        self.write_wide_blocks()
        width = self._special_word("%ntid.x")
        fits = self.cached(
            "fits",
            Level.LAUNCH,
            lambda: self.raw(f"icmp eq i32 {self.raw(f'and i32 {width}, {self.width - 1}')}, 0"),
        )
        latch = ["wide.latch:"]
        if self.outcomes > 1:
            whole = self.vector_type("i32")
            states = self.context_field("states", "ptr")
            latch += [
                f"%wide.states = load {whole}, ptr {self._next()}",
                f"%wide.at = getelementptr i32, ptr {states}, i64 %wthread.wide",
                f"store {whole} %wide.states, ptr %wide.at, align 4",
            ]
            for operation in ("or", "and"):
                name = f"llvm.vector.reduce.{operation}.v{self.width}i32"
                self.unit.declare(name, f"declare i32 @{name}({whole})")
                latch += [
                    f"%wide.{operation}.lanes = call i32 @{name}({whole} %wide.states)",
                    f"%wide.{operation} = {operation} i32 %{operation}, %wide.{operation}.lanes",
                ]
        else:
            latch += [f"%wide.{op} = {op} i32 %{op}, {self.single_state}" for op in ("or", "and")]
        begin = work.begin_thread(self)
        if begin:
            latch += self.count_work("%end", self.block_field(layout.LINEAR, "i64", Level.LAUNCH))
        prologues = self.prologues
        return WidePart(
            self.width,
            self.allocas,
            prologues[Level.LAUNCH],
            [],
            [],
            [
                "%wthread.wide = zext nneg i32 %wthread to i64",
                *self.initial,
                *prologues[Level.THREAD],
                *begin,
                "br label %wstart",
            ],
            [*self.body, *self.failures],
            latch,
            fits,
        )

    def _write_wide_start(self, number: int, start: int) -> None:
        self.values, self.dirty = {}, {}
        self.label("wstart")
        if number:
            needed = self.region.written
            for index in self.region.blocks:
                needed |= self.plan.liveness.exposed[index]
            point = self.plan.points[number - 1]
            self._load_frames(self._registers(point.live & needed))
            self.instruction = point.instruction
            take_results(self, point)
            self._kept.update(point.results)
            self.flush(-1)
        self.lines.append(f"br label %wi{self.flow.position[self.flow.places[0]]}")

    def _load_frames(self, registers: list[Register]) -> None:
        differing: list[str] = []
        lanes = self.vector_type("i1")
        for register in registers:
            self._kept.add(register)
            type, memory = register_type(register), _memory_type(register)
            whole = self.vector_type(memory)
            place = self._frame_place(register)
            found = self.raw(f"load {whole}, ptr {place}, align {_bytes(register)}")
            shape: Shape = None if type == "i1" else self.facts.frames.get(register, (0, 64))
            if type == "i1":
                value = self.made(f"trunc {whole} {found} to {lanes}", "i1")
            elif shape is None:
                value = self.keyed(Vector(found, type))
            else:
                value = self._expect(register, shape, found, place, differing)
            self.assign(register, value)
        if differing:
            together = differing[0]
            for each in differing[1:]:
                together = self.raw(f"or {lanes} {together}, {each}")
            self.guard(self.any_of(together))

    def _expect(self, register: Register, shape: Shape, found: str, place: str, differing: list[str]) -> str:
        """Reload a register assumed uniform or affine, and compare the other lanes with the value that lane 0
        implies."""
        assert shape is not None
        type, lanes = register_type(register), self.vector_type("i1")
        base = self.raw(f"load {type}, ptr {place}, align {_bytes(register)}")
        zeros = 0
        if register.is_float:
            bits = f"i{register.bits}"
            whole = self.vector_type(bits)
            a = self.raw(f"bitcast {self.vector_type(type)} {found} to {whole}")
            splat = self.vector(base, type)
            b = self.raw(f"bitcast {self.vector_type(type)} {splat} to {whole}")
        else:
            bits, whole, a = type, self.vector_type(type), found
            zeros = min(shape[1], self.width.bit_length() + 3)
            b = self.vector(base, type)
            if shape[0]:
                b = self.raw(f"add {whole} {b}, {self.ramp(type, shape[0])}")
            if zeros and not shape[0]:
                zeros = 0  # of no use
        differing.append(self.raw(f"icmp ne {whole} {a}, {b}"))
        if zeros:
            rest = self.raw(f"and {bits} {base}, {(1 << zeros) - 1}")
            odd = self.raw(f"icmp ne {bits} {rest}, 0")
            one = self.raw(f"insertelement {lanes} zeroinitializer, i1 {odd}, i64 0")
            differing.append(one)
        return self.keyed(Affine(base, shape[0], zeros, type))


def _memory_type(register: Register) -> str:
    return "i8" if register.type == "pred" else register_type(register)


def _bytes(register: Register) -> int:
    return max(1, register.bits // 8)


class WideSimple(WideCode, SimpleKernel):
    """Writes the wide body of a kernel without suspension points; ``%x`` is that of the first lane."""

    def __init__(self, unit: Unit, plan: Plan, facts: Facts, flow: Flow) -> None:
        super().__init__(unit, plan)
        self.set_up(facts, flow, lanes_of_host())

    def tid(self, axis: int) -> str:
        if axis:
            return ("%x", "%y", "%z")[axis]
        return self.keyed_once("tid.x", lambda: Affine("%x", 1, self.width.bit_length() - 1, "i32"))

    def leave(self) -> None:
        self.all_arrived()

    def part(self) -> WidePart:
        """Write everything."""
        self.write_wide_blocks()
        width = self._special_word("%ntid.x")
        fits = self.cached(
            "fits",
            Level.LAUNCH,
            lambda: self.raw(f"icmp eq i32 {self.raw(f'and i32 {width}, {self.width - 1}')}, 0"),
        )
        begin = work.begin_thread(self)
        latch = ["wide.latch:"]
        if begin:
            latch += self.count_work(self.context_field("threads", "i32"), "%linear")
        prologues = self.prologues
        first = self.flow.position[self.flow.places[0]]
        return WidePart(
            self.width,
            self.allocas,
            prologues[Level.LAUNCH],
            prologues[Level.BLOCK],
            prologues[Level.ROW],
            [*self.initial, *prologues[Level.THREAD], *begin, f"br label %wi{first}"],
            [*self.body, *self.failures],
            latch,
            fits,
        )


def wide_simple(unit: Unit, plan: Plan) -> WidePart | None:
    """The wide form of a kernel without suspension points, if it has one."""
    if not may_be_wide(unit, plan):
        return None
    flow = find_flow(plan.blocks, [block.index for block in plan.blocks], 0)
    if flow is None:
        return None
    facts = Facts({})
    return _settle(unit, facts, lambda: WideSimple(unit, plan, facts, flow).part())


def wide_regions(unit: Unit, plan: Plan) -> dict[int, WidePart]:
    """The wide forms of a kernel's regions, by their number."""
    if not may_be_wide(unit, plan):
        return {}
    frames: dict[Register, Shape] = {}
    flows: dict[int, tuple[Flow, Facts]] = {}
    for number, region in enumerate(plan.regions):
        if len(region.starts) == 1 and any(_works(plan, index) for index in region.blocks):
            flow = find_flow(plan.blocks, region.blocks, region.starts[0][1])
            if flow is not None:
                flows[number] = flow, Facts(frames)
    parts: dict[int, WidePart] = {}
    for _ in range(_MOST_ATTEMPTS):
        before = dict(frames)
        parts = {}
        for number, (flow, facts) in list(flows.items()):
            region = plan.regions[number]
            made = _settle(unit, facts, lambda: WideRegion(unit, plan, region, facts, flow).part())  # noqa: B023
            if made is None:
                del flows[number]
            else:
                parts[number] = made
        if frames == before:
            return parts
    return {}


def _works(plan: Plan, index: int) -> bool:
    return bool(plan.blocks[index].instructions) or plan.blocks[index].size > 0


def _settle(unit: Unit, facts: Facts, make: Callable[[], WidePart]) -> WidePart | None:
    """Write repeatedly until the facts reach a fixed point. Constants of earlier attempts are dropped."""
    count = len(unit.constants)
    for _ in range(_MOST_ATTEMPTS):
        del unit.constants[count:]
        facts.changed = False
        try:
            part = make()
        except NotWide:
            break
        if not facts.changed:
            return part
    del unit.constants[count:]
    return None
