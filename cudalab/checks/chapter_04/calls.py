"""04.4 and 04.5: one copy for many rows, and allocations that fail half-way."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cudalab.checks.bench import Known
from cudalab.checks.exercise import Exercise
from cudalab.checks.gate import Gate
from cudalab.checks.streams import StreamBench, Trial
from cudalab.sim.device.observer import Observer

if TYPE_CHECKING:
    from cudalab.sim.device.caller import Place
    from cudalab.sim.device.declaration import Call
    from cudalab.sim.device.device import Device

# --- 04.4 ------------------------------------------------------------------------------------------------------------

CROP_ROWS = 24
CALLS = Gate(
    "calls that copy",
    points=2,
    least=1,
    most=1,
    baseline=CROP_ROWS,
    look="cudaMemcpy2D copies all rows at once: a pitch, a width in bytes and a height",
)
MOVED = Gate("bytes copied, for each byte of out", least=1, most=1, baseline=1, look="each pixel is to be copied once")


def _crop(bench: StreamBench) -> None:
    for height, width in ((CROP_ROWS, 40), (1, 1), (bench.between(2, 20), bench.between(30, 90))):
        with bench.case(f"{width} x {height} pixels out of a larger image") as trial:
            _crop_once(bench, trial, height, width)


def _crop_once(bench: StreamBench, trial: Trial, height: int, width: int) -> None:
    top, left = bench.between(1, 9), bench.between(1, 30)
    rows, columns = top + height + bench.between(0, 3), left + width + bench.between(0, 5)
    pitch = 512 * (1 + bench.between(columns * 4, columns * 4 + 600) // 512)
    whole = bench.random((rows, pitch // 4))
    image = trial.array(whole, "image")
    out = trial.pinned(np.full((height, width), np.nan, np.float32))
    trial.call(image.data.ptr, pitch, top, left, out)
    look = "where the first pixel is (top * pitch + 4 * left bytes on), both pitches, the width in bytes, the rows"
    known = _crop_mistakes(trial, whole, top, left, out)
    trial.expect("out", out, whole[top : top + height, left : left + width], known=known, look=look)
    copies = [one for one in trial.operations if one.kind == "copy"]
    bench.measure(CALLS, sum(call.name.startswith("memcpy") for call in trial.calls))
    bench.measure(MOVED, sum(one.bytes for one in copies) / out.nbytes)


def _crop_mistakes(trial: Trial, whole: np.ndarray, top: int, left: int, out: np.ndarray) -> tuple[Known, ...]:
    height, width = out.shape
    expected = whole[top : top + height, left : left + width]
    first = 4 * (top * whole.shape[1] + left)  # where the first pixel is, in bytes
    nothing, narrow, short, packed = (np.full(out.shape, np.nan, np.float32) for _ in range(4))
    narrow[:, : width // 4] = expected[:, : width // 4]
    packed.view(np.uint8).ravel()[: height * width] = expected.copy().view(np.uint8)[:, :width].ravel()
    short[:-1] = expected[:-1]
    refused = Known("the call was refused, and nobody looked at what it returned", nothing)
    copied = any(one.kind == "copy" for one in trial.operations)
    return (
        *((refused,) if _refused(trial, "memcpy") else () if copied else (Known("no call copies", nothing),)),
        Known("the corner at the top left is copied", whole[:height, :width]),
        Known("the rows are taken as if they followed each other without a gap", _rows(whole, first, 4 * width, out)),
        Known("left is taken for bytes: a pixel has four", _rows(whole, first - 3 * left, 4 * whole.shape[1], out)),
        Known("the width is given in pixels, and bytes are wanted", narrow),
        Known("the width, and the pitch of out, are given in pixels, and bytes are wanted", packed),
        Known("the last row is missing", short),
    )


def _refused(trial: Trial, name: str) -> bool:
    """Did a call whose name begins like this return an error?"""
    return any(entry.error and entry.name.startswith(name) for entry in trial.device.log.entries)


def _rows(image: np.ndarray, first: int, pitch: int, out: np.ndarray) -> np.ndarray:
    """What a copy of rows that begin every ``pitch`` bytes would bring, from the byte ``first`` of the image on."""
    data, row = image.tobytes(), out.shape[1] * 4
    rows = (data[first + k * pitch : first + k * pitch + row] for k in range(out.shape[0]))
    return np.frombuffer(b"".join(rows), np.float32).reshape(out.shape)


CROP = Exercise(
    id="04.4",
    title="One call for all rows",
    kernel="crop",
    examine=_crop,
    gates=(CALLS, MOVED),
    answer="function",
)

# --- 04.5 ------------------------------------------------------------------------------------------------------------

LEFT = Gate(
    "allocations left behind when it fails", points=2, most=0, look="what was allocated before the one that failed"
)
PENDING = Gate(
    "errors left for somebody else to find",
    points=1,
    most=0,
    look="cudaGetLastError() takes the error that the failed call has left",
)


class _Neighbour(Observer):
    """Another program on the device: it takes all memory that is left, right behind the first call of this name."""

    def __init__(self, device: Device, name: str) -> None:
        self._memory, self._name = device.state.memory, name

    def called(self, call: Call, place: Place, start: int, end: int) -> None:
        if call.name == self._name:
            self._memory.capacity = min(self._memory.capacity, self._memory.in_use)


def _allocate_all(bench: StreamBench) -> None:
    small = [bench.between(1, 1 << 20) for _ in range(bench.between(3, 6))]
    too_much = 1 << 50
    for text, sizes, fails, taken_behind in (
        ("there is room", small, False, ""),
        ("no buffers at all", [], False, ""),
        ("the last is too large", [*small, too_much], True, ""),
        ("one in the middle is too large", [*small[:2], too_much, *small[2:]], True, ""),
        ("the first is too large", [too_much, *small], True, ""),
        ("another program takes the rest behind the first buffer", small, True, "malloc"),
        ("another program takes the rest when you have asked what is free", small[:1], False, "memory_info"),
    ):
        with bench.case(text) as trial:
            trial.device.observers.append(_Neighbour(trial.device, taken_behind))
            _allocate_once(bench, trial, sizes, fails=fails)


def _allocate_once(bench: StreamBench, trial: Trial, sizes: list[int], *, fails: bool) -> None:
    value = trial.call(sizes)
    kept = trial.left[0]
    if fails or _refused(trial, "malloc"):
        if value is not None:
            text = f"the function returned {value!r}; None is right, because one of the buffers cannot be had"
            bench.find("correctness", "wrong values", text, look="the error code of each cudaMalloc")
        bench.measure(LEFT, kept)
        bench.measure(PENDING, int(trial.device.peek_at_last_error() != 0))
        return
    found = [int(pointer) for pointer in value] if isinstance(value, list | tuple) else None
    if found is None or len(found) != len(sizes) or kept != len(sizes) or len(set(found)) != len(found):
        text = (
            f"the function returned {value!r} and keeps {kept} allocations; wanted is a list of {len(sizes)} pointers"
        )
        bench.find("correctness", "wrong values", text, look="what cudaMalloc returns: the error code, and the pointer")
        return
    for pointer, size in zip(found, sizes, strict=True):
        start, room = trial.device.address_range(pointer) or (pointer, 0)
        if start != pointer or room < size:
            text = f"there are {start + room - pointer} bytes behind the pointer of a buffer for {size}"
            bench.find("correctness", "too small", text, look="cudaMalloc(size), in bytes, for each of sizes")


ALLOCATE = Exercise(
    id="04.5",
    title="Out of memory, and nothing lost",
    kernel="allocate_all",
    examine=_allocate_all,
    correctness=1,
    gates=(LEFT, PENDING),
    answer="function",
)
