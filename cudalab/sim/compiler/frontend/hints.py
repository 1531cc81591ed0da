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
from cudalab.sim.compiler.frontend.headers import STANDARD_HEADERS, include_directories, provider
from cudalab.sim.compiler.frontend.includes import find_includes

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
    "cuDoubleComplex": "cuComplex.h", "cuFloatComplex": "cuComplex.h",
    "CUDART_INF_F": "math_constants.h", "CUDART_PI_F": "math_constants.h",
}  # fmt: skip
_HEADER_OF_PATTERN = (
    (re.compile(r"u?int(?:(?:_fast|_least)?\d+|ptr|max)_t|U?INT\d+_(?:MIN|MAX)|SIZE_MAX"), "stdint.h"),
    (re.compile(r"INFINITY|NAN|HUGE_VALF?"), "math.h"),
    (re.compile(r"(?:FLT|DBL)_[A-Z]\w*"), "float.h"),
    (re.compile(r"CHAR_BIT|(?:U?INT|U?LONG|U?LLONG|U?SHRT|[SU]?CHAR)_M(?:AX|IN)"), "limits.h"),
    (re.compile(r"curand\w*"), "curand_kernel.h"),
)
_OTHER_WORD = {
    "uint": "unsigned int", "ulong": "unsigned long", "ushort": "unsigned short", "uchar": "unsigned char",
    "True": "true", "False": "false", "None": "nullptr",
}  # fmt: skip
_OWN = {
    "threads": "int threads = gridDim.x * blockDim.x; counts those of the whole grid.",
    "thread": "int thread = blockIdx.x * blockDim.x + threadIdx.x; counts through the whole grid.",
}
"""Names that learners give to what no variable of CUDA's holds, though one of these has a name like it."""
_HOST_ONLY = {
    "rand", "srand", "fopen", "fprintf", "scanf", "exit", "abort", "system", "getenv", "time", "puts", "stdout",
    "stderr", "cudaMalloc", "cudaMemcpy", "cudaFree", "cudaDeviceSynchronize", "cudaMallocManaged", "cudaGetLastError",
}  # fmt: skip
_HOST_HEADERS = {
    "iostream", "vector", "string", "map", "algorithm", "fstream", "sstream", "memory", "thread", "random", "chrono",
    "unistd.h", "functional", "numeric",
}  # fmt: skip
_STANDARD = ("limits", "type_traits", "complex", "array", "tuple", "utility", "atomic")
_LIBRARIES = {
    "cublas": "Products of whole arrays are CuPy's: a @ b.", "cufft": "Transforms of whole arrays are in cp.fft.",
    "cusolver": "Linear algebra on whole arrays is in cp.linalg.", "cuda_profiler": "See cupyx.profiler.profile().",
    "nvtx": "Name parts of the host's code with cupyx.profiler.time_range(…).",
    "helper_": "It belongs to CUDA's samples, and checks calls that Python makes here.",
}  # fmt: skip
_CONTAINERS = {"vector", "string", "map", "unordered_map", "set", "list", "deque"}
_MAIN = (
    "leave main() out: Python is the host here. cp.asarray(a) takes the place of cudaMalloc and cudaMemcpy, "
    "kernel((blocks,), (threads,), (x, n)) that of kernel<<<blocks, threads>>>(x, n), and cp.asnumpy(x) brings the "
    "result back."
)


def _undefined(match: re.Match[str], diagnostic: Diagnostic, source: str) -> str:
    name = match[1]
    header = _header_of(name)
    if header:
        return f"#include <{header}>."
    if re.fullmatch(r"M_\w+", name):
        return f"#include <math.h>; {name} is a double, and (float){name} keeps a computation in float."
    if name in _CONTAINERS:
        return f"{name} is for the host: pass a pointer and a length to the kernel."
    if name in _OTHER_WORD:
        return f"write {_OTHER_WORD[name]}, as C++ has it."
    if name in _HOST_ONLY:
        if _has_main(source):
            return _MAIN
        return f"{name} runs on the host only; call it from Python, or do without it in the kernel."
    if name in ("cout", "cerr", "endl", "std"):
        return 'print with printf("…\\n", …); there are no streams on the device.'
    if diagnostic.file == "__nv_name_map":
        return "a name expression must name a kernel as C++ would: its namespace, and for a template its arguments."
    line = _line(source, diagnostic.line)
    if re.match(r"\s*template\b", line):
        return f"declare {name} in the template's parameter list."
    name = name[:64]
    if re.fullmatch(r"__shfl(_up|_down|_xor)?", name):
        return (
            f"{name} is gone since compute capability 7.0: write {name}_sync(mask, …); the mask names the lanes that "
            "take part, 0xffffffff for a whole warp."
        )
    close = difflib.get_close_matches(name, _KNOWN, n=1, cutoff=0.75)
    if name in _OWN:
        return f"declare it: {_OWN[name]}"
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
    header = _header_of(name[0]) if name else ""
    return f"#include <{header}>." if header else "#include the header that declares it."


