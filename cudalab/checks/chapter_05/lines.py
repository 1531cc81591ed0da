"""Exercises 05.4 and 05.5: the lines that persist, told in advance, and phases that leave none to the next.

Judged is what the L2 of the device holds and finds, launch by launch; never a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from cudalab.checks.chapter_05.settings import LEFT
from cudalab.checks.exercise import Exercise
from cudalab.checks.gate import Gate, no_calls
from cudalab.checks.streams import StreamBench, Trial
from cudalab.checks.windows import l2_of, most_aside, set_aside, window_of
from cudalab.sim import cupy
from cudalab.sim.device.calls.stream_attributes import WINDOW
from cudalab.sim.device.observer import Observer
from cudalab.sim.device.profile import Profile, load
from cudalab.sim.device.queue.kernel_launch import KernelOperation
from cudalab.sim.device.timing.l2_ranges import NORMAL, PERSISTING

if TYPE_CHECKING:
    from cudalab.sim.device.queue.operation import Operation

KIB = 1 << 10
_THREADS = 256
_L2 = 4 << 20
"""Bytes of the L2 of the device, so that little data fill it."""
_ASIDE = 0.625
"""The part of it that is set aside."""


def _small() -> Profile:
    """A device with a small L2."""
    full = load("h200")
    sizes = {"l2CacheSize": _L2, "persistingL2CacheMaxSize": int(_ASIDE * _L2)}
    return replace(full, properties={**full.properties, **sizes})


# --- 05.4 ------------------------------------------------------------------------------------------------------------

_READ = r"""
extern "C" __global__ void read(const float4* x, float* y) {
    float4 v = x[blockIdx.x * blockDim.x + threadIdx.x];
    if (v.x + v.y + v.z + v.w == 12345.0f) *y = 1.0f;
}
"""
CALLS = no_calls("the function only follows the steps: it sets no window, and launches nothing")
Step = tuple[Any, ...]
"""``("window", stream, array, KiB, ratio, property)``, ``("no window", stream)``, ``("read", stream, array, KiB)`` or
``("reset",)``."""
ARRAYS = ("a", "b", "c")
_LONGEST = 6
"""Of an array, in units: all arrays together fit into what is set aside."""
_UNIT = 128
"""KiB: sizes are multiples of it. In such pieces, 32nds of the device's L2, ranges are followed (l2_cache.py)."""
_PROPERTIES = {"normal": NORMAL, "persisting": PERSISTING}
"""Of hits; misses are normal. That this takes away what persists is documented; of streaming accesses it is not."""


def _window(stream: int, array: str, size: int, ratio: float = 1.0, hit: str = "persisting") -> Step:
    return "window", stream, array, size, ratio, hit


def _persisting(bench: StreamBench) -> None:
    programs: list[list[Step]] = [
        [_window(0, "a", 256), ("read", 0, "a", 256), ("no window", 0), ("reset",)],  # as in the try cell
        [_window(0, "a", 768), ("read", 0, "a", 128), ("read", 0, "a", 384), ("read", 0, "b", 512)],
        [_window(0, "a", 128), ("read", 0, "a", 512), ("read", 1, "a", 512), ("no window", 0), ("read", 0, "a", 128)],
        [_window(1, "b", 256, 1.0, "normal"), ("read", 1, "b", 256), ("read", 0, "b", 256)],
        [_window(0, "a", 256), ("read", 0, "a", 256), ("reset",), ("read", 1, "a", 256), ("read", 0, "a", 256)],
        [
            _window(0, "b", 512),
            _window(1, "a", 512),
            ("read", 0, "a", 512),
            ("read", 1, "a", 768),
            ("read", 1, "b", 128),
        ],
        [_window(1, "c", 256, 0.5), ("read", 1, "c", 512), _window(1, "c", 128), ("read", 1, "c", 512)],
        [_window(0, "a", 512), ("read", 0, "a", 512), _window(0, "a", 256, 0.25), ("read", 0, "a", 512), ("reset",)],
        [
            *(_window(0, "a", 512), ("read", 0, "a", 512), _window(0, "a", 128, 1.0, "normal"), ("read", 1, "a", 512)),
            *(("read", 0, "a", 512), _window(1, "a", 256, 1.0, "normal"), ("read", 1, "a", 512)),
        ],
        [],
    ]
    programs += [_program(bench) for _ in range(5)]
    for steps in programs:
        with bench.case(f"a program of {len(steps)} steps", profile=_small()) as trial:
            trial.call(list(steps), fresh=True)
            _compare(bench, steps, trial.value, _replayed(trial, steps))
            bench.measure(CALLS, len(trial.calls))


