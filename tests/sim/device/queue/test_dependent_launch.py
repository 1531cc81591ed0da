"""Dependent launches: when they start and end, what they see, and what comes behind them."""

from __future__ import annotations

import struct
import warnings

import numpy as np
import pytest
from cuda.bindings.runtime import cudaError_t

from cudalab.sim.compiler import compile
from cudalab.sim.device import CudaError
from cudalab.sim.device.calls.launch_attributes import LaunchAttributes
from cudalab.sim.device.observer import Observer
from cudalab.sim.device.queue.operation import Operation
from tests.sim.device.conftest import Bench

SOURCE = r"""
#define TRIGGER() asm volatile("griddepcontrol.launch_dependents;" ::: "memory")
#define WAIT() asm volatile("griddepcontrol.wait;" ::: "memory")
extern "C" {
__device__ float work(float x, int rounds) {
    for (int k = 0; k < rounds; k++) x = x * 0.5f + 1.0f;
    return x;
}
__global__ void first(float *x, int before, int after, int triggers) {
    float y = work(threadIdx.x, before);
    if (blockIdx.x < triggers) TRIGGER();
    y = work(y, after);
    x[blockIdx.x * blockDim.x + threadIdx.x] = y > 0 ? 7.0f : 0.0f;
}
__global__ void second(const float *x, float *out, int before, int waits) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float early = x[i], y = work(threadIdx.x, before);
    if (waits) WAIT();
    out[i] = 10.0f * early + x[i] + (y < 0);
}
__global__ void late(const float *x, float *out, int before, int waits) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    WAIT();
    out[i] = x[i];
}
__global__ void later(float *out, int before, int after) {
    float y = work(threadIdx.x, before);
    WAIT();
    out[blockIdx.x * blockDim.x + threadIdx.x] = work(y, after);
}
__global__ void never(const float *x, float *out, int before, int waits) { out[threadIdx.x] = x[threadIdx.x]; }
__global__ void relay(float *x, int triggers) { if (triggers) TRIGGER(); x[0] = 1.0f; }
__global__ void adds(int *total, int *own) {
    atomicAdd(total, 1);
    own[threadIdx.x] += 1;
    WAIT();
    atomicAdd(total, 1);
    own[threadIdx.x] += 1;
}
__global__ void polls(volatile int *flag, int triggers) { if (blockIdx.x < triggers) TRIGGER(); while (*flag == 0) { } }
__global__ void sets(volatile int *flag, int waits) { if (waits) WAIT(); *flag = 1; }
}
"""
LONG = 20_000  # rounds: some 90 us


class Kernels(Bench):
    """The kernels above; their operations in the order in which they were enqueued."""

    def __init__(self, **options: object) -> None:
        super().__init__(**options)
        self.module = self.device.load_module(compile(SOURCE))
        self.stream = self.device.stream_create(1)
        self.ran: list[Operation] = []
        bench = self

        class Kept(Observer):
            def enqueued(self, operation: Operation, waits: object) -> None:
                if operation.kind == "kernel":
                    bench.ran.append(operation)

        self.device.observers.append(Kept())

    def launch(self, name: str, *values: int, grid: int = 1, block: int = 64, **attributes: object) -> None:
        function = self.device.get_function(self.module, name)
        kinds = "".join("Q" if value > 1 << 31 else "i" for value in values)
        wanted = LaunchAttributes(**attributes) if attributes else None  # type: ignore[arg-type]
        self.device.launch(
            function, (grid, 1, 1), (block, 1, 1), struct.pack(f"<{kinds}", *values), 0, self.stream, attributes=wanted
        )

    def dependent(self, name: str, *values: int, **options: object) -> None:
        self.launch(name, *values, programmatic=True, **options)  # type: ignore[arg-type]

    def zeros(self, count: int, dtype: object = np.float32) -> int:
        pointer = self.upload(np.zeros(count, dtype))
        self.device.synchronize()
        return pointer

    def pair(
        self, triggers: int, waits: int, *, before: int = 0, preamble: int = 0, grid: int = 1, **options: object
    ) -> tuple[Operation, Operation, list[float]]:
        """Both kernels have run: the two operations, and the different values that the second wrote."""
        x, out = self.zeros(64 * grid), self.zeros(64 * grid)
        self.launch("first", x, before, LONG, triggers, grid=grid)
        self.launch("second", x, out, preamble, waits, grid=grid, **({"programmatic": True} | options))
        self.device.synchronize()
        first, second = self.ran[-2:]
        return first, second, sorted(set(self.download(out, 64 * grid, np.float32).tolist()))


@pytest.fixture(scope="module")
def bench() -> Kernels:
    return Kernels()


