"""The primary context of a device: made by the first call that needs it, one for all host threads, gone after a reset.

The runtime has no call that must come first. Whatever needs the device makes its primary context and makes it current
in the calling host thread; questions about errors, versions and properties do not (CUDA C++ Programming Guide,
"Initialization"; CUDA Runtime API, "Interactions with the CUDA Driver API"). Calls of the driver API never do it by
themselves: they fail in a thread that has no current context (CUDA Driver API, "Primary Context Management").

What is simplified: loading the driver (``cuInit``) and making the context are one figure, because one figure was
measured, so a device that was reset pays for both again. A learner would notice that the first question about the
number of devices costs nothing, where a GPU's driver is loaded by it. And a context that the driver API has made is
destroyed when that releases it, though the runtime may have used it as well.
"""

from __future__ import annotations

import threading

HANDLE = 0x0D00_0000
"""The ``CUcontext`` of the primary context. It stays the same when the context is destroyed and made anew."""


class _Current(threading.local):
    """The contexts of one host thread, the current one last; 0 for none."""

    def __init__(self) -> None:
        self.stack: list[int] = []


class PrimaryContext:
    """Whether the context exists, who holds it, and in which host threads it is current."""

    def __init__(self) -> None:
        self.active = False
        self.retained = 0
        """How often the driver API has retained it and not released it."""
        self.made_by_runtime = False
        """The runtime holds a context that it has made until a reset."""
        self._current = _Current()

    @property
    def current(self) -> int:
        """The context of the calling host thread; 0 for none."""
        stack = self._current.stack
        return stack[-1] if stack else 0

    @property
    def ready(self) -> bool:
        """Does it exist, current in the calling host thread?"""
        stack = self._current.stack
        return self.active and bool(stack) and stack[-1] != 0

    def set_current(self, handle: int) -> None:
        """Replace the current context of the calling host thread (``cuCtxSetCurrent``)."""
        self.pop()
        self.push(handle)

    def push(self, handle: int) -> None:
        """Make a context current; the one before comes back with :meth:`pop`."""
        self._current.stack.append(handle)

    def pop(self) -> int:
        """Take the current context off the calling host thread, and return it; 0 when there was none."""
        stack = self._current.stack
        return stack.pop() if stack else 0

    def destroyed(self) -> None:
        """A reset: it stays current where it was, and the next call of the runtime makes it anew."""
        self.active = self.made_by_runtime = False
