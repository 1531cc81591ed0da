"""Where an answer in Python is graded.

It is never run in the grader's own process, nor in one that could reach the device, the gradebook, the solutions or
another submission (contracts: grades come from a device that the learner's process does not have).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cudalab.checks.exercise import Exercise, Result
    from cudalab.grading.limits import Limits


class NotGraded(Exception):
    """This answer has no score; the text says why, for the teacher."""


def run_host_answer(exercise: Exercise, source: str, *, seed: int, limits: Limits) -> Result:
    """What ``exercise`` gives for the answer cell with this text, a function or a value.

    Called in the question's own process (``question.py``), which is ended when it exceeds ``limits``.

    Raises:
        NotGraded: the answer cannot be run on this machine as it has to be.
    """
    raise NotGraded(f"{exercise.id} asks for Python, and answers in Python are not run by this version of the grader")
