"""Experiments with the L2: reads behind other work, cold and warm, and kernels with access policy windows.

The work is that of ``bench.l2_cases``, done by calls on either device. Figures
are between events behind a kernel that only waits, less those of an empty kernel.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from bench.fidelity.copies import D2D, D2H, H2D, HostMemory, copy
from bench.fidelity.experiment import HALVES, Side, experiment, side
from bench.fidelity.laboratory import Laboratory
from bench.graph_nodes import checked
from bench.l2_cases import MB, SOURCE, Memory, run
from cudalab import benchmark, cp, cudart
from cudalab.sim.device.timing.l2_ranges import NORMAL, STREAMING

Result = Iterator[tuple[str, float]]
ATTRIBUTE = cudart.cudaStreamAttrID.cudaLaunchAttributeAccessPolicyWindow
SET_ASIDE = cudart.cudaLimit.cudaLimitPersistingL2CacheSize
REPEATS = 5
"""A case has rounds of its own besides."""


class L2(Memory):
    """The L2 of the current device, in the null stream."""

    def __init__(self, lab: Laboratory, host: int) -> None:
        self.lab, self.host = lab, host
        self.big, self.flushed = lab.buffer("l2", 1024 * MB).data.ptr, lab.buffer("flushed", 256 * MB).data.ptr
        self._kernels = cp.RawModule(code=SOURCE)
        self._launch("empty", 1)  # loads the module
        self._empty = lab.median(lambda: lab.queued_once(lambda: self._launch("empty", 1)))
        self._empty_among_many = self._among_many("empty", 1)

    def fresh(self, set_aside: float = 0.0) -> None:
        self.policy()
        self.reset()
        checked(cudart.cudaDeviceSetLimit(SET_ASIDE, int(set_aside * MB)))
        self.flush()

    def policy(self, at: int = 0, size: int = 0, ratio: float = 0.0, hit: int = NORMAL, miss: int = STREAMING) -> None:
        value = cudart.cudaStreamAttrValue()
        window = value.accessPolicyWindow
        window.base_ptr, window.num_bytes, window.hitRatio = self.big + at * MB, size * MB, ratio
        window.hitProp, window.missProp = cudart.cudaAccessProperty(hit), cudart.cudaAccessProperty(miss)
        value.accessPolicyWindow = window
        checked(cudart.cudaStreamSetAttribute(0, ATTRIBUTE, value))

    def reset(self) -> None:
        checked(cudart.cudaCtxResetPersistingL2Cache())

    def memset(self, at: int, size: int) -> None:
        checked(cudart.cudaMemsetAsync(self.big + at * MB, 0, size * MB, 0))

    def flush(self) -> None:
        checked(cudart.cudaMemsetAsync(self.flushed, 0, 256 * MB, 0))

    def copy(self, to: int, source: int, size: int) -> None:
        copy(self.big + to * MB, self.big + source * MB, size * MB, D2D)

    def from_host(self, at: int, size: int) -> None:
        copy(self.big + at * MB, self.host, size * MB, H2D)

    def to_host(self, at: int, size: int) -> None:
        copy(self.host, self.big + at * MB, size * MB, D2H)

    def once(self, name: str, grid: int, *args: Any) -> float:
        return self.lab.queued_once(lambda: self._launch(name, grid, *args)) - self._empty

    def repeated(self, name: str, grid: int, *args: Any) -> float:
        return self._among_many(name, grid, *args) - self._empty_among_many

    def _among_many(self, name: str, grid: int, *args: Any) -> float:
        return benchmark(self._kernels.get_function(name), (grid,), (256 if args else 1,), args).microseconds

    def _launch(self, name: str, grid: int, *args: Any) -> None:
        self._kernels.get_function(name)((grid,), (256 if args else 1,), args)

    def figure(self, name: str, case: str) -> float:
        def once() -> float:
            found = run(self, name, case)
            assert found is not None, name
            return found

        return self.lab.median(once, repeats=REPEATS)


def cases(lab: Laboratory, chosen: Iterable[str]) -> Result:
    """The variants of an experiment, each ``set/case``."""
    with HostMemory(64 * MB) as host:
        l2 = L2(lab, host)
        for each in chosen:
            yield each, l2.figure(*each.split("/", 1))
        l2.fresh()


SIZES = (4, 8, 16, 24, 32, 40, 48, 64, 96)
LEFT = ("nothing", "read", "once", "write", "memset", "d2d", "d2d source", "h2d", "d2h")
FAMILIES: dict[str, tuple[str, ...]] = {
    "data that were just read, by size": tuple(f"sweep again/{size}" for size in SIZES),
    "data that are not there, by size": tuple(f"sweep cold/{size}" for size in SIZES),
    "reads by a thread for each 16 bytes": tuple(
        f"once {how}/{size}" for how in ("again", "cold") for size in (8, 24, 32, 48, 80)
    ),
    "16 MB read behind what left them": tuple(f"read 16 MB left by/{left}" for left in LEFT),
    "16 MB read behind other reads": tuple(f"read 16 MB behind read/{size}" for size in (0, 8, 16, 20, 24, 32, 48)),
    "16 MB read behind stores": tuple(f"read 16 MB behind write/{size}" for size in (0, 8, 16, 20, 24, 32, 48)),
    "16 MB read behind streaming reads": tuple(f"read 16 MB behind streaming/{size}" for size in (8, 16, 24, 32)),
    "persisting data behind 128 MB": tuple(
        f"survives 128 MB, {aside} MB set aside/{size} MB, ratio 1.0" for aside in (8, 32) for size in (8, 16, 24)
    ),
    "sliding windows by size and hit ratio": tuple(
        f"sliding, {aside} MB set aside/{size} MB, ratio {ratio}"
        for size in (16, 24, 32)
        for aside, ratio in ((0, "none"), *((aside, ratio) for aside in (16, 30) for ratio in ("1.0", "0.5", "0.25")))
    ),
    "often-read data beside a stream": (
        *(f"rereads, 0 MB set aside/{size} MB, ratio None, miss Streaming" for size in (16, 24, 32, 48)),
        *(
            f"rereads, 20 MB set aside/{size} MB, ratio {ratio}, miss Streaming"
            for size in (16, 24, 32, 48)
            for ratio in ("1.0", "0.5")
        ),
    ),
    "work on 256 MB beside a set-aside": tuple(
        f"{units} units set aside, no window/{kind} 256 MB"
        for kind in ("fill", "scale", "copy", "read")
        for units in (0, 4, 8, 10)
    ),
}
"""Cases of ``bench.l2``. Their own names decide on which side of the split they are, as when constants were fitted."""


EXPERIMENTS = {
    f"L2: {family} ({half} cases)": chosen
    for family, of_family in FAMILIES.items()
    for half in HALVES
    if (chosen := tuple(each for each in of_family if side(each) == half))
}
"""The cases of each experiment."""


def _register(name: str, chosen: tuple[str, ...]) -> None:
    half: Side = "calibration" if name.endswith("(calibration cases)") else "validation"

    @experiment(name, half=half)
    def program(lab: Laboratory) -> Result:
        yield from cases(lab, chosen)


for _name, _chosen in EXPERIMENTS.items():
    _register(_name, _chosen)
