"""What programs about streams share: kernels that keep the device busy for a known while, and questions.

A program must not depend on luck with time. So it puts a kernel that spins for about 50 ms into a stream, makes the
call that it is about, which takes microseconds, and asks at once which streams are still busy.
"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from .program import code

SPIN_SOURCE = r"""
extern "C" __global__ void spin(long long cycles, int* out, int value) {
    long long start = clock64();
    while (clock64() - start < cycles) { }
    if (out) *out = value;
}"""
STORE_SOURCE = 'extern "C" __global__ void store(int* out, int value) { *out = value; }'
COPY_SOURCE = 'extern "C" __global__ void copy(const int* from, int* to) { *to = *from; }'
LONG = 100_000_000  # cycles of an SM: about 50 ms


class Handle:
    """A stream by its number, for ``cp.cuda.Stream.from_external``."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self.number


def on(stream: Any) -> Any:
    """``with on(stream):`` makes a stream of any kind, or a handle, CuPy's current one."""
    from cudalab import cp

    return stream if hasattr(stream, "ptr") else cp.cuda.Stream.from_external(Handle(int(stream)))


def number_of(stream: Any) -> int:
    """The handle as a number."""
    return int(stream.ptr if hasattr(stream, "ptr") else stream)


def warm() -> None:
    """Loads the kernels: the first launch of a kernel may wait for the device."""
    from cudalab import cp, cudart

    number = cp.zeros(1, cp.int32)
    spin(0, number.data.ptr, cycles=1)
    store(0, number.data.ptr, 1)
    copied(0, number.data.ptr, number.data.ptr)
    cudart.cudaDeviceSynchronize()


def spin(stream: Any, out: Any = 0, value: int = 1, cycles: int = LONG) -> None:
    """Keeps a stream busy for about 50 ms, then writes ``value`` to ``out``, where that is given."""
    from cudalab import cp

    with on(stream):
        cp.RawKernel(SPIN_SOURCE, "spin")((1,), (1,), (np.int64(cycles), int(out), np.int32(value)))


def store(stream: Any, out: Any, value: int) -> None:
    """Writes ``value`` to the ``int`` at ``out``."""
    from cudalab import cp

    with on(stream):
        cp.RawKernel(STORE_SOURCE, "store")((1,), (1,), (int(out), np.int32(value)))


def copied(stream: Any, source: Any, destination: Any) -> None:
    """A kernel that copies one ``int``."""
    from cudalab import cp

    with on(stream):
        cp.RawKernel(COPY_SOURCE, "copy")((1,), (1,), (int(source), int(destination)))


def state(stream: Any) -> str:
    """``busy``, ``idle``, or the error of the query."""
    from cudalab import cudart

    answer = code(cudart.cudaStreamQuery(number_of(stream)))
    return {"cudaSuccess": "idle", "cudaErrorNotReady": "busy"}.get(answer, answer)


def event_state(event: Any) -> str:
    """``pending``, ``complete``, or the error of the query."""
    from cudalab import cudart

    answer = code(cudart.cudaEventQuery(number_of(event)))
    return {"cudaSuccess": "complete", "cudaErrorNotReady": "pending"}.get(answer, answer)


@contextlib.contextmanager
def streams(*flags: int) -> Iterator[list[int]]:
    """New streams with those flags (0 blocking, 1 non-blocking), as numbers; synchronised and destroyed at the end."""
    from cudalab import cudart

    made = [int(cudart.cudaStreamCreateWithFlags(flag)[1]) for flag in flags]
    try:
        yield made
    finally:
        cudart.cudaDeviceSynchronize()
        for stream in made:
            cudart.cudaStreamDestroy(stream)


@contextlib.contextmanager
def events(count: int, flags: int = 0) -> Iterator[list[int]]:
    """New events, as numbers; destroyed at the end."""
    from cudalab import cudart

    made = [int(cudart.cudaEventCreateWithFlags(flags)[1]) for _ in range(count)]
    try:
        yield made
    finally:
        cudart.cudaDeviceSynchronize()
        for event in made:
            cudart.cudaEventDestroy(event)


