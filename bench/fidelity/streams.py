"""Experiments with streams: pipelines, kernels side by side, priorities, events between streams.

Kernels are chains of dependent arithmetic in few blocks, so that they take as long as copies and leave SMs free.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

import cudalab
from bench.fidelity.copies import D2H, H2D, HostMemory, copy
from bench.fidelity.experiment import experiment
from bench.fidelity.laboratory import MB, Laboratory
from cudalab import cp, cudart

Result = Iterator[tuple[str, float]]
CHUNK = 2 * MB
"""Bytes of a pipeline's chunk: 40 us over the bus."""
ROUNDS = 20_000
"""Rounds of a pipeline's kernel: about 40 us."""
WHOLE_SM = 200 << 10
"""Bytes of dynamic shared memory with which a block has an SM to itself."""


def outputs(lab: Laboratory, count: int) -> list[Any]:
    """Places for the results of kernels that may run at the same time."""
    memory = lab.buffer("busy", 4 * MB)
    return [memory[16384 * k : 16384 * (k + 1)] for k in range(count)]


def streams(count: int, **options: Any) -> list[Any]:
    return [cp.cuda.Stream(non_blocking=True, **options) for _ in range(count)]


class Pipeline:
    """Copy in, compute, copy out, for each of some chunks."""

    def __init__(self, lab: Laboratory, host: int, *, chunks: int = 8, size: int = CHUNK, rounds: int = ROUNDS) -> None:
        self.kernel = lab.kernel_of("launches", "busy")
        self.device = lab.buffer("pipeline", 64 * MB).data.ptr
        self.outs = outputs(lab, 64)
        self.host, self.chunks, self.size, self.rounds = host, chunks, size, np.int32(rounds)

    def copy_in(self, chunk: int, stream: Any) -> None:
        copy(self.device + chunk * self.size, self.host + chunk * self.size, self.size, H2D, stream.ptr)

    def compute(self, chunk: int, stream: Any) -> None:
        with stream:
            self.kernel((4,), (64,), (self.outs[chunk], self.rounds))

    def copy_out(self, chunk: int, stream: Any) -> None:
        copy(self.host + chunk * self.size, self.device + chunk * self.size, self.size, D2H, stream.ptr)

    def depth_first(self, queues: Sequence[Any]) -> None:
        for chunk in range(self.chunks):
            for stage in (self.copy_in, self.compute, self.copy_out):
                stage(chunk, queues[chunk % len(queues)])

    def breadth_first(self, queues: Sequence[Any]) -> None:
        for first in range(0, self.chunks, len(queues)):
            for stage in (self.copy_in, self.compute, self.copy_out):
                for chunk in range(first, min(first + len(queues), self.chunks)):
                    stage(chunk, queues[chunk % len(queues)])


@experiment("pipeline by number of streams")
def pipeline_streams(lab: Laboratory) -> Result:
    with HostMemory(64 * MB) as host:
        pipeline = Pipeline(lab, host)
        for count in (1, 2, 3, 4, 8):
            queues = streams(count)
            yield f"{count} streams", lab.until_done(lambda queues=queues: pipeline.depth_first(queues))


@experiment("pipeline by order of the calls")
def pipeline_order(lab: Laboratory) -> Result:
    with HostMemory(64 * MB) as host:
        pipeline = Pipeline(lab, host, chunks=4)
        yield "one stream", lab.until_done(partial(pipeline.depth_first, streams(1)))
        yield "two streams, depth first", lab.until_done(partial(pipeline.depth_first, streams(2)))
        yield "two streams, breadth first", lab.until_done(partial(pipeline.breadth_first, streams(2)))


