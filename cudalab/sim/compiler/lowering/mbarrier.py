"""``mbarrier`` instructions (PTX ISA, "Parallel Synchronization and Communication Instructions: mbarrier").

Arrivals and counts are calls of ``runtime/mbarrier.py``, which also defines the object's layout. Waits are suspension
points (``runtime/mbarrier_waits.py``). Memory orders and scopes have no effect: a single worker runs all blocks of a
cluster.

Misuse that is undefined on hardware ends the launch with an explanation: an uninitialised object, a count of zero, more
arrivals than a phase expects. Under the sanitizer it is noted and has no effect; a wait for such an object is over at
once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudalab.sim.abi import SHARED_WINDOW, SyncEvent
from cudalab.sim.compiler.codegen.addresses import place
from cudalab.sim.compiler.codegen.polling import looked_at
from cudalab.sim.compiler.passes.suspension import PointKind
from cudalab.sim.compiler.ptx.nodes import Address, Instruction, Register
from cudalab.sim.compiler.ptx.table import Form, Table
from cudalab.sim.compiler.runtime import layout, mbarrier

if TYPE_CHECKING:
    from cudalab.sim.compiler.codegen.region import RegionKernel
    from cudalab.sim.compiler.codegen.threads import ThreadCode

TABLE = Table()
_OWN = "[.shared|shared::cta]"
_SCOPES = "<cta|cluster>"
_ARRIVE = "mbarrier.<arrive|arrive_drop>"


# -- calls -------------------------------------------------------------------------------------------------------------


def include(e: ThreadCode) -> None:
    """Add the runtime functions of these instructions to the object file."""
    e.unit.include("mbarrier", mbarrier.write)


def call(e: ThreadCode, name: str, result: str, *arguments: str) -> str:
    """Call a function that ``Unit.include`` has added."""
    text = f"call {result} @{name}({', '.join(arguments)})"
    if result == "void":
        e.emit(text)
        return ""
    return e.new(text)


def who(e: ThreadCode, site: int) -> tuple[str, str, str, str]:
    """The leading arguments of a function that may record a fault."""
    return f"ptr {e.context}", f"ptr {e.block}", f"i32 {e.thread()}", f"i32 {site}"


def must(e: ThreadCode, condition: str) -> None:
    """Go to ``fault`` unless ``condition`` (i1) holds; sanitized code has noted the fault, and goes on."""
    if e.unit.skips:
        return
    good = e.fresh_label("ok")
    e.emit(f"br i1 {condition}, label %{good}, label %fault, !prof !1")
    e.label(good)


def site_of(e: ThreadCode, i: Instruction) -> int:
    """The site of an instruction of this family: of a suspension point, or of its own."""
    found = e.plan.other_sites.get(i)
    if found is not None:
        return found
    return next(e.plan.site_of_point(point.number) for point in e.plan.points if point.instruction is i)


def barrier_at(e: ThreadCode, i: Instruction, f: Form, operand: Address, site: int = -1) -> tuple[str, str]:
    """The object that an operand points to: a pointer, and its generic address (i64)."""
    include(e)
    base = e.integer(operand.base, 64) if isinstance(operand.base, Register) else ""
    if not base:
        base = e.symbol_address(Address(operand.base, 0)) if operand.base is not None else "0"
    address = e.new(f"add i64 {base}, {operand.offset}")
    if "shared::cluster" in f and f.row.name in ("mbarrier", "st", "red"):  # may belong to another block
        pointer = place(e, address, 8, site if site >= 0 else site_of(e, i))
        return pointer, e.new(f"add i64 {address}, {SHARED_WINDOW}")
    if not any(token.startswith("shared") for token in f.modifiers):
        address = e.new(f"sub i64 {address}, {SHARED_WINDOW}")  # a generic address
    site = site if site >= 0 else site_of(e, i)
    pointer = call(e, "cl_mbarrier", "ptr", *who(e, site), f"i64 {address}")
    must(e, e.new(f"icmp ne ptr {pointer}, null"))
    return pointer, e.new(f"add i64 {address}, {SHARED_WINDOW}")


def parity(e: ThreadCode, word: str) -> str:
    """The phase parity of an object or a token, as i32."""
    bit = e.new(f"and i64 {e.new(f'lshr i64 {word}, {mbarrier.PARITY_SHIFT}')}, 1")
    return e.new(f"trunc i64 {bit} to i32")


def note_deferred(e: ThreadCode, i: Instruction, bar: str, address: str, site: int = -1) -> None:
    """Record in the trace a release by the thread's copies to the object's phase, on their completion."""
    if e.unit.traced:
        phase = parity(e, e.new(f"load i64, ptr {bar}, align 8"))
        e.event(SyncEvent.ASYNC_ARRIVE, site if site >= 0 else e.plan.other_sites[i], address, phase)


# -- the object --------------------------------------------------------------------------------------------------------


@TABLE.row(f"mbarrier.init{_OWN}.b64")
def _init(e: ThreadCode, i: Instruction, f: Form) -> None:
    bar, address = barrier_at(e, i, f, i.operands[0])
    count = e.integer(i.operands[1], 32)
    _note_life(e, i, address)
    must(e, call(e, "cl_mbarrier_init", "i1", *who(e, site_of(e, i)), f"ptr {bar}", f"i32 {count}"))


def _note_life(e: ThreadCode, i: Instruction, address: str) -> None:
    """Record in the trace of sanitized code that the object begins or ends: its uses have to be ordered with that."""
    if e.unit.follows:
        e.event(SyncEvent.OBJECT, site_of(e, i), address)


@TABLE.row(f"mbarrier.inval{_OWN}.b64")
def _invalidate(e: ThreadCode, i: Instruction, f: Form) -> None:
    """The PTX ISA leaves the contents undefined; here it is no longer an mbarrier object."""
    bar, address = barrier_at(e, i, f, i.operands[0])
    _note_life(e, i, address)
    must(e, call(e, "cl_mbarrier_check", "i1", *who(e, site_of(e, i)), f"ptr {bar}"))
    e.emit(f"store i64 0, ptr {bar}, align 8")


# -- arrivals ----------------------------------------------------------------------------------------------------------


@TABLE.row(f"{_ARRIVE}{_OWN}.b64", f"{_ARRIVE}.<release|relaxed>.{_SCOPES}{_OWN}.b64")
@TABLE.row(f"{_ARRIVE}.shared::cluster.b64", f"{_ARRIVE}.<release|relaxed>.cluster.shared::cluster.b64")
def _arrive(e: ThreadCode, i: Instruction, f: Form) -> None:
    count = e.integer(i.operands[2], 32) if len(i.operands) > 2 else "1"
    _arrival(e, i, f, count, "0")


@TABLE.row(f"{_ARRIVE}.noComplete{_OWN}.b64", f"{_ARRIVE}.noComplete.release.cta{_OWN}.b64")
def _arrive_without_completing(e: ThreadCode, i: Instruction, f: Form) -> None:
    _arrival(e, i, f, e.integer(i.operands[2], 32), "0")


@TABLE.row(f"{_ARRIVE}.expect_tx{_OWN}.b64", f"{_ARRIVE}.expect_tx.<release|relaxed>.{_SCOPES}{_OWN}.b64")
@TABLE.row(f"{_ARRIVE}.expect_tx.shared::cluster.b64")
@TABLE.row(f"{_ARRIVE}.expect_tx.<release|relaxed>.cluster.shared::cluster.b64")
def _arrive_expecting(e: ThreadCode, i: Instruction, f: Form) -> None:
    _arrival(e, i, f, "1", e.integer(i.operands[2], 32))


def _arrival(e: ThreadCode, i: Instruction, f: Form, count: str, expected: str) -> None:
    bar, address = barrier_at(e, i, f, i.operands[1])
    mode = (mbarrier.DROP if "arrive_drop" in f else 0) | (mbarrier.NO_COMPLETE if "noComplete" in f else 0)
    arguments = (f"ptr {bar}", f"i32 {count}", f"i32 {expected}", f"i32 {mode}")
    site = site_of(e, i)
    if e.unit.traced and "relaxed" not in f:
        e.event(SyncEvent.ARRIVE, site, address, parity(e, e.new(f"load i64, ptr {bar}, align 8")))
    token = call(e, "cl_mbarrier_arrive", "i64", *who(e, site), *arguments)
    must(e, e.new(f"icmp ne i64 {token}, 0"))
    if isinstance(i.operands[0], Register):
        e.set_integer(i.operands[0], token, 64)


@TABLE.row(f"mbarrier.<expect_tx|complete_tx>{_OWN}.b64", "mbarrier.<expect_tx|complete_tx>.shared::cluster.b64")
@TABLE.row(f"mbarrier.<expect_tx|complete_tx>.relaxed.{_SCOPES}{_OWN}.b64")
@TABLE.row(f"mbarrier.<expect_tx|complete_tx>.relaxed.{_SCOPES}.shared::cluster.b64")
def _count_bytes(e: ThreadCode, i: Instruction, f: Form) -> None:
    bar, _ = barrier_at(e, i, f, i.operands[0])
    amount = e.new(f"zext i32 {e.integer(i.operands[1], 32)} to i64")
    if "complete_tx" in f:
        amount = e.new(f"sub i64 0, {amount}")
    must(e, call(e, "cl_mbarrier_bytes", "i1", *who(e, site_of(e, i)), f"ptr {bar}", f"i64 {amount}"))


@TABLE.row("mbarrier.pending_count.b64")
def _pending_count(e: ThreadCode, i: Instruction, f: Form) -> None:
    token = e.integer(i.operands[1], 64)
    count = e.new(f"and i64 {token}, {mbarrier.MOST_ARRIVALS}")
    e.set_integer(i.operands[0], e.new(f"trunc i64 {count} to i32"), 32)


# -- waits -------------------------------------------------------------------------------------------------------------


@TABLE.row(f"mbarrier.<test_wait|try_wait>[.parity]{_OWN}.b64")
@TABLE.row(f"mbarrier.<test_wait|try_wait>[.parity].<acquire|relaxed>.{_SCOPES}{_OWN}.b64")
def _wait(e: RegionKernel, i: Instruction, f: Form) -> None:
    """Suspend until the phase completes. The time limit of ``try_wait`` is left to the driver."""
    bar, address = barrier_at(e, i, f, i.operands[1])
    valid = call(e, "cl_mbarrier_check", "i1", *who(e, site_of(e, i)), f"ptr {bar}")
    must(e, valid)
    if e.watched:
        looked_at(e, i, bar)
    if "parity" in f:
        wanted = e.new(f"and i32 {e.integer(i.operands[2], 32)}, 1")
    else:
        wanted = parity(e, e.integer(i.operands[2], 64))
    offset = e.new(f"trunc i64 {e.new(f'sub i64 {address}, {SHARED_WINDOW}')} to i32")
    if e.unit.skips:  # a word of shared memory whose phase, whatever it is, is not the one that is waited for
        there = e.new(f"load i64, ptr {e.shared_base()}, align 8")
        offset = e.new(f"select i1 {valid}, i32 {offset}, i32 0")
        wanted = e.new(f"select i1 {valid}, i32 {wanted}, i32 {e.new(f'xor i32 {parity(e, there)}, 1')}")
    e.note(layout.A, offset)
    e.note(layout.A_HIGH, wanted)
    e.wait(PointKind.MBARRIER)
