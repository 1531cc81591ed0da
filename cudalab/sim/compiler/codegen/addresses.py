"""Addresses of accesses, and the bounds of the memory that they are checked against.

``checks`` and ``shadow_cells`` write the checks themselves: the former ends the launch at an access out of bounds, the
latter skips it.
"""

from __future__ import annotations

from cudalab.sim import abi
from cudalab.sim.abi import SiteKind, Space
from cudalab.sim.compiler.codegen.environment import ThreadEnvironment
from cudalab.sim.compiler.codegen.tracing import keep_old, note
from cudalab.sim.compiler.passes.accesses import Access, Extent, Group
from cudalab.sim.compiler.passes.rematerialisation import Level
from cudalab.sim.compiler.ptx.nodes import Address, Register, Symbol


def base_of(e: ThreadEnvironment, access: Access) -> str:
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


def extent_of(e: ThreadEnvironment, group: Group) -> tuple[str, str, str]:
    """The bounds of a group: the start of the memory as a pointer and as an address in its space, and the smallest
    offset from it that is out of bounds."""
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


def _limit(e: ThreadEnvironment, key: tuple[object, ...], length: str, span: int) -> str:
    def make() -> str:
        return e.intrinsic("llvm.usub.sat.i64", "i64", f"i64 {length}", f"i64 {span - 1}") if span > 1 else length

    return e.cached(("limit", *key), Level.LAUNCH, make)


def _root_limit(e: ThreadEnvironment, group: Group, low: str) -> str:
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
        # Through memory: otherwise LLVM would split the select and test the alignment at every access.
        place = e.alloca("i64")
        e.emit(f"store volatile i64 {chosen}, ptr {place}")
        return e.new(f"load volatile i64, ptr {place}")

    return e.cached(("aligned limit", access.root, group.span, alignment), Level.LAUNCH, make)


def found_in_shadow(e: ThreadEnvironment, access: Access, address: str, slow: str) -> str:
    """Look the address up in the shadow memory: a pointer if the access is aligned and lies within one live allocation;
    otherwise branch to the label ``slow``."""
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


def place(e: ThreadEnvironment, address: str, size: int, site: int) -> str:
    """A pointer to ``size`` bytes at an address (i64) of ``.shared::cluster``; a fault if they do not exist."""
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


def record(e: ThreadEnvironment, access: Access, pointer: str) -> None:
    """Append the access to the trace, unless its record is elided, and the old bytes to the undo log."""
    if e.unit.skips:
        e.record(access.site, generic_address(e, access))
    elif e.plan.behind(access.site) < 0:
        note(e, access.site, generic_address(e, access))
    if access.kind is not SiteKind.LOAD and access.space in (Space.GENERIC, Space.GLOBAL):
        keep_old(e, pointer, access.size)


def generic_address(e: ThreadEnvironment, access: Access) -> str:
    """The generic address of an access."""
    base = base_of(e, access)
    if access.space in (Space.SHARED, Space.LOCAL, Space.CLUSTER):
        window = abi.LOCAL_WINDOW if access.space is Space.LOCAL else abi.SHARED_WINDOW
        return e.new(f"add i64 {base}, {window + access.offset}")
    return e.new(f"add i64 {base}, {access.offset}") if access.offset else base
