"""What programs about graphs share: kernels that append a number to a log, as nodes and in streams, and short forms.

The log tells which work ran, how often, and in which order. All stores are atomic, so that kernels side by side lose
none.
"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterator
from typing import Any

import numpy as np

from .busy import on
from .program import code

APPEND_SOURCE = r"""
extern "C" __global__ void append(int* log, int value) { atomicExch(log + 1 + atomicAdd(log, 1), value); }"""
APPEND_SLOWLY_SOURCE = r"""
extern "C" __global__ void append_slowly(int* log, int value) {
    long long start = clock64();
    while (clock64() - start < 2000000) { }
    atomicExch(log + 1 + atomicAdd(log, 1), value);
}"""
GLOBAL, THREAD_LOCAL, RELAXED = 0, 1, 2


def mode_of(number: int) -> Any:
    """A capture mode by its number."""
    from cudalab import cudart

    return cudart.cudaStreamCaptureMode(number)


def new_log(size: int = 64) -> Any:
    """Memory that kernels append numbers to: how many there are, then the numbers."""
    from cudalab import cp, cudart

    log = cp.zeros(size, cp.int32)
    cudart.cudaDeviceSynchronize()
    return log


def logged(log: Any) -> list[int]:
    """The numbers that were appended."""
    from cudalab import cp, cudart

    cudart.cudaDeviceSynchronize()
    values = cp.asnumpy(log)
    return [int(value) for value in values[1 : 1 + int(values[0])]]


def function_of(source: str, name: str) -> Any:
    """A kernel as a handle of the driver."""
    from cudalab import cp, driver

    return driver.CUfunction(int(cp.RawKernel(source, name).kernel.ptr))


def launch_of(log: Any, value: int, slowly: bool = False, grid: int = 1, block: int = 1) -> Any:
    """Parameters of a kernel node that appends a number."""
    from cudalab import driver

    params = driver.CUDA_KERNEL_NODE_PARAMS()
    name = "append_slowly" if slowly else "append"
    params.func = function_of(APPEND_SLOWLY_SOURCE if slowly else APPEND_SOURCE, name)
    params.gridDimX, params.gridDimY, params.gridDimZ = grid, 1, 1
    params.blockDimX, params.blockDimY, params.blockDimZ = block, 1, 1
    params.sharedMemBytes = 0
    params.kernelParams = ((int(log.data.ptr), value), (ctypes.c_void_p, ctypes.c_int))
    return params


def append_node(graph: Any, after: list[Any], log: Any, value: int, slowly: bool = False) -> Any:
    """A new kernel node that appends a number."""
    from cudalab import driver

    error, made = driver.cuGraphAddKernelNode(graph, after, len(after), launch_of(log, value, slowly))
    assert error.value == 0, error
    return made


def append(stream: Any, log: Any, value: int) -> None:
    """Appends a number in a stream."""
    from cudalab import cp

    with on(stream):
        cp.RawKernel(APPEND_SOURCE, "append")((1,), (1,), (log, np.int32(value)))


@contextlib.contextmanager
def graph() -> Iterator[Any]:
    """A new graph."""
    from cudalab import cudart

    _, made = cudart.cudaGraphCreate(0)
    yield made
    cudart.cudaGraphDestroy(made)
    cudart.cudaGetLastError()


def run_graph(made: Any, times: int = 1) -> list[str]:
    """Instantiates, launches and waits; says how that went."""
    from cudalab import cudart

    error, executable = cudart.cudaGraphInstantiate(made, 0)
    found = [error.name]
    if executable is not None and int(executable):
        found += [code(cudart.cudaGraphLaunch(executable, 0)) for _ in range(times)]
        found.append(code(cudart.cudaDeviceSynchronize()))
        cudart.cudaGraphExecDestroy(executable)
    return found


def ended(stream: Any) -> list[Any]:
    """Ends a capture: the code, and whether there is a graph; the graph is destroyed."""
    from cudalab import cudart

    error, made = cudart.cudaStreamEndCapture(stream)
    there = made is not None and int(made) != 0
    if there:
        cudart.cudaGraphDestroy(made)
    return [error.name, there]


def warm_appends() -> None:
    """Loads the kernels that append."""
    from cudalab import cp, cudart

    log = new_log()
    append(0, log, 0)
    with on(0):
        cp.RawKernel(APPEND_SLOWLY_SOURCE, "append_slowly")((1,), (1,), (log, np.int32(0)))
    cudart.cudaDeviceSynchronize()
