"""ptxas's report, read."""

from __future__ import annotations

from cudalab.sim.compiler.frontend.resources import clean_log, parse_resources
from cudalab.sim.compiler.program import Resources

LOG = """kernel.cu(3): warning #177-D: variable "unused" was declared but never referenced

ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function '_Z5probev' for 'sm_90'
ptxas info    : Function properties for _Z5probev
ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 4 registers, used 0 barriers
ptxas info    : Compile time = 1.0 ms
ptxas info    : Compiling entry function 'k' for 'sm_90'
ptxas info    : Function properties for k
ptxas         .     40 bytes stack frame, 36 bytes spill stores, 32 bytes spill loads
ptxas info    : Used 128 registers, used 2 barriers, 104 bytes cumulative stack size, 4096 bytes smem, \
360 bytes cmem[0], 8 bytes cmem[2]
ptxas info    : Compile time = 2.0 ms
ptxas info    : Function properties for helper
ptxas         .     64 bytes stack frame, 7 bytes spill stores, 7 bytes spill loads
"""


def test_resources_of_each_kernel() -> None:
    assert parse_resources(LOG) == {
        "_Z5probev": Resources(registers=4, shared=0, local=0),
        "k": Resources(
            registers=128, shared=4096, local=104, spill_stores=36, spill_loads=32, barriers=2, constant=368
        ),
    }


def test_a_log_without_a_report() -> None:
    assert parse_resources('kernel.cu(1): error: expected a ";"') == {}


def test_clean_log_hides_what_is_not_the_learners() -> None:
    text = clean_log(LOG, "probe")
    assert "probe" not in text and "Compile time" not in text and "0 bytes gmem" not in text
    assert 'variable "unused"' in text and "Used 128 registers" in text and "for helper" in text
