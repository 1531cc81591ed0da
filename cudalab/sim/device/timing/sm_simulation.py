"""One SM, simulated cycle by cycle: resident warps issue the machine code of their kernel.

Each of the four schedulers issues one instruction a cycle, of the warp that can issue first; of several, one of the
block that began first, and there the one that has waited longest. An instruction issues when its warp's stall cycles
are over, the scoreboards that it waits for are free, and its pipe is: a pipe takes one of a scheduler's instructions in
so many cycles. Loads, stores, atomics and shuffles share the load/store unit of the SM, which they occupy for their
wavefronts; what misses the L1 takes turns at the SM's port to the L2. A warp at a barrier waits for the others of its
block; a block that has ended, and whose stores have arrived, makes room for the next one, whose warps begin one after
the other.

The simulator is a CUDA C++ program for one thread (``sm_simulation.cu``), which the simulated device itself compiles
and runs. It stops after some ten thousand instructions; what is left then is extrapolated: where those are whole
blocks, from the rate of the second half, otherwise from how long the path takes with few rounds of its loops, and with
half as many.

What is simplified: every block executes the same paths, one for the warp that does most and one for the others; the
contention of SMs for the L2 and DRAM is left to ``cost.py``, and there is no instruction cache. A learner would notice
the latter in loops of more than some thousand instructions.
"""

from __future__ import annotations

import math
import struct
import threading
from functools import cache, lru_cache
from importlib import resources

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from cudalab.sim.compiler.machine_code.instruction_set import Pipe
from cudalab.sim.device.timing.machine_path import Loop, MachinePath, Run

PIPES: tuple[Pipe, ...] = tuple(pipe for pipe in Pipe)
_MOST_WARPS, _MOST_STEPS, _MOST_NESTED = 64, 512, 8
MOST_ISSUES = 64_000
_SMALL_MEMORY = 64 << 20
_HALF, _GOLDEN, _SILVER = 0.5, 0.6180340, 0.4142136
"""The last two: their multiples, without their whole parts, lie between 0 and 1 far from one another."""

_INSTRUCTION = np.dtype(
    [(name, "<i4") for name in ("pipe", "stall", "write_barrier", "read_barrier", "waits", "kind", "left", "unused")]
    + [
        (name, "<f8")
        for name in ("occupancy", "latency", "unit", "read", "port", "out", "slot", "missing", "missed", "atomic")
    ]
)
_STEP = np.dtype([(name, "<i4") for name in ("kind", "first", "count", "unused")] + [("times", "<f8")])
_SETTING = np.dtype(
    [(name, "<i4") for name in ("warps", "resident", "blocks", "most_issues", "others", "unused")]
    + [(name, "<f8") for name in ("branch", "barrier", "arrival", "dispatch", "launch")]
)
_RESULT = np.dtype(
    [("cycles", "<f8"), ("middle", "<f8"), ("issued", "<i8"), ("at_middle", "<i8"), ("ended", "<i4")]
    + [("complete", "<i4"), ("unit", "<f8"), ("port", "<f8"), ("arrivals", "<f8"), ("pipes", "<f8", len(PIPES))]
)
_WARP_BYTES = 232
_PLAIN, _MEMORY, _BARRIER, _COPY, _COMMIT, _AWAIT_COPIES = range(6)
_RUN, _LOOP, _END_LOOP, _END = range(4)


class TooDeep(ValueError):
    """The path has more steps, or loops in loops, than the simulator takes."""


class SmCosts(Struct, frozen=True):
    """What things take on an SM, cycles."""

    latencies: tuple[tuple[str, float], ...]
    """By class (``PathInstruction.latency``); ``missed``: of a load or an asynchronous copy that misses the L1."""
    occupancies: tuple[tuple[Pipe, float], ...]
    """Cycles that an instruction occupies the pipe of a scheduler."""
    wavefront: float
    """Of the load/store unit."""
    scheduler_wavefront: float
    """Of a scheduler's way to it."""
    shared_atomic: float
    """Of the load/store unit, at least for an atomic operation on shared memory."""
    converge: float
    """Where lanes of a warp come together (``BSYNC``), beyond its stall cycles."""
    read: float
    """Until an instruction of variable latency has read its operands."""
    sector: float
    """Of the port to the L2, for a sector that is loaded;"""
    any_sector: float
    """for each, stored ones too, where DRAM serves the SM no faster;"""
    stored: float
    """of the SM's way out, for a sector that is stored."""
    line: float
    """Of the port, at least for a line."""
    atomic: float
    """Of the SM's part of the units for atomics on global memory, for a sector of one."""
    branch: float
    """Of a taken branch, beyond its stall cycles."""
    barrier: float
    """From when the barrier unit has taken the last arrival until the warps go on."""
    arrival: float
    """Of the barrier unit, for the arrival of a warp."""
    dispatch: float
    """Between the starts of two blocks on one SM,"""
    launch: float
    """and of two warps of a block."""


