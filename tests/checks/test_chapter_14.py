"""The exercises of chapter 14 take every right answer, and say what is wrong with some that no mutant covers."""

from __future__ import annotations

import pytest

from cudalab.checks import check

TIMED = {
    "runtime calls": """
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
    "one mark between two runs": """
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
    "current stream, helper in the cell, queue kept full": """
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
}

FORKED = {
    "runtime calls": """
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
    "the other way round, with one event for both": """
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
    "combined in the other stream, and joined": """
def fork_and_join(prepare, left, right, combine, main, side):
    prepare(main)
    side.wait_event(main.record())
    left(main)
    right(side)
    side.wait_event(main.record())
    combine(side)
    main.wait_event(side.record())
""",
}


@pytest.mark.turns(of=3)
@pytest.mark.parametrize("source", TIMED.values(), ids=TIMED)
def test_another_right_way_to_time(source):
    result = check("14.1", source, seed=3)
    assert result.points == result.maximum == 3, str(result)


@pytest.mark.turns(of=3)
@pytest.mark.parametrize("source", FORKED.values(), ids=FORKED)
def test_another_right_fork(source):
    result = check("14.2", source, seed=3)
    assert result.points == result.maximum == 4, str(result)


@pytest.mark.turns(of=3)
@pytest.mark.parametrize("seed", range(4))
def test_the_seed_decides_nothing(seed):
    assert check("14.1", TIMED["one mark between two runs"], seed=seed).passed


@pytest.mark.turns(of=3)
@pytest.mark.parametrize(
    ("change", "mistake"),
    [
        ("np.mean", "the mean"),
        ("np.min", "the fastest run"),
        ("np.sum", "all runs together"),
        ("0.001 * np.median", "milliseconds"),
    ],
)
def test_a_known_mistake_is_named(change, mistake):
    result = check("14.1", TIMED["one mark between two runs"].replace("np.median", change), seed=3)
    (finding,) = [f for f in result.findings if f.rule == "wrong values"]
    assert mistake in finding.mistake


@pytest.mark.turns(of=3)
@pytest.mark.parametrize("value", ["None", "'12 µs'", "[1, 2]"])
def test_what_is_no_number_is_said(value):
    source = TIMED["one mark between two runs"].replace("return ", "ignored = ") + f"    return {value}\n"
    assert "not a number of microseconds" in str(check("14.1", source, seed=3))


def test_one_kernel_left_out_is_said():
    source = FORKED["runtime calls"].replace("    left(main)\n", "")
    rules = {(f.part, f.rule) for f in check("14.2", source, seed=3).findings}
    assert ("correctness", "wrong launches") in rules or ("correctness", "wrong values") in rules


def test_a_buffer_used_again_needs_its_wait():
    """Right for one call; called twice, the next `prepare` writes what `right` of the call before may still read."""
    source = FORKED["combined in the other stream, and joined"].replace("    main.wait_event(side.record())\n", "")
    findings = check("14.2", source, seed=3).findings
    assert any(f.rule == "hazard" and "called twice" in f.text for f in findings)


@pytest.mark.turns(of=3)
def test_same_seed_gives_the_same_text():
    wrong = FORKED["runtime calls"].replace("    cudart.cudaEventRecord(done, side.ptr)\n", "")
    assert str(check("14.2", wrong, seed=5)) == str(check("14.2", wrong, seed=5))
