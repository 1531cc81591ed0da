"""Launches: results, faults, prints, interrupts and the time limit."""

from __future__ import annotations

import _thread
import struct
import threading
import time

import numpy as np
import pytest

from cudalab.sim.abi import LOCAL_WINDOW, SHARED_WINDOW, FaultKind, SiteKind, Space
from cudalab.sim.compiler.program import GlobalVariable
from cudalab.sim.machine.execution import Standalone, execute
from cudalab.sim.machine.launch.printf import ENTRY_HEADER
from cudalab.sim.machine.launch.validation import LaunchError
from cudalab.sim.machine.memory.allocations import Memory
from tests.sim.low_memory import low_memory
from tests.sim.machine.handmade import Block, make, pack, pointer, site

LOAD = site(SiteKind.LOAD, line=3)
STORE = site(SiteKind.STORE, line=4)


def add_one(block: Block) -> None:
    source, target = block.argument("Q", 0), block.argument("Q", 8)
    for t in block.threads():
        i = block.index * block.context.threads + t
        block.store(1, t, target + 4 * i, block.load(0, t, source + 4 * i, 1) + 1, 2)


@pytest.fixture(scope="module")
def memory() -> Memory:
    return Memory(1 << 30)


def add_kernel(memory: Memory):
    return make(add_one, sites=[LOAD, STORE], parameters=[pointer(0, "a"), pointer(1, "out")], memory=memory)


def arrays(memory: Memory, n: int) -> tuple[int, int]:
    a, out = memory.allocate(4 * n), memory.allocate(4 * n)
    memory.array(a, n, np.int32)[:] = np.arange(n)
    return a, out


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_a_launch_runs_every_block(memory: Memory, workers: int) -> None:
    a, out = arrays(memory, 256)
    outcome = execute(add_kernel(memory).launch(8, 32, pack(a, out)), Standalone(workers=workers))
    assert outcome.fault is None and outcome.blocks_done == 8
    assert np.array_equal(memory.array(out, 256, np.int32), np.arange(256) + 1)


def test_an_overrun_is_explained(memory: Memory) -> None:
    a, out = arrays(memory, 1000)
    fault = execute(add_kernel(memory).launch(32, 32, pack(a, out))).fault
    assert fault is not None
    assert (fault.code, fault.error, fault.rule) == (700, "cudaErrorIllegalAddress", "out of bounds")
    assert (fault.block, fault.thread, fault.line, fault.source) == ((31, 0, 0), (8, 0, 0), 3, "line 3;")
    text = str(fault)
    assert "Invalid __global__ read of size 4 bytes in kernel k" in text
    assert "[block (31,0,0), thread (8,0,0)] out of bounds — near kernel.cu:3" in text
    assert "reach 4 bytes past the end of the 4000-byte allocation" in text
    assert "of parameter 1 (a): index 1000 of 1000 elements of type int." in text
    assert "<pre" in fault._repr_html_()


def fault_of(memory: Memory, address: int, args: bytes = b"", parameters=(), root: int = 0, space=Space.GLOBAL):
    def body(block: Block) -> None:
        block.load(0, 5, address, root)

    kernel = make(body, sites=[site(SiteKind.LOAD, space, line=2)], parameters=parameters, memory=memory)
    fault = execute(kernel.launch(1, 32, args)).fault
    assert fault is not None
    return fault


def test_before_the_start(memory: Memory) -> None:
    a = memory.allocate(400)
    fault = fault_of(memory, a - 8, pack(a), [pointer(0, "a", "float")], 1)
    assert "8 bytes before the start of the 400-byte allocation" in str(fault)
    assert "index -2 of 100 elements of type float" in str(fault)


def test_null_pointer(memory: Memory) -> None:
    fault = fault_of(memory, 40, pack(0), [pointer(0, "a")], 1)
    assert (fault.code, fault.rule) == (700, "null pointer")
    assert "parameter 1 (a) is null, 40 bytes from it" in str(fault)


