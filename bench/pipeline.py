"""One pipeline that grows as the course does: what each chapter's step gains.

    python -m bench.pipeline [--out FILE]

A camera sends frames of 1024 × 1024 pixels of 16 bits. Each is calibrated (every pixel has a gain of its own, from a
table), smoothed over 9 × 9 pixels, and brought back in 8 bits. Runs on the device that cudalab chose; a round is 12
frames, and the figures are medians of 20 rounds on a GPU, and of the one that the simulated device needs. Every step's
pictures are compared with NumPy's, all pixels. ``docs/dev/pipeline.md`` says what came out, and why.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np

import cudalab
from cudalab import cp, cudart

SIDE, REACH, FRAMES, SLOTS = 1024, 4, 12, 3
ROUNDS = 20
SOURCE = r"""
const int SIDE = 1024, REACH = 4, WIDE = 2 * REACH + 1, TILE = 32, EDGE = TILE + 2 * REACH;

__device__ float calibrated(const unsigned short* raw, const float* gain, int row, int column) {
    int pixel = min(max(row, 0), SIDE - 1) * SIDE + min(max(column, 0), SIDE - 1);
    return raw[pixel] * gain[pixel];
}
__device__ unsigned char shown(float sum) { return (unsigned char)min(255.0f, sum / (WIDE * WIDE) / 16); }

extern "C" __global__ void plain(const unsigned short* raw, const float* gain, unsigned char* out) {
    int row = blockIdx.y * blockDim.y + threadIdx.y, column = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0;
    for (int y = -REACH; y <= REACH; y++)
        for (int x = -REACH; x <= REACH; x++) sum += calibrated(raw, gain, row + y, column + x);
    out[row * SIDE + column] = shown(sum);
}

