"""Memory accesses of wide code: checks for all lanes at once, atomics lane by lane.

If the address is affine, a check costs two comparisons for any number of lanes: the first and the last. If one is
outside, a cold path passes all lanes to the runtime object, which checks each active one. Other addresses are compared
as a vector.
"""

from __future__ import annotations

from cudalab.sim.abi import SiteKind
from cudalab.sim.compiler.codegen import addresses
from cudalab.sim.compiler.codegen.emitter import Emitter, register_type
from cudalab.sim.compiler.codegen.plan import Plan
from cudalab.sim.compiler.codegen.shapes import Affine, NotWide
from cudalab.sim.compiler.codegen.wide import shadow_cells
from cudalab.sim.compiler.codegen.wide.lanes import Lanes
from cudalab.sim.compiler.passes.accesses import Access, Extent, Group
from cudalab.sim.compiler.passes.operands import definitions
from cudalab.sim.compiler.ptx.nodes import Instruction, Register

_INTEGERS = frozenset(["u32", "s32", "u64", "s64", "b32", "b64"])
_COMMUTING = frozenset(["add", "min", "max", "and", "or", "xor"])
#: Extents without a wide form: local memory, and pointers of unknown provenance.
ELSEWHERE = (Extent.LOCAL, Extent.LOCAL_VARIABLE, Extent.SHADOW)