def _program(bench: StreamBench) -> list[Step]:
    """Steps by the seed: more reads and windows than anything else."""
    steps: list[Step] = []
    for _ in range(bench.between(8, 14)):
        kind, stream, array = bench.between(0, 9), bench.between(0, 1), ARRAYS[bench.between(0, 2)]
        size = _UNIT * bench.between(1, _LONGEST)
        if kind < 3:
            hit = ("normal", "persisting", "persisting", "persisting")[bench.between(0, 3)]
            ratio = (0.25, 0.5, 1.0, 1.0)[bench.between(0, 3)] if hit == "persisting" else 1.0
            steps.append(_window(stream, array, size, ratio, hit))
        elif kind < 8:
            steps.append(("read", stream, array, size))
        else:
            steps.append(("no window", stream) if kind == 8 else ("reset",))
    return steps


def _replayed(trial: Trial, steps: Sequence[Step]) -> list[float]:
    """The steps made on the trial's device: KiB that persist behind each."""
    device, cache, kernel = trial.device, l2_of(trial), trial.kernel(_READ, "read")
    set_aside(trial, most_aside(trial))
    memory: dict[str, Any] = {name: cupy.zeros(_LONGEST * _UNIT * KIB // 4, np.float32) for name in ARRAYS}
    out, streams, found = cupy.zeros(1, np.float32), [trial.stream() for _ in range(2)], []
    for what, *rest in steps:
        if what == "window":
            stream, array, size, ratio, hit = rest
            fields = (memory[array].data.ptr, size * KIB, ratio, _PROPERTIES[hit], NORMAL)
            device.stream_set_attribute(streams[stream].ptr, WINDOW, fields)
        elif what == "no window":
            device.stream_set_attribute(streams[rest[0]].ptr, WINDOW, (0, 0, 0.0, NORMAL, NORMAL))
        elif what == "read":
            stream, array, size = rest
            kernel((size * KIB // (16 * _THREADS),), (_THREADS,), (memory[array], out), stream=streams[stream])
        else:
            device.synchronize()
            device.reset_persisting_l2()
        device.synchronize()
        found.append(cache.persisting / KIB)
    return found


def _told(
    steps: Sequence[Step],
    *,
    loads: bool = False,
    whole: bool = False,
    ratio: bool = True,
    own: bool = True,
    plain: bool = False,
    window_ends: bool = False,
    reset_ends: bool = False,
    takes: bool = True,
    hits: bool = True,
    beyond: bool = False,
) -> list[float]:
    """What persists by the rules, in KiB; each option breaks one of them."""
    windows: dict[int, Step] = {}
    persists: dict[tuple[str, int], float] = {}
    found = []
    for what, *rest in steps:
        touched: range | None = None
        window: Step | None = None
        if what == "window":
            stream, window = rest[0], tuple(rest[1:])
            windows[stream if own else 0] = window
            touched = range(0, window[1], _UNIT) if loads else None
            array = window[0]
        elif what == "no window":
            windows.pop(rest[0] if own else 0, None)
            if window_ends:
                persists.clear()
        elif what == "read":
            stream, array, size = rest
            window = windows.get(stream if own else 0)
            touched = range(0, size, _UNIT)
            if whole and window is not None and window[0] == array:
                touched = range(0, window[1], _UNIT)
        else:
            persists.clear()
            if reset_ends:
                windows.clear()
        for at in touched or ():
            if window is not None and window[0] == array and (at < window[1] or beyond):
                part = (window[2] if ratio else 1.0) if window[3] == "persisting" or not hits else 0.0
                persists[array, at] = part if takes else max(part, persists.get((array, at), 0.0))
            elif plain:
                persists.pop((array, at), None)
        found.append(_UNIT * sum(persists.values()))
    return found


_MISTAKES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("a window loads nothing: lines persist when a kernel of its stream has touched them", {"loads": True}),
    ("a kernel makes only those lines persist that it touches, not all of the window", {"whole": True}),
    ("a window is its own stream's: kernels in the other stream do not have it", {"own": False}),
    ("a kernel that touches lines outside of its window, or without one, leaves persisting ones as they are",
     {"plain": True}),
    ("lines that persist go on doing so when the window is gone", {"window_ends": True}),
    ("a reset changes lines, not windows: the next kernel makes lines persist again", {"reset_ends": True}),
    ("for each line the newest kernel decides: a window may also take away what persists", {"takes": False}),
    ("of a window with a hit ratio below 1 only that part persists", {"ratio": False}),
    ("a window whose hitProp is normal makes no line persist", {"hits": False}),
    ("a kernel makes only those lines persist that the window covers, not all that it touches", {"beyond": True}),
)  # fmt: skip


def _compare(bench: StreamBench, steps: Sequence[Step], got: Any, right: list[float]) -> None:
    try:
        said = None if isinstance(got, (str, dict)) else np.asarray(got, float)
    except (TypeError, ValueError):
        said = None
    if said is None or said.shape != (len(right),):
        text = f"the function returned {got!r:.60}; wanted is a list of {len(right)} numbers, one for each step"
        bench.find("correctness", "wrong shape", text, look="one number behind each step, also where nothing changes")
        return
    wrong = np.flatnonzero(~np.isclose(said, right, rtol=0, atol=0.5))
    if not wrong.size:
        return
    at = int(wrong[0])
    up_to = steps[: at + 1]
    mistake = next((text for text, broken in _MISTAKES if np.allclose(_told(steps, **broken), said, atol=0.5)), "")
    if not mistake and np.allclose(said, KIB * np.array(right)):
        mistake = "these are bytes: sizes are in KiB"
    bench.find(
        "correctness",
        "wrong values",
        f"behind step {at} {right[at]:g} KiB persist; the function says {said[at]:g}. The steps up to there: "
        f"{'; '.join(' '.join(map(str, step)) for step in up_to)}",
        look="which lines the kernel touches, and what the window of its stream says of these",
        mistake=mistake,
    )


PERSISTING_LINES = Exercise(
    id="05.4",
    title="Tell what persists",
    kernel="persisting",
    examine=_persisting,
    correctness=3,
    gates=(CALLS,),
    answer="function",
)

# --- 05.5 ------------------------------------------------------------------------------------------------------------

_PHASE = r"""
__device__ bool found(const float4* x) { return x->x + x->y + x->z + x->w == 12345.0f; }
extern "C" __global__ void use(const float4* data, int n, const float4* passing, int more, unsigned* order, int mark) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && found(data + i)) order[1] = 1;
    if (i < more && found(passing + i)) order[1] = 1;
    if (i == 0) order[0] = 3 * order[0] + mark;
}
"""
_TABLE, _PASSING, _STACK = 0.45, 0.45, 0.49
"""Parts of the L2: a table, what passes in each launch of its phase, and what a phase without a table
reads again and again, which stays if nothing else persists."""
FOUND = Gate(
    "look-ups that hit, over those that could, from the third launch of a phase on (%)",
    points=2,
    least=95,
    baseline=0,
    look="in a phase with a table: its window; in one without: what the phases before have left in the L2",
)
PERSISTS = Gate(
    "what persists when a phase begins without the table before it, or all is done (% of the L2)",
    points=1,
    most=0,
    baseline=88,
    look="cudaCtxResetPersistingL2Cache: lines go on persisting when the window is gone, and after the phase",
)
TABLE = Gate(
    "the part of a table that persists, from its third launch on, to the end of the last of its phases (%)",
    points=1,
    least=95,
    baseline=98,
    look="the window of a phase with a table: all of it, ratio 1, hits persist; and resets before it is done with",
)
RESETS = Gate(
    "resets beyond one for each time that a table is done with",
    points=1,
    most=0,
    baseline=1,
    look="a phase without a table leaves nothing to give back, and a table that the next phase uses is to stay",
)
WAITS = Gate(
    "waits of the host, beyond one for each time that a table is done with",
    most=0,
    baseline=0,
    look="one wait covers all launches of a phase, and a phase without a table needs none",
)
_LEFT = LEFT.of(0, baseline=0)
POLLS = Gate("queries of the host", most=0, baseline=0, look="asking again and again keeps the host busy")


class _Kept(Observer):
    """What persists before each kernel of that name starts."""

    def __init__(self, trial: Trial, name: str) -> None:
        self._cache, self._name = l2_of(trial), name
        self.before: list[tuple[KernelOperation, int]] = []
        trial.device.observers.append(self)

    def started(self, operation: Operation) -> None:
        if isinstance(operation, KernelOperation) and operation.name == self._name:
            self.before.append((operation, self._cache.persisting))


Phase = tuple[int | None, int]
"""The number of its table, and rounds."""


def _phases(bench: StreamBench) -> None:
    more = bench.between(3, 4)
    cases: tuple[tuple[str, list[Phase]], ...] = (
        ("a phase with a table, then one without", [(0, 3), (None, 4)]),
        ("two tables, each with a phase behind it", [(0, 3), (None, 3), (1, more), (None, 3)]),
        ("one table after the other, the first in two phases", [(None, 3), (0, 3), (0, 1), (1, more)]),
        ("a table that comes back", [(1, 1), (1, 3), (1, more), (None, 3), (1, 3)]),
        ("no table", [(None, more), (None, 1)]),
    )
    for text, phases in cases:
        with bench.case(text, profile=_small()) as trial:
            _run_phases(bench, trial, phases)


def _run_phases(bench: StreamBench, trial: Trial, phases: Sequence[Phase]) -> None:
    kept, kernel = _Kept(trial, "use"), trial.kernel(_PHASE, "use")
    order, made = trial.array(np.zeros(2, np.uint32)), list[int]()
    passing, stack = (cupy.zeros(int(part * _L2) // 4, np.float32) for part in (_PASSING, _STACK))
    tables = [cupy.zeros(int(_TABLE * _L2) // 4, np.float32) for _ in range(2)]
    set_aside(trial, most_aside(trial))

    def launching(number: int, data: Any, more: int) -> Any:
        def launch(stream: Any) -> None:
            made.append(number)
            arguments = (data, np.int32(data.size // 4), passing, np.int32(more), order, np.int32(number + 1))
            kernel((-(-data.size // (4 * _THREADS)),), (_THREADS,), arguments, stream=stream)

        return launch

    given = []
    for number, (which, rounds) in enumerate(phases):
        data, more = (stack, 0) if which is None else (tables[which], passing.size // 4)
        given.append((which, launching(number, data, more), rounds))
    stream, room = trial.stream("the stream"), l2_of(trial).set_aside
    trial.call(tables, given, stream)
    if l2_of(trial).set_aside != room:
        bench.find("correctness", "set-aside changed", "the set-aside is not the function's to change")
    wanted = [number for number, (_, rounds) in enumerate(phases) for _ in range(rounds)]
    look = "each phase in its turn, each launch as often as its rounds say"
    trial.expect("order", order, np.array([_hash(wanted), 0], np.uint32), look=look)
    if bench.fine:
        _measure(bench, trial, phases, kept, made)
        bench.measure(_LEFT, float(window_of(trial, stream) is not None))


def _hash(numbers: Sequence[int]) -> int:
    """What the kernels make of their order."""
    value = 0
    for number in numbers:
        value = (3 * value + number + 1) % (1 << 32)
    return value


def _measure(bench: StreamBench, trial: Trial, phases: Sequence[Phase], kept: _Kept, made: Sequence[int]) -> None:
    tables = [which for which, _ in phases]
    done = sum(which is not None and which != after for which, after in zip(tables, [*tables[1:], None], strict=True))
    bench.measure(PERSISTS, 100 * l2_of(trial).persisting / _L2)
    for at, (kernel, persisting) in enumerate(kept.before):
        number = made[at]
        which, begins = tables[number], number not in made[:at]
        same = begins and number > 0 and which is not None and which == tables[number - 1]
        settled = at > 1 and made[at - 2] == number
        assert kernel.time is not None
        if begins and not same:
            bench.measure(PERSISTS, 100 * persisting / _L2)
        if settled:
            bench.measure(FOUND, 100 * kernel.time.held / (1.0 if which is None else _TABLE / (_TABLE + _PASSING)))
        if which is not None and (settled or same):
            bench.measure(TABLE, 100 * persisting / (_TABLE * _L2))
    resets = sum(call.name == "reset_persisting_l2" for call in trial.calls)
    bench.measure(RESETS, max(0, resets - done))
    bench.measure(WAITS, max(0, len(trial.waits) - done))
    bench.measure(POLLS, len(trial.polls))


PHASES = Exercise(
    id="05.5",
    title="Nothing left to the next phase",
    kernel="run",
    examine=_phases,
    gates=(FOUND, PERSISTS, TABLE, RESETS, WAITS, _LEFT, POLLS),
    answer="function",
)
