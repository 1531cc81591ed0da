"""Bounds and alignment checks, and the address of what is accessed.

Where the pointer's root is known, an access costs a subtraction, a comparison and a branch: its distance from the start
of the allocation must be less than the allocation's length minus the bytes accessed. Both are loaded once for the
launch. Other pointers are looked up in the shadow. The branch that fails goes to the runtime object, which finds out
what was wrong; only for shadow checks it may find that all is well after all (registered host memory, or a generic
address of shared or local memory).

Global memory is addressed from the base of its arena or allocation by ``getelementptr``, never by ``inttoptr``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from cudalab.sim import abi
from cudalab.sim.abi import SiteKind, Space
from cudalab.sim.compiler.codegen import shadow_cells
from cudalab.sim.compiler.codegen.footprint_marks import is_marked, mark, widen, window
from cudalab.sim.compiler.codegen.polling import looked_at
from cudalab.sim.compiler.codegen.tracing import keep_old, note
from cudalab.sim.compiler.passes.accesses import Access, Extent, Group
from cudalab.sim.compiler.passes.rematerialisation import Level
from cudalab.sim.compiler.ptx.nodes import Address, Register, Symbol

if TYPE_CHECKING:
    from cudalab.sim.compiler.codegen.threads import ThreadCode
    from cudalab.sim.compiler.codegen.wide_memory import WideMemory


def pointer_to(e: ThreadCode, access: Access) -> str:
    """Write the check of an access and return a pointer to the memory it reaches."""
    if e.wide:
        return cast("WideMemory", e).wide_pointer(access)
    if e.unit.skips:
        pointer = shadow_cells.pointer_to(e, access)
        if e.watched:
            looked_at(e, access.instruction, pointer)
        return pointer
    if access.read_only:
        return _store_to_constant(e, access)
    group = e.plan.groups.get(access.instruction)
    if access.extent is Extent.CLUSTER:
        pointer = in_cluster(e, access)
    elif group is None:
        pointer = _through_shadow(e, access)
    else:
        base = e.group_bases.get(group)
        if base is None:
            base = _check_group(e, group)
            e.group_bases[group] = base
            if e.unit.traced:
                e.to_mark += [(each, base, each.offset) for each in group.members if is_marked(each)]
        pointer = e.new(f"getelementptr i8, ptr {base}, i64 {access.offset}") if access.offset else base
        if e.unit.marked and is_marked(access):
            base = base_of(e, access)
            mark(e, access, e.new(f"add i64 {base}, {access.offset}") if access.offset else base)
    if e.unit.traced and access.space is not Space.PARAM:
        if group is None and is_marked(access):
            e.to_mark.append((access, pointer, 0))
        record(e, access, pointer)
    if e.watched:
        looked_at(e, access.instruction, pointer)
    return pointer


def base_of(e: ThreadCode, access: Access) -> str:
    """The pointer's value in its own space, without the constant offset."""
    if isinstance(access.base, Register):
        value = e.integer(access.base, 64)
    elif isinstance(access.base, Symbol):
        value = e.symbol_address(Address(access.base, 0))
    else:
        value = "0"
    if access.window:
        window = abi.SHARED_WINDOW if access.space is Space.SHARED else abi.LOCAL_WINDOW
        value = e.new(f"sub i64 {value}, {window}")
    return value


def _check_group(e: ThreadCode, group: Group) -> str:
    """Check the lowest and the highest access of a group; returns the pointer its offsets count from."""
    access = group.members[0]
    base = base_of(e, access)
    first = group.first
    windowed = e.unit.marked and is_marked(access)
    start, low, limit = window(e, group) if windowed else extent_of(e, group)
    distance = base if low == "0" else e.new(f"sub i64 {base}, {low}")
    lowest = e.new(f"add i64 {distance}, {first}") if first else distance
    inside = e.new(f"icmp ult i64 {lowest}, {limit}")
    if not access.aligned and group.alignment > 1:
        address = e.new(f"add i64 {base}, {group.aligned_at}") if group.aligned_at else base
        rest = e.new(f"and i64 {address}, {group.alignment - 1}")
        inside = e.new(f"and i1 {inside}, {e.new(f'icmp eq i64 {rest}, 0')}")
    offset = distance if access.extent is Extent.ROOT else base
    failed, good = e.fresh_label("bad"), e.fresh_label("ok")
    refused, widened = failed, ""
    if windowed:
        refused, near = e.fresh_label("bad"), e.fresh_label("near")
        widened = widen(e, group, base, failed, good, refused)
        e.emit(f"br i1 {inside}, label %{near}, label %{failed}, !prof !1")
        e.label(near)
        pointer = e.new(f"getelementptr i8, ptr {start}, i64 {offset}")
        e.emit(f"br label %{good}")
    else:
        e.emit(f"br i1 {inside}, label %{good}, label %{failed}, !prof !1")
    table = e.unit.access_table(group.members)
    e.failures.append(
        f"{refused}:\ncall void @cl_fault_access(ptr {e.context}, ptr {e.block}, i32 {e.thread()}, i64 {base}, "
        f"i64 {e.stack()}, ptr {table}, i32 {len(group.members)})\nbr label %fault"
    )
    e.unit.declare("cl_fault_access", "declare void @cl_fault_access(ptr, ptr, i32, i64, i64, ptr, i32) cold nounwind")
    e.label(good)
    if windowed:
        return e.new(f"phi ptr [ {pointer}, %{near} ], [ {widened}, %{failed} ]")
    return e.new(f"getelementptr i8, ptr {start}, i64 {offset}")


