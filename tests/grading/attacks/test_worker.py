"""Answers in Python that attack the grader: none gains a point that it has not earned, and none harms the next.

Most of them try something that must not be possible, and solve the exercise if it is: they would earn all points. They
all run in processes forked from one template, and honest answers run in between.
"""

from __future__ import annotations

import os
import textwrap
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from cudalab.checks import Result, exercises
from cudalab.checks.calls import allowed, families
from cudalab.checks.exercise import Exercise
from cudalab.checks.gate import Gate
from cudalab.checks.streams import StreamBench
from cudalab.grading import host_answer
from cudalab.grading.host_answer import run_host_answer
from cudalab.grading.limits import Limits
from cudalab.sim.compiler.processes import jail
from cudalab.sim.device.declaration import CALLS

LAUNCHES = Gate("launches", points=1, least=1, most=1)
SECRET = "what only the exercise knows"
_SCALE = r"""
extern "C" __global__ void scale(float* x, float factor, int n) {
    for (int i = threadIdx.x; i < n; i += blockDim.x) x[i] *= factor;
}
"""
COUNT = 64


def _examine(bench: StreamBench) -> None:
    with bench.case("one array") as trial:
        values, factor, secret = bench.random(COUNT), np.float32(bench.between(2, 99)), SECRET
        x, y = trial.pinned(values), trial.pinned(np.full(COUNT, np.nan, np.float32))
        d = trial.empty((COUNT,), np.float32)
        kernel = trial.kernel(_SCALE, "scale")

        def launch(stream: Any) -> str:
            kernel((1,), (32,), (d, factor, np.int32(COUNT)), stream=stream)
            return f"{len(secret)} letters"

        trial.call(x, y, d, launch, trial.stream("stream"))
        trial.expect("y", y, factor * values)
        bench.measure(LAUNCHES, len(trial.kernels()))


EXERCISE = Exercise(
    "99.1", "An exercise to attack", "answer", _examine, correctness=4, gates=(LAUNCHES,), answer="function"
)
_HONEST = """
d.set(x, stream=stream)
launch(stream)
d.get(out=y, stream=stream, blocking=False)
"""
_LINK = """
import gc
link = next(one for one in gc.get_objects() if type(one).__name__ == "Connection")
"""
_LIBC = """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
def must(result):
    if result in (-1, 0xffffffffffffffff, None):
        raise OSError(ctypes.get_errno(), "refused")
"""


def solving_after(attempt: str) -> str:
    """An answer that solves the exercise where its attempt succeeds, and does nothing where that raises."""
    body = (
        f"try:\n{textwrap.indent(textwrap.dedent(attempt).strip(), '    ')}\nexcept Exception:\n    return\n{_HONEST}"
    )
    return "def answer(x, y, d, launch, stream):\n" + textwrap.indent(body, "    ")


def doing(body: str) -> str:
    """An answer with this body."""
    return "def answer(x, y, d, launch, stream):\n" + textwrap.indent(textwrap.dedent(body), "    ")


@pytest.fixture(autouse=True, scope="module")
def _template(bwrap_path: str) -> Iterator[None]:
    yield
    host_answer.close()


def graded(source: str, seconds: float = 60.0) -> Result:
    return run_host_answer(EXERCISE, source, seed=3, limits=Limits(seconds=seconds)).result


def test_an_honest_answer_earns_all_points() -> None:
    result = graded(doing(_HONEST))
    assert result.passed and result.points == 5, str(result)


