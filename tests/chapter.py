"""Running a chapter's compared cells in this process, as they are or with one small mistake made in them.

A compared cell that prints the same whatever its code does would prove nothing. So each of them is run again with a
mistake in its own code or in a cell before it, on the simulated device, and must print something else.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

import cudalab
from cudalab import notebook as rules

ROOT = Path(__file__).parent.parent


@dataclass(frozen=True)
class Mutation:
    """One mistake: in the source of cell ``of``, ``before`` (which stands there once) becomes ``after``."""

    compared: str
    of: str
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.compared}: {self.before} → {self.after}".replace("\n", "⏎")


@dataclass(frozen=True)
class Chapter:
    """One chapter's notebook."""

    file: str
    needs: Mapping[str, Sequence[str]]
    """What each compared cell needs, besides `setup` and itself."""
    folder: str = "notebooks"
    """``drafts`` for a chapter whose outputs came from the simulated device."""

    @cached_property
    def cells(self) -> dict[str, Any]:
        """Every code cell by its id."""
        return {cell.id: cell for cell in rules.read(ROOT / self.folder / self.file).cells if cell.cell_type == "code"}

    @property
    def compared(self) -> list[str]:
        return [name for name, cell in self.cells.items() if rules.is_compared(cell)]

    def stored(self, name: str) -> str:
        """What the notebook says that the cell printed."""
        return "".join(output.text for output in self.cells[name].outputs)

    def run(self, shell: InteractiveShell, name: str, mutation: Mutation | None = None) -> str:
        """Run a compared cell and what it needs; what the cell itself printed, and its error if it has one."""
        text = ""
        for step in ["setup", *self.needs[name], name]:
            source = self.cells[step].source
            if mutation and mutation.of == step:
                count = source.count(mutation.before)
                assert count == 1, f"{mutation.before!r} stands {count} times in {step}"
                source = source.replace(mutation.before, mutation.after)
            with warnings.catch_warnings(), redirect_stdout(io.StringIO()) as printed:
                if mutation:
                    warnings.simplefilter("ignore")  # a mistake may well be a hazard
                ended = shell.run_cell(source, store_history=False)
            error = ended.error_before_exec or ended.error_in_exec
            if mutation is None and error:
                raise error
            text = printed.getvalue() + (f"{type(error).__name__}: {error}" if error else "")
            if error:
                break
        return text


@contextmanager
def fresh_shell() -> Iterator[InteractiveShell]:
    """A fresh notebook, and a simulated device without what earlier mistakes left behind."""
    cudalab.reset()
    InteractiveShell.clear_instance()
    shell = InteractiveShell.instance(config=Config({"HistoryManager": {"enabled": False}}))
    cudalab.load_ipython_extension(shell)
    try:
        yield shell
    finally:
        InteractiveShell.clear_instance()
        cudalab.reset()
