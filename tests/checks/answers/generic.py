"""Five cheats that every exercise has to refuse, or else the reason why nobody can hand one in.

- *no-op*: nothing is done where the work is large, where it is measured, or at all;
- *one thread*: one thread, block or stream does what all should share;
- *polling*: it asks again and again until something is done, instead of a wait that costs nothing, or asks the device
  for what is to be predicted;
- *host*: the results are made on the host, or known there from elsewhere;
- *doubled*: everything is moved, launched or made twice.

``CHEATS`` has a line for each exercise, in this order: the name of the answer that is the cheat, of the chapter's table
or of ``PLANTED``, or a reason (``No``). ``NAMED`` are the answers that stopped, misled or passed when learners' answers
were first tried: each became a right or a wrong answer of the tables. A run of the tests tries all of these.
"""

from __future__ import annotations

from dataclasses import dataclass

from tests.checks.answers.answer import Answer, Wrong, table
from tests.checks.answers.cheats import polled_barrier

KINDS = ("no-op", "one thread", "polling", "host", "doubled")


@dataclass(frozen=True)
class No:
    """Why there is no such cheat."""

    reason: str
    kinds: tuple[str, ...]
    """Of which kinds this can be said."""
    of: str = "function"
    """Of which exercises: those that ask for a kernel, or for a function."""


NO_HOST = No("the answer is a kernel: it has no code that the host runs", ("host",), "kernel")
NO_WAIT = No("no thread needs what another one makes, so none waits for another", ("polling",), "kernel")
NO_KERNEL = No("no kernel runs, and nothing is shared out among threads or streams", ("one thread",))
GIVEN = No(
    "grid and block of each launch are the check's; its streams are asked for by gates of their own", ("one thread",)
)
NOTHING_RUNS = No("nothing runs while the host goes on: a query would only be one call more", ("polling",))
MAY_WAIT = No("what is asked for is one launch; the function may wait for its end in any way", ("polling",))
NO_OUTPUT = No("the answer is given launches and not the arrays that they write: it has nothing to compute", ("host",))
OF_THE_HOST = No("what is asked for is work of the host", ("host",))
SETTINGS = No("what is asked for are calls that set something, or move bytes; there are no results", ("host",))
NOTHING_MOVES = No("nothing is moved or launched; a call made twice changes nothing", ("doubled",))
PREDICTED = No(
    "a prediction is worked out by one thread of the host, from what it is given", ("one thread", "host", "doubled")
)
NO_DEVICE = No("plain numbers are worked out; a measurement of them would be right as well", ("polling",))

_LARGE = "nothing done in large grids"
_TWICE = "doubled traffic"
_KERNEL = (_LARGE, "one thread", NO_WAIT, NO_HOST, _TWICE)
_POLLS, _POLLS_TOO = "polls instead of the barrier", "polls before each barrier"