// Each pixel is calibrated once a block; sums along rows are shared by the columns that need them.
extern "C" __global__ void tiled(const unsigned short* raw, const float* gain, unsigned char* out) {
    __shared__ float tile[EDGE][EDGE], sums[EDGE][TILE];
    int top = blockIdx.y * TILE, left = blockIdx.x * TILE;
    for (int y = threadIdx.y; y < EDGE; y += blockDim.y)
        for (int x = threadIdx.x; x < EDGE; x += blockDim.x)
            tile[y][x] = calibrated(raw, gain, top + y - REACH, left + x - REACH);
    __syncthreads();
    for (int y = threadIdx.y; y < EDGE; y += blockDim.y) {
        float sum = 0;
        for (int x = 0; x < WIDE; x++) sum += tile[y][threadIdx.x + x];
        sums[y][threadIdx.x] = sum;
    }
    __syncthreads();
    for (int y = threadIdx.y; y < TILE; y += blockDim.y) {
        float sum = 0;
        for (int k = 0; k < WIDE; k++) sum += sums[y + k][threadIdx.x];
        out[(top + y) * SIDE + left + threadIdx.x] = shown(sum);
    }
}
"""
BLOCK = (32, 8)
GRIDS = {"plain": (SIDE // 32, SIDE // 8), "tiled": (SIDE // 32, SIDE // 32)}
_TO_DEVICE = cudart.cudaMemcpyKind.cudaMemcpyHostToDevice
_TO_HOST = cudart.cudaMemcpyKind.cudaMemcpyDeviceToHost


def ok(result: tuple[Any, ...]) -> Any:
    """The value of a runtime call; raises when it failed."""
    error, *values = result
    if error != cudart.cudaError_t.cudaSuccess:
        raise RuntimeError(error.name)
    return values[0] if len(values) == 1 else values


def pinned(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """An array in page-locked memory."""
    count = int(np.prod(shape))
    memory = cp.cuda.alloc_pinned_memory(count * np.dtype(dtype).itemsize)
    return np.frombuffer(memory, dtype, count).reshape(shape)


class Camera:
    """Frames, the table of gains, what NumPy makes of them, and room on the device for some at a time."""

    def __init__(self) -> None:
        random = np.random.default_rng(1)
        self.frames = random.integers(0, 4096, (FRAMES, SIDE, SIDE), dtype=np.uint16)
        gains = random.choice(np.array([0.5, 1.0, 2.0], np.float32), (SIDE, SIDE))  # sums are exact
        self.expected = np.stack([self._by_numpy(frame * gains) for frame in self.frames])
        self.pinned, self.pictures = pinned(self.frames.shape, np.uint16), pinned(self.frames.shape, np.uint8)
        self.pinned[:] = self.frames
        self.urgent_picture = pinned((SIDE, SIDE), np.uint8)
        self.gains = cp.asarray(gains)
        self.raw = [cp.empty((SIDE, SIDE), cp.uint16) for _ in range(SLOTS + 1)]  # one more, for urgent frames
        self.out = [cp.empty((SIDE, SIDE), cp.uint8) for _ in range(SLOTS + 1)]
        self.kernels = {name: cp.RawKernel(SOURCE, name) for name in ("plain", "tiled")}

    @staticmethod
    def _by_numpy(frame: np.ndarray) -> np.ndarray:
        padded = np.pad(frame, REACH, mode="edge")
        rows = sum(padded[:, k : k + SIDE] for k in range(2 * REACH + 1))
        sums = sum(rows[k : k + SIDE] for k in range(2 * REACH + 1))
        return np.minimum(255, sums / np.float32((2 * REACH + 1) ** 2) / np.float32(16)).astype(np.uint8)

    def enqueue(self, frame: int, slot: int, stream: Any, kernel: str = "tiled") -> None:
        """Copy, filter and copy back, in a stream, without waiting."""
        raw, out, source = self.raw[slot], self.out[slot], self.pinned[frame]
        target = self.pictures[frame] if slot < SLOTS else self.urgent_picture
        ok(cudart.cudaMemcpyAsync(raw.data.ptr, source.ctypes.data, source.nbytes, _TO_DEVICE, stream.ptr))
        with stream:
            self.kernels[kernel](GRIDS[kernel], BLOCK, (raw, self.gains, out))
        ok(cudart.cudaMemcpyAsync(target.ctypes.data, out.data.ptr, target.nbytes, _TO_HOST, stream.ptr))


def stream(priority: int = 0) -> Any:
    return cp.cuda.Stream(non_blocking=True, priority=priority)


class Pipeline:
    """The steps, each a round of all frames."""

    def __init__(self, camera: Camera) -> None:
        self.camera, self.one = camera, stream()
        self.several = [stream() for _ in range(SLOTS)]
        self.graph: Any = None

    def load(self) -> None:
        """Chapter 04: arrays from and to pageable memory."""
        camera = self.camera
        for frame in range(FRAMES):
            raw = cp.asarray(camera.frames[frame])
            camera.kernels["plain"](GRIDS["plain"], BLOCK, (raw, camera.gains, camera.out[0]))
            camera.pictures[frame] = cp.asnumpy(camera.out[0])

    def pin(self) -> None:
        """Chapter 08: page-locked memory, still frame by frame."""
        self._one_by_one("plain")

    def tile(self) -> None:
        """Chapter 06: calibrated once and summed up in shared memory."""
        self._one_by_one("tiled")

    def _one_by_one(self, kernel: str) -> None:
        for frame in range(FRAMES):
            self.camera.enqueue(frame, 0, self.one, kernel)
            self.one.synchronize()

    def enqueue_all(self) -> None:
        for frame in range(FRAMES):
            self.camera.enqueue(frame, frame % SLOTS, self.several[frame % SLOTS])

    def overlap(self) -> None:
        """Chapter 11: three streams, so that copies both ways and the kernel overlap."""
        self.enqueue_all()
        for each in self.several:
            each.synchronize()

    def capture(self) -> None:
        """Make the graph of a round: the first stream forks into the others, and they join it."""
        first, *others = self.several
        first.begin_capture()
        begun = first.record()
        for other in others:
            other.wait_event(begun)
        self.enqueue_all()
        for other in others:
            first.wait_event(other.record())
        self.graph = first.end_capture()

    def replay(self) -> None:
        """Chapter 15: the same round as one graph."""
        self.graph.launch(self.several[0])
        self.several[0].synchronize()

    def keep(self) -> AbstractContextManager[None]:
        """Chapter 05: the table of gains in the L2."""
        return _Window(self.several, self.camera.gains)

    def urgent(self, priority: int) -> Callable[[], float]:
        """Chapter 12: host microseconds from the call of an urgent frame, with a round enqueued, to its picture."""
        camera, fast = self.camera, stream(priority)

        def once() -> float:
            self.enqueue_all()
            begun = cudalab.clock()
            camera.enqueue(0, SLOTS, fast)
            fast.synchronize()
            waited = cudalab.clock() - begun
            for each in self.several:
                each.synchronize()
            return waited

        return once


class _Window(AbstractContextManager[None]):
    """An access policy window on an array, for some streams."""

    def __init__(self, streams: list[Any], array: Any) -> None:
        self._streams, self._array = streams, array
        self._limit = cudart.cudaLimit.cudaLimitPersistingL2CacheSize

    def _set(self, size: int) -> None:
        value = cudart.cudaStreamAttrValue()
        window = value.accessPolicyWindow
        window.base_ptr, window.num_bytes, window.hitRatio = self._array.data.ptr, size, 1.0
        window.hitProp = cudart.cudaAccessProperty.cudaAccessPropertyPersisting
        window.missProp = cudart.cudaAccessProperty.cudaAccessPropertyStreaming
        value.accessPolicyWindow = window
        name = cudart.cudaStreamAttrID.cudaLaunchAttributeAccessPolicyWindow
        for each in self._streams:
            ok(cudart.cudaStreamSetAttribute(each.ptr, name, value))

    def __enter__(self) -> None:
        ok(cudart.cudaDeviceSetLimit(self._limit, 2 * self._array.nbytes))
        self._set(self._array.nbytes)

    def __exit__(self, *_: object) -> None:
        self._set(0)
        ok(cudart.cudaCtxResetPersistingL2Cache())


def measured(rounds: int) -> dict[str, dict[str, float]]:
    """Median and spread of each step, in microseconds a frame; of the urgent frame, for itself."""
    camera = Camera()
    pipeline = Pipeline(camera)
    found: dict[str, dict[str, float]] = {}

    def timed(name: str, work: Callable[[], None], frames: int = FRAMES) -> None:
        def once() -> float:
            begun = cudalab.clock()
            work()
            return cudalab.clock() - begun

        camera.pictures[:] = 0
        noted(name, once, frames)
        wrong = int((camera.pictures != camera.expected).sum())
        if wrong:
            raise RuntimeError(f"{name}: {wrong} pixels are wrong")

    def noted(name: str, once: Callable[[], float], frames: int = 1) -> None:
        once()
        times = sorted(once() / frames for _ in range(rounds))
        found[name] = {"median": statistics.median(times), "least": times[0], "most": times[-1]}
        print(f"{name:34} {found[name]['median']:8.1f} µs", flush=True)

    for work in (pipeline.load, pipeline.pin, pipeline.tile, pipeline.overlap):
        timed(work.__name__, work)
    noted("overlap: the host's part, a round", lambda: _host_part(pipeline.enqueue_all))
    pipeline.capture()
    timed("replay", pipeline.replay)
    noted("replay: the host's part, a round", lambda: _host_part(lambda: pipeline.graph.launch(pipeline.several[0])))
    with pipeline.keep():
        timed("overlap with the table kept", pipeline.overlap)
    noted("urgent frame, same priority", pipeline.urgent(0))
    noted("urgent frame, highest priority", pipeline.urgent(-5))
    return found


def _host_part(enqueue: Callable[[], None]) -> float:
    begun = cudalab.clock()
    enqueue()
    took = cudalab.clock() - begun
    cp.cuda.Device().synchronize()
    return took


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--out", type=Path, help="write the figures to a JSON file")
    chosen = parser.parse_args(arguments)
    label = cudalab.device().label
    print(f"{label}; a round is {FRAMES} frames; microseconds a frame where nothing else is said")
    found = measured(1 if label == "modelled" else ROUNDS)
    if chosen.out:
        chosen.out.write_text(json.dumps({"device": str(cudalab.device()), "steps": found}, indent=1))


if __name__ == "__main__":
    main()