class WideMemory(Lanes):
    """Accesses of wide code; base of ``WideCode``."""

    plan: Plan
    group_bases: dict[Group, str]

    def wide_pointer(self, access: Access) -> str:
        """As ``checks.pointer_to``, for all active lanes."""
        if self.lane_pointer:
            return self.lane_pointer
        if access.read_only or access.extent in ELSEWHERE or access.instruction not in self.plan.groups:
            raise NotWide("a local array, a store to constant memory, or a pointer of unknown origin")
        group = self.plan.groups[access.instruction]
        base = self.group_bases.get(group)
        if base is None:
            base = self._check_wide(group)
            self.group_bases[group] = base
        if self.unit.shadowed:
            shadow_cells.follow(self, access)
        if access.kind is not SiteKind.LOAD:
            self.may_restart = False
        return self.new(f"getelementptr i8, ptr {base}, i64 {access.offset}") if access.offset else base

    def _check_wide(self, group: Group) -> str:
        access = group.members[0]
        base = addresses.base_of(self, access)  # type: ignore[arg-type]
        start, low, limit = addresses.extent_of(self, group)  # type: ignore[arg-type]
        even = group.alignment if not access.aligned and group.alignment > 1 else 1
        shape = self.affine(base, "i64")
        good = self.fresh_label("ok")
        if shape is not None:
            failed = self.fresh_label("far")
            inside = self._inside(group, shape.base, low, limit, even)
            if shape.stride:
                last = self.raw(f"add i64 {shape.base}, {shape.stride * (self.width - 1)}")
                inside = self.raw(f"and i1 {inside}, {self._inside(group, last, low, limit, 1)}")
            if shape.stride % even:
                inside = "false"
            self.lines.append(f"br i1 {inside}, label %{good}, label %{failed}, !prof !1")
            self._check_lanes(group, shape, failed, good)
        else:
            self._check_each(group, base, low, limit, even, good)
        self.label(good)
        root = access.extent is Extent.ROOT
        distance = self.new(f"sub i64 {base}, {low}") if root and low != "0" else base
        return self.new(f"getelementptr i8, ptr {start}, i64 {distance}")

    def _check_lanes(self, group: Group, shape: Affine, failed: str, good: str) -> None:
        """The cold path of an affine check: check each active lane."""
        saved, self.lines = self.lines, []
        self.label(failed)
        mask = str((1 << self.width) - 1)
        if self.mask is not None:
            mask = self.bits_of(self.mask)
            mask = mask if self.width == 32 else self.raw(f"zext i{self.width} {mask} to i32")
        table = self.unit.access_table(group.members)
        name = "cl_lanes_outside"
        self.unit.declare(name, f"declare i1 @{name}(ptr, ptr, i32, i64, i64, i64, i32, ptr, i32) cold nounwind")
        wrong = self.raw(
            f"call i1 @{name}(ptr {self.context}, ptr {self.block}, i32 %wthread, i64 {shape.base}, "
            f"i64 {shape.stride}, i64 0, i32 {mask}, ptr {table}, i32 {len(group.members)})"
        )
        self.lines.append(f"br i1 {wrong}, label %fault, label %{good}")
        self.failures += self.lines  # type: ignore[attr-defined]
        self.lines = saved

    def _inside(self, group: Group, base: str, low: str, limit: str, even: int) -> str:
        """One lane's check, as i1."""
        distance = base if low == "0" else self.raw(f"sub i64 {base}, {low}")
        lowest = self.raw(f"add i64 {distance}, {group.first}") if group.first else distance
        inside = self.raw(f"icmp ult i64 {lowest}, {limit}")
        if even > 1:
            rest = self.raw(f"and i64 {self.raw(f'add i64 {base}, {group.aligned_at}')}, {even - 1}")
            inside = self.raw(f"and i1 {inside}, {self.raw(f'icmp eq i64 {rest}, 0')}")
        return inside

    def _check_each(self, group: Group, base: str, low: str, limit: str, even: int, good: str) -> None:
        """Check each active lane; the first that fails raises the fault."""
        whole, lanes = self.vector_type("i64"), self.vector_type("i1")
        addresses = self.vector(base, "i64")
        distance = addresses if low == "0" else self.raw(f"sub {whole} {addresses}, {self.vector(low, 'i64')}")
        lowest = (
            self.raw(f"add {whole} {distance}, {self.vector(str(group.first), 'i64')}") if group.first else distance
        )
        wrong = self.raw(f"icmp uge {whole} {lowest}, {self.vector(limit, 'i64')}")
        if even > 1:
            sums = self.raw(f"add {whole} {addresses}, {self.vector(str(group.aligned_at), 'i64')}")
            rest = self.raw(f"and {whole} {sums}, {self.vector(str(even - 1), 'i64')}")
            odd = self.raw(f"icmp ne {whole} {rest}, zeroinitializer")
            wrong = self.raw(f"or {lanes} {wrong}, {odd}")
        if self.mask is not None:
            wrong = self.raw(f"and {lanes} {wrong}, {self.mask}")
        bad = self.fresh_label("bad")
        self.lines.append(f"br i1 {self.any_of(wrong)}, label %{bad}, label %{good}, !prof !2")
        saved, self.lines = self.lines, []
        self.label(bad)
        lane = self.first_lane(wrong)
        thread = self.raw(f"add i32 %wthread, {lane}")
        address = self.raw(f"extractelement {whole} {addresses}, i32 {lane}")
        table = self.unit.access_table(group.members)
        name = "cl_fault_access"
        self.unit.declare(name, f"declare void @{name}(ptr, ptr, i32, i64, i64, ptr, i32) cold nounwind")
        self.lines += [
            f"call void @{name}(ptr {self.context}, ptr {self.block}, i32 {thread}, i64 {address}, i64 0, ptr {table}, "
            f"i32 {len(group.members)})",
            "br label %fault",
        ]
        self.failures += self.lines  # type: ignore[attr-defined]
        self.lines = saved

    # -- atomics

    def lower_atomic(self, instruction: Instruction) -> None:
        """An integer update whose result is unused: one active lane after the other, ascending."""
        parts = instruction.opcode.split(".")
        if order_matters(instruction, self.plan):
            raise NotWide("an atomic whose order matters")
        source = instruction.operands[1 if parts[0] == "red" else 2]
        pointers = self._array(self.wide_pointer(self.plan.accesses[instruction]), "ptr")
        saved, own = dict(self.values), None
        if isinstance(source, Register) and not self.is_uniform(self.value(source)):
            own = self._array(self.value(source), register_type(source))
        kind, lanes = f"i{self.width}", self.vector_type("i1")
        bits = self.raw(f"bitcast {lanes} {self.all_or_mask()} to {kind}")
        before, loop, after = (self.fresh_label(stem) for stem in ("lanes", "lane", "updated"))
        self.lines.append(f"br label %{before}")
        self.label(before)
        self.lines.append(f"br label %{loop}")
        self.label(loop)
        self.count += 1
        rest, left = f"%wrest{self.count}", f"%wleft{self.count}"
        self.lines.append(f"{rest} = phi {kind} [ {bits}, %{before} ], [ {left}, %{loop} ]")
        lane = self.counted("cttz", rest)
        self.lane_pointer = self._item(pointers, "ptr", lane)
        if own is not None:
            self.values[source] = self._item(own, register_type(source), lane)
        Emitter.lower(self, instruction)
        self.lane_pointer = ""
        self.values = saved
        self.lines.append(f"{left} = and {kind} {rest}, {self.raw(f'sub {kind} {rest}, 1')}")
        self.lines.append(f"br i1 {self.raw(f'icmp eq {kind} {left}, 0')}, label %{after}, label %{loop}")
        self.label(after)
        self.may_restart = False

    def _array(self, value: str, type: str) -> str:
        """Spill the lanes of a value to memory, for indexed access."""
        place = self.alloca(self.vector_type(type))
        self.lines.append(f"store {self.vector_type(type)} {self.vector(value, type)}, ptr {place}")
        return place

    def _item(self, place: str, type: str, lane: str) -> str:
        return self.raw(f"load {type}, ptr {self.raw(f'getelementptr {type}, ptr {place}, i32 {lane}')}")


def order_matters(instruction: Instruction, plan: Plan) -> bool:
    """Whether an atomic's result is used, or the order of lanes affects the final value in memory."""
    parts = instruction.opcode.split(".")
    read = any(plan.liveness.ever_read >> register.index & 1 for register in definitions(instruction))
    return read or parts[-1] not in _INTEGERS or not _COMMUTING & set(parts)
