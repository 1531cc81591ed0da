"""What the L2 keeps, as modelled, beside what an H200 measured.

    python -m bench.l2 [--half calibration|validation] [--figures]

The experiments are those of ``docs/evidence/2026-11-23-l2.json``, ``…-l2-second.json`` and ``…-l2-third.json``: reads
after other work, kernels with access policy windows, stores beside a set-aside; their names are ``set/case``. Constants
are fitted to the calibration half of the names alone (``bench.fidelity.experiment.side``: the lowest bit of the SHA-256
of the name); the other half only judges.
Times are µs less an empty kernel's. No kernel runs: each launch is timed by its sample and by what is in the L2.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import struct
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from bench.fidelity.experiment import side
from cudalab.sim.compiler import compile
from cudalab.sim.device import Device
from cudalab.sim.device.queue.kernel_launch import rehearsal
from cudalab.sim.device.timing.l2_cache import L2Cache
from cudalab.sim.device.timing.l2_ranges import NORMAL, PERSISTING, STREAMING, Window
from cudalab.sim.device.timing.launch_time import Timer
from cudalab.sim.machine.launch.module import Launch

MB = 1 << 20
EVIDENCE = Path(__file__).parents[1] / "docs" / "evidence"
FILES = ("2026-11-23-l2.json", "2026-11-23-l2-second.json", "2026-11-23-l2-third.json")
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


class Laboratory:
    """A device whose launches are timed without being run, and its L2. Places and sizes are in MB."""

    def __init__(self) -> None:
        self.device = device = Device()
        module = device.load_module(compile(SOURCE))
        names = re.findall(r"__global__ void (\w+)", SOURCE)
        self._functions = {name: device.get_function(module, name) for name in names}
        self._big, self._flushed = device.malloc(1024 * MB), device.malloc(256 * MB)
        self._launches: dict[tuple[str, int, bytes], Launch] = {}
        self.window: Window | None = None
        self.empty = self._ns("empty", 1, b"")

    @property
    def _timer(self) -> Timer:
        return self.device.state.timer

    @property
    def _l2(self) -> L2Cache:
        return self._timer.l2_of(0)

    def fresh(self, set_aside: float = 0.0) -> None:
        """An L2 that holds nothing, and what is set aside of it."""
        self._timer.l2_of = cache(lambda _: L2Cache(self.device.state.profile))
        self._l2.set_aside = self._l2.rounded(int(set_aside * MB))
        self.window = None

    def policy(self, at: int = 0, size: int = 0, ratio: float = 0.0, hit: int = NORMAL, miss: int = STREAMING) -> None:
        self.window = Window(self._big + at * MB, size * MB, ratio, hit, miss) if size else None

    def reset(self) -> None:
        self._l2.reset_persisting()

    # -- work: each returns its time in µs, less that of an empty kernel -----------------------------------------------

    def read(self, at: int, size: int, how: str = "sweep") -> float:
        count = size * MB // 16
        grid = _WAVE if how == "sweep" else -(-count // 256)
        return self._us(how, grid, struct.pack("QQi", self._big + at * MB, self._flushed, count))

    def write(self, at: int, size: int) -> float:
        return self._us("fill", _WAVE, struct.pack("Qi", self._big + at * MB, size * MB // 16))

    def scale(self, size: int) -> float:
        return self._us("scale", _WAVE, struct.pack("Qi", self._big, size * MB // 16))

    def copied(self, size: int, width: int) -> float:
        """By a kernel whose threads copy ``width`` bytes at once."""
        count = size * MB // width
        args = struct.pack("QQi", self._big, self._big + 512 * MB, count)
        return self._us("copy" if width == 16 else "copy4", _WAVE if width == 16 else count // 256, args)

    def memset(self, at: int, size: int) -> None:
        self._l2.sweep((), ((self._big + at * MB, size * MB),))

    def flush(self) -> None:
        self._l2.sweep((), ((self._flushed, 256 * MB),))

    def copy(self, to: int, source: int, size: int) -> None:
        self._l2.sweep(((self._big + source * MB, size * MB),), ((self._big + to * MB, size * MB),))

    def from_host(self, at: int, size: int) -> None:
        self._l2.drop(((self._big + at * MB, size * MB),))

    def often(self, kernel: str, streamed: int, often: int, *, first: int = 0, second: int = 256) -> float:
        """A kernel that goes over ``streamed`` MB once and round and round in ``often`` MB, when it is repeated."""
        count = streamed * MB // 4
        args = struct.pack("QQii", self._big + first * MB, self._big + second * MB, count, often * MB // 4)
        launch = self._launch(kernel, count // 256, args)
        return (self._timer.time_repeated(launch, None, self.window).ns - self.empty) / 1000

    def _us(self, name: str, grid: int, args: bytes) -> float:
        return (self._ns(name, grid, args) - self.empty) / 1000

    def _ns(self, name: str, grid: int, args: bytes) -> int:
        return self._timer.time(self._launch(name, grid, args), None, self.window).ns

    def _launch(self, name: str, grid: int, args: bytes) -> Launch:
        key = (name, grid, args)
        if key not in self._launches:
            threads = 256 if args else 1
            kernel = self.device.loaded_kernel(self._functions[name])
            self._launches[key] = launch = kernel.launch((grid, 1, 1), (threads, 1, 1), args)
            if self._timer.wants_work(launch):
                self._timer.time(launch, rehearsal(launch, 60.0))
        return self._launches[key]


# -- the experiments ---------------------------------------------------------------------------------------------------

Program = Callable[[Laboratory, re.Match[str], str], float]
_PROGRAMS: list[tuple[re.Pattern[str], Program]] = []


def experiments(name: str) -> Callable[[Program], Program]:
    """Register what runs the cases of all sets with such a name."""

    def register(program: Program) -> Program:
        _PROGRAMS.append((re.compile(name), program))
        return program

    return register


def _case(case: str) -> tuple[int, float | None]:
    """MB and hit ratio of ``16 MB, ratio 0.5``."""
    found = re.match(r"(\d+) MB(?: each)?, ratio ([\d.]+|none|None)", case)
    assert found is not None, case
    return int(found[1]), None if found[2].lower() == "none" else float(found[2])


@experiments(r"(sweep|once) (again|cold)")
def _swept(lab: Laboratory, name: re.Match[str], case: str) -> float:
    lab.fresh()
    for _ in range(3):
        if name[2] == "cold":
            lab.flush()
        found = lab.read(0, int(case), name[1])
    return found


@experiments(r"again with ([\d.]+) MB set aside")
def _beside_a_set_aside(lab: Laboratory, name: re.Match[str], case: str) -> float:
    lab.fresh(float(name[1]))
    return [lab.read(0, int(case)) for _ in range(4)][-1]


@experiments(r"read (\d+) MB left by")
def _left_behind(lab: Laboratory, name: re.Match[str], case: str) -> float:
    size = int(name[1])
    lab.fresh()
    for _ in range(3):
        lab.flush()
        for part in case.split(", "):
            _left_by(lab, part, size)
        found = lab.read(0, size)
    return found


def _left_by(lab: Laboratory, kind: str, size: int) -> None:
    {
        "nothing": lambda: None,
        "read": lambda: lab.read(0, size),
        "once": lambda: lab.read(0, size, "once"),
        "write": lambda: lab.write(0, size),
        "memset": lambda: lab.memset(0, size),
        "d2d": lambda: lab.copy(0, 512, size),
        "d2d source": lambda: lab.copy(512, 0, size),
        "h2d": lambda: lab.from_host(0, size),
        "d2h": lambda: None,
    }[kind]()


@experiments(r"read (\d+) MB behind (read|once|write|memset|d2d|h2d|d2h)$")
def _behind(lab: Laboratory, name: re.Match[str], case: str) -> float:
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
                "d2h": lambda: None,
            }[name[2]]()
        found = lab.read(0, int(name[1]))
    return found


@experiments(r"read 16 MB(, before| behind) (none|normal|streaming|persisting without set-aside)$")
def _properties(lab: Laboratory, name: re.Match[str], case: str) -> float:
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
def _survives(lab: Laboratory, name: re.Match[str], case: str) -> float:
    size, ratio = _case(case)
    lab.fresh(float(name[1]))
    for _ in range(3):
        lab.policy(0, size, ratio or 0.0, PERSISTING, STREAMING)
        lab.read(0, size)
        lab.policy()
        lab.read(256, 128)
        found = lab.read(0, size)
    return found


@experiments(r"kept on, ([\d.]+) MB set aside, (.+)")
def _kept_on(lab: Laboratory, name: re.Match[str], case: str) -> float:
    size = int(case)
    lab.fresh(float(name[1]))
    for _ in range(3):
        lab.policy(0, size, 1.0, PERSISTING, STREAMING)
        lab.read(0, size)
        lab.read(0, size)
        own = lab.window
        if name[2] in ("window off", "other stream"):
            lab.policy()
        if name[2] != "nothing read":
            lab.read(256, 128)
        if name[2] == "other stream":
            lab.window = own
        found = lab.read(0, size)
    return found


@experiments(r"two windows, ([\d.]+) MB set aside, (first|second)")
def _two_windows(lab: Laboratory, name: re.Match[str], case: str) -> float:
    size, ratio = _case(case)
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
def _given_back(lab: Laboratory, name: re.Match[str], case: str) -> float:
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


@experiments(r"(sliding|rereads|one alone), ([\d.]+) MB set aside")
def _round_and_round(lab: Laboratory, name: re.Match[str], case: str) -> float:
    often, ratio = _case(case)
    lab.fresh(float(name[2]))
    miss = NORMAL if "miss Normal" in case else STREAMING
    if ratio is not None:
        lab.policy(0, often, ratio, PERSISTING, miss)
    kernel = "reread" if name[1] == "rereads" else "window"
    return lab.often(kernel, 128 if name[1] == "one alone" else 256, often)


@experiments(r"(\d+) units set aside, no window")
def _beside_units(lab: Laboratory, name: re.Match[str], case: str) -> float:
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
def _window_beside_units(lab: Laboratory, name: re.Match[str], case: str) -> float:
    lab.fresh(int(name[1]) * _UNIT)
    kind = {"persisting": PERSISTING, "streaming": STREAMING, "normal": NORMAL}[case.split(", ")[1]]
    lab.policy(0, 16, 1.0, kind, STREAMING)
    return lab.often("window", 256, 16)


class Result(NamedTuple):
    """Of one case, in µs less an empty kernel's."""

    set: str
    case: str
    measured: float
    modelled: float

    @property
    def name(self) -> str:
        return f"{self.set}/{self.case}"

    @property
    def error(self) -> float:
        return self.modelled / self.measured - 1.0


