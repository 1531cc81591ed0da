"""Diagnostics of the compiler: source line, caret, message and hint.

NVRTC writes ``kernel.cu(3): error: identifier "n" is undefined`` and quotes the line as it read it;
ptxas, which runs after it, has no lines at all. Here both become ``Diagnostic`` objects, quoted from
the learner's text (never from a file). Where a message is one of the usual beginners' mistakes,
``compile_error.py`` adds a hint. Hints are exception notes: the message itself stays the compiler's.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

_MESSAGE = re.compile(
    r"^(?P<file>.+?)\((?P<line>\d+)\): (?P<severity>catastrophic error|internal error|error|warning|remark|note)"
    r"(?: #(?P<number>\d+(?:-D)?))?: (?P<text>.*)$"
)
_END_OF_SOURCE = re.compile(
    r"^At end of source: (?P<severity>error|warning)(?: #(?P<number>\d+(?:-D)?))?: (?P<text>.*)$"
)
_PTXAS = re.compile(
    r"^\s*ptxas (?:application ptx input, line \d+; )?(?P<severity>error|fatal|warning)\s*: (?P<text>.*)$"
)
_PTXAS_INPUT = re.compile(r"^\s*ptxas application ptx input, line \d+; (?P<severity>\w+)\s*: (?P<text>.*)$")
_NVRTC = re.compile(r"^nvrtc: (?P<severity>error|warning): (?P<text>.*)$")
_SUMMARY = re.compile(r"^(?:\d+ (?:catastrophic )?errors? detected|Compilation terminated|Remark: The warnings can)")
_CARET = re.compile(r"^\s*\^\s*$")
_ENTRY = re.compile(r"Entry function '([^']+)'")
_EXTERN = re.compile(r"Unresolved extern (?:function|variable) '([^']+)'")
_VOTE = re.compile(r"Instruction 'vote' without")
_SEVERITY = {"catastrophic error": "error", "internal error": "error", "fatal": "error", "remark": "note"}
_WIDTH = 200  # characters of a line that are quoted
_STEPS = 6  # template instantiations that are listed
_NAME_MAP = "__nv_name_map"  # NVRTC's file name for name expressions


class Diagnostic(Struct, frozen=True):
    """One message of the compiler."""

    file: str
    line: int
    """From 1; 0 where the compiler names no line."""
    column: int
    """From 1, in characters; 0 where it is not known."""
    severity: str
    """``error``, ``warning`` or ``note``."""
    text: str
    number: str = ""
    """NVRTC's number of a warning or note: ``177-D``."""
    trail: tuple[str, ...] = ()
    """For templates: what was being instantiated, innermost first."""
    hint: str = ""
    """What to try, for the usual mistakes."""

    def where(self) -> str:
        if not self.line:
            return self.file or "kernel"
        return f"{self.file}:{self.line}:{self.column}" if self.column else f"{self.file}:{self.line}"

    def show(self, source: str, name: str) -> str:
        """The message with the quoted line. ``source`` is the text of file ``name``."""
        lines = [f"{self.where()}: {self.severity}: {self.text}"]
        text = source.split("\n")
        if self.file == name and 0 < self.line <= len(text):
            quoted, place = _window(text[self.line - 1].rstrip(), self.column)
            gutter = f"{self.line:>5} | "
            lines.append(gutter + quoted)
            if place:
                # tabs stay tabs, so that the caret stands under its character however wide they are
                lead = "".join("\t" if character == "\t" else " " for character in quoted[: place - 1])
                lines.append(" " * (len(gutter) - 2) + "| " + lead + "^")
        lines += [f"        in {step}" for step in self.trail[:_STEPS]]
        if len(self.trail) > _STEPS:
            lines.append(f"        … {len(self.trail) - _STEPS} more")
        return "\n".join(lines)


