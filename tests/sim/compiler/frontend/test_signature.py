"""Exact parameter types of kernels, end to end: source in, ``Parameter`` objects out."""

from __future__ import annotations

import re

import pytest

from cudalab.sim.compiler import compile, compile_ptx
from cudalab.sim.compiler.frontend import signature
from cudalab.sim.compiler.program import Parameter

HEAD = """
#include <cuda_fp16.h>
#include <cuda_bf16.h>
struct Small { char tag; };
struct Pair { float a; int b[3]; };
struct alignas(16) Wide { double v[4]; };
namespace ns { struct Inner { short s; }; template <typename T> struct Box { T value; }; }
enum Color { RED }; enum class Tiny : unsigned char { A };
typedef float real; using index_type = unsigned long long;
"""
# declaration -> (name, ctype, kind, size, alignment, pointee)
TYPES: dict[str, tuple[str, str, str, int, int, str]] = {
    "float *x": ("x", "float*", "pointer", 8, 8, "float"),
    "const float *x": ("x", "float const*", "pointer", 8, 8, "float"),
    "const float *__restrict__ x": ("x", "float const*", "pointer", 8, 8, "float"),
    "float *const x": ("x", "float*", "pointer", 8, 8, "float"),
    "volatile int *x": ("x", "int volatile*", "pointer", 8, 8, "int"),
    "void *x": ("x", "void*", "pointer", 8, 8, "void"),
    "float **x": ("x", "float**", "pointer", 8, 8, "float*"),
    "int (*x)[4]": ("x", "int (*) [4]", "pointer", 8, 8, "int [4]"),
    "float x[]": ("x", "float*", "pointer", 8, 8, "float"),
    "double2 *x": ("x", "double2*", "pointer", 8, 8, "double2"),
    "const Pair *x": ("x", "Pair const*", "pointer", 8, 8, "Pair"),
    "__half *x": ("x", "__half*", "pointer", 8, 8, "__half"),
    "bool flag": ("flag", "bool", "bool", 1, 1, ""),
    "char c": ("c", "char", "integer", 1, 1, ""),
    "signed char c": ("c", "signed char", "integer", 1, 1, ""),
    "unsigned char c": ("c", "unsigned char", "integer", 1, 1, ""),
    "short n": ("n", "short", "integer", 2, 2, ""),
    "unsigned short n": ("n", "unsigned short", "integer", 2, 2, ""),
    "int n": ("n", "int", "integer", 4, 4, ""),
    "const int n": ("n", "int", "integer", 4, 4, ""),
    "unsigned n": ("n", "unsigned int", "integer", 4, 4, ""),
    "long n": ("n", "long", "integer", 8, 8, ""),
    "long long n": ("n", "long long", "integer", 8, 8, ""),
    "unsigned long long n": ("n", "unsigned long long", "integer", 8, 8, ""),
    "index_type n": ("n", "unsigned long long", "integer", 8, 8, ""),
    "float v": ("v", "float", "float", 4, 4, ""),
    "real v": ("v", "float", "float", 4, 4, ""),
    "double v": ("v", "double", "float", 8, 8, ""),
    "half v": ("v", "__half", "float", 2, 2, ""),
    "__nv_bfloat16 v": ("v", "__nv_bfloat16", "float", 2, 2, ""),
    "float4 v": ("v", "float4", "struct", 16, 16, ""),
    "double2 v": ("v", "double2", "struct", 16, 16, ""),
    "Pair p": ("p", "Pair", "struct", 16, 4, ""),
    "Small p": ("p", "Small", "struct", 1, 1, ""),
    "const __grid_constant__ Wide p": ("p", "Wide", "struct", 32, 16, ""),
    "ns::Inner p": ("p", "ns::Inner", "struct", 2, 2, ""),
    "ns::Box<double> p": ("p", "ns::Box<double>", "struct", 8, 8, ""),
    "Color c": ("c", "Color", "integer", 4, 4, ""),
    "Tiny t": ("t", "Tiny", "integer", 1, 1, ""),
    "int": ("", "int", "integer", 4, 4, ""),
}


def _row(parameter: Parameter) -> tuple[str, str, str, int, int, str]:
    p = parameter
    return p.name, p.ctype, p.kind, p.size, p.alignment, p.pointee


