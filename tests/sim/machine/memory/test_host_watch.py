"""The watch over the host's accesses: every way to touch memory is noticed with its address, kind and line, the program
gets the bytes that are there, and faults that are none of ours end as they always did."""

from __future__ import annotations

import ctypes
import faulthandler
import os
import signal
import struct
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from cudalab.sim.machine.memory import host_watch, page_trap
from cudalab.sim.machine.memory.allocations import Memory
from cudalab.sim.machine.memory.host_watch import HostWatch
from cudalab.sim.machine.memory.page_trap import PAGE
from tests.robustness.notebook import Notebook

pytestmark = pytest.mark.skipif(not page_trap.available(), reason="accesses of the host cannot be noticed here")
HERE = os.path.abspath(__file__)


@dataclass
class Touch:
    offset: int
    is_write: bool
    lines: list[int]
    """Lines of this file on the stack, innermost first."""


class Watched:
    """A page-locked buffer, and what was told of it."""

    def __init__(self, size: int) -> None:
        self.memory = Memory(1 << 30)
        self.size = size
        self.address = self.memory.allocate(size, "pinned")
        self.bytes = self.memory.array(self.address, size)
        self.bytes[:] = np.arange(size) % 251
        self.touches: list[Touch] = []
        self.watch = HostWatch(self.memory, self._touched)

    def _touched(self, address: int, is_write: bool, frames: tuple[tuple[str, int], ...]) -> None:
        lines = [line for file, line in frames if file == HERE]
        self.touches.append(Touch(address - self.address, is_write, lines))

    def all(self, reads: bool = True, writes: bool = True) -> None:
        self.watch.watch(self.address, self.size, reads, writes)

    def told(self) -> list[Touch]:
        host_watch.deliver()
        told, self.touches = self.touches, []
        return told


@pytest.fixture
def buffer() -> Iterator[Watched]:
    made = Watched(64 * PAGE)
    yield made
    made.watch.release_all()


def line_of(function: Callable[..., object], offset: int = 1) -> int:
    return function.__code__.co_firstlineno + offset


READS: dict[str, Callable[[Watched], object]] = {
    "an element": lambda b: b.bytes[7000],
    "a slice": lambda b: b.bytes[7000:7010].tolist(),
    "copied": lambda b: b.bytes[7000:].copy().tolist(),
    "summed": lambda b: int(b.bytes[7000:].sum()),
    "ctypes": lambda b: ctypes.c_uint8.from_address(b.address + 7000).value,
    "memmove": lambda b: ctypes.string_at(b.address + 7000, 100),
    "memoryview": lambda b: b.bytes.data[7000],
    "bytes": lambda b: bytes(b.bytes.data[7000:8000]),
    "struct": lambda b: struct.unpack_from("<B", b.bytes.data, 7000),
    "compared": lambda b: np.array_equal(b.bytes[7000:7100], b.bytes[7000:7100]),
}
WRITES: dict[str, Callable[[Watched], object]] = {
    "an element": lambda b: b.bytes.__setitem__(7000, 5),
    "filled": lambda b: b.bytes[7000:9000].fill(3),
    "in place": lambda b: np.copyto(b.bytes[7000:9000], 4),
    "ctypes": lambda b: ctypes.memset(b.address + 7000, 1, 10),
    "struct": lambda b: struct.pack_into("<B", b.bytes.data, 7000, 9),
}


@pytest.mark.parametrize("how", READS)
def test_reads(buffer: Watched, how: str) -> None:
    expected = READS[how](buffer)
    buffer.all()
    assert READS[how](buffer) == expected
    first = buffer.told()[0]
    assert (first.offset, first.is_write) == (7000, False)
    assert READS[how].__code__.co_firstlineno in first.lines[:1]
    assert READS[how](buffer) == expected and buffer.bytes[0] == 0


