"""The grader's end of the template: starts it in its jail, and has it fork for each question.

The jail (bubblewrap) holds Python, the libraries that the facades need, ``cudalab.sim`` and this package, all
read-only; no network, no ``/proc``, no home, nothing of the course or of the grader, and nothing that can be written.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from cudalab.grading.worker.messages import Ended, Ready, Start
from cudalab.sim.compiler.processes import codec, jail

_START_SECONDS = 120.0
_LAST_SECONDS, _END_SECONDS = 0.5, 5.0
_HERE = Path(__file__).resolve().parent
_PACKAGES = {
    "cudalab": _HERE.parents[1],
    "cudalab.grading": _HERE.parent,
    "cudalab.grading.worker": _HERE,
    "cudalab.sim": _HERE.parents[1] / "sim",
}
_LIBRARIES = ("cuda", "llvmlite", "msgspec", "numpy", "numpy.libs", "platformdirs", "typing_extensions.py")
_BOOT = """
import sys, types
path, packages = {path!r}, {packages!r}
sys.path[:] = path
for name, folder in packages.items():
    sys.modules[name] = module = types.ModuleType(name)
    module.__path__ = [folder]
from cudalab.grading.worker.inside.template import main
main({readable!r})
"""
_ENVIRONMENT = {
    "PYTHONSAFEPATH": "1",
    "PYTHONHASHSEED": "0",  # the order of a set of strings is the same each time
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "HOME": "/",
    "LANG": "C.UTF-8",
}


class TemplateFailed(RuntimeError):
    """No process could be started; the text says why."""


@dataclass(frozen=True)
class Bounds:
    """What one question's process may use."""

    cpu_seconds: int = 90
    memory: int = 3 << 30
    processes: int = 64


class Template:
    """One jailed process. ``jailed=False``: without bubblewrap, where the teacher has said so; the filter of system
    calls and, where the kernel has it, Landlock are the walls then."""

    def __init__(self, *, jailed: bool = True) -> None:
        program = jail.bwrap() if jailed else ""
        if jailed and not program:
            raise TemplateFailed("bubblewrap (bwrap) does not work on this machine")
        self._control, theirs = socket.socketpair(type=socket.SOCK_SEQPACKET)
        self.broken = False
        self._owner = os.getpid()
        self._question = 0
        with theirs:
            self._process = subprocess.Popen(
                _command(program),
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                env=_ENVIRONMENT,
                cwd="/",
                start_new_session=True,
            )
        assert self._process.stderr is not None
        with self._process.stderr as errors:
            try:
                self.filters = codec.decode(Ready, self._receive(_START_SECONDS)).filter
            except (OSError, codec.CodecError):
                self.close()
                said = errors.read().decode("utf-8", "replace")[-2000:].strip()
                raise TemplateFailed(f"the process for answers in Python did not start: {said}") from None

    def start(self, shared: int, bounds: Bounds) -> socket.socket:
        """Fork for a question; returns its socket. One question at a time: one that is under way is ended."""
        self._question = secrets.randbits(48)  # processes that were forked from this one may have asked before
        start = Start(self._question, bounds.cpu_seconds, bounds.memory, bounds.processes, self.filters)
        mine, theirs = socket.socketpair()
        with theirs:
            socket.send_fds(self._control, [codec.encode(start)], [theirs.fileno(), shared])
        return mine

    def end(self) -> str:
        """The question is over: its process is ended, if it has not ended by itself. Says how it did, in words."""
        try:
            with contextlib.suppress(TimeoutError):
                return self._ended(_LAST_SECONDS)
            self._control.send(codec.encode(Start(0)))
            return self._ended(_END_SECONDS)
        except (OSError, codec.CodecError):
            self.close()
            return "was ended"
        finally:
            if not self.filters:  # it may have left processes behind, or have changed the template
                self.close()

    def _ended(self, seconds: float) -> str:
        while (ended := codec.decode(Ended, self._receive(seconds))).number != self._question:
            pass  # that of a process before this one
        return _how(ended.status)

    @property
    def alive(self) -> bool:
        """Can it be used? A process that was forked from the one that made it takes that for granted."""
        return not self.broken and (os.getpid() != self._owner or self._process.poll() is None)

    def close(self) -> None:
        """End the template with everything that runs in its jail."""
        self.broken = True
        self._control.close()
        with contextlib.suppress(OSError):
            os.killpg(self._process.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_END_SECONDS)

    def _receive(self, seconds: float) -> bytes:
        self._control.settimeout(seconds)
        data = self._control.recv(1 << 12)
        if not data:
            raise OSError("the template has ended")
        return data


def _command(program: str) -> list[str]:
    here = os.path.abspath(os.curdir) if os.path.isdir(os.curdir) else ""
    path = [os.path.abspath(entry) for entry in sys.path if entry and os.path.abspath(entry) != here]
    libraries = [found for entry in path for name in _LIBRARIES if os.path.exists(found := os.path.join(entry, name))]
    own = [str(_PACKAGES["cudalab.sim"]), str(_HERE)]
    packages = {name: str(folder) for name, folder in _PACKAGES.items()}
    readable = jail.readable_folders(own[0], [*libraries, own[1]], [])
    boot = _BOOT.format(path=path, packages=packages, readable=[] if program else readable)
    command = [sys.executable, "-s", "-S", "-X", "utf8", "-c", boot]
    if not program:
        return command
    return [*jail.bwrap_command(program, readable, "/empty", bare=True), *command]


def _how(status: int) -> str:
    code = os.waitstatus_to_exitcode(status)
    if code >= 0:
        return f"ended with exit status {code}"
    with contextlib.suppress(ValueError):
        return f"was ended by {signal.Signals(-code).name}"
    return f"was ended by signal {-code}"
