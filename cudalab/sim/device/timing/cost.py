"""How long work takes on the modelled device: named terms, of which the largest binds.

A kernel's time is ``start + max(terms)``, where *start* is the fixed cost of a launch. Most terms are the demand of the
whole launch on one resource over that resource's throughput; those of memory and dispatch begin or end with the *fill*,
the time of one block without contention: its longest warp's dependency chain of instructions, loads and barriers.

``dispatch``
    blocks assigned to SMs, one after the other for the whole device; it bounds grids of many small blocks.
``issue``
    instructions over the issue rate of the four schedulers of each busy SM, or over the throughput of their pipes: a
    warp's instruction occupies the pipe for one cycle for a float, two for an integer or a double, eight for a special
    function; a division is many instructions.
``memory``
    bytes from and to DRAM over its bandwidth, which is lower for a mix of reads and writes. A read moves at least 64
    bytes, a partial store to a sector makes DRAM read the rest of it, and each 128-byte line has a cost of its own.
``bus``
    bytes of host memory that a kernel reads and writes by their mapped addresses, over the bandwidth of the bus. The
    bus moves bytes in both directions at once, but for the stores of the last warps.
``link``
    bytes of a peer's memory that a kernel reads and writes, over the bandwidth of the link between the devices, which
    moves bytes in both directions at once. What it costs the peer's own L2 and DRAM is left out: they are faster.
``L2``
    sectors that SMs exchange with the L2 over the bandwidth of the SMs' ports; requests for single sectors of a line,
    and partial stores to sectors, take longer than whole lines.
``shared``
    wavefronts of shared memory, lines of global memory looked up in the L1, and shuffles: they share one pipe an SM.
``constant``
    distinct words of constant memory that warps request: an SM serves one at a time.
``barriers``
    arrivals of warps at barriers of their block or cluster, and at barrier objects.
``clusters``
    bytes of distributed shared memory that blocks exchange: over the bandwidth of an SM and, in clusters of more than
    two blocks, whose traffic passes the crossbar of a group of SMs, over that of all crossbars.
``atomics``
    atomic operations on global memory, which are serialized on one word and on one unit of the L2. At a grid barrier
    all blocks arrive at one word.
``heap``
    calls of malloc and free, which are serialized on the whole device.
``latency``
    waves of blocks times the time of a wave: a block's fill, the bytes of all blocks on its SM through the SM's port to
    the L2, and the spread of the ends of a block's warps, because a block's slot is free only when its last warp has
    ended. This term is the largest when occupancy or accesses are too small to keep enough bytes in flight for the
    memory's bandwidth.

``tail``
    what SMs with heavier blocks than others need longer, where blocks differ (block_schedule.py).

What a launch finds in the L2 is found out elsewhere (l2_cache.py) and comes with the workload; where nobody has looked,
as much is there as when the launch is repeated.

What is simplified: warps do not drift apart, and clock rates are constant.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from msgspec import Struct

from cudalab.sim.abi import SECTOR, WARP
from cudalab.sim.device.pipes import CLASSES, TICK, pipe_cycles
from cudalab.sim.device.profile import Profile
from cudalab.sim.device.timing.l2_ranges import bounds_of_normal, squeezed
from cudalab.sim.device.timing.partial_stores import partial_stores
from cudalab.sim.device.timing.sm_time import Behind, SmTimes, sm_times, stored_each
from cudalab.sim.device.timing.warp_path import Costs
from cudalab.sim.device.timing.workload import Workload
from cudalab.sim.machine.counters.metrics import LINE


class KernelTime(Struct, frozen=True):
    """The modelled time of one launch.

    ``terms`` are in ns; ``bound`` names the largest of those that overlap; ``peak_fraction`` is the achieved part
    of that resource's peak (of DRAM bandwidth when memory or latency binds, and so on).
    """

    ns: int
    exact_ns: float
    """The same, not rounded."""
    terms: dict[str, float]
    bound: str
    peak_fraction: float
    # for launches that run together (sm_array.py)
    uses: Mapping[str, float]
    """Utilization of the whole device's resources when it is alone, by the name of the term."""
    sm_use: float
    """The highest utilization of a resource of each SM (issue slots, shared memory, the port to the L2), over the
    SMs that hold its blocks."""
    needed: float
    """Share of the blocks resident when alone that would suffice for the same speed: 1 when latency binds."""
    triggers_at: float = 1.0
    """The part of a block's way up to where it lets dependent launches start, 0 to 1;"""
    waits_at: float = 1.0
    """up to where it waits for the kernel before it."""
    held: float = 0.0
    """The share of its look-ups in the L2 that hit, 0 to 1."""
    extrapolated: str = ""
    """What of the launch was not counted but extrapolated, and why its time comes from the PTX where it does, as a
    sentence; empty when neither holds."""

    @property
    def shared_by_schedulers(self) -> float:
        """ns for the busiest of the resources that the schedulers of each SM share."""
        return max(self.terms.get(name, 0.0) for name in _OF_EACH_SM if name != "issue")


