"""Calls of the simulated device, with errors as CuPy raises them.

The device raises ``CudaError`` with a number and a note. CuPy's wrappers of the runtime raise ``CUDARuntimeError``,
those of the driver (module load, launch, function attributes) ``CUDADriverError``. Both carry ``status`` and the text
that CUDA has for the number; the device's explanation goes into the exception's notes. CuPy has a CUDA runtime of its
own, so ``cudart.cudaGetLastError`` knows nothing of them.
"""

from __future__ import annotations

import atexit
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from typing import Any, NoReturn, TypeVar

from cuda.bindings.runtime import cudaError_t

import cudalab.sim.device as sim_device
from cudalab.sim.cupy._base.errors import CUDADriverError, CUDARuntimeError
from cudalab.sim.device.context import Contexts

Result = TypeVar("Result")

shutting_down: list[bool] = []
"""Not empty while Python exits. Destructors check it first, through a default argument: module globals may be gone."""
atexit.register(shutting_down.append, True)


def device() -> sim_device.Device:
    """The simulated device of this process."""
    return sim_device.current_device()


@contextmanager
def driver_errors() -> Iterator[None]:
    """Raise device errors as ``CUDADriverError``."""
    try:
        with device().driver_call():
            yield
    except sim_device.CudaError as error:
        raise _noted(CUDADriverError(int(error.code)), error) from None


def runtime_call(function: Callable[..., Result], *arguments: Any) -> Result:
    """``function(*arguments)``, with device errors raised as ``CUDARuntimeError``. No context manager: every copy and
    every wait comes here."""
    try:
        with device().driver_call():
            return function(*arguments)
    except sim_device.CudaError as error:
        raise _noted(CUDARuntimeError(int(error.code)), error) from None


def own_work(constant: str) -> None:
    """CuPy itself keeps the host, beside the calls that it makes or without one, for a time of the profile's ``host``
    part."""
    here = device()
    runtime_call(here.library_work, round(here.profile.host[constant]))


def from_destructor(call: Callable[[], Any], made_in: Any) -> None:
    """A call that a destructor makes: not while Python shuts down, not when the device of ``made_in`` (its
    :func:`epoch`) is gone, never in the middle of another call, and without an error, for nobody could catch it."""
    if sys.is_finalizing() or made_in != epoch():
        return

    def make() -> None:
        with suppress(Exception):
            if made_in == epoch():
                call()

    device().when_free(make)


def on_device(number: int) -> AbstractContextManager[None]:
    """Within it a device is current in this host thread, which takes no modelled time."""
    contexts = device().contexts
    return _STAYS if contexts.number == number else _elsewhere(contexts, number)


_STAYS = nullcontext()


@contextmanager
def _elsewhere(contexts: Contexts, number: int) -> Iterator[None]:
    before = contexts.number
    contexts.use(number)
    try:
        yield
    finally:
        contexts.use(before)


def refuse_former(pointer: int) -> NoReturn:
    """An array from before a reset is used: its address may be another array's by now."""
    note = (
        f"the memory at {pointer:#x} was on the device before it was reset, and what was there is lost: make the array "
        "anew. cudalab.reset() starts with a new device, on which no array, kernel argument or view from before is left"
    )
    error = sim_device.CudaError(cudaError_t.cudaErrorInvalidValue, note)
    raise _noted(CUDARuntimeError(int(error.code)), error)


def _noted(raised: Any, error: sim_device.CudaError) -> Any:
    if error.note:
        raised.add_note(error.note)
    for note in getattr(error, "__notes__", ()):
        raised.add_note(note)
    return raised


def size_of(value: Any) -> int:
    """``value`` as a C ``size_t``, with the errors that CuPy gives for what is none."""
    number = integer(value)
    if number < 0:
        raise OverflowError("can't convert negative value to size_t")
    if number >= 1 << 64:
        raise OverflowError("Python int too large to convert to C size_t")
    return number


def integer(value: Any) -> int:
    """``value`` as a C integer; ``TypeError`` for what is no integer."""
    try:
        return int(value.__index__()) if not isinstance(value, int) else int(value)
    except AttributeError:
        raise TypeError("an integer is required") from None


def epoch() -> Any:
    """Changes when the device is reset or replaced: pointers and handles of an earlier epoch are dead. No weak
    reference: Python's collector clears those that lie in a cycle themselves, before it runs destructors."""
    return device().state.scheduler.token
