"""What the L2 keeps between launches, copies and memsets, and what access policy windows do there."""

from __future__ import annotations

import json
import struct
from dataclasses import replace
from pathlib import Path

import pytest

from cudalab.sim.compiler import compile
from cudalab.sim.device import Device
from cudalab.sim.device.profile import load
from cudalab.sim.device.queue.operation import Operation
from cudalab.sim.device.timing.l2_cache import L2Cache
from cudalab.sim.device.timing.l2_ranges import NORMAL, PERSISTING, STREAMING, L2Use, Sweep, Window
from cudalab.sim.device.timing.l2_traffic import traffic_of

KB, MB = 1 << 10, 1 << 20
SWEEP = r"""
extern "C" __global__ void sweep(const float4* x, float* out, int n) {
    float s = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) s += x[i].x + x[i].w;
    if (s == 12345.f) *out = s;
}
extern "C" __global__ void window(int* often, int* once, int n, int size) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    often[i % size] = 2 * often[i % size];
    once[i] = 2 * once[i];
}"""


def swept(*ranges: tuple[int, int], times: float = 1.0) -> list[Sweep]:
    """A sweep over each (start, size); the first of them so many times."""
    return [Sweep(start, size, size, times if not index else 1.0) for index, (start, size) in enumerate(ranges)]


COLUMNS = r"""
extern "C" __global__ void columns(float* x, int rows, int pitch) {
    int c = blockIdx.x * blockDim.x + threadIdx.x; float v = 0;
    for (int r = 0; r < rows; r++) { v = v * 0.75f + x[r * pitch + c]; x[r * pitch + c] = v; }
}"""


class Laboratory:
    """An L2 by itself, and launches that it sees."""

    def __init__(self, set_aside: int = 0) -> None:
        self.l2 = L2Cache(load("h200"))
        self.l2.set_aside = set_aside

    def take(self, *ranges: tuple[int, int], window: Window | None = None, times: float = 1.0) -> L2Use:
        return self.l2.launch((ranges, times), window, lambda: swept(*ranges, times=times))


FAR = 1 << 30


def test_a_range_is_there_again_until_others_have_pushed_it_out() -> None:
    lab, mine = Laboratory(), (0, 16 * MB)
    assert lab.take(mine)[:2] == (0.0, 1.0)
    assert lab.take(mine)[:2] == (1.0, 0.0)
    lab.take((FAR, 16 * MB))
    assert lab.take(mine).held == 1.0
    lab.take((FAR, 128 * MB))
    assert lab.take(mine).held == 0.0


def test_a_range_larger_than_the_l2_never_hits() -> None:
    lab = Laboratory()
    assert [lab.take((0, 256 * MB)).held for _ in range(3)] == [0.0, 0.0, 0.0]


def test_part_of_a_range_that_was_used_last_is_there() -> None:
    lab = Laboratory()
    lab.take((0, 256 * MB))
    assert lab.take((240 * MB, 16 * MB)).held == 1.0
    assert lab.take((0, 16 * MB)).held == 0.0


@pytest.mark.parametrize("size", [4 * MB, 100 * MB, 1000 * MB])
def test_lines_stay_however_far_apart_they_lie(size: int) -> None:
    """Two columns of which 4 MB are touched in all."""
    l2 = L2Cache(load("h200"))
    sweeps = [Sweep(start, size, 4 * MB) for start in (0, FAR)]
    found = [l2.launch("columns", None, lambda: sweeps) for _ in range(2)]
    assert [each.held for each in found] == [0.0, 1.0]


def test_lines_that_were_loaded_once_go_before_stored_ones() -> None:
    loaded, stored = Laboratory(), Laboratory()
    loaded.take((0, 16 * MB))
    stored.l2.sweep((), ((0, 16 * MB),))
    for lab in (loaded, stored):
        lab.take((FAR, 24 * MB))
    assert loaded.take((0, 16 * MB)).held < 0.2
    assert stored.take((0, 16 * MB)).held == 1.0


def test_a_copy_from_the_host_leaves_nothing_of_what_it_overwrites() -> None:
    lab = Laboratory()
    lab.take((0, 16 * MB))
    lab.l2.drop(((0, 8 * MB),))
    assert lab.take((0, 16 * MB)).held == pytest.approx(0.5, abs=0.02)