CHEATS: dict[str, tuple[str | No, str | No, str | No, str | No, str | No]] = {
    "01.1": _KERNEL,
    "01.2": (_LARGE, "one thread", _POLLS, NO_HOST, _TWICE),
    "03.1": ("never any", NO_KERNEL, NOTHING_RUNS, OF_THE_HOST, NOTHING_MOVES),
    "03.2": (
        "nothing",
        "one thread does everything",
        NOTHING_RUNS,
        "computed on the host",
        "main fills everything again",
    ),
    "03.3": ("never any", NO_KERNEL, "polls a stream", OF_THE_HOST, "each step twice"),
    "03.4": ("nothing", PREDICTED, "makes the calls", PREDICTED, PREDICTED),
    "03.5": ("no job", "one thread for all jobs", NOTHING_RUNS, OF_THE_HOST, "each job twice"),
    "04.1": _KERNEL,
    "04.2": _KERNEL,
    "04.3": _KERNEL,
    "04.4": ("nothing", NO_KERNEL, NOTHING_RUNS, "the whole image first", "twice"),
    "04.5": ("never any", NO_KERNEL, NOTHING_RUNS, "numbers of its own", NOTHING_MOVES),
    "04.6": _KERNEL,
    "04.7": ("nothing done for many tables", "one thread", "polls", "NumPy on the host", "every row twice"),
    "04.8": (
        "nothing done for many items",
        GIVEN,
        "the host asks until second is done",
        "memory of the host",
        "each item twice",
    ),
    "05.1": ("nothing", NO_KERNEL, NOTHING_RUNS, SETTINGS, "twice as much set aside"),
    "05.2": ("one round", GIVEN, "polls", NO_OUTPUT, "everything twice"),
    "05.3": ("nothing", "one stream alone", NOTHING_RUNS, SETTINGS, "more is set aside"),
    "05.4": ("nothing", PREDICTED, "asks the device", PREDICTED, PREDICTED),
    "05.5": ("nothing", GIVEN, "polls", NO_OUTPUT, "launches twice"),
    "06.1": (_LARGE, "one thread", _POLLS_TOO, NO_HOST, _TWICE),
    "06.2": (_LARGE, "one thread", _POLLS_TOO, NO_HOST, _TWICE),
    "06.3": (_LARGE, "one thread", _POLLS, NO_HOST, _TWICE),
    "06.4": ("first elements only", "one thread adds up", _POLLS, NO_HOST, _TWICE),
    "06.5": (_LARGE, "one thread", _POLLS_TOO, NO_HOST, _TWICE),
    "06.6": ("always one", PREDICTED, NO_DEVICE, PREDICTED, PREDICTED),
    "06.7": (
        "nothing done for long rows",
        "one thread",
        MAY_WAIT,
        "NumPy on the host",
        "says that it keeps all, and another text loads all twice",
    ),
    "08.1": ("nothing done where there is much", NO_KERNEL, "polls", "a pinned copy of x", "copies twice"),
    "08.2": ("nothing done where there is much", GIVEN, "polls", "computed on the host", "launched twice"),
    "08.3": (
        "nothing done where there is much",
        "one desk, one order after the other",
        "polls",
        "computed on the host",
        "each order launched twice",
    ),
    "08.4": ("nothing", GIVEN, "polls", "computed on the host", "each pass twice"),
    "08.5": ("nothing", PREDICTED, "makes a stream to try it in", PREDICTED, PREDICTED),
    "11.1": (
        "nothing done when there is much",
        "all in one stream, dummy copies in the others",
        "polls at the end",
        "computed on the host, from two values of each kernel",
        "copies twice",
    ),
    "11.2": ("nothing done when there is much", NO_KERNEL, "polls", SETTINGS, "copies twice"),
    "11.3": ("eight requests only", "all in one stream", "polls", NO_OUTPUT, "each step twice"),
    "11.4": ("six parts only", GIVEN, "polls", OF_THE_HOST, "two functions for each"),
    "11.5": ("nothing for long arrays", "one piece", "polls", "computed on the host", "copies in twice"),
    "11.6": ("five frames only", "all in one stream", "polls", NO_OUTPUT, "loads twice"),
    "11.7": ("empties the program", PREDICTED, "asks the device", PREDICTED, PREDICTED),
    "12.1": ("nothing", "one stream for all", "polls", SETTINGS, NOTHING_MOVES),
    "12.2": ("nothing", "all in high", "polls", NO_OUTPUT, "everything twice"),
    "12.3": (
        "nothing where it is measured",
        "one block of many items, the rest of few",
        "polls",
        NO_OUTPUT,
        "everything twice",
    ),
    "12.4": ("nothing", PREDICTED, "asks the device", PREDICTED, PREDICTED),
    "12.5": ("nothing", "all in high", "polls", NO_OUTPUT, "everything twice"),
    "14.1": (
        "nothing measured when there is much",
        GIVEN,
        "polls",
        "host clock around a launch and a wait",
        "each run launches twice",
    ),
    "14.2": ("nothing done the second time", GIVEN, "host polls", NO_OUTPUT, "everything twice"),
    "14.3": ("six items only", "consumes in the first stream", "polls", NO_OUTPUT, "consumes twice"),
    "14.4": ("an empty interval", GIVEN, "polls", "a number from the data sheet", "launched twice"),
    "14.5": ("six tasks only", "all in one stream", "polls", NO_OUTPUT, "each twice"),
    "14.6": (
        "nothing done for many pieces",
        GIVEN,
        "asks and does nothing else",
        "the sample's answer",
        "launched twice",
    ),
    "15.1": ("only the first frame", GIVEN, "polls", "computed on the host", "launched twice"),
    "15.2": (
        "nothing when there is much",
        "a chain that looks wide",
        NOTHING_RUNS,
        NO_OUTPUT,
        "sums that nobody needs",
    ),
    "15.3": ("nothing for many rounds", "one stream", "polls", NO_OUTPUT, "each kernel twice"),
    "15.4": (
        "nothing when there is much",
        "both graphs for slot 0",
        "polls",
        "computed on the host",
        "each frame twice",
    ),
    "15.5": ("nothing", PREDICTED, "polls", PREDICTED, PREDICTED),
}

