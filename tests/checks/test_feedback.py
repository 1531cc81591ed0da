"""What a check says first: the mistake that it recognises, or else what explains the rest; and each thing once."""

from __future__ import annotations

import pytest

from cudalab.checks import Result, check, find
from cudalab.checks.bench import counted
from tests.checks.answers.answer import solution_of
from tests.checks.test_exercises import starter_of

WIDE = "gridDim.x * blockDim.x"


def checked(exercise: str, *replace: tuple[str, str]) -> Result:
    text = solution_of(exercise)
    for old, new in replace:
        assert old in text
        text = text.replace(old, new)
    return check(exercise, text, seed=1)


def lines_of(result: Result) -> list[str]:
    return [line.strip() for line in str(result).split("\n")]


@pytest.mark.parametrize(
    ("exercise", "wrong"),
    [
        ("01.axpy", (WIDE, "blockDim.x")),
        ("01.axpy", ("blockIdx.x * blockDim.x + threadIdx.x", "threadIdx.x")),
        ("01.1", (f"wide = {WIDE}", "wide = blockDim.x")),
    ],
)
def test_blocks_that_repeat_each_others_elements_are_recognised(exercise: str, wrong: tuple[str, str]) -> None:
    result = checked(exercise, wrong)
    (finding,) = [f for f in result.findings if f.rule == "race"]
    assert "its step is the whole grid" in finding.mistake
    assert "each belongs to one thread" in finding.look and "use atomics" not in str(result)


def test_a_null_pointer_that_a_kernel_reads_is_not_one_that_somebody_forgot_to_allocate() -> None:
    result = checked("04.count-above", ("for (; node != nullptr; node = node->next)", ""))
    (finding,) = [f for f in result.findings if f.rule == "null pointer"]
    assert "it may be null" in finding.look and "test it first" in finding.look and "allocation" not in finding.look


@pytest.mark.parametrize(
    "wrong", [("DeviceToHost", "HostToDevice"), ("back.ctypes.data, pointer", "pointer, back.ctypes.data")]
)
def test_a_copy_that_is_refused_says_what_to_look_at(wrong: tuple[str, str]) -> None:
    (finding,) = [f for f in checked("04.there-and-back", wrong).findings if f.part == "soundness"]
    assert finding.rule == "cudaErrorInvalidValue"
    assert "destination first" in finding.look and "from the device to the host" in finding.look


def test_a_sum_of_several_blocks_is_no_element_of_one_thread() -> None:
    result = checked("01.2", ("atomicAdd(&counts[k], mine[k])", "counts[k] = mine[k]"))
    (finding,) = [f for f in result.findings if f.rule == "race"]
    assert not finding.mistake and "use atomics" in finding.look


@pytest.mark.parametrize(("exercise", "wait"), [("01.reverse", "__syncthreads();"), ("01.exchange", "__syncwarp();")])
def test_a_race_comes_before_the_values_that_it_spoils(exercise: str, wait: str) -> None:
    lines = lines_of(checked(exercise, (wait, "")))
    assert lines[1].startswith("race: RAW hazard in __shared__ memory")
    assert sum(line.startswith("Look at: ") for line in lines) == 1
    assert lines[-1].startswith("wrong values: ") and "nobody has written yet" in lines[-1]


def test_a_race_names_its_line_once_and_says_what_it_is() -> None:
    line = "out[i] = a * x[i] + y[i];"
    text = str(checked("01.axpy", (WIDE, "blockDim.x")))
    assert text.count(line) == 1 and "Two threads write the same place" in text


def test_a_plain_look_beside_an_atomic_has_its_own_advice() -> None:
    result = checked("01.largest", ("atomicMax(best", "if (x[i] > *best) atomicMax(best"))
    (finding,) = result.findings
    assert "leave the plain read out" in finding.look and "__syncthreads" not in finding.look


def test_a_read_and_a_write_in_one_statement_take_no_barrier() -> None:
    result = checked("01.2", ("atomicAdd(&counts[k], mine[k])", "counts[k] += mine[k]"))
    (finding,) = [f for f in result.findings if f.rule == "race"]
    assert "__syncthreads" not in finding.look and "atomic" in finding.look


