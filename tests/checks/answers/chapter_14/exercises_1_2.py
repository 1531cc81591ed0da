"""Answers to 14.1 and 14.2."""

from __future__ import annotations

from tests.checks.answers.answer import Right, Wrong, table

# --- 14.1 ---

ANSWERS_14_1 = table(
    "14.1",
    Wrong("no warm-up", (("    launch()  # not timed\n", ""),), "correctness", "no warm-up"),
    Wrong("does not wait before it reads", (("    end.synchronize()\n", ""),), "soundness", "cudaErrorNotReady"),
    Wrong(
        "start recorded in the current stream",
        (("start.record(stream)", "start.record()"),),
        "correctness",
        "wrong stream",
    ),
    Wrong(
        "end recorded in the current stream",
        (("end.record(stream)", "end.record()"),),
        "correctness",
        "wrong stream",
    ),
    Wrong(
        "both recorded before the launch",
        (("        launch()\n        end.record(stream)", "        end.record(stream)\n        launch()"),),
        "correctness",
        "wrong runs",
    ),
    Wrong("mean", (("np.median", "np.mean"),), "correctness", "wrong values"),
    Wrong("the best run", (("np.median", "np.min"),), "correctness", "wrong values"),
    Wrong("a number from another day", (("float(np.median(times))", "46.0"),), "correctness", "wrong values"),
    Wrong("milliseconds", (("1000 * ", ""),), "correctness", "wrong values"),
    Wrong(
        "waits after every run",
        (("        pairs.append", "        end.synchronize()\n        pairs.append"),),
        "efficiency",
        "waits and queries of the host",
    ),
    Wrong(
        "waits for the device after every run",
        (("        pairs.append", "        cp.cuda.Device().synchronize()\n        pairs.append"),),
        "efficiency",
        "waits and queries of the host",
    ),
    Wrong("one run too few", (("range(repeats)", "range(max(repeats - 1, 1))"),), "correctness", "wrong runs"),
    Wrong(
        "host clock around a launch and a wait",
        (
            ("        start, end = cp.cuda.Event(), cp.cuda.Event()\n", "        begin = cudalab.clock()\n"),
            ("        start.record(stream)\n", ""),
            ("        end.record(stream)\n", "        stream.synchronize()\n"),
            ("(start, end)", "cudalab.clock() - begin"),
            ("    end.synchronize()\n", ""),
            ("1000 * cp.cuda.get_elapsed_time(*pair)", "pair"),
        ),
        "correctness",
        "no events",
    ),
    Wrong(
        "without timing",
        (
            (
                "cp.cuda.Event(), cp.cuda.Event()",
                "cp.cuda.Event(disable_timing=True), cp.cuda.Event(disable_timing=True)",
            ),
        ),
        "soundness",
        "cudaErrorInvalidResourceHandle",
    ),
    Right(
        "runtime calls",
        source="""
from cudalab import cudart
def median_time(launch, stream, repeats):
    for _ in range(2):
        launch()
    events = [cudart.cudaEventCreate()[1] for _ in range(2 * repeats)]
    for i in range(repeats):
        cudart.cudaEventRecord(events[2 * i], stream.ptr)
        launch()
        cudart.cudaEventRecord(events[2 * i + 1], stream.ptr)
    cudart.cudaStreamSynchronize(stream.ptr)
    times = sorted(cudart.cudaEventElapsedTime(*events[2 * i : 2 * i + 2])[1] for i in range(repeats))
    middle = times[(repeats - 1) // 2] + times[repeats // 2]
    return 500 * middle
""",
    ),
    Right(
        "one mark between two runs",
        source="""
def median_time(launch, stream, repeats):
    launch()
    stream.synchronize()
    marks = [stream.record()]
    for _ in range(repeats):
        launch()
        marks.append(stream.record())
    marks[-1].synchronize()
    return np.median([1000 * cp.cuda.get_elapsed_time(a, b) for a, b in zip(marks, marks[1:])])
""",
    ),
    Right(
        "current stream, helper in the cell, queue kept full",
        source="""
BUSY = cp.RawKernel('extern "C" __global__ void w(float* x) { for (int i = 0; i < 9999; i++) *x = *x / 2; }', "w")
def pair(launch):
    events = cp.cuda.Event(), cp.cuda.Event(block=True)
    events[0].record()
    launch()
    events[1].record()
    return events
def median_time(launch, stream, repeats):
    with stream:
        launch()
        BUSY((1,), (1,), (cp.zeros(1, cp.float32),))
        pairs = [pair(launch) for _ in range(repeats)]
    cp.cuda.Device().synchronize()
    return 1e3 * np.median([cp.cuda.get_elapsed_time(*events) for events in pairs])
""",
    ),
    Right(
        "the warm-up's time read as well",
        (
            (
                "    launch()  # not timed\n    pairs = []\n    for _ in range(repeats):",
                "    pairs = []\n    for _ in range(repeats + 1):",
            ),
            ("for pair in pairs]", "for pair in pairs][1:]"),
        ),
    ),
    Right("a pair read twice", (("    return float", "    cp.cuda.get_elapsed_time(*pairs[0])\n    return float"),)),
    Right(
        "another total printed",
        (
            (
                "    return float",
                "    print(cp.cuda.get_elapsed_time(pairs[0][0], pairs[-1][1]), 'ms in all')\n    return float",
            ),
        ),
    ),
    Wrong(
        "the upper one in the middle",
        (("float(np.median(times))", "sorted(times)[len(times) // 2]"),),
        "correctness",
        "wrong values",
        mistake="the upper one",
    ),
    Wrong(
        "polls",
        (("    end.synchronize()\n", "    while not end.done:\n        pass\n"),),
        "efficiency",
        "waits and queries of the host",
        cheat=True,
    ),
    Wrong(
        "polls after every run",
        (("        pairs.append", "        while not end.done:\n            pass\n        pairs.append"),),
        "efficiency",
        "waits and queries of the host",
        cheat=True,
    ),
    Wrong(
        "each run launches twice",
        (("        launch()\n", "        launch()\n        launch()\n"),),
        "correctness",
        "wrong runs",
        cheat=True,
    ),
    Wrong(
        "nothing measured when there is much",
        (("    launch()  # not timed\n", "    if repeats > 5:\n        return 50.0\n    launch()  # not timed\n"),),
        "correctness",
        "no events",
        cheat=True,
    ),
    Wrong("one run stands for all", (("range(repeats)", "range(1)"),), "correctness", "wrong runs", cheat=True),
)