NAMED: dict[str, tuple[str, ...]] = {
    "01.1": ("one thread", "one block", "an index of 8 bits", "an index of 16 bits"),
    "01.2": ("one thread", "one block", "26 threads that each read the whole text"),
    "04.1": ("one thread", "one block", "an index of 8 bits", "an index of 16 bits"),
    "04.2": ("nothing done in large grids", "loads hidden in atomics", "float4 loads"),
    "04.3": ("one thread", "one block", "nothing done in large grids", "a halo tile", "pitch counted in elements"),
    "06.1": (
        "nothing done in large grids",
        "one thread loads both tiles",
        "a barrier in every step",
        "blocks beyond 2 x 2 skipped",
        "naive, without tiles",
        "dynamic shared memory",
    ),
    "06.2": (
        "nothing done in large grids",
        "one warp loads both tiles",
        "a barrier in every step",
        "blocks beyond 2 x 2 skipped",
        "naive, without tiles",
        "float4 loads",
    ),
    "11.1": (
        "all in one stream, dummy copies in the others",
        "copies twice",
        "computed on the host, from two values of each kernel",
        "two of four streams",
        "polls at the end",
        "copies out with a wait",
    ),
    "11.2": (
        "one slot for each parcel, without waits",
        "waits for the stream at the end",
        "event recorded before the copy",
        "event never recorded",
        "event recorded in the current stream",
        "waits for the copy from the other box",
    ),
    "14.1": (
        "polls",
        "the warm-up's time read as well",
        "a pair read twice",
        "another total printed",
        "the upper one in the middle",
    ),
    "14.2": ("main never joined", "waits before the record"),
}

_C, _E = "correctness", "efficiency"
_HOST = "waits and queries of the host"


def _again(line: str) -> tuple[tuple[str, str], ...]:
    return ((line, 2 * line),)


def _asking(behind: str, what: str) -> tuple[tuple[str, str], ...]:
    """Behind a line, with its indent: ask ``what`` until it says yes."""
    indent = behind[: len(behind) - len(behind.lstrip())]
    return ((behind, f"{behind}{indent}while not {what}:\n{indent}    pass\n"),)