IMPOSSIBLE = {
    "a second process": "import os\nif not os.fork(): os._exit(0)",
    "a fork bomb": "import os\nfor _ in range(10 ** 4): os.fork()",
    "a program": "import subprocess\nsubprocess.run(['/bin/true'], check=True)",
    "a program in the background": "import os\nos.posix_spawn('/bin/sleep', ['sleep', '60'], {})",
    "another program in its place": "import os\nos.execv('/bin/true', ['true'])",
    "another program, past Python": f"{_LIBC}\nmust(libc.syscall(59, b'/bin/true', None, None))",
    "a process by clone": f"{_LIBC}\nmust(libc.syscall(56, 17, 0, 0, 0, 0))",
    "a process by clone3": f"{_LIBC}\nmust(libc.syscall(435, ctypes.create_string_buffer(88), 88))",
    "the network": "import socket\nsocket.create_connection(('1.1.1.1', 53), 0.2)",
    "a socket of this machine": "import socket\nsocket.socket(socket.AF_UNIX).connect('/run/dbus/system_bus_socket')",
    "a pair of sockets": "import socket\nsocket.socketpair()",
    "ending its parent": "import os\nos.kill(os.getppid(), 9)",
    "ending everybody": "import os\nos.kill(-1, 9)",
    "tracing its parent": f"{_LIBC}\nimport os\nmust(libc.ptrace(16, os.getppid(), None, None))",
    "reading its parent's memory": f"{_LIBC}\nimport os\n"
    "must(libc.process_vm_readv(os.getppid(), None, 0, None, 0, 0))",
    "its parent's limits": f"{_LIBC}\nimport os\nmust(libc.prlimit(os.getppid(), 7, (ctypes.c_ulong * 2)(0, 0), None))",
    "higher limits": "import resource\nresource.setrlimit(resource.RLIMIT_AS, (1 << 40, 1 << 40))",
    "other namespaces": f"{_LIBC}\nmust(libc.unshare(0x10000000))",
    "a mount": f"{_LIBC}\nmust(libc.mount(b'none', b'/dev', b'tmpfs', 0, None))",
    "a filter of its own calls, undone": f"{_LIBC}\nmust(libc.prctl(22, 0, 0, 0, 0))",
    "the processes": "import os\nos.listdir('/proc/1')",
    "the memory of its parent, as a file": "import os\nopen(f'/proc/{os.getppid()}/mem', 'rb')",
    "the home folder": "import os\nassert os.listdir(os.path.expanduser('~root'))",
    "the teacher's files": f"open({os.path.abspath(__file__)!r})",
    "the solutions": "import glob\nassert glob.glob('/**/solutions', recursive=True)",
    "the exercises' modules": "import importlib\nimportlib.import_module('cudalab.checks.chapter_11')",
    "the exercises' files": "import glob\nassert glob.glob('/**/chapter_11.py', recursive=True)",
    "a file": "open('/tmp/kept', 'wb').write(b'x')",
    "a file in memory": "import os\nos.write(os.memfd_create('kept'), b'x' * (1 << 20))",
    "a file beside the device": "import os\nos.mkdir('/dev/shm/kept')",
    "shared memory of the system": f"{_LIBC}\nmust(libc.shmget(0, 1 << 20, 0o1600))",
    "its parent's environment": "import os\nassert set(os.environ) - {'PYTHONSAFEPATH', 'PYTHONHASHSEED',"
    " 'OPENBLAS_NUM_THREADS', 'OMP_NUM_THREADS', 'HOME', 'LANG', 'LC_CTYPE', 'PWD'}",
    "more memory than it may": "kept = bytearray(16 << 30)",
    "memory, bit by bit": "kept = []\nwhile True: kept.append(bytearray(64 << 20))",
    "page-locked memory without end": "kept = [cp.cuda.alloc_pinned_memory(8 << 20) for _ in range(64)]",
    "device memory without end": "kept = [cp.empty(256 << 20, cp.uint8) for _ in range(64)]",
    "threads without end": "import threading, time\n"
    "for _ in range(10 ** 4): threading.Thread(target=time.sleep, args=(60,), daemon=True).start()",
    "the names in the frames": "import sys\nframe, found = sys._getframe(), set()\n"
    "while frame: found |= set(frame.f_locals); frame = frame.f_back\nassert found & {'factor', 'secret', 'trial'}",
    "the exercise's text in memory": "import gc\nassert any(isinstance(one, dict) and 'secret' in one"
    " for one in gc.get_objects())",
    "what the function knows": "assert launch.__closure__",
    "where the function is from": "assert 'factor' in str(vars(launch)) or launch.__code__",
    "a function that was not handed over": f"{_LINK}\nlink.invoke(1, (stream,), {{}})",
    "a kernel by itself": "from cudalab.sim.device import current_device\n"
    "current_device().launch(1, (1, 1, 1), (1, 1, 1), b'')",
    "a header that is not CUDA's": "cp.RawKernel('#include \"/etc/passwd\"', 'f').compile()",
    "a kernel that reads the grader's memory": "read = cp.RawKernel("
    "'extern \"C\" __global__ void f(float* y) { y[0] = *(float*)0x400000; }', 'f')\n"
    "read((1,), (1,), (d,))\ncp.cuda.Device().synchronize()",
    "a module of its own": "from cudalab.sim.device import current_device\n"
    "from cudalab.sim.compiler.program import Program\ncurrent_device().load_module({'ptx': ''})",
    "a longer shared file": f"{_LINK}\nimport os\nos.ftruncate(link.memory._file, 1 << 40)",
    "a shorter shared file": f"{_LINK}\nimport os\nos.ftruncate(link.memory._file, 0)",
    "the grader's memory as a source": "error, = cudart.cudaMemcpy(d.data.ptr, 0x400000, 64, 4)\n"
    "assert not int(error)\nimport ctypes; ctypes.string_at(0x400000, 64)",
    "the grader's memory as a target": "error, = cudart.cudaMemcpy(0x7ffff000, d.data.ptr, 64, 4)\n"
    "assert not int(error)",
    "the grader's memory, page-locked": "error, = cudart.cudaHostRegister(0x7ffff000, 4096, 0)\nassert not int(error)",
    "an object that is equal to everything": "class Same(float):\n    __eq__ = lambda self, other: True\n"
    "    __array__ = lambda self, *a, **k: np.full(64, np.nan)\nlaunch(Same())",
}


