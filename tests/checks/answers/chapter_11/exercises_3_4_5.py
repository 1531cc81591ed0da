"""Answers to 11.3, 11.4 and 11.5."""

from __future__ import annotations

from tests.checks.answers.answer import Right, Wrong, table

# --- 11.3 ---

_SERVE_APART = "pairs of requests in different streams that may overlap (%)"
_STREAMS = "streams at work (% of those given)"
_WAITED = "waits and queries of the host"
_NOTE = "        note(k, stream)\n"

ANSWERS_11_3 = table(
    "11.3",
    Wrong("all in one stream", (("streams[k % len(streams)]", "streams[0]"),), "efficiency", _SERVE_APART),
    Wrong(
        "all in the NULL stream", (("streams[k % len(streams)]", "cp.cuda.Stream.null"),), "efficiency", _SERVE_APART
    ),
    Wrong(
        "the steps in the NULL stream",
        (("step(k, stream)", "step(k, cp.cuda.Stream.null)"),),
        "efficiency",
        _SERVE_APART,
    ),
    Wrong(
        "the notes last, in the NULL stream",
        (
            (_NOTE, ""),
            (
                "        step(k, stream)\n",
                "        step(k, stream)\n    for k in range(count):\n        note(k, cp.cuda.Stream.null)\n",
            ),
        ),
        "efficiency",
        "launches in the NULL stream, for each request",
    ),
    Wrong(
        "a chain of events",
        ((_NOTE, _NOTE + "        streams[(k + 1) % len(streams)].wait_event(stream.record())\n"),),
        "efficiency",
        _SERVE_APART,
    ),
    Wrong(
        "most in the last stream",
        (("streams[k % len(streams)]", "streams[min(k, len(streams) - 1)]"),),
        "efficiency",
        "requests in the busiest stream, over an even share",
    ),
    Wrong(
        "streams of its own",
        (
            ("    for k", "    own = [cp.cuda.Stream(non_blocking=True) for _ in streams]\n    for k"),
            ("streams[k % len(streams)]", "own[k % len(own)]"),
        ),
        "correctness",
        "another stream",
    ),
    Wrong("two streams", (("k % len(streams)", "k % min(2, len(streams))"),), "efficiency", _STREAMS),
    Wrong(
        "the note in the next stream",
        ((_NOTE, "        note(k, streams[(k + 1) % len(streams)])\n"),),
        "soundness",
        "hazard",
        mistake="another stream than the step",
    ),
    Wrong(
        "the note in a stream that waits for nobody",
        (
            ("    for k", "    aside = cp.cuda.Stream(non_blocking=True)\n    for k"),
            (_NOTE, "        note(k, aside)\n"),
        ),
        "soundness",
        "hazard",
        mistake="another stream than the step",
    ),
    Wrong(
        "an event of the stream before the step",
        (
            ("    for k", "    aside = cp.cuda.Stream(non_blocking=True)\n    for k"),
            ("        step(k, stream)\n", "        aside.wait_event(stream.record())\n        step(k, stream)\n"),
            (_NOTE, "        note(k, aside)\n"),
        ),
        "soundness",
        "hazard",
        mistake="was recorded too early",
    ),
    Wrong(
        "the note first",
        (("        step(k, stream)\n        note(k, stream)\n", "        note(k, stream)\n        step(k, stream)\n"),),
        "correctness",
        "wrong values",
        mistake="in front of their steps",
    ),
    Wrong("waits for each", ((_NOTE, _NOTE + "        stream.synchronize()\n"),), "efficiency", _WAITED),
    Wrong("no notes", ((_NOTE, ""),), "correctness", "wrong values", mistake="no note was launched", cheat=True),
    Wrong(
        "polls",
        ((_NOTE, _NOTE + "        while not stream.done:\n            pass\n"),),
        "efficiency",
        _WAITED,
        cheat=True,
    ),
    Wrong(
        "each step twice",
        (("        step(k, stream)\n", 2 * "        step(k, stream)\n"),),
        "efficiency",
        "launches, for each request",
        cheat=True,
    ),
    Wrong(
        "eight requests only", (("range(count)", "range(min(count, 4))"),), "correctness", "wrong values", cheat=True
    ),
    Right(
        "all steps first",
        source="""
def serve(count, step, note, streams):
    for k in range(count):
        step(k, streams[k % len(streams)])
    for k in range(count):
        note(k, streams[k % len(streams)])
""",
    ),
    Right(
        "notes in a stream of their own, behind an event",
        source="""
def serve(count, step, note, streams):
    notes = cp.cuda.Stream(non_blocking=True)
    for k in range(count):
        stream = streams[k % len(streams)]
        step(k, stream)
        notes.wait_event(stream.record())
        note(k, notes)
""",
    ),
    Right(
        "stream by stream",
        source="""
def serve(count, step, note, streams):
    for first, stream in enumerate(streams):
        for k in range(first, count, len(streams)):
            step(k, stream)
            note(k, stream)
""",
    ),
)