@contextlib.contextmanager
def device_memory(size: int) -> Iterator[int]:
    """``size`` bytes of device memory, set to zero."""
    from cudalab import cudart

    pointer = int(cudart.cudaMalloc(size)[1])
    cudart.cudaMemset(pointer, 0, size)
    cudart.cudaDeviceSynchronize()
    try:
        yield pointer
    finally:
        cudart.cudaDeviceSynchronize()
        cudart.cudaFree(pointer)


@contextlib.contextmanager
def pinned_memory(size: int, flags: int = 0) -> Iterator[tuple[int, np.ndarray]]:
    """``size`` bytes of page-locked memory: the address, and the bytes as an array of zeros."""
    from cudalab import cudart

    pointer = int(cudart.cudaHostAlloc(size, flags)[1])
    view = seen(pointer, size)
    view[:] = 0
    try:
        yield pointer, view
    finally:
        cudart.cudaDeviceSynchronize()
        cudart.cudaFreeHost(pointer)


def seen(pointer: Any, size: int, dtype: Any = np.uint8) -> np.ndarray:
    """Host memory at an address as an array."""
    return np.frombuffer((ctypes.c_char * size).from_address(int(pointer)), dtype)


def fetched(pointer: Any, count: int, dtype: Any = np.int32) -> np.ndarray:
    """A copy of device memory."""
    from cudalab import cudart

    out = np.zeros(count, dtype)
    cudart.cudaMemcpy(out.ctypes.data, int(pointer), out.nbytes, cudart.cudaMemcpyKind.cudaMemcpyDeviceToHost)
    return out


def waiting(call: Callable[[], Any]) -> dict[str, list[str]]:
    """For each of three streams that is busy: what ``call`` returned, and whether it waited for that work."""
    from cudalab import cudart

    warm()
    found = {}
    with streams(0, 1) as (blocking, free), events(1, cudart.cudaEventDisableTiming) as (event,):
        for name, stream in (("blocking", blocking), ("non-blocking", free), ("null", 0)):
            spin(stream)
            cudart.cudaEventRecord(event, stream)
            before = event_state(event)
            answer = call()
            answer = code(answer) if isinstance(answer, tuple) else str(answer)
            found[name] = [answer, "did not wait" if event_state(event) == "pending" else "waited"]
            if before != "pending":
                found[name].append(f"was {before}")
            cudart.cudaDeviceSynchronize()
    return found


def attribute(name: str, **values: Any) -> Any:
    """A launch attribute, such as ``attribute("PRIORITY", priority=-1)``; a nested field is ``clusterDim__x``."""
    from cudalab import driver

    value = driver.CUlaunchAttributeValue()
    for path, number in values.items():
        *outer, field = path.split("__")
        place = value
        for part in outer:
            place = getattr(place, part)
        setattr(place, field, number)
    made = driver.CUlaunchAttribute()
    made.id = getattr(driver.CUlaunchAttributeID, f"CU_LAUNCH_ATTRIBUTE_{name}")
    made.value = value
    return made


def launched(kernel: Any, attributes: Any, *args: Any, stream: int = 0, grid: int = 1, block: int = 1) -> str:
    """Launches a ``RawKernel`` with ``cuLaunchKernelEx``: the name of the code. Arguments are integers, 8 bytes each
    where they are Python's, and 4 where they are NumPy's."""
    from cudalab import driver

    config = driver.CUlaunchConfig()
    config.gridDimX, config.gridDimY, config.gridDimZ = grid, 1, 1
    config.blockDimX, config.blockDimY, config.blockDimZ = block, 1, 1
    config.hStream = driver.CUstream(stream)
    config.attrs, config.numAttrs = list(attributes), len(attributes)
    kinds = tuple(ctypes.c_int if isinstance(value, np.int32) else ctypes.c_longlong for value in args)
    values = tuple(int(value) for value in args)
    return code(driver.cuLaunchKernelEx(config, driver.CUfunction(kernel.kernel.ptr), (values, kinds), 0))
