"""Which wait is missing between two accesses, and what looks like one and is not.

The advice goes by the program's order: the wait belongs between the line that comes first and the one that comes
second. Where the second stream did wait for the first one, only for too little or too late, the report says so.
"""

from __future__ import annotations

from collections.abc import Sequence

from cudalab.sim.device.caller import Place
from cudalab.sim.device.hazards.clocks import Stamp
from cudalab.sim.device.hazards.hazard import Kind, Party, at, name_of


def between_streams(first: Stamp, second: Stamp, one: Party, other: Party, kind: Kind) -> str:
    """For two operations."""
    if one.of_graph and other.of_graph and _of_one_graph(first, second):
        return (
            f"add an edge from {one.what}{at(one.place)} to {other.what}{at(other.place)} (cudaGraphAddDependencies); "
            "in a capture, record an event behind the first and let the other stream wait for it before the second "
            "(stream.wait_event(event))"
        )
    (here, this), (there, that) = _handle(first, one), _handle(second, other)
    if kind == Kind.FREE and other.kind == "free":
        return (
            f"free the memory in {here}, or record an event in {here} after {this} and let {there} "
            f"wait for it (cudaStreamWaitEvent, stream.wait_event(event)) before {that}"
        )
    if kind == Kind.FREE:
        return (
            f"move the free{at(one.place)} behind {that}: record an event in {there} after it, "
            f"and let {here} wait for it (cudaStreamWaitEvent, stream.wait_event(event)) before the free"
        )
    return (
        f"record an event in {here} after {this} and let {there} wait for it (cudaStreamWaitEvent, "
        f"stream.wait_event(event)) before {that}"
    )


def _handle(stamp: Stamp, party: Party) -> tuple[str, str]:
    """Where an event can be recorded or waited for, and behind or before what: of a node the launch of its graph, whose
    line is another than that which put the node into the graph."""
    stream = stamp.line.stream
    if party.of_graph:
        return name_of(stream.seen_as), f"the launch of the graph{at(stream.launched_at)}"
    return name_of(stream), f"{party.noun}{at(party.place)}"


def for_dependent(one: Party, other: Party) -> str:
    """For a kernel and a dependent launch behind it."""
    does = {"reads": "reads", "changes": "changes"}.get(other.verb, "writes")
    plainly = "launch it without cudaLaunchAttributeProgrammaticStreamSerialization"
    if other.of_graph:
        plainly = "give it a plain edge (no edge data, or without that attribute where the launch is captured)"
    return (
        f"in {other.what}{at(other.place)} call cudaGridDependencySynchronize() (griddepcontrol.wait) before it {does} "
        f"these bytes; or {plainly}, behind {one.noun}"
    )


def _of_one_graph(first: Stamp, second: Stamp) -> bool:
    """Do the two belong to the same executable graph?"""
    return first.line.stream.handle == second.line.stream.handle


def for_host(operation: Stamp, party: Party, host: Party) -> str:
    """For an operation and the host that reads or writes."""
    stream, this = _handle(operation, party)
    does = "reads" if host.verb == "reads" else "writes the buffer"
    wait = (
        f"call stream.synchronize() (cudaStreamSynchronize) on {stream}, or synchronise with an event recorded there, "
        f"after {this} and before the host {does}{at(host.place)}"
    )
    return wait if host.verb == "reads" else f"{wait}; or let the host fill a second buffer meanwhile"


def notes(first: Stamp, second: Stamp, without_record: Sequence[Place] = ()) -> list[str]:
    """What about these two streams explains why there is no order. ``without_record`` are waits before the second whose
    event had not been recorded."""
    found = []
    one, other = first.line.stream, second.line.stream
    if 0 in (one.handle, other.handle) and not (one.blocking and other.blocking):
        loose = name_of((other if one.handle == 0 else one).seen_as)
        found.append(
            f"{loose[0].upper()}{loose[1:]} is non-blocking (cudaStreamNonBlocking), so it and the default stream do "
            "not wait for each other."
        )
    elif one.handle == other.handle == 2:
        found.append("Each host thread has a per-thread default stream of its own.")
    if first.work.name.endswith("H2D pageable"):
        found.append(
            "A copy from pageable memory may return when its bytes are staged, before they have arrived on the device."
        )
    before = after = None
    for wait in second.line.waits.get(first.line.index, ()):
        if wait.sequence <= second.sequence:
            before = wait
        elif after is None and wait.record.number >= first.number:
            after = wait
    if before is not None and before.record.number < first.number:
        recorded, work = before.record.place, first.place
        waits = f"The event that {name_of(other)} waits for{at(before.place)}"
        if recorded.file == work.file and recorded.line > work.line:  # in a loop: it was recorded behind other work
            found.append(f"{waits} was recorded in an earlier round{at(recorded)}, behind other work.")
        else:
            earlier_than = at(work).strip(" ()") or "the first of the two"
            found.append(f"{waits} was recorded too early{at(recorded)}: before {earlier_than}.")
    early = {*without_record, *([] if before is None else [before.place])}
    if after is not None and after.place not in early:  # else it is the same line, one round of a loop later
        found.append(f"{name_of(other)[0].upper()}{name_of(other)[1:]} waits for it too late{at(after.place)}.")
    return found
