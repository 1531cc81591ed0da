"""Where Python answers are tried: what is watched, what is reported, and that the learner's session is left alone."""

from __future__ import annotations

import gc

import numpy as np
import pytest
from IPython.core.interactiveshell import InteractiveShell

import cudalab
from cudalab.checks.answer import Answer, read_answer
from cudalab.checks.exercise import Exercise
from cudalab.checks.provenance import Origin
from cudalab.checks.streams import StreamBench, Trial
from cudalab.sim import cupy
from cudalab.sim.device import current_device
from cudalab.sim.machine.reports import card
from tests.notebooks.chapter import fresh_shell

FILL = 'extern "C" __global__ void fill(float* x, float v) { x[threadIdx.x] = v; }'
SLOW = r"""
extern "C" __global__ void slow(float* x, float v) {
    float y = v;
    for (int s = 0; s < 20000; s++) y = 0.5f * y + 0.5f * v;
    *x = y;
}"""


def tried(source, examine):
    """The bench after ``examine`` has run on an answer with this source."""
    exercise = Exercise("99.1", "a test", "answer", examine, correctness=1, answer="function")
    bench = StreamBench(exercise, Answer(source), seed=1)
    bench.run()
    return bench


def rules(bench):
    return {(finding.part, finding.rule) for finding in bench.findings}


def watched(source, *, times=1):
    """The trial of an answer that gets launchers of a slow kernel, which write x[0] and x[1], and two streams."""
    seen: list[Trial] = []

    def examine(bench):
        with bench.case("a case") as trial:
            kernel, x = trial.kernel(SLOW, "slow"), trial.array(np.zeros(2, np.float32))
            one, two = trial.stream("one"), trial.stream("two")
            launch, other = (trial.launcher(kernel, (1,), (1,), (x[i:], np.float32(3))) for i in range(2))
            seen.append(trial)
            trial.call(launch, other, one, two, times=times)

    bench = tried(source, examine)
    return bench, seen[0]


def test_calls_waits_polls_and_work_are_seen_with_their_lines():
    source = "def answer(launch, other, one, two):\n    launch(one)\n    one.done\n    one.synchronize()\n"
    bench, trial = watched(source)
    assert bench.findings == ()
    assert [call.name for call in trial.calls] == ["launch", "stream_query", "stream_synchronize"]
    assert [str(call) for call in trial.waits] == ["line 4: one.synchronize()"]
    assert [call.place.line for call in trial.polls] == [3]
    (kernel,) = trial.kernels("slow")
    assert kernel.start < kernel.end and kernel.place.line == 2


def test_what_the_check_itself_does_is_not_counted():
    bench, trial = watched("def answer(launch, other, one, two):\n    launch(one)\n")
    assert [call.name for call in trial.calls] == ["launch"] and trial.waits == []


def test_queries_of_cupy_for_what_the_check_made_are_not_counted():
    """CuPy keeps the host's part of an array until its copy is done, and asks at the next pinned allocation."""
    cudalab.backend.simulated_device()
    kept = cupy.asarray(np.zeros(2, np.float32))
    _, trial = watched("def answer(launch, other, one, two):\n    cp.cuda.alloc_pinned_memory(64)\n")
    assert trial.polls == []
    assert kept.get().tolist() == [0, 0]


@pytest.mark.parametrize(("second", "overlapping"), [("one", False), ("two", True)])
def test_what_nothing_orders_may_overlap(second, overlapping):
    _, trial = watched(f"def answer(launch, other, one, two):\n    launch(one)\n    other({second})\n")
    assert trial.order.unordered(*trial.kernels()) == overlapping


@pytest.mark.parametrize(
    "wait",
    [
        "two.wait_event(one.record())",
        "one.synchronize()",
        "one.record().synchronize()",
        "cp.cuda.Device().synchronize()",
        "event = one.record(); one.synchronize(); two.wait_event(event)",
        "while not one.done: pass",
        "cp.cuda.Stream.null.wait_event(one.record()); two.wait_event(cp.cuda.Stream.null.record())",
    ],
)
def test_what_orders_two_streams(wait):
    _, trial = watched(f"def answer(launch, other, one, two):\n    launch(one)\n    {wait}\n    other(two)\n")
    first, second = trial.kernels()
    assert trial.order.before(first, second) and not trial.order.unordered(first, second)
    assert not trial.order.before(second, first)


@pytest.mark.parametrize("wait", ["one.wait_event(two.record())", "two.wait_event(cp.cuda.Event())", "one.record()"])
def test_what_does_not(wait):
    _, trial = watched(f"def answer(launch, other, one, two):\n    launch(one)\n    {wait}\n    other(two)\n")
    assert trial.order.unordered(*trial.kernels())