_NO_RESOURCES = ("latency", "tail")
_OF_EACH_SM = ("issue", "L2", "shared", "constant", "barriers", "clusters")


def kernel_time(profile: Profile, work: Workload, *, tail: float = 0.0, extrapolated: str = "") -> KernelTime:
    """The time of one launch, alone on the device. ``tail``: ns that SMs with heavier blocks than others need longer
    (block_schedule.py). ``extrapolated``: what of the launch nobody counted."""
    c = profile.device
    cycle = 1.0 / c["clock"]
    sms = min(profile.sms, work.sms)
    capacity = sms * max(1, work.blocks_per_sm)
    busy = min(sms, work.blocks)
    # with more blocks than SMs, some SMs get one block more than others
    balance = math.ceil(work.blocks / sms) * sms / work.blocks if work.blocks > sms else 1.0
    an_sm = balance * cycle / busy  # ns for one cycle of work of the whole grid, spread over the busy SMs
    waves = work.blocks / capacity
    latency, costs = _latencies(profile, work)
    path, stored = work.path.cycles(latency, costs)[0] / c["clock"], c["store_latency"] if work.stores else 0.0
    memory = _memory(profile, work)
    partial = partial_stores(profile, work, capacity, in_l2(profile, work))
    exchanged = max(work.sectors / c["sm_port"], work.stored_sectors / stored_each(profile, busy)) * SECTOR / busy
    requests = (work.l2_lines - work.partial_lines) * c["l2_request"] * cycle / busy + partial
    units = _atomics(profile, work)
    hottest = work.hottest_address * c["atomic_float" if work.float_atomics else "atomic_address"]
    # what the L2 answers beside atomics adds up (``gather_add``)
    beside = (work.l2_lines - work.partial_lines) * c["l2_request"] * cycle / busy if work.atomic_sectors else 0.0
    machine = _on_sm(
        profile, work, max(memory, requests if partial else 0.0) / an_sm, memory, max(units, hottest) / an_sm
    )
    fill = path + stored
    pipes = pipe_cycles(work.kinds, c)
    terms = {
        "dispatch": _dispatch(profile, work),
        "issue": an_sm * max(pipes.values()) / c["schedulers"],
        "memory": memory,
        "bus": _bus(profile, work, capacity),
        "link": _link(profile, work),
        "L2": max(exchanged, requests),
        "shared": an_sm
        * (
            work.shared_wavefronts * c["shared_wavefront"]
            + work.l1_turns * c["l1_turn"]
            + work.shuffles
            + work.shared_loops * c["shared_loop"]
        ),
        "constant": an_sm * work.constants * c["constant_word"],
        "barriers": an_sm
        * (
            work.arrivals * c["barrier_arrival"]
            + work.kinds.get("cluster_barrier", 0.0) * c["cluster_arrival"]
            + work.kinds.get("object_arrive", 0.0) * c["object_arrival"]
        ),
        "clusters": _exchange(profile, work, busy),
        "heap": work.heap_calls * c["heap_call"],
        "atomics": max(
            work.kinds.get("grid_arrive", 0.0) * c["grid_arrival"],
            beside + units,
            hottest,
        ),
        "latency": _latency(profile, work, fill, waves),
    }
    if machine:
        terms |= {**machine.busy, "loops": an_sm * work.shared_loops * c["shared_loop"]}
    taken = _until_the_end(terms, fill, _round(profile, work))
    bound = max(taken, key=lambda name: taken[name])
    alone = machine.block if machine else fill
    if machine:
        others = _until_the_end(terms, alone, _round(profile, work))
        for name in (*machine.busy, "latency"):
            others.pop(name, None)
        launch = max(machine.launch + tail, _together(others, c["interference"], tail))
        if taken[bound] < _BINDS * launch:
            bound = "latency"
        launch += _first_loads(profile, work)
    else:
        launch = _together(taken, c["interference"], tail)
    exact = c["kernel_start"] + launch
    ns = round(exact)
    if tail:
        terms["tail"] = tail
    if bound == "dispatch" and terms["dispatch"] < fill:
        bound = "latency"  # the last block's own time dominates
    elif tail > taken[bound]:
        bound = "tail"
    used = {name: min(1.0, term / ns) for name, term in terms.items() if term > 0.0 and name not in _NO_RESOURCES}
    part = busy / profile.sms
    return KernelTime(
        ns=ns,
        exact_ns=exact,
        terms={name: float(term) for name, term in {"start": c["kernel_start"], "fill": alone, **terms}.items()},
        bound=bound,
        peak_fraction=_fraction(profile, work, bound, ns),
        uses={name: use * part if name in _OF_EACH_SM else use for name, use in used.items()},
        sm_use=max((used.get(name, 0.0) for name in _OF_EACH_SM), default=0.0),
        needed=min(1.0, (terms["latency"] + tail) / (taken[bound] if bound in taken else tail)),
        triggers_at=work.path.part_before(work.path.code.triggers, latency, costs),
        waits_at=work.path.part_before(work.path.code.waits, latency, costs),
        held=work.met.use.held if work.met is not None else 0.0,
        extrapolated="; ".join(filter(None, (extrapolated, "" if machine or work.machine is None else _TOO_DEEP))),
    )


