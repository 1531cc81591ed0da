"""The jailed process that has loaded all libraries, has run nobody's code, and forks for each question.

It takes a message and two descriptors from its standard input, a socket: the question's own socket and the shared
file. The child sets its limits, gives up the system calls that could harm anybody but itself (``seccomp.py``), and
serves the grader. One question at a time: when it has ended, its status goes back, and a message ends one that has not.
"""

from __future__ import annotations

import ctypes
import gc
import os
import select
import socket
from collections.abc import Sequence

from cudalab.grading.worker.inside import question, seccomp
from cudalab.grading.worker.messages import Ended, Ready, Start
from cudalab.sim.compiler.processes import codec, jail

_TICK = 0.01
_DEATH_SIGNAL, _KILL = 1, 9  # prctl(PR_SET_PDEATHSIG), SIGKILL


def main(readable: Sequence[str]) -> None:
    """Serve until the grader ends. ``readable``: the only folders that can be read from here on, where the system can
    see to it; empty for all that the jail has."""
    control = socket.socket(fileno=os.dup(0))
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    os.close(null)
    if readable:
        jail.restrict(readable)
    gc.collect()
    gc.freeze()  # what all questions share stays shared
    control.send(codec.encode(Ready(seccomp.available())))
    start, descriptors = _receive(control)
    while True:
        child = 0
        if len(descriptors) == 2:
            child = os.fork()
            if not child:
                control.close()
                _child(start, *descriptors)
        for descriptor in descriptors:
            os.close(descriptor)
        number = start.number
        while child and not select.select([control], [], [], _TICK)[0]:
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                control.send(codec.encode(Ended(number, status)))
                child = 0
        start, descriptors = _receive(control)
        if child:  # the grader has had enough, or has forgotten it
            os.kill(child, _KILL)
            os.waitpid(child, 0)
            control.send(codec.encode(Ended(number, _KILL)))


def _receive(control: socket.socket) -> tuple[Start, list[int]]:
    """What the grader says next. It ends this process by going away."""
    data, descriptors, _, _ = socket.recv_fds(control, 1 << 12, 2)
    if not data:
        os._exit(0)
    return codec.decode(Start, data), descriptors


def _child(start: Start, connection: int, shared: int) -> None:
    """One question. It does not return."""
    try:
        ctypes.CDLL(None).prctl(_DEATH_SIGNAL, _KILL, 0, 0, 0)
        _limit(start)
        if seccomp.restrict() or not start.filtered:
            question.serve(socket.socket(fileno=connection), shared)
    finally:
        os._exit(1)


def _limit(start: Start) -> None:
    import resource

    bounds: dict[int, int] = {
        resource.RLIMIT_CPU: start.cpu_seconds,
        resource.RLIMIT_AS: start.memory,
        resource.RLIMIT_NPROC: start.processes,
        resource.RLIMIT_FSIZE: 0,  # there is nothing to write to
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_NOFILE: 64,
        resource.RLIMIT_MSGQUEUE: 0,
        resource.RLIMIT_MEMLOCK: 0,
    }
    for which, most in bounds.items():
        _, hard = resource.getrlimit(which)
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(which, (most, most))
