"""`cudalab.source`: PTX beside source lines."""

import pytest

import cudalab
from cudalab import cp

CODE = """
__device__ float twice(float x)
{
    return x * 2;
}
extern "C" __global__ void add(const float *a, float *b, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        b[i] = twice(a[i]);
}
"""


@pytest.fixture(scope="module")
def view():
    return cudalab.source(cp.RawKernel(CODE, "add"))


def line_of(text):
    return next(number for number, line in enumerate(CODE.split("\n"), start=1) if text in line)


def opcodes(view, text):
    return [instruction.split()[0] for instruction in view.instructions.get(line_of(text), ())]


def test_instructions_stand_at_their_lines(view):
    assert "ld.global.nc.f32" in opcodes(view, "b[i] = ") or "ld.global.f32" in opcodes(view, "b[i] = ")
    assert "st.global.f32" in opcodes(view, "b[i] = ")
    assert any(opcode.startswith("setp") for opcode in opcodes(view, "if (i < n)"))


def test_inlined_function_counts_at_its_own_line(view):
    assert any(opcode.startswith(("add", "mul")) for opcode in opcodes(view, "return x * 2"))


def test_every_instruction_of_the_kernel_is_shown(view):
    body = [line.strip() for line in view.ptx[view.ptx.index(".entry") :].split("\n")]
    count = sum(line.endswith(";") and not line.startswith(".") for line in body)
    assert sum(map(len, view.instructions.values())) == count
    assert 0 not in view.instructions


def test_resources_are_the_assemblers(view):
    assert 0 < view.registers < 64
    assert (view.shared, view.local, view.spills) == (0, 0, 0)
    assert f"{view.registers} registers" in view.summary and "nothing spilled" in view.summary
    assert "ptxas" in view.log


def test_shared_memory_is_counted():
    code = CODE.replace("int i =", "__shared__ float tile[256]; tile[threadIdx.x] = 1; int i =")
    assert cudalab.source(cp.RawKernel(code.replace("twice(a[i])", "tile[n % 256]"), "add")).shared == 1024


def test_template_instance_of_a_module():
    code = "template <class T> __global__ void f(T *a) { *a += 1; }"
    module = cp.RawModule(code=code, name_expressions=["f<double>"])
    view = cudalab.source(module.get_function("f<double>"))
    assert any("add.rn.f64" in line or "add.f64" in line for lines in view.instructions.values() for line in lines)


def test_text_and_html_hold_source_and_ptx(view):
    assert "b[i] = twice(a[i]);" in repr(view) and "st.global.f32" in repr(view)
    assert "if (i &lt; n)" in view._repr_html_() and "st.global.f32" in view._repr_html_()


def test_what_is_no_kernel_is_refused():
    with pytest.raises(TypeError, match="expected a kernel made from CUDA C.*got int"):
        cudalab.source(3)
