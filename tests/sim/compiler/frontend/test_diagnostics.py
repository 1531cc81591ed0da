"""Compile errors: the right line and column, the learner's own text, and what to try."""

from __future__ import annotations

import pickle
import textwrap
import time

import pytest

from cudalab.sim.compiler import CompileError, compile
from cudalab.sim.compiler.frontend.compile_error import compile_error
from cudalab.sim.compiler.frontend.diagnostics import Diagnostic, parse_log


def _fail(source: str, **arguments: object) -> CompileError:
    with pytest.raises(CompileError) as caught:
        compile(source, **arguments)  # type: ignore[arg-type]
    return caught.value


def _marked(text: str) -> tuple[str, int, int]:
    """The source with its ``@`` taken out, and where that stood."""
    source = textwrap.dedent(text).lstrip("\n")
    before = source[: source.index("@")]
    return source.replace("@", "", 1), before.count("\n") + 1, len(before) - before.rfind("\n") - 1 + 1


PLACES = {
    "first line": '@undefined_type x; extern "C" __global__ void k(int *x) {}',
    "in a kernel": """
        extern "C" __global__ void k(int *x)
        {
            int i = threadIdx.x;

            x[i] = @missing;
        }
        """,
    "in a device function": """
        __device__ float square(float v)
        {
            return v * @w;
        }
        extern "C" __global__ void k(float *x) { x[0] = square(x[1]); }
        """,
    "in a struct's member": """
        struct Pair {
            float a;
            __device__ float twice() const { return 2 * @b; }
        };
        extern "C" __global__ void k(Pair p, float *x) { x[0] = p.twice(); }
        """,
    "in a loop, behind tabs": 'extern "C" __global__ void k(int *x) {\n\tfor (;;)\n\t\tx[0]\t=\t@n;\n}',
    "behind other alphabets": 'extern "C" __global__ void k(int *x) {\n  /* 中文 é */ x[0] = @n;\n}\n',
    "after a continued line": '#define A(a) \\\n  ((a) + 1)\nextern "C" __global__ void k(int *x) {\n  x[0] = @n;\n}',
    "Windows line ends": 'extern "C" __global__ void k(int *x) {\r\n  x[0] = @n;\r\n}\r\n',
    "semicolon": 'extern "C" __global__ void k(int *x) {\n  int a = 1\n  @x[0] = a;\n}\n',
    "misspelt built-in": 'extern "C" __global__ void k(int *x) {\n  @_syncthreads();\n}\n',
    "write to const": 'extern "C" __global__ void k(const int *x) {\n  @x[0] = 1;\n}\n',
}


@pytest.mark.parametrize("case", PLACES)
def test_exact_place(case: str) -> None:
    source, line, column = _marked(PLACES[case])
    error = _fail(source)
    first = error.diagnostics[0]
    assert (first.file, first.line, first.column, first.severity) == ("kernel.cu", line, column, "error")
    quoted = source.split("\n")[line - 1].rstrip()
    lines = str(error).splitlines()
    assert lines[1] == f"{line:>5} | {quoted}"
    caret = lines[2].partition("| ")[2]
    assert len(caret) == column and caret.endswith("^")


def test_template_tells_who_instantiated_it() -> None:
    source, line, column = _marked("""
        template <typename T> __device__ T get(T v)
        {
            return @v.nope;
        }
        template <typename T> __global__ void k(T *x)
        {
            x[0] = get(x[1]);
        }
        """)
    error = _fail(source, name_expressions=["k<float>"])
    (first,) = error.diagnostics
    assert (first.line, first.column) == (line, column)
    assert first.trail[0] == 'instantiation of "T get(T) [with T=float]" at line 7'
    assert "with T=float" in str(error)


def test_name_of_the_source() -> None:
    assert str(_fail("int x y;", name="my cell.cu")).startswith('my cell.cu:1:7: error: expected a ";"')


def test_several_errors() -> None:
    error = _fail('extern "C" __global__ void k(int *x) {\n  int unused;\n  x[0] = a;\n  x[1] = b;\n}\n')
    assert [entry.line for entry in error.diagnostics if entry.severity == "error"] == [3, 4]
    assert "kernel.cu:3" in str(error) and "kernel.cu:4" in str(error)