def _dispatch(profile: Profile, work: Workload) -> float:
    """ns for the front end to start all blocks. A cluster takes it some time more; one of a single block more than
    others, by an H200's figures."""
    c = profile.device
    each = c["cluster_dispatch" if work.cluster > 1 else "cluster_dispatch_single"]
    return work.blocks * c["block_dispatch"] + work.clusters * each


_BINDS = 0.5
"""Part of a launch's time that a resource is at least used for, if it is to bind."""
_TOO_DEEP = "timed by the PTX: there are too many loops in one another"


def _until_the_end(terms: Mapping[str, float], fill: float, first: float) -> dict[str, float]:
    """The terms, some with what comes behind the last block that starts (``fill``) or the last bytes (``first``)."""
    first = min(fill, first)
    ends = {"dispatch": fill, "memory": first, "bus": first, "link": first, "L2": first, "atomics": first, "heap": fill}
    return {name: term + ends.get(name, 0.0) for name, term in terms.items() if term > 0.0 or name == "latency"}


_IN_ONE_TPC = 2
"""SMs that reach each other without their group's crossbar."""


def _exchange(profile: Profile, work: Workload, busy: float) -> float:
    """ns for the traffic of distributed shared memory."""
    c = profile.device
    moved = work.distributed * SECTOR
    far = moved / (profile.sms * c["cluster_crossbar"]) if work.cluster > _IN_ONE_TPC else 0.0
    both_ways = work.distributed_atomics * SECTOR  # a bank reads and writes
    return max((moved + both_ways) / (busy * c["cluster_port"]), far)


_APART = ("dispatch", "memory", "bus", "link", "atomics", "heap")