# --- 14.2 ---

ANSWERS_14_2 = table(
    "14.2",
    Wrong("no fork", (("    side.wait_event(ready)\n", ""),), "soundness", "hazard"),
    Wrong("no join", (("    main.wait_event(done)\n", ""),), "soundness", "hazard"),
    Wrong(
        "fork recorded too early",
        (("    prepare(main)\n", ""), ("    ready.record(main)\n", "    ready.record(main)\n    prepare(main)\n")),
        "soundness",
        "hazard",
    ),
    Wrong(
        "waits before the record",
        (
            (
                "    ready.record(main)\n    side.wait_event(ready)\n",
                "    side.wait_event(ready)\n    ready.record(main)\n",
            ),
        ),
        "soundness",
        "hazard",
        mistake="had not been recorded",
    ),
    Wrong(
        "join recorded too early",
        (("    right(side)\n", ""), ("    done.record(side)\n", "    done.record(side)\n    right(side)\n")),
        "soundness",
        "hazard",
    ),
    Wrong(
        "the wrong stream waits",
        (("side.wait_event(ready)", "main.wait_event(ready)"),),
        "soundness",
        "hazard",
    ),
    Wrong("combines in the other stream", (("combine(main)", "combine(side)"),), "soundness", "hazard"),
    Wrong(
        "one stream for all",
        (("right(side)", "right(main)"),),
        "efficiency",
        "calls in which nothing orders left and right (%)",
    ),
    Wrong(
        "forks behind left",
        (("    left(main)\n", ""), ("    ready.record(main)\n", "    left(main)\n    ready.record(main)\n")),
        "efficiency",
        "calls in which nothing orders left and right (%)",
    ),
    Wrong(
        "host waits for the stream",
        (("main.wait_event(done)", "side.synchronize()"),),
        "efficiency",
        "waits and queries of the host",
    ),
    Wrong(
        "host waits for the event",
        (("main.wait_event(done)", "done.synchronize()"),),
        "efficiency",
        "waits and queries of the host",
    ),
    Wrong(
        "host waits for the device",
        (("main.wait_event(done)", "cp.cuda.Device().synchronize()"),),
        "efficiency",
        "waits and queries of the host",
    ),
    Wrong(
        "host polls",
        (("    main.wait_event(done)\n", "    while not done.done:\n        pass\n"),),
        "efficiency",
        "waits and queries of the host",
        cheat=True,
    ),
    Right(
        "runtime calls",
        source="""
def fork_and_join(prepare, left, right, combine, main, side):
    ready, done = (cudart.cudaEventCreateWithFlags(cudart.cudaEventDisableTiming)[1] for _ in range(2))
    prepare(main)
    cudart.cudaEventRecord(ready, main.ptr)
    cudart.cudaStreamWaitEvent(side.ptr, ready, 0)
    right(side)
    cudart.cudaEventRecord(done, side.ptr)
    left(main)
    cudart.cudaStreamWaitEvent(main.ptr, done, 0)
    combine(main)
    cudart.cudaEventDestroy(ready), cudart.cudaEventDestroy(done)
""",
    ),
    Right(
        "the other way round, with one event for both",
        source="""
def fork_and_join(prepare, left, right, combine, main, side):
    event = cp.cuda.Event()
    prepare(main)
    event.record(main)
    side.wait_event(event)
    left(side)
    right(main)
    event.record(side)
    main.wait_event(event)
    combine(main)
""",
    ),
    Right(
        "combined in the other stream, and joined",
        source="""
def fork_and_join(prepare, left, right, combine, main, side):
    prepare(main)
    side.wait_event(main.record())
    left(main)
    right(side)
    side.wait_event(main.record())
    combine(side)
    main.wait_event(side.record())
""",
    ),
    Wrong(
        "main never joined",
        (),
        "soundness",
        "hazard",
        source="""
def fork_and_join(prepare, left, right, combine, main, side):
    prepare(main)
    side.wait_event(main.record())
    left(main)
    right(side)
    side.wait_event(main.record())
    combine(side)
""",
        cheat=True,
    ),
    Wrong(
        "side does not wait for what main did before",
        (),
        "soundness",
        "hazard",
        source="""
def fork_and_join(prepare, left, right, combine, main, side):
    prepare(side)
    main.wait_event(side.record())
    left(main)
    right(side)
    main.wait_event(side.record())
    combine(main)
""",
    ),
    Wrong(
        "nothing done the second time",
        (
            ("def fork_and_join", "seen = []\ndef fork_and_join"),
            ("    prepare(main)\n", "    if seen:\n        return\n    seen.append(1)\n    prepare(main)\n"),
        ),
        "correctness",
        "wrong launches",
        cheat=True,
    ),
    Wrong(
        "each kernel in a stream of its own, without events",
        (
            ("    prepare(main)\n", "    prepare(cp.cuda.Stream(non_blocking=True))\n"),
            ("    left(main)\n", "    left(cp.cuda.Stream(non_blocking=True))\n"),
        ),
        "soundness",
        "hazard",
        cheat=True,
    ),
    Wrong(
        "everything twice",
        (
            (
                "    combine(main)\n",
                "    combine(main)\n    prepare(main)\n    left(main)\n    right(main)\n    combine(main)\n",
            ),
        ),
        "correctness",
        "wrong launches",
        cheat=True,
    ),
)
