"""Random kernels full of races, and free of them: what native shadow cells suspect against the exact engines.

A kernel is a list of statements over a shared array, a global array and single bytes; indices and guards depend on the
thread in few ways, so that threads meet often. Between statements stand barriers, warp operations, fences, atomics and
nothing.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

import numpy as np

from cudalab.sim.compiler import compile
from cudalab.sim.machine.launch.module import LoadedKernel, Module
from cudalab.sim.machine.memory.allocations import Memory
from tests.sim.h200 import LIMITS

WORDS = 64
BYTES = 256


@dataclass(frozen=True)
class Sample:
    source: str
    grid: int
    block: int


_INDEX = (
    "t",
    "t ^ 1",
    "t ^ 32",
    "(t + 1) % 64",
    "t / 2",
    "t / 32",
    "t % 32",
    "b",
    "(b * 64 + t) % 64",
    "7",
    "63 - t % 64",
)
_GUARD = (
    "",
    "if (t < 32) ",
    "if (t == 0) ",
    "if (t % 2) ",
    "if (t >= 32) ",
    "if (b == 0) ",
    "if (t == b) ",
    "if (t < 5) ",
)
_SYNC = (
    "__syncthreads();",
    "__syncthreads();",
    "__syncwarp();",
    "v += __shfl_xor_sync(0xffffffffu, v, 1);",
    "if (__syncthreads_or(v)) v++;",
    "if (t < 32) __syncwarp();",
    "if (t % 32 < 16) __syncwarp(0xffff);",
    "",
    "",
)
_FINE = (
    "__threadfence();",
    "__threadfence_block();",
    'asm volatile("bar.sync 1, 64;");',
    'if (t < 32) asm volatile("bar.sync 2, 32;");',
    "atomicAdd(&flag[0], 1);",
    "v += *(volatile int*)&flag[0];",
    "*(volatile int*)&flag[1] = v;",
    "v += atomicAdd_block(&flag[2], 1);",
)


def _statement(random: np.random.Generator) -> str:
    index = random.choice(_INDEX)
    guard = random.choice(_GUARD)
    form = random.choice(
        [
            "s[{0}] = v;",
            "v += s[{0}];",
            "s[{0}] += v;",
            "atomicAdd(&s[{0}], v);",
            "g[{0}] = v;",
            "v += g[{0}];",
            "atomicAdd(&g[{0}], 1);",
            "c[{0}] = (char)v;",
            "v += c[{0}];",
            "v += w[({0}) / 4];",
            "h[{0}] = v;",
            "v += h[{0}];",
        ]
    )
    return guard + form.format(f"({index}) & 63")


def sample(seed: int, fine: bool = False) -> Sample:
    """A kernel and its launch. ``fine``: with fences, named barriers, flags and scopes."""
    random = np.random.default_rng(seed)
    lines = []
    for _ in range(int(random.integers(3, 9))):
        lines.append(_statement(random))
        pool = _SYNC + _FINE if fine else _SYNC
        lines.append(str(random.choice(pool)))
    block = int(random.choice([64, 64, 33, 96] if not fine else [64]))
    body = "\n    ".join(line for line in lines if line)
    source = f"""
extern "C" __global__ void k(int* g, int* h, int* flag, int n) {{
    __shared__ int s[{WORDS}];
    __shared__ union {{ char c[{BYTES}]; int w[{BYTES // 4}]; }} u;
    char* c = u.c; int* w = u.w;
    int t = threadIdx.x, b = blockIdx.x, v = t + b;
    if (n > 0 && t < 64) {{ s[t] = 0; w[t] = 0; }}
    __syncthreads();
    {body}
    g[1000 + (b * blockDim.x + t)] = v;
}}"""
    return Sample(source, int(random.choice([1, 2, 3])), block)


class Arena:
    """One memory for many samples."""

    def __init__(self) -> None:
        self.memory = Memory(1 << 30)
        self.arrays = []
        for words in (4096, 64, 8):
            pointer = self.memory.allocate(4 * words)
            self.memory.view(pointer, 4 * words)
            self.arrays.append(pointer)

    def load(self, drawn: Sample) -> tuple[LoadedKernel, bytes]:
        module = Module(compile(drawn.source), self.memory, LIMITS)
        return module.kernel("k"), struct.pack("<QQQi", *self.arrays, 1)