# --- 11.4 ---

_FUNCTIONS = "functions of the host in the stream, for each part"
_PUT = "        stream.launch_host_func(total, k)\n"

ANSWERS_11_4 = table(
    "11.4",
    Wrong(
        "k when it runs",
        (
            ("    def total(k):\n        totals[k] = parts[k].sum()\n\n", ""),
            (_PUT, "        stream.launch_host_func(lambda _: totals.__setitem__(k, parts[k].sum()), None)\n"),
        ),
        "correctness",
        "wrong values",
        mistake="looks k up when it runs",
    ),
    Wrong("called at once", ((_PUT, "        total(k)\n"),), "soundness", "hazard"),
    Wrong(
        "before the work",
        (("        work(k, stream)\n" + _PUT, _PUT + "        work(k, stream)\n"),),
        "correctness",
        "wrong values",
    ),
    Wrong(
        "in another stream",
        ((_PUT, "        cp.cuda.Stream(non_blocking=True).launch_host_func(total, k)\n"),),
        "soundness",
        "hazard",
    ),
    Wrong(
        "in a stream that nothing joins",
        (
            ("    for k", "    aside = cp.cuda.Stream(non_blocking=True)\n    for k"),
            (_PUT, "        aside.wait_event(stream.record())\n        aside.launch_host_func(total, k)\n"),
        ),
        "soundness",
        "not joined",
    ),
    Wrong("waits as well", ((_PUT, _PUT + "        stream.synchronize()\n"),), "efficiency", _WAITED),
    Wrong(
        "one function at the end",
        (
            (_PUT, ""),
            (
                "        work(k, stream)\n",
                "        work(k, stream)\n    stream.launch_host_func(lambda _: [*map(total, range(count))], None)\n",
            ),
        ),
        "efficiency",
        _FUNCTIONS,
    ),
    Wrong(
        "waits inside",
        (
            (
                "        totals[k] = parts[k].sum()\n",
                "        stream.synchronize()\n        totals[k] = parts[k].sum()\n",
            ),
        ),
        "soundness",
        "cudaErrorNotPermitted",
    ),
    Wrong("no argument", ((_PUT, "        stream.launch_host_func(total, None)\n"),), "correctness", "wrong values"),
    Wrong(
        "an event that the host waits for",
        ((_PUT, "        stream.record().synchronize()\n        total(k)\n"),),
        "efficiency",
        _FUNCTIONS,
        cheat=True,
    ),
    Wrong(
        "polls",
        ((_PUT, "        while not stream.done:\n            pass\n        total(k)\n"),),
        "efficiency",
        _FUNCTIONS,
        cheat=True,
    ),
    Wrong(
        "empty functions",
        ((_PUT, "        stream.launch_host_func(lambda _: None, None)\n"),),
        "correctness",
        "wrong values",
        cheat=True,
    ),
    Wrong("six parts only", (("range(count)", "range(min(count, 6))"),), "correctness", "wrong values", cheat=True),
    Wrong("two functions for each", ((_PUT, 2 * _PUT),), "efficiency", _FUNCTIONS, cheat=True),
    Right(
        "default argument",
        (
            ("    def total(k):\n", "    def total(_, k=None):\n"),
            (_PUT, "        stream.launch_host_func(lambda _, k=k: total(_, k), None)\n"),
        ),
    ),
    Right(
        "functions in a stream of their own",
        (
            ("    for k", "    aside = cp.cuda.Stream(non_blocking=True)\n    for k"),
            (
                _PUT,
                "        aside.wait_event(stream.record())\n        aside.launch_host_func(total, k)\n"
                "    stream.wait_event(aside.record())\n",
            ),
        ),
    ),
    Right(
        "functools.partial",
        source="""
from functools import partial


def add_up(count, work, parts, totals, stream):
    def total(k, _):
        totals[k] = np.add.reduce(parts[k])

    for k in range(count):
        work(k, stream)
        stream.launch_host_func(partial(total, k), None)
""",
    ),
)

# --- 11.5 ---

