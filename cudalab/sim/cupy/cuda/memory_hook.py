"""``cupy.cuda.memory_hook``: functions called around allocations, so that they can be counted.

``malloc_…`` runs for each array that is allocated, ``alloc_…`` only when the pool has no free block and calls
``cudaMalloc``, ``free_…`` when an array goes back to the pool. Hooks belong to a host thread.
"""

from __future__ import annotations

import threading
from typing import Any

from cudalab.sim.cupy._base import catalogue


def __getattr__(name: str) -> Any:
    raise catalogue.missing("cupy.cuda.memory_hook", name)


def __dir__() -> list[str]:
    return catalogue.offered("cupy.cuda.memory_hook", globals())


class _Hooks(threading.local):
    def __init__(self) -> None:
        self.by_name: dict[str, MemoryHook] = {}


def get_memory_hooks() -> dict[str, MemoryHook]:
    """The hooks of this thread by name."""
    return _hooks.by_name


class MemoryHook:
    """Base of hooks; ``with hook:`` switches it on. Override what you need; all arguments are keywords.

    ``alloc_preprocess`` gets ``device_id`` and ``mem_size`` (bytes, rounded up to 512), ``malloc_preprocess`` also
    ``size`` (bytes asked for), the others ``mem_ptr`` and ``pmem_id`` as far as they are known.
    """

    name = "MemoryHook"

    def __enter__(self) -> MemoryHook:
        hooks = get_memory_hooks()
        if self.name in hooks:
            raise KeyError(f"memory hook {self.name} already exists")
        hooks[self.name] = self
        return self

    def __exit__(self, *_: object) -> None:
        del get_memory_hooks()[self.name]

    def alloc_preprocess(self, **kwargs: Any) -> None:
        """Before ``cudaMalloc``."""

    def alloc_postprocess(self, **kwargs: Any) -> None:
        """After ``cudaMalloc``."""

    def malloc_preprocess(self, **kwargs: Any) -> None:
        """Before the pool gives a block."""

    def malloc_postprocess(self, **kwargs: Any) -> None:
        """After the pool gave a block."""

    def free_preprocess(self, **kwargs: Any) -> None:
        """Before a block goes back to the pool."""

    def free_postprocess(self, **kwargs: Any) -> None:
        """After a block went back to the pool."""


def call_hooks(step: str, **details: Any) -> None:
    """Call the method ``step`` of every hook of this thread."""
    for hook in list(_hooks.by_name.values()):
        getattr(hook, step)(**details)


_hooks = _Hooks()
