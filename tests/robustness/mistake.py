"""What a mistake of a learner is, and what the simulated device must make of it."""

from __future__ import annotations

from dataclasses import dataclass

MARK = "// <-"


@dataclass(frozen=True)
class Mistake:
    """One mistake in one form.

    ``source`` is CUDA C++; the line that is to blame ends in ``// <-``. ``launch`` is Python that runs in a notebook
    cell, with ``source``, ``cp``, ``np``, ``cudart`` and ``driver`` at hand, and ``kernel(name="k", **options)`` and
    ``instance(expression)`` to compile. For a call that returns its error, ``error`` is empty and ``launch`` binds
    ``returned``.
    """

    name: str
    source: str
    launch: str
    error: str
    """Type of the exception that the cell raises."""
    code: int | None
    """CUDA error number: ``status`` of the exception, or what the call returned."""
    words: tuple[str, ...] = ()
    """What the explanation must say; upper and lower case are the same."""
    text: str = ""
    """A part of the exception's own text: CUDA's name of the error."""

    @property
    def kind(self) -> str:
        return self.name.partition("/")[0]

    @property
    def line(self) -> int:
        """The line to blame, from 1; 0 where there is none."""
        for number, line in enumerate(self.source.splitlines(), 1):
            if line.endswith(MARK):
                return number
        return 0

    @property
    def line_text(self) -> str:
        return self.source.splitlines()[self.line - 1].strip() if self.line else ""


TABLE: dict[str, Mistake] = {}


def mistake(
    name: str,
    source: str,
    launch: str,
    error: str,
    code: int | None,
    *words: str,
    text: str = "",
) -> None:
    """Adds a row to the table. ``source`` is stripped of the newline behind its opening quotes."""
    if name in TABLE:
        raise ValueError(f"two mistakes are called {name}")
    TABLE[name] = Mistake(name, source.removeprefix("\n"), launch, error, code, words, text)
