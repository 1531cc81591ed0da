"""``mbarrier`` objects in shared memory: layout, arrivals, and transaction counts.

An mbarrier object is an opaque 64-bit object (PTX ISA, "mbarrier"). It counts the pending arrivals of its phase, and
the pending bytes of asynchronous copies (*tx-count*); when both are zero the phase completes and the next one begins
with the expected count. Here its bits are: pending arrivals (20), expected arrivals (20), tx-count (21, signed), the
parity of the phase (1), and a two-bit tag of initialised objects. The token of an arrival is the previous value of the
object.

In sanitized code a fault is noted like an access out of bounds, and the operation has no effect.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudalab.sim.abi import SHARED_WINDOW, FaultKind
from cudalab.sim.compiler.runtime import layout
from cudalab.sim.compiler.runtime.assembler import Function, Library

if TYPE_CHECKING:
    from cudalab.sim.compiler.runtime.traits import Traits

COUNT_BITS = 20
MOST_ARRIVALS = (1 << COUNT_BITS) - 1
EXPECTED_SHIFT, TX_SHIFT, PARITY_SHIFT, MARK_SHIFT = 20, 40, 61, 62
TX_BITS = 21
MARK = 0b10
"""Tag in the top bits of every initialised object; unwritten memory mostly holds zeros."""
DROP, NO_COMPLETE = 1, 2
WHO = "ptr ctx, ptr blk, i32 thread, i32 site"
"""Parameters of functions that may record a fault."""
UNINITIALISED, BAD_COUNT, TOO_MANY, COMPLETED, TX_RANGE = range(1, 6)
"""Values of ``fault.extra[0]`` for ``FaultKind.BAD_BARRIER``; ``extra[1]`` is the object, ``extra[2]`` the count."""


def write(library: Library, traits: Traits) -> None:
    """Add the functions called by ``mbarrier`` instructions; they are part of the object file of programs that have
    them."""
    _place(library)
    _apply(library)
    _initialise(library)
    _arrive(library)
    _count_bytes(library)
    _check(library)


def begin(library: Library, name: str, result: str, parameters: str) -> Function:
    """Begin a function that only this object file has."""
    return library.function(name, result, parameters, "noinline", "internal")


# -- the object --------------------------------------------------------------------------------------------------------


def field(f: Function, word: str, shift: int, bits: int) -> str:
    """Some bits of an object, as i64."""
    part = f.op(f"lshr i64 {word}, {shift}") if shift else word
    return f.op(f"and i64 {part}, {(1 << bits) - 1}")


def parity_of(f: Function, word: str) -> str:
    """The parity of an object's phase, as i64."""
    return field(f, word, PARITY_SHIFT, 1)


def _is_valid(f: Function, word: str) -> str:
    return f.compare("eq", "i64", f.op(f"lshr i64 {word}, {MARK_SHIFT}"), MARK)


def _fault(f: Function, why: int, word: str, count: str) -> None:
    address = f.op("ptrtoint ptr %bar to i64")
    shared = f.load("i64", "%ctx", layout.field("shared"))
    offset = f.op(f"sub i64 {address}, {shared}")
    inside = f.compare("ult", "i64", offset, f.wide(f.load("i32", "%ctx", layout.field("shared_size"))))
    generic = f.op(f"add i64 {offset}, {SHARED_WINDOW}")
    address = f.op(f"select i1 {inside}, i64 {generic}, i64 {address}")
    kind = int(FaultKind.BAD_BARRIER)
    who = ("ptr %ctx", "ptr %blk", "i32 %thread", f"i32 {kind}", "i32 %site")
    f.call("cl_fault", "void", *who, f"i64 {address}", "i32 8")
    for number, value in enumerate((str(why), word, count)):
        f.store("i64", value, "%ctx", layout.field("fault.extra") + 8 * number)
    with f.if_(_is_sanitized(f)):
        f.call("cl_missed", "ptr", "ptr %ctx")


