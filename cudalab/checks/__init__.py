"""Checks of the exercises: the same on every machine, because they always run on the simulated device."""

from __future__ import annotations

import importlib
import pkgutil

from cudalab.checks.answer import read_answer
from cudalab.checks.bench import KernelBench
from cudalab.checks.exercise import Exercise, Finding, PartResult, Result
from cudalab.checks.gate import Gate, GateResult
from cudalab.checks.streams import StreamBench
from cudalab.course import progress

__all__ = ["Exercise", "Finding", "Gate", "GateResult", "PartResult", "Result", "check", "exercises", "find"]

_CHAPTERS = tuple(sorted(found.name for found in pkgutil.iter_modules(__path__) if found.name.startswith("chapter_")))


def exercises() -> tuple[Exercise, ...]:
    """All exercises of the course, in order."""
    modules = (importlib.import_module(f"cudalab.checks.{name}") for name in _CHAPTERS)
    return tuple(exercise for module in modules for exercise in module.EXERCISES)


def find(exercise_id: str) -> Exercise:
    """The exercise with this id, e.g. ``"04.2"``; `KeyError` lists the ids that exist."""
    for exercise in exercises():
        if exercise.id == exercise_id:
            return exercise
    known = ", ".join(e.id for e in exercises())
    raise KeyError(f"check: there is no exercise {exercise_id!r}; there are {known}")


def check(exercise_id: str, answer: object, *, seed: int | None = None) -> Result:
    """Check an answer and say at once what holds and what does not.

    The answer's source is compiled and launched on a simulated device of its own, also on a machine with a GPU: outputs
    are compared whole with a NumPy oracle on fresh random inputs, every access is checked, and efficiency is judged by
    structural counts, each with points of its own. A Python function is run on simulated devices of its own, too, and
    what it does there is watched: its calls, its waits, what may overlap, and what is unordered. Nothing of your
    session is touched.

    Args:
        exercise_id: ``CHAPTER.NUMBER``, e.g. ``"04.2"``.
        answer: the kernel (a ``RawKernel``, or what ``%%cuda`` bound) or its CUDA C++ source; where the exercise asks
            for one, the Python function, whose whole cell then counts, or its source.
        seed: of the random inputs and of the shapes; the same seed gives the same check. None takes a fresh one, which
            the result names.

    Raises:
        KeyError: there is no such exercise.
        TypeError: the answer is neither what the exercise asks for nor text.
    """
    exercise = find(exercise_id)
    kind = StreamBench if exercise.python else KernelBench
    bench = kind(exercise, read_answer(answer, python=exercise.python), seed=seed)
    result = bench.run()
    progress.note("check", exercise.id, result.points, done=result.passed)
    return result