def with_window(ratio: float, window: int, set_aside: int) -> float:
    """The share of a window's lookups that hit in the sliding-window kernel, which touches as much other data in each
    round as the window has."""
    lab, ranges = Laboratory(set_aside), ((0, window), (FAR, 100 * window))
    used, found = lab.l2.launch_repeated(
        ranges, Window(0, window, ratio, PERSISTING, STREAMING), lambda: swept(*ranges, times=100.0)
    )
    assert used.held == pytest.approx(sum(each.hit for each in found) / sum(each.asked for each in found), abs=0.01)
    return sum(found[which].hit for which in (PERSISTING, STREAMING)) / (100.0 * window)


def test_the_guides_window_thrashes_only_at_hit_ratio_one() -> None:
    """CUDA C++ Programming Guide, "L2 Policy for Persisting Accesses": a window of 32 KB, swept again and again, and a
    set-aside of 16 KB; in an L2 of which that is half."""
    profile = load("h200")
    small = replace(profile, properties={**profile.properties, "l2CacheSize": 32 * KB})

    def persisting(ratio: float) -> float:
        l2 = L2Cache(small)
        l2.set_aside = 16 * KB
        window = Window(0, 32 * KB, ratio, PERSISTING, STREAMING)
        _, found = l2.launch_repeated("window", window, lambda: swept((0, 32 * KB), times=100.0))
        return found[PERSISTING].hit / found[PERSISTING].asked

    assert persisting(1.0) == 0.0
    assert persisting(0.5) == 1.0


@pytest.mark.parametrize(("window", "best"), [(40, 0.5), (64, 0.25)])
def test_a_larger_window_wants_a_smaller_hit_ratio(window: int, best: float) -> None:
    found = {ratio: with_window(ratio, window * MB, 31457280) for ratio in (1.0, 0.75, 0.5, 0.25)}
    assert max(found, key=lambda ratio: found[ratio]) == best
    assert with_window(1.0, 24 * MB, 31457280) > 0.95


@pytest.mark.parametrize("read", [True, False], ids=["the window stays", "it is taken off"])
def test_persisting_lines_survive_what_pushes_normal_ones_out_but_not_everything(read: bool) -> None:
    """An H200 has none of 16 MB left behind reads of 128 MB, with and without the window."""
    lab, plain, window = Laboratory(31457280), Laboratory(), Window(0, 16 * MB, 1.0, PERSISTING, STREAMING)
    for other, held in ((40 * MB, 1.0), (128 * MB, 0.0)):
        lab.take((0, 16 * MB), window=window)
        plain.take((0, 16 * MB))
        lab.take((FAR, other), window=window if read else None)
        plain.take((FAR, other))
        assert lab.take((0, 16 * MB), window=window).held == held
        assert plain.take((0, 16 * MB)).held == 0.0


def test_a_reset_gives_persisting_lines_back() -> None:
    lab, window = Laboratory(32 * MB), Window(0, 16 * MB, 1.0, PERSISTING, STREAMING)
    lab.take((0, 16 * MB), window=window)
    lab.l2.reset_persisting()
    lab.take((FAR, 40 * MB), window=window)
    assert lab.take((0, 16 * MB), window=window).held == 0.0


def test_a_window_without_a_set_aside_is_none() -> None:
    with_it, without = Laboratory(), Laboratory()
    window = Window(0, 16 * MB, 1.0, PERSISTING, STREAMING)
    for lab, of_lab in ((with_it, window), (without, None)):
        lab.take((0, 16 * MB), window=of_lab)
        lab.take((FAR, 8 * MB), window=of_lab)
    assert with_it.take((0, 16 * MB), window=window) == without.take((0, 16 * MB))
    again = {"times": 10.0}
    assert with_it.take((0, 40 * MB), window=window, **again) == without.take((0, 40 * MB), **again)


def test_two_windows_contend_for_the_set_aside() -> None:
    def second_look(each: int) -> float:
        lab = Laboratory(32 * MB)
        for _ in range(3):
            for start in (0, FAR):
                found = lab.take((start, each), window=Window(start, each, 1.0, PERSISTING, STREAMING))
        return found.held

    assert second_look(12 * MB) == 1.0
    assert second_look(32 * MB) == 0.0


