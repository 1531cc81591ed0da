"""Answers to 08.4 and 08.5."""

from __future__ import annotations

from cudalab.checks.chapter_08.mapped import ARRAYS, BUS, CALLS, FEW_WAITS, LEFT, NEEDLESS, OTHERS, PLACE
from cudalab.checks.chapter_08.pinned import POLLS
from tests.checks.answers.answer import Right, Wrong, table

_C, _E = "correctness", "efficiency"

# --- 08.4 ---

_COPY = """        with stream:  # the copy in this stream, too
            there = cp.asarray(x)
"""
_WAIT = "    stream.synchronize()\n"
_LAUNCH = "        launch(k, source, y[k].ctypes.data, stream)\n"
_STAGED = """def repeat(count, x, y, launch, stream):
    with stream:
        there, out = cp.asarray(x), cp.empty(y.shape, cp.float32)
    for k in range(count):
        launch(k, there.data.ptr, out.data.ptr + k * x.nbytes, stream)
    out.get(out=y, stream=stream, blocking=False)
    stream.synchronize()
"""
ANSWERS_08_4 = table(
    "08.4",
    Right(
        "the runtime's calls",
        source="""
def repeat(count, x, y, launch, stream):
    source = x.ctypes.data
    if count >= 2:
        source = cudart.cudaMalloc(x.nbytes)[1]
        to_device = cudart.cudaMemcpyKind.cudaMemcpyHostToDevice
        cudart.cudaMemcpyAsync(source, x.ctypes.data, x.nbytes, to_device, stream.ptr)
    for k in range(count):
        launch(k, source, y.ctypes.data + k * x.nbytes, stream)
    cudart.cudaStreamSynchronize(stream.ptr)
    if count >= 2:
        cudart.cudaFree(source)
""",
    ),
    Right(
        "set instead of asarray",
        ((_COPY, "        there = cp.empty(len(x), cp.float32)\n        there.set(x, stream=stream)\n"),),
    ),
    Right("the last pass first", (("for k in range(count)", "for k in reversed(range(count))"),)),
    Right("waits behind the copy, too", ((_COPY, _COPY + "        stream.synchronize()\n"),)),
    Right(
        "a place from the stream's pool",
        (
            (
                _COPY,
                "        there = cudart.cudaMallocAsync(x.nbytes, stream.ptr)[1]\n"
                "        cudart.cudaMemcpyAsync(\n"
                "            there, x.ctypes.data, x.nbytes, cudart.cudaMemcpyKind.cudaMemcpyHostToDevice, stream.ptr\n"
                "        )\n",
            ),
            ("there.data.ptr", "there"),
            (_WAIT, "    if count > 1:\n        cudart.cudaFreeAsync(there, stream.ptr)\n" + _WAIT),
        ),
    ),
    Wrong("a wait for each pass", ((_LAUNCH, _LAUNCH + "        stream.synchronize()\n"),), _E, FEW_WAITS.name),
    Wrong(
        "the first pass reads x itself",
        ((_LAUNCH, _LAUNCH.replace("source", "source if k else x.ctypes.data")),),
        _E,
        BUS.name,
    ),
    Wrong(
        "a copy kept for the next call",
        (
            ("def repeat", "kept = {}\n\n\ndef repeat"),
            (
                "there = cp.asarray(x)",
                "there = kept[x.ctypes.data] = kept.get(x.ctypes.data)\n"
                "            if there is None:\n"
                "                there = kept[x.ctypes.data] = cp.asarray(x)",
            ),
        ),
        _C,
        "wrong values",
        mistake="in an earlier call",
    ),
    Wrong("copies for a single pass", (("if count > 1", "if count > 0"),), _E, NEEDLESS.name),
    Wrong("copies always", (("if count > 1", "if True"),), _E, NEEDLESS.name),
    Wrong("copies from three passes on", (("if count > 1", "if count > 2"),), _E, BUS.name),
    Wrong("y by way of the device, too", (), _E, PLACE.name, source=_STAGED),
    Wrong(
        "copies in each pass",
        ((_LAUNCH, "        if count > 1:\n            there.set(x, stream=stream)\n" + _LAUNCH),),
        _E,
        BUS.name,
    ),
    Wrong(
        "copies in the NULL stream, which nobody waits for",
        ((_COPY, "        there = cp.asarray(x)\n"),),
        "soundness",
        "hazard",
    ),
    Wrong("no wait", ((_WAIT, ""),), _C, "not done"),
    Wrong(
        "a place for each pass", ((_LAUNCH, _LAUNCH + "        mine = cp.empty(x.shape, x.dtype)\n"),), _E, ARRAYS.name
    ),
    Wrong(
        "all passes write the first row",
        (("y[k].ctypes", "y.ctypes"),),
        _C,
        "wrong values",
        mistake="all passes have written the same row",
    ),
    Wrong("elements, not bytes", (("y[k].ctypes.data", "y.ctypes.data + k * len(x)"),), _C, "wrong values"),
    Wrong(
        "a copy of the row",
        (("y[k].ctypes.data", "y[k].copy().ctypes.data"),),
        "soundness",
        "cudaErrorIllegalAddress",
    ),
    Wrong("one pass too few", (("in range(count)", "in range(count - 1)"),), _C, "wrong values"),
    Wrong("nothing", (("    source = x", "    return\n    source = x"),), _C, "wrong values", cheat=True),
    Wrong(
        "computed on the host",
        ((_LAUNCH, "        y[k] = (k + 1) * x\n"),),
        _C,
        "wrong passes",
        cheat=True,
    ),
    Wrong(
        "memory that nobody frees",
        (
            (
                _COPY,
                "        there = cudart.cudaMalloc(x.nbytes)[1]\n"
                "        cudart.cudaMemcpyAsync(there, x.ctypes.data, x.nbytes, 1, stream.ptr)\n",
            ),
            ("there.data.ptr", "there"),
        ),
        _E,
        LEFT.name,
        cheat=True,
    ),
    Wrong("each pass twice", ((_LAUNCH, 2 * _LAUNCH),), _C, "wrong passes", cheat=True),
    Wrong("polls", ((_WAIT, "    while not stream.done:\n        pass\n"),), _E, POLLS.name, cheat=True),
    Wrong(
        "a kernel of its own brings x over",
        (
            (
                _COPY,
                '        take = cp.RawKernel(\'extern "C" __global__ void take(const float* x, float* y)'
                " { y[blockIdx.x] = x[blockIdx.x]; }', 'take')\n"
                "        there = cp.empty(len(x), cp.float32)\n"
                "        take((len(x),), (1,), (np.uint64(x.ctypes.data), there), stream=stream)\n",
            ),
        ),
        _E,
        OTHERS.name,
        cheat=True,
    ),
    Wrong(
        "half of x is copied",
        (
            (
                _COPY,
                "        there = cp.empty(len(x), cp.float32)\n"
                "        there[: len(x) // 2].set(x[: len(x) // 2], stream=stream)\n",
            ),
        ),
        _C,
        "wrong values",
        cheat=True,
    ),
)

