"""Answers that differ in comments and blanks alone: one verdict serves for all of them, where it names no lines.

A class hands in many answers that differ in a comment. They are the same program, so with the same inputs they get the
same values, findings and counts. Only what a finding quotes, a line and its number, is each answer's own; such answers
are graded each for itself.

The comparison is by tokens, and careful: what it does not know for sure to mean the same counts as different. In
kernels, directives and the cell's first line count as they are; signs without a blank between them count as one. A text
that can tell where its lines are is like no other.
"""

from __future__ import annotations

import io
import re
import tokenize

from cudalab.checks.answer import MAGIC
from cudalab.grading.messages import Outcome, ResultRecord

_KNOWS_ITS_LINES = re.compile(
    r"__LINE__|__FILE__|__COUNTER__|LINE\(\)|source_location|assert|\\\r?\n|\?\?|%:|R\"|#[ \t]*line\b|#[ \t]*\d|_Pragma"
)
"""Also what is taken for something else where lines are joined or strings are raw."""
_TOKEN = re.compile(
    r"""
    (?P<gap>\s+|//[^\n]*|/\*.*?\*/)
    |(?P<open>/\*.*)
    |(?P<directive>(?<![^\n])[ \t]*\#[^\n]*)
    |\w*+"(?:[^"\\\n]|\\.)*+(?:"\w*|(?P<unclosed>))|\w*+'(?:[^'\\\n]|\\.)*+(?:'\w*|(?P<alone>))
    |(?:\w|\.(?=\w)|(?<=\w)\.|(?<=[eEpP])[+-](?=\d))+
    |(?:(?!//|/\*)[^\s\w"'])+
    |.
    """,
    re.VERBOSE | re.DOTALL,
)
_OPEN = ("open", "unclosed", "alone")
"""Comments and strings without an end: to read on behind their beginning takes a time that grows with the square."""
_WITHOUT_LINES = "wrong values"
"""The rule of findings that tell of a kernel's values alone."""
_A_LINE = re.compile(r"\bline \d")
"""In what a finding of an answer in Python says: its own line."""
_OTHERS = re.compile(r"lineno|frame|inspect|linecache|traceback|__code__|\bco_|[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff]")
"""In Python that may see its lines, or that Python may read otherwise than ``tokenize``."""
_UNSURE = ("ERRORTOKEN", "FSTRING_START")
_GAPS = (tokenize.COMMENT, tokenize.NL)
_MARKS = (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
"""Tokens that are the same however they are written."""


def without_layout(cell: str) -> str:
    """An answer's cell without comments and blanks: equal for cells that mean the same. The cell itself,
    where that cannot be said."""
    return _kernel(cell) if cell.startswith(MAGIC) else _python(cell)


def _kernel(cell: str) -> str:
    head, _, body = cell.partition("\n")
    if _KNOWS_ITS_LINES.search(cell):
        return cell
    tokens = [head]
    for found in _TOKEN.finditer(body):
        text = found[0]
        if found["directive"]:
            if "#" in text.replace("#", "", 1) or "/*" in text:
                return cell
            tokens.append(f"\n{text.partition('//')[0].strip()}\n")
        elif any(found[name] is not None for name in _OPEN):
            return cell
        elif not found["gap"]:
            tokens.append(text)
    return " ".join(tokens)


def _python(cell: str) -> str:
    if _OTHERS.search(cell):
        return cell
    tokens: list[tuple[int, str]] = []
    try:
        for token in tokenize.generate_tokens(io.StringIO(cell).readline):
            if tokenize.tok_name[token.type] in _UNSURE:
                return cell
            if token.type not in _GAPS:
                tokens.append((token.type, "" if token.type in _MARKS else token.string))
    except (tokenize.TokenError, SyntaxError):
        return cell
    return repr(tokens)


def serves_all(outcome: Outcome, cell: str) -> bool:
    """Does the outcome say nothing of the lines of the answer in ``cell``?"""
    if not isinstance(outcome, ResultRecord):
        return False
    if not cell.startswith(MAGIC) and "__global__" not in cell:
        findings = (finding for part in outcome.parts for finding in part.findings)
        return not any(_A_LINE.search(f"{one.text} {one.look} {one.mistake}") for one in findings)
    return all(
        finding.rule == _WITHOUT_LINES or finding.rule in {gate.name for gate in part.gates}
        for part in outcome.parts
        for finding in part.findings
    )
