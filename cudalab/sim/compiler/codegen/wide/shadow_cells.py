"""Shadow cells of wide code (``codegen.wide``, ``codegen.shadow_cells``).

The cells of all active lanes are compared at once, by the same rules as a single cell. If the lanes' cells are
contiguous, or at least distinct, first accesses are written at once as well. Lanes whose cells have no usual value go
to ``cl_race`` one by one, as do lanes that write to the same location.
"""

from __future__ import annotations

from cudalab.sim import abi
from cudalab.sim.abi import Race, SiteKind, Space
from cudalab.sim.compiler.codegen import addresses, shadow_cells
from cudalab.sim.compiler.codegen.shapes import Affine, NotWide
from cudalab.sim.compiler.codegen.wide.lanes import Lanes
from cudalab.sim.compiler.passes.accesses import Access
from cudalab.sim.compiler.passes.rematerialisation import Level
from cudalab.sim.compiler.runtime import layout

_MOST = 32  # cells compared at once


def follow(w: Lanes, access: Access) -> None:
    """Write the shadow cell update for an access by the active lanes."""
    if access.space is not Space.SHARED and access.space not in (Space.GLOBAL, Space.GENERIC):
        return
    base = addresses.base_of(w, access)  # type: ignore[arg-type]
    address = w.new(f"add i64 {base}, {access.offset}") if access.offset else base
    shared = access.space is Space.SHARED
    vectors = dict(w.vectors)
    done = w.fresh_label("raced")
    unset = "false"
    if not shared:
        checked, unset = shadow_cells.root_flags(w, access.root)  # type: ignore[arg-type]
        first = w.fresh_label("follow")
        w.lines.append(f"br i1 {checked}, label %{first}, label %{done}")
        w.label(first)
    _Follow(w, access, address, shared, unset, done).write()
    w.label(done)
    w.vectors = vectors


