"""Experiments with two devices: copies between them, kernels on a peer's memory, events across them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np

from bench.fidelity.copies import D2H, H2D, HostMemory, copy
from bench.fidelity.experiment import experiment
from bench.fidelity.laboratory import MB, Laboratory
from bench.graph_nodes import checked
from cudalab import cp, cudart

Result = Iterator[tuple[str, float]]
I = np.int32  # noqa: E741
SIZES = {"4 KB": 4 << 10, "64 KB": 64 << 10, "1 MB": MB, "16 MB": 16 * MB, "256 MB": 256 * MB}


@contextmanager
def on_device(number: int) -> Iterator[None]:
    """A device for a while; the one before comes back."""
    before = checked(cudart.cudaGetDevice())
    checked(cudart.cudaSetDevice(number))
    try:
        yield
    finally:
        checked(cudart.cudaSetDevice(before))


class Pair:
    """256 MB and a stream on each of two devices."""

    def __init__(self) -> None:
        self.memory, self.streams = list[int](), list[Any]()
        for number in (0, 1):
            with on_device(number):
                self.memory.append(int(checked(cudart.cudaMalloc(256 * MB))))
                checked(cudart.cudaMemset(self.memory[-1], 0, 256 * MB))
                checked(cudart.cudaDeviceSynchronize())
                self.streams.append(cp.cuda.Stream(non_blocking=True))

    def send(self, size: int, stream: int = 0, *, source: int = 0, half: int = 0) -> None:
        """A copy from one device to the other, into one half of its memory and out of the other's."""
        to, offset = 1 - source, half * 128 * MB
        ends = self.memory[to] + offset, to, self.memory[source] + offset, source
        checked(cudart.cudaMemcpyPeerAsync(*ends, size, self.streams[stream].ptr))

    def free(self) -> None:
        for number in (0, 1):
            with on_device(number):
                checked(cudart.cudaDeviceSynchronize())
                checked(cudart.cudaFree(self.memory[number]))


@contextmanager
def two_devices(*, access: bool) -> Iterator[Pair]:
    """Both, with or without access to each other's memory; device 0 is current."""
    pair = Pair()
    for number in (0, 1) if access else ():
        with on_device(number):
            checked(cudart.cudaDeviceEnablePeerAccess(1 - number, 0))
    try:
        yield pair
    finally:
        pair.free()
        for number in (0, 1) if access else ():
            with on_device(number):
                checked(cudart.cudaDeviceDisablePeerAccess(1 - number))


def by_size(lab: Laboratory, *, access: bool, stream: int = 0) -> Result:
    with two_devices(access=access) as pair:
        for label, size in SIZES.items():
            with on_device(stream):
                yield label, lab.queued(partial(pair.send, size, stream), pair.streams[stream])


@experiment("peers: copies without access, by size", devices=2, half="calibration")
def staged(lab: Laboratory) -> Result:
    yield from by_size(lab, access=False)


@experiment("peers: copies with access, in a stream of the source", devices=2, half="calibration")
def from_source(lab: Laboratory) -> Result:
    yield from by_size(lab, access=True)


@experiment("peers: copies with access, in a stream of the destination", devices=2, half="calibration")
def from_destination(lab: Laboratory) -> Result:
    yield from by_size(lab, access=True, stream=1)


def until_both_done(lab: Laboratory, work: Any) -> float:
    """``until_done`` of both devices."""

    def all_of_it() -> None:
        work()
        with on_device(1):
            cudart.cudaDeviceSynchronize()

    return lab.until_done(all_of_it)


@experiment("peers: two copies of 16 MB, until done", devices=2)
def directions(lab: Laboratory) -> Result:
    for access in (True, False):
        how = "with access" if access else "without"
        with two_devices(access=access) as pair:
            first = partial(pair.send, 16 * MB)
            against = partial(pair.send, 16 * MB, 1, source=1, half=1)
            along = partial(pair.send, 16 * MB, 1, half=1)
            yield f"one, {how}", until_both_done(lab, first)
            yield f"both directions, {how}", until_both_done(lab, lambda: (first(), against()))  # noqa: B023
            yield f"same direction, {how}", until_both_done(lab, lambda: (first(), along()))  # noqa: B023


