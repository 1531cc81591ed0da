"""Damage PTX and CUDA C++ by seed: bytes, words, lines, registers and numbers. What comes out is mostly wrong and
sometimes still a program; the simulated device must answer either with a result, an error or a fault."""

from __future__ import annotations

import random
import re
from functools import cache

from cudalab.sim.compiler import CompileError, compile, compile_ptx
from cudalab.sim.machine.execution import Standalone, execute
from cudalab.sim.machine.launch.module import Module
from cudalab.sim.machine.launch.validation import LaunchError
from cudalab.sim.machine.memory.allocations import Memory
from tests.fuzz.comparison import OPTIONS
from tests.fuzz.emit import module
from tests.fuzz.generator import generate
from tests.sim.h200 import LIMITS

_WORD = re.compile(r"\s+|[%\w.$]+|.")
_NUMBERS = [
    "0",
    "1",
    "-1",
    "32",
    "33",
    "255",
    "2147483648",
    "4294967295",
    "-9223372036854775808",
    "18446744073709551616",
]
_BASES = 12
_BUFFER = 4096

HANDWRITTEN = """
template <typename T> __device__ T twice(T x) { return x + x; }
struct Shape { virtual __device__ float area() const = 0; float scale; };
struct Square : Shape { float side; __device__ float area() const override { return side * side * scale; } };
__constant__ float table[8] = {1, 2, 3, 4, 5, 6, 7, 8};
__device__ int counter = 7;
__device__ float (*choice[2])(float) = {sinf, cosf};
extern "C" __global__ void f(float* x, int n, cudaTextureObject_t texture) {
    __shared__ float s[64];
    extern __shared__ double more[];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    s[threadIdx.x % 64] = i < n ? x[i] : tex1Dfetch<float>(texture, i & 7);
    __syncthreads();
    for (int k = 0; k < 5; k++) s[threadIdx.x % 64] = twice(s[threadIdx.x % 64]) + choice[k & 1](x[0]);
    unsigned all = __ballot_sync(0xffffffffu, x[0] > 1.0f);
    int sum = __reduce_add_sync(0xffffffffu, (int)threadIdx.x) + __shfl_down_sync(all, i, 2);
    Square square;
    square.side = s[0];
    square.scale = table[i & 7];
    Shape* shape = &square;
    switch (n) {
    case 0: atomicMax(&counter, sum); break;
    case 1: more[0] = sqrt((double)x[i & 15]); break;
    case 2: asm volatile("bfind.u32 %0, %1;" : "=r"(sum) : "r"(i)); break;
    case 3: printf("%d %f\\n", i, (double)x[0]); break;
    default: x[i & 15] = (float)more[0];
    }
    atomicAdd(&x[i & 15], shape->area() + (float)sum);
}
"""


@cache
def source(index: int) -> str:
    """CUDA C++ to damage."""
    return HANDWRITTEN if index == 0 else module([generate(index)])


@cache
def ptx(index: int) -> str:
    """PTX to damage."""
    return compile(source(index), options=OPTIONS, name="fuzz.cu").ptx


def damaged(seed: int, is_ptx: bool) -> str:
    """The damaged text of a seed."""
    dice = random.Random(seed)
    index = dice.randrange(_BASES)
    text = ptx(index) if is_ptx else source(index)
    for _ in range(dice.choice([1, 1, 1, 2, 3, 8])):
        text = dice.choice(_WAYS)(text, dice)
    return text


def _bytes(text: str, dice: random.Random) -> str:
    at = dice.randrange(len(text) + 1)
    kind = dice.randrange(3)
    letter = chr(dice.choice([dice.randrange(32, 127), dice.randrange(1, 32), dice.randrange(160, 1024)]))
    return text[:at] + (letter if kind else "") + text[at + (kind != 1) :]


