"""CUDA errors of the simulated device.

A CUDA call reports an error as a number. The simulated device raises :class:`CudaError` inside, which carries that
number and a note that a number cannot carry: where, which rule, which value, and what to try. ``cudalab.sim.cudart``
and ``cudalab.sim.driver`` turn it back into the number they return, as the real modules do.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

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


# The numbers below end a context: CUDA Runtime API, "cudaError", the entries that say
# "The process must be terminated and relaunched" (or, for an assert, "existing allocations are invalid").
STICKY_CODES = frozenset(
    {
        cudaError_t.cudaErrorIllegalAddress,
        cudaError_t.cudaErrorLaunchTimeout,
        cudaError_t.cudaErrorAssert,
        cudaError_t.cudaErrorHardwareStackError,
        cudaError_t.cudaErrorIllegalInstruction,
        cudaError_t.cudaErrorMisalignedAddress,
        cudaError_t.cudaErrorInvalidAddressSpace,
        cudaError_t.cudaErrorInvalidPc,
        cudaError_t.cudaErrorLaunchFailure,
    }
)


def invalid_value(note: str) -> CudaError:
    """``cudaErrorInvalidValue`` with a note; raise what is returned."""
    return CudaError(cudaError_t.cudaErrorInvalidValue, note)


class LastErrors:
    """The last error of each host thread, as ``cudaGetLastError`` has it, and the note that goes with it."""

    def __init__(self) -> None:
        self._codes: dict[int, cudaError_t] = {}
        self._notes: dict[int, str] = {}
        self._driver_threads: set[int] = set()

    def remember(self, error: CudaError) -> None:
        """A call of this thread failed. "Not ready" is no error, and of the driver's the runtime does not know."""
        thread = threading.get_ident()
        self._notes[thread] = error.note
        if error.code != cudaError_t.cudaErrorNotReady and thread not in self._driver_threads:
            self._codes[thread] = error.code

    def take(self) -> cudaError_t:
        """This thread's last error, which becomes success."""
        return self._codes.pop(threading.get_ident(), cudaError_t.cudaSuccess)

    def peek(self) -> cudaError_t:
        """The same without taking it."""
        return self._codes.get(threading.get_ident(), cudaError_t.cudaSuccess)

    def forget(self) -> None:
        """No thread has a last error any more."""
        self._codes.clear()

    @property
    def note(self) -> str:
        """What this thread's last error means: where, which rule, which value, what to try."""
        return self._notes.get(threading.get_ident(), "")

    @property
    def in_driver_call(self) -> bool:
        """Does this thread make a call of the driver API?"""
        return threading.get_ident() in self._driver_threads

    @contextmanager
    def driver_call(self) -> Iterator[None]:
        """Calls made inside come from the driver API, whose errors ``cudaGetLastError`` does not know."""
        thread = threading.get_ident()
        nested = thread in self._driver_threads
        self._driver_threads.add(thread)
        try:
            yield
        finally:
            if not nested:
                self._driver_threads.discard(thread)


class NotSimulated(AttributeError, NotImplementedError):
    """A name exists in the real module and is not simulated. The message names it."""
