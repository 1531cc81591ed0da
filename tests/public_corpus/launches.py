"""Finds a launch for a kernel that nobody has described: arguments and a configuration under which it is sound.

What a parameter means is not known, so configurations and sizes are tried, the most usual ones first, each under the
sanitizer. The first without a finding is taken: no access outside, no race, nothing read that was not written. Where
none is found, the first that at least does not fault is run, and what the sanitizer says of it is kept; its result may
then depend on the order of threads, and says nothing.
"""

from __future__ import annotations

import itertools
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from cudalab.sim.compiler.program import Kernel, Parameter
from cudalab.sim.device import Device
from cudalab.sim.machine.launch.module import LoadedKernel
from cudalab.sim.machine.launch.validation import LaunchError
from cudalab.sim.machine.sanitizer.sanitize import check_launch
from tests.public_corpus.images import Image, assignments, is_handle, simulated

BUFFER = 1 << 18  # bytes behind every pointer
DYNAMIC = 16 << 10  # bytes of dynamic shared memory
TIME_LIMIT = 5.0  # seconds a launch may take under the sanitizer
MOST_TRIED = 40
MOST_SECONDS = 60.0  # for all attempts at one kernel
BLOCKS = ((256, 1), (16, 16), (32, 8), (64, 1), (32, 32), (128, 1), (8, 8), (32, 1), (512, 1), (1, 1))
SIZES = (1024, 64, 32, 256, 16, 4, 1)
_SIDE = re.compile(
    r"^(w|h|width|height|cols?|rows?|nx|ny|nz|dim|pitch|image[wh]|data[wh]|size_?[xyz]|m|k|d[xyz])$|width|height", re.I
)
_SMALL = re.compile(
    r"^(r|radius|level|dir|order|channel|comp|log|shift|iter|depth|stride|step|offset|start|seed)|radius|iter|offset|log2",
    re.I,
)


@dataclass(frozen=True)
class Launch:
    """One configuration; integer parameters by their place."""

    grid: tuple[int, int]
    block: tuple[int, int]
    shared: int
    size: int
    """Of which integer arguments are made."""
    findings: tuple[str, ...] = ()
    """What the sanitizer said."""
    images: tuple[Image, ...] = ()
    """What the handles of textures and surfaces show."""
    cooperative: bool = False


def buffers(kernel: Kernel, seed: int = 1) -> list[np.ndarray | None]:
    """Bytes for every pointer parameter, by what it points to; None for the others."""
    random = np.random.default_rng(seed)
    return [_content(p, random) if p.kind == "pointer" else None for p in kernel.parameters]


