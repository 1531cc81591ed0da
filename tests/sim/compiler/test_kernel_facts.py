"""What the compiler says of a kernel as a whole: its length, whether it publishes, and what the time model executes."""

from __future__ import annotations

from cudalab.sim.compiler.build import build_program
from cudalab.sim.compiler.program import Kernel

HEAD = ".version 8.0\n.target sm_90\n.address_size 64\n"
REGISTERS = ".reg .b32 %r<9>;\n.reg .b64 %rd<5>;\n.reg .pred %p<5>;\n"


def kernel(body: str, before: str = "") -> Kernel:
    text = f"{HEAD}{before}.visible .entry k(.param .u64 a)\n{{\n{REGISTERS}{body}\nret;\n}}\n"
    return build_program(text).kernels["k"]


LOOP = """
mov.u32 %r1, 0;
$L: {pragma}
{body}
add.s32 %r1, %r1, 1;
setp.lt.s32 %p1, %r1, 100;
@%p1 bra $L;
"""


def test_a_kernel_without_loops_is_bounded_by_its_instructions() -> None:
    assert kernel("mov.u32 %r1, 1;\nadd.s32 %r1, %r1, 1;").longest_path == 3
    assert kernel("bra $out;\n$out:").longest_path == 2


def test_what_goes_back_or_may_wait_is_not_bounded() -> None:
    assert kernel(LOOP.format(pragma="", body="")).longest_path == 0
    assert kernel("nanosleep.u32 20;").longest_path == 0
    assert kernel("barrier.cluster.arrive;\nbarrier.cluster.wait;").longest_path == 0
    callee = ".func f()\n{\nret;\n}\n"
    assert kernel("call.uni f, ();", callee).longest_path == 0


def test_only_the_kernel_with_the_fence_publishes() -> None:
    fenced = ".visible .entry other()\n{\nmembar.sys;\nret;\n}\n"
    store = "ld.param.u64 %rd1, [a];\nst.global.u32 [%rd1], 1;"
    quiet = kernel(store, fenced)
    assert not quiet.publishes and not quiet.orders_accesses
    assert kernel("membar.sys;").publishes and kernel("membar.sys;").orders_accesses


def test_a_function_publishes_for_its_callers() -> None:
    callee = ".func f()\n{\nmembar.sys;\nret;\n}\n"
    assert kernel("call.uni f, ();", callee).publishes


def test_a_load_that_acquires_orders_accesses_and_publishes_nothing() -> None:
    reader = kernel("ld.param.u64 %rd1, [a];\nld.acquire.gpu.u32 %r1, [%rd1];")
    assert reader.orders_accesses and not reader.publishes


def test_the_carry_of_a_loaded_sum_is_data() -> None:
    body = """
    ld.param.u64 %rd1, [a];
    ld.global.u32 %r1, [%rd1];
    add.cc.u32 %r2, %r1, 1;
    addc.u32 %r3, 0, 0;
    cvt.u64.u32 %rd2, %r3;
    add.s64 %rd3, %rd1, %rd2;
    st.global.u8 [%rd3], 1;
    """
    assert not kernel(body).steady
    assert kernel(body.replace("%rd3], 1", "%rd1], 1")).steady


def test_a_pragma_keeps_a_loop_rolled() -> None:
    (unrolled,) = [block for block in kernel(LOOP.format(pragma="", body="")).timed.blocks if block.target >= 0]
    assert unrolled.repeats == 4
    asm = "// begin inline asm\n// end inline asm\n// a comment"
    rolled = kernel(LOOP.format(pragma='.pragma "nounroll";\n' + asm, body="")).timed
    assert [block.repeats for block in rolled.blocks if block.target >= 0] == [1]


def test_instructions_behind_a_barrier_belong_to_the_same_code() -> None:
    blocks = kernel("mov.u32 %r1, 1;\nbar.sync 0;\nadd.s32 %r1, %r1, 1;").timed.blocks
    assert [each.kind for each in blocks[0].instructions] == ["free", "barrier", "add", "branch"]


def test_registers_have_one_number_in_the_whole_kernel() -> None:
    (block,) = kernel("mov.u32 %r1, %tid.x;\nadd.s32 %r2, %r1, %r1;\nadd.s32 %r3, %r2, 1;").timed.blocks
    first, second, third, _ = block.instructions
    assert second.reads == first.writes * 2
    assert third.reads == second.writes
