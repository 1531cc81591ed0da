"""Wide code: execution of a region for several neighbouring threads at once.

Scalar code pays a loop, a check and a branch per thread. Neighbouring threads mostly do the same at neighbouring
addresses: with vectors of 16 lanes a group of threads takes hardly longer than one. The code is that of one thread,
widened line by line (``lanes``); divergent branches are executed under masks (``passes.divergence``). Which values are
uniform, affine or varying at joins, and which branches diverge, is found by fixed-point iteration: the code is written
repeatedly, each time with the facts learned from the last (:class:`Facts`).

Checks are as exact as in scalar code. If the address is affine, the first and the last lane are compared with the
bounds; if one is outside, a cold path checks each active lane. A fault names the first offending lane. Threads of a
group run in lockstep, so a fault in a later lane may be found before one that an earlier lane would reach further on.

The threads of a group must be neighbours in x: the block's width is a multiple of the lanes. Reloaded values that are
assumed *uniform* or *affine* are verified first; if the check fails, or a narrow index would wrap inside the group, its
threads run one by one, as all other threads do: each function holds both forms. Code with calls, volatile accesses,
atomics whose result is used or that add floats, local arrays or pointers of unknown provenance has no wide form.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from cudalab.sim import abi
from cudalab.sim.compiler.codegen import work
from cudalab.sim.compiler.codegen.emitter import register_type
from cudalab.sim.compiler.codegen.plan import Plan
from cudalab.sim.compiler.codegen.shapes import Affine, NotWide, Vector
from cudalab.sim.compiler.codegen.unit import Unit
from cudalab.sim.compiler.codegen.wide.memory import ELSEWHERE, WideMemory, order_matters
from cudalab.sim.compiler.object_code import lanes_of_host
from cudalab.sim.compiler.passes.control_flow import Block, End
from cudalab.sim.compiler.passes.divergence import END, Flow, Layout
from cudalab.sim.compiler.passes.operands import definitions
from cudalab.sim.compiler.passes.rematerialisation import Level
from cudalab.sim.compiler.ptx.nodes import Instruction, Register

#: Regions with more PTX instructions stay scalar: wide code is longer.
LONGEST = 1500
#: Variants of native code that have wide forms.
WIDE_VARIANTS = ("wide", "wide_atomic", "sanitize")

#: Shape of a register at a join: (stride, known trailing zeros) if affine, None for a vector.
Shape = tuple[int, int] | None


def join(a: Shape, b: Shape) -> Shape:
    """The join of two shapes."""
    if a is None or b is None or a[0] != b[0]:
        return None
    return a[0], min(a[1], b[1])


@dataclass
class Facts:
    """Facts learned from writing a region so far. ``frames`` is shared by the regions of a kernel."""

    frames: dict[Register, Shape]
    slots: dict[Register, Shape] = field(default_factory=dict)
    parting: set[int] = field(default_factory=set)
    changed: bool = False

    def note(self, shapes: dict[Register, Shape], register: Register, shape: Shape) -> None:
        old = shapes.get(register, shape)
        new = join(old, shape)
        if register not in shapes or new != old:
            shapes[register] = new
            self.changed = True

    def part(self, block: int) -> None:
        if block not in self.parting:
            self.parting.add(block)
            self.changed = True


class WideCode(WideMemory):
    """Mix-in for the skeleton of a kernel: writes wide blocks."""

    wide = True
    prefix = "w"
    scalar_levels = frozenset({Level.LAUNCH, Level.BLOCK, Level.ROW})
    plan: Plan
    facts: Facts
    flow: Flow
    layout: Layout

    def set_up(self, facts: Facts, flow: Flow, width: int) -> None:
        self.facts, self.flow, self.width = facts, flow, width
        self.begin_lanes()
        self.layout = flow.layout(facts.parting, self.plan.liveness)
        self.initial: list[str] = []  # code at the start of a group
        self._masks: dict[int, str] = {}
        self._defined = self._count_definitions()
        self._here: frozenset[int] = frozenset()
        self._dirty_from = self._first_effects()

    def _count_definitions(self) -> dict[Register, list[int]]:
        found: dict[Register, list[int]] = {}
        for index in self.flow.successors:
            for instruction in self.plan.blocks[index].instructions:
                for register in definitions(instruction):
                    found.setdefault(register, []).append(index)
        return found

    def _first_effects(self) -> set[int]:
        """Places in the execution order that a side effect may precede."""
        blocks = self.plan.blocks
        dirty: set[int] = set()
        so_far = False
        for number, place in enumerate(self.flow.places):
            body = self.flow.loops.get(place.block, ()) if not place.again else ()
            if any(self._has_effect(blocks[index]) for index in body):
                so_far = True
            if so_far:
                dirty.add(number)
            so_far = so_far or self._has_effect(blocks[place.block])
        return dirty

    @staticmethod
    def _has_effect(block: Block) -> bool:
        return block.end is End.SUSPEND or any(
            instruction.opcode.startswith(("st.", "red", "atom")) for instruction in block.instructions
        )

    # -- environment

    def guard(self, condition: str) -> None:
        fine = self.fresh_label("even")
        self.lines.append(f"br i1 {condition}, label %wide.again, label %{fine}, !prof !2")
        self.label(fine)
        self.guarded = True

    guarded = False

    def thread(self) -> str:
        return self.keyed_once("thread", lambda: Affine("%wthread", 1, self.width.bit_length() - 1, "i32"))

    def keyed_once(self, key: str, make: Any) -> str:
        found = self.cache.get(("key", key))
        if found is None:
            found = self.keyed(make())
            self.cache["key", key] = found
        return found

    def _special_word(self, name: str) -> str:
        found: str = super()._special_word(name)  # type: ignore[misc]
        if name == "%ntid.x":
            self.zeros[found] = self.width.bit_length() - 1
        return found

    def parameter_variable(self, name: str) -> str:
        raise NotWide("a call")

    # -- registers

    def slot(self, register: Register) -> str:
        found = self.slots.get(register)
        if found is None:
            found = f"%wr{register.index}"
            self.slots[register] = found
            type = register_type(register)
            shape = self._shape_of_slot(register)
            whole = type if shape is not None else self.vector_type(type)
            zero = "zeroinitializer" if shape is None else "0.0" if register.is_float else "0"
            self.allocas.append(f"{found} = alloca {whole}")
            self.initial.append(f"store {whole} {zero}, ptr {found}")
        return found

    def _shape_of_slot(self, register: Register) -> Shape:
        if self.layout.varying >> register.index & 1:
            return None
        return self.facts.slots.get(register, (0, 64))

    def value(self, register: Register) -> str:
        found = self.values.get(register) or self.fixed.get(register)
        recomputed = self.plan.recomputed
        if found is not None or register in recomputed.constants or register in recomputed.values:
            return super().value(register)
        type = register_type(register)
        shape = self._shape_of_slot(register)
        place = self.slot(register)
        if shape is None:
            found = self.keyed(Vector(self.raw(f"load {self.vector_type(type)}, ptr {place}"), type))
        else:
            base = self.raw(f"load {type}, ptr {place}")
            found = self.keyed(Affine(base, shape[0], shape[1], type))
        self.values[register] = found
        return found

    def shape_of(self, register: Register, value: str) -> Shape:
        found = self.affine(value, register_type(register))
        return None if found is None else (found.stride, found.zeros)

    def flush(self, live: int) -> None:
        for register, value in self.dirty.items():
            if not live >> register.index & 1:
                continue
            type = register_type(register)
            self.facts.note(self.facts.slots, register, self.shape_of(register, value))
            if self._shape_of_slot(register) is not None:
                found = self.affine(value, type)
                self.lines.append(f"store {type} {found.base if found else 'poison'}, ptr {self.slot(register)}")
                continue
            whole = self.vector_type(type)
            vector = self.vector(value, type)
            place = self.slot(register)
            if self.mask is not None and self._needs_blend(register):
                old = self.raw(f"load {whole}, ptr {place}")
                lanes = self.vector_type("i1")
                vector = self.raw(f"select {lanes} {self.mask}, {whole} {vector}, {whole} {old}")
            self.lines.append(f"store {whole} {vector}, ptr {place}")
        self.dirty = {}

    def _needs_blend(self, register: Register) -> bool:
        """Whether lanes that are not active may still need the register's old value."""
        places = self._defined.get(register, [])
        if len(places) != 1 or self.keeps_from_start(register):
            return True
        live_in = self.plan.liveness.live_in
        for head, body in self.flow.loops.items():
            if places[0] not in body:
                continue
            if live_in[head] >> register.index & 1:
                return True
            for index in body:
                for successor in self.flow.successors[index]:
                    if successor not in body and live_in[successor] >> register.index & 1:
                        return True
        return False

    def keeps_from_start(self, register: Register) -> bool:
        """Whether the register has a value where the region starts."""
        return False

    # -- instructions

    def lower(self, instruction: Instruction) -> None:
        if self.level is None and self._is_recomputed(instruction):
            return
        name = instruction.opcode.split(".", 1)[0]
        if name in ("atom", "red") and not self.lane_pointer:
            self.lower_atomic(instruction)
        elif name == "call":
            raise NotWide("a call")
        else:
            super().lower(instruction)

    def _is_recomputed(self, instruction: Instruction) -> bool:
        """Whether all its results are rematerialised in a prologue on use."""
        known = self.plan.recomputed
        results = definitions(instruction)
        return bool(results) and all(each in known.values or each in known.constants for each in results)

    def fault(self, kind: abi.FaultKind, site: int, address: str = "0", size: int = 0) -> None:
        """Record the fault of the first active lane."""
        thread = self.raw(f"add i32 %wthread, {self.first_lane(self.mask)}")
        self.unit.declare("cl_fault", "declare void @cl_fault(ptr, ptr, i32, i32, i32, i64, i32) nounwind")
        self.lines.append(
            f"call void @cl_fault(ptr {self.context}, ptr {self.block}, i32 {thread}, i32 {int(kind)}, i32 {site}, "
            f"i64 {address}, i32 {size})"
        )
        self.lines.append("br label %fault")
        self.label(self.fresh_label("dead"))

    # -- blocks

    def _mask_place(self, position: int) -> str | None:
        """The variable with the mask of a place, if it has one."""
        place = self.flow.places[position]
        if position not in self.layout.parked and (place.again or place.block not in self.layout.masked):
            return None
        found = self._masks.get(position)
        if found is None:
            found = f"%wm{position}"
            self._masks[position] = found
            lanes = self.vector_type("i1")
            self.allocas.append(f"{found} = alloca {lanes}")
            self.initial.append(f"store {lanes} zeroinitializer, ptr {found}")
        return found

    def _send(self, target: int, mask: str | None, adding: bool) -> None:
        """Park the lanes of ``mask`` at a place."""
        place = self._mask_place(target)
        if place is None:
            return
        lanes = self.vector_type("i1")
        value = mask if mask is not None else "splat (i1 true)"
        if adding and target in self.layout.parked:
            value = self.raw(f"or {lanes} {self.raw(f'load {lanes}, ptr {place}')}, {value}")
        self.lines.append(f"store {lanes} {value}, ptr {place}")

    def _parked_label(self, position: int) -> str:
        return "wide.latch" if position == END else f"wp{position}"

    def write_wide_blocks(self) -> None:
        """Write all places in their order."""
        for position, place in enumerate(self.flow.places):
            if position not in self.layout.waiting:
                continue
            here = self._here = self.layout.waiting[position]
            lanes = self.vector_type("i1")
            variable = self._mask_place(position)
            if position in self.layout.parked:
                self.label(f"wp{position}")
                found = self.any_of(self.raw(f"load {lanes}, ptr {variable}"))
                following = self._parked_label(self.flow.next_of(here))
                self.lines.append(f"br i1 {found}, label %wi{position}, label %{following}")
            self.label(f"wi{position}")
            mask = None
            if variable is not None:
                mask = self.raw(f"load {lanes}, ptr {variable}")
                if position in self.layout.parked:
                    self.lines.append(f"store {lanes} zeroinitializer, ptr {variable}")
            if place.again:
                head = self.flow.position[self.flow.places[position].__class__(place.block)]
                self._send(head, mask, adding=False)
                work.take_back_edge(self, place.block, "%wthread", f"wi{head}")  # type: ignore[arg-type]
                continue
            self.mask = mask if place.block in self.layout.masked else None
            self.may_restart = position not in self._dirty_from
            self._write_wide_block(self.plan.blocks[place.block])

    def _write_wide_block(self, block: Block) -> None:
        self.values, self.dirty, self.group_bases, self.vectors = {}, {}, {}, {}
        work.enter_block(self, block.index)  # type: ignore[arg-type]
        if block.leaves or block.end in (End.POLL, End.INTERLEAVE):
            raise NotWide("a loop that polls memory, or a store that may overwrite others' updates")
        for instruction in block.instructions:
            self.lower(instruction)
        self.instruction = block.ending
        live = self.plan.liveness.live_out[block.index]
        if block.end is End.SUSPEND:
            self.suspend(block)  # type: ignore[attr-defined]
        elif block.end is End.JUMP:
            self.flush(live)
            self._jump(block, block.successors[0])
        elif block.end is End.BRANCH:
            assert block.guard is not None
            condition = self.value(block.guard)
            self.flush(live)
            first, second = block.successors
            if block.negated:
                first, second = second, first
            if self.is_uniform(condition) and block.index not in self.facts.parting:
                taken, other = self._arm(block, first), self._arm(block, second)
                self.lines.append(f"br i1 {condition}, label %{taken}, label %{other}")
            else:
                self.facts.part(block.index)
                self._part(block, condition, first, second)
        elif block.end is End.SWITCH:
            assert block.ending is not None
            index = self.integer(block.ending.operands[0], 32)
            self.flush(live)
            if not self.is_uniform(index):
                raise NotWide("a jump table with different targets for neighbouring threads")
            arms = [self._arm(block, successor) for successor in block.successors]
            cases = " ".join(f"i32 {number}, label %{arm}" for number, arm in enumerate(arms))
            self.lines.append(f"switch i32 {index}, label %{arms[0]} [ {cases} ]")
        elif block.end is End.TRAP:
            assert block.ending is not None
            self.fault(abi.FaultKind.TRAP, self.plan.other_sites[block.ending])
            self.lines.append("br label %fault")
        else:
            self.leave()  # type: ignore[attr-defined]

    def all_arrived(self) -> None:
        """The lanes of this block have reached the region's end: continue with the parked lanes."""
        self.lines.append(f"br label %{self._parked_label(self.flow.next_of(self._here))}")

    def _part(self, block: Block, condition: str, first: int, second: int) -> None:
        lanes = self.vector_type("i1")
        chosen = self.vector(condition, "i1")
        others = self.raw(f"xor {lanes} {chosen}, splat (i1 true)")
        if self.mask is not None:
            chosen = self.raw(f"and {lanes} {chosen}, {self.mask}")
            others = self.raw(f"and {lanes} {others}, {self.mask}")
        targets = set()
        for successor, mask in ((first, chosen), (second, others)):
            target = self.flow.target(block.index, successor, self._here, True)
            targets.add(target)
            self._send(target, mask, adding=True)
            if self._leads_back(block, successor):
                work.go_back(self, successor, self.any_of(mask))  # type: ignore[arg-type]
        self.lines.append(f"br label %{self._parked_label(self.flow.next_of(self._here | targets))}")

    def _leads_back(self, block: Block, successor: int) -> bool:
        """Is this the back-edge of a loop with suspension points, which is no loop of the region?"""
        return (block.index, successor) in self.plan.back_edges and not self.flow.is_back_edge(block.index, successor)

    def _jump(self, block: Block, successor: int) -> None:
        self.lines.append(f"br label %{self._arm(block, successor)}")

    def _arm(self, block: Block, successor: int) -> str:
        """The label of an edge that all active lanes take together."""
        label = self.fresh_label("edge")
        saved, self.lines = self.lines, []
        self.label(label)
        target = self.flow.target(block.index, successor, self._here, False)
        back = self.flow.is_back_edge(block.index, successor)
        if back and not self.flow.places[target].again:
            self._send(target, self.mask, adding=False)
            work.take_back_edge(self, successor, "%wthread", f"wi{target}")  # type: ignore[arg-type]
        else:
            if self._leads_back(block, successor):
                work.go_back(self, successor)  # type: ignore[arg-type]
            following = self.flow.next_of(self._here | {target})
            self._send(target, self.mask, adding=True)
            self.lines.append(f"br label %{f'wi{target}' if following == target else self._parked_label(following)}")
        self.failures += self.lines  # type: ignore[attr-defined]
        self.lines = saved
        return label

    def count_work(self, end: str, linear: str) -> list[str]:
        """Keep the work of a group of lanes."""
        lines = work.end_thread(self, "%wthread", "%wthread.after", end, linear)  # type: ignore[arg-type]
        return [f"%wthread.after = add i32 %wthread, {self.width}", *lines]


def may_be_wide(unit: Unit, plan: Plan) -> bool:
    """Whether a wide form may be attempted."""
    return unit.variant in WIDE_VARIANTS and lanes_of_host() > 0 and looks_wide(plan)


def looks_wide(plan: Plan) -> bool:
    """Whether analysis alone does not rule out a wide form of a kernel."""
    if any(access.extent in ELSEWHERE or access.read_only for access in plan.accesses.values()):
        return False
    if not plan.points and any(_never_wide(i, plan) for block in plan.blocks for i in block.instructions):
        return False
    return (
        not (plan.polls or plan.follows_time)
        and not plan.recursive
        and not plan.synchronises_asynchronously
        and not plan.waits_for_cluster
        and sum(block.size for block in plan.blocks) <= LONGEST
    )


def _never_wide(instruction: Instruction, plan: Plan) -> bool:
    parts = instruction.opcode.split(".")
    if parts[0] in ("atom", "red"):
        return order_matters(instruction, plan)
    return parts[0] in ("call", "tex", "tld4", "suld", "sust", "sured", "txq", "suq") or "volatile" in parts