def _together(taken: Mapping[str, float], power: float, tail: float) -> float:
    """ns of all terms combined: at least the longest. Warps that queue for one resource reach the next one late, so
    resources of an SM with nearly equal demand interfere; their terms combine by a power mean; the tail comes behind
    them. The front end, DRAM, the bus, the link and the atomic units have queues of their own."""
    sides = [term for name, term in taken.items() if name not in _APART]
    longest = max(sides, default=0.0)
    shared = longest * sum((term / longest) ** power for term in sides) ** (1.0 / power) if longest > 0.0 else 0.0
    return max(shared + tail, *(taken.get(name, 0.0) for name in _APART))


_ATOMIC_UNITS = 76
"""Units of the L2 that do atomic operations at the same time (random places in more than 256 KB). Figures:
docs/evidence/2026-11-23-slow-ways.json."""
_WHOLE_SECTOR = 1 / 8


def _atomics(profile: Profile, work: Workload) -> float:
    """ns for atomics in the units of the L2, the busiest or all: a sector of which one lane wants a word takes what an
    operation on one word does, one of which eight do less. Old values that are returned take further time, which does
    not show where one unit is busier."""
    if not work.atomic_sectors:
        return 0.0
    alone = max(0.0, work.atomic_passes - _WHOLE_SECTOR) / (1.0 - _WHOLE_SECTOR)
    whole, single = profile.device["atomic_unit"], profile.device["atomic_address"]
    one = whole + (single - whole) * min(1.0, alone)
    everywhere = work.atomic_sectors / _ATOMIC_UNITS * one + _returned(work) * profile.device["atomic_return"]
    return max(work.hottest_unit * one, everywhere)


def _returned(work: Workload) -> float:
    """Sectors of atomics whose old values are used: the assembler makes others of those that are not."""
    atomics = [each for each in work.machine.instructions if each.atomics] if work.machine is not None else []
    returning = sum(each.atomics for each in atomics if each.latency == "atomic")
    return work.atomic_sectors * returning / sum(each.atomics for each in atomics) if returning else 0.0


def _round(profile: Profile, work: Workload) -> float:
    """ns of one load and the store that follows it."""
    load = _load_latency(profile, work) if work.loads else 0.0
    return load + (profile.device["store_latency"] if work.stores else 0.0)


def in_l2(profile: Profile, work: Workload) -> float:
    """Which part of what it loads a launch finds in the L2, 0 to 1."""
    if work.met is not None:
        return work.met.use.held
    several_waves = work.blocks > min(profile.sms, work.sms) * max(1, work.blocks_per_sm)
    return bounds_of_normal(profile, shared=several_waves).kept(work.touched)


def fits_l2(profile: Profile, work: Workload) -> bool:
    """Does most of the working set of the launch fit the L2?"""
    return in_l2(profile, work) >= 0.5


def _load_latency(profile: Profile, work: Workload) -> float:
    """ns of one load."""
    hits = work.l1_hits
    return hits * profile.device["l1_latency"] + (1.0 - hits) * _missed_latency(profile, work)


def _missed_latency(profile: Profile, work: Workload) -> float:
    """ns of one load that misses the L1. An SM reaches one half of the L2 sooner than the other; data that fit one
    half are kept in both. Host memory is a round trip over the bus away, a peer's one over the link."""
    c, loaded, near = profile.device, work.loaded_sectors * SECTOR, _device_latency(profile, work)
    host = min(1.0, work.host_loaded / loaded) if loaded else 0.0
    latency = host * c["host_latency"] + (1.0 - host) * near
    if loaded and work.peer_loaded:
        latency += min(1.0 - host, work.peer_loaded / loaded) * (c["peer_access_latency"] - near)
    return latency


_FAR = (0.49, 0.75)
"""Parts of the L2 that a launch touches, between which loads go from the near half to the far one."""
_FIRST = 33_000
"""Bytes of each SM that come late at the start of a launch."""


def _device_latency(profile: Profile, work: Workload) -> float:
    """ns of one load from the L2 or from DRAM."""
    held = in_l2(profile, work)
    return held * _l2_latency(profile, work) + (1.0 - held) * profile.device["dram_latency"]


