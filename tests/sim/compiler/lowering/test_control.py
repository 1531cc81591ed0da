"""Branches, exits, traps, calls and what does nothing: every row of the control family."""

from __future__ import annotations

import numpy as np
import pytest

from cudalab.sim.abi import FaultKind
from cudalab.sim.compiler.lowering import TABLE
from cudalab.sim.compiler.ptx import UnsupportedInstruction
from tests.sim.compiler.kernel_runner import HEADER, Compiled, cuda

_ENTRY = """
.visible .entry k(.param .u64 k_out, .param .u64 k_address)
{{
.reg .b64 %out, %at, %address;
.reg .b32 %t, %d;
.reg .pred %p, %q;
.shared .align 8 .b8 here[8];
.local .align 8 .b8 mine[8];
ld.param.u64 %out, [k_out];
ld.param.u64 %address, [k_address];
cvta.to.global.u64 %out, %out;
mov.u32 %t, %tid.x;
mul.wide.u32 %at, %t, 4;
add.s64 %out, %out, %at;
mov.u32 %d, 0;
setp.lt.u32 %p, %t, 3;
{body}
done:
st.global.u32 [%out], %d;
ret;
}}
"""


def _run(body: str, before: str = "", address: int = 0, variant: str = "plain"):  # type: ignore[no-untyped-def]
    out = np.full(8, 77, np.uint32)
    module = Compiled(HEADER + before + _ENTRY.format(body=body))
    outcome = module.run("k", 1, 8, out, address, variant=variant)
    return out.tolist(), outcome


VARIANTS = ["plain", "traced"]


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("opcode", ["bra", "bra.uni"])
def test_branch(opcode: str, variant: str) -> None:
    out, _ = _run(f"mov.u32 %d, 1;\n{opcode} done;\nmov.u32 %d, 2;", variant=variant)
    assert out == [1] * 8
    out, _ = _run(f"@%p {opcode} done;\nmov.u32 %d, 2;", variant=variant)
    assert out == [0] * 3 + [2] * 5
    out, _ = _run(f"@!%p {opcode} done;\nmov.u32 %d, 2;", variant=variant)
    assert out == [2] * 3 + [0] * 5


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("opcode", ["brx.idx", "brx.idx.uni"])
def test_indexed_branch(opcode: str, variant: str) -> None:
    body = f"""
    targets: .branchtargets one, two, one, three;
    and.b32 %d, %t, 3;
    {opcode} %d, targets;
    one: mov.u32 %d, 10;
    bra done;
    two: mov.u32 %d, 20;
    bra done;
    three: mov.u32 %d, 30;
    """
    assert _run(body, variant=variant)[0] == [10, 20, 10, 30] * 2


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("opcode", ["ret", "ret.uni", "exit"])
def test_leaving_the_kernel(opcode: str, variant: str) -> None:
    assert _run(f"@%p {opcode};\nmov.u32 %d, 5;", variant=variant)[0] == [77] * 3 + [5] * 5


@pytest.mark.parametrize("opcode", ["trap", "brkpt"])
def test_trap_ends_the_launch(opcode: str) -> None:
    out, outcome = _run(f"@!%p {opcode};\nmov.u32 %d, 5;")
    assert outcome.fault.kind is FaultKind.TRAP
    assert outcome.fault.finding.thread == (3, 0, 0)
    assert out == [5] * 3 + [77] * 5


@pytest.mark.parametrize("opcode", ["nanosleep.u32 100", "pmevent 3", "pmevent.mask 3"])
def test_what_does_nothing(opcode: str) -> None:
    assert _run(f"mov.u32 %d, 5;\n{opcode};")[0] == [5] * 8


_TWICE = """
.func (.param .b32 result) twice(.param .b32 value)
{
.reg .b32 %v;
ld.param.b32 %v, [value];
add.u32 %v, %v, %v;
st.param.b32 [result], %v;
ret;
}
"""


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("opcode", ["call", "call.uni"])
def test_call(opcode: str, variant: str) -> None:
    body = f"""{{
    .param .b32 given;
    .param .b32 taken;
    st.param.b32 [given], %t;
    {opcode} (taken), twice, (given);
    ld.param.b32 %d, [taken];
    }}"""
    assert _run(body, _TWICE, variant=variant)[0] == [2 * t for t in range(8)]


@pytest.mark.parametrize("space", ["global", "const", "shared", "shared::cta", "local"])
def test_which_space_an_address_is_in(space: str) -> None:
    for kind, make in (
        ("global", "mov.u64 %address, %out;"),
        ("shared", "mov.u64 %address, here;\ncvta.shared.u64 %address, %address;"),
        ("local", "mov.u64 %address, mine;\ncvta.local.u64 %address, %address;"),
    ):
        out, _ = _run(f"{make}\nisspacep.{space} %q, %address;\nselp.u32 %d, 1, 0, %q;")
        assert out == [int(space.split(":")[0] == kind)] * 8


