"""Errors and warnings of the course, in a notebook, as cards.

An exception that comes out of cudalab, CuPy or CUDA is shown as a card: what, the learner's line, what to try; the
frames of the libraries are one click away. The usual traceback is emitted as well, because programs read it (nbgrader
counts it, and pages that know no style sheets show it); beside a card JupyterLab hides it. Errors of plain Python keep
IPython's traceback, and so do mistakes in the use of a magic.

This module is loaded by ``import cudalab`` in a notebook, so it loads no device.
"""

from __future__ import annotations

import contextlib
import re
import sys
import traceback
import warnings
import weakref
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

from IPython.core.error import UsageError
from IPython.display import display

from cudalab.sim.machine.reports import card
from cudalab.timeline import naming

_LIBRARIES = ("cudalab", "cupy", "cupyx", "cuda", "cudart", "cupy_backends")
_SOURCE_LINE = re.compile(r"^\S+?:(\d+)", re.M)
uncompiled: set[str] = set()
"""Names that a ``%%cuda`` was to bind whose cell does not compile."""
_ONCE = """<style>.jp-OutputArea-child:has(.cudalab-error) + .jp-OutputArea-child:has(
[data-mime-type="application/vnd.jupyter.stderr"], [data-mime-type="application/vnd.jupyter.error"])
{display: none}</style>"""


def install(shell: Any) -> None:
    """Show errors and hazards of this IPython shell as cards, with its cells' numbers and its names of streams."""

    known = weakref.ref(shell)

    def number(file: str) -> int | None:
        names: Mapping[str, int] = getattr(getattr(known(), "compile", None), "_filename_map", {})
        return names.get(file)

    card.cell_of_file = number
    card.stream_names = lambda: naming.names_among(getattr(known(), "user_ns", {}))
    if hasattr(shell, "kernel"):  # a page to show cards on
        shell.set_custom_exc((Exception,), _show_error)
        if not isinstance(warnings.showwarning, _Warnings):
            warnings.showwarning = _Warnings(warnings.showwarning)


def running_cell() -> int | None:
    """The number of the cell that is running; None outside of a notebook."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        number = card.cell_of_file(frame.f_code.co_filename)
        if number is not None:
            return number
        frame = frame.f_back
    return None


def _show_error(
    shell: Any, kind: type[BaseException], error: BaseException, trace: TracebackType, tb_offset: int | None = None
) -> None:
    """IPython's handler of exceptions."""
    name = error.name if isinstance(error, NameError) else None
    if name in uncompiled:
        error.add_note(f"Try: the last %%cuda {name} did not compile; mend that cell and run it, then this one.")
    if name in uncompiled or is_ours(error):
        display({"text/html": f"<div class='cudalab-error'>{_ONCE}{error_card(error)}</div>"}, raw=True)
    with _said_once(error) as own:
        shell.showtraceback((kind, error, own or trace), tb_offset=tb_offset, running_compiled_code=True)


@contextlib.contextmanager
def _said_once(error: BaseException) -> Iterator[TracebackType | None]:
    """Within it a kernel that does not compile says so once in its traceback: of a note whose diagnosis the compiler's
    log has as well, the advice alone is kept. Yields the traceback up to the learner's cell, or None for the whole."""
    notes = getattr(error, "__notes__", None)
    if notes is None or not _does_not_compile(error):
        yield None
        return
    before, log = list(notes), str(error)
    notes[:] = [kept for note in before if (kept := _advice_of(note) if _in_log(note, log) else note)]
    try:
        yield _own_part(error.__traceback__)
    finally:
        notes[:] = before


_DIAGNOSIS = re.compile(r"^(.+?):(\d+)(?::\d+)?: (\w+): (.*)$", re.MULTILINE)


def _in_log(note: str, log: str) -> bool:
    """Does the compiler say each diagnosis of the note itself?"""
    found, plain = _DIAGNOSIS.findall(note), log.replace("catastrophic error", "error")
    return bool(found) and all(f"{file}({line}): {kind}: {text}" in plain for file, line, kind, text in found)


def _advice_of(note: str) -> str:
    return "\n".join(line for line in note.split("\n") if line.startswith("Try: "))


def _own_part(trace: TracebackType | None) -> TracebackType | None:
    """A traceback without what comes behind its last frame of a cell."""
    frames = []
    while trace is not None:
        frames.append(trace)
        trace = trace.tb_next
    while frames and not _is_cell(frames[-1].tb_frame.f_code.co_filename):
        frames.pop()
    found: TracebackType | None = None
    for each in reversed(frames):
        found = TracebackType(found, each.tb_frame, each.tb_lasti, each.tb_lineno)
    return found


def _does_not_compile(error: BaseException) -> bool:
    return type(error).__name__ == "CompileException"


def is_ours(error: BaseException) -> bool:
    """Did it come out of a library of the course, rather than out of the learner's own Python?"""
    if isinstance(error, (UsageError, SyntaxError)):
        return False
    frames = traceback.extract_tb(error.__traceback__)
    last = frames[-1].filename if frames else ""
    return (
        not _is_cell(last) and any(part in _LIBRARIES for part in Path(last).parts) or _library_of(error) in _LIBRARIES
    )


def _is_cell(file: str) -> bool:
    return card.cell_of_file(file) is not None


def _library_of(error: BaseException) -> str:
    return type(error).__module__.partition(".")[0]


def error_card(error: BaseException) -> str:
    """The card of an exception."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if _is_cell(frame.filename)]
    message = str(error).strip().split("\n")
    notes = "\n".join(getattr(error, "__notes__", ())).strip("\n")
    lines = notes.split("\n") if notes else []
    advice = [line.strip().removeprefix("Try: ") for line in lines if line.strip().startswith("Try: ")]
    detail = [line for line in lines if not line.strip().startswith("Try: ")]
    if _does_not_compile(error) and detail:
        message = ["the kernel does not compile"]  # the notes quote each line that the log complains of
    where = ""
    code: list[tuple[int, str]] = []
    if own and "run_cell_magic" in (own[-1].line or ""):  # %%cuda: the line is in the kernel's source
        line = _SOURCE_LINE.search(notes)
        where = f"In[{card.cell_of_file(own[-1].filename)}]" + (f", line {line[1]}" if line else "")
    elif own:
        where = f"In[{card.cell_of_file(own[-1].filename)}], line {own[-1].lineno}"
        code = [(own[-1].lineno or 0, own[-1].line or "")]
    with _said_once(error):
        library = "".join(traceback.format_exception(error)).strip()
    return card.card(
        "wrong",
        f"{type(error).__name__}: {message[0]}",
        kind="error",
        where=where,
        code=code,
        detail="\n".join([*message[1:], *detail]),
        advice="\n".join(advice),
        more=("The library's own frames", library),
    )


class _Warnings:
    """``warnings.showwarning``: hazards as cards, the rest as before."""

    def __init__(self, before: Callable[..., Any]) -> None:
        self._before = before

    def __call__(
        self, message: Any, category: type[Warning], filename: str, lineno: int, *rest: Any, **more: Any
    ) -> None:
        found = getattr(message, "hazard", None)
        if found is None:
            self._before(message, category, filename, lineno, *rest, **more)
            return
        display({"text/html": found._repr_html_(), "text/plain": found.text}, raw=True)