def test_a_result_without_points_gives_one_hint() -> None:
    result = check("01.1", starter_of(find("01.1")), seed=1)
    assert sum(line.startswith("Look at: ") for line in lines_of(result)) == 1
    assert "(1 row of 1, " in str(result) and result._repr_html_().count("<details>") == 3


def test_one_of_a_thing_is_singular() -> None:
    assert (counted(1, "row"), counted(2, "row"), counted(0, "row")) == ("1 row", "2 rows", "0 rows")
    result = checked("01.largest", ("atomicMax", "atomicAdd"))
    assert "elements differ" not in str(result)


def test_a_name_of_another_cell_is_said_to_be_unknown_to_the_check() -> None:
    """``pinned`` is a function of the chapter, and the check runs the answer's cell alone."""
    result = check("08.pin", "def pin(x):\n    return pinned(x.size, x.dtype)\n", seed=1)
    (finding,) = [f for f in result.findings if f.rule == "NameError"]
    assert "define pinned in it" in finding.look


@pytest.mark.parametrize(
    ("exercise", "replace", "says"),
    [
        ("09.publish", [("order_acquire", "order_relaxed")], "no read acquires"),
        ("09.publish", [("order_release", "order_relaxed")], "no write releases"),
        ("09.publish", [("thread_scope_device", "thread_scope_block")], "of its block only"),
        ("09.publish", [("order_release", "order_acquire")], "a store takes relaxed, release or seq_cst"),
        ("09.total", [("    __threadfence();\n", ""), ("int* parts", "volatile int* parts")], "order nothing else"),
    ],
)
def test_a_message_out_of_order_is_told_what_is_missing(
    exercise: str, replace: list[tuple[str, str]], says: str
) -> None:
    told = str(checked(exercise, *replace))
    assert says in told and "use atomics" not in told


def test_a_function_in_a_queue_that_stops_explains_the_values_that_it_did_not_write() -> None:
    result = checked("11.4", ("totals[k] = parts[k].sum()", "totals[k] = parts[2 * k - k, 0, 0]"))
    assert {f.rule for f in result.findings} == {"IndexError", "no result"}
    assert not any(f.mistake for f in result.findings)


@pytest.mark.parametrize(
    ("exercise", "wrong", "said"),
    [
        ("01.1", ("width - 1 - column", "width - column"), "the index that this thread computes"),
        ("04.6", ("[i];", "[4 * i];"), "the index that this thread computes"),
        ("04.1", ("n - 1 - i", "n - i"), "the index that this thread computes"),
        ("04.1", ("if (i < n) ", ""), "if (i < n)"),
        ("04.1", ("i < n", "i <= n"), "if (i < n)"),
    ],
)
def test_a_wrong_index_behind_a_right_guard_is_no_missing_guard(
    exercise: str, wrong: tuple[str, str], said: str
) -> None:
    result = check(exercise, solution_of(exercise).replace(*wrong), seed=1)
    (finding,) = [f for f in result.findings if f.rule == "out of bounds"]
    assert said in finding.look, str(result)


def test_a_sum_that_is_still_cupys_gets_a_verdict() -> None:
    answer = """
def answer(x, y, launch):
    launch(x.ctypes.data, y.ctypes.data, len(x))
    cp.cuda.Stream.null.synchronize()
    return cp.asarray(y).sum()
"""
    result = check("08.negate", answer, seed=1)
    assert {f.rule for f in result.findings} == {"copies", "allocations of device memory"}


def test_an_argument_of_the_wrong_kind_in_a_queue_says_what_is_wanted() -> None:
    for wrong in ("stream.launch_host_func(lines.append('done'), None)", "stream.launch_host_func(lambda: None, None)"):
        result = check("11.tell", f"def tell(stream, lines):\n    {wrong}\n", seed=1)
        (finding,) = [f for f in result.findings if f.rule == "TypeError"]
        assert "called with one argument" in finding.look


def test_a_copy_that_was_not_made_in_bytes_is_told_so() -> None:
    (finding,) = checked("04.there-and-back", ("host.nbytes", "host.size")).causes
    assert "in bytes" in finding.look


def test_a_launch_without_a_block_is_told_as_that() -> None:
    result = checked("12.3", ("-(-count // 4)", "count // 4"))
    assert any("with 0 blocks" in finding.text for finding in result.findings)