def test_every_control_row_is_tried() -> None:
    tried = {"bra": 1, "brx": 1, "ret": 1, "exit": 1, "trap": 1, "brkpt": 1, "call": 1, "nanosleep": 1, "pmevent": 1}
    for name, count in {**tried, "isspacep": 1}.items():
        assert len(TABLE.rows[name]) == count, f"a row of {name} is new: add a test for it"


@pytest.mark.parametrize(
    "instruction, advice",
    [
        ("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%f}, {%f}, {%f}, {%f}", "tensor cores"),
        ("prefetch.tensormap [%at]", "tensor maps"),
        ("multimem.red.relaxed.sys.global.add.u32 [%at], %t", "several GPUs"),
        ("shfl.up.b32 %d, %t, 1, 0", "__shfl_sync"),
        ("cvt.rs.f16x2.f32 %d, %f, %f, %t", "later GPUs"),
        ("add.u128 %d, %t, %t", "outside the part"),
    ],
)
def test_out_of_scope_names_the_opcode_and_what_to_do(instruction: str, advice: str) -> None:
    registers = ".reg .f64 %f;\n.reg .b32 %r1, %r2, %r3, %r4;\n"
    with pytest.raises(UnsupportedInstruction, match=advice) as caught:
        _run(f"{registers}{instruction};")
    assert f"`{instruction.split()[0]}`" in str(caught.value)


def test_out_of_scope_names_the_source_line() -> None:
    source = """__global__ void k(int *x) {
        x[0] = 1;
        asm("movmatrix.sync.aligned.m8n8.trans.b16 %0, %0;" : "+r"(x[1]));
    }"""
    with pytest.raises(UnsupportedInstruction) as caught:
        cuda(source)
    assert caught.value.location.line == 3
    assert caught.value.opcode == "movmatrix.sync.aligned.m8n8.trans.b16"


def test_launching_from_a_kernel_is_out_of_scope() -> None:
    launch = """
    .extern .func (.param .b32 status) cudaLaunchDeviceV2(.param .b64 buffer, .param .b64 stream);
    """
    body = """{
    .param .b64 buffer; .param .b64 stream; .param .b32 status; .reg .b64 %zero; mov.u64 %zero, 0;
    st.param.b64 [buffer], %zero; st.param.b64 [stream], %zero;
    call (status), cudaLaunchDeviceV2, (buffer, stream);
    }"""
    with pytest.raises(UnsupportedInstruction, match="a kernel that launches kernels .* out of scope"):
        _run(body, launch)


def test_vectors_constants_and_parts_in_hand_written_ptx() -> None:
    body = """{
    .reg .v4 .b32 %v; .reg .b32 a, b;
    mov.b32 %v.x, (1 << 4) | 3; mov.b32 %v.y, -(2 + 3) * 2; mov.b32 %v.z, 7 > 3 ? 5 : 6; mov.b32 %v.w, ~0 & 0xF0;
    add.s32 a, %v.x, %v.y; add.s32 b, %v.z, %v.w; add.s32 %d, a, b;
    vadd.u32.u32.u32 %d, %d.b0, %v.w.b0;
    }"""
    assert _run(body.replace("%v.w.b0", "%v.w"))[0] == [19 - 10 + 5 + 240 + 240 & 0xFFFFFFFF] * 8


@pytest.mark.parametrize("variant", VARIANTS)
def test_result_of_a_call_is_kept_over_the_next_call(variant: str) -> None:
    """What a call returned is no parameter of the launch: it is not read again later, when another call has been."""
    module = cuda(
        """
        __device__ __noinline__ double square(double x) { return x * x; }
        __device__ __noinline__ const double *choose(const double *a, const double *b, int i) { return i % 3 ? a : b; }
        extern "C" __global__ void k(const double *a, const double *b, double *out) {
            int i = threadIdx.x;
            double first = square(a[i]);
            const double *which = choose(a, b, i);
            if (i > 2) {
                double second = square(b[i]);
                out[i] = first - second + which[i];
            }
        }
        """
    )
    a, b, out = np.arange(32.0), np.arange(32.0) / 4 + 1, np.zeros(32)
    module.run("k", 1, 32, a, b, out, variant=variant)
    i = np.arange(32)
    np.testing.assert_array_equal(out, np.where(i > 2, a * a - b * b + np.where(i % 3, a, b), 0))
