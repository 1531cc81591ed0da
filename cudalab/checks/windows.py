"""What an answer has set on the L2: the set-aside, access policy windows, and which lines persist."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cuda.bindings.runtime import cudaLimit

from cudalab.checks.bench import Bench
from cudalab.checks.streams import Trial
from cudalab.sim.device.calls.stream_attributes import WINDOW
from cudalab.sim.device.timing.l2_cache import L2Cache
from cudalab.sim.device.timing.l2_ranges import NORMAL, PERSISTING, STREAMING, Window

MIB = 1 << 20
NAMES = {NORMAL: "normal", STREAMING: "streaming", PERSISTING: "persisting"}
_LIMIT = int(cudaLimit.cudaLimitPersistingL2CacheSize)
_NEARLY = 0.005


def l2_of(trial: Trial) -> L2Cache:
    """The L2 of the trial's device."""
    cache: L2Cache = trial.device.state.timer.l2_of(0)
    return cache


def set_aside(trial: Trial, size: int) -> int:
    """Set so many bytes aside, as the exercise's own program does; returns what it is then."""
    trial.device.set_limit(_LIMIT, size)
    return l2_of(trial).set_aside


def most_aside(trial: Trial) -> int:
    return int(trial.device.profile.properties["persistingL2CacheMaxSize"])


def longest_window(trial: Trial) -> int:
    return int(trial.device.profile.properties["accessPolicyMaxWindowSize"])


def set_window(trial: Trial, stream: Any, array: Any, ratio: float = 1.0, hit: int = PERSISTING) -> None:
    """A window over all of the array."""
    fields = (array.data.ptr, array.nbytes, ratio, hit, STREAMING)
    trial.device.stream_set_attribute(stream.ptr, WINDOW, fields)


def window_of(trial: Trial, stream: Any) -> Window | None:
    """The window of a stream; None: it has none."""
    found = Window(*trial.device.stream_get_attribute(stream.ptr, WINDOW))
    return found if found.size else None


def expect_window(
    bench: Bench,
    found: Window | None,
    array: Any,
    *,
    size: int,
    ratio: float | None = 1.0,
    hit: int = PERSISTING,
    miss: Sequence[int] = (NORMAL, STREAMING),
    what: str = "the stream",
    refused: Sequence[str] = (),
) -> None:
    """Findings where a window is not one over the first ``size`` bytes of ``array`` with these properties. ``miss``:
    those that are right; ``refused``: the errors that the answer's calls returned."""
    if found is None:
        why = f": a call returned {refused[-1]}" if refused else ""
        rules = "at most accessPolicyMaxWindowSize bytes, a hitRatio from 0 to 1, and a missProp other than persisting"
        look = f"what a window may be: {rules}" if refused else ""
        text = f"{what} has no access policy window{why}"
        bench.find("correctness", "no window", text, look=look or "cudaStreamSetAttribute, and what it returns")
        return
    if (found.start, found.size) != (array.data.ptr, size):
        apart = found.start - array.data.ptr
        start = "where the array does" if not apart else f"{abs(apart)} bytes {'behind' if apart > 0 else 'before'} it"
        text = f"the window of {what} begins {start} and has "
        mistake = ""
        if found.size != size and found.size == array.size:
            mistake = "num_bytes counts elements: it is array.size, where bytes are wanted"
        bench.find(
            "correctness", "wrong range", f"{text}{found.size} bytes; wanted are {size} from the begin",
            look="base_ptr and num_bytes", mistake=mistake,
        )  # fmt: skip
    if found.hit != hit:
        text = f"hitProp of {what} is {NAMES[found.hit]}; wanted is {NAMES[hit]}"
        bench.find("correctness", "wrong property", text, look="hitProp")
    elif ratio is not None and found.hit != found.miss and abs(found.ratio - ratio) > _NEARLY:
        text = f"the hit ratio of {what} is {found.ratio:.4g}; wanted is {ratio:.4g}"
        bench.find("correctness", "wrong ratio", text, look="which part of the window should get hitProp")
    if found.miss not in miss:
        wanted = " or ".join(NAMES[each] for each in miss)
        text = f"missProp of {what} is {NAMES[found.miss]}; wanted is {wanted}"
        bench.find("correctness", "wrong property", text, look="missProp")
