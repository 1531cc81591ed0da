"""Constants from measurements: each group of constants is fitted to its own microbenchmarks.

A group names a few constants and the microbenchmarks that ask for little else. Within a group the sum of squared
logarithms of modelled over measured time is made as small as it gets, by Gauss-Newton steps on the logarithms of the
constants. Groups that rest on one another are fitted in turn, several times over.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatch

import numpy as np

from cudalab.dev.calibrate.model import Model

SWEEPS = 3
STEPS = 12
_SMALL = 1e-3
_LONGEST_STEP = 0.5


@dataclass(frozen=True)
class Group:
    """Constants, and the names of their microbenchmarks (``*`` matches anything)."""

    constants: tuple[str, ...]
    patterns: tuple[str, ...]

    def select(self, names: Sequence[str]) -> list[str]:
        return [name for name in names if any(fnmatch(name, pattern) for pattern in self.patterns)]


def _operation(name: str, latency: str = "", cycles: str = "") -> list[Group]:
    groups = []
    if latency:
        groups.append(Group((latency,), (f"{name} one warp",)))
    if cycles:
        groups.append(Group((cycles,), (f"{name} full",)))
    return groups


GROUPS: tuple[Group, ...] = (
    Group(("kernel_start", "block_dispatch"), ("empty *",)),
    Group(("store_latency",), ("store 1 x 32", "store 132 x 32", "store 264 x 32")),
    *_operation("fma_f32", "latency_float"),
    *_operation("mix_s32", "latency_integer"),
    *_operation("fma_f64", "latency_double"),
    *_operation("exp2_f32", "latency_special"),
    *_operation("convert", "latency_convert", "cycles_convert"),
    *_operation("shuffle", "latency_shuffle"),
    *_operation("mad_s64", "latency_multiply_long", "cycles_multiply_long"),
    *_operation("mix_s64", "", "cycles_long"),
    *_operation("div_f32", "latency_divide_float", "cycles_divide_float"),
    *_operation("sqrt_f32", "", "cycles_root_float"),
    *_operation("div_u32", "latency_divide_unsigned", "cycles_divide_unsigned"),
    *_operation("div_s32", "latency_divide_integer", "cycles_divide_integer"),
    *_operation("div_f64", "latency_divide_double", "cycles_divide_double"),
    Group(("branch",), ("plain loop 1 warps", "plain loop 4 warps")),
    Group(("shared_wavefront",), ("shared read stride 32 32 warps", "shared write stride 32")),
    Group(("latency_shared",), ("shared chain 1 warps",)),
    Group(("shared_loop",), ("shared float pile spread [1248]", "shared float pile spread 16")),
    Group(("barrier",), ("barrier 32",)),
    Group(("barrier_arrival",), ("barrier 8 x 256", "barrier 1024")),
    Group(("constant_word",), ("constants spread 8", "constants spread 32")),
    Group(("l1_latency",), ("chain 16 KB",)),
    Group(("l2_latency",), ("chain 1 MB", "chain 8 MB")),
    Group(("l2_far_latency",), ("chain 48 MB",)),
    Group(("dram_latency",), ("chain 96 MB",)),
    Group(("l1_turn",), ("near stride 8", "near stride 16", "near stride 32")),
    Group(("l2_request",), ("read hashed 1 MB", "read hashed 16 MB")),
    Group(("partial_store",), ("write apart 4", "write apart 8", "write columns 4 MB 256 threads")),
    Group(("partial_crowding",), ("write columns 64 MB 64 threads",)),
    Group(("atomic_unit",), ("pile spread 32", "pile spread 256")),
    Group(("atomic_address",), ("pile spread 1", "pile spread 2")),
    Group(("atomic_float",), ("float pile spread 1", "float pile spread 2", "float pile spread 8")),
    Group(("atomic_latency",), ("fetch one thread",)),
    Group(("dram_bandwidth", "dram_mix"), ("sweep 256 MB", "sweep4 8 x 256", "copy4 256 threads", "copy4 512 threads")),
    Group(("dram_read_line", "dram_read_pair"), ("read apart 16", "read apart 32", "read apart 64")),
    Group(("dram_write_line", "dram_write_pair"), ("write apart 16", "write apart 32", "write apart 64")),
    Group(("sm_port",), ("copy4 [1-8] MB", "copy4 16 MB", "sweep 16 MB", "sweep 24 MB", "copy? 215 KB shared")),
    Group(("warp_spread",), ("copy1 *", "copy2 *", "read1 256 MB 1024 threads", "empty 26400 x *")),
    Group(("grid_barrier",), ("grid barrier [128] x 32",)),
    Group(("grid_barrier_far",), ("grid barrier 32 x 32", "grid barrier 66 x 32", "grid barrier 132 x 32")),
    Group(("grid_arrival",), ("grid barrier 1056 x 32",)),
    Group(("cluster_barrier",), ("cluster barrier ? x 32",)),
    Group(("cluster_arrival",), ("cluster barrier [24] x 1024",)),
    Group(("cluster_load",), ("cluster chain *",)),
    Group(("cluster_atomic",), ("cluster fetch *",)),
    Group(("cluster_port",), ("cluster * alone", "cluster read* 2", "cluster write* 2")),
    Group(("cluster_crossbar",), ("cluster read* [48]", "cluster write* [48]")),
    Group(("bulk_issue",), ("bulk read 128 by 4 L2", "bulk write 128 L2")),
    Group(("bulk_store",), ("bulk write chain 16", "bulk write chain 128")),
    Group(("barrier_number",), ("named barrier 64 of 64",)),
    Group(("object_wait",), ("barrier object 32", "barrier object alone")),
    Group(("object_arrival",), ("barrier object 1024",)),
    Group(("sleep_least",), ("sleep 0",)),
    Group(("heap_latency",), ("heap 1 x 1, *",)),
    Group(("heap_lane",), ("heap 1 x 32, 16",)),
    Group(("heap_call",), ("heap 132 x *",)),
    Group(("interference",), ("plain loop 16 warps", "plain loop [28] x 256")),
)


@dataclass
class Fitted:
    """What a fit found."""

    constants: dict[str, float]
    """The constants that have a group."""
    measured: Mapping[str, float] = field(default_factory=dict)
    """Microseconds, by name of the microbenchmark."""
    modelled: dict[str, float] = field(default_factory=dict)
    """The same, by the model with these constants."""
    used: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """The microbenchmarks that each constant comes from."""

    def error(self, name: str) -> float:
        """Modelled over measured time, less one."""
        return self.modelled[name] / self.measured[name] - 1.0

    def errors_of(self, constant: str) -> list[float]:
        """The errors of the microbenchmarks that a constant comes from."""
        return [self.error(name) for name in self.used[constant]]


def fit(
    model: Model, measured: Mapping[str, float], start: Mapping[str, float] | None = None, *, sweeps: int = SWEEPS
) -> Fitted:
    """Constants fitted to the measurements.

    ``start`` changes where the search begins; by default at the values of the model's profile. Raises ``ValueError``
    when measurements that a group needs are missing.
    """
    constants = dict(model.profile.device) | dict(start or {})
    names = [name for name in model.names if measured.get(name, 0.0) > 0.0]
    used: dict[str, tuple[str, ...]] = {}
    for group in GROUPS:
        chosen = group.select(names)
        if len(chosen) < len(group.constants):
            raise ValueError(f"{', '.join(group.constants)} need measurements of {', '.join(group.patterns)}")
        used.update(dict.fromkeys(group.constants, tuple(chosen)))
    for _ in range(sweeps):
        for group in GROUPS:
            _fit_group(model, measured, constants, group.constants, used[group.constants[0]])
    modelled = {name: model.microseconds(name, constants) for name in names}
    return Fitted({name: constants[name] for name in used}, measured, modelled, used)


def _fit_group(
    model: Model,
    measured: Mapping[str, float],
    constants: dict[str, float],
    wanted: Sequence[str],
    names: Sequence[str],
) -> None:
    """Gauss-Newton on logarithms; a step that does not help is halved."""

    def residuals(values: np.ndarray) -> np.ndarray:
        trial = constants | dict(zip(wanted, np.exp(values).tolist(), strict=True))
        return np.array([math.log(model.microseconds(name, trial) / measured[name]) for name in names])

    at = np.log([constants[name] for name in wanted])
    here = residuals(at)
    for _ in range(STEPS):
        slopes = np.stack([(residuals(at + _SMALL * unit) - here) / _SMALL for unit in np.eye(len(wanted))], axis=1)
        if not np.any(slopes):
            break
        step, *_ = np.linalg.lstsq(slopes, -here, rcond=1e-6)
        step = np.clip(step, -_LONGEST_STEP, _LONGEST_STEP)
        while np.abs(step).max() > 1e-5:
            there = residuals(at + step)
            if there @ there < here @ here:
                break
            step /= 2
        else:
            break
        at, here = at + step, there
    constants.update(zip(wanted, np.exp(at).tolist(), strict=True))
