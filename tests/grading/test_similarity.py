"""What makes two kernels alike, and what does not."""

from __future__ import annotations

from cudalab.checks import find
from cudalab.grading.fingerprint import fingerprint
from cudalab.grading.messages import PartRecord, ResultRecord
from cudalab.grading.reports.similarity import pairs
from cudalab.grading.scores import Score, Sheet
from cudalab.grading.store import Answer, Handed, Task
from cudalab.sim.compiler import compile

KERNEL = """
extern "C" __global__ void scale(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = 2.0f * x[i] + 1.0f;  // twice
}
"""
SAME = """
// all by myself
extern "C" __global__ void scale(const float *source, float *target, int count)
{
    const int thread = blockIdx.x * blockDim.x + threadIdx.x;

    if (thread < count)
        target[thread] = 2.0f * source[thread] + 1.0f;
}
"""
OTHER = """
extern "C" __global__ void scale(const float* x, float* y, int n) {
    for (int i = threadIdx.x; i < n; i += blockDim.x * gridDim.x) { float v = x[i]; y[i] = v + v + 1.0f; y[0] = v; }
}
"""


def test_names_layout_and_comments_do_not_count() -> None:
    one, same, other = (fingerprint(compile(text).ptx) for text in (KERNEL, SAME, OTHER))
    assert one == same and len(one) > 3
    assert len(set(one) & set(other)) < len(one) / 2


def test_a_statement_without_words_is_no_instruction() -> None:
    assert fingerprint("{\n;\n}\n// nothing\n") == []


def _sheet(student: str, runs: list[int], points: float = 1.0, text: str = "") -> Sheet:
    outcome = ResultRecord("04.1", "", [PartRecord("correctness", 1, 1, [], False, [])], 1, runs)
    answer = Answer(student, "04.1", student, "", Task(student, "04.1", 1, text or student), outcome)
    score = Score(answer, find("04.1"), points, 3.0, "graded")
    return Sheet(Handed(student, "", "", None), (score,), 0, 1.0, 0.0, 0.0)


def test_what_all_have_weighs_nothing() -> None:
    """Ten have the same twenty runs; two of them share ten more that nobody else has."""
    common, rare = list(range(20)), list(range(100, 110))
    sheets = [_sheet(f"s{number}", [*common, 200 + number]) for number in range(8)]
    sheets += [_sheet("alice", common + rare), _sheet("bob", common + rare)]
    assert [(pair.one, pair.other) for pair in pairs(sheets)] == [("alice", "bob")]


def test_those_with_the_same_text_are_told_once() -> None:
    sheets = [_sheet(name, list(range(20)), text="same") for name in ("alice", "bob", "carol")]
    sheets += [_sheet(f"s{number}", list(range(100 * number, 100 * number + 20))) for number in range(1, 8)]
    sheets.append(_sheet("dan", list(range(19))))
    same, alike = pairs(sheets)
    assert (same.one, same.other, same.same_text) == ("alice", "bob, carol", True)
    assert (alike.one, alike.other, alike.same_text) == ("alice (and 2 more)", "dan", False)


def test_answers_that_earned_nothing_are_left_out() -> None:
    assert not pairs([_sheet(name, list(range(50)), points=0) for name in ("alice", "bob")])
