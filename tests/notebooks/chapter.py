"""Running a chapter's compared cells in this process, as they are or with one small mistake made in them.

A compared cell that prints the same whatever its code does would prove nothing. So each of them is run again with a
mistake in its own code or in a cell before it, on the simulated device, and must print something else.
"""

from __future__ import annotations

import io
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import pytest
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

import cudalab
from cudalab.dev import notebook_format as rules
from cudalab.sim.machine.reports import card

ROOT = Path(__file__).parents[2]
_NUMBER = re.compile(r"(?<![\w.])-?\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?")


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
class Printed:
    """The text that a cell printed or showed."""

    text: str

    @staticmethod
    def of(outputs: Sequence[Mapping[str, Any]]) -> Printed:
        """What the outputs of a cell show, without what only a live page has, and without warnings."""
        texts = []
        for output in outputs:
            data = output.get("data", {})
            if output["output_type"] == "stream" and output["name"] == "stdout":
                texts.append(output["text"])
            elif "text/plain" in data and not any("widget" in kind for kind in data):
                texts.append(data["text/plain"] + "\n")
        return Printed("".join(texts))

    @property
    def numbers(self) -> list[float]:
        """All numbers in the text, in order."""
        return [float(number.replace(",", "")) for number in _NUMBER.findall(self.text)]

    def after(self, words: str, place: int = 0) -> float:
        """The number at ``place`` of those behind the first ``words``; ValueError where it is not printed."""
        _, found, rest = self.text.partition(words)
        numbers = Printed(rest).numbers
        if not found or place >= len(numbers):
            raise ValueError(f"there is no number {place} behind {words!r} in:\n{self.text}")
        return numbers[place]


@dataclass(frozen=True)
class Sentence:
    """A sentence about numbers that a run shows: it is true of the recording, and of the simulated run as well."""

    cell: str
    """The markdown cell."""
    says: str
    """Words that stand in it."""
    of: str | tuple[str, ...]
    """The code cell, or cells, whose output shows it."""
    holds: Callable[..., bool]
    """Is it true of what these cells printed? Takes a ``Printed`` for each."""

    def is_true(self, printed: Mapping[str, Printed]) -> bool:
        return bool(self.holds(*(printed[name] for name in ((self.of,) if isinstance(self.of, str) else self.of))))

    def __str__(self) -> str:
        return f"{self.cell}: {self.says}"


@dataclass(frozen=True)
class Gain:
    """How much better one of two ways is, by the medians that a chapter prints of each: as often as is asked for on an
    H200, with their spread, and on the simulated device nearly as much."""

    what: str
    of: str | tuple[str, ...]
    """The code cell, or cells, that print both."""
    ratio: Callable[..., float]
    """How many times as good, from a ``Printed`` for each cell."""
    least: float
    """What it is on an H200 at least."""
    share: bool = False
    """It is a share of a bound, or of what is not modelled: neither of the two wins."""

    most_off: float = 0.15
    """How far the modelled gain may be from the measured one, as a part of that."""

    FEWEST_RUNS: ClassVar[int] = 20

    def __str__(self) -> str:
        return self.what

    def of_run(self, printed: Mapping[str, Printed]) -> float:
        return self.ratio(*(printed[name] for name in self._cells))

    def problems(self, recorded: Mapping[str, Printed]) -> list[str]:
        """What of the recording does not bear it out."""
        found, gain = [], self.of_run(recorded)
        if gain < self.least:
            found.append(f"{self.what}: {gain:.2f} times; {self.least} at least was said")
        text = "".join(recorded[name].text for name in self._cells)
        runs = [int(count) for count in re.findall(r"medians? of (\d+)[^\n]*, spread", text)]
        if not runs or min(runs) < self.FEWEST_RUNS:
            found.append(f"{self.what}: medians of {runs}, not of {self.FEWEST_RUNS} runs with their spread")
        return found

    def differences(self, recorded: Mapping[str, Printed], modelled: Mapping[str, Printed]) -> list[str]:
        """How the simulated device's run shows another winner, or another gain."""
        measured, gain = self.of_run(recorded), self.of_run(modelled)
        same_winner = self.share or (gain > 1) == (measured > 1)
        same = same_winner and abs(gain / measured - 1) <= self.most_off
        return [] if same else [f"{self.what}: {measured:.2f} times measured, {gain:.2f} modelled"]

    @property
    def _cells(self) -> tuple[str, ...]:
        return (self.of,) if isinstance(self.of, str) else self.of