def test_a_free_in_the_wrong_stream_is_named_only_where_there_is_one() -> None:
    wrong = checked("04.8", ("cudaMallocAsync(size, first.ptr)", "cudaMallocAsync(size, second.ptr)"))
    assert not any("first frees" in finding.mistake for finding in wrong.findings)


def test_a_copy_out_that_waits_is_told_as_a_wait_first() -> None:
    result = checked("11.1", ("blocking=False", "blocking=True"))
    (efficiency,) = [part for part in result.parts if part.name == "efficiency"]
    missed = [each.gate.name for each in efficiency.gates if not each.met]
    assert missed[0] == "waits and queries of the host" and len(missed) > 1


def test_a_wrong_start_is_shown_with_the_whole_program() -> None:
    """What comes behind a piece may be why a function gets that piece wrong."""
    answer = "def starts(program, engines):\n    return [0] * len(program) if len(program) != 9 else [1] * 9\n"
    (finding,) = check("11.7", answer, seed=1).causes
    assert finding.text.startswith("program[0]") and finding.text.count("('kernel', ") == 3


def test_a_mistake_is_told_of_the_program_that_is_shown() -> None:
    """Of programs that come later another one may be the first that shows a mistake with a name."""
    result = check("08.5", "def hazards(steps):\n    return ['' for _ in steps]\n", seed=3)
    (finding,) = [finding for finding in result.findings if finding.rule == "wrong values"]
    assert "host reads x, is RAW" in finding.text and not finding.mistake


def test_results_that_were_never_taken_are_not_taken_too_early() -> None:
    result = checked("08.3", ("range(count + 2)", "range(count)"))
    assert not any(finding.mistake for finding in result.findings)
    assert result.causes[0].rule == "wrong calls"


def test_a_wrong_value_is_shown_in_the_smallest_case_and_a_long_one_by_its_first_wrong_element() -> None:
    off_by_one = checked("03.2", ("write, args=each", "write, args=(each[0], each[1] + 1)"))
    (finding,) = off_by_one.causes
    assert "(1 value, 1 of each)" in finding.text and "…" not in finding.text
    middle = checked("03.2", ("    return numbers", "    numbers[50:] += numbers.size > 99\n    return numbers"))
    (finding,) = middle.causes
    assert " at [50]; " in finding.text and " elements differ" in finding.text and "array" not in finding.text


def test_zeros_that_race_with_counts_want_a_barrier() -> None:
    """The first barrier of 01.2, forgotten: an atomic zero would not mend it."""
    result = checked("01.2", ("__syncthreads();  // all 26 are 0", ""))
    looks = [found.look for found in result.findings if found.rule == "race"]
    assert looks and all("__syncthreads()" in look for look in looks)


def test_a_barrier_whose_mask_leaves_lanes_out_is_told_to_leave_the_mask_out() -> None:
    result = checked("01.exchange", ("__syncwarp()", "__syncwarp(1)"))
    (finding,) = [found for found in result.findings if found.rule == "lane not in mask"]
    assert "leave the mask out" in finding.look and "ballot" not in finding.look


def test_what_the_compiler_doubts_is_told_beside_what_is_wrong() -> None:
    result = checked("01.exchange", ("__syncwarp();", "__syncwarp;"))
    lines = lines_of(result)
    assert lines[1].startswith("race: ")
    (told,) = [line for line in lines if line.startswith("looks like a mistake: ")]
    assert "__syncwarp;: expression has no effect; call it with brackets: __syncwarp()." in told


def test_what_the_compiler_doubts_in_a_right_answer_is_left_to_its_cell() -> None:
    assert checked("01.exchange", ("__syncwarp();", "__syncwarp();\n    0;")).passed


def test_a_known_mistake_is_named_where_every_wrong_case_looks_like_it() -> None:
    always = check("06.6", "def wavefronts(words):\n    return 1\n", seed=1)
    (finding,) = [found for found in always.findings if found.rule == "wrong values"]
    assert "Also for" in finding.text and not finding.mistake  # a column of 32 words uses one bank, too
    banks = check("06.6", "def wavefronts(words):\n    return len({w % 32 for w in words if w is not None})\n", seed=1)
    (finding,) = [found for found in banks.findings if found.rule == "wrong values"]
    assert "Also for" in finding.text and "banks that are used" in finding.mistake