def extent_of(e: ThreadCode, group: Group) -> tuple[str, str, str]:
    """Where the memory starts (a pointer), the address it starts at in its space, and the first distance from there
    that is too large."""
    access = group.members[0]
    span = group.span
    if access.extent is Extent.ROOT:
        start = e.root_start(access.root)
        low = e.cached(("root low", access.root), Level.LAUNCH, lambda: e.new(f"ptrtoint ptr {start} to i64"))
        return start, low, _root_limit(e, group, low)
    if access.extent is Extent.PARAMETERS:
        return e.context_field("params", "ptr"), "0", str(max(0, access.length - span + 1))
    start = e.local_base() if access.space is Space.LOCAL else e.shared_base()
    if access.extent in (Extent.VARIABLE, Extent.LOCAL_VARIABLE):
        low = str(access.low)
        if access.extent is Extent.LOCAL_VARIABLE and e.stack() != "0":
            low = e.new(f"add i64 {e.stack()}, {access.low}")
        return start, low, str(max(0, access.length - span + 1))
    if access.extent is Extent.LOCAL:
        size = e.context_field("local_size", "i64")
        return start, "0", _limit(e, ("local", span), size, span)
    size_32 = e.context_field("shared_size", "i32")
    size = e.cached("shared size", Level.LAUNCH, lambda: e.new(f"zext i32 {size_32} to i64"))
    if access.extent is Extent.SHARED:
        return start, "0", _limit(e, ("shared", span), size, span)
    low = e.dynamic_offset()
    rest = e.cached("dynamic size", Level.LAUNCH, lambda: e.new(f"sub i64 {size}, {low}"))
    return start, low, _limit(e, ("dynamic", span), rest, span)


def _limit(e: ThreadCode, key: tuple[object, ...], length: str, span: int) -> str:
    def make() -> str:
        return e.intrinsic("llvm.usub.sat.i64", "i64", f"i64 {length}", f"i64 {span - 1}") if span > 1 else length

    return e.cached(("limit", *key), Level.LAUNCH, make)


def _root_limit(e: ThreadCode, group: Group, low: str) -> str:
    """As ``_limit``; 0 when the root itself is not aligned as the group needs it."""
    access = group.members[0]
    length = e.root_length(access.root)
    limit = _limit(e, ("root", access.root, group.span), length, group.span)
    source = e.plan.root_sources[access.root]
    alignment = group.alignment
    if not access.aligned or alignment == 1 or source.symbol:
        return limit

    def make() -> str:
        value = e.parameter_word(source.parameter_offset)
        even = e.new(f"icmp eq i64 {e.new(f'and i64 {value}, {alignment - 1}')}, 0")
        chosen = e.new(f"select i1 {even}, i64 {limit}, i64 0")
        # Through memory, or LLVM would take the select apart and test the alignment at every access again.
        place = e.alloca("i64")
        e.emit(f"store volatile i64 {chosen}, ptr {place}")
        return e.new(f"load volatile i64, ptr {place}")

    return e.cached(("aligned limit", access.root, group.span, alignment), Level.LAUNCH, make)


def found_in_shadow(e: ThreadCode, access: Access, address: str, slow: str) -> str:
    """Look the address up in the shadow: a pointer where all of the access lies in one live allocation and is aligned;
    else the code goes to the label ``slow``."""
    arena = e.context_field("arena", "ptr")
    low = e.cached("arena low", Level.LAUNCH, lambda: e.new(f"ptrtoint ptr {arena} to i64"))
    size = e.context_field("arena_size", "i64")
    shadow = e.context_field("shadow", "ptr")
    near, fast = e.fresh_label("near"), e.fresh_label("fast")
    distance = e.new(f"sub i64 {address}, {low}")
    e.emit(f"br i1 {e.new(f'icmp ult i64 {distance}, {size}')}, label %{near}, label %{slow}, !prof !1")
    e.label(near)
    granule = e.new(f"lshr i64 {distance}, {abi.GRANULE.bit_length() - 1}")
    entry = e.new(f"getelementptr i16, ptr {shadow}, i64 {granule}")
    live = e.new(f"zext i16 {e.new(f'load i16, ptr {entry}')} to i64")
    within = e.new(f"and i64 {distance}, {abi.GRANULE - 1}")
    end = e.new(f"add i64 {within}, {access.size}")
    good = e.new(f"icmp ule i64 {end}, {live}")
    if access.size > 1:
        rest = e.new(f"and i64 {distance}, {access.size - 1}")
        good = e.new(f"and i1 {good}, {e.new(f'icmp eq i64 {rest}, 0')}")
    e.emit(f"br i1 {good}, label %{fast}, label %{slow}, !prof !1")
    e.label(fast)
    return e.new(f"getelementptr i8, ptr {arena}, i64 {distance}")