def _check_layout(parameters: tuple[Parameter, ...]) -> None:
    end = 0
    for index, parameter in enumerate(parameters):
        assert parameter.index == index
        assert parameter.offset == -(-end // parameter.alignment) * parameter.alignment
        end = parameter.offset + parameter.size


@pytest.mark.parametrize("linkage", ['extern "C" ', ""])
def test_every_type(linkage: str) -> None:
    """A kernel for each type, behind a parameter that leaves it misaligned; with and without a mangled name."""
    lines = [f"{linkage}__global__ void k{i}(char first, {text}) {{}}" for i, text in enumerate(TYPES)]
    kernels = list(compile(HEAD + "\n".join(lines)).kernels.values())
    kernels.sort(key=lambda kernel: int(re.search(r"k(\d+)", kernel.name)[1]))  # type: ignore[index]
    assert [_row(kernel.parameters[1]) for kernel in kernels] == list(TYPES.values())
    for kernel in kernels:
        _check_layout(kernel.parameters)


def test_template_kernels() -> None:
    source = HEAD + "template <typename T, int N> __global__ void k(T *out, const T v, ns::Box<T> box, int n) {}\n"
    program = compile(source, name_expressions=["k<float, 3>", "k<double2, 1>", "&k<unsigned char, 2>"])
    rows = {
        expression: [_row(parameter)[1:4] for parameter in program.kernels[symbol].parameters]
        for expression, symbol in program.lowered_names.items()
    }
    assert rows == {
        "k<float, 3>": [
            ("float*", "pointer", 8),
            ("float", "float", 4),
            ("ns::Box<float>", "struct", 4),
            ("int", "integer", 4),
        ],
        "k<double2, 1>": [
            ("double2*", "pointer", 8),
            ("double2", "struct", 16),
            ("ns::Box<double2>", "struct", 16),
            ("int", "integer", 4),
        ],
        "&k<unsigned char, 2>": [
            ("unsigned char*", "pointer", 8),
            ("unsigned char", "integer", 1),
            ("ns::Box<unsigned char>", "struct", 1),
            ("int", "integer", 4),
        ],
    }
    for kernel in program.kernels.values():
        assert [parameter.name for parameter in kernel.parameters] == ["out", "v", "box", "n"]
        _check_layout(kernel.parameters)


def test_variadic_template() -> None:
    source = "template <typename... T> __global__ void k(int *out, T... rest) { out[0] = sizeof...(rest); }"
    program = compile(source, name_expressions=["k<float, double>"])
    (kernel,) = program.kernels.values()
    assert [_row(parameter)[:2] for parameter in kernel.parameters] == [
        ("out", "int*"),
        ("rest[0]", "float"),
        ("rest[1]", "double"),
    ]


@pytest.mark.parametrize(
    "source",
    [
        'extern "C" __global__ void k(const float *x, int n) {}',
        'extern "C" __global__ void k(const float *x, int n) {} // the end \\',
        'extern "C" {\n__global__ void __launch_bounds__(64) k(const float *x, int n) {}\n}',
        'namespace a { extern "C" __global__ void k(const float *x, int n) {} }',
        '#define KERNEL extern "C" __global__ void\nKERNEL k(const float *x, int n) {}',
        '#define TYPE const float*\nextern "C" __global__ void k(TYPE x, int n) {}',
        '#if 0\nextern "C" __global__ void no() {}\n#endif\nextern "C" __global__ void k(const float *x, int n) {}',
        '__device__ int k(int);\nextern "C" __global__ void k(const float *x, int n) {}',
    ],
)
def test_c_linkage_however_written(source: str) -> None:
    program = compile(source)
    assert list(program.kernels) == ["k"]
    assert [parameter.ctype for parameter in program.kernels["k"].parameters] == ["float const*", "int"]


def test_declared_by_a_macro_has_types_but_no_names() -> None:
    source = '#define ARGS float *x, int n\nextern "C" __global__ void k(ARGS) {}'
    assert [_row(parameter)[:2] for parameter in compile(source).kernels["k"].parameters] == [
        ("", "float*"),
        ("", "int"),
    ]


def test_nothing_of_the_probe_remains() -> None:
    source = 'extern "C" __global__ void k(int *x) { x[0] = 1; }\n__global__ void plain(int *x) { x[1] = 2; }\n'
    program = compile(source)
    assert set(program.kernels) == {"k", "_Z5plainPi"}
    for text in (program.ptx, program.log, program.source, str(program.lowered_names)):
        assert signature.MARK not in text
    assert program.source == source


def test_errors_keep_their_lines() -> None:
    from cudalab.sim.compiler import CompileError

    with pytest.raises(CompileError) as caught:
        compile('extern "C" __global__ void k(int *x)\n{\n  x[0] = 1\n}')
    assert [(entry.file, entry.line) for entry in caught.value.diagnostics] == [("kernel.cu", 4)]
    assert signature.MARK not in caught.value.log


def test_ptx_alone() -> None:
    ptx = compile("__global__ void k(const float *x, int n) {}").ptx
    (kernel,) = compile_ptx(ptx).kernels.values()
    assert [_row(parameter)[:3] for parameter in kernel.parameters] == [
        ("", "float const*", "pointer"),
        ("", "int", "integer"),
    ]


LAYOUT = """.visible .entry k(
	.param .u64 .ptr .align 1 k_param_0,
	.param .u64 k_param_1,
	.param .u32 k_param_2,
	.param .f64 k_param_3,
	.param .align 8 .b8 k_param_4[24],
	.param .u8 k_param_5
)
{
	ret;
}
"""


def test_declaration_text_where_the_compiler_cannot_be_asked() -> None:
    source = 'extern "C" __global__ void k(const Thing *list, size_t n, unsigned m, double v, Thing one, bool flag) {}'
    parameters = signature.signatures(LAYOUT, source, {})["k"]
    assert [(p.name, p.ctype, p.kind, p.size, p.offset, p.pointee) for p in parameters] == [
        ("list", "Thing const*", "pointer", 8, 0, "Thing"),
        ("n", "unsigned long", "integer", 8, 8, ""),
        ("m", "unsigned int", "integer", 4, 16, ""),
        ("v", "double", "float", 8, 24, ""),
        ("one", "Thing", "struct", 24, 32, ""),
        ("flag", "bool", "bool", 1, 56, ""),
    ]


def test_ptx_without_any_names() -> None:
    assert [(p.ctype, p.kind) for p in signature.signatures(LAYOUT, "", {})["k"]] == [
        ("", "unknown"),
        ("", "unknown"),
        ("", "integer"),
        ("double", "float"),
        ("", "struct"),
        ("", "integer"),
    ]


def test_kernel_without_parameters() -> None:
    assert compile('extern "C" __global__ void k() {}').kernels["k"].parameters == ()