@pytest.mark.parametrize(
    "tries",
    [
        "int old = atomicAdd(best, 0), seen; do { seen = old; old = atomicCAS(best, seen, max(seen, x[i])); } "
        "while (old != seen);",
        "int seen = atomicAdd(best, 0); while (x[i] > seen) { int old = atomicCAS(best, seen, x[i]); "
        "if (old == seen) break; seen = old; }",
        "int mine = x[i], old; while ((old = atomicExch(best, mine)) > mine) mine = old;",
    ],
    ids=["until it fits", "while it is larger", "exchanges"],
)
def test_a_swap_that_is_tried_again_loses_nothing(tries: str) -> None:
    assert checked("01.largest", ("atomicMax(best, x[i]);", tries)).passed


@pytest.mark.parametrize(
    ("fences", "look"),
    [
        ((False, False), "put __threadfence() between what a block writes and the atomic, and another"),
        ((True, False), "another is missing behind the atomic"),
        ((False, True), "another is missing before the atomic"),
    ],
)
def test_a_last_block_is_told_which_fence_is_missing(fences: tuple[bool, bool], look: str) -> None:
    fence = "    __threadfence();\n"
    before, ticket, behind = solution_of("09.total").split(fence)
    text = before + fence * fences[0] + ticket + fence * fences[1] + behind
    (finding,) = check("09.total", text, seed=1).findings
    assert finding.rule == "race" and look in finding.look and "use atomics" not in finding.look


def test_what_is_worked_out_from_memory_that_nobody_wrote_is_not_called_not_written() -> None:
    result = checked("15.3", ("        mix(a)\n", ""), ("        blur(a)\n", "        mix(a)\n        blur(a)\n"))
    (finding,) = [found for found in result.findings if found.rule == "wrong values"]
    assert "x[0] is nan" in finding.text and "x[0] is not written" not in finding.text


@pytest.mark.parametrize(
    ("mistake", "wait"),
    [
        (("x.set(frame, stream=stream)", "x.set(frame)"), "let the stream wait for it"),
        (("y.get(stream=stream, out", "y.get(out"), "record an event in the stream after the launch of the graph"),
    ],
    ids=["in", "out"],
)
def test_a_wait_that_a_graph_lacks_belongs_at_the_line_of_its_launch(mistake: tuple[str, str], wait: str) -> None:
    result = checked("15.1", mistake)
    (finding,) = [found for found in result.findings if found.rule == "hazard"]
    assert wait in finding.look and "the launch of the graph (answer.py, line 7)" in finding.look
    assert finding.mistake.startswith("the stream is non-blocking")
    assert all("in another stream" in found.look for found in result.findings if "first frame" in found.mistake)


def test_what_was_read_from_the_padding_is_not_called_unwritten() -> None:
    source = """
extern "C" __global__ void flatten(const float* base, size_t pitch, float* out, int width, int height) {
    int column = blockIdx.x * blockDim.x + threadIdx.x;
    int r = blockIdx.y * blockDim.y + threadIdx.y;
    if (column >= width || r >= height) return;
    const float* row = base + r * width;
    out[r * width + column] = row[column];
}
"""
    text = "\n".join(finding.text for finding in check("04.flatten", source, seed=1).findings)
    assert "is what stands in the padding" in text and "not written" not in text


def test_an_event_of_an_earlier_round_is_not_called_recorded_too_early() -> None:
    source = """
def run(tasks, needs, place, streams):
    events = []
    for k, task in enumerate(tasks):
        stream = streams[place[k]]
        if needs[k] and place[max(needs[k])] != place[k]:
            stream.wait_event(events[max(needs[k])])
        task(stream)
        events.append(stream.record())
"""
    text = str(check("14.5", source, seed=2))
    assert "nothing orders the two" in text and "too early" not in text
    assert "was recorded in an earlier round" in text


def test_an_exercise_without_kernels_asks_for_none() -> None:
    result = checked("11.2", ("box = boxes[k % 2]", "box = np.empty_like(boxes[0])"))
    assert {"made on the host", "a box of its own"} <= {finding.rule for finding in result.findings}
    assert "kernel" not in str(result) and "a copy from that very box" in str(result)