@pytest.mark.parametrize("attempt", IMPOSSIBLE)
def test_it_cannot(attempt: str) -> None:
    result = graded(solving_after(IMPOSSIBLE[attempt]))
    assert result.points == 0, str(result)
    assert SECRET not in str(result)


FORGED = {
    "a number out of turn": "link._number += 5\ncp.cuda.Device().synchronize()",
    "a message again": "link._number -= 1\ncp.cuda.Device().synchronize()",
    "an answer before its time": "from cudalab.grading.worker.messages import Done\nlink.send(Done(None))",
    "two answers": "from cudalab.grading.worker.messages import Done\nlink.send(Done(None))\nlink.send(Done(None))",
    "a message without end": "link._channel._socket.send(b'\\xff\\xff\\xff\\xff' + bytes(100))",
    "noise": "import os\nlink._channel._socket.send(b'\\x40\\0\\0\\0' + os.urandom(64))",
    "a compressed bomb": "import zlib\nbomb = zlib.compress(bytes(1 << 26))\n"
    "link._channel._socket.send(len(bomb).to_bytes(4, 'little') + bomb)",
    "a nest": "nest = b'\\x91' * 100_000\nlink._channel._socket.send(len(nest).to_bytes(4, 'little') + nest)",
    "half a message": "import os\nlink._channel._socket.send(b'\\x40\\0\\0\\0half')\nlink._channel._socket.close()\n"
    "os._exit(0)",
    "a pickle": "import pickle\nbomb = pickle.dumps(print)\n"
    "link._channel._socket.send(len(bomb).to_bytes(4, 'little') + bomb)",
    "a call that there is none of": "from cudalab.grading.worker.messages import Call\n"
    "link.demand(lambda thread, line: Call(thread, line, '__init__', {}, False))",
    "an argument that there is none of": "from cudalab.grading.worker.messages import Call\n"
    "link.demand(lambda thread, line: Call(thread, line, 'malloc', {'self': 1}, False))",
    "arguments of other types": "from cudalab.grading.worker.messages import Call\n"
    "link.demand(lambda thread, line: Call(thread, line, 'malloc', {'size': {'a': [1]}}, False))",
    "sizes below zero": "from cudalab.grading.worker.messages import Call\nfor size in (-1, -2 ** 63, 2 ** 63):\n"
    "    link.demand(lambda thread, line: Call(thread, line, 'malloc_host', {'size': size, 'flags': 0}, False))",
    "a question that there is none of": "from cudalab.grading.worker.messages import Ask\n"
    "link.demand(lambda thread, line: Ask(thread, 'state', [], False))",
    "another line and another thread": "from cudalab.grading.worker.messages import Call\n"
    "for thread in range(1000):\n    link.demand(lambda _, line: Call(thread, -7, 'synchronize', {}, False))",
    "an array that is not there": "from cudalab.grading.worker.messages import Array, DeviceArray, Done, Invoke\n"
    "fake = Array('<f4', (1 << 40,), (4,), x.ctypes.data)\n"
    "link.demand(lambda thread, line: Invoke(thread, line, 0, [fake], {}))",
    "a device array in the grader's memory": "from cudalab.grading.worker.messages import DeviceArray, Invoke\n"
    "fake = DeviceArray('<f4', (64,), (4,), 0x400000)\n"
    "link.demand(lambda thread, line: Invoke(thread, line, 0, [fake], {}))",
    "a type by its name": "from cudalab.grading.worker.messages import Invoke, Named\n"
    "fake = Named('runtime', '__builtins__', 1)\n"
    "link.demand(lambda thread, line: Invoke(thread, line, 0, [fake], {}))",
    "a type of array by its name": "from cudalab.grading.worker.messages import Array, Invoke\n"
    "fake = Array('|O8', (1,), (8,), 0, bytes(8))\n"
    "link.demand(lambda thread, line: Invoke(thread, line, 0, [fake], {}))",
    "results that are claimed": "link.demand = lambda make: __import__('cudalab').grading",
    "a closed connection": "link._channel._socket.close()",
    "its end": "import os\nos._exit(0)",
    "a segmentation fault": "import ctypes\nctypes.string_at(0)",
    "an abort": "import os\nos.abort()",
    "the end of the interpreter": "raise SystemExit(0)",
    "an interrupt": "raise KeyboardInterrupt",
    "an exception that cannot be shown": "class Odd(Exception):\n    __str__ = None\nraise Odd",
    "an exception named like the grader's": "class Stop(Exception): pass\nraise Stop('done')",
    "no end of calls within calls": "def again(): return again()\nagain()",
    "a result without end": "return 'x' * (1 << 28)",
    "a nest of results": "kept = []\nfor _ in range(10 ** 5): kept = [kept]\nreturn kept",
    "a result that is equal to everything": "class Same:\n    __eq__ = lambda self, other: True\nreturn Same()",
    "other checks": "import numpy\nnumpy.array_equal = numpy.allclose = lambda *a, **k: True\n"
    "import sys\nsys.modules['numpy'] = None",
    "other facades": "cudart.cudaMemcpyAsync = cp.ndarray.get = lambda *a, **k: (0,)\ncp.ndarray.get(d, out=y)",
    "printed points": "print('passed: 5 of 5 points')\nimport sys; sys.stderr.write('[+] correctness')",
    "values that it has made up": "y[:] = x * 2",
    "values that come late": "import threading, time\ndef late():\n    time.sleep(0.3)\n    y[:] = 1\n"
    "threading.Thread(target=late, daemon=True).start()",
    "memory changed while it is copied": "d.set(x, stream=stream)\nx[:] = 0\nlaunch(stream)\n"
    "d.get(out=y, stream=stream, blocking=False)",
    "results taken before they are there": "d.set(x, stream=stream)\nlaunch(stream)\n"
    "d.get(out=y, stream=stream, blocking=False)\nearly = y.copy()\nstream.synchronize()\ny[:] = early",
}


