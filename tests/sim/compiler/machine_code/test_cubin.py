"""Machine code: which instructions stand in a cubin, and of which PTX they were made."""

from __future__ import annotations

import pytest

from cudalab.sim.compiler import compile, compile_ptx
from cudalab.sim.compiler.machine_code.assembly import assembly
from cudalab.sim.compiler.machine_code.cubin import CubinError, read_cubin
from cudalab.sim.compiler.machine_code.instruction_set import Pipe
from cudalab.sim.compiler.machine_code.listing import listing

CODE = """
template <class T> __device__ __noinline__ T twice(T x) { return x + x; }
template <class T> __global__ void wide(const T* x, T* y) { y[threadIdx.x] = twice(x[threadIdx.x]); }
extern "C" __global__ void copy(const float4* x, float4* y, const char* c, char* d) {
    __shared__ float s[128];
    y[threadIdx.x] = x[threadIdx.x];
    d[threadIdx.x] = c[threadIdx.x];
    s[threadIdx.x] = c[threadIdx.x + 1];
    __syncthreads();
    d[threadIdx.x + 128] = (char)s[127 - threadIdx.x];
}"""


@pytest.fixture(scope="module")
def program():
    return compile(CODE, name_expressions=["wide<double>"])


def test_loads_and_stores_with_their_widths(program):
    found = sorted(
        (i.name, i.width) for i in read_cubin(program.cubin, "copy").instructions if i.pipe is Pipe.LSU and i.width
    )
    assert found == sorted(
        [("LDG", 16), ("STG", 16), ("LDG", 1), ("STG", 1), ("LDG", 1), ("STS", 4), ("LDS", 4), ("STG", 1)]
    )


def test_each_names_the_ptx_that_it_was_made_of(program):
    code, lines = assembly(program, program.kernels["copy"]), program.ptx.split("\n")
    assert code.known
    for instruction in code.instructions:
        opcode = {"LDG": "ld.global", "STG": "st.global", "LDS": "ld.shared", "STS": "st.shared", "BAR": "bar"}
        if instruction.name in opcode:
            assert opcode[instruction.name] in lines[instruction.ptx_line - 1]


def test_functions_are_told_apart(program):
    name = program.lowered_names["wide<double>"]
    widths = [i.width for i in read_cubin(program.cubin, name).instructions if i.name in ("LDG", "STG")]
    assert widths == [8, 8]


def test_listing_has_each_instruction_once_with_its_block(program):
    kernel = program.kernels["copy"]
    found = listing(program, kernel)
    assert len({each.line for each in found}) == len(found)
    assert all(len(each.blocks) == 1 for each in found)
    shared = [each for each in found if each.opcode.startswith("ld.shared")]
    assert [each.location.line for each in shared] == [10]


def test_ptx_alone_has_no_machine_code(program):
    again = compile_ptx(program.ptx)
    found = assembly(again, again.kernels["copy"])
    assert not found.known and "gave no machine code" in found.missing


@pytest.mark.parametrize(
    ("damage", "match"),
    [
        (lambda data: b"no ELF at all" + data[13:], "no cubin"),
        (lambda data: data[:40], "cannot be read"),
        (lambda data: data[: len(data) // 2], "cannot be read"),
    ],
)
def test_damaged_machine_code_is_an_error_that_says_so(program, damage, match):
    with pytest.raises(CubinError, match=match):
        read_cubin(damage(program.cubin), "copy")


def test_an_unknown_function_is_named(program):
    with pytest.raises(CubinError, match="no function missing"):
        read_cubin(program.cubin, "missing")