def _window(quoted: str, column: int) -> tuple[str, int]:
    """The part of a very long line around ``column``, and where in it the column is."""
    if len(quoted) <= _WIDTH:
        return quoted, column
    start = max(column - _WIDTH // 2, 0)
    part = quoted[start : start + _WIDTH]
    head, tail = "…" if start else "", "…" if start + _WIDTH < len(quoted) else ""
    return head + part + tail, column - start + len(head) if column else 0


class CompileError(Exception):
    """A kernel that does not compile.

    ``str()`` is the compiler's message with the learner's line; hints are exception notes. ``log``,
    ``source``, ``name`` and ``options`` are what ``cupy.cuda.compiler.CompileException`` is made from.
    """

    def __init__(
        self,
        message: str,
        log: str = "",
        diagnostics: Sequence[Diagnostic] = (),
        *,
        source: str = "",
        name: str = "kernel.cu",
        options: Sequence[str] = (),
        limit: str = "",
    ) -> None:
        super().__init__(message)
        self.message = message
        self.log = log
        """The compiler's log, as it came."""
        self.diagnostics = tuple(diagnostics)
        self.source = source
        self.name = name
        self.options = tuple(options)
        self.limit = limit
        """``time``, ``memory`` or ``size`` when the compiler was stopped by that limit, else ``""``."""
        for hint in dict.fromkeys(entry.hint for entry in self.diagnostics if entry.hint):
            self.add_note(f"Try: {hint}")

    def __reduce__(self) -> tuple[object, ...]:
        arguments = (self.message, self.log, self.diagnostics, self.source, self.name, self.options, self.limit)
        return _restore, (*arguments, list(getattr(self, "__notes__", [])))


def _restore(
    message: str,
    log: str,
    diagnostics: tuple[Diagnostic, ...],
    source: str,
    name: str,
    options: tuple[str, ...],
    limit: str,
    notes: list[str],
) -> CompileError:
    error = CompileError(message, log, diagnostics, source=source, name=name, options=options, limit=limit)
    for note in notes:
        if note not in getattr(error, "__notes__", []):
            error.add_note(note)
    return error


class CompilerUnavailable(ImportError):
    """There is no compiler on this machine; the text says what to install."""


def parse_log(log: str, source: str = "", name: str = "kernel.cu") -> tuple[Diagnostic, ...]:
    """All messages of an NVRTC log, in order. ``source`` is the text compiled as ``name``."""
    found: list[Diagnostic] = []
    lines = log.splitlines()
    at = 0
    while at < len(lines):
        match = _MESSAGE.match(lines[at])
        if match:
            entry, at = _located(match, lines, at + 1, source, name)
            found.append(entry)
            continue
        found.extend(_unlocated(lines[at], source, name))
        at += 1
    real = [entry for entry in found if entry.file != _NAME_MAP]
    if any(entry.severity == "error" for entry in real):
        found = real  # name expressions fail because of the errors in the source
    return tuple(found)


def _located(match: re.Match[str], lines: list[str], at: int, source: str, name: str) -> tuple[Diagnostic, int]:
    text = [match["text"]]
    trail: list[str] = []
    column = 0
    quoted = ""
    in_trail = False
    while at < len(lines):
        line = lines[at]
        if not line.strip() or _MESSAGE.match(line) or _SUMMARY.match(line) or _END_OF_SOURCE.match(line):
            break
        at += 1
        if line.strip() == "detected during:" or line.strip().startswith("detected during "):
            in_trail = True
            rest = line.strip().removeprefix("detected during").strip(": ")
            trail += [rest] if rest else []
        elif in_trail:
            trail.append(line.strip())
        elif _CARET.match(line) and quoted:
            column = _column(quoted, line.index("^"))
        elif at < len(lines) and _CARET.match(lines[at]) and line.startswith("  "):
            quoted = line
        elif not quoted:
            text.append(line.strip())
    entry = Diagnostic(
        file=match["file"],
        line=int(match["line"]),
        column=column,
        severity=_SEVERITY.get(match["severity"], match["severity"]),
        text=" ".join(text),
        number=match["number"] or "",
        trail=tuple(step for step in trail if step),
    )
    if entry.file == _NAME_MAP:
        entry = replace(entry, line=0, column=0)
    return entry, at


def _column(quoted: str, caret: int) -> int:
    """NVRTC indents the quoted line by two and counts the caret's place in bytes of UTF-8."""
    return len(quoted.encode()[:caret].decode("utf-8", "ignore")) - 2 + 1


def _unlocated(line: str, source: str, name: str) -> list[Diagnostic]:
    if match := _END_OF_SOURCE.match(line):
        last = len(source.rstrip().splitlines())
        return [Diagnostic(name, last, 0, match["severity"], f"{match['text']} at the end of the source")]
    if match := _PTXAS_INPUT.match(line) or _PTXAS.match(line):
        severity = _SEVERITY.get(match["severity"], match["severity"])
        text = match["text"]
        if text.startswith("Ptx assembly aborted"):
            return []
        return [Diagnostic(name, _line_of(text, source), 0, severity, f"ptxas: {text}")]
    if match := _NVRTC.match(line):
        return [Diagnostic(name, 0, 0, match["severity"], match["text"])]
    return []


def _line_of(text: str, source: str) -> int:
    """ptxas names functions and instructions, not lines: where the function of ``text`` is declared, where a vote
    without ``.sync`` is taken, or 0."""
    from cudalab.sim.compiler.frontend.declaration import blank
    from cudalab.sim.compiler.frontend.demangle import DemangleError, demangle

    match = _ENTRY.search(text) or _EXTERN.search(text)
    if match:
        try:
            plain = demangle(match[1]).name.partition("<")[0].rpartition("::")[2]
        except DemangleError:
            plain = match[1]
        wanted = rf"\b{re.escape(plain)}\b"
    elif _VOTE.search(text):
        wanted = r"\b__(?:ballot|any|all)\b"
    else:
        return 0
    place = re.search(wanted, blank(source))
    return source.count("\n", 0, place.start()) + 1 if place else 0
