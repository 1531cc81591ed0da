"""Properties of every program: random launches, copies, events, priorities and default streams, on every profile."""

from __future__ import annotations

import gc
import struct
from dataclasses import dataclass, field
from functools import cache

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from cudalab.sim.compiler import compile
from cudalab.sim.device import Device, Log
from cudalab.sim.device.observer import Observer
from cudalab.sim.device.profile import names
from cudalab.sim.device.replay import replay
from tests.sim.device.log.test_record_and_replay import same

SOURCE = r"""
extern "C" __global__ void mix(unsigned *x, unsigned n, unsigned rounds, unsigned value) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned y = i < n ? x[i] : 0;
    for (unsigned k = 0; k < rounds; k++) y = y * 1664525u + value;
    if (i < n) x[i] = y;
}
"""
WORDS = 1 << 14
BYTES = 4 * WORDS
SHAPES = [  # blocks, threads, rounds, bytes of dynamic shared memory
    (1, 32, 3000, 0),
    (7, 256, 300, 0),
    (132, 1024, 3, 0),
    (500, 128, 10, 0),
    (700, 512, 3, 0),
    (300, 32, 30, 40_000),
]
STREAMS = [None, None, (0, 0), (1, 0), (1, -5), (0, -2)]
"""The legacy and the per-thread default stream, and four that are made: flags and priority."""
KINDS = ("launch", "launch", "launch", "h2d", "d2h", "pageable", "d2d", "memset", "array", "record", "wait", "function")
step = st.tuples(st.sampled_from(KINDS), st.integers(0, len(STREAMS) - 1), st.integers(0, len(SHAPES) - 1))
programs = st.lists(step, min_size=1, max_size=24)
profiles = st.sampled_from(names())


@cache
def program():
    return compile(SOURCE)


@dataclass
class Account(Observer):
    """All operations, what each waits for, and how long each takes alone."""

    device: Device
    operations: list = field(default_factory=list)
    waits: dict = field(default_factory=dict)
    alone: dict = field(default_factory=dict)

    def enqueued(self, operation, waits):
        self.operations.append(operation)
        self.waits[operation] = [other for other, _ in waits]

    def watch(self):
        """Note durations, and look at every SM whenever blocks have been placed."""
        scheduler = self.device.state.scheduler
        begin, sm = scheduler.effects.begin, scheduler._sms[0]
        place, limits = sm.residency.place, self.device.limits

        def noted_begin(operation):
            duration = self.alone[operation] = begin(operation)
            return duration

        def checked_place(holder, needs, blocks):
            placed = place(holder, needs, blocks)
            count = 0
            for sms, holders in sm.residency:
                count += sms
                held = [(blocks, wave.grid.needs) for wave, blocks in holders.items()]
                assert sum(blocks for blocks, _ in held) <= limits.blocks_per_sm
                assert sum(blocks * needs.warps for blocks, needs in held) <= limits.warps_per_sm
                assert sum(blocks * needs.registers for blocks, needs in held) <= limits.registers_per_sm
                assert sum(blocks * needs.shared for blocks, needs in held) <= limits.shared_per_sm
            assert count == self.device.profile.sms
            return placed

        scheduler.effects.begin = noted_begin
        sm.residency.place = checked_place

    def rest(self):
        """Stop watching, so that the device can go."""
        del self.device.state.scheduler.effects.begin
        del self.device.state.scheduler._sms[0].residency.place


def run(profile, steps):
    """Enqueue the steps one after the other and wait; returns the account."""
    device = Device(profile, record=True, hazards=False)
    account = Account(device)
    device.observers.append(account)
    mix = device.get_function(device.load_module(program()), "mix")
    streams = [0, 2] + [device.stream_create(*made) for made in STREAMS[2:]]
    events = [device.event_create(2) for _ in range(3)]
    buffers = [device.malloc(BYTES) for _ in streams]
    host = device.malloc_host(BYTES)
    np.frombuffer(device.view(host, BYTES), np.uint32)[:] = np.arange(WORDS, dtype=np.uint32)
    for buffer in buffers:
        device.memset(buffer, 1, BYTES)
    device.synchronize()
    account.operations.clear()
    account.watch()
    pageable = np.arange(WORDS, dtype=np.uint32)
    account.began = device.clock_ns
    for number, (kind, index, choice) in enumerate(steps):
        stream, buffer = streams[index], buffers[index]
        size = BYTES >> choice
        if kind == "launch":
            blocks, threads, rounds, shared = SHAPES[choice]
            args = struct.pack("QIII", buffer, WORDS, rounds, number)
            device.launch(mix, (blocks, 1, 1), (threads, 1, 1), args, shared, stream)
        elif kind == "h2d":
            device.memcpy(buffer, host, size, 1, stream, True)
        elif kind == "d2h":
            device.memcpy(host, buffer, size, 2, stream, True)
        elif kind == "pageable":
            device.memcpy(buffer, pageable.ctypes.data, size, 1, stream, True)
        elif kind == "d2d":
            device.memcpy(buffer, buffers[choice], size, 3, stream, True)
        elif kind == "memset":
            device.memset(buffer, number, size, stream)
        elif kind == "array":
            view = np.frombuffer(device.view(buffer, size), np.uint32)
            device.array_operation(
                "add", lambda view=view: np.add(view, 1, out=view), [(buffer, size)], [(buffer, size)], stream
            )
        elif kind == "record":
            device.event_record(events[choice % 3], stream)
        elif kind == "wait":
            device.stream_wait_event(stream, events[choice % 3])
        else:
            device.launch_host_function(lambda: None, stream)
    account.issued = device.clock_ns
    device.synchronize()
    account.rest()
    account.bytes = [bytes(device.view(buffer, BYTES)) for buffer in buffers]
    if device.clock_ns % 16 == 0:
        gc.collect()  # devices are large, and go in cycles
    return account


