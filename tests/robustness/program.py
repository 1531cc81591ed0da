"""Cells as learners write them, and what they read then."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Program:
    """A cell as the learner writes it."""

    text: str
    error: str
    """Type of the exception that it raises; empty when it runs through."""

    words: tuple[str, ...]
    """What its output, or what the learner reads of the error, says."""


class Programs(dict[str, Program]):
    """Programs by name."""

    def add(self, name: str, error: str, *words: str, text: str) -> None:
        assert name not in self, name
        self[name] = Program(text.lstrip("\n"), error, words)