def _l2_latency(profile: Profile, work: Workload) -> float:
    """ns of one load from the L2."""
    c, (first, last) = profile.device, _FAR
    far = (work.touched / float(profile.properties["l2CacheSize"]) - first) / (last - first)
    near = c["l2_latency"] + _busy_sms(profile, work) * c["l2_spread"]
    return near + min(1.0, max(0.0, far)) * (c["l2_far_latency"] - near)


def _busy_sms(profile: Profile, work: Workload) -> float:
    """The share of the SMs that have a block, 0 to 1."""
    return min(1.0, work.blocks / profile.sms)


def _first_loads(profile: Profile, work: Workload) -> float:
    """ns by which the first loads of a launch are late, where all SMs begin to load at once."""
    of_each = work.loaded_sectors * SECTOR / min(work.blocks, profile.sms)
    return _busy_sms(profile, work) * min(1.0, of_each / _FIRST) * profile.device["load_start"]


def _on_sm(profile: Profile, work: Workload, share: float, memory: float, atomics: float) -> SmTimes | None:
    """The simulated time on an SM; None where there is no path through the machine code. ``share``: cycles for which
    the memory behind the SMs serves this one, where all together want more than there is, and ``atomics`` for which the
    units for atomics do; ``memory``: ns for which DRAM is busy."""
    if work.machine is None:
        return None
    c = profile.device
    latencies = {
        "load": c["l1_latency"],
        "missed": _missed_latency(profile, work),
        "atomic": c["atomic_latency"],
        "store": c["store_latency"],
    }
    queue = (1.0 - in_l2(profile, work)) * c["dram_queue"] if work.loads else 0.0
    each = atomics / work.atomic_sectors if work.atomic_sectors else 0.0
    behind = Behind(share / work.sectors if work.sectors else 0.0, memory, queue, each)
    return sm_times(
        profile,
        work.machine,
        latencies,
        behind,
        blocks=work.blocks,
        threads=work.threads,
        resident=work.blocks_per_sm,
        sms=min(profile.sms, work.sms),
    )


def _latencies(profile: Profile, work: Workload) -> tuple[Callable[[str], float], Costs]:
    """Cycles that the result of each class of instructions takes without contention, and other costs of a warp."""
    c = profile.device
    several = (work.turns_a_load - 1.0) * c["l1_turn"]
    special = {
        "load": _load_latency(profile, work) * c["clock"] + several,
        "atomic": c["atomic_latency"] * c["clock"],
        "clock": TICK * c["clock"],
        "barrier": c["barrier"] * c["clock"],
        "named_barrier": c["barrier"] * c["clock"] + c["barrier_number"],
        "grid_arrive": c["grid_barrier" if work.blocks <= _NEAR_BLOCKS else "grid_barrier_far"] * c["clock"],
        "async_copy": _load_latency(profile, work) * c["clock"],
        "bulk_copy": _missed_latency(profile, work) * c["clock"],
        "heap": (c["heap_latency"] + (work.heap_lanes - 1.0) * c["heap_lane"]) * c["clock"],
        "sleep": max(work.sleep, c["sleep_least"]) * c["clock"],
    }

    def latency(kind: str) -> float:
        name = CLASSES[kind][0]
        return special.get(name, 0.0) if name in special else c[name] if name else 0.0

    return latency, Costs(c["branch"], bulk_issue=c["bulk_issue"], bulk_stored=c["sm_port"] / c["clock"])


_NEAR_BLOCKS = 8
"""Blocks of a grid that are all near the word of its barrier; of more, some are far (seen on an H200: a barrier takes
the same time for 1 to 8 blocks, and a fifth longer for 16 to 264)."""
_MOST_LINES = 4
"""Lines that one warp has in flight; it waits for further ones one after the other."""