class SmTime(Struct, frozen=True):
    """How the SM spent its time."""

    cycles: float
    """Until the last block has ended."""
    busy: dict[str, float]
    """Busy cycles: of the pipes, by name, over the schedulers; ``slots``, in which the schedulers issued; ``unit``, of
    the load/store unit; ``port``, of that to the L2; ``barriers``, of the barrier unit."""
    extrapolated: bool
    """Whether the simulation was stopped before the end."""


def simulate(path: MachinePath, costs: SmCosts, *, warps: int, resident: int, blocks: int) -> SmTime:
    """The time of ``blocks`` blocks of so many warps on one SM, ``resident`` of them at a time.

    Raises ``TooDeep`` when the simulator cannot hold the path.
    """
    resident = max(1, min(resident, blocks, _MOST_WARPS // warps))
    wave = path.issues(warps) * resident
    if wave <= MOST_ISSUES / 2 or path.issues(warps) * blocks <= MOST_ISSUES:
        whole, times = path.in_whole_rounds()
        found = _run(whole, costs, warps, resident, blocks)
        return replace(
            found, cycles=times * found.cycles, busy={name: times * busy for name, busy in found.busy.items()}
        )
    # rounds of loops take the same time each: with few and with half as many of them
    costs = replace(costs, atomic=0.0)  # what stands outside of loops would hide what a round takes
    waves = blocks / resident
    shorter, rounds = path.one_round()
    if wave / rounds > MOST_ISSUES / 2:
        path, wave, waves = shorter, shorter.issues(warps) * resident, waves * rounds
    factor = max(1.0, 2.0 * wave / MOST_ISSUES)
    few, fewer = path.in_two_lengths(factor)
    one, other = (_run(each, costs, warps, resident, resident) for each in (few, fewer))
    issued, less = few.issues(warps) * resident, fewer.issues(warps) * resident
    more = (wave - issued) / (issued - less) if issued > less else 0.0
    return SmTime(
        waves * (one.cycles + more * (one.cycles - other.cycles)),
        {name: waves * (busy + more * (busy - other.busy[name])) for name, busy in one.busy.items()},
        True,
    )


@lru_cache(maxsize=64)
def _steps_of(path: MachinePath) -> tuple[np.ndarray, int]:
    """The steps of the first warp of a block, and behind them those of the others; and where these begin."""
    found: list[tuple[int, int, int, int, float]] = []

    def append(steps: tuple[Run | Loop, ...], depth: int) -> None:
        if depth > _MOST_NESTED:
            raise TooDeep(f"more than {_MOST_NESTED} loops in one another")
        for step in steps:
            if isinstance(step, Run):
                found.append((_RUN, step.first, step.end - step.first, 0, step.share))
                continue
            begin = len(found)
            found.append((_LOOP, 0, 0, 0, step.iterations))
            append(step.body, depth + 1)
            found[begin] = (_LOOP, len(found), 0, 0, step.iterations)
            found.append((_END_LOOP, begin, 0, 0, 0.0))

    append(path.steps, 0)
    found.append((_END, 0, 0, 0, 0.0))
    others = len(found)
    append(path.others, 0)
    found.append((_END, 0, 0, 0, 0.0))
    if len(found) > _MOST_STEPS:
        raise TooDeep(f"{len(found)} steps, more than {_MOST_STEPS}")
    return np.array(found, _STEP), others


class _Columns(Struct, frozen=True, eq=False):
    """The instructions of a path as arrays."""

    rows: np.ndarray
    """``_INSTRUCTION``, without what depends on costs."""
    latencies: tuple[str, ...]
    """Classes of latency that occur,"""
    latency: np.ndarray
    """and which of them each instruction has."""
    wavefronts: np.ndarray
    pipes: np.ndarray
    """How often each instruction takes its pipe."""
    slots: np.ndarray
    """Cycles for which it holds its scheduler."""
    missing: np.ndarray
    sectors: np.ndarray
    lines: np.ndarray
    atomics: np.ndarray

    def has(self, latency: str) -> np.ndarray:
        found: np.ndarray = self.latency == (self.latencies.index(latency) if latency in self.latencies else -1)
        return found


@lru_cache(maxsize=64)
def _columns_of(path: MachinePath) -> _Columns:
    code, rows = path.instructions, np.zeros(len(path.instructions), _INSTRUCTION)
    rows["pipe"] = [PIPES.index(each.pipe) for each in code]
    for name in ("stall", "write_barrier", "read_barrier", "waits"):
        rows[name] = [getattr(each, name) for each in code]
    classes: dict[str, int] = {}
    latency = np.array([classes.setdefault(each.latency, len(classes)) for each in code], int)
    numbers = [
        (each.wavefronts, each.turns, each.slots, each.missing, each.sectors, each.lines, each.atomics) for each in code
    ]
    found = _Columns(rows, tuple(classes), latency, *np.array(numbers, float).reshape(-1, 7).T)
    rows["kind"] = np.where(found.has("barrier"), _BARRIER, _PLAIN)
    rows["kind"][found.wavefronts > 0.0] = _MEMORY
    for name, kind in (("copy", _COPY), ("commit", _COMMIT), ("await_copies", _AWAIT_COPIES)):
        rows["kind"][found.has(name)] = kind
    rows["left"] = [each.groups_left for each in code]
    return found


def _code_of(path: MachinePath, costs: SmCosts) -> np.ndarray:
    columns, latencies, occupancies = _columns_of(path), dict(costs.latencies), dict(costs.occupancies)
    rows, wavefronts = columns.rows.copy(), columns.wavefronts
    occupancy = np.array([occupancies[pipe] for pipe in PIPES])[rows["pipe"]]
    latency = np.array([latencies[name] for name in columns.latencies])[columns.latency]
    rows["missing"], rows["missed"] = columns.missing, latencies["missed"] - latency
    rows["occupancy"] = np.where(wavefronts > 0.0, wavefronts * costs.scheduler_wavefront, occupancy) * columns.pipes
    rows["latency"] = latency + np.maximum(0.0, wavefronts - 1.0) * costs.wavefront
    rows["unit"] = np.maximum(wavefronts * costs.wavefront, costs.shared_atomic * columns.has("shared_atomic"))
    rows["stall"][columns.has("converge")] += round(costs.converge)
    rows["read"] = costs.read
    rows["slot"] = columns.slots
    rows["atomic"] = columns.atomics * costs.atomic
    stored = columns.has("store")
    each = np.where(stored, costs.any_sector, max(costs.any_sector, costs.sector))
    rows["port"] = np.maximum(columns.sectors * each, columns.lines * costs.line)
    rows["out"] = columns.sectors * costs.stored * stored
    return rows


@cache
def _begun(warps: int) -> np.ndarray:
    """Of a step that is executed in a share of its visits: what each warp of an SM has of its next execution when it
    starts. Not all warps execute it in the same visit, and of 7.9 rounds most have 8. ``warps``: of a block."""
    index = np.arange(_MOST_WARPS)
    step = next(each for each in range(round(_GOLDEN * warps), 2 * warps + 2) if math.gcd(each, warps) == 1)
    of_block = (_HALF + index * step % warps) / warps
    found: np.ndarray = (of_block + index // warps * _SILVER) % 1.0
    return found.astype(np.float32)


def _met(code: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """bool[steps]: whether the warps of a block meet at a barrier there, so that all execute it in the same visits."""
    barriers = np.append(0, np.cumsum(code["kind"] == _BARRIER))
    first = np.where(steps["kind"] == _RUN, steps["first"], 0)
    runs = barriers[first + steps["count"]] - barriers[first]
    inside = np.append(0, np.cumsum(runs))
    ends = np.where(steps["kind"] == _LOOP, steps["first"], np.arange(len(steps)))
    found: np.ndarray = inside[ends + 1] > inside[np.arange(len(steps))]
    return found


@cache
def _simulator() -> _Simulator:
    return _Simulator()


class _Simulator:
    """The simulator, loaded into memory of its own."""

    def __init__(self) -> None:
        from cudalab.sim.compiler import compile
        from cudalab.sim.device.profile import load
        from cudalab.sim.machine.launch.module import Module
        from cudalab.sim.machine.memory.allocations import Memory
        from cudalab.sim.machine.memory.arena import Arena

        source = resources.files(__package__).joinpath("sm_simulation.cu").read_text(encoding="utf-8")
        self._memory = Memory(_SMALL_MEMORY, arena=Arena())
        self._module = Module(compile(source, name="sm_simulation.cu"), self._memory, load().launch_limits)
        sizes = [4 << 20, _MOST_STEPS * _STEP.itemsize, _SETTING.itemsize, _MOST_WARPS * _WARP_BYTES]
        sizes += [4 * _MOST_WARPS * _MOST_STEPS, _RESULT.itemsize]
        self._most_code = sizes[0] // _INSTRUCTION.itemsize
        self._places = [self._memory.allocate(size) for size in sizes]
        self._launch = self._module.kernel("simulate_sm").launch(1, 1, struct.pack("<6Q", *self._places))
        self._lock = threading.Lock()

    def _bytes(self, place: int, size: int) -> np.ndarray:
        start = self._places[place] - self._memory.arena.base
        return self._memory.arena.bytes[start : start + size]

    def _put(self, place: int, values: np.ndarray) -> None:
        self._bytes(place, values.nbytes)[:] = values.view(np.uint8).reshape(-1)

    def run(self, code: np.ndarray, steps: np.ndarray, setting: np.ndarray) -> np.void:
        """A ``_RESULT``."""
        from cudalab.sim.machine.execution import execute

        if len(code) > self._most_code:
            raise TooDeep(f"{len(code)} instructions, more than {self._most_code}")
        with self._lock:
            for place, values in ((0, code), (1, steps), (2, setting), (5, np.zeros(1, _RESULT))):
                self._put(place, values)
            begun = np.full((_MOST_WARPS, _MOST_STEPS), _HALF, np.float32)
            begun[:, : len(steps)] = np.where(_met(code, steps), _HALF, _begun(int(setting["warps"][0]))[:, None])
            self._put(4, begun)
            outcome = execute(self._launch)
            if outcome.fault is not None:
                raise RuntimeError(f"the simulation of an SM failed: {outcome.fault}")
            result: np.void = self._bytes(5, _RESULT.itemsize).copy().view(_RESULT)[0]
            return result


@lru_cache(maxsize=256)
def _known(code: bytes, steps: bytes, setting: bytes) -> bytes:
    """A ``_RESULT``: launches that differ only in what they access have the same one."""
    parts = np.frombuffer(code, _INSTRUCTION), np.frombuffer(steps, _STEP), np.frombuffer(setting, _SETTING)
    return _simulator().run(*parts).tobytes()


def _run(path: MachinePath, costs: SmCosts, warps: int, resident: int, blocks: int) -> SmTime:
    steps, others = _steps_of(path)
    numbers = (warps, resident, blocks, MOST_ISSUES, others, 0)
    setting = np.array([(*numbers, costs.branch, costs.barrier, costs.arrival, costs.dispatch, costs.launch)], _SETTING)
    found = np.frombuffer(_known(_code_of(path, costs).tobytes(), steps.tobytes(), setting.tobytes()), _RESULT)[0]
    cycles, scale = float(found["cycles"]), 1.0
    if not found["complete"]:
        issues = path.issues(warps) * blocks
        rate = (found["issued"] - found["at_middle"]) / max(1.0, cycles - float(found["middle"]))
        scale = max(1.0, issues / float(found["issued"]))
        cycles += max(0.0, issues - float(found["issued"])) / rate
    busy = {pipe.value: float(found["pipes"][index]) * scale for index, pipe in enumerate(PIPES)}
    counters = {"slots": "issued", "unit": "unit", "port": "port", "barriers": "arrivals"}
    busy |= {name: float(found[key]) * scale for name, key in counters.items()}
    return SmTime(cycles, busy, not found["complete"])