def _header_of(name: str) -> str:
    """The header that declares a name, of CUDA's and C's; ``""`` when it is none of theirs."""
    return _HEADER_OF.get(name) or next((header for names, header in _HEADER_OF_PATTERN if names.fullmatch(name)), "")


def _has_main(source: str) -> bool:
    return re.search(r"\bmain\s*\(", source) is not None


def _in_std(match: re.Match[str], diagnostic: Diagnostic, source: str) -> str:
    name = match[1]
    if name in ("cout", "cerr", "endl"):
        return 'print with printf("…\\n", …).'
    if name in ("min", "max"):
        return f"leave std:: out: {name}(a, b) is there without it."
    if name in _CONTAINERS:
        return f"std::{name} is for the host: pass a pointer and a length to the kernel."
    for header in sorted(STANDARD_HEADERS.iterdir()):
        if re.search(rf"\busing ::{name};", header.read_text(encoding="utf-8")):
            return f"#include <{header.name}>, or leave std:: out."
    return f"look for cuda::std::{name} in a header of cuda/std/."


def _launch(match: re.Match[str], diagnostic: Diagnostic, source: str) -> str:
    if _has_main(source):
        return _MAIN
    return "launch kernels from Python. To run the same code from a kernel, put it in a __device__ function."


def _host_function(match: re.Match[str], diagnostic: Diagnostic, source: str) -> str:
    if any(f"/{library}/" in (diagnostic.file or "") for library in ("cub", "thrust")):
        return (
            "NVRTC compiles no host code, and this header starts kernels from the host. Include what a block or a warp "
            "calls, such as <cub/block/block_reduce.cuh>; whole-array algorithms are CuPy's, as in x.sum() or "
            "cupy.sort(x)."
        )
    return "mark it __device__ instead of __host__: a kernel runs on the device and calls device functions."


def _semicolon(match: re.Match[str], diagnostic: Diagnostic, source: str) -> str:
    line, place = _line(source, diagnostic.line), max(diagnostic.column - 1, 0)
    if re.match(r"if\b", line[place:]) and line[:place].strip():
        return "in C++ a choice between two values is written condition ? a : b."
    before = _line_before(source, diagnostic.line, diagnostic.column)
    if re.search(r"[\w)\]]\s*//[^;]*;", _line(source, before)):
        return f"// begins a comment in line {before}; integers divide with a single /."
    return f"put a ; at the end of line {before}." if before else "put a ; at the end of the statement before."


def _missing_header(match: re.Match[str], diagnostic: Diagnostic, source: str) -> str:
    header = match[1]
    if "/thrust/" in (diagnostic.file or "") or header.startswith("thrust/"):
        return _thrust(source)
    if header in _STANDARD:
        return f"include <cuda/std/{header}>, the device's version (wheel nvidia-cuda-cccl)."
    if header in _HOST_HEADERS:
        return f"leave it out: <{header}> is for the host. A kernel has printf, the math functions and cuda/std/…"
    library = next((text for start, text in _LIBRARIES.items() if header.startswith(start)), "")
    if library:
        return f"leave it out: <{header}> is for the host. {library}"
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


def _thrust(source: str) -> str:
    include = next((entry for entry in find_includes(source) if entry.target.startswith("thrust/")), None)
    which = f"<{include.target}> in line {include.line} is" if include else "that header is"
    return (
        f"leave it out: {which} host code of Thrust, and NVRTC compiles none. For complex numbers include "
        "<cuda/std/complex>, whose cuda::std::complex<float> lies in memory as complex64 does; whole-array algorithms "
        "are CuPy's, as in x.sum() or cupy.sort(x)."
    )


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


def _loop(match: re.Match[str], diagnostic: Diagnostic, source: str) -> str:
    if re.search(r"\bfor\s+\w+\s+in\b", _line(source, diagnostic.line)):
        return "in C++ a loop is written for (int i = 0; i < n; ++i) { … }."
    return "put the condition of an if, a while or a for in round brackets."