def test_stored_lines_are_written_when_others_push_them_out() -> None:
    """Of what earlier work stored, less than half waits for that on an H200; of its own, a launch writes all."""
    lab, mine = Laboratory(), Sweep(0, 16 * MB, 16 * MB, stored=True)
    assert lab.l2.launch("store", None, lambda: [mine]).written_back == 0.0
    assert lab.l2.launch("store", None, lambda: [mine]).written_back == 0.0
    lab.l2.sweep((), ((FAR, 256 * MB),))
    assert 0.4 < lab.take((0, 16 * MB)).written_back < 0.5
    large = Sweep(0, 256 * MB, 256 * MB, stored=True)
    assert [lab.l2.launch("large", None, lambda: [large]).written_back for _ in range(3)][-1] == 1.0


@pytest.mark.parametrize(("units", "held"), [(3, 1.0), (10, 0.0)])
def test_stores_have_no_room_in_a_large_set_aside_but_reads_do(units: int, held: float) -> None:
    lab = Laboratory(units * 3932160)
    sweeps = [Sweep(0, 24 * MB, 24 * MB, stored=True)]
    assert [lab.l2.launch("stored", None, lambda: sweeps).held for _ in range(3)][-1] == held
    assert [lab.take((FAR, 24 * MB)).held for _ in range(3)][-1] == 1.0


def test_streaming_lines_go_before_normal_ones() -> None:
    lab, mine, stream = Laboratory(), (0, 20 * MB), (FAR, 40 * MB)
    lab.take(mine)
    lab.take(stream, window=Window(*stream, 1.0, STREAMING, STREAMING))
    assert lab.take(mine).held == 1.0
    lab.take(stream)
    assert lab.take(mine).held < 0.6


def test_a_loop_comes_back_to_states_it_has_met() -> None:
    lab = Laboratory()
    seen = set()
    for _ in range(50):
        for start in range(8):
            lab.take((start << 30, 64 * KB))
        lab.take((9 << 30, 8 * MB))
        seen.add(id(lab.l2._now))
    assert len(seen) <= 4


def test_lookups_are_told_by_property() -> None:
    lab, window = Laboratory(16 * MB), Window(0, 16 * MB, 0.5, PERSISTING, STREAMING)
    ranges = ((0, 16 * MB), (FAR, 256 * MB))
    _, lookups = lab.l2.launch_repeated(ranges, window, lambda: swept(*ranges, times=16.0))
    assert [each.asked / MB for each in lookups] == pytest.approx([256, 128, 128])
    assert [each.hit / MB for each in lookups] == pytest.approx([0, 0, 128], abs=9)


@pytest.mark.parametrize(("hit", "miss", "held"), [(STREAMING, STREAMING, 1.0), (NORMAL, STREAMING, 0.0)])
def test_streaming_accesses_leave_lines_persisting_and_normal_ones_do_not(hit: int, miss: int, held: float) -> None:
    """As on an H200 (docs/evidence/2026-11-23-l2.md, "What persists between kernels")."""
    lab, mine = Laboratory(32 * MB), (0, 16 * MB)
    lab.take(mine, window=Window(*mine, 1.0, PERSISTING, STREAMING))
    lab.take(mine, window=Window(*mine, 1.0, hit, miss))
    lab.take((FAR, 44 * MB))
    assert lab.take(mine).held == held


@pytest.mark.parametrize(("behind", "held"), [(False, 0.5), (True, 1.0)])
def test_half_of_a_window_streams_only_where_it_has_not_persisted_before(behind: bool, held: float) -> None:
    """An H200 takes 283 µs for 16 MB at ratio 0.5 behind ratio 1, and 355 from a reset
    (docs/evidence/2026-11-24-windows.json)."""
    lab, ranges = Laboratory(31457280), ((0, 16 * MB), (FAR, 256 * MB))
    if behind:
        lab.take(*ranges, window=Window(0, 16 * MB, 1.0, PERSISTING, STREAMING), times=16.0)
    window = Window(0, 16 * MB, 0.5, PERSISTING, STREAMING)
    _, found = lab.l2.launch_repeated(ranges, window, lambda: swept(*ranges, times=16.0))
    hits = sum(found[which].hit for which in (PERSISTING, STREAMING))
    assert hits / (240 * MB) == pytest.approx(held, abs=0.01)  # 15 rounds behind the first


