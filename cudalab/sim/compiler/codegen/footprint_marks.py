"""Footprint marks: the bytes of device memory that a launch reads, writes and updates atomically.

At each access, footprint code stores bytes of 1 into maps of the device's memory, one map per kind of access, so that
no mark has to be read before it is written and workers do not interfere. A mark covers as many bytes as the module's
narrowest access (``ModulePlan.mark_shift``): accesses are aligned to their size, so the maps are exact, and where all
accesses have four bytes or more they take a quarter of the memory. The mark of address A is at ``row.fine[kind] + (A >>
shift)``; there is a row for the arena and one for each root.

To avoid scanning the whole maps afterwards, a root's row has the *hull* of the bytes touched. It is cheap to maintain:
the bounds check compares with the hull (the *window*) instead of the root, and the failure path widens it if the access
is inside the root. Accesses checked against the shadow memory mark their chunk of 16 KiB in a coarse map.
"""

from __future__ import annotations

from cudalab.sim import abi
from cudalab.sim.abi import Space
from cudalab.sim.compiler.codegen.environment import ThreadEnvironment
from cudalab.sim.compiler.passes.accesses import Access, Extent, Group
from cudalab.sim.compiler.passes.rematerialisation import Level
from cudalab.sim.compiler.runtime import layout

_SPACES = (Space.GENERIC, Space.GLOBAL, Space.CONSTANT)


def is_marked(access: Access) -> bool:
    """Whether it reaches memory that other operations can access."""
    return access.space in _SPACES and access.extent in (Extent.ROOT, Extent.SHADOW) and not access.read_only


def mark(e: ThreadEnvironment, access: Access, address: str) -> None:
    """Mark the bytes of an access at ``address`` (i64)."""
    shift = e.unit.plan.mark_shift
    if access.extent is Extent.SHADOW:
        coarse = _map(e, layout.MARK_COARSE, 0)
        chunk = e.new(f"lshr i64 {address}, {abi.MARK_CHUNK_SHIFT}")
        e.emit(f"store i8 1, ptr {e.new(f'getelementptr i8, ptr {coarse}, i64 {chunk}')}")
    index = e.new(f"lshr i64 {address}, {shift}") if shift else address
    fine = _map(e, 8 * int(access.kind), 1 + access.root)
    marks = access.size >> shift
    ones = int.from_bytes(b"\1" * marks, "little")
    e.emit(f"store i{8 * marks} {ones}, ptr {e.new(f'getelementptr i8, ptr {fine}, i64 {index}')}, align {marks}")


def _row(e: ThreadEnvironment, number: int) -> str:
    """The row of the arena (0) or of a root."""

    def make() -> str:
        marks = e.context_field("marks", "ptr")
        rows = e.cached("mark rows", Level.LAUNCH, lambda: e.new(f"load ptr, ptr {marks}, !invariant.load !0"))
        return e.new(f"getelementptr i8, ptr {rows}, i64 {layout.MARK_ROW_BYTES * number}")

    return e.cached(("mark row", number), Level.LAUNCH, make)


def _map(e: ThreadEnvironment, field: int, row: int) -> str:
    def make() -> str:
        place = e.new(f"getelementptr i8, ptr {_row(e, row)}, i64 {field}")
        return e.new(f"load ptr, ptr {place}, !invariant.load !0")

    return e.cached(("mark map", field, row), Level.LAUNCH, make)


def window(e: ThreadEnvironment, group: Group) -> tuple[str, str, str]:
    """The start of the window of a group's root (as a pointer and as i64), and the smallest offset at which the group
    does not fit. Both are variables of this activation, initialised from the hull so far."""
    place = _window_place(e, group)
    start = e.new(f"load ptr, ptr {place}")
    limit = e.new(f"load i64, ptr {e.new(f'getelementptr i8, ptr {place}, i64 8')}")
    return start, e.new(f"ptrtoint ptr {start} to i64"), limit


def _window_place(e: ThreadEnvironment, group: Group) -> str:
    access = group.members[0]
    needs = group.alignment if access.aligned else 1
    source = e.plan.root_sources[access.root]

    def make() -> str:
        row = _row(e, 1 + access.root)
        hull = e.new(f"load ptr, ptr {e.new(f'getelementptr i8, ptr {row}, i64 {layout.MARK_HULL}')}")
        length = e.new(f"load i64, ptr {e.new(f'getelementptr i8, ptr {row}, i64 {layout.MARK_HULL + 8}')}")
        limit = e.intrinsic("llvm.usub.sat.i64", "i64", f"i64 {length}", f"i64 {group.span - 1}")
        if needs > 1 and not source.symbol:  # narrower accesses may have widened the hull
            rest = e.new(f"and i64 {e.parameter_word(source.parameter_offset)}, {needs - 1}")
            limit = e.new(f"select i1 {e.new(f'icmp eq i64 {rest}, 0')}, i64 {limit}, i64 0")
        place = e.alloca("{ptr, i64}")
        e.emit(f"store ptr {hull}, ptr {place}")
        e.emit(f"store i64 {limit}, ptr {e.new(f'getelementptr i8, ptr {place}, i64 8')}")
        return place

    return e.cached(("window", access.root, group.span, needs), Level.LAUNCH, make)


def widen(e: ThreadEnvironment, group: Group, base: str, here: str, good: str, refused: str) -> str:
    """Write the failure path of a window check at the label ``here``: widen the window and branch to ``good``, or
    branch to ``refused``. Returns the pointer to ``base``."""
    access = group.members[0]
    place = _window_place(e, group)
    row, roots = _row(e, 1 + access.root), e.context_field("roots", "ptr")
    e.count += 1
    found = f"%widened{e.count}"
    convention = layout.SPARING
    e.unit.declare(
        "cl_widen", f"declare {convention} ptr @cl_widen(ptr, ptr, i64, i64, i64, i64, i64, ptr) cold nounwind"
    )
    e.failures.append(
        f"{here}:\n{found}.root = getelementptr i8, ptr {roots}, i64 {16 * access.root}\n"
        f"{found} = call {convention} ptr @cl_widen(ptr {row}, ptr {found}.root, i64 {base}, i64 {group.first}, "
        f"i64 {group.span}, i64 {group.aligned_at}, i64 {group.alignment}, ptr {place})\n"
        f"{found}.none = icmp eq ptr {found}, null\n"
        f"br i1 {found}.none, label %{refused}, label %{good}, !prof !2"
    )
    return found
