"""The template of questions: a process that has imported everything, and forks one process for each question.

It never touches an answer itself. It compiles for its questions, in jailed helpers; it watches their time, their memory
and how much they say; and when one ends otherwise than by giving its outcome, it says how. What they need of the
compiler is answered while it watches. It ends when its input does.

    python -m cudalab.grading.template [BANK]
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import io
import os
import select
import signal
import socket
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import psutil

from cudalab.grading import host_answer, question
from cudalab.grading.bank import Bank
from cudalab.grading.messages import Ended, Outcome, Question, Refused, Said, Wanted, mistake
from cudalab.grading.worker.log import worker_source
from cudalab.sim.compiler import cache, translation
from cudalab.sim.compiler.processes import codec, helper
from cudalab.sim.compiler.processes.messages import Build, Compile, Compiled, Limits, ObjectCode, Order, Refusal, Reply

_TICK = 0.1
"""Seconds between two looks at the memory of a question."""
_COMPILER = Limits(seconds=30.0, memory=2 << 30, ptx=8 << 20)
"""What one order of a question may use."""


_LATE = ("numpy.ma", "numpy.random", "cudalab.sim.compiler.runtime.host_fault")
"""What a first check would import."""
_ORDERS = io.FileIO(0, closefd=False)
"""What the grader says, unbuffered: a question is read to its last byte and no further."""


class Watch:
    """One question, seen from its template."""

    def __init__(self, asked: Question, process: int, pipe: socket.socket) -> None:
        self._limits = asked.limits
        self._process = process
        self._pipe = pipe
        self._received = bytearray()
        self._until = time.monotonic() + asked.limits.seconds

    def outcome(self) -> Outcome:
        """Serve the question until it has an outcome, or is ended."""
        try:
            while True:
                said = self._next()
                if not isinstance(said, Wanted):
                    return said
                began = time.monotonic()
                reply = codec.frame(_compile(said.order))
                with contextlib.suppress(OSError):  # it has ended, with an outcome perhaps: code for it was made ahead
                    self._pipe.sendall(reply)
                self._until += time.monotonic() - began  # the compiler has limits of its own
        except codec.CodecError as error:
            return Ended("crash", f"the process of the question said what cannot be read: {error}")
        except OSError as error:
            return Ended("crash", f"the process of the question is gone: {error}")
        finally:
            self._end()

    def _next(self) -> Wanted | Outcome:
        while True:
            if (whole := self._whole()) is not None:
                return codec.decode(Said, whole)  # type: ignore[arg-type]  # a union is no `type` to mypy
            if time.monotonic() > self._until:
                return Ended("time", f"it took more than {self._limits.seconds:g} s")
            most = self._limits.memory
            if (used := helper.resident_bytes(self._process)) > most:
                return Ended("memory", f"it took {used >> 20:,} MB of memory; {most >> 20:,} are allowed")
            watched: list[Any] = [self._pipe, _ORDERS]
            ready, _, _ = select.select(watched, [], [], _TICK)
            if _ORDERS in ready:  # the grader says nothing while it waits: it is gone
                self._end()
                host_answer.close()
                os._exit(0)
            if self._pipe in ready:
                data = self._pipe.recv(1 << 16)
                if not data:
                    return self._died()
                self._received += data
                if len(self._received) > self._limits.output:
                    return Ended("output", f"it said more than {self._limits.output >> 20} MB")

    def _whole(self) -> bytes | None:
        """The next message, when all of it is there."""
        stream = io.BytesIO(self._received)
        try:
            message = codec.read(stream)
        except codec.CodecError:  # cut off, so far
            return None
        if message is not None:
            del self._received[: stream.tell()]
        return message

    def _died(self) -> Ended:
        found = os.waitid(os.P_PID, self._process, os.WEXITED | os.WNOWAIT)
        assert found is not None
        if found.si_code == os.CLD_EXITED:
            return Ended("crash", f"its process died: exit status {found.si_status}")
        if found.si_status in (signal.SIGXCPU, signal.SIGKILL):
            return Ended("time", f"it was stopped: more than {self._limits.cpu_seconds} s of processor time")
        return Ended("crash", f"its process died: {signal.Signals(found.si_status).name}")

    def _end(self) -> None:
        """Nothing that the question started goes on."""
        with contextlib.suppress(psutil.Error):
            for child in psutil.Process(self._process).children(recursive=True):
                with contextlib.suppress(psutil.Error):
                    child.kill()
        for end in (os.killpg, os.kill):
            with contextlib.suppress(OSError):
                end(self._process, signal.SIGKILL)
        with contextlib.suppress(OSError):
            os.waitpid(self._process, 0)
        self._pipe.close()


def _compile(order: Order) -> Reply:
    request = order.request
    answer: type[Compiled | ObjectCode] = Compiled if isinstance(request, Compile | Build) else ObjectCode
    # Questions can write no file: what is compiled for them is kept here, under all that it was made from.
    key = cache.key("order", codec.encode(request), cache.compiler_identity(), cache.backend_identity())
    kept = cache.load(key, answer)
    if kept is not None:
        return kept
    asked = order.limits
    bounds = Limits(
        min(asked.seconds, _COMPILER.seconds), min(asked.memory or _COMPILER.memory, _COMPILER.memory), _COMPILER.ptx
    )
    try:
        made = helper.call(request, answer, bounds=bounds, jailed=True)
    except helper.HelperFailure as failure:
        return Refusal(failure.kind, str(failure), failure.log, failure.file, failure.line)
    cache.store(key, made)
    return made


def ask(asked: Question, bank: Bank) -> Outcome:
    """The outcome of one question, from a process of its own."""
    exercise = bank.find(asked.exercise)
    if exercise.answer != "kernel":
        try:
            host_answer.prepare(jailed=asked.jailed)
        except host_answer.NotGraded as error:
            return Refused(str(error))
    ours, theirs = socket.socketpair()
    process = os.fork()
    if not process:
        os.setsid()
        ours.close()
        null = os.open(os.devnull, os.O_RDWR)
        for standard in (0, 1, 2):
            os.dup2(null, standard)
        with theirs, theirs.makefile("wb") as said, theirs.makefile("rb") as heard:
            question.run(asked, exercise, said, heard)
    theirs.close()
    return Watch(asked, process, ours).outcome()


def prepared(folder: Path | None) -> Bank:
    """The exercises, with all else that questions would load or work out, each for itself."""
    bank = Bank(folder)
    _ = bank.exercises
    translation.prepare()
    worker_source()
    for name in _LATE:
        importlib.import_module(name)
    return bank


def main(arguments: list[str]) -> None:
    """Serve questions until the input ends."""
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    cache.sign_with(bytes.fromhex(os.environ.pop("CUDALAB_CACHE_SECRET", "")))
    translation.confine()
    helper.prewarm(jailed=True)
    bank = prepared(Path(arguments[0]) if arguments else None)
    gc.collect()
    gc.freeze()  # what all questions share stays shared
    # Python 3.12 warns of threads that a fork leaves behind: those here wait for compilers, which questions leave be.
    warnings.filterwarnings("ignore", message=".*multi-threaded, use of fork", category=DeprecationWarning)
    while True:
        message = codec.read(_Exactly(_ORDERS))  # type: ignore[arg-type]
        if message is None:
            break
        asked = codec.decode(Question, message)
        try:
            outcome = ask(asked, bank)
        except Exception as error:  # a mistake in the grader itself costs no student a point
            outcome = mistake(error)
        replies.write(codec.frame(outcome))
        replies.flush()
    host_answer.close()
    helper.stop()
    os._exit(0)


class _Exactly(io.RawIOBase):
    """Reads as many bytes as asked for from a pipe, which gives what it has, and none ahead."""

    def __init__(self, stream: io.RawIOBase) -> None:
        self._stream = stream

    def read(self, size: int = -1) -> bytes:
        parts = bytearray()
        while len(parts) < size and (data := self._stream.read(size - len(parts))):
            parts += data
        return bytes(parts)


if __name__ == "__main__":
    main(sys.argv[1:])
