"""What the L2 keeps: cases by name, for whatever can read and write memory and tell how long it took.

A case is one of ``set/case``, as ``docs/evidence/2026-11-23-l2.json`` and its two successors name them. ``bench.l2``
times them without running a kernel; ``bench.fidelity.windows`` runs them on either device.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np

from cudalab.sim.device.timing.l2_ranges import NORMAL, PERSISTING, STREAMING

MB = 1 << 20
SOURCE = r"""
extern "C" __global__ void empty() {}
extern "C" __global__ void sweep(const float4* x, float* out, int n) {
    float s = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        float4 v = x[i]; s += v.x + v.y + v.z + v.w;
    }
    if (s == 12345.678f) out[0] = s;
}
extern "C" __global__ void once(const float4* x, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) { float4 v = x[i]; float s = v.x + v.y + v.z + v.w; if (s == 12345.678f) out[0] = s; }
}
extern "C" __global__ void fill(float4* x, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        x[i] = make_float4(1, 2, 3, 4);
    }
}
extern "C" __global__ void scale(float4* x, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        float4 v = x[i]; v.x *= 2; v.y *= 2; v.z *= 2; v.w *= 2; x[i] = v;
    }
}
extern "C" __global__ void copy(const float4* x, float4* y, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) y[i] = x[i];
}
extern "C" __global__ void copy4(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i];
}
extern "C" __global__ void window(int* persistent, int* streaming, int streamed, int often) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    persistent[i % often] = 2 * persistent[i % often];
    streaming[i % streamed] = 2 * streaming[i % streamed];
}
extern "C" __global__ void reread(const float* often, float* stream, int n, int often_n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    stream[i] = stream[i] * 0.5f + often[i % often_n];
}"""
_WAVE = 132 * 8
"""Blocks of the grid-stride loops: eight for each SM of an H200."""
_UNIT = 3.75
"""MB of a 16th of the L2, in which the driver sets it aside."""
_PROPERTIES = {"normal": NORMAL, "streaming": STREAMING, "persisting without set-aside": PERSISTING}


class Memory(ABC):
    """A device's memory behind its L2. Places and sizes are in MB; addresses are those of ``big``, of 1024 MB, and of
    ``flushed``, of 256 MB."""

    big: int
    flushed: int
    unreset = False
    """Do the cases of windows with several hit ratios come behind that of ratio 1, with no reset in between? So those
    of 2026-11-23 were measured: on an H200 what has persisted goes on doing so where it streams."""

    @abstractmethod
    def fresh(self, set_aside: float = 0.0) -> None:
        """An L2 that holds nothing, and what is set aside of it."""

    @abstractmethod
    def policy(self, at: int = 0, size: int = 0, ratio: float = 0.0, hit: int = NORMAL, miss: int = STREAMING) -> None:
        """The access policy window of the kernels behind it; without a size none."""

    @abstractmethod
    def reset(self) -> None:
        """Persisting lines are normal ones from now on."""

    @abstractmethod
    def memset(self, at: int, size: int) -> None: ...

    @abstractmethod
    def flush(self) -> None:
        """Write ``flushed``, so that nothing else is in the L2."""

    @abstractmethod
    def copy(self, to: int, source: int, size: int) -> None: ...

    @abstractmethod
    def from_host(self, at: int, size: int) -> None: ...

    @abstractmethod
    def to_host(self, at: int, size: int) -> None: ...

    @abstractmethod
    def once(self, name: str, grid: int, *args: Any) -> float:
        """A launch of a kernel of ``SOURCE`` in blocks of 256: µs, less those of an empty kernel."""

    @abstractmethod
    def repeated(self, name: str, grid: int, *args: Any) -> float:
        """The same of one launch among many."""

    # -- work: each returns its time in µs, less that of an empty kernel -----------------------------------------------

    def read(self, at: int, size: int, how: str = "sweep") -> float:
        count = size * MB // 16
        grid = _WAVE if how == "sweep" else -(-count // 256)
        return self.once(how, grid, self.big + at * MB, self.flushed, np.int32(count))

    def write(self, at: int, size: int) -> float:
        return self.once("fill", _WAVE, self.big + at * MB, np.int32(size * MB // 16))

    def scale(self, size: int) -> float:
        return self.once("scale", _WAVE, self.big, np.int32(size * MB // 16))

    def copied(self, size: int, width: int) -> float:
        """By a kernel whose threads copy ``width`` bytes at once."""
        count = size * MB // width
        name, grid = ("copy", _WAVE) if width == 16 else ("copy4", count // 256)
        return self.once(name, grid, self.big, self.big + 512 * MB, np.int32(count))

    def often(self, kernel: str, streamed: int, often: int, *, first: int = 0, second: int = 256) -> float:
        """A kernel that goes over ``streamed`` MB once and round and round in ``often`` MB, when it is repeated."""
        return self.repeated(kernel, *self._often(streamed, often, first, second))

    def often_once(self, kernel: str, streamed: int, often: int) -> float:
        """One launch of it."""
        return self.once(kernel, *self._often(streamed, often, 0, 256))

    def _often(self, streamed: int, often: int, first: int, second: int) -> tuple[int, Any, Any, Any, Any]:
        count = streamed * MB // 4
        places = self.big + first * MB, self.big + second * MB
        return count // 256, *places, np.int32(count), np.int32(often * MB // 4)


# -- the experiments ---------------------------------------------------------------------------------------------------

Program = Callable[[Memory, re.Match[str], str], float]
_PROGRAMS: list[tuple[re.Pattern[str], Program]] = []


def experiments(name: str) -> Callable[[Program], Program]:
    """Register what runs the cases of all sets with such a name."""

    def register(program: Program) -> Program:
        _PROGRAMS.append((re.compile(name), program))
        return program

    return register


def size_and_ratio(case: str) -> tuple[int, float | None]:
    """MB and hit ratio of ``16 MB, ratio 0.5``."""
    found = re.match(r"(\d+) MB(?: each)?, ratio ([\d.]+|none|None)", case)
    assert found is not None, case
    return int(found[1]), None if found[2].lower() == "none" else float(found[2])


@experiments(r"(sweep|once) (again|cold)")
def _swept(lab: Memory, name: re.Match[str], case: str) -> float:
    lab.fresh()
    for _ in range(3):
        if name[2] == "cold":
            lab.flush()
        found = lab.read(0, int(case), name[1])
    return found


@experiments(r"again with ([\d.]+) MB set aside")
def _beside_a_set_aside(lab: Memory, name: re.Match[str], case: str) -> float:
    lab.fresh(float(name[1]))
    return [lab.read(0, int(case)) for _ in range(4)][-1]


@experiments(r"read (\d+) MB left by")
def _left_behind(lab: Memory, name: re.Match[str], case: str) -> float:
    size = int(name[1])
    lab.fresh()
    for _ in range(3):
        lab.flush()
        for part in case.split(", "):
            _left_by(lab, part, size)
        found = lab.read(0, size)
    return found


def _left_by(lab: Memory, kind: str, size: int) -> None:
    {
        "nothing": lambda: None,
        "read": lambda: lab.read(0, size),
        "once": lambda: lab.read(0, size, "once"),
        "write": lambda: lab.write(0, size),
        "memset": lambda: lab.memset(0, size),
        "d2d": lambda: lab.copy(0, 512, size),
        "d2d source": lambda: lab.copy(512, 0, size),
        "h2d": lambda: lab.from_host(0, size),
        "d2h": lambda: lab.to_host(0, size),
    }[kind]()


@experiments(r"read (\d+) MB behind (read|once|write|memset|d2d|h2d|d2h)$")
def _behind(lab: Memory, name: re.Match[str], case: str) -> float:
    between = int(case)
    lab.fresh()
    for _ in range(3):
        lab.read(0, int(name[1]))
        if between:
            {
                "read": lambda: lab.read(256, between),
                "once": lambda: lab.read(256, between, "once"),
                "write": lambda: lab.write(256, between),
                "memset": lambda: lab.memset(256, between),
                "d2d": lambda: lab.copy(256, 512, between),
                "h2d": lambda: lab.from_host(256, between),
                "d2h": lambda: lab.to_host(256, between),
            }[name[2]]()
        found = lab.read(0, int(name[1]))
    return found


@experiments(r"read 16 MB(, before| behind) (none|normal|streaming|persisting without set-aside)$")
def _properties(lab: Memory, name: re.Match[str], case: str) -> float:
    lab.fresh()
    first = name[1] == ", before"

    def with_property(at: int, size: int) -> None:
        if name[2] != "none":
            lab.policy(at, size, 1.0, _PROPERTIES[name[2]], STREAMING)
        lab.read(at, size)
        lab.policy()

    for _ in range(3):
        lab.flush()
        if first:
            with_property(0, 16)
            lab.read(256, int(case))
        else:
            lab.read(0, 16)
            with_property(256, int(case))
        found = lab.read(0, 16)
    return found


@experiments(r"survives 128 MB, ([\d.]+) MB set aside")
def _survives(lab: Memory, name: re.Match[str], case: str) -> float:
    size, ratio = size_and_ratio(case)
    lab.fresh(float(name[1]))
    for _ in range(3):
        lab.policy(0, size, ratio or 0.0, PERSISTING, STREAMING)
        lab.read(0, size)
        lab.policy()
        lab.read(256, 128)
        found = lab.read(0, size)
    return found


@experiments(r"kept on, ([\d.]+) MB set aside, (.+)")
def _kept_on(lab: Memory, name: re.Match[str], case: str) -> float:
    size = int(case)
    lab.fresh(float(name[1]))
    for _ in range(3):
        lab.policy(0, size, 1.0, PERSISTING, STREAMING)
        lab.read(0, size)
        lab.read(0, size)
        if name[2] in ("window off", "other stream"):
            lab.policy()
        if name[2] != "nothing read":
            lab.read(256, 128)
        if name[2] == "other stream":
            lab.policy(0, size, 1.0, PERSISTING, STREAMING)
        found = lab.read(0, size)
    return found


@experiments(r"two windows, ([\d.]+) MB set aside, (first|second)")
def _two_windows(lab: Memory, name: re.Match[str], case: str) -> float:
    size, ratio = size_and_ratio(case)
    lab.fresh(float(name[1]))
    for _ in range(3):
        for at in (0, 256):
            lab.policy(at, size, ratio or 0.0, PERSISTING, STREAMING)
            lab.read(at, size)
        lab.policy()
        lab.read(512, 128)
        found = lab.read(0 if name[2] == "first" else 256, size)
    return found


@experiments(r"persisting given back by")
def _given_back(lab: Memory, name: re.Match[str], case: str) -> float:
    lab.fresh(32)
    for _ in range(3):
        lab.policy(0, 16, 1.0, PERSISTING, STREAMING)
        lab.read(0, 16)
        lab.policy()
        if case == "reset":
            lab.reset()
        elif case in ("normal window", "streaming window"):
            lab.policy(0, 16, 1.0, _PROPERTIES[case.split()[0]], STREAMING)
            lab.read(0, 16)
            lab.policy()
        elif case != "nothing":
            _left_by(lab, case.removeprefix("plain "), 16)
        lab.read(256, 128)
        found = lab.read(0, 16)
    return found


@experiments(r"(sliding|rereads|one alone), ([\d.]+) MB set aside(, from a reset|, behind ratio 1)?")
def _round_and_round(lab: Memory, name: re.Match[str], case: str) -> float:
    often, ratio = size_and_ratio(case)
    lab.fresh(float(name[2]))
    miss = NORMAL if "miss Normal" in case else STREAMING
    kernel, streamed = "reread" if name[1] == "rereads" else "window", 128 if name[1] == "one alone" else 256
    if ratio is not None and _is_behind_one(lab, name):
        lab.policy(0, often, 1.0, PERSISTING, miss)
        lab.often_once(kernel, streamed, often)
    if ratio is not None:
        lab.policy(0, often, ratio, PERSISTING, miss)
    return lab.often(kernel, streamed, often)


def _is_behind_one(lab: Memory, name: re.Match[str]) -> bool:
    """Does the case come behind that of hit ratio 1?"""
    return name[3] == ", behind ratio 1" or (lab.unreset and name[3] is None and name[1] != "one alone")


@experiments(r"read (normal|streaming|persisting) twice, ([\d.]+) MB set aside, then")
def _twice(lab: Memory, name: re.Match[str], case: str) -> float:
    """How long lines of each property stay behind normal reads, or none."""
    size, between = (int(each) for each in re.findall(r"(\d+) MB", case))
    for _ in range(3):
        lab.fresh(float(name[2]))
        hit = {"normal": NORMAL, "streaming": STREAMING, "persisting": PERSISTING}[name[1]]
        lab.policy(0, size, 1.0, hit, NORMAL)
        lab.read(0, size)
        lab.read(0, size)
        lab.policy()
        if between:
            lab.read(256, between)
        found = lab.read(0, size)
    return found


@experiments(r"(\d+) units set aside, no window")
def _beside_units(lab: Memory, name: re.Match[str], case: str) -> float:
    lab.fresh(int(name[1]) * _UNIT)
    kind, size = case.split()[:2]
    work = {
        "fill": lambda: lab.write(0, int(size)),
        "scale": lambda: lab.scale(int(size)),
        "copy": lambda: lab.copied(int(size), 4 if "thread" in case else 16),
        "read": lambda: lab.read(0, int(size)),
    }[kind]
    return [work() for _ in range(4)][-1]


@experiments(r"(\d+) units set aside, window")
def _window_beside_units(lab: Memory, name: re.Match[str], case: str) -> float:
    lab.fresh(int(name[1]) * _UNIT)
    kind = {"persisting": PERSISTING, "streaming": STREAMING, "normal": NORMAL}[case.split(", ")[1]]
    lab.policy(0, 16, 1.0, kind, STREAMING)
    return lab.often("window", 256, 16)


def run(lab: Memory, name: str, case: str) -> float | None:
    """µs less an empty kernel's of one case of a set; None where no program runs such a set."""
    for pattern, program in _PROGRAMS:
        if found := pattern.match(name):
            return program(lab, found, case)
    return None
