"""Construction of the exception for a failed compile: the first errors of the log, with notes and hints."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from cudalab.sim.compiler.frontend.diagnostics import CompileError, Diagnostic, parse_log
from cudalab.sim.compiler.frontend.hints import hint

_ERRORS = 5  # errors that are listed


def _with_hints(found: tuple[Diagnostic, ...], source: str) -> tuple[Diagnostic, ...]:
    """Add hints to the errors shown; others are skipped, because the search for similar names is slow."""
    hinted = []
    errors = 0
    for index, entry in enumerate(found):
        errors += entry.severity == "error"
        if entry.severity == "error" and errors <= _ERRORS:
            following = found[index + 1].text if index + 1 < len(found) else ""
            entry = replace(entry, hint=hint(entry, source, following))
        hinted.append(entry)
    return tuple(hinted)


def compile_error(log: str, source: str, name: str, options: Sequence[str] = ()) -> CompileError:
    """The exception for a failed compile with this ``log``."""
    found = _with_hints(parse_log(log, source, name), source)
    blocks: list[list[str]] = []
    for entry in found:
        if entry.severity == "error":
            blocks.append([entry.show(source, name)])
        elif entry.severity == "note" and blocks:
            blocks[-1].append(entry.show(source, name))
    parts = ["\n".join(block) for block in blocks[:_ERRORS]]
    if len(blocks) > _ERRORS:
        parts.append(f"… and {len(blocks) - _ERRORS} more errors; the first one often causes the rest")
    message = "\n".join(parts) or log.strip() or f"{name}: the compiler failed and said nothing"
    return CompileError(message, log, found, source=source, name=name, options=options)
