"""The grader's end of a template process: starts it, asks it, and replaces it when it is gone."""

from __future__ import annotations

import contextlib
import os
import queue
import secrets
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

from cudalab.grading.messages import Ended, Outcome, Question
from cudalab.sim.compiler.processes import codec

_START_SECONDS = 180.0
_SECRET = 32
"""Bytes."""
_SLACK = 120.0
"""Seconds beyond a question's limit, for the compiler, until the template itself is given up."""


class Examiner:
    """One template, and so one question at a time. Used by one thread."""

    def __init__(self, cache: Path, bank: Path | None = None) -> None:
        self._cache = cache
        self._bank = bank
        self._process: subprocess.Popen[bytes] | None = None
        self._replies: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._fresh = True

    def ask(self, question: Question) -> Outcome:
        """The outcome of one question, however it ends."""
        process = self._started()
        assert process.stdin is not None
        try:
            process.stdin.write(codec.frame(question))
            process.stdin.flush()
            patience = question.limits.seconds + _SLACK + (_START_SECONDS if self._fresh else 0.0)
            message = self._replies.get(timeout=patience)
        except queue.Empty:
            self.stop()
            return Ended("time", "the template of the questions did not answer")
        except OSError:
            message = None
        self._fresh = False
        if message is None:
            self.stop()
            return Ended("crash", "the template of the questions died")
        try:
            return codec.decode(Outcome, message)  # type: ignore[arg-type]  # a union is no `type` to mypy
        except codec.CodecError as error:
            self.stop()
            return Ended("crash", f"the template of the questions said what cannot be read: {error}")

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is not None and self._process.poll() is None:
            return self._process
        self.stop()
        self._fresh = True
        self._replies = queue.SimpleQueue()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "cudalab.grading.template", *([str(self._bank)] if self._bank else [])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=self._environment(),
            start_new_session=True,  # the terminal's Ctrl-C is the grader's alone
        )
        threading.Thread(target=_pump, args=(self._process, self._replies), daemon=True).start()
        return self._process

    def _environment(self) -> dict[str, str]:
        kept = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "LD_LIBRARY_PATH")
        return {
            **{name: os.environ[name] for name in kept if name in os.environ},
            "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry and not entry.endswith(".zip")),
            "PYTHONSAFEPATH": "1",
            "CUDALAB_CACHE": str(self._cache),
            "CUDALAB_CACHE_SECRET": private_cache(self._cache).hex(),
            "CUDALAB_DEVICE": "sim",
            "OPENBLAS_NUM_THREADS": "1",
            "OMP_NUM_THREADS": "1",
        }

    def stop(self) -> None:
        """End the template; its questions end with it."""
        process, self._process = self._process, None
        if process is None:
            return
        for pipe in (process.stdin, process.stdout):
            with contextlib.suppress(OSError):
                pipe.close()  # type: ignore[union-attr]
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


class NotPrivate(OSError):
    """A folder for compiled code that others can write to."""


def private_cache(folder: Path) -> bytes:
    """Make the grader's folder of compiled code, which is the grader's alone; returns the secret that its entries are
    made with, which lies beside it. Raises :class:`NotPrivate`."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    state = folder.stat()
    if state.st_uid != os.getuid() or state.st_mode & 0o022:
        raise NotPrivate(
            f"{folder}: others can write there, and what they write would be run. Name another folder with --cache, "
            f"or take their right away: chmod go-w {folder}"
        )
    path = folder.with_name(folder.name + ".secret")
    with contextlib.suppress(FileExistsError):
        descriptor, temporary = tempfile.mkstemp(dir=folder.parent, prefix=".new-")
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(secrets.token_bytes(_SECRET))
            os.link(temporary, path)  # the first of several graders wins
        finally:
            os.unlink(temporary)
    return path.read_bytes()


def _pump(process: subprocess.Popen[bytes], replies: queue.SimpleQueue[bytes | None]) -> None:
    assert process.stdout is not None
    with contextlib.suppress(codec.CodecError, OSError, ValueError):
        while (message := codec.read(process.stdout)) is not None:  # type: ignore[arg-type]
            replies.put(message)
    replies.put(None)
