"""From what was handed in to results in the store: what there is to grade, and who grades it.

The order in which answers are graded, and by how many processes at once, makes no difference: each result depends on
the answer's text, the exercise and the seed alone.
"""

from __future__ import annotations

import hashlib
import queue
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from cudalab.checks.exercise import Exercise
from cudalab.grading.examiner import Examiner, private_cache
from cudalab.grading.layout import serves_all, without_layout
from cudalab.grading.limits import Limits, Used
from cudalab.grading.messages import Outcome, Question, without_log
from cudalab.grading.store import Store, Task
from cudalab.grading.submissions import Submission, Wanted

MISSING = "not handed in"


def wanted(exercises: Mapping[str, Exercise]) -> dict[str, Wanted]:
    """By exercise, how its answer is found."""
    return {
        exercise.id: Wanted(
            exercise.kernel,
            rf"(?m)^%%cuda[^\n]*\b{exercise.kernel}\b"
            if exercise.answer == "kernel"
            else rf"(?m)^(?:def )?{exercise.kernel}\b",
        )
        for exercise in exercises.values()
    }


@dataclass
class Plan:
    """What there is to grade. Both by student and exercise."""

    tasks: dict[tuple[str, str], Task] = field(default_factory=dict)
    notes: dict[tuple[str, str], str] = field(default_factory=dict)
    """Why there is nothing to grade."""


def plan(
    submissions: Mapping[str, Submission],
    exercises: Mapping[str, Exercise],
    seed: int,
    *,
    per_student: bool = False,
    only: Collection[str] = (),
) -> Plan:
    """What there is to grade of ``exercises``. ``only``: of these students and exercises."""
    made = Plan()
    students = [one for one in only if one in submissions]
    chosen = [one for one in only if one in exercises]
    for student, submission in submissions.items():
        for exercise in exercises.values():
            if (students and student not in students) or (chosen and exercise.id not in chosen):
                continue
            place, name = (student, exercise.id), exercise.id
            if name in submission.unclear:
                made.notes[place] = submission.unclear[name]
            elif name not in submission.answers:
                made.notes[place] = MISSING
            else:
                own = seed_of(seed, exercise.id, student if per_student else "")
                made.tasks[place] = task(exercise.id, submission.answers[name], own)
    return made


def seed_of(seed: int, exercise: str, student: str = "") -> int:
    """The seed of one score, from the seed of all."""
    text = f"{seed}/{exercise}/{student}"
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=4).digest(), "big")


def task(exercise: str, text: str, seed: int) -> Task:
    """An answer to grade; equal answers are one task."""
    digest = hashlib.blake2b(f"{exercise}/{seed}/{text}".encode(), digest_size=12)
    return Task(digest.hexdigest(), exercise, seed, text)


@dataclass(frozen=True)
class Conditions:
    """Under which answers are graded."""

    limits: Limits = field(default_factory=Limits)
    gpu: bool = False
    """Are right kernels launched on the machine's GPU, too?"""
    jailed: bool = True
    """Does Python run in bubblewrap? Only the teacher can say that it does not."""

    def question(self, one: Task, log: bytes = b"") -> Question:
        """What a process is asked. ``log``: of an earlier run of the same answer."""
        return Question(one.exercise, one.text, one.seed, self.limits, self.gpu, self.jailed, log)


class Budget:
    """What the submissions have used. The answers of one count in the order of its exercises; a question that comes
    when all before it have used too much is not graded for it. Threads may share it."""

    def __init__(self, tasks: Mapping[tuple[str, str], Task], used: Mapping[str, Used], most: Used) -> None:
        self._used, self._most = dict(used), most
        self._before: dict[str, list[list[str]]] = {}
        """By key: for each submission that has it, the keys of its questions before."""
        mine: dict[str, list[str]] = {}
        for (student, _), one in sorted(tasks.items()):
            self._before.setdefault(one.key, []).append(list(mine.setdefault(student, [])))
            mine[student].append(one.key)

    def add(self, key: str, used: Used) -> None:
        self._used[key] = used

    def wants(self, key: str) -> bool:
        """Is there a submission whose questions before this one are within what they may use?"""
        for before in self._before.get(key, [[]]):
            spent = sum((self._used[one] for one in before if one in self._used), Used())
            if not spent.beyond(self._most):
                return True
        return False


def _alike(tasks: Iterable[Task]) -> Iterable[list[Task]]:
    """The tasks in groups that differ in layout alone."""
    groups: dict[tuple[str, int, str], list[Task]] = {}
    for one in tasks:
        groups.setdefault((one.exercise, one.seed, without_layout(one.text)), []).append(one)
    return groups.values()


def grade(
    store: Store,
    run: int,
    tasks: Sequence[Task],
    *,
    jobs: int,
    under: Conditions,
    cache: Path,
    bank: Path | None = None,
    before: int = 0,
    budget: Budget | None = None,
    told: Callable[[], None] = lambda: None,
) -> None:
    """Grade ``tasks``, ``jobs`` at a time, and keep each result as it comes; ``told`` is called after each. Answers in
    Python that the run ``before`` has a log of are replayed; what no submission has a ``budget`` for is left out.
    Answers that differ in comments and blanks alone share a result that names no lines (``layout.py``), but no log."""
    waiting: queue.SimpleQueue[Task] = queue.SimpleQueue()
    alike = {group[0].key: group[1:] for group in _alike(tasks)}
    for one in tasks:
        if one.key in alike:
            waiting.put(one)
    stop, failures = threading.Event(), []
    private_cache(cache)

    def keep(one: Task, outcome: Outcome, seconds: float) -> None:
        used = store.keep(run, one.key, outcome, seconds)
        if budget is not None:
            budget.add(one.key, used)
        told()

    def work(examiner: Examiner) -> None:
        try:
            while not stop.is_set():
                try:
                    one = waiting.get_nowait()
                except queue.Empty:
                    return
                others, shared = alike.pop(one.key, []), False
                if budget is not None and not budget.wants(one.key):
                    told()
                else:
                    began = time.monotonic()
                    outcome = examiner.ask(under.question(one, store.log(before, one.key) if before else b""))
                    if not stop.is_set():
                        keep(one, outcome, time.monotonic() - began)
                    shared = serves_all(outcome, one.text)
                for other in others:
                    if not shared:
                        waiting.put(other)
                    elif not stop.is_set():
                        keep(other, without_log(outcome), 0.0)
        except Exception as error:  # the disk is full, say: the others stop, too, and the teacher hears of it
            failures.append(error)
            stop.set()

    examiners = [Examiner(cache, bank) for _ in range(max(1, min(jobs, len(tasks))))]
    threads = [threading.Thread(target=work, args=(examiner,), daemon=True) for examiner in examiners]
    for thread in threads:
        thread.start()
    try:
        while any(thread.is_alive() for thread in threads):
            threads[0].join(0.2) if threads[0].is_alive() else time.sleep(0.05)
    finally:
        stop.set()
        for examiner in examiners:
            examiner.stop()
    if failures:
        raise failures[0]
