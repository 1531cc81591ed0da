"""What the L2 keeps, as modelled, beside what an H200 measured.

    python -m bench.l2 [--half calibration|validation] [--figures]

The experiments are those of ``docs/evidence/2026-11-23-l2.json``, ``…-l2-second.json`` and ``…-l2-third.json``, and
``2026-11-24-windows.json``: reads after other work, kernels with access policy windows, stores beside a set-aside;
their names are ``set/case``. Constants
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
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bench.fidelity.experiment import side
from bench.l2_cases import MB, SOURCE, Memory, run, size_and_ratio
from cudalab.sim.compiler import compile
from cudalab.sim.device import Device
from cudalab.sim.device.queue.kernel_launch import rehearsal
from cudalab.sim.device.timing.l2_cache import L2Cache
from cudalab.sim.device.timing.l2_ranges import NORMAL, STREAMING, Window
from cudalab.sim.device.timing.launch_time import Timer
from cudalab.sim.machine.launch.module import Launch

EVIDENCE = Path(__file__).parents[1] / "docs" / "evidence"
FILES = ("2026-11-23-l2.json", "2026-11-23-l2-second.json", "2026-11-23-l2-third.json", "2026-11-24-windows.json")


class Laboratory(Memory):
    """A device whose launches are timed without being run, and its L2."""

    unreset = True

    def __init__(self) -> None:
        self.device = device = Device()
        module = device.load_module(compile(SOURCE))
        names = re.findall(r"__global__ void (\w+)", SOURCE)
        self._functions = {name: device.get_function(module, name) for name in names}
        self.big, self.flushed = device.malloc(1024 * MB), device.malloc(256 * MB)
        self._launches: dict[tuple[str, int, bytes], Launch] = {}
        self.window: Window | None = None
        self._empty = self._timer.time(self._launch("empty", 1), None, None).ns

    @property
    def _timer(self) -> Timer:
        return self.device.state.timer

    @property
    def _l2(self) -> L2Cache:
        return self._timer.l2_of(0)

    def fresh(self, set_aside: float = 0.0) -> None:
        self._timer.l2_of = cache(lambda _: L2Cache(self.device.state.profile))
        self._l2.set_aside = self._l2.rounded(int(set_aside * MB))
        self.window = None

    def policy(self, at: int = 0, size: int = 0, ratio: float = 0.0, hit: int = NORMAL, miss: int = STREAMING) -> None:
        self.window = Window(self.big + at * MB, size * MB, ratio, hit, miss) if size else None

    def reset(self) -> None:
        self._l2.reset_persisting()

    def memset(self, at: int, size: int) -> None:
        self._l2.sweep((), ((self.big + at * MB, size * MB),))

    def flush(self) -> None:
        self._l2.sweep((), ((self.flushed, 256 * MB),))

    def copy(self, to: int, source: int, size: int) -> None:
        self._l2.sweep(((self.big + source * MB, size * MB),), ((self.big + to * MB, size * MB),))

    def from_host(self, at: int, size: int) -> None:
        self._l2.drop(((self.big + at * MB, size * MB),))

    def to_host(self, at: int, size: int) -> None:
        """Leaves the L2 as it is."""

    def once(self, name: str, grid: int, *args: Any) -> float:
        return (self._timer.time(self._launch(name, grid, *args), None, self.window).ns - self._empty) / 1000

    def repeated(self, name: str, grid: int, *args: Any) -> float:
        return (self._timer.time_repeated(self._launch(name, grid, *args), None, self.window).ns - self._empty) / 1000

    def _launch(self, name: str, grid: int, *args: Any) -> Launch:
        packed = b"".join(each.tobytes() if isinstance(each, np.int32) else struct.pack("Q", each) for each in args)
        key = (name, grid, packed)
        if key not in self._launches:
            threads = 256 if args else 1
            kernel = self.device.loaded_kernel(self._functions[name])
            self._launches[key] = launch = kernel.launch((grid, 1, 1), (threads, 1, 1), packed)
            if self._timer.wants_work(launch):
                self._timer.time(launch, rehearsal(launch, 60.0))
        return self._launches[key]


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
        if half in (None, side(f"{each}/{case}")) and (modelled := run(lab, each, case)) is not None:
            found.append(Result(each, case, measured, modelled))
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
            size, ratio = size_and_ratio(each.case)
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
