"""Answers to 03.4 and 03.5."""

from __future__ import annotations

from cudalab.checks.chapter_03.errors import CALLS, TAKEN
from tests.checks.answers.answer import Right, Wrong, table

# --- 03.4 ---

_C = "correctness"
_TAKES = """        if call == "cudaGetLastError()":
            last = "cudaSuccess"
"""
_KEEPS = """        if name != "cudaSuccess":
            last = name
"""
_MADE = """def codes(calls):
    wild = cp.RawKernel('extern "C" __global__ void wild(int* p) { *p = 1; }', "wild")
    names = []
    for call in calls:
        if call == "launch wild":
            wild((1,), (1,), (np.uint64(8),))
            names.append("cudaSuccess")
        else:
            name, argument = call[:-1].split("(")
            names.append(getattr(cudart, name)(*([int(argument)] if argument else []))[0].name)
    return names
"""


def _frames(name: str) -> str:
    """An answer that looks for a variable of the check."""
    return f"""
import sys
def codes(calls):
    frame = sys._getframe()
    while "{name}" not in frame.f_locals:
        frame = frame.f_back
    return frame.f_locals["{name}"]
"""


_ORACLE = """
import importlib
def codes(calls):
    return importlib.import_module("cudalab.checks.chapter_03.errors")._made(calls)
"""
_ELSEWHERE = f"""
from cudalab.sim.device.current import set_current_device
from cudalab.sim.device.device import Device
def codes(calls):
    before = set_current_device(Device())
    try:
        return in_turn(calls)
    finally:
        set_current_device(before)
{_MADE.replace("codes", "in_turn")}
"""
_SHORTER = _frames("programs").replace(
    '    return frame.f_locals["programs"]\n',
    '    frame.f_locals["calls"][:] = calls[:1] * len(calls)\n    return ["cudaSuccess"] * len(calls)\n',
)
_OTHER_RUNTIME = """
def codes(calls):
    for name in ("cudaSetDevice", "cudaMalloc", "cudaDeviceSynchronize", "cudaPeekAtLastError", "cudaGetLastError"):
        setattr(cudart, name, lambda *given: (cudart.cudaError_t.cudaSuccess, 0))
    return ["cudaSuccess"] * len(calls)
"""
_SILENT = _frames("bench").replace(
    '    return frame.f_locals["bench"]',
    '    frame.f_locals["bench"].find = lambda *given, **more: None\n    return []',
)
ANSWERS_03_4 = table(
    "03.4",
    Right(
        "two states in a class",
        source="""
class Program:
    def __init__(self):
        self.last, self.lost = "cudaSuccess", False
    def call(self, name):
        match name:
            case "launch wild":
                self.lost = True
                return "cudaSuccess"
            case "cudaGetDeviceCount()":
                return "cudaSuccess"
            case "cudaPeekAtLastError()":
                return self.last
            case "cudaGetLastError()":
                taken, self.last = self.last, "cudaSuccess"
                return taken
            case "cudaSetDevice(99)":
                self.last = "cudaErrorInvalidDevice"
                return self.last
        if self.lost:
            self.last = "cudaErrorIllegalAddress"
            return self.last
        return "cudaSuccess"
def codes(calls):
    program = Program()
    return [program.call(name) for name in calls]
""",
    ),
    Right("a tuple", (("return names", "return tuple(names)"),)),
    Right(
        "the enumeration's names, unused of the device",
        (
            ('"cudaErrorInvalidDevice"', "cudart.cudaError_t.cudaErrorInvalidDevice.name"),
            ('"cudaErrorIllegalAddress"', "cudart.cudaError_t.cudaErrorIllegalAddress.name"),
        ),
    ),
    Right(
        "looks back at the program",
        source="""
def codes(calls):
    names = []
    for at, call in enumerate(calls):
        if "Last" in call:
            kept = "cudaSuccess"
            for earlier, name in zip(calls, names):
                if earlier == "cudaGetLastError()":
                    kept = "cudaSuccess"
                elif "Last" not in earlier and name != "cudaSuccess":
                    kept = name
            names.append(kept)
        elif "launch wild" in calls[:at] and ("Malloc" in call or "Synchronize" in call):
            names.append("cudaErrorIllegalAddress")
        else:
            names.append("cudaErrorInvalidDevice" if "99" in call else "cudaSuccess")
    return names
""",
    ),
    Wrong(
        "the launch fails",
        (("            lost = True  #", '            lost, name = True, "cudaErrorIllegalAddress"  #'),),
        _C,
        "wrong values",
        mistake="a launch returns before its kernel has run",
    ),
    Wrong(
        "looking takes",
        (('if call == "cudaGetLastError()"', 'if "Last" in call'),),
        _C,
        "wrong values",
        mistake="cudaPeekAtLastError only looks",
    ),
    Wrong("asking does not take", ((_TAKES, ""),), _C, "wrong values", mistake="cudaGetLastError takes the error"),
    Wrong(
        "a success clears the last error",
        ((_KEEPS, '        if "Last" not in call:\n            last = name\n'),),
        _C,
        "wrong values",
        mistake="a call that succeeds does not clear",
    ),
    Wrong(
        "taking the error mends the device",
        ((_TAKES, '        if call == "cudaGetLastError()":\n            last, lost = "cudaSuccess", False\n'),),
        _C,
        "wrong values",
        mistake="the device is lost for the rest of the process",
    ),
    Wrong(
        "the wait takes the error",
        (
            (
                '            name = "cudaErrorIllegalAddress"\n',
                '            name, lost = "cudaErrorIllegalAddress", False\n',
            ),
        ),
        _C,
        "wrong values",
        mistake="the device is lost for the rest of the process",
    ),
    Wrong(
        "every error stays",
        (
            (
                "        elif lost and",
                '        elif last != "cudaSuccess" and "Malloc" in call:\n'
                "            name = last\n        elif lost and",
            ),
        ),
        _C,
        "wrong values",
        mistake="an error that is no fault of a kernel stays with its own call",
    ),
    Wrong(
        "questions fail as well",
        (('("cudaMalloc(4)",', '("cudaGetDeviceCount()", "cudaMalloc(4)",'),),
        _C,
        "wrong values",
        mistake="a question about devices",
    ),
    Wrong(
        "codes, not names",
        (("return names", "return [getattr(cudart.cudaError_t, name) for name in names]"),),
        _C,
        "wrong values",
        mistake="an error code where its name is wanted",
    ),
    Wrong(
        "failures only",
        (("return names", 'return [name for name in names if name != "cudaSuccess"]'),),
        _C,
        "wrong shape",
    ),
    Wrong("makes the calls", (), _C, "calls made", source=_MADE, cheat=True),
    Wrong(
        "makes the harmless calls",
        (("    return names", "    cudart.cudaMalloc(4)\n    return names"),),
        "efficiency",
        CALLS.name,
        cheat=True,
    ),
    Wrong(
        "the example's codes",
        (),
        _C,
        "wrong shape",
        source="""
def codes(calls):
    return ["cudaSuccess", "cudaErrorInvalidDevice", "cudaSuccess", "cudaErrorInvalidDevice", "cudaSuccess"]
""",
        cheat=True,
    ),
    Wrong(
        "all is well",
        (),
        _C,
        "wrong values",
        source='def codes(calls):\n    return ["cudaSuccess"] * len(calls)\n',
        cheat=True,
    ),
    Wrong("nothing", (("    names, last", "    return\n    names, last"),), _C, "wrong shape", cheat=True),
    Wrong("what the check knows", (), "soundness", "AttributeError", source=_frames("right"), cheat=True),
    Wrong("the check's own way", (), "soundness", "RuntimeError", source=_ORACLE, cheat=True),
    Wrong("a device of its own", (), "soundness", "RuntimeError", source=_ELSEWHERE, cheat=True),
    Wrong("another program for the check", (), "soundness", "TypeError", source=_SHORTER, cheat=True),
    Wrong("another runtime for the check", (), _C, "replaced names", source=_OTHER_RUNTIME, cheat=True),
    Wrong("a check that finds nothing", (), _C, "replaced names", source=_SILENT, cheat=True),
)

