"""Host threads run side by side in modelled time, whatever order Python runs them in."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from cudalab.sim.device import Device
from cudalab.sim.device.queue import host_threads

MS = 1_000_000


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a loaded machine a thread may not run for long: its turn is waited for all the same."""
    monkeypatch.setattr(host_threads, "_PATIENCE", 60.0)


def together(device: Device, *functions: Callable[[], object]) -> list[int]:
    """Run each in a thread; begin when all have made a call. Returns by how much each one's clock went on."""
    ready: list[None] = []
    took = [0] * len(functions)

    def run(index: int, function: Callable[[], object]) -> None:
        device.get_last_error()
        ready.append(None)
        while len(ready) < len(functions):  # not a wait of `threading`: the thread counts as being at work
            pass
        before = device.clock_ns
        function()
        took[index] = device.clock_ns - before

    threads = [threading.Thread(target=run, args=pair) for pair in enumerate(functions)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return took


def test_what_two_threads_compute_takes_the_time_of_one(device: Device) -> None:
    def compute() -> None:
        for _ in range(10):
            device.host_work(MS)

    before = device.clock_ns
    assert together(device, compute, compute) == [10 * MS, 10 * MS]
    assert device.clock_ns - before < 11 * MS


def test_who_waits_for_the_device_does_not_keep_the_other(device: Device, bench) -> None:
    size = 256 << 20
    host = device.malloc_host(size)
    memory = device.malloc(size)
    stream = device.stream_create(1)
    asked: list[int] = []

    def waits() -> None:
        device.memcpy(memory, host, size, 1, stream, asynchronous=True)
        device.stream_synchronize(stream)  # 4.8 ms

    def computes() -> None:
        for _ in range(8):
            device.host_work(MS)
            asked.append(device.stream_query(stream))

    waited, computed = together(device, waits, computes)
    assert 4 * MS < waited < 6 * MS
    assert 8 * MS <= computed < 8.1 * MS
    assert [bool(answer) for answer in asked] == [asked[0]] * 4 + [asked[-1]] * 4 and asked[0] != asked[-1]


def test_calls_take_turns_and_handing_over_takes_time(device: Device) -> None:
    """Two threads that only enqueue gain nothing: Python's interpreter lock lets one at a time make a call."""
    pointer, count = device.malloc(4096), 40
    one, other = device.stream_create(1), device.stream_create(1)

    def clears(stream: int) -> None:
        for _ in range(count):
            device.memset(pointer, 0, 4, stream, asynchronous=True)

    host = device.profile.host
    (alone,) = together(device, lambda: clears(one))
    assert alone == count * round(host["memset"])
    before = device.clock_ns
    together(device, lambda: clears(one), lambda: clears(other))
    took = device.clock_ns - before
    assert 2 * alone < took <= 2 * (count + 1) * (host["memset"] + host["interpreter_handover"])


def test_who_joins_a_thread_is_as_far_as_that(device: Device) -> None:
    before = device.clock_ns
    thread = threading.Thread(target=device.host_work, args=(3 * MS,))
    thread.start()
    thread.join()
    assert device.clock_ns - before >= 3 * MS
    device.get_last_error()
    assert device.clock_ns - before >= 3 * MS


def test_a_wait_for_the_device_is_not_one_for_later_work_of_others(device: Device) -> None:
    size = 64 << 20
    host, memory = device.malloc_host(size), device.malloc(size)
    one, other = device.stream_create(1), device.stream_create(1)

    def waits() -> None:
        device.memcpy(memory, host, size // 2, 1, one, asynchronous=True)
        device.synchronize()  # 0.6 ms

    def goes_on() -> None:
        for _ in range(20):
            device.host_work(MS // 10)
            device.memcpy(host, memory, size, 2, other, asynchronous=True)  # 1.2 ms each

    waited, _ = together(device, waits, goes_on)
    assert waited < 2 * MS
    device.synchronize()


def test_a_recording_has_one_clock() -> None:
    device = Device("h200", record=True)

    def compute() -> None:
        for _ in range(3):
            device.host_work(MS)

    before = device.clock_ns
    together(device, compute, compute)
    assert device.clock_ns - before >= 6 * MS