def _words(text: str, dice: random.Random) -> str:
    """Leave out, double, replace or swap words near each other."""
    start = dice.randrange(len(text) + 1)
    window = text[start : start + 400]
    words = _WORD.findall(window)
    places = [index for index, word in enumerate(words) if not word.isspace()]
    if len(places) < 2:
        return text
    one, two = dice.choice(places), dice.choice(places)
    kind = dice.randrange(4)
    if kind == 0:
        words[one] = ""
    elif kind == 1:
        words[one] += " " + words[two]
    elif kind == 2:
        words[one] = words[two]
    else:
        words[one], words[two] = words[two], words[one]
    return text[:start] + "".join(words) + text[start + len(window) :]


def _lines(text: str, dice: random.Random) -> str:
    lines = text.split("\n")
    one, two = dice.randrange(len(lines)), dice.randrange(len(lines))
    kind = dice.randrange(4)
    if kind == 0:
        del lines[one]
    elif kind == 1:
        lines.insert(one, lines[two])
    elif kind == 2:
        lines[one], lines[two] = lines[two], lines[one]
    else:
        size = dice.randrange(1, 12)
        lines[one : one + size] = lines[two : two + size]
    return "\n".join(lines)


def _numbers(text: str, dice: random.Random) -> str:
    found = list(re.finditer(r"\b\d+\b", text))
    if not found:
        return text
    match = dice.choice(found)
    return text[: match.start()] + dice.choice(_NUMBERS) + text[match.end() :]


def _modifiers(text: str, dice: random.Random) -> str:
    """Exchange a modifier or a type for another one of the text."""
    found = list(re.finditer(r"\.\w+", text))
    if not found:
        return text
    match, other = dice.choice(found), dice.choice(found)
    return text[: match.start()] + dice.choice([other.group(), ""]) + text[match.end() :]


def _registers(text: str, dice: random.Random) -> str:
    found = list(re.finditer(r"%\w+", text)) or list(re.finditer(r"\b[a-z]\d+\b", text))
    if not found:
        return text
    match, other = dice.choice(found), dice.choice(found)
    return text[: match.start()] + other.group() + text[match.end() :]


def _cut(text: str, dice: random.Random) -> str:
    return text[: dice.randrange(len(text) + 1)] if dice.random() < 0.3 else text


_WAYS = (_bytes, _words, _words, _lines, _numbers, _modifiers, _registers, _registers, _cut)


@cache
def _memory() -> Memory:
    return Memory(capacity=1 << 30)


def outcome(seed: int, is_ptx: bool) -> str:
    """What became of a damaged text: ``ran``, ``fault: …``, ``refused: …`` or ``launch: …``; anything else is raised.

    Raises:
        Exception: one that a user of the simulated device must never see.
    """
    text = damaged(seed, is_ptx)
    try:
        program = compile_ptx(text) if is_ptx else compile(text, options=OPTIONS, name="fuzz.cu")
    except CompileError as error:
        return f"refused: {error}"
    loaded = Module(program, _memory(), LIMITS)
    try:
        return _launched(loaded)
    except CompileError as error:
        return f"refused when launched: {error}"
    finally:
        loaded.unload()


def _launched(loaded: Module) -> str:
    """Run the first kernel with a buffer for every parameter that may be a pointer."""
    if not loaded.program.kernels:
        return "refused: no kernel"
    kernel = loaded.kernel(next(iter(loaded.program.kernels)))
    buffer = bytearray(kernel.kernel.parameter_bytes)
    pointers = []
    try:
        for parameter in kernel.kernel.parameters:
            if parameter.size == 8:
                pointers.append(_memory().allocate(_BUFFER, "device", parameter.name))
                _memory().view(pointers[-1], _BUFFER)[:] = bytes(_BUFFER)
                buffer[parameter.offset : parameter.offset + 8] = pointers[-1].to_bytes(8, "little")
        done = execute(kernel.launch(2, 32, bytes(buffer), 1024), Standalone(time_limit=0.5), interruptible=False)
        return f"fault: {done.fault}" if done.fault is not None else "ran"
    except LaunchError as error:
        return f"launch: {error}"
    finally:
        for pointer in pointers:
            _memory().free(pointer)


def is_mistake(text: str) -> bool:
    """Does the outcome blame cudalab, or a step of the compiler that expects nothing but what compilers write?"""
    return "This is a mistake in cudalab" in text or "RuntimeError" in text