def test_long_lists_are_cut() -> None:
    source = 'extern "C" __global__ void k(int *x) {\n' + "".join(f"  x[0] = name{i};\n" for i in range(20)) + "}\n"
    text = str(_fail(source))
    assert "and 15 more errors" in text
    assert len(text.splitlines()) < 20


def test_long_lines_are_cut_around_the_column() -> None:
    text = str(_fail('extern "C" __global__ void k(int *x) { /*' + "a" * 5_000 + "*/ x[0] = missing; }"))
    lines = text.splitlines()
    assert all(len(line) < 250 for line in lines)
    assert lines[1][lines[2].index("^") :].startswith("missing")


HINTS = {
    'extern "C" __global__ void k(int *x) {\n  int a = 1\n  x[0] = a;\n}\n': "put a ; at the end of line 2",
    'extern "C" __global__ void k(int *x) {\n  int a = 1\n  if (a) x[0] = a;\n}\n': "put a ; at the end of line 2",
    'extern "C" __global__ void k(int *x) {\n  __syncthread();\n}\n': "did you mean __syncthreads?",
    'extern "C" __global__ void k(int *x, int count) {\n  x[0] = cuont;\n}\n': "did you mean count?",
    'extern "C" __global__ void k(int *x, int n) {\n  for (; n > 0; n -= threads) {}\n}\n': "declare it: int threads",
    'extern "C" __global__ void k(int *x) {\n  x[0] = N;\n}\n': "Python's names do not reach it",
    "#include <iostream>\nint x;": "for the host",
    "#include <cublas_v2.h>\nint x;": "a @ b",
    "#include <thrust/complex.h>\nint x;": "<thrust/complex.h> in line 1 is host code of Thrust",
    "__global__ void k(int *x) {\n  int32_t a = 1;\n}": "#include <stdint.h>",
    "__global__ void k(uint32_t *x) {}": "#include <stdint.h>",
    "__global__ void k(float *x) {\n  x[0] = INFINITY;\n}": "#include <math.h>",
    "__global__ void k(float *x) {\n  x[0] = 2 * M_PI;\n}": "#include <math.h>; M_PI is a double",
    "__global__ void k(float *x) {\n  x[0] = FLT_MAX;\n}": "#include <float.h>",
    "__global__ void k(int *x) {\n  x[0] = INT_MAX;\n}": "#include <limits.h>",
    "__global__ void k(uint *x) {}": "write unsigned int",
    "__global__ void k(bool *x) {\n  x[0] = True;\n}": "write true",
    "__global__ void k(int *x) {\n  x[0] = __shfl_down(x[1], 1);\n}": "__shfl_down_sync(mask",
    "__global__ void k(int *x) {\n  x[0] = __ballot(1);\n}": "__ballot_sync(mask, predicate)",
    "__global__ void k(float *x) {\n  x[0] = x[1]**2;\n}": "x * x * x, or powf(x, y) for floats",
    "__global__ void k(float *x) {\n  x[0] = x[1]^2;\n}": "exclusive or of bits: for a power write x * x",
    "__global__ void k(float *x) {\n  x[0] = x[1] % 2;\n}": "fmodf(x, y)",
    "__global__ void k(float *x) {\n  x[0] = x[1] & 2;\n}": "operations on bits are for integers",
    "__global__ void k(float *a) {\n  a[1][2] = 0;\n}": "a[row * width + column]",
    "__global__ void k(int n) {\n  n[0] = 1;\n}": "only a pointer or an array takes an index",
    "__global__ void k(int *x) {\n  x[0] = 1 if x[1] else 2;\n}": "condition ? a : b",
    "__global__ void k(int *x, int n) {\n  int h = n // 2;\n  x[0] = h;\n}": "integers divide with a single /",
    "__global__ void k(int *x, int n) {\n  for i in range(n): x[i] = 0;\n}": "for (int i = 0; i < n; ++i)",
    "__global__ void k(float3 *x) {\n  x[0] = x[1] + x[2];\n}": "a.x + b.x",
    "__global__ void k(float *x, float3 v) {\n  x[0] = v[1];\n}": "components of a vector type by name",
    "__global__ void k(float *x) {\n  atomicMax(x, 1.0f);\n}": "loop with atomicCAS",
    "__global__ void k(float *x) {\n  x[0] = max(x[1], 0);\n}": "max(x, 0.0f)",
    "__global__ void k(float *x) {\n  x[0] = std::sqrt(x[1]);\n}": "#include <cmath>, or leave std:: out",
    "__global__ void k(float *x) {\n  x[0] = std::max(x[1], x[2]);\n}": "max(a, b) is there without it",
    "__global__ void k(std::vector<int> x) {}": "pass a pointer and a length",
    "#include <stdlib.h>\nint main() {\n  int *x;\n  cudaMalloc(&x, 4);\n}": "leave main() out: Python is the host",
    '#include "mine.h"\nint x;': "-I/my/headers",
    "#include <cupy/complex.cuh>\nint x;": "include <cuda/std/complex>",
    'extern "C" __global__ void k(int *x) {\n  std::cout << x[0];\n}\n': "print with printf",
    'extern "C" __global__ void k(int *x) {\n  x[0] = rand();\n}\n': "rand runs on the host only",
    'extern "C" __global__ void k(__half *x) {}\n': "#include <cuda_fp16.h>",
    "__host__ int f() { return 1; }\n__global__ void k(int *x) { x[0] = f(); }": "__device__ instead of __host__",
    'extern "C" __global__ int k(int *x) { return 1; }': "make it void",
    '__global__ void a() {}\nextern "C" __global__ void k() { a<<<1, 1>>>(); }': "launch kernels from Python",
    "#include <cub/cub.cuh>\n__global__ void k(int *x) {}": "Include what a block or a warp calls",
    "__global__ void k(int *x) { using Sum = cub::BlockReduce<int, 32>; }": "#include <cub/block/block_reduce.cuh>",
    "__global__ void k(int *x) {\n  auto f = [] __device__ (int a) { return a; };\n}": "device code by itself",
    "namespace cg = cooperative_groups;\n__global__ void k(int *x) {}": "#include <cooperative_groups.h>",
    "__global__ void k(int *x) { mine::f(); }": "#include the header that declares it",
    "__global void k(int *x) {}": "misspelt __global__",
    'extern "C" __global__ void k(int *x) {\n  if (x) {\n    x[0] = 1;\n}\n': "each { needs its }",
    'extern "C" __global__ void k(int *x, int n) {\n  int a[n];\n  x[0] = a[0];\n}\n': "known when compiling",
    "__device__ int f(int);\n__global__ void k(int *x) { x[0] = f(1); }": "a declaration alone is not enough",
    "template <int N> struct F { static const int v = F<N + 1>::v; };\nint x = F<0>::v;": "ends the recursion",
}


