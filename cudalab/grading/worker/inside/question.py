"""The process that runs one question: what the grader asks for, on a device that is the grader's."""

from __future__ import annotations

import contextlib
import linecache
import os
import socket
import warnings
from typing import Any

from cudalab.grading.worker import messages
from cudalab.grading.worker.channel import Broken, Channel
from cudalab.grading.worker.inside.connection import Connection
from cudalab.grading.worker.inside.device import RemoteDevice, profile_of
from cudalab.grading.worker.inside.memory import MappedMemory
from cudalab.grading.worker.messages import ToWorker
from cudalab.sim import cupy
from cudalab.sim.cupy._core import raw
from cudalab.sim.cupy.cuda import pinned_memory
from cudalab.sim.device.current import hold_device, set_current_device
from cudalab.sim.names import BUILTINS, FILE, NAMES


def serve(connection: socket.socket, shared: int) -> None:
    """Answer the grader until it ends. The answer's code is run here and nowhere else."""
    link = Connection(Channel(connection, ToWorker), MappedMemory(shared), FILE)
    kept: list[Any] = []
    """Devices with all that belongs to them, until the end: what frees them would make calls."""

    def new_device(request: messages.NewDevice) -> None:
        device = RemoteDevice(link, profile_of(request.profile))
        hold_device(False)
        kept.append(set_current_device(device))
        hold_device(True)
        cupy.cuda.Stream.null.use()
        cupy.cuda.set_allocator(cupy.cuda.MemoryPool().malloc)
        pinned_memory._in_flight.clear()
        pinned_memory.set_pinned_memory_allocator(cupy.cuda.PinnedMemoryPool().malloc)
        device.asked.answers = True

    def load(request: messages.Load) -> Any:
        lines = request.source.splitlines(keepends=True)
        linecache.cache[FILE] = (len(request.source), None, lines, FILE)
        namespace: dict[str, Any] = {"__name__": "answer", "__builtins__": BUILTINS, **NAMES}
        kept.append(namespace)
        exec(compile(request.source, FILE, "exec"), namespace)
        return namespace.get(request.name)

    def check(request: messages.Check) -> None:
        compile(request.source, FILE, "exec")

    vars(raw)["compile"] = link.compile
    link.handlers = {messages.NewDevice: new_device, messages.Check: check, messages.Load: load}
    warnings.simplefilter("ignore")
    with contextlib.suppress(Broken):
        link.serve_all()
    os._exit(0)
