"""The cell of an answer in Python, ready to be run: in this process, or by the grader in another one."""

from __future__ import annotations

from typing import Any, Protocol

from cudalab.checks.replaced import Kept
from cudalab.sim.device.device import Device
from cudalab.sim.names import BUILTINS, FILE, NAMES


class Program(Protocol):
    """The answer's cell, ready to be run."""

    def restore(self, *objects: object) -> list[str]:
        """What the answer has replaced of what its check calls, ``objects`` among it; it is put back."""

    def load(self, name: str, device: Device) -> Any:
        """Run it in a fresh namespace, where its names are those of ``device``, the present one, and return what it
        binds to ``name``; None where that is nothing."""


class LocalProgram:
    """A cell that is run in this process. Raises ``SyntaxError``."""

    def __init__(self, source: str) -> None:
        self._code = compile(source, FILE, "exec")
        self._kept: Kept | None = None

    def restore(self, *objects: object) -> list[str]:
        return self._kept.restore(*objects) if self._kept else []

    def load(self, name: str, device: Device) -> Any:
        self._kept = self._kept or Kept()
        namespace = {"__name__": "answer", "__builtins__": BUILTINS, **NAMES}
        exec(self._code, namespace)
        return namespace.get(name)