@pytest.mark.parametrize("how", WRITES)
def test_writes(buffer: Watched, how: str) -> None:
    buffer.all(reads=False)
    WRITES[how](buffer)
    first = buffer.told()[0]
    assert (first.offset, first.is_write) == (7000, True)
    plain = Watched(buffer.size)
    WRITES[how](plain)
    assert np.array_equal(buffer.bytes, plain.bytes)


def test_a_product_of_matrices() -> None:
    """BLAS reads with threads of its own, which run no Python."""
    made = Watched(1 << 20)
    left, right = made.bytes.view(np.float32).reshape(2, 512, 256)
    made.bytes.view(np.float32)[:] = np.arange(1 << 18) % 7
    expected = left @ right.T
    made.all()
    assert np.array_equal(left @ right.T, expected)
    told = made.told()
    assert told and not any(t.is_write for t in told)
    made.watch.release_all()


def test_reads_are_free_where_only_writes_matter(buffer: Watched) -> None:
    buffer.all(reads=False)
    assert buffer.bytes.sum() == (np.arange(buffer.size) % 251).sum()
    assert buffer.told() == []
    buffer.bytes[100] = 1
    assert [(t.offset, t.is_write) for t in buffer.told()] == [(100, True)]


def test_the_line_is_told_at_once(buffer: Watched) -> None:
    """Without any call in between: the handler of a signal runs between two steps of the interpreter."""
    buffer.all()
    value = buffer.bytes[5 * PAGE]
    for _ in range(2):
        pass
    touches = list(buffer.touches)
    assert value == 5 * PAGE % 251
    assert [t.lines[0] for t in touches] == [line_of(test_the_line_is_told_at_once, 3)]


def test_a_touch_is_told_once_until_it_is_watched_again(buffer: Watched) -> None:
    for _ in range(3):
        buffer.all()
        for _ in range(5):
            buffer.bytes[3 * PAGE + 1]
        assert [t.offset for t in buffer.told()] == [3 * PAGE + 1]


