"""What a planted bug is.

The source holds the mistake and its mending side by side, ``{{wrong|right}}``, and marks the lines that a report may
name with ``// HERE``. So the two programs differ in nothing else.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np

_CHOICE = re.compile(r"\{\{(.*?)\|\|(.*?)\}\}", re.DOTALL)
HERE = "// HERE"


@dataclass(frozen=True)
class Array:
    """An argument in device memory. `fill`: ``random``, ``zero``, ``index``, ``none`` (never written) or ``freed``."""

    dtype: str
    count: int
    fill: str = "random"
    most: int = 16
    """Random integers are below it."""

    def values(self, random: np.random.Generator) -> np.ndarray:
        """What it holds at the start (zeros where nothing is written)."""
        dtype = np.dtype(self.dtype)
        if self.fill == "index":
            return np.arange(self.count, dtype=dtype)
        if self.fill != "random":
            return np.zeros(self.count, dtype)
        whole = dtype.kind == "i"
        return (random.integers(0, self.most, self.count) if whole else random.random(self.count)).astype(dtype)

    def on_device(self, cp: Any, random: np.random.Generator) -> Any:
        """The array in memory of CuPy ``cp``; a pointer where it was freed."""
        values = self.values(random)
        if self.fill == "none":
            return cp.empty(self.count, self.dtype)
        if self.fill == "freed":
            pointer = cp.cuda.runtime.malloc(values.nbytes)
            cp.cuda.runtime.free(pointer)
            return np.uint64(pointer)
        return cp.asarray(values)


def _number(given: float) -> Any:
    """As the kernel takes it; 0 is a null pointer."""
    return np.float32(given) if isinstance(given, float) else np.int32(given) if given else np.uint64(0)


@dataclass(frozen=True)
class Planted:
    name: str
    tool: str
    """Which check has to find it: ``memcheck``, ``racecheck``, ``initcheck`` or ``synccheck``."""
    rules: tuple[str, ...]
    """The rules of which at least one has to be reported, on a line marked ``// HERE``."""
    source: str
    grid: tuple[int, ...]
    block: tuple[int, ...]
    args: tuple[Array | int | float, ...]
    shared: int = 0
    cooperative: bool = False

    def arguments(self, cp: Any) -> tuple[Any, ...]:
        """The launch's arguments, anew."""
        random = np.random.default_rng(sum(map(ord, self.name)))
        return tuple(given.on_device(cp, random) if isinstance(given, Array) else _number(given) for given in self.args)

    @property
    def wrong(self) -> str:
        """The program with the mistake."""
        return _CHOICE.sub(lambda found: found.group(1), self.source)

    @property
    def right(self) -> str:
        """The program without it."""
        return _CHOICE.sub(lambda found: found.group(2), self.source)

    @property
    def lines(self) -> frozenset[int]:
        """Lines of the wrong program that a report may name."""
        return frozenset(n for n, line in enumerate(self.wrong.splitlines(), start=1) if HERE in line)


def f32(count: int, fill: str = "random") -> Array:
    return Array("float32", count, fill)


def i32(count: int, fill: str = "random", most: int = 16) -> Array:
    return Array("int32", count, fill, most)


def kernel(parameters: str, body: str, before: str = "") -> str:
    """The source of a kernel ``k``; ``before`` stands in front of it."""
    return f'{before}extern "C" __global__ void k({parameters}) {{\n{body}\n}}\n'
