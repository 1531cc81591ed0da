"""What is doubtful in a source that compiles: the few warnings of the compiler that tell a learner of a mistake.

NVRTC warns of much that is no mistake, variables that nothing uses first of all: what a task declares and leaves to be
used, a parameter of a macro. Those are left out, and so is all that it says of headers. What is kept stands in the
table below, each with the rule that it is about and what to try: code that compiles and does not do what it seems to
say. One is added: of ``=`` in a condition NVRTC warns only where a plain constant is assigned, and not of
``if (row = 0 || row == last)``; here it is any condition that assigns and has no brackets of its own around that, as
other compilers have it.

None of this was said of the course's own sources, nor of the corpus; of 211 files of the public corpus it was of one,
which prints an ``int`` by ``%ld`` (2026-11-23).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from msgspec import Struct

from cudalab.sim.compiler.frontend.declaration import blank
from cudalab.sim.compiler.frontend.diagnostics import Diagnostic, parse_log

Advice = str | Callable[[Diagnostic, str], str]


class Caution(Struct, frozen=True):
    """One doubtful line."""

    line: int
    """From 1."""
    code: str
    """The text of that line."""
    text: str
    """What is doubtful, in the compiler's words."""
    rule: str
    advice: str
    """What to try."""

    def __str__(self) -> str:
        return f"line {self.line}: {self.text}\n    {self.code.strip()}\nRule: {self.rule}\nTry: {self.advice}"


def cautions(log: str, source: str, name: str = "kernel.cu") -> tuple[Caution, ...]:
    """What is doubtful in ``source``, which compiled as ``name`` with this ``log``, in the order of its lines: of each
    line the same once."""
    lines = source.split("\n")
    found: dict[tuple[int, str], Caution] = {}
    for entry in (*parse_log(log, source, name), *_assignments(source, name)):
        known = _TABLE.get(entry.number.removesuffix("-D"))
        if known is None or entry.severity != "warning" or entry.file != name or not 0 < entry.line <= len(lines):
            continue
        code = lines[entry.line - 1].rstrip()
        rule, advice = known
        advice = advice if isinstance(advice, str) else advice(entry, code)
        found.setdefault((entry.line, entry.number), Caution(entry.line, code, entry.text, rule, advice))
    return tuple(sorted(found.values(), key=lambda one: one.line))


def _assignments(source: str, name: str) -> Iterator[Diagnostic]:
    """Where a condition assigns, though no brackets of its own say that it is to."""
    text = blank(source)
    for condition in re.finditer(r"\b(?:if|while)\s*\(", text):
        depth = 1
        for found in _TOKEN.finditer(text, condition.end()):
            depth += {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(found[0], 0)
            if not depth or found[0] == ";":
                break
            if depth == 1 and found[0] == "=":
                before = text[condition.end() : found.start()]
                if not _DECLARED.fullmatch(before):
                    line = text.count("\n", 0, found.start()) + 1
                    said = 'use of "=" where "==" may have been intended'
                    yield Diagnostic(name, line, 0, "warning", said, "187-D")
                break


_TOKEN = re.compile(r"[()\[\]{};]|[=!<>]=|<<=|>>=|[-+*/%&|^]=|=")
_DECLARED = re.compile(r"\s*(?:const\s+)?[A-Za-z_][\w:]*(?:<[^<>]*>)?[\s*&]+\w+\s*")  # if (int found = f(x))


def _no_effect(entry: Diagnostic, code: str) -> str:
    rest = code[max(entry.column - 1, 0) :]
    if call := re.match(r"(__\w+|\w*[sS]ync\w*)\s*;", rest):
        return f"call it with brackets: {call[1]}()."
    if re.match(r"[^;=]*[^=!<>]==[^=]", rest):
        return "= assigns a value, == compares two."
    if step := re.match(r"(\w+)\s*[+-]\s*\w+\s*\)", rest):
        return f"a step changes the variable, as ++{step[1]} and {step[1]} += 2 do."
    return "assign what the expression is worth, or leave the line out."


_FORMAT = "%d is for int, %u for unsigned, %lld for long long, %f for float and double; one for each value."
_TABLE: dict[str, tuple[str, Advice]] = {
    "174": ("a value that nothing uses does nothing", _no_effect),
    "187": ("= assigns and is worth what it assigned; == compares", "write == where two values are compared."),
    "549": (
        "a variable holds anything until it is given a value",
        "give it one where it is declared, or on every way to this line.",
    ),
    "940": (
        "a function that promises a value returns one on every way to its end",
        "a return behind the last if, with what the function is worth there.",
    ),
    "186": (
        "an unsigned number is never below 0",
        "a signed int, or a comparison that does not ask for less than 0.",
    ),
    "39": (
        "a division by 0 has no value",
        "look at the divisor: / between integers cuts off what is behind the point.",
    ),
    "179": ("a remainder by 0 has no value", "look at the divisor."),
    "62": ("a shift goes by 0 to 31 bits (63 for long long)", "look at what is to the right of << or >>."),
    "63": ("a shift goes by 0 to 31 bits (63 for long long)", "a long long to the left, as in 1LL << 40."),
    "61": ("an int ends at 2,147,483,647", "make one side a long long, as in 65536LL * 65536."),
    "69": ("a type holds what fits into its bytes", "a larger type: int for char, long long for int."),
    "181": ("printf reads each value as its % says", _FORMAT),
    "224": ("printf reads a value for each %", _FORMAT),
    "225": ("printf reads a value for each %", _FORMAT),
}
"""By NVRTC's number: the rule, and what to try."""