@experiment("pipeline by number of chunks")
def pipeline_chunks(lab: Laboratory) -> Result:
    """The same work, cut into few or many pieces, in four streams."""
    with HostMemory(64 * MB) as host:
        for chunks in (1, 2, 4, 16, 64):
            pipeline = Pipeline(lab, host, chunks=chunks, size=16 * MB // chunks, rounds=160_000 // chunks)
            yield f"{chunks} chunks", lab.until_done(partial(pipeline.depth_first, streams(4)))


@experiment("pipeline by kind of host memory")
def pipeline_memory(lab: Laboratory) -> Result:
    for kind in ("pinned", "pageable"):
        with HostMemory(64 * MB, kind) as host:
            pipeline = Pipeline(lab, host, chunks=4)
            for count in (1, 4):
                yield f"{kind}, {count} streams", lab.until_done(partial(pipeline.depth_first, streams(count)))


@experiment("pipeline bound by its kernels")
def pipeline_kernels(lab: Laboratory) -> Result:
    with HostMemory(64 * MB) as host:
        pipeline = Pipeline(lab, host, size=MB // 2, rounds=100_000)
        for count in (1, 2, 4, 8):
            yield f"{count} streams", lab.until_done(partial(pipeline.depth_first, streams(count)))


@experiment("small kernels side by side")
def concurrent(lab: Laboratory) -> Result:
    kernel, outs = lab.kernel_of("launches", "busy"), outputs(lab, 16)
    for count in (1, 2, 4, 8, 16):
        queues = streams(count)

        def work(queues: Sequence[Any] = queues) -> None:
            for k in range(16):
                with queues[k % len(queues)]:
                    kernel((4,), (32,), (outs[k], np.int32(50_000)))

        yield f"16 kernels in {count} streams", lab.until_done(work)


@experiment("two kernels side by side by number of blocks")
def two_kernels(lab: Laboratory) -> Result:
    """Blocks that have an SM each to themselves."""
    kernel, outs = lab.large_shared("launches", "busy", WHOLE_SM), outputs(lab, 2)
    queues = streams(2)

    def work(blocks: int, both: bool) -> None:
        for queue, out in zip(queues if both else queues[:1], outs, strict=False):
            with queue:
                kernel((blocks,), (32,), (out, np.int32(20_000)), shared_mem=WHOLE_SM)

    for blocks in (66, 132, 264):
        yield f"one, {blocks} blocks", lab.until_done(lambda blocks=blocks: work(blocks, False))
        yield f"two, {blocks} blocks each", lab.until_done(lambda blocks=blocks: work(blocks, True))


@experiment("an urgent kernel by priority")
def priorities(lab: Laboratory) -> Result:
    """How long a small kernel takes from its call until it is done, behind a large one in another stream."""
    kernel, out = lab.large_shared("launches", "busy", WHOLE_SM), lab.buffer("busy", 4 * MB)
    small = lab.buffer("small", MB)
    large = cp.cuda.Stream(non_blocking=True, priority=0)
    for label, stream, blocks in (
        ("alone", cp.cuda.Stream(non_blocking=True), 0),
        ("same priority", cp.cuda.Stream(non_blocking=True, priority=0), 132 * 40),
        ("high priority", cp.cuda.Stream(non_blocking=True, priority=-5), 132 * 40),
    ):
        event = cp.cuda.Event()

        def once(stream: Any = stream, blocks: int = blocks, event: Any = event) -> float:
            cudart.cudaDeviceSynchronize()
            if blocks:
                with large:
                    kernel((blocks,), (32,), (out, np.int32(2_000)), shared_mem=WHOLE_SM)
                cudalab.host_work(60)
            before = cudalab.clock()
            with stream:
                kernel((1,), (32,), (small, np.int32(2_000)), shared_mem=WHOLE_SM)
                event.record()
            event.synchronize()
            return cudalab.clock() - before

        yield label, lab.median(once)


@experiment("events between streams")
def fork_and_join(lab: Laboratory) -> Result:
    kernel, outs = lab.kernel_of("launches", "busy"), outputs(lab, 4)
    first, *others = streams(4)
    fork, join = cp.cuda.Event(disable_timing=True), [cp.cuda.Event(disable_timing=True) for _ in others]

    def one_after_the_other() -> None:
        with first:
            for _ in range(5):
                kernel((4,), (128,), (outs[0], np.int32(10_000)))

    def forked(count: int) -> None:
        with first:
            kernel((4,), (128,), (outs[0], np.int32(10_000)))
            fork.record()
        for queue, event, out in zip(others[:count], join, outs[1:], strict=False):
            queue.wait_event(fork)
            with queue:
                kernel((4,), (128,), (out, np.int32(10_000)))
                event.record()
            first.wait_event(event)
        with first:
            for _ in range(4 - count):
                kernel((4,), (128,), (outs[0], np.int32(10_000)))

    yield "one stream", lab.until_done(one_after_the_other)
    yield "fork to one, join", lab.until_done(lambda: forked(1))
    yield "fork to three, join", lab.until_done(lambda: forked(3))


@experiment("the default stream between two others")
def default_stream(lab: Laboratory) -> Result:
    kernel, outs = lab.kernel_of("launches", "busy"), outputs(lab, 3)

    def work(queues: Sequence[Any], between: bool) -> None:
        for _ in range(3):
            for queue, out in zip(queues, outs, strict=False):
                with queue:
                    kernel((4,), (128,), (out, np.int32(10_000)))
            if between:
                with cp.cuda.Stream.null:
                    kernel((4,), (128,), (outs[2], np.int32(1_000)))

    blocking = [cp.cuda.Stream() for _ in range(2)]
    others = streams(2)
    yield "two blocking streams", lab.until_done(lambda: work(blocking, False))
    yield "two blocking streams, default between", lab.until_done(lambda: work(blocking, True))
    yield "two non-blocking streams, default between", lab.until_done(lambda: work(others, True))


@experiment("the host's work beside the device's")
def host_beside(lab: Laboratory) -> Result:
    kernel, out = lab.kernel_of("launches", "busy"), lab.buffer("busy", 4 * MB)

    def launch() -> None:
        kernel((4,), (128,), (out, np.int32(50_000)))

    def beside() -> None:
        launch()
        cudalab.host_work(100)

    def behind() -> None:
        launch()
        cudart.cudaDeviceSynchronize()
        cudalab.host_work(100)

    yield "kernel alone", lab.until_done(launch)
    yield "host beside it", lab.until_done(beside)
    yield "host behind it", lab.until_done(behind)


@experiment("copies beside kernels")
def copies_beside(lab: Laboratory) -> Result:
    kernel, out = lab.kernel_of("launches", "busy"), lab.buffer("busy", 4 * MB)
    device = lab.buffer("pipeline", 64 * MB).data.ptr
    one, two = streams(2)
    with HostMemory(16 * MB) as host:

        def compute(stream: Any) -> None:
            with stream:
                kernel((132,), (32,), (out, np.int32(100_000)))

        def move(stream: Any) -> None:
            copy(device, host, 8 * MB, H2D, stream.ptr)

        yield "kernel", lab.until_done(lambda: compute(one))
        yield "copy", lab.until_done(lambda: move(one))
        yield "both, one stream", lab.until_done(lambda: (compute(one), move(one)))
        yield "both, two streams", lab.until_done(lambda: (compute(one), move(two)))
