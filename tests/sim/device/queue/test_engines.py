"""The array of SMs and the copy engines, on operations of known size: who runs when, and on which SM."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest

from cudalab.sim.device.profile import load
from cudalab.sim.device.queue.copy_engine import CopyEngine
from cudalab.sim.device.queue.event_loop import EventLoop
from cudalab.sim.device.queue.operation import Operation, Stream, Work
from cudalab.sim.device.queue.sm_array import SmArray
from cudalab.sim.device.queue.sm_residency import Residency, block_needs
from cudalab.sim.device.timing.cost import KernelTime
from cudalab.sim.machine.launch.occupancy import occupancy
from tests.sim.h200 import LIMITS

SMS = 132


@dataclass(frozen=True, slots=True)
class Blocks(Work[Operation]):
    """What a launch takes of the SMs."""

    name: str
    blocks: int = field()
    block_shape: tuple[int, int, int] = field()
    kind = "kernel"
    engine = "sm"


class Kernel(Operation):
    """A launch that takes ``ns`` alone."""

    def __init__(self, ns, blocks, threads=1024, registers=32, shared=0, *, priority=0, needed=1.0, uses=None, name=""):
        super().__init__(Blocks(name, blocks, (threads, registers, shared)), Stream(0, priority=priority))
        self.ns = ns
        self.time = KernelTime(ns, ns, {}, "", 0.0, uses or {}, 0.0, needed)

    def begin(self):
        return self.ns


class Array:
    """An array of SMs on a loop of its own; operations are given at a time."""

    def __init__(self, profile="h200", **engines):
        self.loop = EventLoop()
        profile = load(profile)
        profile = replace(profile, engines={**profile.engines, **engines})
        self.sm = SmArray(self.loop, self._begin, self._end, profile)
        self.ended = []
        self._count = 0

    def _begin(self, operation):
        operation.start = self.loop.now
        return operation.begin()

    def _end(self, operation):
        operation.end = self.loop.now
        self.ended.append(operation)

    def give(self, operation, at=0):
        operation.sequence = self._count
        self._count += 1

        def ready():
            operation.ready = self.loop.now
            self.sm.ready(operation)

        self.loop.at(at, ready)
        return operation

    def run(self):
        steps = 0
        while len(self.loop):
            self.loop.run_next()
            steps += 1
        return steps


@pytest.fixture
def array():
    return Array()


# -- residency ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("registers", [0, 16, 24, 32, 40, 64, 96, 128, 168, 192, 255])
@pytest.mark.parametrize("threads", [1, 32, 33, 96, 128, 256, 768, 1024])
@pytest.mark.parametrize("shared", [0, 1000, 40_000, 232_448])
def test_alone_as_many_blocks_are_resident_as_occupancy_says(threads, registers, shared):
    expected = occupancy(threads, registers, shared, limits=LIMITS).blocks_per_sm
    if not expected:
        with pytest.raises(ValueError, match="fits no SM"):
            block_needs(LIMITS, threads, registers, shared)
        return
    residency = Residency(LIMITS)
    assert residency.place("all", block_needs(LIMITS, threads, registers, shared), 10**6) == expected * SMS
    assert list(residency) == [(SMS, {"all": expected})]


def test_blocks_are_spread_over_the_sms_first():
    residency = Residency(LIMITS)
    residency.place("a", block_needs(LIMITS, 128, 32, 0), 100)
    residency.place("b", block_needs(LIMITS, 128, 32, 0), 100)
    held = [(count, sum(holders.values())) for count, holders in residency]
    assert sum(count * blocks for count, blocks in held) == 200
    assert {blocks for _, blocks in held} == {1, 2}
    assert residency.sms_with(["a"]) == 100
    assert residency.sms_with(["a", "b"]) == SMS
    residency.release("a", block_needs(LIMITS, 128, 32, 0))
    residency.release("b", block_needs(LIMITS, 128, 32, 0), 60)
    assert [count * blocks for count, holders in residency for blocks in holders.values()] == [40]
    residency.release("b", block_needs(LIMITS, 128, 32, 0))
    assert list(residency) == [(SMS, {})]


def test_what_one_kernel_leaves_another_takes():
    residency = Residency(LIMITS)
    large, small = block_needs(LIMITS, 1024, 32, 0), block_needs(LIMITS, 256, 32, 0)
    assert residency.place("large", large, SMS) == SMS
    assert residency.place("small", small, 10**6) == 4 * SMS
    assert not residency.fits(block_needs(LIMITS, 32, 32, 0))
    shared = block_needs(LIMITS, 32, 32, 200_000)
    residency.clear()
    assert residency.place("one", shared, 10**6) == SMS
    assert residency.place("two", shared, 1) == 0


# -- time --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("blocks", [1, 7, 132, 264, 265, 300, 528, 1000, 10**6, 2**31 - 1])
@pytest.mark.parametrize("ns", [1, 1410, 123_457])
def test_alone_a_kernel_takes_exactly_its_time(array, ns, blocks):
    kernel = array.give(Kernel(ns, blocks))
    assert array.run() <= 6  # whatever the number of its blocks
    assert (kernel.start, kernel.end) == (0, ns)


def test_small_kernels_run_side_by_side_at_full_pace(array):
    kernels = [array.give(Kernel(1000, 60)) for _ in range(4)]
    array.run()
    assert [(k.start, k.end) for k in kernels] == [(0, 1000)] * 4


def test_a_launch_that_fills_the_device_lets_the_next_in_with_its_last_blocks(array):
    """264 blocks are resident; the last 132 of 660 leave half of the places free."""
    first, second = array.give(Kernel(5000, 660)), array.give(Kernel(1000, 132))
    array.run()
    assert first.end == 5000
    assert second.start == 4000
    assert second.end == 5000
    assert (second.wait_reason, second.wait_cause) == ("SM resources", first)


def test_one_wave_leaves_no_room(array):
    first, second = array.give(Kernel(5000, 264)), array.give(Kernel(1000, 264))
    array.run()
    assert (first.end, second.start, second.end) == (5000, 5000, 6000)


def test_a_high_priority_kernel_starts_as_blocks_of_the_other_finish(array):
    """Ten waves of 100 us; the urgent one comes in the middle of the third and takes the places that come free."""
    low = array.give(Kernel(1_000_000, 2640))
    urgent = array.give(Kernel(20_000, 132, priority=-5), at=250_000)
    behind = array.give(Kernel(20_000, 132), at=250_000)
    array.run()
    assert urgent.start == 300_000, "running blocks are not preempted"
    assert (urgent.wait_reason, urgent.wait_cause) == ("SM resources", low)
    assert urgent.end == 320_000
    assert 1_000_000 < low.end <= 1_020_000
    assert behind.start >= low.end - 100_000


def test_without_priority_it_waits_for_the_last_wave(array):
    low = array.give(Kernel(1_000_000, 2640))
    late = array.give(Kernel(20_000, 132), at=250_000)
    array.run()
    assert (late.start, low.end) == (1_000_000, 1_000_000)


def test_the_urgent_one_may_have_several_waves(array):
    low = array.give(Kernel(1_000_000, 2640))
    urgent = array.give(Kernel(30_000, 792, priority=-1), at=5)
    array.run()
    assert (urgent.start, urgent.end) == (100_000, 130_000)
    assert low.end == 1_030_000


def test_half_the_places_half_the_pace_where_latency_binds(array):
    """Both have one block an SM of 1024 threads; a third launch wants two, and gets what is left."""
    array.give(Kernel(100_000, 132))
    kernel = array.give(Kernel(10_000, 264))
    array.run()
    assert kernel.start == 0
    assert kernel.end == 20_000


def test_fewer_places_are_enough_where_something_else_binds(array):
    array.give(Kernel(100_000, 132))
    kernel = array.give(Kernel(10_000, 2640, needed=0.5))
    array.run()
    assert kernel.end == pytest.approx(10_000, abs=2)


def test_kernels_that_run_together_share_the_bandwidth(array):
    kernels = [array.give(Kernel(10_000, 60, uses={"memory": 0.8})) for _ in range(2)]
    other = array.give(Kernel(10_000, 60, uses={"issue": 0.9}))
    array.run()
    assert [k.end for k in kernels] == [16_000, 16_000]
    assert other.end == 10_000


def test_pace_is_back_when_the_other_has_ended(array):
    short, long = (array.give(Kernel(ns, 60, uses={"memory": 1.0})) for ns in (1000, 10_000))
    array.run()
    assert short.end == 2000
    assert long.end == 11_000


def test_shared_memory_keeps_two_kernels_apart(array):
    one, two = (array.give(Kernel(1000, 132, 64, shared=200_000)) for _ in range(2))
    array.run()
    assert two.start == one.end


@pytest.mark.parametrize(
    ("engines", "most"), [({}, 128), ({"max_resident_grids": 16}, 16), ({"concurrent_kernels": False}, 1)]
)
def test_resident_grids(engines, most):
    array = Array(**engines)
    kernels = [array.give(Kernel(1000, 1, 32)) for _ in range(130)]
    array.run()
    assert [k.start for k in kernels].count(0) == most
    late = kernels[most]
    assert (late.wait_reason, late.start) == ("resident grids", 1000)
    assert late.wait_cause in kernels


def test_a_failed_start_does_not_stop_the_engine(array):
    kernel = array.give(Kernel(0, 10))  # what the scheduler returns when an operation cannot begin
    other = array.give(Kernel(1000, 264))
    array.run()
    assert kernel.end <= 1
    assert other.end >= 1000


def test_many_short_guests_do_not_cut_a_long_launch_to_pieces(array):
    """Each end of a guest hands places back at another moment."""
    long = array.give(Kernel(10_000_000, 264_000))
    for index in range(100):
        array.give(Kernel(1000 + 37 * index, 1 + index % 7, priority=-1), at=10_000 * index)
    steps = array.run()
    assert long.end >= 10_000_000
    assert long.end == pytest.approx(10_000_000, rel=0.01)
    assert steps < 8000


def test_clearing_forgets_everything(array):
    array.give(Kernel(1000, 500))
    array.give(Kernel(1000, 500))
    array.loop.at(500, lambda: (array.loop.clear(), array.sm.clear()))
    array.run()
    assert array.ended == []
    again = array.give(Kernel(1000, 264), at=2000)
    array.run()
    assert (again.start, again.end) == (2000, 3000)


# -- copy engines ------------------------------------------------------------------------------------------------------


class Transfer(Work[Operation]):
    name = "copy"
    kind = "copy"
    engine = "h2d"


class Copy(Operation):
    def __init__(self, ns):
        super().__init__(Transfer(), Stream(0))
        self.ns = ns


def copies(in_issue_order, ready):
    """Copies of 100 ns, issued in order, ready at the times given."""
    loop = EventLoop()
    done = []

    def begin(operation):
        operation.start = loop.now
        return operation.ns

    engine = CopyEngine("H2D", loop, begin, done.append, in_issue_order=in_issue_order)
    operations = [Copy(100) for _ in ready]
    for operation, time in zip(operations, ready, strict=True):
        engine.issue(operation)

        def now(operation=operation):
            operation.ready = loop.now
            engine.ready(operation)

        loop.at(time, now)
    loop.run_while(lambda: True)
    return operations


def test_an_engine_takes_what_is_ready():
    one, two, three = copies(False, [500, 0, 50])
    assert [c.start for c in (one, two, three)] == [500, 0, 100]
    assert (three.wait_reason, three.wait_cause) == ("copy engine H2D", two)
    assert (one.wait_reason, one.wait_cause) == ("", None)


def test_an_engine_of_old_takes_copies_as_issued():
    one, two, three = copies(True, [500, 0, 50])
    assert [c.start for c in (one, two, three)] == [500, 600, 700]
    assert (two.wait_reason, two.wait_cause) == ("copy engine H2D", one)


def test_a_launch_that_has_started_goes_on_though_an_urgent_one_waits_for_a_free_grid():
    array = Array(concurrent_kernels=False)
    low = array.give(Kernel(10_000, 2640))
    urgent = array.give(Kernel(1000, 1, priority=-5), at=500)
    behind = array.give(Kernel(1000, 1), at=500)
    array.run()
    assert low.end == 10_000
    assert (urgent.start, urgent.wait_reason, urgent.wait_cause) == (10_000, "resident grids", low)
    assert behind.start == 11_000
