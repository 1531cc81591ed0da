"""Linking: several pieces of PTX become one module, as ``cuLinkComplete`` and nvlink do it.

What a piece declares ``.extern`` another one defines ``.visible``. Everything else of a piece is its own, so names that
occur in several get a number. What nobody defines shows when the whole is compiled.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from cudalab.sim.compiler.ptx.device_runtime import DEFINITIONS
from cudalab.sim.compiler.ptx.nodes import Module
from cudalab.sim.compiler.ptx.parser import parse_ptx

_HEADER = re.compile(r"^\s*\.(?:version|target|address_size)\b[^\n]*$", re.MULTILINE)
_VERSION = re.compile(r"^\s*\.version\s+(\d+)\.(\d+)", re.MULTILINE)
_TARGET = re.compile(r"^\s*\.target\s+([^\n]*)$", re.MULTILINE)
_FILE_NUMBER = re.compile(r"(\.(?:file|loc)\s+)(\d+)")
_FILES = 1000
"""Most source files that one piece names."""


class DefinedTwice(ValueError):
    """Two pieces define the same name for others."""


def link(pieces: Sequence[str]) -> str:
    """The PTX of one module.

    Raises:
        PtxSyntaxError: a piece is not PTX as compilers write it.
        DefinedTwice: see there.
    """
    modules = [parse_ptx(piece) for piece in pieces]
    exported: set[str] = set()
    for module in modules:
        strong = module.visible - module.weak
        for name in sorted(strong & exported):
            raise DefinedTwice(f"{name} is defined by two of the pieces that are linked")
        exported |= strong
    merged = []
    for number, (piece, module) in enumerate(zip(pieces, modules, strict=True)):
        others = {name for other in modules if other is not module for name in _names(other)}
        text = _HEADER.sub("", piece)
        for name in sorted((_names(module) - module.visible - _declared(module)) & others):
            text = re.sub(rf"(?<![\w$%.]){re.escape(name)}(?![\w$])", f"{name}$piece{number}", text)
        merged.append(_with_files_from(text, number * _FILES))
    version = max((tuple(map(int, found)) for piece in pieces for found in _VERSION.findall(piece)), default=(8, 0))
    targets = [found.strip() for piece in pieces for found in _TARGET.findall(piece)]
    target = max(targets, key=lambda text: int(re.sub(r"\D", "", text.split(",")[0]) or 0), default="sm_52")
    return f".version {version[0]}.{version[1]}\n.target {target}\n.address_size 64\n" + "\n".join(merged)


def is_complete(piece: str) -> bool:
    """Does it define all that it uses? Raises ``PtxSyntaxError``."""
    return not _declared(parse_ptx(piece)) - set(DEFINITIONS)


def _with_files_from(text: str, first: int) -> str:
    """The piece with the numbers of its source files from ``first`` on."""
    return _FILE_NUMBER.sub(lambda found: f"{found[1]}{int(found[2]) + first}", text)


def _names(module: Module) -> set[str]:
    return set(module.functions) | set(module.variables)


def _declared(module: Module) -> set[str]:
    """What other pieces, or the device runtime, define."""
    functions = {name for name, function in module.functions.items() if function.body is None or name in DEFINITIONS}
    return functions | {name for name, variable in module.variables.items() if variable.external}