def test_work_around_the_function_has_to_be_in_order_with_it():
    def examine(bench):
        with bench.case("a case") as trial:
            kernel, x = trial.kernel(SLOW, "slow"), trial.array(np.zeros(1, np.float32))
            one, two = trial.stream("one"), trial.stream("two")
            launch = trial.launcher(kernel, (1,), (1,), (x, np.float32(3)))
            trial.call(launch, one, two, before=lambda: launch(one), after=lambda: launch(one))
            assert len(trial.kernels()) == 1

    def findings(stream):
        return rules(tried(f"def answer(launch, one, two):\n    launch({stream})\n", examine))

    assert findings("one") == set() and findings("two") == {("soundness", "hazard")}


def test_times_between_events_come_with_their_records():
    source = """def answer(launch, other, one, two):
    events = [one.record()]
    for _ in range(2):
        launch(one)
        events.append(one.record())
    one.synchronize()
    return [cp.cuda.get_elapsed_time(events[0], event) for event in events[1:]]
"""
    bench, trial = watched(source)
    assert bench.findings == ()
    assert [milliseconds for _, _, milliseconds in trial.elapsed] == trial.value
    first, second = trial.kernels()
    assert [first.sequence < last.sequence for _, last, _ in trial.elapsed] == [True, True]
    assert [second.sequence < last.sequence for _, last, _ in trial.elapsed] == [False, True]


class Everything(dict):
    """The learner has a stream of any handle."""

    def get(self, handle, default=None):
        return "upload"


def test_a_missing_wait_is_a_hazard_with_both_lines_and_the_streams_names(monkeypatch):
    monkeypatch.setattr(card, "stream_names", Everything)
    bench, _ = watched("def answer(launch, other, one, two):\n    launch(one)\n    launch(two)\n")
    (finding,) = bench.findings
    assert (finding.part, finding.rule) == ("soundness", "hazard")
    assert "line 2: launch(one)" in finding.text and "line 3: launch(two)" in finding.text
    assert "in one" in finding.text and "in two" in finding.text and "0x" not in finding.text
    assert "record an event in one" in finding.look and "let two wait" in finding.look


def test_what_the_check_launches_itself_has_no_line():
    def examine(bench):
        with bench.case("a case") as trial:
            kernel, x = trial.kernel(SLOW, "slow"), trial.array(np.zeros(1, np.float32))
            a, b = trial.stream("a"), trial.stream("b")
            launch = trial.launcher(kernel, (1,), (1,), (x, np.float32(3)))
            trial.call(a, b, before=lambda: launch(a), after=lambda: launch(b))

    (finding,) = tried("def answer(a, b):\n    pass\n", examine).findings
    assert "kernel slow in a writes and kernel slow in b writes" in finding.text
    assert "line" not in f"{finding.text} {finding.look}"


@pytest.mark.parametrize("imports", ["", "from cudalab import check, predict", "import cudalab"])
def test_a_cell_may_check_itself(imports):
    source = f"""{imports}
def answer():
    return 2
result = cudalab.check("99.1", answer)
display(result)
print(result.points, cudalab.predict("something"))
"""
    bench = tried(source, lambda bench: _calls(bench, 2))
    assert bench.findings == ()


def _calls(bench, wanted):
    with bench.case("a case") as trial:
        trial.call()
        trial.expect_value(wanted)


def test_what_else_is_the_notebooks_is_to_move_to_another_cell():
    bench = tried("with cudalab.trace():\n    pass\ndef answer():\n    return 2\n", lambda bench: _calls(bench, 2))
    assert "there cudalab has no 'trace': move that line to a cell of its own" in bench.findings[0].text


def test_an_exception_names_its_line_and_stops_the_case():
    bench, _ = watched("def answer(launch, other, one, two):\n    launch(one)\n    return 1 / 0\n")
    assert rules(bench) == {("soundness", "ZeroDivisionError"), ("correctness", "no result")}
    assert "line 3: return 1 / 0" in bench.findings[0].text


def test_an_answer_that_exits_ends_only_itself():
    bench, _ = watched("def answer(launch, other, one, two):\n    raise SystemExit(3)\n")
    assert ("soundness", "SystemExit") in rules(bench)


def test_a_cuda_error_gives_its_name_to_the_rule():
    source = (
        "def answer(launch, other, one, two):\n    return cp.cuda.get_elapsed_time(cp.cuda.Event(), cp.cuda.Event())\n"
    )
    bench, _ = watched(source)
    assert ("soundness", "cudaErrorInvalidResourceHandle") in rules(bench)


def test_a_fault_in_a_kernel_is_a_finding():
    def examine(bench):
        with bench.case("a case") as trial:
            kernel = trial.kernel(FILL, "fill")
            trial.call(lambda: kernel((1,), (32,), (np.uint64(64), np.float32(1))))
            raise AssertionError("the case goes on after a fault")

    bench = tried("def answer(launch):\n    launch()\n", examine)
    assert ("soundness", "cudaErrorIllegalAddress") in rules(bench)


