"""What traced code writes down: a record for each access, basic block and arrival of each thread.

A record is 16 bytes in ``context.trace`` (``abi.Record``). Records of a basic block are written in line: one look at
the buffer makes room for as many as follow, and each moves ``trace.used`` on when it has been written, so that a fault,
or a function that records as well, finds the buffer as it is. Where there is no room the records go to a spare place,
and ``cl_trace_full`` counts them as lost and closes the buffer: what was kept is a beginning, without gaps.

What can be told from another record is not written. Accesses of a basic block through the same pointer value lie at
constant distances from each other, and who makes an access has entered its block: ``Site.behind`` names the site whose
record stands for them, and ``machine/spread.py`` puts them back. Code of the sanitizer writes each record, because it
goes by their exact order.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from cudalab.sim.abi import Record, Space
from cudalab.sim.compiler.passes.control_flow import Block
from cudalab.sim.compiler.passes.rematerialisation import Level
from cudalab.sim.compiler.program import Site
from cudalab.sim.compiler.ptx.nodes import Instruction
from cudalab.sim.compiler.runtime.layout import RECORDS_AT_ONCE, field

if TYPE_CHECKING:
    from cudalab.sim.compiler.codegen.plan import Plan
    from cudalab.sim.compiler.codegen.threads import ThreadCode

UNDO_BYTES = 16  # that one entry of the undo log holds
_RECORD = 16
_SITE, _THREAD = Record.site.offset, Record.site.offset + 4
#: Functions of the runtime object that append no record.
_SILENT = frozenset(["cl_mark", "cl_fault", *(f"cl_undo_{size}" for size in (1, 2, 4, 8, 16))])


@dataclass
class Room:
    """Room in the buffer for the records of one basic block, or of a part of it. What depends on how many there are is
    written anew with each of them."""

    lines: list[str]
    line: int
    """Where in ``lines`` it is computed how far the buffer will be used."""
    end: str
    failures: list[str]
    failure: int
    """Where in ``failures`` stands what happens when there is no room."""
    labels: tuple[str, str]
    """Of that, and of where the code goes on."""
    spare: str
    used: str
    """How far the buffer was used before."""
    place: str = ""
    counter: str = ""
    """Where it is noted how far the buffer is used."""
    count: int = 0

    def expect(self) -> None:
        """There is one more record."""
        self.count += 1
        size = _RECORD * self.count
        self.lines[self.line] = f"{self.end} = add i64 {self.used}, {size}"
        full, label = self.labels
        self.failures[self.failure] = (
            f"{full}:\n{self.spare} = call ptr @cl_trace_full(ptr %ctx, i64 {self.count})\n"
            f"{self.spare}.counter = getelementptr i8, ptr {self.spare}, i64 {_RECORD * RECORDS_AT_ONCE}\n"
            f"br label %{label}"
        )


# -- which records stand for others


def share_records(plan: Plan, sites: list[Site]) -> None:
    """Say in ``sites`` which accesses and basic blocks need no record of their own."""
    for block in plan.blocks:
        if block.index in plan.polling_blocks or block.leaves:
            continue
        for group in dict.fromkeys(plan.groups[i] for i in block.instructions if i in plan.groups):
            first, *others = group.members
            for access in others if first.space is not Space.PARAM else ():
                distance = access.offset - first.offset
                sites[access.site] = replace(sites[access.site], behind=first.site, distance=distance)
        first_record = _first_record(plan, block)
        if first_record >= 0 and block.size:
            index = plan.block_sites[block.index]
            sites[index] = replace(sites[index], behind=first_record)


def _first_record(plan: Plan, block: Block) -> int:
    """The site of the access that is the first to write a record in a basic block; -1 where that is not sure."""
    for instruction in block.instructions:
        access = plan.accesses.get(instruction)
        if access is not None and access.space is not Space.PARAM:
            return access.site if not access.read_only else -1
        if disturbs(plan, instruction):
            return -1
    return -1


def disturbs(plan: Plan, instruction: Instruction) -> bool:
    """May an instruction append records in another way than in line, or not reach its end?"""
    opcode = instruction.opcode
    return (
        instruction in plan.other_sites
        or instruction in plan.copies
        or "async" in opcode
        or opcode.startswith(("call", "bar", "mbarrier"))
    )


# -- writing


def note(e: ThreadCode, site: int, address: str = "0") -> None:
    """Append a record, in line."""
    room = e.room
    if room is None or room.count == RECORDS_AT_ONCE:
        room = e.room = _make_room(e)
    at = _RECORD * room.count
    room.expect()
    place = e.new(f"getelementptr i8, ptr {room.place}, i64 {at}") if at else room.place
    e.emit(f"store i64 {address}, ptr {place}")
    e.emit(f"store i32 {site}, ptr {e.new(f'getelementptr i8, ptr {room.place}, i64 {at + _SITE}')}")
    e.emit(f"store i32 {e.thread()}, ptr {e.new(f'getelementptr i8, ptr {room.place}, i64 {at + _THREAD}')}")
    e.emit(f"store i64 {e.new(f'add i64 {room.used}, {at + _RECORD}')}, ptr {room.counter}")


def _make_room(e: ThreadCode) -> Room:
    """Look whether the records that follow fit."""
    data = e.context_field("trace.data", "ptr")
    used_at, capacity_at = (
        e.new(f"getelementptr i8, ptr {e.context}, i64 {field(name)}") for name in ("trace.used", "trace.capacity")
    )
    used = e.new(f"load i64, ptr {used_at}")
    capacity = e.new(f"load i64, ptr {capacity_at}")
    place = e.new(f"getelementptr i8, ptr {data}, i64 {used}")
    end = e.new("")
    line = len(e.lines) - 1
    full, label, before = e.fresh_label("full"), e.fresh_label("room"), e.label_now
    e.emit(f"br i1 {e.new(f'icmp ule i64 {end}, {capacity}')}, label %{label}, label %{full}, !prof !1")
    e.count += 1
    spare = f"%spare{e.count}"
    e.failures.append("")
    e.unit.declare("cl_trace_full", "declare ptr @cl_trace_full(ptr, i64) cold nounwind")
    room = Room(e.lines, line, end, e.failures, len(e.failures) - 1, (full, label), spare, used)
    e.label(label)
    room.place = e.new(f"phi ptr [ {place}, %{before} ], [ {spare}, %{full} ]")
    room.counter = e.new(f"phi ptr [ {used_at}, %{before} ], [ {spare}.counter, %{full} ]")
    return room


def keep_old(e: ThreadCode, pointer: str, size: int) -> None:
    """Append the bytes at ``pointer`` to the undo log."""
    for start in range(0, size, UNDO_BYTES):
        part = e.new(f"getelementptr i8, ptr {pointer}, i64 {start}") if start else pointer
        e.runtime(f"cl_undo_{min(UNDO_BYTES, size - start)}", "void", f"ptr {e.context}", f"ptr {part}")


def mark_accesses(e: ThreadCode) -> None:
    """Where a launch keeps a footprint, mark the bytes of the accesses so far in this basic block."""
    if not e.to_mark:
        return
    marks = e.context_field("marks", "ptr")
    wanted = e.cached("wants marks", Level.LAUNCH, lambda: e.new(f"icmp ne ptr {marks}, null"))
    mark, done = e.fresh_label("mark"), e.fresh_label("marked")
    e.emit(f"br i1 {wanted}, label %{mark}, label %{done}, !prof !2")
    saved, e.lines = e.lines, [f"{mark}:"]
    for access, base, offset in e.to_mark:
        pointer = e.new(f"getelementptr i8, ptr {base}, i64 {offset}") if offset else base
        e.runtime("cl_mark", "void", f"ptr {e.context}", f"ptr {pointer}", f"i64 {access.size}", f"i32 {access.kind:d}")
    e.emit(f"br label %{done}")
    e.failures += e.lines
    e.lines = saved
    e.label(done)
    e.to_mark = []


def is_silent(name: str) -> bool:
    """Is this a function of the runtime object that appends no record?"""
    return name in _SILENT
