"""Takes the waits out of a program, one at a time: each one that is needed must be missed.

:func:`deletions` finds every statement that orders something: an event's record, a stream's wait for it, a
synchronisation of the host. The statement goes and its line stays, so that line numbers are those of the program.
:func:`undetected` runs what is left and gives the deletions that no hazard and no CUDA error tells of.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.hazards.program import Ran, run

_RECORDS = {"record", "cudaEventRecord", "cudaEventRecordWithFlags", "cuEventRecord", "eventRecord", "event_record"}
_ORDERS = {
    "wait_event", "cudaStreamWaitEvent", "cuStreamWaitEvent", "streamWaitEvent", "stream_wait_event",
    "synchronize", "cudaStreamSynchronize", "cudaEventSynchronize", "cudaDeviceSynchronize", "cuStreamSynchronize",
    "cuEventSynchronize", "cuCtxSynchronize", "deviceSynchronize", "streamSynchronize", "eventSynchronize",
    "stream_synchronize", "event_synchronize",
}  # fmt: skip
_ELAPSED = {"get_elapsed_time", "cudaEventElapsedTime", "cuEventElapsedTime", "eventElapsedTime"}


@dataclass(frozen=True)
class Deletion:
    """A program without one of its waits."""

    line: int
    """Where the statement was."""
    statement: str
    text: str
    """The program that is left."""


def deletions(text: str) -> list[Deletion]:
    """Every way to leave one wait out. Events that only take times (``get_elapsed_time``) are no waits."""
    tree = ast.parse(text)
    timers = {ast.unparse(a) for call in _calls(tree) if _name(call) in _ELAPSED for a in call.args}
    found = []
    for statement in ast.walk(tree):
        if not isinstance(statement, (ast.Expr, ast.Assign)):
            continue
        orders = [call for call in _calls(statement) if _name(call) in _RECORDS | _ORDERS]
        if not orders or all(_takes_time(statement, call, timers) for call in orders):
            continue
        found.append(Deletion(statement.lineno, ast.unparse(statement), _without(text, statement, orders[0])))
    return sorted(found, key=lambda deletion: deletion.line)


def undetected(text: str, *, setup: str = "", unneeded: tuple[str, ...] = ()) -> list[Deletion]:
    """Deletions that nothing tells of. ``unneeded`` lists statements that something else in the program implies."""
    return [
        deletion
        for deletion in deletions(text)
        if deletion.statement not in unneeded and not _noticed(run(deletion.text, setup=setup))
    ]


def notebook_program(path: Path, *, first: str = "", last: str = "") -> str:
    """The code cells of a notebook, from the one with the id ``first`` to that with the id ``last``, without magics."""
    cells = [cell for cell in json.loads(path.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == "code"]
    ids = [cell.get("id", "") for cell in cells]
    start, end = ids.index(first) if first else 0, ids.index(last) + 1 if last else len(cells)
    lines = "\n".join("".join(cell["source"]) for cell in cells[start:end]).splitlines()
    return "\n".join("" if line.startswith(("%", "!")) else line for line in lines)


def _noticed(ran: Ran) -> bool:
    return bool(ran.hazards) or type(ran.error).__name__ in ("CUDARuntimeError", "CudaError")


def _calls(tree: ast.AST) -> Iterator[ast.Call]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.Call))


def _name(call: ast.Call) -> str:
    function = call.func
    return (
        function.attr if isinstance(function, ast.Attribute) else function.id if isinstance(function, ast.Name) else ""
    )


def _takes_time(statement: ast.stmt, call: ast.Call, timers: set[str]) -> bool:
    """Is this the record of an event that only takes a time?"""
    if _name(call) not in _RECORDS:
        return False
    names = {ast.unparse(argument) for argument in call.args}
    if isinstance(call.func, ast.Attribute):
        names.add(ast.unparse(call.func.value))
    if isinstance(statement, ast.Assign):
        names |= {ast.unparse(target) for target in statement.targets}
    return bool(names & timers)


def _without(text: str, statement: ast.Expr | ast.Assign, call: ast.Call) -> str:
    """The program with the statement taken out; what it assigns becomes an event that nobody recorded, or success."""
    lines = text.splitlines(keepends=True)
    first, last = statement.lineno - 1, (statement.end_lineno or statement.lineno) - 1
    left = "pass"
    if isinstance(statement, ast.Assign):
        targets = " = ".join(ast.unparse(target) for target in statement.targets)
        value = "cp.cuda.Event()" if _name(call) == "record" else "(cudart.cudaError_t.cudaSuccess,)"
        left = f"{targets} = {value}"
    before = lines[first].encode()[: statement.col_offset].decode()
    after = lines[last].encode()[statement.end_col_offset :].decode()
    return "".join([*lines[:first], before + left + "\n" * (last - first) + after, *lines[last + 1 :]])