def test_template_without_arguments() -> None:
    error = _fail("template <class T> __global__ void k(T *x) {}", name_expressions=("k",))
    assert "name the instance and its arguments: k<float>" in "\n".join(error.__notes__)


@pytest.mark.parametrize("source", HINTS)
def test_hint(source: str) -> None:
    error = _fail(source)
    assert HINTS[source] in "\n".join(error.__notes__)
    assert HINTS[source] not in str(error)


def test_a_vote_without_sync_is_found_at_its_line() -> None:
    error = _fail('// __ballot\nextern "C" __global__ void k(int *x) {\n  x[0] = 1;\n  x[1] = __any (x[0]);\n}\n')
    assert [entry.line for entry in error.diagnostics if entry.severity == "error"] == [4]


OPTIONS = {
    "-O3": "NVRTC always optimises; -O3 is nvcc's",
    "-lcurand": "nvcc's host compiler or linker",
    "-Wall": "nvcc's host compiler or linker",
    "-O3 -DN=4": "options=('-O3', '-DN=4')",
    "-arch=native": "compiled for the device's own architecture",
    "--fastmath": "look for a misspelling",
}


@pytest.mark.parametrize("option", OPTIONS)
def test_hint_for_an_option(option: str) -> None:
    assert OPTIONS[option] in "\n".join(_fail("int x;", options=(option,)).__notes__)


def test_kernel_that_launches_kernels() -> None:
    source = '__global__ void child(int *x) {}\nextern "C" __global__ void k(int *x) {\n  child<<<1, 1>>>(x);\n}\n'
    error = _fail(source, options=("-rdc=true",))
    assert str(error).startswith("kernel.cu:3: error: the simulated device does not execute `<<<…>>>`")
    assert "launch from Python" in str(error)


