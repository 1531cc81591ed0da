"""Record and replay: same bytes, same timeline, from plain data."""

from __future__ import annotations

import zlib

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cudalab.sim.device import CudaError, Device, Log, ReplayError
from cudalab.sim.device.replay import replay
from cudalab.sim.machine.memory.allocations import Memory
from tests.sim.device.calls.test_streams import operation, run_program
from tests.sim.device.conftest import Bench


def again(device):
    """Replay on a new device what was stored."""
    return replay(Log.from_bytes(device.log.to_bytes()))


def same(one: Log, two: Log) -> bool:
    """Same calls, errors, clocks, spans, and bytes that came to the host."""
    calls = [[(e.name, e.error, e.host_ns, e.brought) for e in log.entries] for log in (one, two)]
    delivered = [{key: [data for _, data in blocks] for key, blocks in log.delivered.items()} for log in (one, two)]
    return calls[0] == calls[1] and one.spans == two.spans and delivered[0] == delivered[1]


def test_nothing_is_kept_by_default(bench):
    bench.upload(np.zeros(8))
    assert bench.device.log.entries == []
    assert bench.device.log.spans == []


def test_bytes_from_the_host_come_out_of_the_log():
    bench = Bench(record=True)
    data = np.arange(1000, dtype=np.float32)
    pointer = bench.upload(data)
    result = bench.download(pointer, 1000, np.float32)
    pinned, view = bench.pinned(1000)
    view[:] = 3
    bench.device.memcpy(pointer, pinned, 2000, 1, 0, True)
    bench.device.synchronize()
    twin = again(bench.device)
    assert same(bench.device.log, twin.log)
    assert {number for number, *_ in twin.log.spans} >= twin.log.delivered.keys() > set()
    (first,) = twin.log.delivered[1]
    assert np.array_equal(np.frombuffer(first[1], np.float32), result)
    (allocation, *_) = list(twin.memory)
    values = np.frombuffer(twin.view(allocation.pointer, 4000), np.float32)
    assert np.array_equal(values, np.concatenate([np.full(500, 3), data[500:]]))


def test_results_of_array_operations_come_out_of_the_log():
    bench = Bench(record=True)
    pointer = bench.upload(np.arange(16, dtype=np.float32))

    def square():
        np.frombuffer(bench.device.view(pointer, 64), np.float32)[:] **= 2

    bench.device.array_operation("square", square, [(pointer, 64)], [(pointer, 64)])
    bench.download(pointer, 16, np.float32)
    twin = again(bench.device)
    assert same(bench.device.log, twin.log)
    (data,) = [data for ((_, data),) in twin.log.delivered.values()]
    assert np.frombuffer(data, np.float32).tolist() == [float(i * i) for i in range(16)]


def test_pointers_in_data_are_translated():
    bench = Bench(record=True)
    target = bench.upload(np.arange(4, dtype=np.float64))
    bench.upload(np.array([target, target + 8, 12345, target + 32], np.uint64))
    bench.device.synchronize()
    twin = again(bench.device)
    base, table = sorted(allocation.pointer for allocation in twin.memory)
    assert np.frombuffer(twin.view(table, 32), np.uint64).tolist() == [base, base + 8, 12345, base + 32]
    assert base != target


def test_the_replay_has_the_memory_that_was_there():
    """How much is free depends on the host's memory at the time."""
    device = Device(memory=Memory(capacity=3 << 20), record=True)
    device.malloc(1 << 20)
    assert device.memory_info()[0] == 2 << 20
    with pytest.raises(CudaError):
        device.malloc(3 << 20)
    twin = again(device)
    assert [(entry.result, entry.error) for entry in twin.log.entries[1:]] == [
        (entry.result, entry.error) for entry in device.log.entries[1:]
    ]


def test_errors_are_part_of_the_log():
    bench = Bench(record=True)
    with pytest.raises(CudaError):
        bench.device.free(0x1234)
    bench.device.get_last_error()
    assert [e.error for e in bench.device.log.entries] == [1, 0]
    assert same(bench.device.log, again(bench.device).log)


def test_pinned_memory_that_the_host_changes_between_calls():
    bench = Bench(record=True)
    pinned, view = bench.pinned(256)
    pointer = bench.device.malloc(1024)
    for value in (1, 2, 3):
        view[:] = value
        bench.device.memcpy(pointer, pinned, 1024, 1, 0, True)
        bench.device.synchronize()
        bench.download(pointer, 256, np.float32)
    assert same(bench.device.log, again(bench.device).log)


def test_registered_memory_and_host_functions_replay_without_the_program():
    bench = Bench(record=True)
    array = np.arange(4096, dtype=np.uint8)
    called = []
    bench.device.host_register(array.ctypes.data, 4096)
    pointer = bench.device.malloc(4096)
    bench.device.memcpy(pointer, array.ctypes.data, 4096, 1, 0, True)
    bench.device.launch_host_function(lambda: called.append(1))
    bench.device.synchronize()
    bench.device.host_unregister(array.ctypes.data)
    twin = again(bench.device)
    assert called == [1]
    assert same(bench.device.log, twin.log)
    assert bytes(twin.view(next(iter(twin.memory)).pointer, 4096)) == array.tobytes()


@settings(max_examples=25, deadline=None)
@given(st.sampled_from(["h200", "h200-1ce", "laptop"]), st.lists(operation, max_size=20))
def test_any_program_replays(profile, program):
    device, _, _ = run_program(profile, program)
    twin = again(device)
    assert same(device.log, twin.log)
    assert twin.profile.name == profile


def test_a_log_is_plain_data():
    bench = Bench(record=True)
    bench.upload(np.arange(8))
    document = msgspec.msgpack.decode(zlib.decompress(bench.device.log.to_bytes()))
    assert document["profile"] == "h200"


@pytest.mark.parametrize("content", [[], {}, {"version": 99}, {"profile": 1}, {"profile": "h200", "version": 1}])
def test_what_is_no_log(content):
    with pytest.raises(ValueError, match=r"not a log|version 1;"):
        Log.from_bytes(zlib.compress(msgspec.msgpack.encode(content)))


def test_what_is_no_log_at_all():
    with pytest.raises(ValueError, match="not a log"):
        Log.from_bytes(b"log")


def test_a_log_may_only_make_runtime_calls():
    log = Log("h200", capacity=1 << 30)
    bench = Bench(record=True)
    bench.device.synchronize()
    log.entries = bench.device.log.entries
    log.entries[0].name = "__init__"
    with pytest.raises(ReplayError, match="no runtime call"):
        replay(log)


def test_a_different_outcome_is_reported():
    bench = Bench(record=True)
    bench.device.synchronize()
    bench.device.log.entries[0].error = 700
    with pytest.raises(ReplayError, match="synchronize, returned error 700"):
        again(bench.device)
