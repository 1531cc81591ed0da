"""Experiments with copies and memsets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from bench.fidelity.experiment import experiment
from bench.fidelity.laboratory import MB, Laboratory
from cudalab import cp, cudart

Result = Iterator[tuple[str, float]]
H2D, D2H, D2D = (
    cudart.cudaMemcpyKind.cudaMemcpyHostToDevice,
    cudart.cudaMemcpyKind.cudaMemcpyDeviceToHost,
    cudart.cudaMemcpyKind.cudaMemcpyDeviceToDevice,
)
SIZES = {"4 KB": 4 << 10, "64 KB": 64 << 10, "1 MB": MB, "16 MB": 16 * MB, "64 MB": 64 * MB}


class HostMemory:
    """Host memory of one kind for one experiment: ``pinned``, ``write-combined`` or ``pageable``."""

    def __init__(self, size: int, kind: str = "pinned") -> None:
        self.pinned = kind != "pageable"
        if self.pinned:
            flags = cudart.cudaHostAllocWriteCombined if kind == "write-combined" else cudart.cudaHostAllocDefault
            code, pointer = cudart.cudaHostAlloc(size, flags)
            assert int(code) == 0, code
            self.pointer = int(pointer)
        else:
            self.array = np.ones(size, np.uint8)
            self.pointer = self.array.ctypes.data

    def __enter__(self) -> int:
        return self.pointer

    def __exit__(self, *_: Any) -> None:
        cudart.cudaDeviceSynchronize()
        if self.pinned:
            cudart.cudaFreeHost(self.pointer)


def copy(destination: int, source: int, size: int, kind: Any, stream: int = 0) -> None:
    (code,) = cudart.cudaMemcpyAsync(destination, source, size, kind, stream)
    assert int(code) == 0, code


def by_size(lab: Laboratory, kind: Any) -> Result:
    device = lab.buffer("device", 64 * MB).data.ptr
    with HostMemory(64 * MB) as host:
        for label, size in SIZES.items():
            ends = (device, host) if kind == H2D else (host, device)
            yield label, lab.events(lambda ends=ends, size=size: copy(*ends, size, kind))


@experiment("copies to the device, pinned, by size")
def pinned_in(lab: Laboratory) -> Result:
    yield from by_size(lab, H2D)


@experiment("copies to the host, pinned, by size")
def pinned_out(lab: Laboratory) -> Result:
    yield from by_size(lab, D2H)


def pageable_by_size(lab: Laboratory, kind: Any) -> Result:
    device = lab.buffer("device", 64 * MB).data.ptr
    with HostMemory(64 * MB, "pageable") as host:
        for label, size in SIZES.items():
            ends = (device, host) if kind == H2D else (host, device)
            yield label, lab.until_done(lambda ends=ends, size=size: copy(*ends, size, kind))


@experiment("copies to the device, pageable, by size")
def pageable_in(lab: Laboratory) -> Result:
    yield from pageable_by_size(lab, H2D)


@experiment("copies to the host, pageable, by size")
def pageable_out(lab: Laboratory) -> Result:
    yield from pageable_by_size(lab, D2H)


@experiment("copies to the device by kind of host memory")
def kinds(lab: Laboratory) -> Result:
    device = lab.buffer("device", 64 * MB).data.ptr
    for kind in ("pinned", "write-combined", "pageable"):
        with HostMemory(8 * MB, kind) as host:
            yield kind, lab.until_done(lambda host=host: copy(device, host, 8 * MB, H2D))


@experiment("copies within the device by size")
def within(lab: Laboratory) -> Result:
    a, b = (lab.buffer(name, 256 * MB).data.ptr for name in "ab")
    for label, size in {**SIZES, "256 MB": 256 * MB}.items():
        yield label, lab.events(lambda size=size: copy(b, a, size, D2D))


@experiment("two-dimensional copies to the device")
def two_dimensional(lab: Laboratory) -> Result:
    """4 MB as one piece, and as rows of several widths that lie 4 KB apart on the device."""
    device = lab.buffer("device", 64 * MB).data.ptr
    with HostMemory(4 * MB) as host:
        yield "one piece", lab.events(lambda: copy(device, host, 4 * MB, H2D))
        for width in (4096, 1024, 256):
            rows = 4 * MB // 4096
            yield (
                f"1024 rows of {width} bytes",
                lab.events(
                    lambda width=width, rows=rows: cudart.cudaMemcpy2DAsync(
                        device, 4096, host, width, width, rows, H2D, 0
                    )
                ),
            )


@experiment("memsets by size")
def memsets(lab: Laboratory) -> Result:
    a = lab.buffer("a", 256 * MB).data.ptr
    for label, size in {**SIZES, "256 MB": 256 * MB}.items():
        yield label, lab.events(lambda size=size: cudart.cudaMemsetAsync(a, 0, size, 0))


@experiment("copies in both directions")
def both_directions(lab: Laboratory) -> Result:
    size = 16 * MB
    a, b = (lab.buffer(name, 64 * MB).data.ptr for name in "ab")
    one, two = (cp.cuda.Stream(non_blocking=True) for _ in range(2))
    with HostMemory(size) as p, HostMemory(size) as q:
        yield "in", lab.until_done(lambda: copy(a, p, size, H2D, one.ptr))
        yield "out", lab.until_done(lambda: copy(q, b, size, D2H, one.ptr))

        def together(first: int, second: int) -> None:
            copy(a, p, size, H2D, first)
            copy(q, b, size, D2H, second)

        yield "in and out, one stream", lab.until_done(lambda: together(one.ptr, one.ptr))
        yield "in and out, two streams", lab.until_done(lambda: together(one.ptr, two.ptr))

        def both_in() -> None:
            copy(a, p, size, H2D, one.ptr)
            copy(b, q, size, H2D, two.ptr)

        yield "twice in, two streams", lab.until_done(both_in)


@experiment("one copy or many")
def pieces(lab: Laboratory) -> Result:
    """4 MB in one call or in several."""
    device = lab.buffer("device", 64 * MB).data.ptr
    with HostMemory(4 * MB) as host:
        for count in (1, 8, 64, 512):
            each = 4 * MB // count

            def work(count: int = count, each: int = each) -> None:
                for i in range(count):
                    copy(device + i * each, host + i * each, each, H2D)

            yield f"{count} copies", lab.until_done(work)


@experiment("calls of copies: host time")
def copy_calls(lab: Laboratory) -> Result:
    device = lab.buffer("device", 64 * MB).data.ptr
    with HostMemory(MB) as pinned, HostMemory(MB, "pageable") as pageable:
        yield "pinned 4 B, asynchronous", lab.calls(lambda: copy(device, pinned, 4, H2D))
        yield "pinned 1 MB, asynchronous", lab.calls(lambda: copy(device, pinned, MB, H2D))
        yield "pinned 1 MB, blocking", lab.calls(lambda: cudart.cudaMemcpy(device, pinned, MB, H2D))
        yield "pageable 4 KB, asynchronous", lab.calls(lambda: copy(device, pageable, 4096, H2D))
        yield "pageable 1 MB, asynchronous", lab.calls(lambda: copy(device, pageable, MB, H2D))
        yield "within the device, 4 KB", lab.calls(lambda: cudart.cudaMemcpy(device, device + MB, 4096, D2D))


@experiment("short copies to the device behind a kernel", half="calibration")
def short_copies(lab: Laboratory) -> Result:
    """Up to 1 KB the front end brings along with its commands; more takes a copy engine."""
    device = lab.buffer("device", 64 * MB).data.ptr
    with HostMemory(MB) as host:
        for size in (4, 256, 1024, 1028, 2048, 4096, 16384):
            yield f"{size} bytes", lab.queued(lambda size=size: copy(device, host, size, H2D))