def check_order(account):
    """Everything ends once, and after all that it was to wait for."""
    assert all(
        operation.done and operation.enqueued <= operation.ready <= operation.start for operation in account.operations
    )
    for operation, others in account.waits.items():
        assert all(operation.start >= other.end for other in others if other in account.alone)
    last = {}
    for operation in account.operations:
        before = last.get(operation.stream)
        assert before is None or operation.start >= before.end
        last[operation.stream] = operation


def check_engines(account):
    """A copy engine does one copy at a time; without one, copies have the device to themselves."""
    copies = {"h2d": [], "d2h": []}
    for operation in account.operations:
        if operation.engine in copies:
            copies[operation.engine].append((operation.start, operation.end))
    engines = account.device.profile.engines["copy"]
    lists = copies.values() if engines == 2 else [copies["h2d"] + copies["d2h"]]
    for spans in lists:
        spans.sort()
        assert all(end <= start for (_, end), (start, _) in zip(spans, spans[1:], strict=False))
    if not engines:
        busy = [o for o in account.operations if o.engine == "sm"]
        assert all(o.end <= start or o.start >= end for o in busy for start, end in lists[0])
    if not account.device.profile.engines["concurrent_kernels"]:
        kernels = sorted((o.start, o.end) for o in account.operations if o.engine == "sm")
        assert all(end <= start for (_, end), (start, _) in zip(kernels, kernels[1:], strict=False))


def check_makespan(account):
    """At least the critical path, at most everything one after the other."""
    profile = account.device.profile
    paths = {}
    for operation in account.operations:
        begun = max((paths[other] for other in account.waits[operation] if other in paths), default=0)
        paths[operation] = begun + account.alone[operation]
        assert operation.end - operation.start >= account.alone[operation]
    ends = max(operation.end for operation in account.operations)
    assert ends - account.began >= max(paths.values())
    overhead = profile.device["submit"] + profile.device["engine_switch"] + 2
    serial = sum(account.alone.values()) + len(account.operations) * overhead
    assert ends - account.issued <= serial


def check_reasons(account):
    """What waited says for what, and the reason ended before it started."""
    for operation in account.operations:
        assert operation.wait_reason
        if operation.start > operation.ready:
            assert operation.wait_reason.startswith(("copy engine", "SM resources", "resident grids", "no copy engine"))


def check(profile, steps):
    account = run(profile, steps)
    check_order(account)
    check_engines(account)
    check_reasons(account)
    if account.operations:
        check_makespan(account)
    return account


def check_repeats(profile, steps):
    """The same program gives the same timeline, and so does the replay of its log, with the same bytes."""
    one, two = run(profile, steps), run(profile, steps)
    assert one.device.log.spans == two.device.log.spans
    assert one.bytes == two.bytes
    twin = replay(Log.from_bytes(one.device.log.to_bytes()))
    assert same(one.device.log, twin.log)
    allocations = [a for a in twin.memory if a.kind == "device" and a.size == BYTES]
    allocations.sort(key=lambda a: a.serial)
    assert [bytes(twin.view(a.pointer, BYTES)) for a in allocations] == one.bytes


FEW = settings(max_examples=25, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
MANY = settings(max_examples=1500, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@FEW
@given(profiles, programs)
@example("h200", [("launch", 3, 4), ("launch", 4, 4), ("launch", 3, 3), ("launch", 2, 5)])
def test_order_engines_residency_and_makespan(profile, steps):
    check(profile, steps)


@settings(FEW, max_examples=10)
@given(profiles, programs)
def test_timelines_and_bytes_repeat_and_replay(profile, steps):
    check_repeats(profile, steps)


@pytest.mark.long
@pytest.mark.timeout(1200)
@MANY
@given(profiles, programs)
def test_order_engines_residency_and_makespan_of_many(profile, steps):
    check(profile, steps)


@pytest.mark.long
@pytest.mark.timeout(1200)
@settings(MANY, max_examples=500)
@given(profiles, programs)
def test_timelines_and_bytes_of_many_repeat_and_replay(profile, steps):
    check_repeats(profile, steps)
