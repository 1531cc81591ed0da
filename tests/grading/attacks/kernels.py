"""What is handed in as the answer to 04.1 and earns nothing, by what it aims at."""

from __future__ import annotations

from tests.checks.answers.answer import solution_of

HEAD = 'extern "C" __global__ void reverse(const float* x, float* y, int n)'
RIGHT = solution_of("04.1")
_BODY = RIGHT.partition("\n")[2]
INDEX = "int i = blockIdx.x * blockDim.x + threadIdx.x;"
SECRET = "SECRET_OF_THE_TEACHER"
"""Stands in a file that some answers try to read; no word of the results may have it. ``{secret}`` is its path."""


def _kernel(body: str, before: str = "", magic: str = "%%cuda reverse") -> str:
    return f"{magic}\n{before}\n{HEAD} {{\n{body}\n}}"


def _copies(magic: str) -> str:
    """The right kernel under another first line."""
    return f"{magic}\n{_BODY}"


ATTACKS: dict[str, dict[str, str]] = {
    "files": {
        "includes a file": _kernel("", '#include "{secret}"'),
        "includes with brackets": _kernel("", "#include <{secret}>"),
        "includes by a macro": _kernel("", '#define FILE "{secret}"\n#include FILE'),
        "includes by a spliced line": _kernel("", '#inc\\\nlude "{secret}"'),
        "includes by a trigraph": _kernel("", '??=include "{secret}"', "%%cuda reverse --std c++14"),
        "includes by a digraph": _kernel("", '%:include "{secret}"'),
        "includes upwards": _kernel("", '#include "../../../../../../../..{secret}"'),
        "includes the next": _kernel("", '#include_next "{secret}"'),
        "asks whether a file is there": _kernel("", '#if __has_include("{secret}")\n#error yes\n#endif'),
        "asks by a macro": _kernel("", '#define Q __has_include\n#if Q("{secret}")\n#error yes\n#endif'),
        "includes by PTX": _kernel('asm(".include \\"{secret}\\";");'),
        "embeds": _kernel('const unsigned char all[] = {\n#embed "{secret}"\n}; y[0] = all[0];'),
        "calls itself another file": _kernel("", '#line 1 "{secret}"'),
        "an option that includes": _copies("%%cuda reverse --option=--pre-include={secret}"),
        "an option with a folder": _kernel("", '#include "secret.txt"', "%%cuda reverse --option=-I{folder}"),
        "an option that defines an include": _kernel("", "#include FILE", "%%cuda reverse --option=-DFILE=<{secret}>"),
        "an option that is a file of options": _copies("%%cuda reverse --option=@{secret}"),
        "an option that writes": _copies("%%cuda reverse --option=--fdevice-time-trace={folder}/trace"),
    },
    "compiler": {
        "a template without end": _kernel(
            "y[0] = F<0>::v;", "template <int N> struct F { static const int v = F<N + 1>::v + F<N + 2>::v; };"
        ),
        "an array of 8 GB": _kernel("y[0] = a[n];", "__device__ int a[2000000000] = {1};"),
        "a thousand brackets": _kernel("y[0] = " + "(" * 20_000 + "1" + ")" * 20_000 + ";"),
        "macros that double": _kernel(
            "y[0] = 0 M30;",
            "#define M0 +1\n" + "\n".join(f"#define M{k + 1} M{k} M{k}" for k in range(30)),
        ),
        "a constant that takes for ever": _kernel(
            "y[0] = C;",
            "constexpr long f(long n) { long s = 0; for (long k = 0; k < n; k++) s += f(n - 1); return s; }\n"
            "constexpr long C = f(20);",
        ),
        "a loop unrolled without end": _kernel(
            '_Pragma("unroll") for (int k = 0; k < 4000000; k++) y[k % n] += x[(k * 7) % n];'
        ),
        "PTX that closes the kernel": _kernel('asm("ret; } .visible .entry other() { ret;");'),
        "PTX that is none": _kernel('asm volatile("frobnicate %0;" :: "l"(y));'),
        "PTX that says how large it is": _kernel('asm(".maxntid 1, 1, 1; .reqntid 1;");'),
        "a sum of thousands of terms": _kernel("y[0] = " + "1 + " * 30_000 + "1;"),
        "a null character": _kernel("y[0] = 1;\0"),
        "not a line of C++": "%%cuda reverse\n" + "}{" * 1000,
    },
    "Python": {
        "Python that ends the process": "import os\nos._exit(0)",
        "Python that writes a file": "open('{folder}/owned', 'w').write('x')",
        "Python that reads the kernel from a file": 'reverse = cp.RawKernel(open("{secret}").read(), "reverse")',
        "a magic of the shell": "%%bash\ntouch {folder}/owned",
        "a line of the shell in the magic": _copies("%%cuda reverse; touch {folder}/owned"),
        "a magic with an open quotation mark": _copies("%%cuda reverse '"),
        "a magic that asks for help": _copies("%%cuda --help"),
        "an option that there is not": _copies("%%cuda reverse --frobnicate"),
        "two kernels as literals": f"a = r'''{_BODY}'''\nb = r'''{_BODY} '''",
        "a text that says passed": 'print("passed: 3 of 3 points")',
        "a pickle": "cos\nsystem\n(S'touch {folder}/owned'\ntR.",
    },
    "device": {
        "an endless loop": _kernel("volatile int run = 1; while (run) {}"),
        "a kernel that polls": _kernel("while (atomicAdd((int*)y, 0) != 42) __nanosleep(100);"),
        "recursion without end": _kernel(
            "y[0] = f(n);", "__device__ __noinline__ float f(int n) { return n < 0 ? 1 : f(n + 1) * 2 + f(n + 2); }"
        ),
        "writes beyond its array": _kernel(f"{INDEX} for (long k = i; k < (1L << 40); k += 4096) y[k] = 1;"),
        "writes to addresses of the host": _kernel("for (long a = 0x400000; a < 0x800000; a += 4) *(int*)a = 0;"),
        "looks for what is expected in host memory": _kernel("float* p = y; while (*p != x[0]) p++; y[0] = *p;"),
        "a global array of 1 GB": _kernel("y[0] = a[n];", "__device__ int a[250000000];"),
        "takes all memory of the heap": _kernel("for (;;) if (!malloc(1 << 20)) break;"),
        "prints without end": _kernel('for (int k = 0; k < 1000000; k++) printf("passed 3 of 3 points\\n");'),
        "a trap": _kernel("__trap();"),
        "an assertion": _kernel("assert(false);", "#include <cassert>"),
        "a barrier that not all reach": _kernel("if (threadIdx.x & 1) __syncthreads();"),
        "launches kernels of its own": _kernel("reverse<<<1, 1>>>(x, y, n);"),
    },
    "numbers": {
        "nothing": _kernel(""),
        "a mark before the magic": "\ufeff" + RIGHT,
        "letters that look the same": RIGHT.replace("reverse(", "r\u0435verse("),
        "right for the first launches": _kernel(
            f"{INDEX} if (i == 0) atomicAdd(&launches, 1); if (i < n && launches < 6) y[n - 1 - i] = x[i];",
            "__device__ int launches;",
        ),
        "what it kept of the launch before": _kernel(
            f"{INDEX} if (i < n) {{ y[n - 1 - i] = kept[i]; kept[i] = x[i]; }}", "__device__ float kept[1 << 20];"
        ),
        "what the heap has kept": _kernel(
            f"{INDEX} if (!kept) kept = (float*)malloc(4 << 20); if (kept && i < n) "
            "{ y[n - 1 - i] = kept[i]; kept[i] = x[i]; }",
            "__device__ float* kept;",
        ),
        "another name": RIGHT.replace("reverse", "backwards"),
        "another name by a macro": _kernel("y[0] = 1;", "#define reverse other"),
        "other parameters": '%%cuda reverse\nextern "C" __global__ void reverse(float* x) { x[0] = 1; }',
        "right for the sizes that stand in the course": _kernel(
            f"{INDEX} if (n <= 4097 && n != 31 && i < n) y[n - 1 - i] = x[i]; else if (i < n) y[i] = 0;"
        ),
        "changes the input to fit": _kernel(f"{INDEX} if (i < n) {{ ((float*)x)[i] = 0; y[i] = 0; }}"),
        "not a number everywhere": _kernel(f"{INDEX} if (i < n) y[i] = 0.0f / 0.0f;"),
        "right by the clock": _kernel(f"{INDEX} if (i < n) y[n - 1 - i] = clock64() % 2 ? x[i] : 0;"),
    },
}
