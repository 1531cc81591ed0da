"""One array function as the device sees it: NumPy on device memory, in its stream, with a modelled cost.

Nothing is computed when an array function is called. It allocates its result (whose shape and type are known), and
enqueues an :class:`Work`: which function, on which bytes. The device calls it at its modelled end. CuPy often launches
several kernels for one function; here it is one operation that reads its inputs and writes its results once.
"""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from cuda.bindings.runtime import cudaError_t
from msgspec import Struct

from cudalab.sim.cupy._base.call import device, runtime_call
from cudalab.sim.cupy._base.errors import PerformanceWarning
from cudalab.sim.cupy.cuda.stream import current_pointer
from cudalab.sim.device import CudaError
from cudalab.sim.device.queue.byte_ranges import StridedRange, strided_range
from cudalab.sim.machine.memory.allocation import InvalidPointer
from cudalab.sim.machine.memory.allocations import Memory

Range = tuple[int, int]


class Operand(Struct, frozen=True):
    """An array in device memory: where it lies and how it is laid out; strides in bytes."""

    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: np.dtype[Any]

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    def span(self) -> Range:
        """First address and number of bytes from the first to the last one that it uses."""
        if not self.size:
            return self.address, 0
        reach = [(n - 1) * stride for n, stride in zip(self.shape, self.strides, strict=True)]
        low = sum(step for step in reach if step < 0)
        high = sum(step for step in reach if step > 0)
        return self.address + low, high - low + self.dtype.itemsize

    def extent(self) -> StridedRange:
        """Exactly the bytes that it uses."""
        return strided_range(self.address, self.dtype.itemsize, self.shape, self.strides)

    def array(self, memory: Memory, *, write: bool = False) -> np.ndarray:
        """As a NumPy array on the device's memory."""
        start, size = self.span()
        if not size:
            return np.empty(self.shape, self.dtype)
        flat = _bytes(memory, start, size, write)
        return np.ndarray(self.shape, self.dtype, buffer=flat, offset=self.address - start, strides=self.strides)


def _bytes(memory: Memory, start: int, size: int, write: bool) -> np.ndarray:
    try:
        return memory.array(start, size, write=write)
    except InvalidPointer as error:
        base, length = memory.find_range(start)
        if start + size <= base + length:  # registered host memory
            return np.asarray(_Mapped(start, size))
        raise CudaError(
            cudaError_t.cudaErrorIllegalAddress,
            f"an array function used memory that is not there: {error}",
            sticky=True,
        ) from None


class _Mapped:
    """Host memory by its address."""

    def __init__(self, start: int, size: int) -> None:
        self.__array_interface__ = {"shape": (size,), "typestr": "|u1", "data": (start, False), "version": 3}


class Work:
    """``function(*arguments, **keywords)`` with each :class:`Operand` replaced by its NumPy array; what it returns is
    stored in ``results``. With ``in_place`` the function gets the result arrays first and stores by itself."""

    __slots__ = ("_memory", "arguments", "function", "in_place", "keywords", "results")

    def __init__(
        self,
        function: Callable[..., Any],
        arguments: Sequence[Any],
        keywords: dict[str, Any],
        results: Sequence[Operand],
        in_place: bool = False,
    ) -> None:
        self.function = function
        self.arguments = tuple(arguments)
        self.keywords = keywords
        self.results = tuple(results)
        self.in_place = in_place
        self._memory = device().memory

    def __call__(self) -> None:
        arguments = [self._resolved(argument) for argument in self.arguments]
        keywords = {name: self._resolved(value) for name, value in self.keywords.items()}
        results = [operand.array(self._memory, write=True) for operand in self.results]
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                values = self.function(*([*results, *arguments] if self.in_place else arguments), **keywords)
            except Exception as error:
                _report(self.function, error)
                for target in results:
                    target.fill(np.nan if target.dtype.kind in "fc" else 0)
                return
            if self.in_place:
                return
            if len(results) == 1 and not isinstance(values, (tuple, list)):
                values = (values,)
            for target, value in zip(results, values, strict=True):
                np.copyto(target, np.asarray(value).reshape(target.shape), casting="unsafe")

    def _resolved(self, value: Any) -> Any:
        if isinstance(value, Operand):
            return value.array(self._memory)
        if isinstance(value, (list, tuple)):
            return type(value)(self._resolved(entry) for entry in value)
        return value


class Fill(Work):
    """``number`` in every element of ``target``, which has no gaps."""

    __slots__ = ()

    def __init__(self, number: np.ndarray, target: Operand) -> None:
        super().__init__(np.copyto, (number,), {}, (target,), in_place=True)

    def __call__(self) -> None:
        start, size = self.results[0].span()
        try:
            self._memory.fill(start, size, self.arguments[0])
        except InvalidPointer:  # registered host memory, or none
            super().__call__()


def _report(function: Callable[..., Any], error: Exception) -> None:
    """An array function met values that NumPy refuses. A GPU computes something and raises nothing; the caller is long
    past the line, so this is told on the error stream, and the result is NaN or 0."""
    name = getattr(function, "__name__", "an array function")
    print(
        f"cudalab: {name} on the simulated device could not compute its result ({error}); it is NaN or 0",
        file=sys.stderr,
    )


def enqueue(name: str, work: Work, inputs: Iterable[Operand], *, flops: float = 0.0) -> None:
    """Put ``work`` into the current stream. ``inputs`` are what it reads; ``flops`` counts arithmetic operations."""
    inputs = list(inputs)
    reads = [span for span in (operand.span() for operand in inputs) if span[1]]
    writes = [span for span in (operand.span() for operand in work.results) if span[1]]
    if not reads and not writes:
        return
    if device().count > 1:
        _reach_peers([address for address, _ in reads + writes])
    stream = current_pointer()
    exact = tuple(operand.extent() for operand in inputs), tuple(operand.extent() for operand in work.results)
    strided = any(pairs for ranges in exact for _, _, pairs in ranges)

    def call() -> None:
        device().array_operation(name, work, reads, writes, stream, flops=flops, exact=exact if strided else None)

    runtime_call(call)


def _reach_peers(addresses: Iterable[int]) -> None:
    """Enable access to the devices that arrays are on, as CuPy does, with a warning."""
    here = device().contexts.here
    for allocation in filter(None, map(device().memory.find, addresses)):
        there = allocation.device
        if there == here.number or allocation.kind in ("pinned", "managed"):
            continue
        if there not in here.peers:
            runtime_call(device().enable_peer_access, there)
        warnings.warn(
            f"The device where the array resides ({there}) is different from the current device ({here.number}). Peer "
            "access has been activated automatically.",
            PerformanceWarning,
            stacklevel=2,
        )


def operands_in(value: Any) -> list[Operand]:
    """Every :class:`Operand` in nested lists and tuples."""
    if isinstance(value, Operand):
        return [value]
    if isinstance(value, (list, tuple)):
        return [operand for entry in value for operand in operands_in(entry)]
    return []
