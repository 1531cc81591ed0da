"""The exercises that are graded: the course's, and those of a private bank.

A bank is a folder of the teacher's own, outside of the package, with modules like ``cudalab/checks/chapter_01.py``:
each has ``EXERCISES``, and may have ``ANSWERS`` to try them with (``bank_trial.py``). One with the id of an exercise
of the course takes its place, with oracles, shapes and gates that no student can read; others are added. The modules
are the teacher's code, and run as such.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
from pathlib import Path
from types import ModuleType

from cudalab import __version__, checks
from cudalab.checks.exercise import Exercise


class BankError(ValueError):
    """A bank that cannot be used; the text says why."""


class Bank:
    """The course's exercises, with those of ``folder``."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder

    @functools.cached_property
    def exercises(self) -> dict[str, Exercise]:
        """All exercises, by id.

        Raises:
            BankError: the folder has no modules with ``EXERCISES``, or one of them fails.
        """
        found = {exercise.id: exercise for exercise in checks.exercises()}
        for module in self._modules:
            found.update({exercise.id: exercise for exercise in module.EXERCISES})
        return dict(sorted(found.items()))

    @functools.cached_property
    def answers(self) -> dict[str, dict[str, tuple[float, str]]]:
        """By exercise and name, what the bank's own answers are worth, and their text."""
        found: dict[str, dict[str, tuple[float, str]]] = {}
        for module in self._modules:
            for exercise, answers in getattr(module, "ANSWERS", {}).items():
                found.setdefault(exercise, {}).update(answers)
        return found

    @functools.cached_property
    def _modules(self) -> list[ModuleType]:
        return _loaded(self._folder) if self._folder is not None else []

    def find(self, exercise: str) -> Exercise:
        """The exercise with this id; ``BankError`` lists those there are."""
        known = self.exercises
        if exercise not in known:
            raise BankError(f"there is no exercise {exercise!r}; there are {', '.join(known)}")
        return known[exercise]

    def release(self) -> str:
        """What a score depends on besides the answer and the seed: the version, its checks, and the bank."""
        digest = hashlib.blake2b(digest_size=5)
        roots = [Path(checks.__file__).parent, *([self._folder] if self._folder else [])]
        for root in roots:
            for path in sorted(root.rglob("*.py")):
                digest.update(path.read_bytes())
        return f"{__version__}-{digest.hexdigest()}"


def _loaded(folder: Path) -> list[ModuleType]:
    modules = sorted(folder.glob("*.py"))
    if not modules:
        raise BankError(f"the bank {folder} has no Python modules")
    found = []
    for number, path in enumerate(modules):
        spec = importlib.util.spec_from_file_location(f"cudalab_bank_{number}_{path.stem}", path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        try:
            spec.loader.exec_module(module)
            list(module.EXERCISES)
        except Exception as error:
            raise BankError(f"the bank's {path.name} fails: {type(error).__name__}: {error}") from error
        found.append(module)
    return found