def test_a_scan_costs_few_faults(buffer: Watched) -> None:
    buffer.all()
    for page in range(64):
        buffer.bytes[page * PAGE]
    told = [t.offset // PAGE for t in buffer.told()]
    assert told == [0, 1, 3, 7, 15, 31, 63]


def test_released_memory_is_as_before(buffer: Watched) -> None:
    buffer.all()
    buffer.watch.release(buffer.address, buffer.size)
    buffer.bytes[:] += 1
    assert buffer.told() == [] and not buffer.watch.busy
    buffer.watch.release(buffer.address, buffer.size)


def test_neighbours_keep_their_protection(buffer: Watched) -> None:
    """Chunks that are no multiple of a page share pages: releasing one must not open the other."""
    chunk = 3 * PAGE + 100
    for number in range(4):
        buffer.watch.watch(buffer.address + number * chunk, chunk, True, True)
    buffer.watch.release(buffer.address + chunk, chunk)
    buffer.bytes[chunk + PAGE : chunk + 2 * PAGE].sum()
    assert buffer.told() == []
    buffer.bytes[2 * chunk + PAGE]
    buffer.bytes[PAGE]
    assert [t.offset for t in buffer.told()] == [2 * chunk + PAGE, PAGE]


def test_a_whole_range_over_its_parts(buffer: Watched) -> None:
    buffer.all(reads=False)
    buffer.watch.watch(buffer.address + 8 * PAGE, 4 * PAGE, True, True)
    assert buffer.bytes[PAGE] == PAGE % 251 and buffer.told() == []
    buffer.bytes[9 * PAGE]
    assert [(t.offset, t.is_write) for t in buffer.told()] == [(9 * PAGE, False)]
    buffer.watch.release(buffer.address + 8 * PAGE, 4 * PAGE)
    assert buffer.bytes[10 * PAGE] == 10 * PAGE % 251 and buffer.told() == []
    buffer.bytes[10 * PAGE] = 0
    assert [(t.offset, t.is_write) for t in buffer.told()] == [(10 * PAGE, True)]


def test_less_than_a_page(buffer: Watched) -> None:
    buffer.watch.watch(buffer.address + 1000, 100, True, True)
    assert buffer.bytes[900] == 900 % 251 and buffer.told() == []
    with host_watch.paused():
        pass  # a call of the runtime: the page is protected again
    assert buffer.bytes[1099] == 1099 % 251
    assert [t.offset for t in buffer.told()] == [1099]


@pytest.mark.parametrize("size", [1, 100, PAGE - 1, PAGE, PAGE + 1, 5 * PAGE + 17])
def test_every_byte_of_an_allocation_is_watched(size: int) -> None:
    made = Watched(size)
    for offset in {0, size // 2, size - 1}:
        made.all()
        assert made.bytes[offset] == offset % 251
        assert [t.offset for t in made.told()] == [offset]
    made.watch.release_all()


def test_parts_leave_the_other_bytes_of_their_pages_alone(buffer: Watched) -> None:
    start = next(o for o in range(PAGE, 3 * PAGE) if (buffer.address + o) % PAGE == 600)
    buffer.watch.watch(buffer.address + start, 3 * PAGE, True, True)
    buffer.bytes[start - 600 : start].sum()
    buffer.bytes[start + 3 * PAGE : start + 4 * PAGE - 600].sum()
    assert not page_trap.installed.pending
    buffer.bytes[start + PAGE]
    assert len(buffer.told()) == 1


def test_managed_memory_and_whole_pages_of_registered_memory() -> None:
    memory = Memory(1 << 30)
    told: list[tuple[int, bool]] = []
    watch = HostWatch(memory, lambda address, is_write, frames: told.append((address, is_write)))
    pages = np.zeros(10 * PAGE, np.uint8)
    start = pages.ctypes.data
    memory.register(start, pages.nbytes)
    watch.watch(start, pages.nbytes, False, True)
    edge = -start % PAGE
    if edge:
        pages[0] = 1
        assert not page_trap.installed.pending
    pages[edge + 5] = 2
    host_watch.deliver()
    assert told == [(start + edge + 5, True)]
    watch.watch(start, pages.nbytes, False, True)
    watch.release(start, pages.nbytes)
    pages[:] = 7
    host_watch.deliver()
    assert len(told) == 1 and pages.sum() == 7 * pages.nbytes
    few = np.zeros(100, np.uint8)
    watch.watch(few.ctypes.data, 100, True, True)
    assert few.sum() == 0 and not watch.busy


def test_registered_memory_that_is_gone_when_it_is_released() -> None:
    import mmap

    memory, region = Memory(1 << 30), mmap.mmap(-1, 4 * PAGE)
    holder = ctypes.c_char.from_buffer(region)
    start = ctypes.addressof(holder)
    watch = HostWatch(memory)
    watch.watch(start, 4 * PAGE, True, True)
    del holder
    region.close()
    watch.release(start, 4 * PAGE)


def test_freed_memory_is_released(buffer: Watched) -> None:
    buffer.all()
    buffer.memory.free(buffer.address)
    assert not buffer.watch.busy
    assert buffer.bytes.sum() == 0 and buffer.told() == []


def test_the_simulator_s_own_accesses_are_not_told(buffer: Watched) -> None:
    buffer.all()
    with host_watch.paused():
        worker = threading.Thread(target=lambda: buffer.bytes[PAGE:].sum())
        worker.start()
        worker.join()
        with buffer.watch.paused():
            buffer.bytes[:] = 1
    assert buffer.told() == []
    buffer.bytes[4 * PAGE]
    assert [t.offset for t in buffer.told()] == [4 * PAGE], "its pages are protected again"


def test_the_first_watch_of_a_process_within_a_call() -> None:
    done = run("""
        with host_watch.paused():
            protect()
            array[:] = 1
        host_watch.deliver()
        print(len(told), array[5])
        host_watch.deliver()
        print(len(told))
    """)
    assert (done.returncode, done.stdout) == (0, "0 1\n1\n"), done.stderr


def test_touches_before_a_call_are_told_when_it_begins(buffer: Watched) -> None:
    buffer.all()
    order: list[str] = []
    buffer.watch.on_touch = lambda *_: order.append("touch")
    thread = threading.Thread(target=lambda: buffer.bytes[0])
    thread.start()
    thread.join()
    with host_watch.paused():
        order.append("call")
    assert order == ["touch", "call"]


def test_a_host_function_within_a_call(buffer: Watched) -> None:
    buffer.all()
    with host_watch.paused():
        buffer.bytes[PAGE]
        with host_watch.listening():
            buffer.bytes[PAGE]
        assert len(buffer.touches) == 1
        buffer.bytes[9 * PAGE]
    assert len(buffer.told()) == 1


def test_threads(buffer: Watched) -> None:
    buffer.all()
    found: list[int] = []

    def work(number: int) -> None:
        for page in range(number, 64, 4):
            found.append(int(buffer.bytes[page * PAGE]))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == sorted(page * PAGE % 251 for page in range(64))
    told = buffer.told()
    assert told and all(t.lines[0] == line_of(work, 2) for t in told if t.lines)


def test_thousands_of_touches(buffer: Watched) -> None:
    rng = np.random.default_rng(2)
    for _ in range(3000):
        buffer.all()
        offset = int(rng.integers(buffer.size))
        assert buffer.bytes[offset] == offset % 251
        assert [t.offset for t in buffer.told()] == [offset]


def test_many_ranges_at_once() -> None:
    made = Watched(4000 * PAGE)
    base = made.address
    for page in range(1, 3999):
        made.watch.watch(base + page * PAGE, PAGE // 2, True, True)
    for page in (1, 1999, 3998):
        assert made.bytes[page * PAGE] == page * PAGE % 251
    assert [t.offset // PAGE for t in made.told()] == [1, 1999, 3998]
    made.watch.release_all()
    assert made.bytes.sum() == (np.arange(made.size) % 251).sum() and made.told() == []


def test_more_ranges_than_there_is_room_for(monkeypatch: pytest.MonkeyPatch, buffer: Watched) -> None:
    buffer.all()
    monkeypatch.setattr(page_trap, "MOST_SLOTS", page_trap.installed.state.slot_count)
    kept = [(buffer.address + page * PAGE, 64) for page in range(1, 63)]
    for _ in range(10):
        for address, size in kept:
            buffer.watch.watch(address, size, True, True)
        for address, size in kept:
            buffer.watch.release(address, size)
    assert buffer.bytes[0] == 0


def test_system_calls_are_refused_and_nothing_else_happens(buffer: Watched, tmp_path: Path) -> None:
    buffer.all()
    with open(tmp_path / "file", "wb", buffering=0) as file:
        with pytest.raises(OSError, match="Bad address"):
            file.write(buffer.bytes)
        buffer.watch.release_all()
        assert file.write(buffer.bytes) == buffer.size


def test_the_signal_of_others_is_left_alone(buffer: Watched) -> None:
    buffer.all()
    used = page_trap.installed.state.notify_signal
    assert signal.SIGRTMIN < used < signal.SIGRTMAX
    assert signal.getsignal(signal.SIGUSR1) == signal.SIG_DFL


def test_faulthandler_may_come_and_go(buffer: Watched) -> None:
    was_on = faulthandler.is_enabled()
    try:
        for _ in range(3):
            faulthandler.disable()
            buffer.all()
            faulthandler.enable()
            buffer.bytes[PAGE]
            buffer.all()
            faulthandler.disable()
            buffer.bytes[2 * PAGE]
            assert [t.offset for t in buffer.told()] == [PAGE, 2 * PAGE]
    finally:
        if was_on:
            faulthandler.enable(sys.__stderr__)


def test_a_device_that_goes_takes_its_watch_along() -> None:
    made = Watched(4 * PAGE)
    made.all()
    view = made.bytes
    made.watch.on_touch = None
    del made
    import gc

    gc.collect()
    assert view.sum() == (np.arange(4 * PAGE) % 251).sum()


# -- what ends a process, in a process of its own ----------------------------------------------------------------------

START = """
import ctypes, faulthandler, os, signal, sys, threading
import numpy as np
from cudalab.sim.machine.memory import host_watch
from cudalab.sim.machine.memory.host_watch import HostWatch
from cudalab.sim.machine.memory.allocations import Memory
memory = Memory(1 << 30)
address = memory.allocate(1 << 16, "pinned")
array = memory.array(address, 1 << 16)
told = []
watch = HostWatch(memory, lambda address, is_write, frames: told.append(frames[0][1] if frames else 0))
def protect(): watch.watch(address, 1 << 16, True, True)
def crash(): ctypes.c_int.from_address(16).value
"""


def run(code: str) -> subprocess.CompletedProcess[str]:
    text = START + textwrap.dedent(code)
    return subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=60, check=False)


def test_a_real_fault_still_ends_the_process() -> None:
    done = run("protect(); array[5]; host_watch.deliver(); print(len(told), flush=True); crash()")
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGSEGV, "1\n", "")


def test_a_read_only_page_of_others_still_ends_the_process() -> None:
    """The same kind of fault as ours, elsewhere."""
    done = run("""
        import mmap
        protect()
        page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ)
        view = np.frombuffer(page, np.uint8)
        ctypes.memset(view.ctypes.data, 1, 1)
    """)
    assert done.returncode == -signal.SIGSEGV


@pytest.mark.parametrize("order", ["faulthandler.enable(); protect()", "protect(); faulthandler.enable()"])
def test_faulthandler_still_says_where_it_was(order: str) -> None:
    done = run(f"{order}; array[5]; host_watch.deliver(); print(len(told), flush=True); crash()")
    assert (done.returncode, done.stdout) == (-signal.SIGSEGV, "1\n")
    assert done.stderr.count("Fatal Python error: Segmentation fault") == 1
    assert "in crash" in done.stderr


def test_faulthandler_taken_off_again() -> None:
    done = run("protect(); faulthandler.enable(); faulthandler.disable(); array[5]; crash()")
    assert (done.returncode, done.stderr) == (-signal.SIGSEGV, "")


@pytest.mark.parametrize("before", ["", "faulthandler.enable(); "])
def test_a_signal_that_was_sent_ends_the_process(before: str) -> None:
    done = run(f"{before}protect(); os.kill(os.getpid(), signal.SIGSEGV); import time; time.sleep(5)")
    assert done.returncode == -signal.SIGSEGV
    assert ("Fatal Python error" in done.stderr) == bool(before)


def test_endless_recursion_in_native_code_is_reported() -> None:
    done = run("""
        faulthandler.enable(); protect(); array[5]
        sys.setrecursionlimit(10**9)
        class Deep:
            def __repr__(self): return repr([self])
        repr(Deep())
    """)
    assert done.returncode != 0


def test_a_handler_that_mends_the_fault_is_called_as_before() -> None:
    """Another library's handler that returns after making its page accessible."""
    done = run("""
        import mmap
        libc = ctypes.CDLL(None)
        page = mmap.mmap(-1, 4096)
        start = ctypes.addressof(ctypes.c_char.from_buffer(page))
        calls = []
        @ctypes.CFUNCTYPE(None, ctypes.c_int)
        def mend(number):
            calls.append(number); libc.mprotect(ctypes.c_void_p(start), 4096, 3)
        libc.signal(signal.SIGSEGV, mend)
        protect()
        for _ in range(3):
            libc.mprotect(ctypes.c_void_p(start), 4096, 0)
            ctypes.c_char.from_address(start).value
            array[1]; protect()
        print(len(calls), len(told))
    """)
    assert (done.returncode, done.stdout) == (0, "3 3\n"), done.stderr


def test_a_fork_is_not_harmed() -> None:
    done = run("""
        protect()
        child = os.fork()
        if child == 0:
            assert array.sum() == 0
            array[:] = 1
            protect(); array[3]; host_watch.deliver()
            os._exit(7 if array.sum() == array.size else 1)
        _, status = os.waitpid(child, 0)
        assert array[9] == 0
        host_watch.deliver()
        print(os.waitstatus_to_exitcode(status), len(told))
    """)
    assert (done.returncode, done.stdout) == (0, "7 1\n"), done.stderr


def test_a_fork_that_python_does_not_know_of() -> None:
    done = run("""
        protect()
        child = ctypes.CDLL(None).fork()
        if child == 0:
            ctypes.memset(address, 1, 1 << 16)
            os._exit(7)
        _, status = os.waitpid(child, 0)
        host_watch.deliver()
        print(os.waitstatus_to_exitcode(status), len(told), array[9])
        print(len(told))
    """)
    assert (done.returncode, done.stdout) == (0, "7 0 0\n1\n"), done.stderr


def test_subprocesses_and_the_end_of_the_process() -> None:
    done = run("""
        import atexit, subprocess
        atexit.register(lambda: print("at exit", array.sum()))
        protect()
        print(subprocess.check_output([sys.executable, "-c", "print(5)"], text=True).strip(), flush=True)
        class Late:
            def __del__(self): sys.stdout.write(f"late {array[7]}\\n")
        late = Late()
    """)
    assert done.returncode == 0 and done.stderr == ""
    assert done.stdout.splitlines() == ["5", "at exit 0", "late 0"]


def test_an_interrupt_while_touches_come() -> None:
    done = run("""
        import _thread
        protect()  # the first time, the trap is compiled
        timer = threading.Timer(0.3, _thread.interrupt_main)
        timer.start()
        try:
            while True:
                protect(); array[100]
        except KeyboardInterrupt:
            print("interrupted", len(told) > 100, set(told) == {told[0]})
        protect(); array[5]; print(told[-1] > 0)
    """)
    assert (done.returncode, done.stdout) == (0, "interrupted True True\nTrue\n"), done.stderr


NOTEBOOK = """
import numpy as np
from cudalab import cp
n = 1 << 16
pinned = cp.cuda.alloc_pinned_memory(4 * n)
host = np.frombuffer(pinned, np.float32, n)
stream = cp.cuda.Stream()
with stream:
    device = cp.arange(n, dtype=cp.float32)
"""


def test_a_live_notebook() -> None:
    notebook = Notebook()
    try:
        assert not notebook.run(NOTEBOOK).error
        wrong = (
            "device.get(stream=stream, out=host, blocking=False)\nlast = host[100]\nprint(last)\nstream.synchronize()"
        )
        for _ in range(2):
            reply = notebook.run(wrong)
            assert not reply.error and "0.0" in reply.text
            assert "hazard (host reads before" in reply.text and "last = host[100]" in reply.text
            assert notebook.run("host[100]; host[:] = 0").text == ""
            wrong += "  # again"
        right = "device.get(stream=stream, out=host, blocking=False)\nstream.synchronize()\nprint(host[100])"
        assert notebook.run(right).text == "100.0\n"
        assert notebook.run("import faulthandler; faulthandler.is_enabled()").error == ""
    finally:
        notebook.close()


def test_watching_from_another_thread_only() -> None:
    """No signal can be chosen there; the touch is told at the next call, with its line all the same or without."""
    done = run("""
        thread = threading.Thread(target=protect)
        thread.start(); thread.join()
        array[5]
        with host_watch.paused():
            print(len(told))
    """)
    assert (done.returncode, done.stdout) == (0, "1\n"), done.stderr


def test_a_system_without_the_means(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_trap, "installed", None)
    monkeypatch.setattr(page_trap, "why_not", "")

    def refuse(*_: object) -> None:
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(page_trap.os, "memfd_create", refuse)
    made = Watched(PAGE)
    made.all()
    assert not made.watch.available and "not implemented" in page_trap.why_not
    assert made.bytes[3] == 3 and made.told() == []
