"""Runs code in a process of its own, so that a mistake that ends CUDA, or the process, ends nothing else.

After an illegal access a process's CUDA is lost: every later call returns the same error, on a GPU and on the
simulated device alike (CUDA Runtime API, ``cudaErrorIllegalAddress``). ``%%isolated`` is the place for such a mistake.
The child also can run on another simulated device than the notebook.

A child costs about half a second to start, most of it imports. So one is kept warm: it has imported what it needs,
chosen no device, and waits for work. Each is used once. It starts no compilers: this process answers its orders from
its own, which are warm (not on Windows, where a child inherits no pipes but its standard streams).
"""

from __future__ import annotations

import atexit
import base64
import codecs
import contextlib
import json
import os
import pickle
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cudalab import backend
from cudalab.installation.gpu_probe import probe
from cudalab.sim.compiler.processes import codec, helper
from cudalab.sim.compiler.processes.messages import Order

TIME_LIMIT = 60.0  # seconds
_DRAIN = 2.0  # seconds that output may still take after the end of the process


@dataclass(frozen=True)
class IsolatedResult:
    """How the code ended, and its output, which has been written to ``sys.stdout`` as it came."""

    error: str | None
    """What went wrong as text: type, message, line of the cell, notes. None when nothing did."""

    exit_code: int | None
    """Exit code of the process; None when it was stopped by the time limit."""

    printed: str = ""
    """What it wrote."""


class _Child:
    """One process that has imported cudalab and waits for a request on its standard input."""

    def __init__(self) -> None:
        environment = {name: value for name, value in os.environ.items() if name != backend.VARIABLE}
        orders = _Orders() if os.name == "posix" else None
        theirs = orders.theirs if orders else ()
        self.process = subprocess.Popen(
            [sys.executable, "-u", "-m", "cudalab.cells.isolated_child", backend.choice().kind, *map(str, theirs)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=environment | {"PYTHONUNBUFFERED": "1"},
            pass_fds=theirs,
        )
        if orders:
            orders.serve()

    def alive(self) -> bool:
        return self.process.poll() is None

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()


class _Orders:
    """Two pipes: what a child wants compiled, and the replies. ``theirs`` are its ends, to read and to write."""

    def __init__(self) -> None:
        ordered, orders = os.pipe()
        replies, replied = os.pipe()
        self.theirs = replies, orders
        self._ordered, self._replied = ordered, replied

    def serve(self) -> None:
        """Answer, in a thread, until the child is gone; to be called when it has been started."""
        for end in self.theirs:
            os.close(end)
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with (
            os.fdopen(self._ordered, "rb") as orders,
            os.fdopen(self._replied, "wb", buffering=0) as replies,
            contextlib.suppress(OSError, codec.CodecError),  # the child has ended, perhaps in the middle of an order
        ):
            while (message := codec.read(orders)) is not None:
                codec.write(replies, helper.answer_order(codec.decode(Order, message)))


_lock = threading.Lock()
_spare: _Child | None = None


def warm_up() -> None:
    """Start the spare child, so that the next ``run`` need not wait for its imports."""
    global _spare
    with _lock:
        if _spare is None or not _spare.alive():
            _spare = _Child()


def _take() -> _Child:
    global _spare
    with _lock:
        child, _spare = _spare, None
    return child if child is not None and child.alive() else _Child()


@atexit.register
def _stop_spare() -> None:
    global _spare
    with _lock:
        child, _spare = _spare, None
    if child is not None:
        child.stop()


def _pack(values: dict[str, Any]) -> str:
    for name, value in values.items():
        try:
            pickle.dumps(value)
        except Exception as error:  # whatever the object's own pickling raises
            raise TypeError(
                f"%%isolated: {name} (a {type(value).__name__}) cannot be handed to another process: {error}. "
                "NumPy arrays, numbers and text can; make kernels and device arrays in the cell itself."
            ) from error
    return base64.b64encode(pickle.dumps(values)).decode()


def run(
    code: str,
    *,
    device: str = "",
    values: dict[str, Any] | None = None,
    time_limit: float = TIME_LIMIT,
    last: bool = False,
) -> IsolatedResult:
    """Run ``code`` in a fresh process and write its output to ``sys.stdout`` as it comes.

    ``device`` is ``gpu``, ``sim``, ``sim:PROFILE``, or empty for the device of this process; ``values`` are names the
    code gets (their values must pickle); ``time_limit`` in seconds; ``last``: no other run is expected soon, so none is
    prepared for. The code sees cudalab's public names and ``np``.
    Raises ``TypeError`` for a value that cannot be handed over and ``DeviceChoiceError`` for a device that does not
    exist; what goes wrong inside is in the result.
    """
    if not device:
        chosen = backend.choice()
        device = "gpu" if chosen.kind == "gpu" else f"sim:{chosen.profile}"
    backend.decide(device, probe())
    packed = _pack(values or {})
    child = _take()
    with tempfile.TemporaryDirectory(prefix="cudalab-isolated-") as folder:
        answer = Path(folder) / "error.json"
        request = {
            "code": code,
            "device": device,
            "values": packed,
            "answer": str(answer),
            "folder": os.getcwd(),
            "time_limit": time_limit,
        }
        try:
            exit_code, printed = _talk(child, json.dumps(request), time_limit)
        finally:
            child.stop()
        if not last:
            warm_up()
        return IsolatedResult(_error(answer, exit_code, time_limit), exit_code, printed)


def _talk(child: _Child, request: str, time_limit: float) -> tuple[int | None, str]:
    """Hand over the request and copy output until the end: the exit code, None when the time was up, and the output."""
    printed: list[str] = []
    process = child.process
    assert process.stdin is not None and process.stdout is not None
    chunks: queue.SimpleQueue[str] = queue.SimpleQueue()
    reader = threading.Thread(target=_read, args=(process.stdout, chunks), daemon=True)
    reader.start()
    with contextlib.suppress(BrokenPipeError):  # it died while waiting; its exit code says why
        process.stdin.write(request.encode() + b"\n")
        process.stdin.close()
    deadline = time.monotonic() + time_limit
    while process.poll() is None and time.monotonic() < deadline:
        _copy(chunks, 0.05, printed)
    code = process.poll()
    if code is None:
        process.kill()
        process.wait()
    end = time.monotonic() + _DRAIN
    while (reader.is_alive() or not chunks.empty()) and time.monotonic() < end:
        _copy(chunks, 0.01, printed)
    return code, "".join(printed)


def _read(pipe: Any, chunks: queue.SimpleQueue[str]) -> None:
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    while chunk := os.read(pipe.fileno(), 65536):
        chunks.put(decoder.decode(chunk))


def _copy(chunks: queue.SimpleQueue[str], wait: float, printed: list[str]) -> None:
    with contextlib.suppress(queue.Empty):
        text = chunks.get(timeout=wait)
        sys.stdout.write(text)
        printed.append(text)


def _error(answer: Path, exit_code: int | None, time_limit: float) -> str | None:
    if exit_code is None:
        return (
            f"The cell was stopped after {time_limit:g} s, its time limit. An endless loop, or a wait that nothing "
            "ends, looks like this; `--time SECONDS` allows more."
        )
    if answer.is_file():
        text: str = json.loads(answer.read_text(encoding="utf-8"))["error"]
        return text
    if exit_code < 0:
        return f"The process was ended by {signal.Signals(-exit_code).name}; the notebook's own process goes on."
    return f"The process ended with exit code {exit_code}." if exit_code else None
