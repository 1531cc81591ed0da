"""Pseudo-instructions that follow the time of a thread (``passes.timing.clocks``). Times are in parts of a cycle
since the launch began, ``clocks.FINE`` a cycle."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudalab.sim.compiler.passes.rematerialisation import Level
from cudalab.sim.compiler.passes.suspension import PointKind
from cudalab.sim.compiler.passes.timing.clocks import FINE, KINDS
from cudalab.sim.compiler.ptx.nodes import Address, Instruction, Symbol
from cudalab.sim.compiler.ptx.table import Form, Table
from cudalab.sim.compiler.runtime import layout

if TYPE_CHECKING:
    from cudalab.sim.compiler.codegen.region import RegionKernel
    from cudalab.sim.compiler.codegen.threads import ThreadCode

TABLE = Table()
_LEAST_SLEEP = 40
"""ns that ``nanosleep`` of 0 takes on an H200."""


def _latency(e: ThreadCode, kind: int) -> str:
    """The latency of a class of instructions."""

    def make() -> str:
        place = e.new(f"getelementptr i32, ptr {e.context_field('latencies', 'ptr')}, i64 {kind}")
        return e.new(f"zext i32 {e.new(f'load i32, ptr {place}')} to i64")

    return e.cached(("latency", kind), Level.LAUNCH, make)


def _latest(e: ThreadCode, times: tuple[object, ...]) -> str:
    """The latest of several times."""
    values = [e.integer(each, 64) for each in times] or ["0"]
    found = values[0]
    for value in values[1:]:
        found = e.intrinsic("llvm.umax.i64", "i64", f"i64 {found}", f"i64 {value}")
    return found


@TABLE.row("cudalab.issue.<pipelined|blocking|free>")
def _issue(e: ThreadCode, i: Instruction, f: Form) -> None:
    """``{now, results…}, {now, operands…}, class``"""
    (now, *results), reads, kind = i.operands[0].elements, i.operands[1].elements, i.operands[2].value
    if "free" in f:  # no instruction in machine code
        ready = _latest(e, reads[1:])
    else:
        begin = _latest(e, reads)
        ready = e.new(f"add i64 {begin}, {_latency(e, kind)}")
        issued = e.new(f"add i64 {begin}, {FINE}")
        e.set_integer(now, ready if "blocking" in f or KINDS[kind] in ("branch", "repeat") else issued, 64)
    for result in results:
        e.set_integer(result, ready, 64)


@TABLE.row("cudalab.clock.<clock|clock64|clock_hi|globaltimer|globaltimer_lo|globaltimer_hi>")
def _read(e: ThreadCode, i: Instruction, f: Form) -> None:
    """``{result, now, tick}, {now, tick}``: two reads are at least the latency of the class apart."""
    result, now, tick = i.operands[0].elements
    begin = _latest(e, i.operands[1].elements)
    e.set_integer(now, e.new(f"add i64 {begin}, {FINE}"), 64)
    e.set_integer(tick, e.new(f"add i64 {begin}, {_latency(e, KINDS.index('clock'))}"), 64)
    cycles = e.new(f"udiv i64 {begin}, {FINE}")
    name = i.opcode.rpartition(".")[2]
    unit = "globaltimer" if "globaltimer" in name else "clock64"
    value = e.runtime(f"cl_{unit}_at", "i64", f"ptr {e.context}", f"i64 {cycles}")
    if name.endswith("_hi"):
        value = e.new(f"lshr i64 {value}, 32")
    e.set_integer(result, value if result.bits == 64 else e.new(f"trunc i64 {value} to i32"), result.bits)


@TABLE.row("cudalab.sleep")
def _sleep(e: ThreadCode, i: Instruction, f: Form) -> None:
    """``now, now, ns``: the next larger power of two, as on an H200 (``machine/launch/sleep.py``)."""
    asked = e.integer(i.operands[2], 32)
    leading = e.intrinsic("llvm.ctlz.i32", "i32", f"i32 {asked}", "i1 false")
    bits = e.new(f"zext i32 {e.new(f'sub i32 32, {leading}')} to i64")
    power = e.new(f"shl i64 1, {bits}")
    slept = e.new(f"select i1 {e.new(f'icmp eq i32 {asked}, 0')}, i64 {_LEAST_SLEEP}, i64 {power}")
    megahertz = e.new(f"zext i32 {e.context_field('clock_mhz', 'i32')} to i64")
    fine = e.new(f"mul i64 {megahertz}, {FINE}")
    parts = e.new(f"udiv i64 {e.new(f'mul i64 {slept}, {fine}')}, 1000")
    e.set_integer(i.operands[0], e.new(f"add i64 {e.integer(i.operands[1], 64)}, {parts}"), 64)


@TABLE.row("cudalab.miss.<l1|past_l1>")
def _miss(e: ThreadCode, i: Instruction, f: Form) -> None:
    """``{ready…}, {ready…}, address``: how much later a load is ready that misses the L1."""
    later = _latency(e, KINDS.index("miss"))
    if "l1" in f:
        address = _address(e, i.operands[2])
        hits = e.runtime("cl_l1_hit", "i1", f"ptr {e.context}", f"ptr {e.block}", f"i64 {address}")
        later = e.new(f"select i1 {hits}, i64 0, i64 {later}")
    _delay(e, i, later)


@TABLE.row("cudalab.turns")
def _turns(e: ThreadCode, i: Instruction, f: Form) -> None:
    """``{ready…}, {ready…}, wavefronts``: how much later an access to shared memory is over that bank conflicts make
    several wavefronts of."""
    more = e.new(f"zext i32 {e.integer(i.operands[2], 32)} to i64")
    _delay(e, i, e.new(f"mul i64 {more}, {_latency(e, KINDS.index('wavefront'))}"))


def _delay(e: ThreadCode, i: Instruction, by: str) -> None:
    for target, source in zip(i.operands[0].elements, i.operands[1].elements, strict=True):
        e.set_integer(target, e.new(f"add i64 {e.integer(source, 64)}, {by}"), 64)


def _address(e: ThreadCode, operand: Address) -> str:
    if isinstance(operand.base, Symbol):
        return e.symbol_address(operand)
    base = e.integer(operand.base, 64) if operand.base is not None else "0"
    return e.new(f"add i64 {base}, {operand.offset}") if operand.offset else base


@TABLE.row("cudalab.conflicts.<b32|b64|b128>")
def _conflicts(e: RegionKernel, i: Instruction, f: Form) -> None:
    """``wavefronts, address``: the wavefronts beyond one for every 128 bytes, of all lanes that come here together."""
    e.note(layout.A, e.new(f"trunc i64 {_address(e, i.operands[1])} to i32"))
    e.note(layout.B, str(f.bits // 8))
    e.wait(PointKind.CONFLICTS)