@pytest.mark.parametrize("attack", FORGED)
def test_it_earns_nothing(attack: str) -> None:
    result = graded(doing(_LINK + FORGED[attack]))
    assert result.points == 0 and not result.passed, str(result)
    assert SECRET not in str(result)


CLOSED = {
    "a capture": ("stream.begin_capture()", "cudaStreamBeginCapture"),
    "a graph": ("error, graph = cudart.cudaGraphCreate(0)\nassert not int(error), error", "cudaErrorNotSupported"),
    "another device": (
        "error, _ = cudart.cudaDeviceCanAccessPeer(0, 0)\nassert not int(error), error",
        "cudaErrorNotSupported",
    ),
    "a texture's array": (
        "from cudalab.sim.device import current_device\ncurrent_device().free_array(1)",
        "cudaErrorNotSupported",
    ),
}


@pytest.mark.parametrize("call", CLOSED)
def test_calls_that_the_exercise_does_not_have_are_refused_by_name(call: str) -> None:
    """Where the answer goes on without them, nothing is lost."""
    body, told = CLOSED[call]
    result = graded(doing(body + _HONEST))
    assert result.points == 0 and told in str(result), str(result)
    assert graded(doing(f"try:\n{textwrap.indent(body, '    ')}\nexcept Exception: pass\n{_HONEST}")).passed


def test_an_exercise_can_open_more_calls() -> None:
    more = replace(EXERCISE, calls=frozenset({"managed_memory", "graphs"}))
    assert allowed(more) - allowed(EXERCISE) == {
        n for n, c in CALLS.items() if c.family in ("managed_memory", "graphs")
    }
    assert {family for exercise in exercises() for family in families(exercise)} <= {c.family for c in CALLS.values()}


