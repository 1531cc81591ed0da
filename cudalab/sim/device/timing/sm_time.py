"""What the simulation of an SM says about a launch: a block alone, and all blocks of the busiest SM."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from cudalab.sim.abi import WARP
from cudalab.sim.compiler.machine_code.instruction_set import Pipe
from cudalab.sim.device.profile import Profile
from cudalab.sim.device.timing.machine_path import MachinePath
from cudalab.sim.device.timing.sm_simulation import SmCosts, SmTime, TooDeep, simulate

_SECTOR = 32
_EITHER = {
    Pipe.FMA: 1.0,
    Pipe.LSU: 2.0,
    Pipe.TEX: 4.0,
    Pipe.ADU: 2.0,
    Pipe.CBU: 4.0,
    Pipe.UNIFORM: 2.0,
    Pipe.NONE: 1.0,
}
"""Cycles of the pipes that are not measured; those of loads and stores follow from their wavefronts."""


@dataclass(frozen=True)
class SmTimes:
    """Times in ns."""

    block: float
    """Of one block that has an SM for itself."""
    launch: float
    """Of all blocks of the busiest SM."""
    busy: Mapping[str, float]
    """Of those, how long resources were busy: ``issue`` (the busiest pipe), ``shared`` (the load/store unit) and
    ``barriers``."""
    extrapolated: bool


def sm_times(
    profile: Profile, path: MachinePath, latencies: Mapping[str, float], *, blocks: int, threads: int, resident: int
) -> SmTimes | None:
    """None where the simulator cannot hold the path. ``latencies`` of memory accesses are in cycles."""
    costs = _costs(profile, latencies, blocks)
    warps = math.ceil(threads / WARP)
    on_one = math.ceil(blocks / profile.sms)
    try:
        one = simulate(path, costs, warps=warps, resident=1, blocks=1)
        every = simulate(path, costs, warps=warps, resident=resident, blocks=on_one) if on_one > 1 else one
    except TooDeep:
        return None
    cycle = 1.0 / profile.device["clock"]
    busy = {name: time * cycle for name, time in _busy(profile, every).items()}
    return SmTimes(one.cycles * cycle, every.cycles * cycle, busy, one.extrapolated or every.extrapolated)


def _busy(profile: Profile, time: SmTime) -> dict[str, float]:
    pipes = [time.busy[pipe.value] for pipe in Pipe if pipe is not Pipe.LSU]
    return {
        "issue": max(pipes) / profile.device["schedulers"],
        "shared": time.busy["unit"],
        "barriers": time.busy["barriers"],
    }


def _costs(profile: Profile, latencies: Mapping[str, float], blocks: int) -> SmCosts:
    c = profile.device
    known = {
        "fixed": 0.0,
        "constant": c["latency_constant"],
        "register": c["latency_register"],
        "special": c["latency_special"],
        "convert": c["latency_conversion"],
        "double": c["latency_double"],
        "shuffle": c["latency_shuffle"],
        "shared": c["latency_shared"],
        "shared_atomic": c["latency_shared"],
        "local": c["l1_latency"] * c["clock"],
        "store": 0.0,
        "barrier": 0.0,
        **latencies,
    }
    occupancies = {
        **_EITHER,
        Pipe.ALU: c["cycles_integer"],
        Pipe.FMA_HEAVY: c["cycles_integer"],
        Pipe.FP64: c["cycles_double"],
        Pipe.XU: c["cycles_special"],
    }
    return SmCosts(
        latencies=tuple(known.items()),
        occupancies=tuple(occupancies.items()),
        wavefront=c["shared_wavefront"],
        scheduler_wavefront=c["scheduler_wavefront"],
        read=c["operand_read"],
        sector=_SECTOR * c["clock"] / c["sm_port"],
        line=c["l2_request"],
        branch=c["branch_taken"],
        barrier=c["barrier"] * c["clock"] + c["barrier_arrival"],  # the unit takes another turn to answer
        arrival=c["barrier_arrival"],
        dispatch=c["block_dispatch"] * min(profile.sms, blocks) * c["clock"],
    )
