"""What programs about graphs that kernels launch share.

A graph for the device has a kernel that appends a number to a log; a kernel that launches appends one, too, and stores
what each of its calls returned. What they make lives until :func:`finished`.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from .appending import append_node, function_of, warm_appends
from .program import code

DEVICE = 4
"""``cudaGraphInstantiateFlagDeviceLaunch``."""
TAIL, FIRE, SIBLING = (number << 56 for number in (1, 2, 3))
INTO = {"tail": TAIL, "fire": FIRE, "sibling": SIBLING}
ITSELF = 1
"""Stands for the graph that runs (``cudaGetCurrentGraphExec``)."""
LAUNCH_DECLARATION = r"""
extern "C" __device__ __cudart_builtin__ cudaError_t CUDARTAPI
cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream);
__device__ unsigned long long itself() {
    unsigned long long graph;
    asm("mov.u64 %0, %%current_graph_exec;" : "=l"(graph));
    return graph;
}
"""
LAUNCH_SOURCE = (
    LAUNCH_DECLARATION
    + r"""
extern "C" __global__ void launch(int* log, int value, const unsigned long long* calls, int count, int* codes) {
    atomicExch(log + 1 + atomicAdd(log, 1), value);
    for (int i = 0; i < count; i++) {
        unsigned long long graph = calls[2 * i] == 1 ? itself() : calls[2 * i];
        codes[i] = cudaGraphLaunch((cudaGraphExec_t)graph, (cudaStream_t)calls[2 * i + 1]);
    }
}"""
)
"""Launches pairs of a graph and a stream, one after the other."""
AGAIN_SOURCE = (
    LAUNCH_DECLARATION
    + r"""
extern "C" __global__ void again(int* log, int value, int* counter, int most, unsigned long long other, int* code) {
    atomicExch(log + 1 + atomicAdd(log, 1), value);
    if (++*counter < most) *code = cudaGraphLaunch((cudaGraphExec_t)itself(), (cudaStream_t)(1ull << 56));
    if (other) cudaGraphLaunch((cudaGraphExec_t)other, (cudaStream_t)(2ull << 56));
}"""
)
"""Launches its graph again until it has run ``most`` times, and another one beside it each time."""
POINTER, NUMBER, LONG_NUMBER = ctypes.c_void_p, ctypes.c_int, ctypes.c_ulonglong


class Kept:
    """What lives until the program has ended."""

    def __init__(self) -> None:
        self.arrays: list[Any] = []
        self.graphs: list[Any] = []
        self.executables: list[Any] = []


KEPT = Kept()


def loaded() -> None:
    """Loads the kernels before anything waits for them."""
    warm_appends()
    function_of(LAUNCH_SOURCE, "launch")
    function_of(AGAIN_SOURCE, "again")


def finished(result: dict[str, Any]) -> dict[str, Any]:
    """Waits, destroys what :data:`KEPT` holds, and hands on a program's result."""
    from cudalab import cudart

    cudart.cudaDeviceSynchronize()
    for executable in KEPT.executables:
        cudart.cudaGraphExecDestroy(executable)
    for made in KEPT.graphs:
        cudart.cudaGraphDestroy(made)
    KEPT.__init__()  # type: ignore[misc]
    cudart.cudaGetLastError()
    return result


def new_graph() -> Any:
    from cudalab import cudart

    _, made = cudart.cudaGraphCreate(0)
    KEPT.graphs.append(made)
    return made


def of_driver(made: Any) -> Any:
    """The graph as the driver's type, which nodes of kernels take."""
    from cudalab import driver

    return driver.CUgraph(int(made))


def executable_of(made: Any, flags: int = DEVICE, upload: bool = True) -> Any:
    """An executable graph; one for the device is uploaded."""
    from cudalab import cudart

    error, executable = cudart.cudaGraphInstantiate(made, flags)
    assert error.value == 0, error
    KEPT.executables.append(executable)
    if upload and flags & DEVICE:
        assert code(cudart.cudaGraphUpload(executable, 0)) == "cudaSuccess"
        cudart.cudaDeviceSynchronize()
    return executable