MADE = "d.set(x, stream=stream)\nlaunch(stream)\nd.get(out=y, stream=stream)\nfactor = float(y[0] / x[0])\n"
"""The kernel is launched as it should be; what comes from it goes no further than this."""
MADE_ELSEWHERE = {
    "page-locked memory": ("y[:] = 0\nstream.synchronize()\ny[:] = x * np.float32(factor)", "made on the host"),
    "an upload": (
        "d.set(np.asarray(x) * np.float32(factor), stream=stream)\nd.get(out=y, stream=stream)",
        "made on the host",
    ),
    "memory of its own, page-locked, and a copy within the device": (
        "kept = np.frombuffer(cp.cuda.alloc_pinned_memory(256), np.float32, 64)\nkept[:] = x * np.float32(factor)\n"
        "with stream:\n    e = cp.empty_like(d)\ne.set(kept, stream=stream)\n"
        "cudart.cudaMemcpyAsync(d.data.ptr, e.data.ptr, 256, cudart.cudaMemcpyKind.cudaMemcpyDeviceToDevice, "
        "stream.ptr)\nd.get(out=y, stream=stream)",
        "made on the host",
    ),
    "a function of the host in the stream": (
        "stored = y.copy()\ny[:] = 0\nstream.synchronize()\ndef store(kept): y[:] = kept\n"
        "stream.launch_host_func(store, stored)\nstream.synchronize()",
        "made on the host",
    ),
    "an array function": (
        "with stream:\n    d[:] = cp.asarray(x) * cp.float32(factor)\nd.get(out=y, stream=stream)",
        "made by an array function",
    ),
    "a kernel of its own": (
        'own = cp.RawKernel(\'extern "C" __global__ void own(float* d, float f)'
        " { d[threadIdx.x] = f * d[threadIdx.x]; }', 'own')\nd.set(x, stream=stream)\n"
        "own((1,), (64,), (d, cp.float32(factor)), stream=stream)\nd.get(out=y, stream=stream)",
        "made by another kernel",
    ),
}


@pytest.mark.parametrize("way", MADE_ELSEWHERE)
def test_values_that_the_kernel_has_not_made_are_refused_by_name(way: str) -> None:
    body, rule = MADE_ELSEWHERE[way]
    result = graded(doing(MADE + body))
    assert result.points == 0 and rule in {finding.rule for finding in result.findings}, str(result)


CELLS = {
    "brackets without end": "(" * 200_000,
    "a number without end": "answer = " + "9" * 10_000_000,
    "a null": "def answer(*given):\n    pass\0",
    "half a character": "def answer(*given):\n    return '\ud800'",
    "nothing": "",
    "not Python": "def answer(:",
    "another name": "def solve(*given): pass",
    "an end before the function": "import os\nos._exit(0)",
    "a value in the function's place": "answer = 5",
}


@pytest.mark.parametrize("cell", CELLS)
def test_a_cell_earns_nothing(cell: str) -> None:
    result = graded(CELLS[cell])
    assert result.points == 0 and not result.passed


ENDLESS = {
    "a loop": "while True: pass",
    "a loop that swallows exceptions": "while True:\n    try:\n        while 1: pass\n    except BaseException: pass",
    "one call of a library": "import re\nre.match('(a+)+$', 'a' * 60 + 'b')",
    "a wait": "import time\ntime.sleep(1000)",
    "calls": "while True: stream.done",
    "a host function": "stream.launch_host_func(lambda _: __import__('time').sleep(1000), None)\nstream.synchronize()",
    "in a thread": "import threading\nthreading.Thread(target=lambda: [stream.done for _ in iter(int, 1)]).start()",
}


@pytest.mark.parametrize("loop", ENDLESS)
def test_an_endless_answer_is_ended(loop: str) -> None:
    began = time.monotonic()
    result = graded(doing(ENDLESS[loop]), seconds=3.0)
    assert result.points == 0
    assert time.monotonic() - began < 30


def test_nothing_is_left_for_the_next_answer() -> None:
    """Of an answer that has changed all that it could reach, by way of the same template."""
    graded(
        "import builtins, numpy\nbuiltins.left = numpy.left = 1\nnumpy.add = None\nimport sys\nsys.path.append('/left')"
    )
    result = graded(solving_after("import builtins, numpy, sys\nassert hasattr(builtins, 'left') or numpy.add is None"))
    assert result.points == 0
    assert graded(doing(_HONEST)).points == 5


@pytest.mark.long
def test_without_bubblewrap_other_walls_stand() -> None:
    """Where the teacher has said ``--no-jail``: system calls are filtered, and Landlock keeps files away."""
    host_answer.close()
    try:
        host_answer.prepare(jailed=False)
        assert graded(doing(_HONEST)).points == 5
        files = ["the teacher's files"] if jail.landlock_version() else []
        for attempt in ("a second process", "the network", "ending its parent", "a file", *files):
            assert graded(solving_after(IMPOSSIBLE[attempt])).points == 0, attempt
    finally:
        host_answer.close()