def test_host_pointer(memory: Memory) -> None:
    host = np.zeros(100, np.int32)
    fault = fault_of(memory, host.ctypes.data, pack(host.ctypes.data), [pointer(0, "a")], 1)
    assert (fault.code, fault.rule) == (700, "host pointer")
    assert "copy the data to the device first" in str(fault)


def test_host_pointer_where_shared_memory_has_its_addresses(memory: Memory) -> None:
    with low_memory() as address:
        fault = fault_of(memory, address + 8, pack(address), [pointer(0, "a")], 1)
    assert (fault.code, fault.rule) == (700, "host pointer")
    assert f"Parameter 1 (a) is {address:#x}" in str(fault)


def test_use_after_free(memory: Memory) -> None:
    a = memory.allocate(400, label="weights")
    memory.free(a, where="cell 7")
    fault = fault_of(memory, a + 12, pack(a), [pointer(0, "a")], 1)
    assert fault.rule == "use after free"
    assert "12 bytes into the 400-byte device allocation" in str(fault)
    assert "(weights) of parameter 1 (a), which was freed (cell 7)" in str(fault)


def test_never_allocated(memory: Memory) -> None:
    address = 1 << 55  # no process has memory there
    fault = fault_of(memory, address, pack(address), [pointer(0, "a")], 1)
    assert fault.rule == "never allocated"


def test_misaligned(memory: Memory) -> None:
    a = memory.allocate(400)
    fault = fault_of(memory, a + 2)
    assert (fault.code, fault.error, fault.rule) == (716, "cudaErrorMisalignedAddress", "misaligned address")
    assert "not a multiple of 4" in str(fault)


def test_shared_overrun(memory: Memory) -> None:
    fault = fault_of(memory, SHARED_WINDOW + 1024, space=Space.SHARED)
    assert "Invalid __shared__ read of size 4 bytes" in str(fault)
    assert "at offset 1024 reach 1028 bytes past the end of the 0 bytes of shared memory" in str(fault)


@pytest.mark.parametrize(
    ("kind", "code", "error", "rule"),
    [
        (FaultKind.TRAP, 719, "cudaErrorLaunchFailure", "trap"),
        (FaultKind.STACK_OVERFLOW, 700, "cudaErrorIllegalAddress", "stack overflow"),
        (FaultKind.BAD_CALL, 718, "cudaErrorInvalidPc", "bad call"),
        (FaultKind.ILLEGAL_INSTRUCTION, 715, "cudaErrorIllegalInstruction", "illegal instruction"),
        (FaultKind.READ_ONLY, 719, "cudaErrorLaunchFailure", "write to constant memory"),
    ],
)
def test_other_faults(memory: Memory, kind: FaultKind, code: int, error: str, rule: str) -> None:
    kernel = make(lambda block: block.fault(kind, 0, 33), sites=[LOAD], memory=memory)
    fault = execute(kernel.launch((2, 2), (8, 8), b"")).fault
    assert fault is not None
    assert (fault.code, fault.error, fault.rule, fault.thread) == (code, error, rule, (1, 4, 0))


def test_assert_prints_what_cuda_prints(memory: Memory) -> None:
    texts = [memory.allocate(64) for _ in range(3)]
    for address, text in zip(texts, (b"x > 0", b"kernel.cu", b"void k(int*)"), strict=True):
        memory.view(address, len(text))[:] = text
    words = memory.allocate(40)
    memory.array(words, 5, np.uint64)[:] = [texts[0], texts[1], 7, texts[2], 1]
    kernel = make(lambda block: block.fault(FaultKind.ASSERT, 0, 3, detail=words), sites=[LOAD], memory=memory)
    fault = execute(kernel.launch(1, 32, b"")).fault
    assert fault is not None and (fault.code, fault.error, fault.line) == (710, "cudaErrorAssert", 7)
    assert fault.assertion == "kernel.cu:7: void k(int*): block: [0,0,0], thread: [3,0,0] Assertion `x > 0` failed."