def _power(match: re.Match[str], diagnostic: Diagnostic, source: str) -> str:
    if "**" in _line(source, diagnostic.line):
        return "C++ has no operator for powers: write x * x * x, or powf(x, y) for floats."
    return "* ahead of a name reads what a pointer points to, and this is no pointer."


def _integers_only(match: re.Match[str], diagnostic: Diagnostic, source: str) -> str:
    line = _line(source, diagnostic.line)
    if "^" in line:
        return "^ is the exclusive or of bits: for a power write x * x * x, or powf(x, y) for floats."
    if "%" in line:
        return "% is for integers: the remainder of floats is fmodf(x, y)."
    return "operations on bits are for integers; __float_as_int(x) gives a float's bits."


def _one_index(match: re.Match[str], diagnostic: Diagnostic, source: str) -> str:
    text = _line(source, diagnostic.line)[max(diagnostic.column - 1, 0) :]
    name = re.match(r"(\w+)\s*\[[^\]]*\]\s*\[", text)
    if name is None:
        return f"only a pointer or an array takes an index, and this is one {match[1]}."
    return f"{name[1]} points to a row of elements, so it takes one index: {name[1]}[row * width + column]."


def _no_operator(match: re.Match[str], diagnostic: Diagnostic, source: str) -> str:
    if match[1] == "[]":
        return "reach the components of a vector type by name: .x, .y, .z, .w."
    sign = match[1]
    return f"CUDA's vector types have no operators: write each component (a.x {sign} b.x), or define operator{sign}."


def _no_atomic(match: re.Match[str], diagnostic: Diagnostic, source: str) -> str:
    kinds = "int, unsigned int and unsigned long long" + (", and float, double" if match[1] in ("Add", "Exch") else "")
    return (
        f"atomic{match[1]} takes a pointer and a value of one type: {kinds}. For other types loop with atomicCAS "
        '(CUDA C++ Programming Guide, "Atomic Functions").'
    )


def _option(match: re.Match[str], diagnostic: Diagnostic, source: str) -> str:
    option = match[1]
    if " " in option:
        return f"give one string for each option: options=({', '.join(repr(part) for part in option.split())})."
    if re.fullmatch(r"-{1,2}O\w+", option):
        return f"leave {option} out: NVRTC always optimises; {option} is nvcc's, for host code."
    if re.match(r"-(?:[gcvoLl]|W|X|f|m\d|ccbin|shared|pg)", option):
        return f"leave {option} out: it is for nvcc's host compiler or linker, and NVRTC compiles device code only."
    return "look for a misspelling; NVRTC's guide lists its options."


_TABLE: tuple[tuple[re.Pattern[str], Hint], ...] = tuple(
    (re.compile(pattern), hint)
    for pattern, hint in (
        (r'could not open source file "([^"]+)"', _missing_header),
        (r'cannot open source file "([^"]+)"', _missing_header),
        (r'expected a ";"', _semicolon),
        (r'expected a "\}"', "count the braces: each { needs its }."),
        (r'expected a "\("', _loop),
        (r'expected a "\)"', "count the brackets: each ( needs its )."),
        (r'namespace "std" has no member "(\w+)"', _in_std),
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
        (r"device-side kernel launch", _launch),
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
        (r"more than one instance of overloaded function",
         "give the arguments one type that it takes: a suffix, as in max(x, 0.0f), or a cast, as in sqrt((float)n)."),
        (r'no instance of overloaded function "atomic(\w+)"', _no_atomic),
        (r'operand of "\*" must be a pointer', _power),
        (r"expression must have integral or unscoped enum type", _integers_only),
        (r'must have pointer-to-object type but it has type "([^"]+)"', _one_index),
        (r'no operator "(\S+)" matches these operands operand types are: \w+\d\b', _no_operator),
        (r"Instruction 'vote' without '\.sync'",
         "__ballot, __any and __all are gone since compute capability 7.0: write __ballot_sync(mask, predicate) and "
         "its like; the mask names the lanes that take part, 0xffffffff for a whole warp."),
        (r"has already been (?:defined|declared)", "give one of the two another name."),
        (r"may not be initialized|dynamic initialization is not supported|initializer.*__shared__",
         "assign it in the kernel: shared memory starts undefined."),
        (r"unrecognized option (.*\S) found", _option),
        (r"invalid value for --gpu-architecture",
         "leave it out: kernels are compiled for the device's own architecture."),
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