def _content(parameter: Parameter, random: np.random.Generator) -> np.ndarray:
    kind = parameter.pointee.replace("const", "").strip()
    if "half" in kind or "bfloat" in kind:
        return random.random(BUFFER // 2).astype(np.float16).view(np.uint8)
    if "double" in kind:
        return random.random(BUFFER // 8).view(np.uint8)
    if "float" in kind:
        return random.random(BUFFER // 4, dtype=np.float32).view(np.uint8)
    if "char" in kind:
        return random.integers(0, 64, BUFFER, dtype=np.uint8)
    if "long" in kind:
        return random.integers(0, 16, BUFFER // 8).view(np.uint8)
    if "short" in kind:
        return random.integers(0, 16, BUFFER // 2, dtype=np.int16).view(np.uint8)
    return random.integers(0, 16, BUFFER // 4, dtype=np.int32).view(np.uint8)


def pack(kernel: Kernel, pointers: list[int], size: int) -> bytes:
    """The argument bytes of a launch: addresses and handles, numbers made of `size`, zeros where nothing is known."""
    packed = bytearray(kernel.parameter_bytes)
    for p, pointer in zip(kernel.parameters, pointers, strict=True):
        packed[p.offset : p.offset + p.size] = argument(p, pointer, size)
    return bytes(packed)


def argument(p: Parameter, pointer: int, size: int) -> bytes:
    if pointer:
        return pointer.to_bytes(8, "little")
    if p.kind == "pointer" or is_handle(p):
        return bytes(p.size)
    if p.kind == "float":
        return np.array([0.5], {2: np.float16, 4: np.float32, 8: np.float64}[p.size]).tobytes()
    if p.kind in ("integer", "bool"):
        size = min(size, (1 << (8 * p.size - 1)) - 1)
        value = 1 if p.kind == "bool" or _SMALL.search(p.name) else min(size, 64) if _SIDE.search(p.name) else size
        return value.to_bytes(p.size, "little")
    return bytes(p.size)


def _configurations(kernel: Kernel, flat: bool) -> Iterator[Launch]:
    blocks = [b for b in BLOCKS if b[0] * b[1] <= kernel.max_threads and (b[1] == 1 or not flat)]
    if not flat:
        blocks.sort(key=lambda b: b[1] == 1)
    shared = DYNAMIC if kernel.uses_dynamic_shared else 0
    tried = sorted(itertools.product(range(len(SIZES)), range(len(blocks))), key=sum)
    for size, block in tried[:MOST_TRIED]:
        grid = (2, 1) if flat else (2, 2)
        yield Launch(grid, blocks[block], shared, SIZES[size])
    for size, block in tried[: MOST_TRIED // 2]:  # kernels that are meant for a grid of one block
        yield Launch((1, 1), blocks[block], shared, SIZES[size])


class Trial:
    """The memory of one attempt: buffers and images on a simulated device, freed at its end."""

    def __init__(self, device: Device, kernel: Kernel, images: tuple[Image, ...]) -> None:
        self.device, self.kernel = device, kernel
        contents, handles = buffers(kernel), iter(images)
        self.values: list[int] = []
        """What each parameter is given where it is an address or a handle, else 0."""
        for p, content in zip(kernel.parameters, contents, strict=True):
            if content is not None:
                self.values.append(device.memory.allocate(BUFFER, label=p.name))
                device.memory.array(self.values[-1], BUFFER, np.uint8)[:] = content
            else:
                self.values.append(simulated(device, next(handles)) if images and is_handle(p) else 0)

    def results(self) -> list[np.ndarray | None]:
        """The bytes behind every pointer."""
        pairs = zip(self.kernel.parameters, self.values, strict=True)
        memory = self.device.memory
        return [
            memory.array(v, BUFFER, np.uint8, write=False).copy() if p.kind == "pointer" else None for p, v in pairs
        ]

    def close(self) -> None:
        for p, value in zip(self.kernel.parameters, self.values, strict=True):
            if p.kind == "pointer":
                self.device.memory.free(value)


def find(loaded: LoadedKernel, device: Device, flat: bool, cooperative: bool) -> Launch | None:
    """The first sound configuration, else the first without a fault, else None. `flat`: the kernel knows x only."""
    kernel, fallback = loaded.kernel, None
    end = time.monotonic() + MOST_SECONDS
    for images in assignments(kernel):
        for launch in _configurations(kernel, flat):
            if time.monotonic() > end:
                return fallback
            trial = Trial(device, kernel, images)
            try:
                packed = pack(kernel, trial.values, launch.size)
                checked = check_launch(
                    loaded.launch(launch.grid, launch.block, packed, launch.shared, cooperative=cooperative),
                    time_limit=TIME_LIMIT,
                )
            except LaunchError:
                continue
            finally:
                trial.close()
            rules = tuple(sorted({f.rule for f in checked.findings}))
            launch = replace(launch, images=images, cooperative=cooperative)
            if not rules and not checked.notes:
                return launch
            if fallback is None and not any(f.tool == "memcheck" for f in checked.findings):
                fallback = replace(launch, findings=rules or tuple(checked.notes)[:1])
    return fallback
