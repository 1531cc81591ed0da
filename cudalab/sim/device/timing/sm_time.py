"""What the simulation of an SM says about a launch: a block alone, and all blocks of the busiest SM."""

from __future__ import annotations

import math
from collections.abc import Mapping

from msgspec import Struct

from cudalab.sim.abi import SECTOR, WARP
from cudalab.sim.compiler.machine_code.instruction_set import Pipe
from cudalab.sim.device.profile import Profile
from cudalab.sim.device.timing.machine_path import MachinePath
from cudalab.sim.device.timing.sm_simulation import SmCosts, SmTime, TooDeep, simulate

_EITHER = {
    Pipe.FMA: 1.0,
    Pipe.LSU: 2.0,
    Pipe.TEX: 4.0,
    Pipe.ADU: 2.0,
    Pipe.UNIFORM: 2.0,
    Pipe.NONE: 1.0,
}
"""Cycles of the pipes that are not measured; those of loads and stores follow from their wavefronts."""


class SmTimes(Struct, frozen=True):
    """Times in ns."""

    block: float
    """Of one block that has an SM for itself."""
    launch: float
    """Of all blocks of the busiest SM."""
    busy: Mapping[str, float]
    """Of those, how long resources were busy: ``issue`` (the schedulers, or their busiest pipe), ``shared`` (the
    load/store unit) and ``barriers``."""
    extrapolated: bool


_QUIET = 0.05
"""Use of the memory behind the SMs below which nothing waits in its queues."""


class Behind(Struct, frozen=True):
    """The memory that all SMs share, as the busiest of them sees it."""

    sector: float
    """Cycles that the SM waits at least for each sector, where all together want more than there is."""
    busy: float
    """ns for which it is busy: the more of the time that is, the longer a load waits."""
    queue: float
    """ns that a load waits where that is all the time."""
    atomic: float = 0.0
    """Cycles that the SM waits for each sector of an atomic, where all SMs want the same units."""


def sm_times(
    profile: Profile,
    path: MachinePath,
    latencies: Mapping[str, float],
    behind: Behind,
    *,
    blocks: int,
    threads: int,
    resident: int,
    sms: float,
) -> SmTimes | None:
    """None where the simulator cannot hold the path. ``latencies`` of memory accesses are in ns; ``sms`` have room for
    the blocks."""
    clock = profile.device["clock"]
    warps, on_one = math.ceil(threads / WARP), math.ceil(blocks / sms)

    def simulated(use: float, number: int) -> SmTime:
        queues = {"missed": behind.queue, "atomic": behind.queue}
        waits = {name: time + use * queues.get(name, 0.0) for name, time in latencies.items()}
        costs = _costs(profile, {name: time * clock for name, time in waits.items()}, blocks, behind)
        return simulate(path, costs, warps=warps, resident=resident, blocks=number)

    try:
        one = simulated(0.0, 1)
        every = simulated(0.0, on_one) if on_one > 1 else one
        launch = every.cycles / clock
        if behind.busy * behind.queue > 0.0 and behind.busy >= _QUIET * launch:
            use = min(1.0, behind.busy / launch)
            slope = max(0.0, simulated(use, on_one).cycles / clock - launch) / use
            # longer waits mean a lower use: launch = without + slope * busy / launch
            launch = (launch + math.sqrt(launch**2 + 4.0 * slope * behind.busy)) / 2.0
    except TooDeep:
        return None
    busy = {name: time / clock for name, time in _busy(profile, every).items()}
    return SmTimes(one.cycles / clock, launch, busy, one.extrapolated or every.extrapolated)


def _busy(profile: Profile, time: SmTime) -> dict[str, float]:
    pipes = [time.busy[pipe.value] for pipe in Pipe if pipe is not Pipe.LSU]
    return {
        "issue": max(time.busy["slots"], *pipes) / profile.device["schedulers"],
        "shared": time.busy["unit"],
        "barriers": time.busy["barriers"],
    }


def stored_each(profile: Profile, busy: float) -> float:
    """Bytes a ns that the L2 takes from each of so many SMs."""
    return min(profile.device["sm_port"], profile.device["l2_store"] * 1e3 / busy)


def _costs(profile: Profile, latencies: Mapping[str, float], blocks: int, behind: Behind) -> SmCosts:
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
        "barrier": 0.0,
        "converge": 0.0,
        "commit": 0.0,
        "await_copies": 0.0,
        "copy": latencies["load"],
        **latencies,
    }
    occupancies = {
        **_EITHER,
        Pipe.ALU: c["cycles_integer"],
        Pipe.FMA_HEAVY: c["cycles_integer"],
        Pipe.FP64: c["cycles_double"],
        Pipe.XU: c["cycles_special"],
        Pipe.CBU: c["cycles_branch"],
    }
    return SmCosts(
        latencies=tuple(known.items()),
        occupancies=tuple(occupancies.items()),
        wavefront=c["shared_wavefront"],
        scheduler_wavefront=c["scheduler_wavefront"],
        read=c["operand_read"],
        shared_atomic=c["shared_atomic_request"],
        converge=c["convergence"],
        sector=SECTOR * c["clock"] / c["sm_port"],
        any_sector=behind.sector,
        stored=SECTOR * c["clock"] / stored_each(profile, min(profile.sms, blocks)),
        line=c["l2_request"],
        atomic=behind.atomic,
        branch=c["branch_taken"],
        barrier=c["barrier"] * c["clock"] + c["barrier_turn"],  # the unit takes another turn to answer
        arrival=c["barrier_turn"],
        dispatch=c["block_dispatch"] * min(profile.sms, blocks) * c["clock"],
        launch=c["warp_launch"],
    )