def test_without_the_attribute_it_starts_when_the_first_has_ended(bench: Kernels) -> None:
    first, second, found = bench.pair(1, 1, programmatic=False)
    assert (second.start, found) == (first.end, [77.0])


def test_without_a_trigger_it_starts_at_the_end_and_takes_less(bench: Kernels) -> None:
    _, plain, _ = bench.pair(0, 1, programmatic=False)
    first, second, found = bench.pair(0, 1)
    constants = bench.device.profile.device
    saved = constants["kernel_start"] - constants["dependent_start"]
    assert (second.start, found) == (first.end, [77.0])
    assert second.end - second.start == pytest.approx(plain.end - plain.start - saved, abs=1)


def test_it_overlaps_behind_the_trigger_and_its_wait_ends_with_the_first(bench: Kernels) -> None:
    first, second, found = bench.pair(1, 1)
    assert second.start < first.start + 10_000 and found == [7.0]
    assert 0 < second.end - first.end < 1_500
    assert second.done and second.prerequisite is None


def test_a_long_preamble_hides_behind_the_first(bench: Kernels) -> None:
    _, plain, _ = bench.pair(1, 1, preamble=LONG, programmatic=False)
    first, second, found = bench.pair(1, 1, preamble=LONG)
    assert found == [7.0]
    assert second.end - second.start < 1.1 * (plain.end - plain.start)
    assert second.end - first.start < 1.3 * (first.end - first.start)