def test_deadlock_says_who_waits_where(memory: Memory) -> None:
    def body(block: Block) -> None:
        import ctypes

        states = (ctypes.c_uint32 * 64).from_address(block.context.states)
        for t in range(64):
            states[t] = 1 if t < 32 else 2 if t < 40 else 0xFFFF_FFFF
        block.fault(FaultKind.DEADLOCK, 0, 0, detail=block.context.states)

    sites = [site(SiteKind.BARRIER, line=5), site(SiteKind.WARP, line=9)]
    fault = execute(make(body, sites=sites, memory=memory).launch(1, 64, b"")).fault
    assert fault is not None and (fault.code, fault.rule) == (702, "deadlock")
    assert "32 threads, the first (0,0,0), wait at kernel.cu:5: line 5;" in str(fault)
    assert "8 threads, the first (32,0,0), wait at kernel.cu:9: line 9;" in str(fault)
    assert "24 threads, the first (40,0,0), have exited." in str(fault)


def spin(block: Block) -> None:
    while True:
        block.poll()
        time.sleep(0.001)


@pytest.mark.parametrize("workers", [1, 2])
def test_an_endless_loop_meets_the_time_limit(memory: Memory, workers: int) -> None:
    start = time.monotonic()
    fault = execute(make(spin, memory=memory).launch(4, 32, b""), Standalone(time_limit=0.2, workers=workers)).fault
    assert time.monotonic() - start < 20
    assert fault is not None and (fault.code, fault.error) == (702, "cudaErrorLaunchTimeout")
    assert fault.rule == "endless loop"


def test_slow_but_steady_launches_are_left_alone(memory: Memory) -> None:
    kernel = make(lambda block: time.sleep(0.05), memory=memory)
    outcome = execute(kernel.launch(8, 1, b""), Standalone(time_limit=0.2))
    assert outcome.fault is None and outcome.blocks_done == 8


@pytest.mark.parametrize("workers", [1, 2])
def test_an_interrupt_stops_the_launch(memory: Memory, workers: int) -> None:
    timer = threading.Timer(0.1, _thread.interrupt_main)
    timer.start()
    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        execute(make(spin, memory=memory).launch(4, 32, b""), Standalone(workers=workers))
    assert time.monotonic() - start < 20
    timer.join()
    a, out = arrays(memory, 32)  # the device goes on
    assert execute(add_kernel(memory).launch(1, 32, pack(a, out))).blocks_done == 1


def test_an_interrupt_can_be_deferred(memory: Memory) -> None:
    done = []

    def body(block: Block) -> None:
        time.sleep(0.05)
        done.append(block.index)

    timer = threading.Timer(0.02, _thread.interrupt_main)
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        execute(make(body, memory=memory).launch(4, 1, b""), interruptible=False)
    timer.join()
    assert done == [0, 1, 2, 3]


def test_prints_come_in_block_order(memory: Memory) -> None:
    template = memory.allocate(64)
    memory.view(template, 12)[:] = b"block %d %g\n"

    def body(block: Block) -> None:
        block.print(0, template, struct.pack("<i4xd", block.index, block.index / 2))

    for workers in (1, 3):
        surroundings = Standalone(workers=workers)
        execute(make(body, memory=memory).launch(6, 1, b""), surroundings)
        assert surroundings.text == "".join(f"block {i} {i / 2:g}\n" for i in range(6))


