"""``cupy.cuda.memory_hooks``: a hook that prints what the memory pool does."""

from __future__ import annotations

import sys
from typing import Any

from cudalab.sim.cupy._base import catalogue
from cudalab.sim.cupy.cuda.memory_hook import MemoryHook


def __getattr__(name: str) -> Any:
    raise catalogue.missing("cupy.cuda.memory_hooks", name)


def __dir__() -> list[str]:
    return catalogue.offered("cupy.cuda.memory_hooks", globals())


class DebugPrintHook(MemoryHook):
    """Prints one line for each allocation, pool hit or miss, and free.

    Args:
        file: where to print; standard output by default.
        flush: flush after each line.
    """

    name = "DebugPrintHook"

    def __init__(self, file: Any = None, flush: bool = True) -> None:
        self.file = file
        self.flush = flush

    def _print(self, name: str, details: dict[str, Any]) -> None:
        entries = {"hook": name, **{k: hex(v) if k == "mem_ptr" else v for k, v in details.items()}}
        text = ",".join(
            f'"{key}":{value if isinstance(value, int) else f"{chr(34)}{value}{chr(34)}"}'
            for key, value in entries.items()
        )
        print("{" + text + "}", file=self.file or sys.stdout, flush=self.flush)

    def alloc_postprocess(self, **kwargs: Any) -> None:
        """After ``cudaMalloc``."""
        self._print("alloc", kwargs)

    def malloc_postprocess(self, **kwargs: Any) -> None:
        """After the pool gave a block."""
        self._print("malloc", kwargs)

    def free_postprocess(self, **kwargs: Any) -> None:
        """After a block went back to the pool."""
        self._print("free", kwargs)
