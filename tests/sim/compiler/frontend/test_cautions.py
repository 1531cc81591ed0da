"""What is doubtful in a source that compiles, and what is not worth a word."""

from __future__ import annotations

import pytest

from cudalab.sim.compiler import compile
from cudalab.sim.compiler.frontend.cautions import Caution, cautions

KERNEL = """__device__ int sign(int x)
{{
    if (x > 0) return 1;{end}
}}

extern "C" __global__ void k(float *a, int n, unsigned u, int row)
{{
    int i = threadIdx.x, never, unused;
{lines}
}}
"""


def cautions_of(lines: dict[str, str], end: str = " return 0;") -> tuple[Caution, ...]:
    source = KERNEL.format(lines="\n".join(f"    {line}" for line in lines), end=end)
    return cautions(compile(source).log, source)


DOUBTFUL = {
    "__syncthreads;": "brackets: __syncthreads()",
    "a[i] == 4.0f;": "= assigns a value, == compares",
    "for (int j = 0; j < n; j + 1) { a[j] = 2; break; }": "++j and j += 2",
    "n * 2;": "assign what the expression is worth",
    "if (row = 0) a[1] = 2;": "write ==",
    "if (row = 0 || row == n - 1) a[2] = 1;": "write ==",
    "while (i = n - 1) break;": "write ==",
    "a[never] = 1;": "where it is declared",
    "for (unsigned j = n; j >= 0; --j) a[j] = 2;": "a signed int",
    "a[3] = 1 / 0;": "divisor",
    "a[4] = 1 << 40;": "1LL << 40",
    "a[5] = 65536 * 65536;": "65536LL",
    "char c = 300; a[6] = c;": "a larger type",
    'printf("%d", a[0]);': "%f for float",
    'printf("%d");': "one for each value",
}


def test_each_doubtful_line_is_told_with_what_to_try() -> None:
    found = cautions_of(DOUBTFUL)
    assert [one.code.strip() for one in found] == list(DOUBTFUL)
    for one, (line, advice) in zip(found, DOUBTFUL.items(), strict=True):
        assert advice in one.advice and one.rule and f"Try: {one.advice}" in str(one), line


def test_a_function_without_a_return_at_its_end_is_told() -> None:
    (found,) = cautions_of({}, end="")
    assert found.line == 4 and "missing return" in found.text


def test_what_is_no_mistake_is_not_told() -> None:
    """`unused` is declared and never used in every one of them."""
    harmless = (
        "int set; set = 3;",
        "unsigned most = -1; a[0] = most;",
        "if ((row = n - 1)) a[1] = 2;",
        "if (int found = sign(n)) a[1] = found;",
        "for (int j = 0; j < n || i == j; j += 1) a[j] = 1;",
        "if (i <= n && i != row && u >= 1u) a[2] = 1;",
        "if (i < n) { row = 0; }",
        'if (sign(row += 1)) printf("if (row = 0)");  // if (row = 0)',
        "(void)n;",
        "if (threadIdx.x > n) return;",
    )
    assert cautions_of(dict.fromkeys(harmless, "")) == ()


@pytest.mark.parametrize("name", ["kernel.cu", "answer.cu"])
def test_only_the_learner_s_own_file_is_told_of(name: str) -> None:
    log = "".join(f"{file}(1): warning #174-D: expression has no effect\n\n" for file in ("cub.cuh", "kernel.cu"))
    assert len(cautions(log, "x;\ny;", name)) == (name == "kernel.cu")
