"""Trace records: one for each access, basic block entry and arrival of a thread.

A record is 16 bytes in ``context.trace`` (``abi.Record``). Records of a basic block are written inline: one buffer
check reserves space for all of them, and each advances ``trace.used`` once it is written, so that the buffer is
consistent at a fault or a call of a function that records as well. If space runs out, the records go to a scratch area,
and ``cl_trace_full`` counts them as lost and closes the buffer: the trace is a prefix without gaps.

Elided records (``elided_records``) are not written.
"""

from __future__ import annotations

from cudalab.sim.abi import Record
from cudalab.sim.compiler.codegen.environment import RECORD, Room, ThreadEnvironment
from cudalab.sim.compiler.passes.rematerialisation import Level
from cudalab.sim.compiler.runtime.layout import RECORDS_AT_ONCE, field

UNDO_BYTES = 16  # per entry of the undo log
_SITE, _THREAD = Record.site.offset, Record.site.offset + 4


def note(e: ThreadEnvironment, site: int, address: str = "0") -> None:
    """Append a record inline."""
    room = e.room
    if room is None or room.count == RECORDS_AT_ONCE:
        room = e.room = _make_room(e)
    at = RECORD * room.count
    room.expect()
    place = e.new(f"getelementptr i8, ptr {room.place}, i64 {at}") if at else room.place
    e.emit(f"store i64 {address}, ptr {place}")
    e.emit(f"store i32 {site}, ptr {e.new(f'getelementptr i8, ptr {room.place}, i64 {at + _SITE}')}")
    e.emit(f"store i32 {e.thread()}, ptr {e.new(f'getelementptr i8, ptr {room.place}, i64 {at + _THREAD}')}")
    e.emit(f"store i64 {e.new(f'add i64 {room.used}, {at + RECORD}')}, ptr {room.counter}")


def _make_room(e: ThreadEnvironment) -> Room:
    """Reserve space for the records that follow."""
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


def keep_old(e: ThreadEnvironment, pointer: str, size: int) -> None:
    """Append the bytes at ``pointer`` to the undo log."""
    for start in range(0, size, UNDO_BYTES):
        part = e.new(f"getelementptr i8, ptr {pointer}, i64 {start}") if start else pointer
        e.runtime(f"cl_undo_{min(UNDO_BYTES, size - start)}", "void", f"ptr {e.context}", f"ptr {part}")


def mark_accesses(e: ThreadEnvironment) -> None:
    """Mark the bytes of the accesses so far in this basic block, if the launch records a footprint."""
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
