"""Split PTX text into tokens.

A token is a string; beside the list of tokens stands the list of their line numbers. Opcodes with their
modifiers (``ld.global.f32``), registers with their dimension (``%tid.x``), directives and labels are one
token each.
"""

from __future__ import annotations

import re

_TOKEN = re.compile(
    r"""//.*
    |0[fF][0-9a-fA-F]{8}|0[dD][0-9a-fA-F]{16}          # float and double as bits
    |0[xX][0-9a-fA-F]+U?|0[bB][01]+U?
    |\d+\.\d*(?:[eE][+-]?\d+)?|\d+U?
    |[A-Za-z_$%.][\w$.]*(?:::[\w$.]+)*                  # names, opcodes, directives
    |"(?:[^"\\]|\\.)*"
    |[^\s]""",
    re.VERBOSE,
)
_BLOCK_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)


def tokenize(text: str) -> tuple[list[str], list[int]]:
    """Return the tokens of ``text`` and, for each, its line (from 1). Comments are dropped."""
    if "/*" in text:
        text = _BLOCK_COMMENT.sub(lambda match: "\n" * match.group().count("\n"), text)
    tokens: list[str] = []
    lines: list[int] = []
    find = _TOKEN.findall
    for number, line in enumerate(text.split("\n"), 1):
        found = find(line)
        if found and found[-1].startswith("//"):
            found.pop()
        tokens += found
        lines += [number] * len(found)
    return tokens, lines