# --- 03.5 ---

_ASK = "        names[number] = cudart.cudaGetLastError()[0].name\n"
ANSWERS_03_5 = table(
    "03.5",
    Right(
        "one after the other",
        source="""
import threading
def last_errors(jobs):
    names = []
    def run(job):
        job()
        names.append(cudart.cudaGetLastError()[0].name)
    for job in jobs:
        thread = threading.Thread(target=run, args=(job,))
        thread.start()
        thread.join()
    return names
""",
    ),
    Right("only looks, in a thread that ends", (("cudaGetLastError", "cudaPeekAtLastError"),)),
    Right(
        "a thread that has a result",
        source="""
from threading import Thread
class Asked(Thread):
    def __init__(self, job):
        super().__init__()
        self.job = job
    def run(self):
        self.job()
        self.error = cudart.cudaGetLastError()[0]
def last_errors(jobs):
    threads = [Asked(job) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [thread.error.name for thread in threads]
""",
    ),
    Wrong(
        "asked when all have ended, in the caller's thread",
        (
            ("        job()\n" + _ASK, "        job()\n"),
            ("    return names", "    return [cudart.cudaGetLastError()[0].name for job in jobs]"),
        ),
        _C,
        "wrong values",
        mistake="asked in the caller's thread",
    ),
    Wrong(
        "asked before the job",
        (("        job()\n" + _ASK, _ASK + "        job()\n"),),
        _C,
        "wrong values",
    ),
    Wrong(
        "in the caller's thread",
        (("thread.start()", "thread.run()"), ("        thread.join()", "        pass")),
        _C,
        "wrong threads",
    ),
    Wrong(
        "in the order in which they ended",
        (
            ("in enumerate(jobs)]", "in reversed(list(enumerate(jobs)))]"),
            ('names = ["cudaSuccess"] * len(jobs)', "names = []"),
            ("names[number] = cudart.cudaGetLastError()[0].name", "names.append(cudart.cudaGetLastError()[0].name)"),
            ("thread.start()\n    for thread in threads:\n", "thread.start()\n"),
        ),
        _C,
        "wrong values",
        mistake="in the order in which the threads came to it",
    ),
    Wrong(
        "takes the caller's error first",
        (("    names =", "    cudart.cudaGetLastError()\n    names ="),),
        "efficiency",
        TAKEN.name,
    ),
    Wrong("the error, not its name", (("()[0].name", "()[0]"),), _C, "wrong values", mistake="its name is wanted"),
    Wrong(
        "a pool of threads, some of which run several jobs",
        (),
        _C,
        "wrong threads",
        source="""
from concurrent.futures import ThreadPoolExecutor
def last_errors(jobs):
    def run(job):
        job()
        return cudart.cudaGetLastError()[0].name
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(run, jobs))
""",
    ),
    Wrong("the whole answer", (("()[0].name", "()"),), _C, "wrong values"),
    Wrong(
        "failures only",
        (("return names", 'return [name for name in names if name != "cudaSuccess"]'),),
        _C,
        "wrong shape",
    ),
    Wrong(
        "one thread for all jobs",
        (
            (
                "[Thread(target=run, args=each) for each in enumerate(jobs)]",
                "[Thread(target=lambda: [run(*each) for each in enumerate(jobs)])]",
            ),
        ),
        _C,
        "wrong threads",
        cheat=True,
    ),
    Wrong(
        "resets the device",
        (("    return names", "    cudart.cudaDeviceReset()\n    return names"),),
        "soundness",
        "device reset",
        cheat=True,
    ),
    Wrong("each job twice", (("        job()\n", 2 * "        job()\n"),), _C, "wrong jobs", cheat=True),
    Wrong("no job", (("        job()\n", ""),), _C, "wrong jobs", cheat=True),
    Wrong(
        "always the example's",
        (("return names", 'return ["cudaErrorInvalidDevice", "cudaSuccess"]'),),
        _C,
        "wrong shape",
        cheat=True,
    ),
    Wrong(
        "first in the caller's thread, to look",
        (("    threads =", "    for job in jobs:\n        job()\n    threads ="),),
        _C,
        "wrong jobs",
        cheat=True,
    ),
)