def _latency(profile: Profile, work: Workload, fill: float, waves: float) -> float:
    """ns for all waves: in each, the blocks of an SM run their dependency chains and share its port to the L2."""
    c = profile.device
    on_one_sm = min(max(1, work.blocks_per_sm), math.ceil(work.blocks / min(profile.sms, work.sms)))
    # bulk copies of a single SM are faster than loads: their bytes count to the extent that other SMs are busy
    alone = 1.0 - min(profile.sms, work.blocks) / profile.sms
    through_port = on_one_sm * work.sectors - alone * work.bulk_loaded - work.bulk_stored  # the path has their bytes
    wave = fill + through_port * SECTOR / work.blocks / c["sm_port"]
    if waves <= 1.0:
        return wave
    if work.stores and not work.loads:
        wave -= c["store_latency"]  # only the end of the launch waits for stores
    # the maximum over a block's warps grows with their number and with the lines that they wait for
    ends = math.ceil(work.threads / WARP) * math.sqrt(min(_MOST_LINES, max(1.0, work.lines_a_warp)))
    return waves * (wave + ends * c["warp_spread"])


def _memory(profile: Profile, work: Workload) -> float:
    """ns for the bytes that DRAM moves. Lines are read when they miss the L2, and written when they leave it."""
    c, met = profile.device, work.met
    stored = work.stored_sectors * SECTOR
    reads = writes = 1.0 - in_l2(profile, work)
    write = writes * stored
    if met is not None:
        touched, lines = max(work.touched, met.distinct), work.lines_written * LINE
        reads = met.use.missing * met.distinct / touched if touched else 0.0
        write = met.use.written_back * met.distinct
        writes = write / lines if lines else 0.0
        write = writes * stored if lines else write
    read = reads * (work.dram_read + work.dram_fill) + work.read_again
    write += work.written_again
    moved = read + write
    if moved <= 0.0:
        return 0.0
    written = write / moved
    bandwidth = c["dram_bandwidth"] * 1e3 * (1.0 - c["dram_mix"] * written * (1.0 - written))  # bytes a ns
    visits = reads * (work.lines_read * c["dram_read_line"] + work.pairs_read * c["dram_read_pair"]) + writes * (
        work.lines_written * c["dram_write_line"] + work.pairs_written * c["dram_write_pair"]
    )
    visits += work.lines_read_again * (c["dram_read_line"] + c["dram_read_pair"])
    visits += work.lines_written_again * (c["dram_write_line"] + c["dram_write_pair"])
    time = max(moved / bandwidth, visits * 1e-3)
    return time if met is None else time + squeezed(profile, met.use, read, write, bandwidth)


def _bus(profile: Profile, work: Workload, capacity: float) -> float:
    """ns for the bytes of host memory. While both directions are busy, each is a little slower. What the last warps
    store crosses when nothing is left to load."""
    c = profile.device
    loads, stores = work.host_loaded * c["bus_load"], work.host_stored
    warps = min(work.blocks, capacity) * math.ceil(work.threads / WARP)
    of_one = stores / work.kinds["store"] if work.kinds.get("store") else 0.0
    last = min(stores, warps * of_one) if loads else 0.0
    contention = min(loads, stores) * (c["bus_contention"] - 1.0)
    return c["bus_byte"] * (max(loads, stores - last) + last + contention)


def _link(profile: Profile, work: Workload) -> float:
    """ns for the bytes of other devices' memory. Each direction has its own lanes."""
    most = max(work.peer_loaded, work.peer_stored)
    return most * profile.device["peer_access_byte"] if most else 0.0


def _fraction(profile: Profile, work: Workload, bound: str, ns: int) -> float:
    c = profile.device
    cycles = profile.sms * c["clock"] * ns
    if bound == "issue":
        return min(1.0, max(pipe_cycles(work.kinds, c).values()) / (c["schedulers"] * cycles))
    if bound == "L2" or (bound == "latency" and fits_l2(profile, work)):
        return min(1.0, work.sectors * SECTOR / (profile.sms * c["sm_port"] * ns))
    if bound == "shared":
        return min(1.0, (work.shared_wavefronts + work.l1_turns + work.shuffles) / cycles)
    if bound == "bus":
        return min(1.0, max(work.host_loaded * c["bus_load"], work.host_stored) * c["bus_byte"] / ns)
    if bound == "link":
        return min(1.0, _link(profile, work) / ns)
    moved = work.dram_read + work.dram_fill + work.stored_sectors * SECTOR
    return min(1.0, moved / (c["dram_bandwidth"] * 1e3 * ns))