# --- 08.5 ---

_V = "wrong values"
_LATE = """
import sys
def hazards(steps):
    said = [""] * len(steps)
    def watch(frame, event, value):
        if event == "return" and frame.f_code.co_name == "_replayed":
            said[:] = value
            sys.setprofile(None)
    sys.setprofile(watch)
    return said
"""
_OTHER_REPLAY = """
class Done:
    def __init__(self, *given): pass
    def __call__(self, *given, **more): pass
def hazards(steps):
    cp.RawKernel = Done
    cp.cuda.Stream.synchronize = Done.__call__
    return [""] * len(steps)
"""
ANSWERS_08_5 = table(
    "08.5",
    Right(
        "numbers of launches",
        source="""
def hazards(steps):
    launches, done, found = [], {0: 0, 1: 0}, []
    for what, *rest in steps:
        name = ""
        if what == "launch":
            launches.append(rest)
        elif what.startswith("wait"):
            for stream in rest or (0, 1):
                done[stream] = len(launches)
        else:
            open_ = [each for number, each in enumerate(launches) if number >= done[each[0]]]
            written, read = {each[2] for each in open_}, {each[1] for each in open_}
            if what == "host reads":
                name = "RAW" if rest[0] in written else ""
            else:
                name = "WAW" if rest[0] in written else "WAR" if rest[0] in read else ""
        found.append(name)
    return found
""",
    ),
    Right(
        "sets of arrays in use",
        source="""
def hazards(steps):
    found, reading, writing = [], {0: set(), 1: set()}, {0: set(), 1: set()}
    for step in steps:
        match step:
            case ("launch", stream, source, target):
                reading[stream].add(source)
                writing[stream].add(target)
                found.append("")
            case ("wait", stream):
                reading[stream], writing[stream] = set(), set()
                found.append("")
            case ("wait for all",):
                reading, writing = {0: set(), 1: set()}, {0: set(), 1: set()}
                found.append("")
            case ("host reads", array):
                found.append("RAW" if any(array in each for each in writing.values()) else "")
            case ("host writes", array):
                early = "WAR" if any(array in each for each in reading.values()) else ""
                found.append("WAW" if any(array in each for each in writing.values()) else early)
    return found
""",
    ),
    Right(
        "looks back from each access",
        source="""
def hazards(steps):
    def of(at):
        what, *rest = steps[at]
        if not what.startswith("host"):
            return ""
        waited, names = set(), set()
        for earlier in reversed(steps[:at]):
            if earlier[0] == "wait for all":
                break
            if earlier[0] == "wait":
                waited.add(earlier[1])
            elif earlier[0] == "launch" and earlier[1] not in waited:
                if earlier[3] == rest[0]:
                    return "RAW" if what == "host reads" else "WAW"
                if earlier[2] == rest[0] and what == "host writes":
                    names.add("WAR")
        return "".join(names)
    return [of(at) for at in range(len(steps))]
""",
    ),
    Wrong(
        "waits forgotten",
        (("            under_way[rest[0]].clear()\n", "            pass\n"),),
        _C,
        _V,
        mistake="a wait covers everything",
    ),
    Wrong(
        "any wait is good for both streams",
        (("            under_way[rest[0]].clear()\n", "            under_way = {0: [], 1: []}\n"),),
        _C,
        _V,
        mistake="a wait covers what was launched before it, in that stream",
    ),
    Wrong(
        "a wait for all covers stream 0",
        (("            under_way = {0: [], 1: []}\n", "            under_way[0] = []\n"),),
        _C,
        _V,
        mistake="a wait covers everything",
    ),
    Wrong(
        "a wait covers the last launch only",
        (("            under_way[rest[0]].clear()\n", "            under_way[rest[0]] = under_way[rest[0]][:-1]\n"),),
        _C,
        _V,
        mistake="a wait covers everything",
    ),
    Wrong(
        "the last launch of a stream alone",
        (("under_way[stream].append(used)", "under_way[stream] = [used]"),),
        _C,
        _V,
        mistake="only the last kernel of a stream",
    ),
    Wrong(
        "two reads are a hazard",
        (('            elif what == "host writes" and any', "            elif any"),),
        _C,
        _V,
        mistake="two reads are no hazard",
    ),
    Wrong(
        "names turned round",
        (('name = "RAW" if', 'name = "WAR" if'), ('name = "WAR"\n', 'name = "RAW"\n')),
        _C,
        _V,
        mistake="the name says what comes too early",
    ),
    Wrong("writes alone", (('"RAW" if what == "host reads" else "WAW"', '"WAW" if "w" in what else ""'),), _C, _V),
    Wrong(
        "what is read is no matter",
        (('name = "WAR"\n', 'name = ""\n'),),
        _C,
        _V,
        mistake="into what a kernel only reads",
    ),
    Wrong(
        "an access is as good as a wait",
        (
            (
                "        found.append(name)\n",
                "        if name:\n            under_way = {0: [], 1: []}\n        found.append(name)\n",
            ),
        ),
        _C,
        _V,
        mistake="an access that comes too early waits for nothing",
    ),
    Wrong("hazards only", (("    return found", "    return [name for name in found if name]"),), _C, "wrong shape"),
    Wrong(
        "None for no hazard",
        (("    return found", "    return [name or None for name in found]"),),
        _C,
        _V,
    ),
    Wrong(
        "the example's",
        (),
        _C,
        "wrong shape",
        source='def hazards(steps):\n    return ["", "RAW", "", ""]\n',
        cheat=True,
    ),
    Wrong("none", (), _C, _V, source='def hazards(steps):\n    return [""] * len(steps)\n', cheat=True),
    Wrong(
        "every access",
        (),
        _C,
        _V,
        source='def hazards(steps):\n    return ["RAW" * ("host" in step[0]) for step in steps]\n',
        cheat=True,
    ),
    Wrong(
        "makes a stream to try it in",
        (("    found, under_way", "    cp.cuda.Stream(non_blocking=True).synchronize()\n    found, under_way"),),
        _E,
        CALLS.name,
        cheat=True,
    ),
    Wrong("filled in while the check replays the steps", (), _C, _V, source=_LATE, cheat=True),
    Wrong("another replay for the check", (), _C, "replaced names", source=_OTHER_REPLAY, cheat=True),
    Wrong("nothing", (("    found, under_way", "    return\n    found, under_way"),), _C, "wrong shape", cheat=True),
)