@experiment("peers: a peer copy, or two copies over the host", devices=2)
def over_the_host(lab: Laboratory) -> Result:
    with HostMemory(16 * MB) as host:
        for label in ("64 KB", "16 MB"):
            size = SIZES[label]
            for access in (True, False):
                with two_devices(access=access) as pair:
                    name = f"{label}, peer copy {'with' if access else 'without'} access"
                    yield name, until_both_done(lab, partial(pair.send, size))

            with two_devices(access=False) as pair:

                def by_hand(pair: Pair = pair, size: int = size) -> None:
                    copy(host, pair.memory[0], size, D2H, pair.streams[0].ptr)
                    cudart.cudaStreamSynchronize(pair.streams[0].ptr)
                    with on_device(1):
                        copy(pair.memory[1], host, size, H2D, pair.streams[1].ptr)

                yield f"{label}, over the host", until_both_done(lab, by_hand)


def reads_of(lab: Laboratory, pointer: int) -> Result:
    kernel, out = lab.kernel_of("memory", "read4"), lab.buffer("out", MB).data.ptr
    for size in (16, 256):
        args = pointer, out, I(size * MB // 16)
        yield f"{size} MB", lab.queued(lambda args=args: kernel((132 * 8,), (256,), args))


@experiment("peers: kernels that read a peer's memory", devices=2)
def peers_memory(lab: Laboratory) -> Result:
    with two_devices(access=True) as pair:
        yield from reads_of(lab, pair.memory[1])


@experiment("peers: dependent loads from a peer's memory", devices=2)
def latency(lab: Laboratory) -> Result:
    kernel, out = lab.kernel_of("memory", "chase"), lab.buffer("out", MB).data.ptr
    with two_devices(access=True) as pair:
        for label, pointer in (("own memory", pair.memory[0]), ("a peer's", pair.memory[1])):
            args = pointer, out, I(2048), I(8224), I(16 * MB - 1)
            yield label, lab.queued(lambda args=args: kernel((1,), (1,), args))


@experiment("peers: events between two streams", devices=2)
def events(lab: Laboratory) -> Result:
    """Ten times there and back again, with a kernel of about 10 us each."""
    kernel, rounds = lab.kernel_of("launches", "busy"), I(4_500)

    def work(pair: Pair, places: tuple[int, int], queues: tuple[Any, Any], marks: tuple[Any, Any]) -> None:
        for _ in range(10):
            for mine in (0, 1):
                with on_device(places[mine]):
                    queues[mine].wait_event(marks[1 - mine])
                    with queues[mine]:
                        kernel((1,), (32,), (pair.memory[places[mine]], rounds))
                    marks[mine].record(queues[mine])
        for place in places:
            with on_device(place):
                cudart.cudaDeviceSynchronize()

    def mark(place: int) -> Any:
        with on_device(place):
            return cp.cuda.Event(disable_timing=True)

    with two_devices(access=False) as pair:
        further = cp.cuda.Stream(non_blocking=True)
        for label, places, second in (("one device", (0, 0), further), ("two devices", (0, 1), pair.streams[1])):
            marks = mark(places[0]), mark(places[1])
            yield label, lab.until_done(partial(work, pair, places, (pair.streams[0], second), marks))


@experiment("peers: a kernel on each device", devices=2)
def side_by_side(lab: Laboratory) -> Result:
    kernel, rounds = lab.kernel_of("launches", "busy"), I(50_000)

    def work(pair: Pair, devices: tuple[int, ...]) -> None:
        for number in devices:
            with on_device(number), pair.streams[number]:
                kernel((4,), (32,), (pair.memory[number], rounds))

    with two_devices(access=False) as pair:
        for label, devices in (("first", (0,)), ("second", (1,)), ("both", (0, 1)), ("first, twice", (0, 0))):
            yield label, until_both_done(lab, partial(work, pair, devices))


@experiment("peers: calls, host time", devices=2, half="calibration")
def calls(lab: Laboratory) -> Result:
    yield "select a device", lab.calls(lambda: cudart.cudaSetDevice(0))
    yield "may a peer be reached", lab.calls(lambda: cudart.cudaDeviceCanAccessPeer(0, 1))
    for access in (False, True):
        with two_devices(access=access) as pair:
            yield f"copy of 1 MB, {'with' if access else 'without'} access", lab.calls(partial(pair.send, MB))
