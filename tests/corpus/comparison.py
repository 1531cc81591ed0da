"""What every entry must do on the simulated device: agree with NumPy, and with what an H200 gave."""

from __future__ import annotations

from functools import cache
from typing import Any

from cudalab.cells.doubts import log_of
from cudalab.sim.compiler.frontend.cautions import cautions

from .kernel import Entry, load_corpus
from .results import Stored
from .run import Ran, compare, digest, module_of, run, units, verify

FOUNDATIONS = (
    "elementwise", "indexing", "images", "colours", "linear_algebra", "solvers", "stencils", "reductions", "summaries",
    "scans", "sorting", "warps",
    "language", "number_types", "cub_blocks", "textures",
)  # fmt: skip


def entries(foundations: bool) -> list[Entry]:
    """One half of the corpus or the other: test files run side by side."""
    return [entry for entry in load_corpus().values() if (entry.topic in FOUNDATIONS) == foundations]


@cache
def stored() -> Stored:
    return Stored()


@cache
def _unit(name: str) -> tuple[Entry, ...]:
    corpus = load_corpus()
    for unit in units(list(corpus.values())):
        if any(entry.name == name for entry in unit):
            return tuple(unit)
    raise KeyError(name)


def module(entry: Entry) -> Any:
    """The entry's code, with that of others that share its heavy headers."""
    return module_of(_unit(entry.name))


def check(entry: Entry) -> None:
    """Runs an entry and compares all its buffers. The compiler has nothing to say of it that a learner would see."""
    made = module(entry)
    assert cautions(log_of(made), made.code) == ()
    ran = run(entry, made)
    verify(entry, ran)
    check_against_h200(entry, ran)


def check_against_h200(entry: Entry, ran: Ran) -> None:
    """Bit for bit; within the entry's tolerance where it has one."""
    assert stored().fits(entry), (
        f"{entry.name} has changed since the H200 ran it: `python -m tests.corpus --device gpu`"
    )
    for name, want in stored().digests(entry).items():
        assert digest(ran.values[name]) == want, f"{entry.name}: {name} is not what an H200 gives, bit for bit"
    for name, array in stored().arrays(entry).items():
        compare(f"{entry.name}: {name}, H200", ran.values[name], array, entry.tolerance)
