"""Kernels that differ in comments and blanks alone: one verdict serves for all of them, where it names no lines.

A class hands in many answers that differ in a comment. They compile to the same instructions, so with the same inputs
they get the same values, findings and counts. Only what a finding quotes, a line and its number, is each answer's own;
such answers are graded each for itself.

The comparison is by tokens, and careful: what it does not know for sure to mean the same counts as different.
Directives and the cell's first line count as they are; signs without a blank between them count as one; a text that can
tell where its lines are is like no other.
"""

from __future__ import annotations

import re

from cudalab.checks.answer import MAGIC
from cudalab.grading.messages import Outcome, ResultRecord

_KNOWS_ITS_LINES = re.compile(
    r"__LINE__|__FILE__|__COUNTER__|LINE\(\)|source_location|assert|\\\r?\n|\?\?|%:|R\"|#[ \t]*line\b|#[ \t]*\d|_Pragma"
)
"""Also what is taken for something else where lines are joined or strings are raw."""
_TOKEN = re.compile(
    r"""
    (?P<gap>\s+|//[^\n]*|/\*.*?\*/)
    |(?P<directive>(?<![^\n])[ \t]*\#[^\n]*)
    |\w*"(?:[^"\\\n]|\\.)*"\w*|\w*'(?:[^'\\\n]|\\.)*'\w*
    |(?:\w|\.(?=\w)|(?<=\w)\.|(?<=[eEpP])[+-](?=\d))+
    |(?:(?!//|/\*)[^\s\w"'])+
    |.
    """,
    re.VERBOSE | re.DOTALL,
)
_WITHOUT_LINES = "wrong values"
"""The rule of findings that tell of values alone."""


def without_layout(cell: str) -> str:
    """A kernel's cell without comments and blanks, as text that is equal for cells that mean the same; the cell itself,
    where that cannot be said."""
    head, _, body = cell.partition("\n")
    if not head.startswith(MAGIC) or _KNOWS_ITS_LINES.search(cell):
        return cell
    tokens = [head]
    for found in _TOKEN.finditer(body):
        text = found[0]
        if found["directive"]:
            if "#" in text.replace("#", "", 1) or "/*" in text:
                return cell
            tokens.append(f"\n{text.partition('//')[0].strip()}\n")
        elif not found["gap"]:
            tokens.append(text)
    return " ".join(tokens)


def serves_all(outcome: Outcome) -> bool:
    """Does the outcome say nothing of the answer's own lines?"""
    return isinstance(outcome, ResultRecord) and all(
        finding.rule == _WITHOUT_LINES or finding.rule in {gate.name for gate in part.gates}
        for part in outcome.parts
        for finding in part.findings
    )
