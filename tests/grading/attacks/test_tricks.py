"""More answers in Python that attack: by what Python runs later, by objects that are not what they seem, by the files
and the memory that the worker has. As in ``test_worker.py`` most of them solve the exercise where their attempt
succeeds."""

from __future__ import annotations

import pytest

from cudalab.grading import host_answer
from tests.grading.attacks.test_worker import (
    _HONEST,
    _LIBC,
    _LINK,
    MADE,
    SECRET,
    _template,
    doing,
    graded,
    solving_after,
)

__all__ = ["_template"]

_FILE = f"{_LINK}{_LIBC}file = link.memory._file\n"
IMPOSSIBLE = {
    "a seal on the shared file": f"{_FILE}import fcntl\nfcntl.fcntl(file, 1033, 0x10)",
    "a seal against the grader's writes": f"{_FILE}import fcntl\nfcntl.fcntl(file, 1033, 0x8)",
    "a longer shared file, past Python": f"{_FILE}zero, end = map(ctypes.c_long, (0, 1 << 40))\n"
    "must(libc.fallocate(file, 0, zero, end))",
    "the shared file by another name": f"{_FILE}import os\nos.open(f'/proc/self/fd/{{file}}', os.O_RDWR)",
    "results in the shared file": f"{_FILE}import os\nall = np.frombuffer(os.pread(file, 64 << 20, 0), np.float32)\n"
    "all = all[np.isfinite(all) & (all != 0)]\nassert all.size > 64 and not np.isin(all, x).all()",
    "memory beside what is shared": "import ctypes\nnear = np.frombuffer(ctypes.string_at(x.ctypes.data - 4096, 4096), "
    "np.float32)\nassert np.isfinite(near[near != 0]).any()",
    "more time": "import resource\nresource.setrlimit(resource.RLIMIT_CPU, (1 << 30, 1 << 30))",
    "its own process, dumped": f"{_LIBC}must(libc.prctl(4, 1, 0, 0, 0))\nopen('/proc/self/mem', 'rb')",
    "a module from where it is run": "import sys, os\nsys.path.insert(0, os.getcwd())\nimport sitecustomize",
    "the grader's modules": "import cudalab.grading.store",
    "the checks' modules, by their file": "import importlib.util, os, sys\n"
    "above = os.path.dirname(sys.modules['cudalab.sim'].__path__[0])\n"
    "spec = importlib.util.spec_from_file_location('c', os.path.join(above, 'checks', 'bench.py'))\n"
    "spec.loader.exec_module(importlib.util.module_from_spec(spec))",
    "a device of its own": "from cudalab.sim.device.device import Device\nDevice()",
    "a device of its own, given to all": "from cudalab.sim.device import current\ncurrent.reset()",
    "an allocation of 2 ** 200 bytes": "error, _ = cudart.cudaMalloc(1 << 200)\nassert not int(error)",
    "time of the host that is no number": "from cudalab.sim.device import current\ncurrent.host_work(float('nan'))",
    "time of the host that runs back": "from cudalab.sim.device import current\n"
    "current.current_device().host_work(-10 ** 9)",
    "the frames of other threads": "import sys\n"
    "assert any('trial' in f.f_locals for f in sys._current_frames().values())",
    "what the grader was asked before": "import gc\n"
    "assert any(isinstance(one, str) and 'def answer' in one and 'what the grader' not in one\n"
    "    for kept in gc.get_objects() if isinstance(kept, dict) for one in kept.values())",
}


@pytest.mark.parametrize("attempt", IMPOSSIBLE)
def test_it_cannot(attempt: str) -> None:
    result = graded(solving_after(IMPOSSIBLE[attempt]))
    assert result.points == 0 and SECRET not in str(result), str(result)