def _is_sanitized(f: Function) -> str:
    """Whether a fault is noted, and the thread goes on."""
    return f.compare("ne", "i64", f.load("i64", "%ctx", layout.field("race")), 0)


def _place(library: Library) -> None:
    """``cl_mbarrier(…, address)``: the object at an offset in shared memory, or null after a fault."""
    f = begin(library, "cl_mbarrier", "ptr", f"{WHO}, i64 address")
    size = f.wide(f.load("i32", "%ctx", layout.field("shared_size")))
    end = f.op("add i64 %address, 8")
    inside = f.op(f"and i1 {f.compare('ult', 'i64', '%address', size)}, {f.compare('ule', 'i64', end, size)}")
    even = f.compare("eq", "i64", f.op("and i64 %address, 7"), 0)
    with f.if_(f.op(f"and i1 {inside}, {even}")):
        f.ret(f.at(f.load("ptr", "%ctx", layout.field("shared")), "%address"))
    kind = f.op(f"select i1 {inside}, i32 {int(FaultKind.MISALIGNED)}, i32 {int(FaultKind.OUT_OF_BOUNDS)}")
    generic = f.op(f"add i64 %address, {SHARED_WINDOW}")
    who = ("ptr %ctx", "ptr %blk", "i32 %thread", f"i32 {kind}", "i32 %site")
    f.call("cl_fault", "void", *who, f"i64 {generic}", "i32 8")
    f.store("i64", 0, "%ctx", layout.field("fault.extra"))
    f.store("i64", size, "%ctx", layout.field("fault.extra") + 8)
    with f.if_(_is_sanitized(f)):
        f.ret(f.call("cl_missed", "ptr", "ptr %ctx"))
    f.ret("null")


def _initialise(library: Library) -> None:
    """``cl_mbarrier_init(…, bar, count)``; false after a fault."""
    f = begin(library, "cl_mbarrier_init", "i1", f"{WHO}, ptr bar, i32 count")
    wide = f.wide("%count")
    below = f.op("sub i32 %count, 1")
    with f.if_(f.compare("uge", "i32", below, MOST_ARRIVALS)):
        _fault(f, BAD_COUNT, f.load("i64", "%bar"), wide)
        f.ret("false")
    both = f.op(f"or i64 {wide}, {f.op(f'shl i64 {wide}, {EXPECTED_SHIFT}')}")
    f.store("i64", f.op(f"or i64 {both}, {MARK << MARK_SHIFT}"), "%bar")
    f.ret("true")


def _apply(library: Library) -> None:
    """``cl_mbarrier_apply(bar, arrivals, drops, bytes)``: count ``arrivals``, lower the expected count of later phases
    by ``drops``, and add ``bytes`` to the tx-count. Completes the phase when nothing is pending. An invalidated object
    stays unchanged."""
    f = begin(library, "cl_mbarrier_apply", "void", "ptr bar, i64 arrivals, i64 drops, i64 bytes")
    word = f.load("i64", "%bar")
    with f.if_(f.op(f"xor i1 {_is_valid(f, word)}, true")):
        f.ret()
    pending = f.op(f"sub i64 {field(f, word, 0, COUNT_BITS)}, %arrivals")
    expected = f.op(f"sub i64 {field(f, word, EXPECTED_SHIFT, COUNT_BITS)}, %drops")
    tx = f.op(f"and i64 {f.op(f'add i64 {field(f, word, TX_SHIFT, TX_BITS)}, %bytes')}, {(1 << TX_BITS) - 1}")
    none = f.compare("eq", "i64", f.op(f"or i64 {pending}, {tx}"), 0)
    turned = f.op(f"xor i64 {parity_of(f, word)}, {f.op(f'zext i1 {none} to i64')}")
    pending = f.op(f"select i1 {none}, i64 {expected}, i64 {pending}")
    made = f.op(f"or i64 {pending}, {f.op(f'shl i64 {expected}, {EXPECTED_SHIFT}')}")
    made = f.op(f"or i64 {made}, {f.op(f'shl i64 {tx}, {TX_SHIFT}')}")
    made = f.op(f"or i64 {made}, {f.op(f'shl i64 {turned}, {PARITY_SHIFT}')}")
    f.store("i64", f.op(f"or i64 {made}, {MARK << MARK_SHIFT}"), "%bar")
    f.ret()