def kernel_node(made: Any, after: list[Any], function: Any, args: Any, kinds: Any) -> Any:
    """A node of a kernel of one thread, of the driver's type."""
    from cudalab import driver

    params = driver.CUDA_KERNEL_NODE_PARAMS()
    params.func = function
    params.gridDimX = params.gridDimY = params.gridDimZ = 1
    params.blockDimX = params.blockDimY = params.blockDimZ = 1
    params.kernelParams = (args, kinds)
    before = [driver.CUgraphNode(int(each)) for each in after]
    error, node = driver.cuGraphAddKernelNode(of_driver(made), before, len(before), params)
    assert error.value == 0, error
    return node


def appends(log: Any, *values: int, slowly: bool = False, flags: int = DEVICE, upload: bool = True) -> Any:
    """An executable graph whose kernels append numbers one after the other, each for 1 ms if ``slowly``."""
    made, after = new_graph(), []
    for value in values:
        after = [append_node(of_driver(made), after, log, value, slowly)]
    return executable_of(made, flags, upload)


def launch_node(made: Any, after: list[Any], log: Any, value: int, *calls: tuple[Any, int]) -> tuple[Any, Any]:
    """A node of a kernel that appends a number and launches graphs; the node, and where it stores the codes."""
    from cudalab import cp, cudart

    pairs = np.array([[int(graph), stream] for graph, stream in calls] or [[0, 0]], np.uint64)
    what, codes = cp.asarray(pairs), cp.full(max(1, len(calls)), -1, cp.int32)
    KEPT.arrays += [what, codes]
    cudart.cudaDeviceSynchronize()
    args = int(log.data.ptr), value, int(what.data.ptr), len(calls), int(codes.data.ptr)
    kinds = POINTER, NUMBER, POINTER, NUMBER, POINTER
    return kernel_node(made, after, function_of(LAUNCH_SOURCE, "launch"), args, kinds), codes


def launches(log: Any, value: int, *calls: tuple[Any, int], flags: int = 0) -> tuple[Any, Any]:
    """An executable graph of such a kernel alone."""
    made = new_graph()
    _, codes = launch_node(made, [], log, value, *calls)
    return executable_of(made, flags), codes


def again_node(made: Any, log: Any, value: int, most: int, other: Any = 0) -> tuple[Any, Any]:
    """A node of a kernel that launches its graph again; where it counts, and stores the last code."""
    from cudalab import cp, cudart

    numbers = cp.array([0, -1], cp.int32)
    KEPT.arrays.append(numbers)
    cudart.cudaDeviceSynchronize()
    counter = int(numbers.data.ptr)
    args = int(log.data.ptr), value, counter, most, int(other), counter + 4
    kinds = POINTER, NUMBER, POINTER, NUMBER, LONG_NUMBER, POINTER
    return kernel_node(made, [], function_of(AGAIN_SOURCE, "again"), args, kinds), numbers


def runs_again(log: Any, value: int, most: int, other: Any = 0, flags: int = DEVICE) -> tuple[Any, Any]:
    """An executable graph of such a kernel alone."""
    made = new_graph()
    _, numbers = again_node(made, log, value, most, other)
    return executable_of(made, flags), numbers


def went(executable: Any, times: int = 1, stream: Any = 0) -> list[str]:
    """Launches by the host, and waits: the codes."""
    from cudalab import cudart

    found = [code(cudart.cudaGraphLaunch(executable, stream)) for _ in range(times)]
    return [*found, code(cudart.cudaDeviceSynchronize())]


def codes_of(codes: Any) -> list[str]:
    """Names of the codes that a kernel's calls returned; ``not called`` where there was none."""
    from cudalab import cp, cudart

    return ["not called" if number == -1 else cudart.cudaError_t(number).name for number in cp.asnumpy(codes).tolist()]


def counted(codes: Any) -> list[list[Any]]:
    """The same as runs of equal codes: each with how many there are."""
    runs: list[list[Any]] = []
    for name in codes_of(codes):
        if runs and runs[-1][0] == name:
            runs[-1][1] += 1
        else:
            runs.append([name, 1])
    return runs
