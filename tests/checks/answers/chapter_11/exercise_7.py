"""Answers to 11.7."""

from __future__ import annotations

from tests.checks.answers.answer import Right, Wrong, table

_C = "correctness"
_RIGHT = """
def starts(program, engines):
    begins, ends = [], []
    for k, (kind, stream, units) in enumerate(program):
        begin = 0
        for j in range(k):
            other, place, _ = program[j]
            same = other != "kernel" != kind and (engines == 1 or other == kind)
            if place == stream or same or 0 in (place, stream):
                begin = max(begin, ends[j])
        begins.append(begin)
        ends.append(begin + units)
    return begins
"""
_STEPS = """
def starts(program, engines):
    begins, left, time = [None] * len(program), list(range(len(program))), 0
    running = {}
    while left:
        for k in list(left):
            kind, stream, units = program[k]
            def holds(j):
                other, place, _ = program[j]
                same = other != "kernel" and kind != "kernel" and (engines == 1 or other == kind)
                return place == stream or same or place == 0 or stream == 0
            before = [j for j in range(k) if holds(j) and (j in left or running.get(j, 0) > time)]
            if not before:
                begins[k], running[k] = time, time + units
                left.remove(k)
        time += 1
    return begins
"""
_RECURSION = """
from functools import cache
def starts(program, engines):
    def engine(kind):
        return {"kernel": None, "in": 0, "out": engines - 1}[kind]
    @cache
    def begin(k):
        kind, stream, _ = program[k]
        mine = engine(kind)
        holds = (j for j in range(k) if program[j][1] in (0, stream) or stream == 0
                 or (mine is not None and engine(program[j][0]) == mine))
        return max((begin(j) + program[j][2] for j in holds), default=0)
    return [begin(k) for k in range(len(program))]
"""
_ENGINE = '        if kind != "kernel":\n            waits_for.append(kind if engines == 2 else "copies")\n'
_NULL = "        if stream == 0:\n            begin = max(begin, all_done)\n            null_done = begin + units\n"
_BEGIN = "        begin = max([null_done] + [free.get(one, 0) for one in waits_for])\n"
_AS_READY = """
def starts(program, engines):
    begins, free = [None] * len(program), {}
    def engine(k):
        kind = program[k][0]
        return None if kind == "kernel" else kind if engines == 2 else "copies"
    while None in begins:
        ready = []
        for k, (kind, stream, units) in enumerate(program):
            before = [j for j in range(k) if program[j][1] in (0, stream) or stream == 0]
            if begins[k] is None and all(begins[j] is not None for j in before):
                time = max((begins[j] + program[j][2] for j in before), default=0)
                ready.append((max(time, free.get(engine(k), 0)) if engine(k) else time, k))
        begins[min(ready)[1]], k = min(ready)
        if engine(k):
            free[engine(k)] = begins[k] + program[k][2]
    return begins
"""
_EQUAL = """
def starts(program, engines):
    class Any:
        def __eq__(self, other): return True
        def __ne__(self, other): return False
    return [Any() for _ in program]
"""


def _wrong(name: str, *replace: tuple[str, str], mistake: str = "") -> Wrong:
    return Wrong(name, replace, _C, "wrong values", mistake=mistake)


ANSWERS_11_7 = table(
    "11.7",
    Right("each pair of pieces", source=_RIGHT),
    Right("unit by unit", source=_STEPS),
    Right("by recursion", source=_RECURSION),
    Right("an array", (("    return begins", "    return np.array(begins, dtype=np.int64)"),)),
    Right("floats", (("begins.append(begin)", "begins.append(float(begin))"),)),
    _wrong("no engines", (_ENGINE, ""), mistake="each stream is taken for itself"),
    _wrong("always two engines", (' if engines == 2 else "copies"', ""), mistake="here there is one for both"),
    _wrong("always one engine", ("kind if engines == 2 else ", ""), mistake="each direction has its own"),
    _wrong(
        "kernels in turn",
        (_ENGINE, '        waits_for.append("copies" if kind != "kernel" and engines == 1 else kind)\n'),
        mistake="kernels take their turns",
    ),
    _wrong("stream 0 is like the others", (_NULL, ""), mistake="it is the NULL stream"),
    _wrong(
        "the NULL stream does not wait",
        ("            begin = max(begin, all_done)\n", ""),
        mistake="does not wait for what",
    ),
    _wrong("nobody waits for the NULL stream", ("[null_done] + ", "[0] + "), mistake="work in the other streams"),
    _wrong("only the engine", ("[stream]", "[]"), mistake="overlaps with itself"),
    _wrong("ends", ("begins.append(begin)", "begins.append(begin + units)"), mistake="these are the ends"),
    _wrong("one after the other", (_BEGIN, "        begin = all_done\n"), mistake="nothing overlaps"),
    Wrong(
        "what is ready first",
        (),
        _C,
        "wrong values",
        source=_AS_READY.replace(
            "begins[min(ready)[1]], k = min(ready)", "time, k = min(ready)\n        begins[k] = time"
        ),
        mistake="ready first",
    ),
    _wrong(
        "the NULL stream waits for streams, not for engines",
        ("begin = max(begin, all_done)", "begin = max(begin, free.get(1, 0), free.get(2, 0))"),
    ),
    _wrong("free when it begins", ("free[one] = begin + units", "free[one] = begin")),
    _wrong("the last end counts", ("all_done = max(all_done, begin + units)", "all_done = begin + units")),
    Wrong("the total", (("    return begins", "    return all_done"),), _C, "wrong shape"),
    Wrong("the last is left out", (("    return begins", "    return begins[:-1]"),), _C, "wrong shape"),
    Wrong(
        "the sample's times",
        (),
        _C,
        "wrong shape",
        source="def starts(program, engines):\n    return [0, 1, 2, 3, 4, 5]\n",
        cheat=True,
    ),
    Wrong(
        "short programs only",
        (("    begins = []\n", "    if len(program) > 6:\n        return [0] * len(program)\n    begins = []\n"),),
        _C,
        "wrong values",
        cheat=True,
    ),
    Wrong("equal to everything", (), _C, "wrong shape", source=_EQUAL, cheat=True),
    Wrong(
        "empties the program",
        (("    return begins", "    program.clear()\n    return []"),),
        _C,
        "wrong shape",
        cheat=True,
    ),
    Wrong(
        "asks the device",
        (("    begins = []\n", "    begins = []\n    cudart.cudaMalloc(16)\n"),),
        "efficiency",
        "runtime calls of the function",
        cheat=True,
    ),
)