def _arrive(library: Library) -> None:
    """``cl_mbarrier_arrive(…, bar, count, bytes, mode)``: the token, or 0 after a fault. ``bytes`` is for
    ``.expect_tx``."""
    f = begin(library, "cl_mbarrier_arrive", "i64", f"{WHO}, ptr bar, i32 count, i32 bytes, i32 mode")
    word = f.load("i64", "%bar")
    count = f.wide("%count")
    with f.if_(f.op(f"xor i1 {_is_valid(f, word)}, true")):
        _fault(f, UNINITIALISED, word, count)
        f.ret(0)
    with f.if_(f.compare("uge", "i32", f.op("sub i32 %count, 1"), MOST_ARRIVALS)):
        _fault(f, BAD_COUNT, word, count)
        f.ret(0)
    pending = field(f, word, 0, COUNT_BITS)
    with f.if_(f.compare("ugt", "i64", count, pending)):
        _fault(f, TOO_MANY, word, count)
        f.ret(0)
    complains = f.compare("ne", "i32", f.op(f"and i32 %mode, {NO_COMPLETE}"), 0)
    bytes_ = f.op(f"xor i64 {field(f, word, TX_SHIFT, TX_BITS)}, {f.wide('%bytes')}")
    last = f.compare("eq", "i64", f.op(f"or i64 {bytes_}, {f.op(f'sub i64 {pending}, {count}')}"), 0)
    with f.if_(f.op(f"and i1 {complains}, {last}")):
        _fault(f, COMPLETED, word, count)
        f.ret(0)
    drops = f.op(f"select i1 {f.compare('ne', 'i32', f.op(f'and i32 %mode, {DROP}'), 0)}, i64 {count}, i64 0")
    f.call("cl_mbarrier_apply", "void", "ptr %bar", f"i64 {count}", f"i64 {drops}", f"i64 {f.wide('%bytes')}")
    f.ret(word)


def _count_bytes(library: Library) -> None:
    """``cl_mbarrier_bytes(…, bar, bytes)``: ``expect_tx`` (positive) and ``complete_tx`` (negative)."""
    f = begin(library, "cl_mbarrier_bytes", "i1", f"{WHO}, ptr bar, i64 bytes")
    word = f.load("i64", "%bar")
    with f.if_(f.op(f"xor i1 {_is_valid(f, word)}, true")):
        _fault(f, UNINITIALISED, word, "%bytes")
        f.ret("false")
    now = f.op(f"ashr i64 {f.op(f'shl i64 {word}, {64 - TX_SHIFT - TX_BITS}')}, {64 - TX_BITS}")
    limit = 1 << (TX_BITS - 1)
    total = f.op(f"add i64 {f.op(f'add i64 {now}, %bytes')}, {limit - 1}")
    with f.if_(f.compare("ugt", "i64", total, 2 * limit - 2)):
        _fault(f, TX_RANGE, word, "%bytes")
        f.ret("false")
    f.call("cl_mbarrier_apply", "void", "ptr %bar", "i64 0", "i64 0", "i64 %bytes")
    f.ret("true")


def _check(library: Library) -> None:
    """``cl_mbarrier_check(…, bar)``: whether there is an object; false after a fault."""
    f = begin(library, "cl_mbarrier_check", "i1", f"{WHO}, ptr bar")
    word = f.load("i64", "%bar")
    with f.if_(_is_valid(f, word)):
        f.ret("true")
    _fault(f, UNINITIALISED, word, "0")
    f.ret("false")