class _Follow:
    """The comparison of one access."""

    def __init__(self, w: Lanes, access: Access, address: str, shared: bool, unset: str, done: str) -> None:
        self.w, self.access, self.address, self.shared, self.done = w, access, address, shared, done
        self.unset = unset
        plan = w.unit.plan
        self.shift = plan.shared_cell_shift if shared else plan.cell_shift
        self.count = max(1, access.size >> self.shift)
        self.kind = shadow_cells.kind_of(w, access)  # type: ignore[arg-type]
        self.stores = self.kind & 3 == 1
        self.atomic = access.kind is SiteKind.ATOMIC and not self.stores
        self.cells = shadow_cells.cells_of(w, "shared_cells" if shared else "cells")  # type: ignore[arg-type]
        self.shape = w.affine(address, "i64")
        self.orders_warps = plan.orders_warps

    def write(self) -> None:
        w, shape = self.w, self.shape
        granule = 1 << self.shift
        wide = w.width * self.count
        if shape is not None and shape.stride == self.access.size >= granule and wide <= _MOST:
            self._side_by_side(shape, wide)
        elif shape is not None and abs(shape.stride) >= granule and self.count == 1:
            self._apart(w.vector(self.address, "i64"), distinct=True)
        elif shape is not None and shape.stride == 0 and self.count == 1 and not self.stores:
            self._one_place(shape)
        elif self.count == 1 and not self.stores:
            self._apart(w.vector(self.address, "i64"), distinct=False)
        else:
            self._one_by_one(w.all_or_mask())

    # -- location of the cells
    # -------------------------------------------------------------------------------------------

    def _index(self, address: str) -> str:
        return self.w.raw(f"lshr i64 {address}, {self.shift}") if self.shift else address

    def _side_by_side(self, shape: Affine, wide: int) -> None:
        w = self.w
        place = w.raw(f"getelementptr i64, ptr {self.cells}, i64 {self._index(shape.base)}")
        type_, lanes = f"<{wide} x i64>", f"<{wide} x i1>"
        mask = None if w.mask is None else self._spread(w.mask, "i1")
        if mask is None:
            cell = w.raw(f"load {type_}, ptr {place}, align 8")
        else:
            name = f"llvm.masked.load.v{wide}i64.p0"
            w.unit.declare(name, f"declare {type_} @{name}(ptr, i32, {lanes}, {type_})")
            cell = w.raw(f"call {type_} @{name}(ptr {place}, i32 8, {lanes} {mask}, {type_} zeroinitializer)")
        own = self._spread(w.vector(shadow_cells.own_cell(w), "i64"), "i64")  # type: ignore[arg-type]
        if self.atomic:
            usual, bad = self._known(cell, wide), w.fresh_label("unusual")
            w.lines.append(f"br i1 {self._all(usual, mask, wide)}, label %{self.done}, label %{bad}")
            w.label(bad)
            self._one_by_one(self._of_lanes(usual, wide))
            return
        # first the common cases for all lanes: several readers, or no access yet
        known = ""
        if not self.stores:
            known, unknown = self._known(cell, wide), w.fresh_label("unknown")
            w.lines.append(f"br i1 {self._all(known, mask, wide)}, label %{self.done}, label %{unknown}")
            w.label(unknown)
        first, new = self._first(cell, own, wide)
        fresh, mixed = w.fresh_label("fresh"), w.fresh_label("mixed")
        w.lines.append(f"br i1 {self._all(first, mask, wide)}, label %{fresh}, label %{mixed}")
        w.label(fresh)
        self._write(new, place, mask, wide)
        w.lines.append(f"br label %{self.done}")
        w.label(mixed)
        # first accesses, and second ones by another thread, are written; other cells stay unchanged
        new, usual, changed = self._again(cell, known, first, new, wide)
        self._write(new, place, changed if mask is None else w.raw(f"and {lanes} {changed}, {mask}"), wide)
        bad = w.fresh_label("unusual")
        w.lines.append(f"br i1 {self._all(usual, mask, wide)}, label %{self.done}, label %{bad}, !prof !1")
        w.label(bad)
        self._one_by_one(self._of_lanes(usual, wide))

    def _write(self, new: str, place: str, mask: str | None, wide: int) -> None:
        w = self.w
        if mask is None:
            w.lines.append(f"store <{wide} x i64> {new}, ptr {place}, align 8")
            return
        name = f"llvm.masked.store.v{wide}i64.p0"
        w.unit.declare(name, f"declare void @{name}(<{wide} x i64>, ptr, i32, <{wide} x i1>)")
        w.lines.append(f"call void @{name}(<{wide} x i64> {new}, ptr {place}, i32 8, <{wide} x i1> {mask})")

    def _apart(self, addresses: str, *, distinct: bool) -> None:
        w = self.w
        whole, lanes, pointers = w.vector_type("i64"), w.vector_type("i1"), w.vector_type("ptr")
        index = w.raw(f"lshr {whole} {addresses}, splat (i64 {self.shift})") if self.shift else addresses
        places = w.raw(f"getelementptr i64, ptr {self.cells}, {whole} {index}")
        mask = w.all_or_mask()
        name = f"llvm.masked.gather.v{w.width}i64.v{w.width}p0"
        w.unit.declare(name, f"declare {whole} @{name}({pointers}, i32, {lanes}, {whole})")
        cell = w.raw(f"call {whole} @{name}({pointers} {places}, i32 8, {lanes} {mask}, {whole} zeroinitializer)")
        own = w.vector(shadow_cells.own_cell(w), "i64")  # type: ignore[arg-type]
        new, usual, changed = self._rules(cell, own, w.width, only_known=not distinct)
        if changed is not None:
            which = changed if w.mask is None else w.raw(f"and {lanes} {changed}, {w.mask}")
            name = f"llvm.masked.scatter.v{w.width}i64.v{w.width}p0"
            w.unit.declare(name, f"declare void @{name}({whole}, {pointers}, i32, {lanes})")
            w.lines.append(f"call void @{name}({whole} {new}, {pointers} {places}, i32 8, {lanes} {which})")
        bad = w.fresh_label("unusual")
        w.lines.append(f"br i1 {self._all(usual, w.mask, w.width)}, label %{self.done}, label %{bad}, !prof !1")
        w.label(bad)
        self._one_by_one(self._of_lanes(usual, w.width))

    def _one_place(self, shape: Affine) -> None:
        """All lanes read, or update atomically, the same location."""
        w = self.w
        place = w.raw(f"getelementptr i64, ptr {self.cells}, i64 {self._index(shape.base)}")
        cell = w.raw(f"load i64, ptr {place}, align 8")
        bad = w.fresh_label("unusual")
        if self.atomic or w.mask is not None:
            w.lines.append(f"br i1 {self._known(cell, 1)}, label %{self.done}, label %{bad}")
        else:
            other, first = w.fresh_label("other"), w.fresh_label("first")
            w.lines.append(f"br i1 {self._known(cell, 1)}, label %{self.done}, label %{other}")
            w.label(other)
            w.lines.append(f"br i1 {self._first_reader(cell)}, label %{first}, label %{bad}")
            w.label(first)
            several = shadow_cells.usual_cell(w, "last_barrier", Race.READ_BLOCK)  # type: ignore[arg-type]
            new = self._read_by_warp() if self.orders_warps else several
            w.lines.append(f"store i64 {new}, ptr {place}, align 8")
            w.lines.append(f"br label %{self.done}")
        w.label(bad)
        self._one_by_one(w.all_or_mask())

    def _first_reader(self, cell: str) -> str:
        """Not accessed since the barrier (or in this launch), and initialised."""
        w = self.w
        if not self.shared:
            limit = shadow_cells.time_word(w, "launch_start")  # type: ignore[arg-type]
            fresh = w.raw(f"icmp ult i64 {cell}, {limit}")
            return w.raw(f"and i1 {fresh}, {w.raw(f'xor i1 {self.unset}, true')}")
        start, base = (shadow_cells.time_word(w, name) for name in ("block_start", "last_barrier"))  # type: ignore[arg-type]
        window = w.cached("race window", w.level_here(Level.BLOCK), lambda: w.raw(f"sub i64 {base}, {start}"))
        fresh = w.raw(f"icmp ult i64 {w.raw(f'sub i64 {cell}, {start}')}, {window}")
        held = w.raw(f"icmp ne i64 {w.raw(f'and i64 {cell}, {Race.SET}')}, 0")
        return w.raw(f"and i1 {fresh}, {held}")

    # -- rules ---------------------------------------------------------------------------------------------------------

    def _known(self, cell: str, wide: int) -> str:
        """Loads and atomics: several threads have done the same before."""
        w = self.w
        type_ = "i64" if wide == 1 else f"<{wide} x i64>"
        bits = "i1" if wide == 1 else f"<{wide} x i1>"
        masked = w.raw(f"and {type_} {cell}, {self._splat(str(~shadow_cells.IDENTITY), wide)}")
        several = shadow_cells.usual_cell(w, "last_barrier", Race.ATOMIC_BLOCK if self.atomic else Race.READ_BLOCK)  # type: ignore[arg-type]
        known = w.raw(f"icmp eq {type_} {masked}, {self._splat(several, wide)}")
        if not self.shared:
            grid = shadow_cells.usual_cell(w, "launch_start", Race.ATOMIC_GRID if self.atomic else Race.READ_GRID)  # type: ignore[arg-type]
            also = w.raw(f"icmp eq {type_} {masked}, {self._splat(grid, wide)}")
            known = w.raw(f"or {bits} {known}, {also}")
        if self.orders_warps and not self.atomic:
            whole = ~(Race.SITE_MASK | 31 << Race.THREAD_SHIFT)
            lane = w.raw(f"and {type_} {cell}, {self._splat(str(whole), wide)}")
            also = w.raw(f"icmp eq {type_} {lane}, {self._splat(self._read_by_warp(), wide)}")
            known = w.raw(f"or {bits} {known}, {also}")
        return known

    def _read_by_warp(self) -> str:
        """A cell that lanes of this warp have read at the current time. The lanes of a group belong to one warp."""
        w = self.w

        def make() -> str:
            shape = w.affine(shadow_cells.own_cell(w), "i64")  # type: ignore[arg-type]
            if shape is None:
                raise NotWide("threads that are not in order")
            warp = w.raw(f"and i64 {shape.base}, {~(31 << Race.THREAD_SHIFT)}")
            return w.raw(f"or i64 {warp}, {Race.READ_WARP << Race.STATE_SHIFT | Race.SET}")

        return w.cached("race warp", w.level_here(Level.THREAD), make)

    def _rules(self, cell: str, own: str, wide: int, *, only_known: bool = False) -> tuple[str, str, str | None]:
        """The new cells, the lanes with usual values, and the cells that change (None: none)."""
        known = "" if self.stores else self._known(cell, wide)
        if self.atomic or only_known:
            return cell, known, None
        first, new = self._first(cell, own, wide)
        return self._again(cell, known, first, new, wide)

    def _first(self, cell: str, own: str, wide: int) -> tuple[str, str]:
        """The cells not accessed since the barrier (or in this launch), and their new values. For loads the bytes must
        also be initialised."""
        w = self.w
        type_, bits = f"<{wide} x i64>", f"<{wide} x i1>"
        state = Race.WRITE if self.stores else Race.READ
        mark = state << Race.STATE_SHIFT | Race.SET | min(self.access.site, Race.SITE_MASK)
        new = w.raw(f"or {type_} {own}, {self._splat(str(mark), wide)}")
        if self.stores:
            limit = shadow_cells.time_word(w, "last_barrier" if self.shared else "launch_start")  # type: ignore[arg-type]
            return w.raw(f"icmp ult {type_} {cell}, {self._splat(limit, wide)}"), new
        if not self.shared:
            limit = shadow_cells.time_word(w, "launch_start")  # type: ignore[arg-type]
            usable = w.raw(f"select i1 {self.unset}, i64 0, i64 {limit}")
            return w.raw(f"icmp ult {type_} {cell}, {self._splat(usable, wide)}"), new
        start, base = (shadow_cells.time_word(w, name) for name in ("block_start", "last_barrier"))  # type: ignore[arg-type]
        window = w.cached("race window", w.level_here(Level.BLOCK), lambda: w.raw(f"sub i64 {base}, {start}"))
        since = w.raw(f"sub {type_} {cell}, {self._splat(start, wide)}")
        first = w.raw(f"icmp ult {type_} {since}, {self._splat(window, wide)}")
        held = w.raw(f"and {type_} {cell}, {self._splat(str(Race.SET), wide)}")
        return w.raw(f"and {bits} {first}, {w.raw(f'icmp ne {type_} {held}, zeroinitializer')}"), new

    def _again(self, cell: str, known: str, first: str, new: str, wide: int) -> tuple[str, str, str]:
        """As ``_rules``, for cells of which some have been accessed before."""
        w = self.w
        type_, bits = f"<{wide} x i64>", f"<{wide} x i1>"
        apart = w.raw(f"xor {type_} {cell}, {new}")
        if self.stores:
            ignored = Race.SITE_MASK | Race.GRID_CONFLICT | (Race.READ ^ Race.WRITE) << Race.STATE_SHIFT
            rest = w.raw(f"and {type_} {apart}, {self._splat(str(~ignored), wide)}")
            usual = w.raw(f"or {bits} {first}, {w.raw(f'icmp eq {type_} {rest}, zeroinitializer')}")
            return new, usual, usual
        usual = w.raw(f"or {bits} {known}, {first}")
        if self.orders_warps:
            return new, usual, first
        # One thread has read during this region call, which in kernels without warp operations is nearly always the
        # only one since the barrier: either this thread, or the cell now has several readers.
        threads = 0x3FF << Race.THREAD_SHIFT
        ignored = Race.SITE_MASK | Race.GRID_CONFLICT | threads
        rest = w.raw(f"and {type_} {apart}, {self._splat(str(~ignored), wide)}")
        second = w.raw(f"icmp eq {type_} {rest}, zeroinitializer")
        who = w.raw(f"and {type_} {apart}, {self._splat(str(threads), wide)}")
        other = w.raw(f"and {bits} {second}, {w.raw(f'icmp ne {type_} {who}, zeroinitializer')}")
        both = self._splat(shadow_cells.usual_cell(w, "last_barrier", Race.READ_BLOCK), wide)  # type: ignore[arg-type]
        if not self.shared:  # other blocks do not reach shared memory
            kept = w.raw(f"and {type_} {cell}, {self._splat(str(Race.GRID_CONFLICT), wide)}")
            both = w.raw(f"or {type_} {kept}, {both}")
        new = w.raw(f"select {bits} {other}, {type_} {both}, {type_} {new}")
        return new, w.raw(f"or {bits} {usual}, {second}"), w.raw(f"or {bits} {first}, {other}")

    # -- vectors -------------------------------------------------------------------------------------------------------

    def _splat(self, value: str, wide: int) -> str:
        w = self.w
        if wide == 1:
            return value
        if value[0] != "%":
            return f"splat (i64 {value})"
        first = w.raw(f"insertelement <{wide} x i64> poison, i64 {value}, i64 0")
        return w.raw(f"shufflevector <{wide} x i64> {first}, <{wide} x i64> poison, <{wide} x i32> zeroinitializer")

    def _spread(self, vector: str, type_: str) -> str:
        """Replicate each lane's value for each of its cells."""
        if self.count == 1:
            return vector
        w = self.w
        order = ", ".join(f"i32 {cell // self.count}" for cell in range(w.width * self.count))
        whole = w.vector_type(type_)
        return w.raw(f"shufflevector {whole} {vector}, {whole} poison, <{w.width * self.count} x i32> <{order}>")

    def _all(self, usual: str, mask: str | None, wide: int) -> str:
        w = self.w
        bits = f"<{wide} x i1>"
        if mask is not None:
            usual = w.raw(f"or {bits} {usual}, {w.raw(f'xor {bits} {mask}, splat (i1 true)')}")
        name = f"llvm.vector.reduce.and.v{wide}i1"
        w.unit.declare(name, f"declare i1 @{name}({bits})")
        return w.raw(f"call i1 @{name}({bits} {usual})")

    def _of_lanes(self, usual: str, wide: int) -> str:
        """The active lanes with a cell that has no usual value."""
        w = self.w
        bits = f"<{wide} x i1>"
        bad = w.raw(f"xor {bits} {usual}, splat (i1 true)")
        for part in range(1, self.count):
            order = ", ".join(f"i32 {(cell + part) % wide}" for cell in range(wide))
            moved = w.raw(f"shufflevector {bits} {bad}, {bits} poison, <{wide} x i32> <{order}>")
            bad = w.raw(f"or {bits} {bad}, {moved}")
        if self.count > 1:
            # the first cell of a lane has absorbed the others, and cells of the following lanes, which is harmless
            order = ", ".join(f"i32 {lane * self.count}" for lane in range(w.width))
            bad = w.raw(f"shufflevector {bits} {bad}, {bits} poison, <{w.width} x i32> <{order}>")
        lanes = w.vector_type("i1")
        return bad if w.mask is None else w.raw(f"and {lanes} {bad}, {w.mask}")

    def _one_by_one(self, which: str) -> None:
        """Pass the cells of these lanes to the runtime object."""
        w = self.w
        lanes, whole, kind = w.vector_type("i1"), w.vector_type("i64"), f"i{w.width}"
        addresses = w.alloca(whole)
        w.lines.append(f"store {whole} {w.vector(self.address, 'i64')}, ptr {addresses}")
        bits = w.raw(f"zext {kind} {w.raw(f'bitcast {lanes} {which} to {kind}')} to i32")
        name = "cl_race_lanes"
        w.unit.declare(
            name, f"declare {layout.RACE_CONVENTION} void @{name}(ptr, i32, ptr, i32, i32, i32, i32, i64) nounwind"
        )
        window = abi.SHARED_WINDOW if self.shared else 0
        w.lines.append(
            f"call {layout.RACE_CONVENTION} void @{name}(ptr {w.context}, i32 {bits}, ptr {addresses}, "
            f"i32 {self.count}, i32 {self.kind}, i32 %wthread, i32 {self.access.site}, i64 {window})"
        )
        w.lines.append(f"br label %{self.done}")
