"""Kernels and parameter names, read from source text."""

from __future__ import annotations

import pytest

from cudalab.sim.compiler.frontend.declaration import blank, find_kernels, parameter_names

NAMES = {
    "__global__ void k(float *x, const float* __restrict__ y, int n)": ("x", "y", "n"),
    "__global__ void k(float *, const int, unsigned)": ("", "", ""),
    "__global__ void k(float x[], int (*rows)[4], void (*f)(int a, int b))": ("x", "rows", "f"),
    "__global__ void k(std::pair<int, float> p = {1, 2}, int n = f(1, 2))": ("p", "n"),
    "__global__ void k(/* a, b */ int n, // c, d\n int m)": ("n", "m"),
    "__global__ void __launch_bounds__(256, 2) k(int n)": ("n",),
    "__launch_bounds__(MAX(1, 2)) __global__ void k(int n)": ("n",),
    "__global__ __cluster_dims__(2, 1, 1) void k(const __grid_constant__ Big big)": ("big",),
    "template <typename T, int N = (3 > 2)> __global__ void k(T (&a)[N], T v)": ("a", "v"),
    "static __global__ void k(struct Node *head)": ("head",),
    "__global__ void k(void)": (),
    "__global__ void k()": (),
    "__global__ void k(unsigned long long int big, ns::Type, ns::Type t)": ("big", "", "t"),
}


@pytest.mark.parametrize("declaration", NAMES)
def test_parameter_names(declaration: str) -> None:
    expected = NAMES[declaration]
    assert parameter_names(declaration + " { }\n", "k", len(expected)) == expected


def test_definition_wins_over_declaration() -> None:
    assert parameter_names("__global__ void k(int, float);\n__global__ void k(int n, float v) {}", "k", 2) == ("n", "v")


def test_overload_with_the_right_count() -> None:
    source = "__global__ void k(int a) {}\n__global__ void k(int b, int c) {}"
    assert parameter_names(source, "k", 1) == ("a",)
    assert parameter_names(source, "k", 2) == ("b", "c")


def test_pack_names_its_elements() -> None:
    source = "template <typename... T> __global__ void k(int n, T... rest) {}"
    assert parameter_names(source, "k", 3) == ("n", "rest[0]", "rest[1]")


def test_unknown_kernel_has_nameless_parameters() -> None:
    assert parameter_names("KERNEL(k, int n) {}", "k", 2) == ("", "")


def test_linkage_scope_and_line() -> None:
    source = """// __global__ void no(int n);
extern "C" __global__ void a(int n) {}
extern "C" {
__global__ void
  b(int n) { if (n) { } }
}
namespace outer { namespace inner {
__global__ void c(int n) {}
} }
const char *text = "extern \\"C\\" __global__ void no(int)";
template <int N> __global__ void d() {}
"""
    found = {kernel.name: kernel for kernel in find_kernels(source)}
    assert list(found) == ["a", "b", "c", "d"]
    assert [kernel.c_linkage for kernel in found.values()] == [True, True, False, False]
    assert [kernel.line for kernel in found.values()] == [2, 5, 8, 11]
    assert found["c"].scope == "outer::inner"
    assert found["d"].template


@pytest.mark.parametrize(
    "source",
    ["__global__", "__global__ void k(", "__global__ void k(int n", 'extern "C" {', "/* __global__", '"', 'R"x(', "'"],
)
def test_broken_source_is_no_error(source: str) -> None:
    assert find_kernels(source) == ()


def test_blank_keeps_every_position() -> None:
    source = 'int a; /* x\ny */ "s\\"t" // e\n#define X 1\nR"(\n)" 1\'000 b'
    text = blank(source)
    assert len(text) == len(source)
    assert [i for i, c in enumerate(text) if c == "\n"] == [i for i, c in enumerate(source) if c == "\n"]
    assert text.split() == ["int", "a;", "1_000", "b"]
