"""Bounds and alignment checks of accesses.

Where the pointer's root is known, a check costs a subtraction, a comparison and a branch: the offset from the start of
the allocation must be less than the allocation's length minus the bytes accessed. Both are loaded once per launch.
Other pointers are looked up in the shadow memory. A failed check calls the runtime object, which determines the fault;
after a shadow check it may still accept the access (registered host memory, or a generic address of shared or local
memory).

Global memory is addressed from the base of its arena or allocation by ``getelementptr``, never by ``inttoptr``.
"""

from __future__ import annotations

from cudalab.sim import abi
from cudalab.sim.abi import SiteKind, Space
from cudalab.sim.compiler.codegen import shadow_cells
from cudalab.sim.compiler.codegen.addresses import base_of, extent_of, found_in_shadow, place, record
from cudalab.sim.compiler.codegen.environment import ThreadEnvironment
from cudalab.sim.compiler.codegen.footprint_marks import is_marked, mark, widen, window
from cudalab.sim.compiler.codegen.polling import looked_at
from cudalab.sim.compiler.passes.accesses import Access, Extent, Group


def pointer_to(e: ThreadEnvironment, access: Access) -> str:
    """Write the check of an access and return a pointer to the memory it reaches."""
    if e.wide:
        return e.wide_pointer(access)
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


def _check_group(e: ThreadEnvironment, group: Group) -> str:
    """Check the lowest and the highest access of a group; returns the pointer that its offsets are relative to."""
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


def _through_shadow(e: ThreadEnvironment, access: Access) -> str:
    """Look the address up in the shadow memory, with the runtime object as the slow path."""
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


def in_cluster(e: ThreadEnvironment, access: Access) -> str:
    """Distributed shared memory: the runtime object finds the block and checks the access."""
    base = base_of(e, access)
    address = e.new(f"add i64 {base}, {access.offset}") if access.offset else base
    return place(e, address, access.size, access.site)


def _store_to_constant(e: ThreadEnvironment, access: Access) -> str:
    """Write an unconditional fault; the code that follows is unreachable."""
    address = e.new(f"add i64 {base_of(e, access)}, {access.offset}")
    e.fault(abi.FaultKind.READ_ONLY, access.site, address, access.size)
    return e.shared_base()