def test_lines_that_stream_do_not_stay_however_much_room_there_is() -> None:
    """Swept again with nothing else between, an H200 finds 4 MB and not 16 (docs/evidence/2026-11-24-windows.json)."""
    for size, low, high in ((4 * MB, 0.85, 1.0), (16 * MB, 0.0, 0.15)):
        lab, window = Laboratory(), Window(0, size, 1.0, STREAMING, STREAMING)
        found = [lab.take((0, size), window=window).held for _ in range(3)][-1]
        assert low <= found <= high


@pytest.mark.parametrize(("asked", "found"), [(1, 1), (3932160, 1), (5_000_000, 2), (16 * MB, 5), (30 * MB, 8), (0, 0)])
def test_the_set_aside_has_units(asked: int, found: int) -> None:
    """As on an H200."""
    assert Laboratory().l2.rounded(asked) == found * 3932160


# -- on a device -------------------------------------------------------------------------------------------------------


class OnDevice:
    """A device whose kernels' modelled times are noted."""

    def __init__(self) -> None:
        self.device = Device()
        self.ends: list[int] = []
        self.device.state.on_end.append(self._note)
        module = self.device.load_module(compile(SWEEP))
        self.sweep, self.window = (self.device.get_function(module, name) for name in ("sweep", "window"))
        self.large = 0
        self.x, self.other, self.out = (self.device.malloc(size) for size in (16 * MB, 128 * MB, 256))

    def _note(self, operation: Operation) -> None:
        if operation.kind == "kernel":
            self.ends.append(operation.end - operation.start)

    def read(self, size: int = 16 * MB) -> int:
        """ns of a kernel that reads the array's begin."""
        arguments = struct.pack("QQi", self.x, self.out, size // 16)
        self.device.launch(self.sweep, (1056, 1, 1), (256, 1, 1), arguments)
        self.device.synchronize()
        return self.ends[-1]


@pytest.fixture(scope="module")
def on_device() -> OnDevice:
    return OnDevice()


def test_the_first_launch_is_cold_and_the_second_warm(on_device: OnDevice) -> None:
    on_device.device.memset(on_device.other, 0, 128 * MB)
    cold, warm, again = (on_device.read() for _ in range(3))
    assert warm == again < 0.9 * cold
    on_device.device.memset(on_device.other, 0, 128 * MB)
    assert on_device.read() == cold
    on_device.device.memset(on_device.x, 0, 16 * MB)
    assert on_device.read() == warm


def test_a_grid_of_one_block_has_no_neighbours_to_look_at(on_device: OnDevice) -> None:
    arguments = struct.pack("QQi", on_device.x, on_device.out, 256)
    assert on_device.device.time_launch(on_device.sweep, (1, 1, 1), (256, 1, 1), arguments).ns > 0


def test_a_benchmark_is_warm_and_leaves_no_trace(on_device: OnDevice) -> None:
    on_device.device.memset(on_device.other, 0, 128 * MB)
    arguments = struct.pack("QQi", on_device.x, on_device.out, MB)
    found = on_device.device.time_launch(on_device.sweep, (1056, 1, 1), (256, 1, 1), arguments)
    assert found.ns < 0.9 * on_device.read()
    assert found.ns == on_device.read()


def test_a_set_aside_of_more_than_half_slows_stores_down(on_device: OnDevice) -> None:
    """256 MB in place take an H200 137, 209 and 375 µs with 0, 8 and 10 units set aside, reads as long as ever
    (docs/evidence/2026-11-23-l2-third.json)."""
    device, size = on_device.device, 64 * MB
    arguments = struct.pack("QQii", on_device.other, on_device.other + size, size // 4, MB // 4)

    def taken(units: int, read: bool) -> int:
        device.set_limit(6, units * 3932160)
        if read:
            swept = struct.pack("QQi", on_device.other, on_device.out, size // 8)
            return device.time_launch(on_device.sweep, (1056, 1, 1), (256, 1, 1), swept).ns
        return device.time_launch(on_device.window, (size // 1024, 1, 1), (256, 1, 1), arguments).ns

    stores, reads = [taken(units, read=False) for units in (4, 8, 10)], [taken(units, read=True) for units in (4, 10)]
    device.set_limit(6, 0)
    assert stores[0] < stores[1] < stores[2]
    assert reads[0] == reads[1]


EVIDENCE = Path(__file__).parents[4] / "docs/evidence"


@pytest.mark.parametrize("set_aside", [16, 30])
@pytest.mark.parametrize("window", [16, 24, 32, 48])
def test_the_best_hit_ratio_and_its_gain_are_an_h200s(on_device: OnDevice, window: int, set_aside: int) -> None:
    """The guide's sliding window over 256 MB, each ratio from a reset (docs/evidence/2026-11-24-windows.json)."""
    sets = json.loads((EVIDENCE / "2026-11-24-windows.json").read_text())["sets"]
    before = json.loads((EVIDENCE / "2026-11-23-l2.json").read_text())
    device, n = on_device.device, 64 * MB
    if not on_device.large:
        on_device.large = device.malloc(512 * MB)
    arguments = struct.pack("QQii", on_device.large, on_device.large + 256 * MB, n, window * MB // 4)
    stream = device.stream_create(1)

    def modelled(ratio: float | None) -> float:
        fields = (on_device.large, window * MB, ratio or 0.0, PERSISTING, STREAMING)
        device.stream_set_attribute(stream, 1, fields if ratio else (0, 0, 0.0, 0, 0))
        return device.time_launch(on_device.window, (n // 256, 1, 1), (256, 1, 1), arguments, stream=stream).ns

    ratios = (1.0, 0.75, 0.5, 0.25)
    measured = sets[f"sliding, {set_aside} MB set aside, from a reset"]
    of_h200 = {r: measured[f"{window} MB, ratio {r}, miss Streaming"] for r in ratios}
    without = before["sets"]["sliding, 0 MB set aside"][f"{window} MB, ratio none"] - before["empty"]
    plain = modelled(None)
    device.set_limit(6, set_aside * MB)
    of_model = {ratio: modelled(ratio) for ratio in ratios}
    device.set_limit(6, 0)
    device.stream_destroy(stream)
    best = min(ratios, key=lambda ratio: of_model[ratio])
    assert of_h200[best] == pytest.approx(min(of_h200.values()), rel=0.1)
    assert plain / of_model[best] == pytest.approx(without / min(of_h200.values()), rel=0.1)


def test_long_columns_are_timed_alike_close_together_and_far_apart() -> None:
    """Rows of 64 KB, too many for a trace; in 500 MB there are 7 MB between two."""
    device = Device()
    columns = device.get_function(device.load_module(compile(COLUMNS)), "columns")
    times, spans = [], []
    for pitch in (16384, 500 * MB // 4 // 64):
        memory = device.malloc(64 * pitch * 4)
        launch = device.loaded_kernel(columns).launch((64, 1, 1), (256, 1, 1), struct.pack("Qii", memory, 64, pitch))
        times.append(device.state.timer.time_repeated(launch).ns)
        (traffic,) = traffic_of(launch, 4.0 * MB, 1056, MB).sweeps(launch)
        assert traffic.start == memory and traffic.bytes == pytest.approx(4 * MB, rel=0.01)
        spans.append(traffic.size / (64 * pitch * 4))
    assert times[0] == times[1]
    assert spans == pytest.approx([1.0, 1.0], rel=0.05)


def test_long_blocks_with_a_piece_each_touch_all_of_them() -> None:
    """A block sums 2 MB: of the first pieces little was seen."""
    device = Device()
    source = """extern "C" __global__ void pieces(float* x) { float v = 0;
        for (int i = threadIdx.x; i < 1 << 19; i += 256) v += x[(blockIdx.x << 19) + i]; if (v == 1.5f) *x = v; }"""
    pieces = device.get_function(device.load_module(compile(source)), "pieces")
    memory = device.malloc(64 * MB)
    launch = device.loaded_kernel(pieces).launch((32, 1, 1), (256, 1, 1), struct.pack("Q", memory))
    (traffic,) = traffic_of(launch, 64.0 * MB, 1056, MB).sweeps(launch)
    assert traffic.start == memory
    assert (traffic.size, traffic.bytes) == pytest.approx((64 * MB, 64 * MB), rel=0.05)