def cases() -> Iterator[tuple[str, str, float]]:
    """Set, case and measured µs less an empty kernel's, of all that a program runs here."""
    for file in FILES:
        stored = json.loads((EVIDENCE / file).read_text(encoding="utf-8"))
        for each, figures in stored["sets"].items():
            for case, measured in figures.items():
                yield each, case, measured - stored["empty"]


def results(half: str | None = None) -> list[Result]:
    """Measured and modelled, of one half or all."""
    lab, found = Laboratory(), []
    for each, case, measured in cases():
        if half not in (None, side(f"{each}/{case}")):
            continue
        for pattern, program in _PROGRAMS:
            if name := pattern.match(each):
                found.append(Result(each, case, measured, program(lab, name, case)))
                break
    return found


def family(name: str) -> str:
    """Sets of one kind together."""
    return re.sub(r"[\d.]+ MB", "… MB", name)


class Gain(NamedTuple):
    """What a window and a set-aside of some size gain with the best hit ratio: the time without both over that with
    them."""

    window: str
    best: float
    """The H200's best hit ratio."""
    modelled_best: float
    measured: float
    modelled: float
    at_modelled: float
    """What the H200 gains with the model's best ratio."""


def gains(found: Iterable[Result]) -> Iterator[Gain]:
    """Of each window of the sliding-window kernel. The ratios of a window are of both halves."""
    plain: dict[int, Result] = {}
    by_window: dict[tuple[str, int], dict[float, Result]] = defaultdict(dict)
    for each in found:
        if each.set.startswith("sliding"):
            size, ratio = _case(each.case)
            if ratio is None:
                plain[size] = each
            else:
                by_window[each.set, size][ratio] = each
    for (name, size), ratios in by_window.items():
        best = min(ratios, key=lambda ratio: ratios[ratio].measured)
        ours = min(ratios, key=lambda ratio: ratios[ratio].modelled)
        without = plain[size]
        yield Gain(
            f"{name.removeprefix('sliding, ')}, window of {size} MB",
            best,
            ours,
            without.measured / ratios[best].measured,
            without.modelled / ratios[ours].modelled,
            without.measured / ratios[ours].measured,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--half", choices=("calibration", "validation"))
    parser.add_argument("--figures", action="store_true", help="each case")
    args = parser.parse_args()
    found = results(args.half)
    if args.figures:
        for each in found:
            print(f"{each.name:70} {side(each.name):12} {each.measured:8.2f} {each.modelled:8.2f} {each.error:+7.1%}")
    by_family: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for each in found:
        for of in (family(each.set), "all"):
            by_family[of][side(each.name)].append(abs(each.error))
    for of, sides in by_family.items():
        parts = [
            f"{name} {statistics.median(errors):6.1%} of {len(errors):3}" for name, errors in sorted(sides.items())
        ]
        print(f"{of:50} {'   '.join(parts)}")
    if args.half is None:
        for gain in gains(found):
            print("{:40} best {:6.4g} {:6.4g}  gain {:6.3f} {:6.3f}, at the model's {:6.3f}".format(*gain))


if __name__ == "__main__":
    main()
