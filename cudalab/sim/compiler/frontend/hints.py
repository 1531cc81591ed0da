"""Hints for common compile errors of beginners.

A table: a pattern of NVRTC's or ptxas's message, and a sentence. First match wins. A sentence may use
the groups of the match, and a function may look at the source line.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable
from pathlib import Path

from cudalab.sim.compiler.frontend.diagnostics import Diagnostic
from cudalab.sim.compiler.frontend.headers import include_directories, provider

Hint = str | Callable[[re.Match[str], Diagnostic, str], str]

# Names that are often misspelled.
_KNOWN = (
    "__global__ __device__ __shared__ __constant__ __syncthreads __syncwarp threadIdx blockIdx blockDim gridDim "
    "warpSize atomicAdd atomicSub atomicMin atomicMax atomicCAS atomicExch atomicAnd atomicOr atomicXor "
    "__shfl_sync __shfl_down_sync __shfl_up_sync __shfl_xor_sync __ballot_sync __any_sync __all_sync __activemask "
    "__ldg __popc __clz __ffs __threadfence __threadfence_block __launch_bounds__ printf assert sqrtf rsqrtf sqrt "
    "expf exp logf log powf pow sinf sin cosf cos tanf tan tanhf tanh fminf fmaxf min max fabsf fabs abs floorf "
    "floor ceilf ceil fmaf fma __restrict__ float double unsigned int2 int4 float2 float4 double2 size_t"
).split()
_HEADER_OF = {
    "__half": "cuda_fp16.h", "half": "cuda_fp16.h", "__float2half": "cuda_fp16.h", "__half2float": "cuda_fp16.h",
    "__half2": "cuda_fp16.h", "half2": "cuda_fp16.h", "__nv_bfloat16": "cuda_bf16.h",
    "cooperative_groups": "cooperative_groups.h", "cub": "cub/block/block_reduce.cuh> or another of <cub/…",
    "cuDoubleComplex": "cuComplex.h", "cuFloatComplex": "cuComplex.h", "curandState": "curand_kernel.h",
    "FLT_MAX": "cuda/std/limits", "INT_MAX": "cuda/std/climits", "M_PI": "math_constants.h, with CUDART_PI_F",
    "CUDART_INF_F": "math_constants.h", "CUDART_PI_F": "math_constants.h",
}  # fmt: skip
_HOST_ONLY = {
    "rand", "srand", "fopen", "fprintf", "scanf", "exit", "abort", "system", "getenv", "cudaMalloc",
    "cudaMemcpy", "cudaFree", "cudaDeviceSynchronize", "cudaMallocManaged", "cudaGetLastError",
}  # fmt: skip
_HOST_HEADERS = {
    "iostream", "vector", "string", "map", "algorithm", "fstream", "sstream", "memory", "thread", "random", "chrono",
    "stdlib.h", "cstdlib", "time.h", "ctime", "unistd.h", "functional", "numeric",
}  # fmt: skip
_WITHOUT_HEADER = {
    "stdio.h": "printf", "cstdio": "printf", "math.h": "the math functions", "cmath": "the math functions",
    "assert.h": "assert", "cassert": "assert", "cuda.h": "a plain kernel's names",
    "cuda_runtime.h": "a plain kernel's names", "device_launch_parameters.h": "threadIdx and its like",
}  # fmt: skip
_STANDARD = {
    "stdint.h": "cuda/std/cstdint", "cstdint": "cuda/std/cstdint", "limits": "cuda/std/limits",
    "climits": "cuda/std/climits", "type_traits": "cuda/std/type_traits", "complex": "cuda/std/complex",
    "array": "cuda/std/array", "tuple": "cuda/std/tuple", "utility": "cuda/std/utility", "atomic": "cuda/std/atomic",
    "stddef.h": "cuda/std/cstddef", "cstddef": "cuda/std/cstddef", "limits.h": "cuda/std/climits",
    "float.h": "cuda/std/cfloat", "cfloat": "cuda/std/cfloat",
}  # fmt: skip


def _undefined(match: re.Match[str], diagnostic: Diagnostic, source: str) -> str:
    name = match[1]
    if name in _HEADER_OF:
        return f"#include <{_HEADER_OF[name]}>."
    if name in _HOST_ONLY:
        return f"{name} runs on the host only; call it from Python, or do without it in the kernel."
    if name in ("cout", "cerr", "endl", "std"):
        return 'print with printf("…\\n", …); there are no streams on the device.'
    if diagnostic.file == "__nv_name_map":
        return "a name expression must name a kernel as C++ would: its namespace, and for a template its arguments."
    line = _line(source, diagnostic.line)
    if re.match(r"\s*template\b", line):
        return f"declare {name} in the template's parameter list."
    name = name[:64]
    close = difflib.get_close_matches(name, _KNOWN, n=1, cutoff=0.75)
    if close:
        return f"did you mean {close[0]}?"
    own = sorted(set(re.findall(r"\b[A-Za-z_]\w{,63}\b", source)) - {name})[:2000]
    close = difflib.get_close_matches(name, own, n=1, cutoff=0.8)
    if close:
        return f"did you mean {close[0]}? Otherwise declare {name} ahead of this line, or pass it as a parameter."
    return (
        f"declare {name} ahead of this line, or pass it to the kernel as a parameter; Python's names do not reach it."
    )


def _namespace(match: re.Match[str], diagnostic: Diagnostic, source: str) -> str:
    name = re.match(r"\w+", _line(source, diagnostic.line)[max(diagnostic.column - 1, 0) :])
    if name and name[0] in _HEADER_OF:
        return f"#include <{_HEADER_OF[name[0]]}>."
    return "#include the header that declares it."


def _host_function(match: re.Match[str], diagnostic: Diagnostic, source: str) -> str:
    if any(f"/{library}/" in (diagnostic.file or "") for library in ("cub", "thrust")):
        return (
            "NVRTC compiles no host code, and this header starts kernels from the host. Include what a block or a warp "
            "calls, such as <cub/block/block_reduce.cuh>; whole-array algorithms are CuPy's, as in x.sum() or "
            "cupy.sort(x)."
        )
    return "mark it __device__ instead of __host__: a kernel runs on the device and calls device functions."


def _semicolon(match: re.Match[str], diagnostic: Diagnostic, source: str) -> str:
    before = _line_before(source, diagnostic.line, diagnostic.column)
    return f"put a ; at the end of line {before}." if before else "put a ; at the end of the statement before."


def _missing_header(match: re.Match[str], diagnostic: Diagnostic, source: str) -> str:
    header = match[1]
    if header in _WITHOUT_HEADER:
        return f"leave the #include out: {_WITHOUT_HEADER[header]} need none in a kernel."
    if header in _STANDARD:
        return f"include <{_STANDARD[header]}>, the device's version (wheel nvidia-cuda-cccl)."
    if header in _HOST_HEADERS:
        return f"leave it out: <{header}> is for the host. A kernel has printf, the math functions and cuda/std/…"
    if header.startswith("cupy/"):
        return (
            "leave it out: the simulated device does not have CuPy's own headers. For complex numbers include "
            "<cuda/std/complex>, whose cuda::std::complex<float> lies in memory as complex64 does."
        )
    close = difflib.get_close_matches(header, _cuda_headers(), n=1, cutoff=0.8)
    if close:
        return f"did you mean <{close[0]}>?"
    package = provider(header)
    if package:
        wheel, conda = package
        return f"pip install {wheel}, or conda install -c conda-forge {conda}; then restart the notebook's kernel."
    return 'give its folder as an option, as in options=("-I/my/headers",), or paste its text into the source.'


def _cuda_headers() -> list[str]:
    """Names of the headers that CUDA brings and that are here."""
    folders = [Path(folder) for folder in include_directories()]
    return sorted({entry.name for folder in folders if folder.is_dir() for entry in folder.glob("*.h")})


def _shared(match: re.Match[str], diagnostic: Diagnostic, source: str) -> str:
    used, most = int(match[1], 16), int(match[2], 16)
    return (
        f"the kernel declares {used:,} bytes of __shared__ memory and at most {most:,} can be static. Use a smaller "
        "tile, or extern __shared__ memory whose size comes with the launch (above 48 KB only after an opt-in)."
    )


_TABLE: tuple[tuple[re.Pattern[str], Hint], ...] = tuple(
    (re.compile(pattern), hint)
    for pattern, hint in (
        (r'could not open source file "([^"]+)"', _missing_header),
        (r'cannot open source file "([^"]+)"', _missing_header),
        (r'expected a ";"', _semicolon),
        (r'expected a "\}"', "count the braces: each { needs its }."),
        (r'expected a "\)"', "count the brackets: each ( needs its )."),
        (r'namespace "std" has no member "(?:cout|cerr|endl)"', 'print with printf("…\\n", …).'),
        (r'namespace "std" has no member "(\w+)"', r"look for cuda::std::\1 in a header of cuda/std/."),
        (r'identifier "([^"]+)" is undefined', _undefined),
        (r"name must be a namespace name|name followed by \"::\" must be", _namespace),
        (r"uses too much shared data \((0x[0-9a-f]+) bytes, (0x[0-9a-f]+) max\)", _shared),
        (r"Unresolved extern function", "define the function in this source; a declaration alone is not enough."),
        (r"Unresolved extern variable", "define the variable in this source, without extern."),
        (r"explicitly marked as a __host__ function|calling a __host__ function", _host_function),
        (
            r"annotation on lambda requires",
            "leave it out: a lambda in a kernel is device code by itself.",
        ),
        (r"__global__ function must have a void return type", "make it void, and write results through a pointer."),
        (
            r"device-side kernel launch",
            "launch kernels from Python. To run the same code from a kernel, put it in a __device__ function.",
        ),
        (r"cannot be called from|call.*__global__ function.*configured", "put shared code in a __device__ function."),
        (
            r"has no storage class or type specifier",
            "look for a misspelt __global__, __device__ or type at this place, or a missing ; or } ahead of it.",
        ),
        (r"must be a modifiable lvalue", "it is const here; drop the const, or write to another place."),
        (r'expression must have class type but it has type ".*\*"', "use -> with a pointer, or [i] for an element."),
        (r"too few arguments in function call", "give every argument that its declaration asks for."),
        (r"too many arguments in function call", "leave out those that its declaration does not name."),
        (r"expression must have a constant value", "an array's size must be known when compiling: #define it, use "
         "a template parameter, or extern __shared__."),
        (r"excessive recursion at instantiation", "add a specialisation of the template that ends the recursion."),
        (r"includes itself", "leave that #include out."),
        (
            r'cannot determine which instance of function template "([^"]+)"',
            r"\1 is a template: name the instance and its arguments: \1<float> (in %%cuda: --instance '\1<float>').",
        ),
        (r"more than one instance of overloaded function", "cast the argument to the type you mean."),
        (r"has already been (?:defined|declared)", "give one of the two another name."),
        (r"may not be initialized|dynamic initialization is not supported|initializer.*__shared__",
         "assign it in the kernel: shared memory starts undefined."),
        (r"unrecognized option", "look for a misspelling; NVRTC's guide lists its options."),
        (r"asm operand|Parsing error near|Not a name of any known instruction",
         "look the instruction up in the PTX ISA."),
        (r"this feature is not supported|exceptions? .*not", "there are no exceptions on the device."),
    )
)  # fmt: skip


def hint(diagnostic: Diagnostic, source: str, following: str = "") -> str:
    """A sentence on what to try with an error, or ``""``. ``following`` is the text of the message behind it, which
    may say more."""
    if "excessive constexpr" in following:
        return "the compiler gives up on so long a computation; do it on the host, or in the kernel."
    for pattern, sentence in _TABLE:
        match = pattern.search(diagnostic.text)
        if match:
            return match.expand(sentence) if isinstance(sentence, str) else sentence(match, diagnostic, source)
    return ""


def _line(source: str, number: int) -> str:
    lines = source.splitlines()
    return lines[number - 1] if 0 < number <= len(lines) else ""


def _line_before(source: str, line: int, column: int) -> int:
    """The line on which the statement ahead of (line, column) ends: a missing ; is noticed at what follows."""
    from cudalab.sim.compiler.frontend.declaration import blank

    lines = blank(source, keep_strings=True).splitlines()
    if not 0 < line <= len(lines):
        return 0
    if lines[line - 1][: max(column - 1, 0)].strip():
        return line
    return next((number for number in range(line - 1, 0, -1) if lines[number - 1].strip()), line)