def test_blocks_that_wait_leave_the_sms_to_the_kernel_that_they_wait_for(bench: Kernels) -> None:
    """Both keep all schedulers busy: the first takes longer by what the second does before its wait, a tenth as much,
    and no longer for its wait."""
    blocks, threads, rounds = 264, 512, 4000
    x, out = bench.zeros(blocks * threads), bench.zeros(blocks * threads)
    times: dict[bool, tuple[Operation, Operation]] = {}
    for dependent in (True, False):
        bench.launch("first", x, 0, rounds, blocks, grid=blocks, block=threads)
        attributes = {"programmatic": True} if dependent else {}
        bench.launch("later", out, rounds // 10, rounds, grid=blocks, block=threads, **attributes)
        bench.device.synchronize()
        times[dependent] = bench.ran[-2], bench.ran[-1]
    (first, second), (alone, plain) = times[True], times[False]
    assert second.start < (first.start + first.end) / 2
    assert first.end - first.start == pytest.approx(1.1 * (alone.end - alone.start), abs=1_000)
    assert second.end - first.end == pytest.approx((plain.end - plain.start) / 1.1, abs=1_000)


def test_the_place_of_the_trigger_counts(bench: Kernels) -> None:
    first, second, _ = bench.pair(1, 1, before=LONG)
    share = (second.start - first.start) / (first.end - first.start)
    assert 0.45 < share < 0.55


def test_without_a_wait_it_reads_old_data_and_may_end_first(bench: Kernels) -> None:
    first, second, found = bench.pair(1, 0)
    assert second.end < first.end and found == [0.0]


def test_one_block_that_does_not_trigger_holds_it_back(bench: Kernels) -> None:
    first, second, found = bench.pair(3, 1, grid=4)
    assert (second.start, found) == (first.end, [77.0])


def test_it_needs_room_on_the_sms(bench: Kernels) -> None:
    """Blocks that fill the device trigger at once; the next kernel starts as they end."""
    x, out = bench.zeros(1024 * 264), bench.zeros(1024 * 264)
    bench.launch("first", x, 0, LONG, 264, grid=264, block=1024)
    bench.dependent("second", x, out, 0, 1, grid=264, block=1024)
    bench.device.synchronize()
    first, second = bench.ran[-2:]
    assert second.start >= first.end - 1
    assert (bench.download(out, 1024 * 264, np.float32) == 77.0).all()


def test_what_comes_behind_waits_for_both(bench: Kernels) -> None:
    x, out, last = bench.zeros(64), bench.zeros(64), bench.zeros(64)
    bench.launch("first", x, 0, LONG, 1)
    bench.dependent("second", x, out, 0, 0)
    event = bench.device.event_create(2)
    bench.device.event_record(event, bench.stream)
    bench.launch("second", x, last, 0, 0)
    bench.device.event_synchronize(event)
    first, second, third = bench.ran[-3:]
    assert first.done and second.end < first.end <= bench.device.clock_ns
    bench.device.synchronize()
    assert third.start >= first.end
    assert (bench.download(last, 64, np.float32) == 77.0).all()


@pytest.mark.parametrize("triggers", [0, 1])
def test_a_third_kernel_overlaps_with_the_first_through_one_that_waits_for_nothing(
    bench: Kernels, triggers: int
) -> None:
    x, other, out = bench.zeros(64), bench.zeros(1), bench.zeros(64)
    bench.launch("first", x, 0, LONG, 1)
    bench.dependent("relay", other, triggers, block=1)
    bench.dependent("second", x, out, 0, 1)
    bench.device.synchronize()
    first, _, third = bench.ran[-3:]
    assert third.start < first.end < third.end
    assert (bench.download(out, 64, np.float32) == 7.0).all()


def test_a_record_without_timing_lets_it_through_and_another_stream_is_waited_for(bench: Kernels) -> None:
    device, x, out, own = bench.device, bench.zeros(64), bench.zeros(64), bench.stream
    other, quiet, timed = device.stream_create(1), device.event_create(2), device.event_create()
    for event, overlaps in ((quiet, True), (timed, False)):
        bench.launch("first", x, 0, LONG, 1)
        device.event_record(event, own)
        bench.dependent("second", x, out, 0, 1)
        device.synchronize()
        first, second = bench.ran[-2:]
        assert (second.start < first.end) is overlaps
    bench.stream = other
    bench.launch("first", bench.zeros(64), 0, 2 * LONG, 0)
    device.event_record(quiet, other)
    bench.stream = own
    bench.launch("first", x, 0, 3 * LONG, 1)
    device.stream_wait_event(own, quiet)
    bench.dependent("second", x, out, 0, 1)
    device.synchronize()
    elsewhere, first, second = bench.ran[-3:]
    assert elsewhere.end <= second.start < first.end


def test_atomics_are_seen_at_once_and_stores_from_before_the_wait_are_its_own(bench: Kernels) -> None:
    x, total, own = bench.zeros(64), bench.zeros(1, np.int32), bench.zeros(64, np.int32)
    bench.launch("first", x, 0, LONG, 1)
    bench.dependent("adds", total, own)
    bench.device.synchronize()
    assert bench.download(total, 1, np.int32)[0] == 128
    assert (bench.download(own, 64, np.int32) == 2).all()


def test_a_completion_event_comes_with_the_start_of_the_blocks(bench: Kernels) -> None:
    device, x = bench.device, bench.zeros(64)
    event = device.event_create(2)
    bench.launch("first", x, 0, LONG, 0)
    bench.launch("first", x, 0, LONG, 0, completion_event=event)
    device.event_synchronize(event)
    one, two = bench.ran[-2:]
    assert one.done and not two.done and two.start >= 0
    device.synchronize()
    assert two.done


@pytest.mark.parametrize(
    "triggers, waits, reason",
    [
        (1, 0, "block 1 has done neither"),
        (0, 0, "2 blocks, the first 0, have done neither"),
        (2, 1, "its threads wait for this one to complete"),
    ],
)
def test_a_kernel_that_relies_on_overlap_ends_with_an_explanation(triggers: int, waits: int, reason: str) -> None:
    bench = Kernels()
    flag = bench.zeros(1, np.int32)
    bench.launch("polls", flag, triggers, grid=2, block=1)
    bench.dependent("sets", flag, waits, block=1)
    with pytest.raises(CudaError) as raised:
        bench.device.synchronize()
    assert raised.value.code == cudaError_t.cudaErrorLaunchTimeout
    assert reason in str(raised.value) and "nothing promises that it does" in str(raised.value)


def test_a_kernel_may_wait_for_one_that_overlaps_with_it(bench: Kernels) -> None:
    flag = bench.zeros(1, np.int32)
    bench.launch("polls", flag, 2, grid=2, block=1)
    bench.dependent("sets", flag, 0, block=1)
    bench.device.synchronize()
    first, second = bench.ran[-2:]
    assert first.start < second.start and first.done and second.done


@pytest.mark.parametrize(
    "name, triggers, waits, reads_early",
    [("second", 1, 0, True), ("second", 1, 1, True), ("never", 0, 0, True), ("late", 1, 1, False)],
)
def test_what_it_touches_before_its_wait_is_a_hazard(name: str, triggers: int, waits: int, reads_early: bool) -> None:
    bench = Kernels()
    report = bench.device.hazard_report
    assert report is not None
    x, out = bench.zeros(64), bench.zeros(64)
    bench.launch("first", x, 0, LONG, triggers)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        bench.dependent(name, x, out, 0, waits)
        bench.launch("second", x, out, 0, 0)  # behind both: no hazard
        bench.device.synchronize()
    texts = [hazard.text for hazard in report.hazards]
    assert len(texts) == reads_early
    if reads_early:
        assert "kernel first" in texts[0] and f"kernel {name}" in texts[0] and "read after write" in texts[0]
        assert "cudaGridDependencySynchronize() (griddepcontrol.wait) before it reads" in texts[0]