def test_too_much_static_shared_memory() -> None:
    source = '__device__ int n;\nextern "C" __global__ void big(int *x) {\n  __shared__ int a[20000];\n' + (
        "  a[threadIdx.x] = x[0];\n  __syncthreads();\n  x[0] = a[3];\n}\n"
    )
    error = _fail(source)
    (first,) = [entry for entry in error.diagnostics if entry.severity == "error"]
    assert (first.file, first.line) == ("kernel.cu", 2)
    assert "too much shared data" in first.text
    assert "80,000 bytes" in error.__notes__[0] and "49,152" in error.__notes__[0]


def test_instruction_outside_the_scope_names_the_learners_line() -> None:
    error = _fail("""#include <mma.h>
using namespace nvcuda;
extern "C" __global__ void k(half *a)
{
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> f;
    wmma::load_matrix_sync(f, a, 16);
    a[0] = f.x[0];
}
""")
    (first,) = error.diagnostics
    assert (first.file, first.line, first.severity) == ("kernel.cu", 6, "error")
    assert "wmma.load" in first.text
    assert "    6 |     wmma::load_matrix_sync(f, a, 16);" in str(error)


def test_unknown_option() -> None:
    error = _fail("int x;", options=("--no-such-thing",))
    assert "--no-such-thing" in str(error)
    assert error.options == ("--no-such-thing",)


def test_mistake_in_the_options() -> None:
    assert "has no value" in str(_fail("int x;", options=("-I",)))


def test_name_expression_of_nothing() -> None:
    error = _fail("template <typename T> __global__ void k(T *x) {}", name_expressions=["kk<float>"])
    assert "kk" in str(error)
    assert "name expression must name a kernel" in "\n".join(error.__notes__)


def test_name_expressions_do_not_add_to_errors_of_the_source() -> None:
    error = _fail("template <typename T> __global__ void k(T *x) { x[0] = y; }", name_expressions=["k<float>"])
    assert {entry.file for entry in error.diagnostics} == {"kernel.cu"}


def test_error_carries_what_cupy_needs() -> None:
    error = _fail("int x y;", options=("-DN=3",), name="cell.cu")
    assert (error.source, error.name, error.options, error.limit) == ("int x y;", "cell.cu", ("-DN=3",), "")
    assert 'cell.cu(1): error: expected a ";"' in error.log


def test_error_survives_pickling() -> None:
    error = _fail('extern "C" __global__ void k() {\n  __syncthread();\n}\n')
    copy = pickle.loads(pickle.dumps(error))
    assert str(copy) == str(error)
    assert (copy.log, copy.diagnostics, copy.__notes__) == (error.log, error.diagnostics, error.__notes__)


def test_the_quoted_text_is_the_learners_never_a_files() -> None:
    error = _fail('#line 1 "/etc/passwd"\nint x y;\n')
    assert error.diagnostics[0].file == "/etc/passwd"
    assert "root:" not in str(error)


def test_many_names_and_errors_take_no_time() -> None:
    source = "".join(f"__device__ int some_long_name_{i};\n" for i in range(20_000))
    log = "".join(f'kernel.cu({i + 1}): error: identifier "some_lang_name_x{i}" is undefined\n\n' for i in range(100))
    start = time.process_time()
    error = compile_error(log, source, "kernel.cu")
    assert len(error.diagnostics) == 100
    assert time.process_time() - start < 2.0


def test_parse_log_without_a_compiler() -> None:
    log = (
        'kernel.cu(3): warning #177-D: variable "i" was declared but never referenced\n      int i;\n          ^\n\n'
        'Remark: The warnings can be suppressed with "-diag-suppress <warning-number>"\n\n'
        "ptxas warning : something odd\nptxas info    : Used 4 registers\n"
        'At end of source: error: expected a "}"\n1 error detected in the compilation of "kernel.cu".\n'
    )
    assert parse_log(log, "a\nb\n    int i;\nlast\n\n", "kernel.cu") == (
        Diagnostic("kernel.cu", 3, 9, "warning", 'variable "i" was declared but never referenced', number="177-D"),
        Diagnostic("kernel.cu", 0, 0, "warning", "ptxas: something odd"),
        Diagnostic("kernel.cu", 4, 0, "error", 'expected a "}" at the end of the source'),
    )


def test_unreadable_log_is_shown_as_it_is() -> None:
    assert str(compile_error("the compiler is on fire", "", "kernel.cu")) == "the compiler is on fire"
    assert "said nothing" in str(compile_error("", "", "kernel.cu"))