def _through_shadow(e: ThreadCode, access: Access) -> str:
    """Look the address up in the shadow; what is not there is for the runtime object to judge."""
    base = base_of(e, access)
    address = e.new(f"add i64 {base}, {access.offset}") if access.offset else base
    slow, join = e.fresh_label("slow"), e.fresh_label("join")
    direct = found_in_shadow(e, access, address, slow)
    if e.unit.marked:
        mark(e, access, address)
    end = e.label_now
    e.emit(f"br label %{join}")
    e.count += 1
    found = f"%slow{e.count}"
    usable, marks = join, ""
    if e.unit.marked:
        usable = e.fresh_label("mark")
        e.unit.declare("cl_mark", "declare void @cl_mark(ptr, ptr, i64, i32) nounwind")
        call = f"call void @cl_mark(ptr {e.context}, ptr {found}, i64 {access.size}, i32 {int(access.kind)})"
        marks = f"\n{usable}:\n{call}\nbr label %{join}"
    generic = 1 if access.space is Space.GENERIC else 0
    store = 0 if access.kind is SiteKind.LOAD else 2
    e.failures.append(
        f"{slow}:\n{found} = call ptr @cl_slow_access(ptr {e.context}, ptr {e.block}, i32 {e.thread()}, i64 {address}, "
        f"i32 {access.size}, i32 {access.site}, i32 {generic | store})\n"
        f"%none{e.count} = icmp eq ptr {found}, null\nbr i1 %none{e.count}, label %fault, label %{usable}{marks}"
    )
    e.unit.declare("cl_slow_access", "declare ptr @cl_slow_access(ptr, ptr, i32, i64, i32, i32, i32) cold nounwind")
    e.label(join)
    return e.new(f"phi ptr [ {direct}, %{end} ], [ {found}, %{usable if marks else slow} ]")


def place(e: ThreadCode, address: str, size: int, site: int) -> str:
    """A pointer to ``size`` bytes at an address (i64) of ``.shared::cluster``; the launch ends when there are none."""
    found = e.runtime(
        "cl_cluster_place",
        "ptr",
        f"ptr {e.context}",
        f"ptr {e.block}",
        f"i32 {e.thread()}",
        f"i64 {address}",
        f"i32 {size}",
        f"i32 {site}",
    )
    good = e.fresh_label("placed")
    e.emit(f"br i1 {e.new(f'icmp eq ptr {found}, null')}, label %fault, label %{good}, !prof !2")
    e.label(good)
    return found


def in_cluster(e: ThreadCode, access: Access) -> str:
    """Distributed shared memory: the runtime object finds the block and checks the access."""
    base = base_of(e, access)
    address = e.new(f"add i64 {base}, {access.offset}") if access.offset else base
    return place(e, address, access.size, access.site)


def _store_to_constant(e: ThreadCode, access: Access) -> str:
    """The fault is certain; the code that follows is never reached."""
    address = e.new(f"add i64 {base_of(e, access)}, {access.offset}")
    e.fault(abi.FaultKind.READ_ONLY, access.site, address, access.size)
    return e.shared_base()


def record(e: ThreadCode, access: Access, pointer: str) -> None:
    """Append the access to the trace, unless another's record stands for it, and old bytes to the undo log."""
    if e.unit.skips:
        e.record(access.site, _recorded_address(e, access))
    elif e.plan.behind(access.site) < 0:
        note(e, access.site, _recorded_address(e, access))
    if access.kind is not SiteKind.LOAD and access.space in (Space.GENERIC, Space.GLOBAL):
        keep_old(e, pointer, access.size)


def _recorded_address(e: ThreadCode, access: Access) -> str:
    """The generic address of an access."""
    base = base_of(e, access)
    if access.space in (Space.SHARED, Space.LOCAL, Space.CLUSTER):
        window = abi.LOCAL_WINDOW if access.space is Space.LOCAL else abi.SHARED_WINDOW
        return e.new(f"add i64 {base}, {window + access.offset}")
    return e.new(f"add i64 {base}, {access.offset}") if access.offset else base
