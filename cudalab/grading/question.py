"""One question: a process of its own, forked from the template, in which one answer is graded.

It is bounded by what the system bounds, and by its template, which watches over the rest. It starts no compilers but
asks its template for what it needs of them. One that grades a kernel gives up, for good, the right to open any file
but those that Python and the simulated device consist of.
"""

from __future__ import annotations

import contextlib
import os
import sys
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import BinaryIO, NoReturn

import cudalab
from cudalab.checks.bench import KernelBench
from cudalab.checks.exercise import Exercise, Finding, PartResult, Result
from cudalab.grading.fingerprint import fingerprint
from cudalab.grading.gpu import on_gpu, real_cupy
from cudalab.grading.host_answer import NotGraded, run_host_answer
from cudalab.grading.kernel_answer import Unreadable, read_kernel
from cudalab.grading.limits import Limits
from cudalab.grading.messages import Outcome, Question, Refused, Wanted, mistake, record
from cudalab.sim.compiler import cache
from cudalab.sim.compiler.processes import codec, helper, jail
from cudalab.sim.compiler.processes.messages import Limits as CompilerLimits
from cudalab.sim.compiler.processes.messages import Order, Reply, Request

_OPEN_FILES = 256
_SYSTEM = ("/usr", "/lib", "/lib64", "/etc/ld.so.cache", "/proc/self", "/proc/meminfo", "/proc/cpuinfo", "/sys", "/dev")
_SLICE = 0.05
"""Seconds that a thread waits before it looks whether it is to stop."""
_SHARE = 0.8
"""Of the time that a question may take, what its check may: the rest is for the compiler, and to say how it ended."""


def run(question: Question, exercise: Exercise, said: BinaryIO, heard: BinaryIO) -> NoReturn:
    """Grade the answer in this process, say the outcome to ``said``, and end. ``heard`` answers orders."""
    status = 1
    try:
        _bound(question.limits, writes=exercise.answer != "kernel")

        talk = Talk(said, heard)
        helper.hand_over(talk.order)
        cache.only_read()
        if exercise.answer == "kernel" and not question.gpu:  # whose driver opens devices to write
            jail.restrict(_readable())
        try:
            outcome = grade(question, exercise)
        except Exception as error:  # a mistake in the grader itself, for the teacher to see
            outcome = mistake(error)
        talk.end(outcome)
        status = 0
    finally:
        os._exit(status)  # nothing of the template's is cleaned up twice


class Talk:
    """What a question's process and its template say to each other: orders and replies in turn, and the outcome.

    Several threads have code made ahead. One thread of its own speaks and listens, so that the end of an answer's time,
    which reaches the thread that waits, leaves no half of a message behind."""

    def __init__(self, said: BinaryIO, heard: BinaryIO) -> None:
        self._said, self._heard = said, heard
        self._speaker = ThreadPoolExecutor(1)
        self._over = False

    def order(self, request: Request, bounds: CompilerLimits) -> Reply:
        """Have the template's compiler answer."""
        asked = self._speaker.submit(self._exchange, Wanted(Order(request, bounds)))
        while not wait([asked], _SLICE).done:
            pass
        return asked.result()

    def end(self, outcome: Outcome) -> None:
        """Say the outcome, when the order that is under way has been answered; those behind it are dropped."""
        self._over = True
        self._speaker.submit(self._say, outcome).result()

    def _exchange(self, wanted: Wanted) -> Reply:
        if self._over:
            raise helper.HelperFailure("internal", "the question is over")
        self._say(wanted)
        message = codec.read(self._heard)
        if message is None:
            os._exit(1)  # the template is gone
        return codec.decode(Reply, message)  # type: ignore[arg-type]  # a union is no `type` to mypy

    def _say(self, what: Wanted | Outcome) -> None:
        self._said.write(codec.frame(what))
        self._said.flush()


def grade(question: Question, exercise: Exercise) -> Outcome:
    """The outcome of one answer, in this process."""
    limits = question.limits
    if exercise.answer != "kernel":
        try:
            graded = run_host_answer(
                exercise, question.text, seed=question.seed, limits=limits, jailed=question.jailed, log=question.log
            )
            return record(graded.result, log=graded.log, replayed=graded.replayed)
        except NotGraded as error:
            return Refused(str(error))
    try:
        answer = read_kernel(question.text)
    except Unreadable as error:
        return record(_unreadable(exercise, str(error), question.seed))
    bench = KernelBench(exercise, answer, seed=question.seed, time_limit=_SHARE * limits.seconds)
    result = bench.run()
    if question.gpu:
        result = on_gpu(result, exercise, answer, real_cupy(), time_limit=_SHARE * limits.seconds)
    return record(result, fingerprint(bench.program.ptx) if bench.program else [])


def _unreadable(exercise: Exercise, text: str, seed: int) -> Result:
    """No points, and why."""
    look = f"the first line of the cell: %%cuda {exercise.kernel}"
    parts = tuple(
        PartResult(name, 0.0, maximum, (Finding("correctness", "no kernel", text, look),))
        if name == "correctness"
        else PartResult(name, 0.0, maximum, skipped=True)
        for name, maximum in exercise.points.items()
    )
    return Result(exercise.id, exercise.title, parts, seed)


def _bound(limits: Limits, *, writes: bool) -> None:
    """``writes``: it writes files of its own, which are the memory that it shares with a worker."""
    import resource

    def most(kind: int, value: int) -> None:
        with contextlib.suppress(ValueError, OSError):  # a lower bound stands already
            resource.setrlimit(kind, (value, value))

    most(resource.RLIMIT_CORE, 0)
    most(resource.RLIMIT_CPU, limits.cpu_seconds)
    most(resource.RLIMIT_FSIZE, limits.disk if writes else 0)
    most(resource.RLIMIT_NOFILE, _OPEN_FILES)


def _readable() -> list[str]:
    """What Python and the simulated device are made of; nothing of the teacher's, of a student's, or of the course."""
    package = Path(cudalab.__file__).parent
    libraries = [entry for entry in sys.path if entry and Path(entry).resolve() != package.parent]
    kept = cache.folder()
    python = [sys.prefix, sys.base_prefix, str(package), *([str(kept)] if kept else [])]
    return [*libraries, *python, *_SYSTEM]