def test_prints_beyond_the_limit_are_counted(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    template = memory.allocate(64)
    memory.view(template, 2)[:] = b"x\n"

    def body(block: Block) -> None:
        for t in block.threads():
            block.print(t, template)

    full = 2 * ((1 << 20) // ENTRY_HEADER.size)
    monkeypatch.setattr("cudalab.sim.machine.launch.workspace.MOST_PRINTED", 1000)
    surroundings = Standalone()
    execute(make(body, memory=memory).launch(90, 1024, b""), surroundings)
    assert surroundings.text.count("x\n") == full
    assert f"[{90 * 1024 - full} more calls of printf are not shown" in surroundings.text


def test_a_bad_string_is_named_not_followed(memory: Memory) -> None:
    template = memory.allocate(64)
    memory.view(template, 5)[:] = b"%s %s"

    def body(block: Block) -> None:
        block.print(0, template, struct.pack("<QQ", 0, 8))

    surroundings = Standalone()
    execute(make(body, memory=memory).launch(1, 1, b""), surroundings)
    assert surroundings.text == "(null) <0x8 is no device memory>"


def test_wrong_parameter_size(memory: Memory) -> None:
    with pytest.raises(LaunchError, match=r"takes 16 bytes of parameters \(got 8\)"):
        add_kernel(memory).launch(1, 1, pack(0))


def test_stores_can_be_held_back(memory: Memory) -> None:
    a, out = arrays(memory, 64)
    memory.array(out, 64, np.int32)[:] = -7
    held = execute(add_kernel(memory).launch(2, 32, pack(a, out)), hold_stores=True).held
    assert (memory.array(out, 64, np.int32) == -7).all()
    assert held is not None and len(held) == 256
    held.apply()
    assert np.array_equal(memory.array(out, 64, np.int32), np.arange(64) + 1)


def test_a_launch_marks_what_it_may_write(memory: Memory) -> None:
    a, out = arrays(memory, 32)
    assert memory.find(out).written.empty
    execute(add_kernel(memory).launch(1, 32, pack(a, out)))
    assert memory.find(out).written.complete


def test_registered_host_memory_is_a_root(memory: Memory) -> None:
    host = np.arange(32, dtype=np.int32)
    out = memory.allocate(128)
    memory.register(host.ctypes.data, host.nbytes)
    try:
        assert execute(add_kernel(memory).launch(1, 32, pack(host.ctypes.data, out))).fault is None
    finally:
        memory.unregister(host.ctypes.data)
    assert np.array_equal(memory.array(out, 32, np.int32), host + 1)


def test_local_memory_is_each_thread_s_own(memory: Memory) -> None:
    def body(block: Block) -> None:
        for t in block.threads():
            block.store(0, t, LOCAL_WINDOW + 4, t)
        for t in block.threads():
            assert block.load(1, t, LOCAL_WINDOW + 4) == t

    sites = [site(SiteKind.STORE, Space.LOCAL), site(SiteKind.LOAD, Space.LOCAL)]
    assert execute(make(body, sites=sites, local_bytes=16, memory=memory).launch(2, 40, b"")).fault is None


def test_module_globals(memory: Memory) -> None:
    table = GlobalVariable("table", 16, 8, Space.CONSTANT, struct.pack("<4i", 1, 2, 3, 4))
    head = GlobalVariable("head", 8, 8, Space.GLOBAL, b"", ((0, "table", 8),))
    kernel = make(lambda block: None, globals=[table, head], memory=memory)
    address, size = kernel.module.global_variable("table")
    assert (size, memory.array(address, 4, np.int32).tolist()) == (16, [1, 2, 3, 4])
    at, _ = kernel.module.global_variable("head")
    assert int(memory.array(at, 1, np.uint64)[0]) == address + 8
    with pytest.raises(KeyError, match="no global variable 'nothing'.*head, table"):
        kernel.module.global_variable("nothing")
    with pytest.raises(KeyError, match="no kernel 'nothing'"):
        kernel.module.kernel("nothing")
    kernel.module.unload()
    assert memory.find(address) is None


def test_launches_are_quick(memory: Memory) -> None:
    kernel = make(lambda block: None, memory=memory, parameters=[pointer(i, "abcd"[i]) for i in range(4)])
    a, out = arrays(memory, 32)
    args = pack(a, out, a, out)
    execute(kernel.launch(1, 32, args))
    best = 1.0
    for _ in range(300):
        start = time.perf_counter()
        execute(kernel.launch(1, 32, args))
        best = min(best, time.perf_counter() - start)
    assert best < 300e-6  # about 25 µs on a quiet machine; the Python body and busy hosts take more
