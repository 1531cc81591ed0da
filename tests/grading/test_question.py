"""What a question's process says to its template, whichever of its threads says it."""

from __future__ import annotations

import ctypes
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from cudalab.grading.messages import Refused, Said, Wanted
from cudalab.grading.question import Talk
from cudalab.sim.compiler.processes import codec
from cudalab.sim.compiler.processes.helper import HelperFailure
from cudalab.sim.compiler.processes.messages import Build, Limits, Refusal

LIMITS = Limits(seconds=1.0, memory=0, ptx=0)


class _Template:
    """Answers each order with its own text, slowly."""

    def __init__(self, mine: socket.socket) -> None:
        self.heard: list[object] = []
        self._mine = mine
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        with self._mine, self._mine.makefile("rb") as stream:
            while (message := codec.read(stream)) is not None:
                said = codec.decode(Said, message)  # type: ignore[arg-type]
                self.heard.append(said)
                if isinstance(said, Wanted):
                    assert isinstance(said.order.request, Build)
                    time.sleep(0.02)
                    self._mine.sendall(codec.frame(Refusal("source", said.order.request.ptx, "", "", 0)))


@pytest.fixture
def both() -> Iterator[tuple[Talk, _Template]]:
    ours, theirs = socket.socketpair()
    template = _Template(theirs)
    with ours, ours.makefile("wb") as said, ours.makefile("rb") as heard:
        yield Talk(said, heard), template


def _order(talk: Talk, text: str) -> str:
    reply = talk.order(Build(text), LIMITS)
    assert isinstance(reply, Refusal)
    return reply.message


def test_each_thread_gets_the_reply_to_its_own_order(both: tuple[Talk, _Template]) -> None:
    talk, _ = both
    texts = [str(number) * (1 + 997 * number) for number in range(40)]
    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(lambda text: _order(talk, text), texts)) == texts


def test_one_that_stops_waiting_leaves_nothing_for_the_next(both: tuple[Talk, _Template]) -> None:
    talk, _ = both
    stopped: list[BaseException] = []

    def wait() -> None:
        try:
            for number in range(1000):
                _order(talk, f"first {number}")
        except KeyboardInterrupt as error:
            stopped.append(error)

    waiting = threading.Thread(target=wait)
    waiting.start()
    time.sleep(0.1)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(waiting.ident or 0), ctypes.py_object(KeyboardInterrupt))
    waiting.join(10)
    assert stopped and _order(talk, "second") == "second"


def test_the_outcome_comes_last_and_once(both: tuple[Talk, _Template]) -> None:
    """Orders that nobody has answered yet are dropped."""
    talk, template = both
    with ThreadPoolExecutor(20) as threads:
        ahead = [threads.submit(_order, talk, f"{number}") for number in range(20)]
        time.sleep(0.05)
        talk.end(Refused("done"))
        failed = [one for one in ahead if isinstance(one.exception(), HelperFailure)]
        assert failed and all(one.exception() is not None or one.result() for one in ahead)
    time.sleep(0.1)
    assert template.heard[-1] == Refused("done") and len(template.heard) == 21 - len(failed)
