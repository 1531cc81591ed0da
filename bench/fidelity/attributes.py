"""Experiments with attributes of launches: programmatic dependent launch, clusters, priorities."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from bench.fidelity.experiment import experiment
from bench.fidelity.laboratory import MB, Laboratory
from bench.fidelity.streams import WHOLE_SM
from bench.graph_nodes import checked
from cudalab import cp, cudart, driver

Result = Iterator[tuple[str, float]]
I = np.int32  # noqa: E741
HERE = "dependent"
_C_TYPES: dict[type, Any] = {int: ctypes.c_void_p, np.int32: ctypes.c_int, np.float32: ctypes.c_float}


def attribute(name: str, **values: Any) -> Any:
    """A launch attribute, such as ``attribute("PRIORITY", priority=-1)``; a field of a field is ``clusterDim__x``."""
    made, value = driver.CUlaunchAttribute(), driver.CUlaunchAttributeValue()
    for path, number in values.items():
        *outer, field = path.split("__")
        place = value
        for part in outer:
            place = getattr(place, part)
        setattr(place, field, number)
    made.id, made.value = getattr(driver.CUlaunchAttributeID, f"CU_LAUNCH_ATTRIBUTE_{name}"), value
    return made


def dependent() -> list[Any]:
    """The launch may begin when all blocks of the one before have triggered or ended."""
    return [attribute("PROGRAMMATIC_STREAM_SERIALIZATION", programmaticStreamSerializationAllowed=1)]


def cluster(size: int) -> list[Any]:
    return [attribute("CLUSTER_DIMENSION", clusterDim__x=size, clusterDim__y=1, clusterDim__z=1)]


def launcher(
    kernel: Any, grid: int, block: int, attributes: Sequence[Any], *args: Any, stream: int = 0, shared: int = 0
) -> Callable[[], None]:
    """A launch with attributes, its structures made beforehand."""
    config = driver.CUlaunchConfig()
    config.gridDimX, config.gridDimY, config.gridDimZ = grid, 1, 1
    config.blockDimX, config.blockDimY, config.blockDimZ = block, 1, 1
    config.hStream, config.sharedMemBytes = driver.CUstream(stream), shared
    config.attrs, config.numAttrs = list(attributes), len(attributes)
    function = driver.CUfunction(int(kernel.kernel.ptr))
    values = tuple(each.item() if isinstance(each, np.generic) else each for each in args)
    given = (values, tuple(_C_TYPES[type(each)] for each in args)) if args else 0
    return lambda: checked(driver.cuLaunchKernelEx(config, function, given, 0))


def in_a_row(lab: Laboratory, count: int, launch: Callable[[], None]) -> float:
    def work() -> None:
        for _ in range(count):
            launch()

    return lab.queued(work)


@experiment("dependent launches: chains of empty kernels", half="calibration")
def empty_chains(lab: Laboratory) -> Result:
    nothing, passes = (lab.kernel_of(HERE, name) for name in ("nothing", "passes"))
    for count in (2, 10, 40):
        yield f"{count}, plain", in_a_row(lab, count, launcher(nothing, 1, 32, []))
        yield f"{count}, attribute", in_a_row(lab, count, launcher(nothing, 1, 32, dependent()))
        yield f"{count}, trigger and wait", in_a_row(lab, count, launcher(passes, 1, 32, dependent()))


@experiment("dependent launches: ten kernels whose first half needs nothing")
def preambles(lab: Laboratory) -> Result:
    kernel, out = lab.kernel_of(HERE, "halves"), lab.buffer("busy", 4 * MB).data.ptr
    for rounds in (200, 1000, 4000):
        for label, attributes in (("plain", []), ("attribute", dependent())):
            yield f"{rounds} rounds, {label}", in_a_row(lab, 10, launcher(kernel, 1, 64, attributes, out, I(rounds)))


@experiment("dependent launches: the same kernels by number of blocks")
def wide_preambles(lab: Laboratory) -> Result:
    kernel, out = lab.kernel_of(HERE, "halves"), lab.buffer("busy", 4 * MB).data.ptr
    for blocks in (16, 132, 528):
        for label, attributes in (("plain", []), ("attribute", dependent())):
            launch = launcher(kernel, blocks, 64, attributes, out, I(1000))
            yield f"{blocks} blocks, {label}", in_a_row(lab, 10, launch)


@experiment("dependent launches: twenty saxpy in a row")
def saxpys(lab: Laboratory) -> Result:
    plain, waits = (lab.kernel_of(HERE, name) for name in ("saxpy", "saxpy_waits"))
    x, y = (lab.zeros(name, 4 * MB).data.ptr for name in "xy")
    for n in (1 << 12, 1 << 16, 1 << 20):
        for label, kernel, attributes in (
            ("plain", plain, []),
            ("attribute", plain, dependent()),
            ("trigger and wait", waits, dependent()),
        ):
            launch = launcher(kernel, n // 256, 256, attributes, np.float32(2), x, y, I(n))
            yield f"{n} elements, {label}", in_a_row(lab, 20, launch)


@experiment("clusters: empty kernels by size of the cluster")
def empty_clusters(lab: Laboratory) -> Result:
    kernel = lab.kernel_of("launches", "empty")
    for blocks in (1056, 10560):
        for size in (1, 2, 4, 8):
            yield f"{blocks} blocks, clusters of {size}", in_a_row(lab, 1, launcher(kernel, blocks, 128, cluster(size)))


@experiment("clusters: blocks with an SM each, by size of the cluster")
def whole_sms(lab: Laboratory) -> Result:
    """Clusters of which no more fit into a GPC leave SMs of it empty."""
    kernel, out = lab.large_shared("launches", "busy", WHOLE_SM), lab.buffer("busy", 4 * MB).data.ptr
    for blocks in (128, 264):
        for size in (1, 2, 4, 8):
            launch = launcher(kernel, blocks, 32, cluster(size), out, I(10_000), shared=WHOLE_SM)
            yield f"{blocks} blocks, clusters of {size}", in_a_row(lab, 1, launch)


@experiment("calls: launches with attributes, host time")
def calls(lab: Laboratory) -> Result:
    kernel = lab.kernel_of(HERE, "nothing")
    for label, attributes in (("plain", []), ("cluster", cluster(1)), ("dependent", dependent())):
        launch = launcher(kernel, 1, 32, attributes)

        def work(launch: Callable[[], None] = launch) -> None:
            for _ in range(50):
                launch()

        yield label, lab.calls(work, 50)


@experiment("priorities: a short kernel beside a long one, by priority of its stream")
def stream_priorities(lab: Laboratory) -> Result:
    """When a kernel of 132 blocks is done that comes when a longer one has 20 blocks for each SM."""
    kernel, outs = lab.large_shared("launches", "busy", WHOLE_SM), lab.buffer("busy", 4 * MB)
    out, other = outs.data.ptr, outs[1 << 19 :].data.ptr
    for blocks in (1, 132):
        for label, priority in (("same", 0), ("higher", -5)):
            long, short = (cp.cuda.Stream(non_blocking=True, priority=each) for each in (0, priority))
            first = launcher(kernel, 132 * 20, 32, [], out, I(2_000), stream=long.ptr, shared=WHOLE_SM)
            second = launcher(kernel, blocks, 32, [], other, I(2_000), stream=short.ptr, shared=WHOLE_SM)

            def work(first: Any = first, second: Any = second, short: Any = short) -> None:
                first()
                second()
                cudart.cudaStreamSynchronize(short.ptr)

            yield f"{blocks} blocks, {label} priority", lab.calls(work)