_ONE_TRANSPOSES = """
extern "C" __global__ void transpose(const float* in, float* out, int height, int width) {
    if (blockIdx.x || blockIdx.y || threadIdx.x || threadIdx.y) return;
    for (int y = 0; y < height; y++)
        for (int x = 0; x < width; x++) out[x * height + y] = in[y * width + x];
}
"""
_FACTOR_FOUND = """
def serve(count, fill, take, launch, desks):
    inbox, outbox, stream = desks[0]
    for k in range(count):
        fill(inbox, k)
        if k == 0:
            launch(inbox, outbox, stream)
            stream.synchronize()
            factor = float(outbox[0]) / float(inbox[0])
        outbox[:] = factor * inbox
        take(outbox, k)
"""
_LINE_FOUND = """
def one_engine(x, y, d, launch, streams):
    d.set(x, stream=streams[0])
    launch(0, len(x), streams[0])
    first = d.get(stream=streams[0]).astype(np.float64)
    low, high = int(x.argmin()), int(x.argmax())
    factor = (first[high] - first[low]) / (float(x[high]) - float(x[low])) if high != low else 1.0
    y[:] = factor * (x - float(x[low])) + first[low]
"""
PLANTED: tuple[Answer, ...] = (
    *table(
        "03.2",
        Wrong(
            "nothing",
            (("thread.start()", "pass"), ("thread.join()", "pass")),
            _C,
            "wrong values",
            cheat=True,
        ),
    ),
    *table(
        "04.7",
        Wrong("one thread", (("(blocks,), (256,)", "(1,), (1,)"),), _C, "wrong values", cheat=True),
        Wrong(
            "polls",
            _asking(
                "        polynomial((blocks,), (256,), (x, y[k], np.int32(n)))\n", "cp.cuda.get_current_stream().done"
            ),
            _E,
            "calls that wait for the device, or ask it",
            cheat=True,
        ),
        Wrong(
            "polls an event",
            (
                (
                    "        polynomial((blocks,), (256,), (x, y[k], np.int32(n)))\n",
                    "        polynomial((blocks,), (256,), (x, y[k], np.int32(n)))\n"
                    "        event = cp.cuda.get_current_stream().record()\n"
                    "        while not event.done:\n            pass\n",
                ),
            ),
            _E,
            "calls that wait for the device, or ask it",
            cheat=True,
        ),
    ),
    *table(
        "04.8",
        Wrong("each item twice", _again("        consume(k, scratch, second)\n"), _C, "wrong launches", cheat=True),
    ),
    *table(
        "05.1",
        Wrong(
            "twice as much set aside",
            (
                (
                    "min(array.nbytes, properties.persistingL2CacheMaxSize)",
                    "min(2 * array.nbytes, properties.persistingL2CacheMaxSize)",
                ),
            ),
            _E,
            "bytes set aside, over what the array needs and the device allows",
            cheat=True,
        ),
    ),
    *table(
        "05.2",
        Wrong(
            "everything twice",
            _again("        first(stream)\n") + _again("        second(stream)\n"),
            _C,
            "wrong values",
            cheat=True,
        ),
    ),
    *table(
        "05.4",
        Wrong(
            "asks the device",
            (
                (
                    "    found = []\n",
                    "    found = []\n    cudart.cudaDeviceGetLimit(cudart.cudaLimit.cudaLimitPersistingL2CacheSize)\n",
                ),
            ),
            _E,
            "runtime calls of the function",
            cheat=True,
        ),
    ),
    *(
        answer
        for exercise in ("01.2", "06.4")
        for answer in table(
            exercise,
            Wrong(_POLLS, (), _C, "a wait without a barrier", source=polled_barrier(exercise), cheat=True),
        )
    ),
    *(
        answer
        for exercise in ("06.1", "06.2", "06.5")
        for answer in table(
            exercise,
            Wrong(
                _POLLS_TOO,
                (),
                _C,
                "a wait without a barrier",
                source=polled_barrier(exercise, "__syncthreads();"),
                cheat=True,
            ),
        )
    ),
    *table(
        "06.3",
        Wrong(
            "one thread",
            (),
            _E,
            "bytes that the busiest thread moves, over what one thread may need",
            source=_ONE_TRANSPOSES,
            cheat=True,
        ),
        Wrong(_POLLS, (), _E, "atomics on global memory for each block", source=polled_barrier("06.3"), cheat=True),
    ),
    *table("06.7", Wrong("one thread", (("(rows,), (256,)", "(rows,), (1,)"),), _C, "wrong values", cheat=True)),
    *table("08.3", Wrong("computed on the host", (), _E, "launches, for each order", source=_FACTOR_FOUND, cheat=True)),
    *table("11.5", Wrong("computed on the host", (), _E, _HOST, source=_LINE_FOUND, cheat=True)),
    *table(
        "14.4",
        Wrong(
            "launched twice",
            (("    launch()\n    end.record", 2 * "    launch()\n" + "    end.record"),),
            _C,
            "wrong values",
            cheat=True,
        ),
    ),
    *table("14.5", Wrong("polls", _asking("        task(stream)\n", "stream.done"), _E, _HOST, cheat=True)),
    *table(
        "15.3",
        Wrong(
            "polls",
            (("    a.begin_capture()\n", "    while not a.done:\n        pass\n    a.begin_capture()\n"),),
            _E,
            _HOST,
            cheat=True,
        ),
        Wrong(
            "each kernel twice",
            _again("        blur(a)\n") + _again("        edges(b)\n") + _again("        mix(a)\n"),
            _E,
            "kernels in the graph, for each that is needed",
            cheat=True,
        ),
    ),
    *table(
        "15.5",
        Wrong(
            "polls",
            _asking("    _, nodes, count = cudart.cudaGraphGetNodes(graph, 0)\n", "cp.cuda.get_current_stream().done"),
            _E,
            _HOST,
            cheat=True,
        ),
    ),
)