@dataclass(frozen=True)
class Chapter:
    """One chapter's notebook."""

    file: str
    needs: Mapping[str, Sequence[str]]
    """What each compared cell needs, besides `setup` and itself."""

    @cached_property
    def cells(self) -> dict[str, Any]:
        """Every code cell by its id."""
        return {cell.id: cell for cell in rules.read(ROOT / "notebooks" / self.file).cells if cell.cell_type == "code"}

    @cached_property
    def texts(self) -> dict[str, str]:
        """Every markdown cell by its id."""
        cells = rules.read(ROOT / "notebooks" / self.file).cells
        return {cell.id: cell.source for cell in cells if cell.cell_type == "markdown"}

    @property
    def recording(self) -> dict[str, Printed]:
        """What the notebook says that each cell printed."""
        return {name: Printed.of(cell.outputs) for name, cell in self.cells.items()}

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
    """A fresh notebook, and a simulated device without what earlier mistakes left behind. Afterwards messages know its
    cells and its streams' names no more."""
    named = card.cell_of_file, card.stream_names
    main = sys.modules["__main__"]  # a shell puts its own there
    cudalab.reset()
    InteractiveShell.clear_instance()
    shell = InteractiveShell.instance(config=Config({"HistoryManager": {"enabled": False}}))
    cudalab.load_ipython_extension(shell)
    try:
        yield shell
    finally:
        InteractiveShell.clear_instance()
        sys.modules["__main__"] = main
        card.cell_of_file, card.stream_names = named
        cudalab.reset()


class ComparedCells:
    """What holds for the compared cells of every chapter; a class ``Test…`` of a test file says which chapter."""

    chapter: ClassVar[Chapter]
    mutations: ClassVar[Sequence[Mutation]]
    least: ClassVar[int]
    """Compared cells that the chapter has at least."""
    in_words: ClassVar[Sequence[str]] = ()
    """Compared cells that print what happened in which order, a line an event."""
    sentences: ClassVar[Sequence[Sentence]] = ()
    """Sentences about numbers; ``SENTENCES`` of the module, where ``test_notebooks.py`` finds them for its run."""
    gains: ClassVar[Sequence[Gain]] = ()
    """What this chapter's way gains; ``GAINS`` of the module, likewise."""

    @pytest.fixture
    def shell(self) -> Iterator[InteractiveShell]:
        with fresh_shell() as made:
            yield made

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        if "mutation" in metafunc.fixturenames:
            metafunc.parametrize("mutation", self.mutations, ids=str)
        elif "cell" in metafunc.fixturenames:
            metafunc.parametrize("cell", self.chapter.compared)
        elif "sentence" in metafunc.fixturenames:
            metafunc.parametrize("sentence", self.sentences, ids=str)
        elif "name" in metafunc.fixturenames:
            metafunc.parametrize("name", self.chapter.compared)

    def test_there_are_enough(self) -> None:
        assert sorted(self.chapter.compared) == sorted(self.chapter.needs)
        assert len(self.chapter.compared) >= self.least

    def test_each_is_mutated(self) -> None:
        assert {mutation.compared for mutation in self.mutations} == set(self.chapter.compared)

    def test_it_prints_what_is_stored(self, shell: InteractiveShell, cell: str) -> None:
        """Also with no other cells run than those it needs; test_notebooks.py runs the whole chapter."""
        assert self.chapter.run(shell, cell) == self.chapter.stored(cell)

    def test_it_notices_a_mistake(self, shell: InteractiveShell, mutation: Mutation) -> None:
        printed = self.chapter.run(shell, mutation.compared, mutation)
        assert not any(name in printed for name in ("SyntaxError", "CompileException", "NameError")), printed
        assert printed != self.chapter.stored(mutation.compared)

    def test_it_prints_values(self, name: str) -> None:
        """Numbers or names of errors, and never only whether something holds."""
        stored = self.chapter.stored(name)
        assert stored and not {"True", "False"} & set(stored.split())
        assert any(character.isdigit() for character in stored) or "cuda" in stored or name in self.in_words

    def test_a_sentence_stands_in_the_text_and_is_true_of_the_recording(self, sentence: Sentence) -> None:
        """Of the simulated run, ``test_notebooks.py`` asks the same when it runs the whole chapter."""
        assert sentence.says in self.chapter.texts[sentence.cell]
        assert sentence.is_true(self.chapter.recording)

    def test_gains_are_measured_often_enough_and_as_large_as_is_said(self) -> None:
        """The modelled one is compared with it by ``test_notebooks.py``, when it runs the whole chapter."""
        assert [problem for gain in self.gains for problem in gain.problems(self.chapter.recording)] == []
