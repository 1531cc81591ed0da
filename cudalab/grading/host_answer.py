"""Where an answer in Python is graded.

It is never run in the grader's own process, nor in one that could reach the device, the gradebook, the solutions or
another submission (contracts: grades come from a device that the learner's process does not have). The exercise is
examined here, on a device of this process, as ``cudalab.check`` does it; the answer's code runs in a jailed worker
(``worker``), one for each question.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from cudalab.checks.answer import Answer
from cudalab.checks.bench import Bench
from cudalab.checks.calls import allowed
from cudalab.checks.provenance import Provenance
from cudalab.checks.session import simulated
from cudalab.checks.streams import StreamBench
from cudalab.checks.value import ValueBench
from cudalab.grading.worker.channel import Broken, Channel
from cudalab.grading.worker.log import Log, Outdated, Recording, Replay, unpacked
from cudalab.grading.worker.messages import ToGrader
from cudalab.grading.worker.session import Session
from cudalab.grading.worker.shared_memory import SharedMemory
from cudalab.grading.worker.template import Bounds, Template, TemplateFailed
from cudalab.sim.device import host_address
from cudalab.sim.machine.memory.arena import Arena
from cudalab.sim.names import FILE

if TYPE_CHECKING:
    from cudalab.checks.exercise import Exercise, Result
    from cudalab.grading.limits import Limits
    from cudalab.sim.device.device import Device


_DEVICES = 0x3000_0000_0000
"""Where the devices of a question lie. Libraries and heaps of both processes are far above, the shared window below."""


class NotGraded(Exception):
    """This answer has no score; the text says why, for the teacher."""


class WorkerEnded(Exception):
    """The process that ran the answer has ended, or was ended, before it had answered."""


class _Question:
    """One question's worker, or what the log of an earlier one says."""

    def __init__(self, limits: Limits, allowed: Collection[str], log: Log | None) -> None:
        self._allowed = allowed
        self._log = log
        self._bounds = Bounds(limits.cpu_seconds, limits.memory, limits.processes)
        self._recording = Recording(limits.log)
        self._shared = SharedMemory()
        self._session: Session | None = None
        self._reaching = contextlib.ExitStack()
        """While the question lasts, copies reach the worker's memory."""
        self._source = ""
        self._ended = ""

    def program(self, source: str) -> _Question:
        """Start the worker, and see whether the answer is Python. Raises ``SyntaxError``."""
        self._source = source
        channel: Channel[ToGrader] | Replay
        if self._log is not None:
            channel = Replay(self._log, self._recording, self._shared)
        else:
            channel = Channel(_templates[0].start(self._shared.file, self._bounds), ToGrader)
        self._session = Session(channel, self._shared, self._recording, self._allowed, FILE, len(source.splitlines()))
        self._reaching.enter_context(host_address.reaching(self._session.memory))
        with self._said():
            self._session.check(source)
        return self

    def load(self, name: str, device: Device) -> Any:
        """Run the answer's cell for a case that begins, and return what it binds to a name."""
        assert self._session is not None
        with self._said():
            self._session.begin(device, next(one for one in device.observers if isinstance(one, Provenance)))
            found = self._session.load(self._source, name)
        return self._called(found) if callable(found) else found

    def restore(self, *objects: object) -> list[str]:
        """Nothing: what the answer replaces, it replaces in its worker."""
        return []

    def _called(self, function: Any) -> Any:
        def call(*arguments: Any, **keywords: Any) -> Any:
            with self._said():
                return function(*arguments, **keywords)

        return call

    @contextlib.contextmanager
    def _said(self) -> Iterator[None]:
        """Within it, the end of the worker is an exception that says how it came."""
        assert self._session is not None
        try:
            yield
        except Broken as error:
            self.close()
            raise WorkerEnded(f"the answer's process {self._ended}: {error}") from None

    def close(self) -> None:
        if self._session is not None and not self._ended:
            self._session.close()
            self._ended = "is not there" if self._log is not None else _templates[0].end()

    @property
    def log(self) -> bytes:
        """What was said, where the worker came to its end by itself; else empty, and the answer has to be run again."""
        whole = self._session is not None and self._session.whole
        return self._recording.log().packed() if whole else b""

    def release(self) -> None:
        self.close()
        self._reaching.close()
        self._shared.close()


_templates: list[Template] = []
"""The template of this process, and of those that it forks: for one question after the other."""


def prepare(*, jailed: bool = True) -> None:
    """Start the process that answers in Python are forked from, unless there is one. A process that forks one for each
    question calls this before, so that all of them use the same.

    Raises:
        NotGraded: it cannot be started on this machine.
    """
    if _templates and not _templates[0].alive:
        close()
    if not _templates:
        try:
            _templates.append(Template(jailed=jailed))
        except TemplateFailed as error:
            raise NotGraded(str(error)) from None


def close() -> None:
    """End it."""
    while _templates:
        _templates.pop().close()


class Graded(NamedTuple):
    """What became of an answer."""

    result: Result
    log: bytes
    """Of the conversation with its worker; empty where it broke off."""
    replayed: bool
    """Was it not run, because the log of an earlier run still holds?"""


def run_host_answer(
    exercise: Exercise, source: str, *, seed: int, limits: Limits, jailed: bool = True, log: bytes = b""
) -> Graded:
    """What ``exercise`` gives for the answer cell with this text, a function or a value.

    Called in the question's own process (``question.py``), which is ended when it exceeds ``limits``. ``jailed=False``
    leaves bubblewrap out, where the teacher has said so. ``log`` is that of an earlier run of the same text.

    Raises:
        NotGraded: the answer cannot be run on this machine as it has to be.
    """
    if log:
        with contextlib.suppress(Outdated):
            return _graded(exercise, source, seed, limits, unpacked(log, limits.log))
    prepare(jailed=jailed)
    return _graded(exercise, source, seed, limits, None)


def _graded(exercise: Exercise, source: str, seed: int, limits: Limits, log: Log | None) -> Graded:
    Arena.place_at(_DEVICES)
    question = _Question(limits, allowed(exercise), log)
    seconds = limits.seconds / 2
    bench: Bench = StreamBench(exercise, Answer(source), seed=seed, time_limit=seconds, program=question.program)
    try:
        if exercise.answer == "value":
            bench = ValueBench(
                exercise, Answer(value=_value(question, exercise, source)), seed=seed, time_limit=seconds
            )
        result = bench.run()
    except Exception as error:  # what the answer returned is of no use to the exercise
        bench.find("correctness", "no result", f"what the function returned cannot be used: {error}")
        result = bench.result()
    finally:
        kept = question.log
        question.release()
    return Graded(result, kept, log is not None)


def _value(question: _Question, exercise: Exercise, source: str) -> Any:
    """What the answer's cell binds to the exercise's name, in host memory; None where it fails."""
    try:
        with simulated() as device:
            device.observers.append(Provenance(device))
            value = question.program(source).load(exercise.kernel, device)
            return value.get() if hasattr(value, "get") and hasattr(value, "dtype") else value
    except (Exception, SystemExit):
        return None
