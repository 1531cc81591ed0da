"""CUDA errors of the simulated device.

A CUDA call reports an error as a number. The simulated device raises :class:`CudaError` inside, which carries that
number and a note that a number cannot carry: where, which rule, which value, and what to try. ``cudalab.sim.cudart``
and ``cudalab.sim.driver`` turn it back into the number they return, as the real modules do.
"""

from __future__ import annotations

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


class NotSimulated(AttributeError, NotImplementedError):
    """A name exists in the real module and is not simulated. The message names it."""