_NEXT = (
    "class Odd:\n    def __index__(self):\n        self.n = getattr(self, 'n', 0) + 1\n        return self.n * 256\n"
)
LATER = {
    "at exit": "import atexit\natexit.register(lambda: y.__setitem__(slice(None), 1))",
    "when it is collected": "class Late:\n    def __del__(self): y[:] = x * 2\nlate = [Late()]\nlate.append(late)",
    "when the interpreter ends": "import sys\nsys.exitfunc = sys.excepthook = lambda *given: y.fill(1)\n"
    "raise ValueError",
    "on a signal": "import signal\nsignal.signal(signal.SIGALRM, lambda *given: y.fill(1))\n"
    "signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)",
    "at each line": "import sys\nsys.settrace(lambda *given: y.fill(1))",
    "in a generator": "yield d.set(x, stream=stream)\nyield launch(stream)\nyield d.get(out=y, stream=stream)",
    "in a coroutine": "async def later(): d.set(x); launch(stream); d.get(out=y)\nreturn later()",
    "in a finalizer": "import weakref\nclass Here: pass\nhere = Here()\nweakref.finalize(here, y.fill, 1)\ndel here",
    "in threads that all write": "import threading\ndef write():\n    while True: y[:] = x * 2\n"
    "for _ in range(4): threading.Thread(target=write, daemon=True).start()",
}
ODD = {
    "sizes that change": f"{_NEXT}cudart.cudaMemcpy(y.ctypes.data, d.data.ptr, Odd(), 4)",
    "an array that is none": "class Odd:\n    __class__ = np.ndarray\nreturn Odd()",
    "an array without end": "launch(np.broadcast_to(np.float32(1), (1 << 45,)))",
    "a device array without end": "launch(cp.ndarray((1 << 45,), np.float32, d.data, (0,)))",
    "a type that lies about its size": "np.dtype.itemsize = 1\nlaunch(np.zeros(4))",
    "a result that shows itself without end": "class Odd:\n    __repr__ = lambda self: repr(self)\nreturn Odd()",
    "a result that ends the process when shown": "class Odd:\n    def __repr__(self): raise SystemExit\nreturn Odd()",
    "an integer of a million digits": "return 1 << 3_000_000",
    "half a character in a result": "return '\\ud800' * 10",
    "numbers that are none": "return [float('nan'), float('inf'), -0.0, {float('nan'): 1}]",
    "a mapping of itself": "kept = {}\nkept['a'] = kept\nreturn kept",
    "a group of exceptions": "raise ExceptionGroup('many', [ValueError(1)] * 1000)",
    "an end of iteration": "raise StopIteration",
    "an end of a generator": "raise GeneratorExit",
    "an exception with another's name": "class AssertionError(BaseException): pass\nraise AssertionError('passed')",
    "an exception with notes without end": "error = ValueError()\nerror.__notes__ = ['x' * 999] * 10 ** 5\nraise error",
    "a name that is none": "raise type('a b\\n', (ValueError,), {})",
    "a page of HTML": "raise ValueError('<script>alert(1)</script>\\x1b[2J passed: 5 of 5 points')",
    "a stack that overflows in C": "kept = ()\nfor _ in range(10 ** 6): kept = (kept,)\nhash(kept)",
}
FORGED = {
    "a function with a negative number": "from cudalab.grading.worker.messages import Invoke\n"
    "link.demand(lambda thread, line: Invoke(thread, line, -1, [], {}))",
    "a function of its own that it has not": "from cudalab.grading.worker.messages import Done, Function\n"
    "link.send(Done(Function(1 << 40)))",
    "an array that seems endless": "from cudalab.grading.worker.messages import Array, Invoke\n"
    "fake = Array('<f4', (1 << 45,), (0,), x.ctypes.data)\n"
    "link.demand(lambda thread, line: Invoke(thread, line, 0, [fake], {}))",
    "a value of no enumeration": "from cudalab.grading.worker.messages import Invoke, Named\n"
    "fake = Named('runtime', 'cudaError_t', 1 << 40)\n"
    "link.demand(lambda thread, line: Invoke(thread, line, 0, [fake], {}))",
    "an exception of a strange name": "from cudalab.grading.worker.messages import Raised\n"
    "link.send(Raised(['\\0', 'ExceptionGroup', 'a' * 10 ** 6], 'x' * 10 ** 6, ['y'] * 10 ** 5, -5, 0, '', ''))",
    "a message in pieces": "import time\nfor byte in b'\\x40\\0\\0\\0' + bytes(60): "
    "link._channel._socket.send(bytes([byte])); time.sleep(0.001)",
    "the grader's part of the talk": "from cudalab.grading.worker.messages import Done, ToWorker\n"
    "link._channel.send(ToWorker(Done(None), []))",
    "a program that was not compiled": "from cudalab.grading.worker.messages import Call\n"
    "link.demand(lambda thread, line: Call(thread, line, 'load_module', {'program': -1}, False))",
}


