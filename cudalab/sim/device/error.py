"""CUDA errors of the simulated device.

A CUDA call reports an error as a number. The simulated device raises :class:`CudaError` inside, which carries that
number and a note that a number cannot carry: where, which rule, which value, and what to try. ``cudalab.sim.cudart``
and ``cudalab.sim.driver`` turn it back into the number they return, as the real modules do.
"""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager

from cuda.bindings.runtime import cudaError_t


class CudaError(RuntimeError):
    """A call of the simulated device failed.

    ``code`` is the ``cudaError_t`` that the call returns, ``note`` explains it. ``sticky`` says that the device is
    lost: every later call returns the same code until ``reset()``.
    """

    def __init__(self, code: cudaError_t, note: str = "", *, sticky: bool = False) -> None:
        named = note.startswith(code.name) or not note
        super().__init__(note or code.name if named else f"{code.name}: {note}")
        self.code = code
        self.note = note
        self.sticky = sticky


def invalid_value(note: str) -> CudaError:
    """``cudaErrorInvalidValue`` with a note; raise what is returned."""
    return CudaError(cudaError_t.cudaErrorInvalidValue, note)


class _OfThread(threading.local):
    """What one host thread knows of errors."""

    generation = 0
    code = cudaError_t.cudaSuccess
    note = ""
    in_driver_call = False


class LastErrors:
    """The last error of each host thread, as ``cudaGetLastError`` has it, and the note that goes with it."""

    def __init__(self) -> None:
        self._thread = _OfThread()
        self._generation = 0
        """Counts how often all were forgotten."""

    def remember(self, error: CudaError) -> None:
        """A call of this thread failed. "Not ready" is no error, and of the driver's the runtime does not know."""
        mine = self._thread
        mine.note = error.note
        if error.code != cudaError_t.cudaErrorNotReady and not mine.in_driver_call:
            mine.code, mine.generation = error.code, self._generation

    def take(self) -> cudaError_t:
        """This thread's last error, which becomes success."""
        code = self.peek()
        self._thread.code = cudaError_t.cudaSuccess
        return code

    def peek(self) -> cudaError_t:
        """The same without taking it."""
        mine = self._thread
        return mine.code if mine.generation == self._generation else cudaError_t.cudaSuccess

    def forget(self) -> None:
        """No thread has a last error any more."""
        self._generation += 1

    @property
    def in_driver_call(self) -> bool:
        """Does this thread make a call of the driver API?"""
        return self._thread.in_driver_call

    def driver_call(self) -> AbstractContextManager[None]:
        """Calls made inside come from the driver API, whose errors ``cudaGetLastError`` does not know."""
        return _DriverCall(self._thread)


class _DriverCall:
    """A class, for most calls of CuPy's are inside one, and a generator takes three times as long."""

    __slots__ = ("_nested", "_thread")

    def __init__(self, thread: _OfThread) -> None:
        self._thread = thread

    def __enter__(self) -> None:
        self._nested = self._thread.in_driver_call
        self._thread.in_driver_call = True

    def __exit__(self, *_: object) -> None:
        self._thread.in_driver_call = self._nested


class NotSimulated(AttributeError, NotImplementedError):
    """A name exists in the real module and is not simulated. The message names it."""