_BEHIND = "copies in that stand behind a copy out"
_COPIED = "bytes copied in and out, for each byte of x and y"
_APART = "kernels that nothing orders with other pieces' copies (% of the possible)"
_CHAIN = """
def one_engine(x, y, d, launch, streams):
    {ends}
    before = None
    pieces = list(zip(ends[:-1], ends[1:], streams, strict=True))
    for begin, end, stream in pieces:
        if before is not None:
            stream.wait_event(before)
        d[begin:end].set(x[begin:end], stream=stream)
        launch(begin, end, stream)
        before = stream.record()
    for begin, end, stream in pieces:
        d[begin:end].get(out=y[begin:end], blocking=False, stream=stream)
"""
_IN = "        d[begin:end].set(x[begin:end], stream=stream)\n"
_OUT = "        d[begin:end].get(out=y[begin:end], blocking=False, stream=stream)\n"
_LOOP = "    for begin, end, stream in pieces:\n"

ANSWERS_11_5 = table(
    "11.5",
    Wrong(
        "depth first",
        (
            (_LOOP + _IN + _LOOP, _LOOP + _IN),
            ("        launch(begin, end, stream)\n" + _LOOP, "        launch(begin, end, stream)\n"),
        ),
        "efficiency",
        _BEHIND,
    ),
    Wrong(
        "out behind the next in",
        (),
        "efficiency",
        _BEHIND,
        source="""
def one_engine(x, y, d, launch, streams):
    ends = [len(x) * i // len(streams) for i in range(len(streams) + 1)]
    before = None
    for begin, end, stream in [*zip(ends[:-1], ends[1:], streams), (0, 0, None)]:
        if stream is not None:
            d[begin:end].set(x[begin:end], stream=stream)
            launch(begin, end, stream)
        if before is not None:
            first, last, other = before
            d[first:last].get(out=y[first:last], blocking=False, stream=other)
        before = begin, end, stream
""",
    ),
    Wrong(
        "one piece",
        (),
        "efficiency",
        _STREAMS,
        source="""
def one_engine(x, y, d, launch, streams):
    d.set(x, stream=streams[0])
    launch(0, len(x), streams[0])
    d.get(out=y, blocking=False, stream=streams[0])
""",
    ),
    Wrong(
        "a chain",
        (),
        "efficiency",
        _APART,
        source=_CHAIN.format(ends="ends = [len(x) * i // len(streams) for i in range(len(streams) + 1)]"),
    ),
    Wrong(
        "a chain of uneven pieces",
        (),
        "efficiency",
        _APART,
        source=_CHAIN.format(ends="ends = [min(i, len(x)) for i in range(len(streams))] + [len(x)]"),
    ),
    Wrong(
        "uneven pieces",
        (
            (
                "len(x) * i // len(streams) for i in range(len(streams) + 1)]",
                "min(i, len(x)) for i in range(len(streams))] + [len(x)]",
            ),
        ),
        "efficiency",
        _APART,
    ),
    Wrong(
        "waits for the copies in",
        (
            (
                _LOOP + "        launch",
                "    for stream in streams:\n        stream.synchronize()\n" + _LOOP + "        launch",
            ),
        ),
        "efficiency",
        _WAITED,
    ),
    Wrong("gets that wait", ((", blocking=False", ""),), "efficiency", _WAITED),
    Wrong(
        "drops the rest",
        (("len(x) * i // len(streams)", "len(x) // len(streams) * i"),),
        "correctness",
        "wrong launches",
    ),
    Wrong(
        "copies out in another stream",
        (("blocking=False, stream=stream", "blocking=False, stream=streams[0]"),),
        "soundness",
        "hazard",
    ),
    Wrong("no kernel", (("        launch(begin, end, stream)\n", "        pass\n"),), "correctness", "wrong launches"),
    Wrong(
        "polls",
        (
            (
                "        launch(begin, end, stream)\n",
                "        launch(begin, end, stream)\n        while not stream.done:\n            pass\n",
            ),
        ),
        "efficiency",
        _WAITED,
        cheat=True,
    ),
    Wrong("copies in twice", ((_IN, _IN + _IN),), "efficiency", _COPIED, cheat=True),
    Wrong(
        "a whole copy for each stream",
        ((_IN, "        d.set(x, stream=stream)\n"),),
        "soundness",
        "hazard",
        cheat=True,
    ),
    Wrong(
        "nothing for long arrays",
        (("    ends = ", "    if len(x) > 5000:\n        return\n    ends = "),),
        "correctness",
        "wrong launches",
        cheat=True,
    ),
    Right("copies in and kernels together", ((_LOOP + "        launch", "        launch"),)),
    Right("last piece first", ((_LOOP + _OUT, "    for begin, end, stream in reversed(pieces):\n" + _OUT),)),
    Right(
        "runtime calls",
        (
            (
                _OUT,
                "        part, kind = y[begin:end], cudart.cudaMemcpyKind.cudaMemcpyDeviceToHost\n"
                "        there = d[begin:end].data.ptr\n"
                "        cudart.cudaMemcpyAsync(part.ctypes.data, there, part.nbytes, kind, stream.ptr)\n",
            ),
        ),
    ),
)