@pytest.mark.parametrize(
    ("source", "rule"),
    [
        ("def answer(:\n    pass", "not Python"),
        ("def other():\n    pass", "no such function"),
        ("answer = 3", "no such function"),
        ("import nothing_of_that_name\ndef answer(launch, other, one, two): pass", "no result"),
    ],
)
def test_an_answer_that_is_none(source, rule):
    bench, _ = watched(source) if "answer(:" not in source else (tried(source, lambda bench: None), None)
    assert ("correctness", rule) in rules(bench)


def test_whole_arrays_are_compared_and_a_known_mistake_is_named():
    def examine(bench):
        with bench.case("a case") as trial:
            out = trial.empty((4,), np.float32)
            trial.call(out)
            trial.expect("out", out, np.ones(4), by=frozenset({Origin.ARRAY}))

    assert tried("def answer(out):\n    out[:] = 1", examine).findings == ()
    (finding,) = tried("def answer(out):\n    out[:3] = 1", examine).findings
    assert "out[3] is not written, expected 1; 1 of 4" in finding.text


def test_integers_are_shown_whole():
    def examine(bench):
        with bench.case("a case") as trial:
            out = trial.empty((1,), np.int32)
            trial.call(out)
            trial.expect("out", out, np.array([2_139_062_138]))

    (finding,) = tried("def answer(out):\n    out[:] = 2139062137", examine).findings
    assert "out[0] is 2139062137, expected 2139062138" in finding.text


def test_a_named_input_must_stay_as_it_was():
    def examine(bench):
        with bench.case("a case") as trial:
            trial.call(trial.array(np.ones(4, np.float32), "x"))

    assert rules(tried("def answer(x):\n    x[1] = 2", examine)) == {("correctness", "input changed")}


def test_pinned_memory():
    def examine(bench):
        with bench.case("a case") as trial:
            host, out = trial.pinned(np.arange(6, dtype=np.float32)), trial.empty((6,), np.float32)
            trial.call(host, out, trial.stream())
            assert trial.waits == []
            trial.expect("out", out, np.arange(6))

    bench = tried("def answer(host, out, stream):\n    out.set(host, stream=stream)", examine)
    assert bench.findings == ()


@pytest.mark.parametrize(
    "imports", ["import cudalab\nfrom cudalab import cp, cudart", "import cupy as cp\nfrom cudalab import cudart", ""]
)
def test_the_answer_sees_the_simulated_device_under_every_name(imports):
    source = f"""{imports}
import math
def answer():
    begin = cudalab.clock() if "cudalab" in globals() else 0
    return type(cp.zeros(1)), cudart.cudaDeviceSynchronize()[0].name, math.pi
"""
    values = []

    def examine(bench):
        with bench.case("a case") as trial:
            values.append(trial.call())

    assert tried(source, examine).findings == ()
    assert values[0] == (cupy.ndarray, "cudaSuccess", np.pi)


def test_the_session_is_left_as_it_was(capsys):
    device, stream = current_device(), cupy.cuda.Stream(non_blocking=True)
    pool = cupy.get_default_memory_pool()
    gc.collect()  # arrays of earlier tests
    array, free = cupy.arange(1000, dtype=np.int64), pool.free_bytes()
    pinned = cupy.cuda.alloc_pinned_memory(64)
    with stream:
        clock = device.clock_ns
        watched("def answer(launch, other, one, two):\n    print('seen'); x = cp.ones(10); one.use(); launch(one)\n")
        assert cupy.cuda.get_current_stream() == stream
    assert current_device() is device and device.clock_ns == clock
    assert pool.free_bytes() == free
    assert array.get().sum() == 499500 and pinned.size() >= 64
    assert capsys.readouterr().out == ""
    del array
    assert pool.free_bytes() == free + 8192  # 1000 numbers of 8 bytes, in units of 512


def test_an_interrupt_gives_the_session_its_device_back():
    device = current_device()
    with pytest.raises(KeyboardInterrupt):
        watched("def answer(launch, other, one, two):\n    raise KeyboardInterrupt\n")
    assert current_device() is device


def test_a_function_is_read_as_the_cell_that_defines_it():
    with fresh_shell() as shell:
        assert isinstance(shell, InteractiveShell)
        shell.run_cell("import math\ntwo = 2\ndef answer():\n    return two", store_history=False)
        function = shell.user_ns["answer"]
        assert read_answer(function, "function").source.startswith("import math\ntwo = 2\ndef answer")


def test_a_function_in_a_file_is_read_alone():
    def answer():
        return 3

    assert read_answer(answer, "function").source.startswith("def answer():\n    return 3")


@pytest.mark.parametrize("given", [3, None, np.zeros(1), type])
def test_what_is_no_function_is_a_type_error(given):
    with pytest.raises(TypeError, match="pass the function itself"):
        cudalab.check("14.1", given)
    namespace = {}
    exec("def answer(): pass", namespace)
    with pytest.raises(TypeError, match="source of answer cannot be found"):
        read_answer(namespace["answer"], "function")
