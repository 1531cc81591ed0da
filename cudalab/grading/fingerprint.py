"""What a compiled kernel looks like without its names and comments, for the report on similar answers.

Two texts that differ in names, layout, comments and in the order of independent declarations compile to the same
instructions or nearly so. From the PTX of a module all that names something is taken out; what is left is cut into
runs of a few instructions, and each run is one number.
"""

from __future__ import annotations

import hashlib
import re

RUN = 6
"""Instructions in a row: shorter runs are in every kernel, longer ones in no two."""
MOST = 4000
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_REGISTER = re.compile(r"%(?!(?:tid|ntid|ctaid|nctaid|laneid|warpid|clock)\b)\w+")
_NAME = re.compile(r"(?<![\w%.$])[A-Za-z_$][\w$]*")


def fingerprint(ptx: str) -> list[int]:
    """The runs of instructions of a module, each as a number, in order and each once."""
    code = [_shape(line) for line in _COMMENT.sub("", ptx).splitlines() if _is_instruction(line.strip())]
    runs = ["\n".join(code[at : at + RUN]) for at in range(max(1, len(code) - RUN + 1))] if code else []
    return sorted({_number(run) for run in runs})[:MOST]


def _is_instruction(line: str) -> bool:
    return len(line) > 1 and line.endswith(";") and not line.startswith((".", "$", "{", "}"))


def _shape(line: str) -> str:
    """An instruction with every register as ``%`` and every label and variable as ``?``; numbers and special registers
    stay."""
    words = line.strip().rstrip(";").split()
    guard = words.pop(0)[:1] if words[0].startswith("@") else ""
    operands = _NAME.sub("?", _REGISTER.sub("%", " ".join(words[1:])))
    return f"{guard}{words[0]} {operands}"


def _number(run: str) -> int:
    return int.from_bytes(hashlib.blake2b(run.encode(), digest_size=7).digest(), "big")
