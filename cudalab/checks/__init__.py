"""Checks of the exercises: the same on every machine, because they always run on the simulated device."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable, Mapping

from cudalab.checks import practice
from cudalab.checks.answer import read_answer
from cudalab.checks.bench import Bench, KernelBench
from cudalab.checks.exercise import AnswerKind, Exercise, Finding, PartResult, Result
from cudalab.checks.gate import Gate, GateResult
from cudalab.checks.streams import StreamBench
from cudalab.checks.value import ValueBench
from cudalab.course import progress

__all__ = [
    "Exercise",
    "Finding",
    "Gate",
    "GateResult",
    "PartResult",
    "Result",
    "check",
    "exercises",
    "find",
    "practices",
]

BENCHES: Mapping[AnswerKind, type[Bench]] = {"kernel": KernelBench, "function": StreamBench, "value": ValueBench}
"""Where each kind of answer is tried."""
_CHAPTERS = tuple(sorted(found.name for found in pkgutil.iter_modules(__path__) if found.name.startswith("chapter_")))


def exercises() -> tuple[Exercise, ...]:
    """All exercises of the course, in order."""
    return _declared(f"{__name__}.{name}" for name in _CHAPTERS)


def practices() -> tuple[Exercise, ...]:
    """What the chapters' *Now you* cells ask, in order: exercises without points."""
    return _declared(f"{practice.__name__}.{found.name}" for found in pkgutil.iter_modules(practice.__path__))


def _declared(modules: Iterable[str]) -> tuple[Exercise, ...]:
    return tuple(exercise for name in modules for exercise in importlib.import_module(name).EXERCISES)


def find(exercise_id: str) -> Exercise:
    """The exercise with this id, e.g. ``"04.2"``; `KeyError` lists the ids that exist."""
    known = {exercise.id: exercise for exercise in (*exercises(), *practices())}
    if exercise_id not in known:
        raise KeyError(f"check: there is no exercise {exercise_id!r}; there are {', '.join(known)}")
    return known[exercise_id]


def check(exercise_id: str, answer: object, *, seed: int | None = None) -> Result:
    """Check an answer and say at once what holds and what does not.

    The answer's source is compiled and launched on a simulated device of its own, also on a machine with a GPU: outputs
    are compared whole with a NumPy oracle on fresh random inputs, every access is checked, and efficiency is judged by
    structural counts, each with points of its own. A Python function is run on simulated devices of its own, too, and
    what it does there is watched: its calls, its waits, what may overlap, and what is unordered. Nothing of your
    session is touched.

    Args:
        exercise_id: ``CHAPTER.NUMBER``, e.g. ``"04.2"``; of a *Now you*, ``CHAPTER.NAME``, e.g. ``"04.pitch"``.
        answer: the kernel (a ``RawKernel``, or what ``%%cuda`` bound) or its CUDA C++ source; where the exercise asks
            for one, the Python function, whose whole cell then counts, or its source; or the value.
        seed: of the random inputs and of the shapes; the same seed gives the same check. None takes a fresh one, which
            the result names.

    Raises:
        KeyError: there is no such exercise.
        TypeError: the answer is neither what the exercise asks for nor text.
    """
    exercise = find(exercise_id)
    given = read_answer(answer, exercise.answer)
    result = BENCHES[exercise.answer](exercise, given, seed=seed).run()
    attempt = {"of": result.maximum, "seed": result.seed, "text": given.source or repr(given.value)}
    progress.note("check", exercise.id, result.points, done=result.passed, **attempt)
    return result