@pytest.mark.parametrize("trick", [*LATER, *ODD, *FORGED])
def test_it_earns_nothing(trick: str) -> None:
    body = {**LATER, **ODD, **FORGED}[trick]
    result = graded(doing(_LINK + body))
    assert result.points == 0 and not result.passed, str(result)
    assert SECRET not in str(result)


def test_an_honest_answer_after_all_of_them_earns_all_points() -> None:
    assert graded(doing(_HONEST)).points == 5


MADE_BY_HAND = {
    "by another way to the shared file": f"{_FILE}import mmap\nkept = y.copy()\ny[:] = 0\nstream.synchronize()\n"
    "all = mmap.mmap(file, 64 << 20)\nat = all.find(x.tobytes())\nother = np.frombuffer(all, np.float32)\n"
    "y[:] = kept * 2\nstream.synchronize()\ny[:] = kept",
    "by a pointer": "import ctypes\nkept = bytes(y)\ny[:] = 0\nstream.synchronize()\n"
    "ctypes.memmove(y.ctypes.data, kept, len(kept))",
    "between two calls, by a thread": "import threading\nkept = y.copy()\ny[:] = 0\nstream.synchronize()\n"
    "one = threading.Thread(target=lambda: y.__setitem__(slice(None), kept))\none.start()\none.join()",
    "by views": "kept = x * np.float32(factor)\ny[:] = 0\nstream.synchronize()\n"
    "y.view(np.uint8).reshape(16, 16).T[...] = kept.view(np.uint8).reshape(16, 16).T",
}


@pytest.mark.parametrize("way", MADE_BY_HAND)
def test_values_that_the_host_has_stored_are_refused_by_name(way: str) -> None:
    result = graded(doing(MADE + MADE_BY_HAND[way]))
    assert result.points == 0 and "made on the host" in {finding.rule for finding in result.findings}, str(result)


ENDLESS = {
    "a thread that holds the link": f"{_LINK}import threading\n"
    "threading.Thread(target=link.gate.__enter__, daemon=True).start()",
    "recursion without limit": "import sys\nsys.setrecursionlimit(1 << 30)\ndef again(): return again()\nagain()",
    "a loop that takes no signal": "import signal\nfor number in range(1, 65):\n    try: signal.signal(number, "
    "signal.SIG_IGN)\n    except (OSError, ValueError): pass\nwhile True: pass",
    "a lock that nobody opens": "import threading\nlock = threading.Lock()\nlock.acquire()\nlock.acquire()",
    "a destructor": "class Late:\n    def __del__(self):\n        while True: pass\nlate = Late()\ndel late",
    "a number that takes for ever": "return len(str(7 ** (10 ** 9)))",
    "a sort": "return sorted(range(10 ** 9), key=lambda k: -k)",
}


@pytest.mark.parametrize("loop", ENDLESS)
def test_an_endless_answer_is_ended(loop: str) -> None:
    assert graded(doing(ENDLESS[loop]), seconds=3.0).points == 0


def test_an_answer_that_goes_by_the_order_of_a_set_is_the_same_each_time() -> None:
    told = set()
    for _ in range(2):
        host_answer.close()
        told.add(str(graded(doing("raise ValueError(' '.join({'one', 'two', 'three', 'four'}))"))))
    assert len(told) == 1, told
