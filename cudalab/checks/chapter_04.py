"""The exercises of chapter 04: a guard for every size, a coalesced column sum, rows that start at their pitch, one copy
for many rows, allocations that fail half-way, and structures taken apart into arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from cudalab.checks.bench import KernelBench, Known, counted
from cudalab.checks.exercise import Exercise
from cudalab.checks.gate import Gate
from cudalab.checks.streams import StreamBench, Trial
from cudalab.checks.work import ATOMICS_EACH, BUSIEST, LOADED, SECTORS_LOADED, SECTORS_STORED, STORED, Needs
from cudalab.sim.device.observer import Observer

if TYPE_CHECKING:
    from cudalab.sim.device.caller import Place
    from cudalab.sim.device.declaration import Call
    from cudalab.sim.device.device import Device

# --- 04.1 ------------------------------------------------------------------------------------------------------------

REVERSE_SIZES = (1, 31, 32, 33, 100, 255, 256, 257, 1000, 4097)
REVERSE_BLOCKS = (32, 96, 256)


def _reverse(bench: KernelBench) -> None:
    for size in REVERSE_SIZES:
        for block in REVERSE_BLOCKS:
            _reverse_once(bench, size, block)
    size = bench.between(4000, 5000)
    _reverse_once(bench, size, 64, Needs(4 * size, 4 * size, share=8))
    if bench.fine:  # more than 65,536 elements: an index of 16 bits is too short
        _reverse_once(bench, bench.between(66_000, 70_000), 256)
    empty = bench.output("y", (1,), np.float32)
    bench.launch((1,), (32,), (bench.input("x", np.zeros(1, np.float32)), empty, np.int32(0)), "n = 0")
    bench.untouched(empty, "n is 0, so nothing may be written")


def _reverse_once(bench: KernelBench, size: int, block: int, needs: Needs | None = None) -> None:
    x = bench.random(size)
    source, out = bench.input("x", x), bench.output("y", (size,), np.float32)
    # One block more than needed: a guard has to hold whole blocks back, too.
    grid, case = (size + block - 1) // block + 1, f"n = {size}, {counted(block, 'thread')} per block"
    bench.launch((grid,), (block,), (source, out, np.int32(size)), case, needs=needs)
    bench.expect(
        out,
        x[::-1],
        known=(
            Known("the values are copied in order, not reversed", x),
            Known("the first and last elements are left out", _without_ends(x[::-1])),
            Known("the last element is left out", _without_last(x[::-1])),
        ),
    )


def _without_ends(x: np.ndarray) -> np.ndarray:
    out = np.full_like(x, np.nan)
    out[1:-1] = x[1:-1]
    return out


def _without_last(x: np.ndarray) -> np.ndarray:
    out = x.copy()
    out[0] = np.nan  # the thread of the last input element writes the first output
    return out


REVERSE = Exercise(
    id="04.1",
    title="Guard every size",
    kernel="reverse",
    examine=_reverse,
    correctness=1,
    soundness=1,
    gates=(BUSIEST.of(1), LOADED.of(), STORED.of()),
)

# --- 04.2 ------------------------------------------------------------------------------------------------------------

SUM_SHAPES = ((1, 1), (3, 5), (64, 64), (100, 33), (33, 100), (257, 31))


def _column_sum(bench: KernelBench) -> None:
    for rows, columns in SUM_SHAPES:
        for block in (32, 128):
            _sum_once(bench, rows, columns, block)
    rows, columns = bench.between(96, 104), 32 * bench.between(7, 9)
    _sum_once(bench, rows, columns, 32, Needs(4 * rows * columns, 4 * columns, share=4 * (rows + 1)))
    if bench.fine:  # more than 65,536 elements: an index of 16 bits is too short
        _sum_once(bench, bench.between(300, 310), columns, 32)


def _sum_once(bench: KernelBench, rows: int, columns: int, block: int, needs: Needs | None = None) -> None:
    matrix = bench.random((rows, columns))
    m, sums = bench.input("m", matrix), bench.zeroed("sums", (columns,), np.float32)
    grid = (max(rows, columns) + block - 1) // block
    arguments = (m, sums, np.int32(rows), np.int32(columns))
    case = f"{counted(rows, 'row')} of {columns}, {counted(block, 'thread')} per block"
    bench.launch((grid,), (block,), arguments, case, needs=needs)
    bench.expect(sums, matrix.sum(axis=0, dtype=np.float64), tolerance=1e-4, known=_sum_mistakes(matrix))


def _sum_mistakes(matrix: np.ndarray) -> tuple[Known, ...]:
    rows, columns = matrix.shape
    found = [
        Known("only the last row is added", matrix[-1]),
        Known("the first row is left out", matrix[1:].sum(axis=0)),
    ]
    if rows == columns:
        found.append(Known("rows are summed, not columns: row and column are swapped", matrix.sum(axis=1)))
    elif rows > columns:
        swapped = matrix.ravel()[: columns * rows].reshape(columns, rows).sum(axis=1)
        found.append(Known("the row length is taken for the number of rows", swapped))
    return tuple(found)


COLUMN_SUM = Exercise(
    id="04.2",
    title="Sum columns with coalesced loads",
    kernel="column_sum",
    examine=_column_sum,
    gates=(
        SECTORS_LOADED.of(2, baseline=32),
        ATOMICS_EACH.of(1, most=16, baseline=100),
        LOADED.of(),
        BUSIEST.of(),
    ),
)

# --- 04.3 ------------------------------------------------------------------------------------------------------------

IMAGE_SHAPES = ((1, 1), (1, 40), (40, 1), (16, 16), (30, 50), (33, 129))  # height, width


def _smooth(image: np.ndarray) -> np.ndarray:
    wide = np.pad(image.astype(np.float64), 1, mode="edge")
    around = wide[:-2, 1:-1] + wide[2:, 1:-1] + wide[1:-1, :-2] + wide[1:-1, 2:]
    return (around + wide[1:-1, 1:-1]) / 5


def _pitched_smooth(bench: KernelBench) -> None:
    _smooth_top(bench)
    for height, width in IMAGE_SHAPES:
        for block in ((16, 16), (32, 4)):
            _smooth_once(bench, height, width, block)
    height, width = bench.between(25, 32), 32 * bench.between(3, 4)
    size = 4 * height * width
    _smooth_once(bench, height, width, (32, 8), Needs(size, size, share=4 * 6))
    if bench.fine:  # more than 65,536 bytes in either image: an offset of 16 bits is too short
        _smooth_once(bench, bench.between(90, 110), 32 * bench.between(6, 8), (32, 8))


def _smooth_top(bench: KernelBench) -> None:
    """Only the top quarter of two tall images: a pitch that counts elements leads to every fourth row, not out of the
    image, and so can be told from other mistakes."""
    height, width, pitch = 4, 24, 512
    image = bench.random((4 * height, width))
    source = bench.input("source", image, pitch=pitch)
    result = bench.output("result", image.shape, np.float32, pitch=pitch)
    case = f"the top {width} x {height} pixels of taller images, blocks of 16 x 16"
    bench.launch((2, 1), (16, 16), _smooth_arguments(source, result, width, height), case)
    mistake = "the pitch, which is in bytes, is added to a float*, which counts elements"

    def shown(step_in: int, step_out: int) -> np.ndarray:
        out = np.full(image.shape, np.nan)
        out[: height * step_out : step_out] = _smooth(image[: height * step_in : step_in])
        return out

    bench.expect(
        result,
        shown(1, 1),
        tolerance=1e-5,
        known=tuple(Known(mistake, shown(*steps)) for steps in ((4, 1), (1, 4), (4, 4))),
        look="how a row's address is computed: (const float*)((const char*)base + row * pitch), pitch in bytes",
    )


def _smooth_once(
    bench: KernelBench, height: int, width: int, block: tuple[int, int], needs: Needs | None = None
) -> None:
    image = bench.random((height, width))
    # The two pitches differ, as they may when the images come from different allocations.
    source = bench.input("source", image, pitch=512 * (1 + width * 4 // 512))
    result = bench.output("result", (height, width), np.float32, pitch=512 * (2 + width * 4 // 512))
    grid = ((width + block[0] - 1) // block[0], (height + block[1] - 1) // block[1])
    case = f"{width} x {height} pixels, blocks of {block[0]} x {block[1]}"
    bench.launch(grid, block, _smooth_arguments(source, result, width, height), case, needs=needs)
    swapped = _smooth(image.T).reshape(height, width) if height == width else image * 0
    bench.expect(
        result,
        _smooth(image),
        tolerance=1e-5,
        known=(Known("the image comes out unchanged", image), Known("x and y are swapped", swapped)),
        look="how a row's address is computed: (const float*)((const char*)base + row * pitch), pitch in bytes",
    )


def _smooth_arguments(source: object, result: object, width: int, height: int) -> tuple[Any, ...]:
    s, r = source, result
    return (s, np.uint64(s.pitch), r, np.uint64(r.pitch), np.int32(width), np.int32(height))  # type: ignore[attr-defined]


SMOOTH = Exercise(
    id="04.3",
    title="Repair a filter that ignores the pitch",
    kernel="smooth",
    examine=_pitched_smooth,
    correctness=2,
    soundness=1,
    gates=(SECTORS_LOADED.of(2, most=7), SECTORS_STORED.of(), BUSIEST.of(), LOADED.of(most=5.1), STORED.of()),
)

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
    nothing, narrow, short = (np.full(out.shape, np.nan, np.float32) for _ in range(3))
    narrow[:, : width // 4] = expected[:, : width // 4]
    short[:-1] = expected[:-1]
    why = (
        "the call was refused, and nobody looked at what it returned" if _refused(trial, "memcpy") else "no call copies"
    )
    return (
        Known(why, nothing),
        Known("the corner at the top left is copied", whole[:height, :width]),
        Known("the rows are taken as if they followed each other without a gap", _rows(whole, first, 4 * width, out)),
        Known("left is taken for bytes: a pixel has four", _rows(whole, first - 3 * left, 4 * whole.shape[1], out)),
        Known("the width is given in pixels, and bytes are wanted", narrow),
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

# --- 04.6 ------------------------------------------------------------------------------------------------------------

FIELDS = ("x", "y", "z", "mass")
PARTICLES = (1, 7, 31, 32, 33, 255, 257, 1000, 4097)


def _to_arrays(bench: KernelBench) -> None:
    for count in PARTICLES:
        for block in (32, 96, 256):
            _to_arrays_once(bench, count, block)
    count = 32 * bench.between(90, 110)
    _to_arrays_once(bench, count, 128, Needs(16 * count, 16 * count, share=32))
    if bench.fine:  # more than 65,536 particles: an index of 16 bits is too short
        _to_arrays_once(bench, bench.between(66_000, 70_000), 256)


def _to_arrays_once(bench: KernelBench, count: int, block: int, needs: Needs | None = None) -> None:
    values = bench.random((count, len(FIELDS)))
    particles = bench.input("particles", values)
    made = [bench.output(field, (count,), np.float32) for field in FIELDS]
    grid, case = -(-count // block) + 1, f"{counted(count, 'particle')}, {counted(block, 'thread')} per block"
    bench.launch((grid,), (block,), (particles, *made, np.int32(count)), case, needs=needs)
    flat = values.ravel()
    for number, (array, right) in enumerate(zip(made, values.T, strict=True)):
        others = [
            Known(f"{array.name} gets what belongs to {field}", values[:, other])
            for other, field in enumerate(FIELDS)
            if other != number
        ]
        as_it_lies = Known(
            "particles is read as if its arrays already followed each other", flat[number * count :][:count]
        )
        bench.expect(
            array, right, known=(*others, as_it_lies), look="where field number f of particle i lies: 4 * i + f floats"
        )


TO_ARRAYS = Exercise(
    id="04.6",
    title="A structure of arrays",
    kernel="to_arrays",
    examine=_to_arrays,
    gates=(SECTORS_LOADED.of(3, baseline=16), SECTORS_STORED.of(), LOADED.of(), STORED.of(), BUSIEST.of()),
)

EXERCISES = (REVERSE, COLUMN_SUM, SMOOTH, CROP, ALLOCATE, TO_ARRAYS)
