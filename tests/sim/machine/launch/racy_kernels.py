"""Kernels with a data race, as learners write them: lost updates, and a missing ``__syncthreads()`` in every place.

Each is launched with inputs of distinct values; ``right`` is what it gives without the race.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Racy:
    """A kernel ``k(input, output, n)`` with a race."""

    name: str
    code: str
    grid: object
    block: object
    input: np.ndarray
    outputs: int
    """Elements of the output, which has the type of the input and starts as zeros."""
    right: Callable[[np.ndarray], np.ndarray]
    """The output of the kernel if it had no race."""
    orderless: bool = False
    """Whether only the set of the output's elements counts."""


_FLOATS = np.random.default_rng(7).permutation(4096).astype(np.float32) + 1
_INTS = np.random.default_rng(8).permutation(4096).astype(np.int32)


def _kernel(type: str, body: str, before: str = "") -> str:
    head = f'{before}\nextern "C" __global__ void k(const {type}* in, {type}* out, int n)'
    return f"{head} {{\n  int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;\n  {body}\n}}"


def _reduction(first: str, loop: str) -> str:
    return _kernel(
        "float",
        f"""__shared__ float s[256];
  s[t] = in[i];
  {first}
  for (int half = blockDim.x / 2; half > 0; half /= 2) {{
    if (t < half) s[t] += s[t + half];
    {loop}
  }}
  if (t == 0) out[blockIdx.x] = s[0];""",
    )


def _scan(between: str, after: str) -> str:
    return _kernel(
        "float",
        f"""__shared__ float s[256];
  s[t] = in[i];
  __syncthreads();
  for (int d = 1; d < blockDim.x; d *= 2) {{
    float add = t >= d ? s[t - d] : 0;
    {between}
    s[t] += add;
    {after}
  }}
  out[i] = s[t];""",
    )


def _product(first: str, second: str) -> str:
    return f"""extern "C" __global__ void k(const float* in, float* out, int n) {{
  __shared__ float a[16][16], b[16][16];
  int x = threadIdx.x, y = threadIdx.y, row = blockIdx.y * 16 + y, column = blockIdx.x * 16 + x;
  float sum = 0;
  for (int tile = 0; tile < n / 16; tile++) {{
    a[y][x] = in[row * n + tile * 16 + x];
    b[y][x] = in[(tile * 16 + y) * n + column];
    {first}
    for (int i = 0; i < 16; i++) sum += a[y][i] * b[i][x];
    {second}
  }}
  out[row * n + column] = sum;
}}"""


_SYNC = "__syncthreads();"
_IN_BLOCKS = _FLOATS[:1024].reshape(4, 256)
_SMALL = (_FLOATS[:4096] % 10).reshape(64, 64).astype(np.float32)

KERNELS = [
    Racy("counter", _kernel("int", "out[0] += 1;"), 8, 64, _INTS, 1, lambda a: np.array([512], np.int32)),
    Racy("sum", _kernel("float", "out[0] += in[i];"), 4, 256, _FLOATS, 1, lambda a: a[:1024].sum(keepdims=True)),
    Racy("one thread a block", _kernel("int", "out[0] += 1;"), 64, 1, _INTS, 1, lambda a: np.array([64], np.int32)),
    Racy(
        "sums of blocks",
        _kernel(
            "float",
            f"""__shared__ float s[256];
  s[t] = in[i];
  {_SYNC}
  for (int half = 128; half > 0; half /= 2) {{ if (t < half) s[t] += s[t + half]; {_SYNC} }}
  if (t == 0) out[0] += s[0];""",
        ),
        4,
        256,
        _FLOATS,
        1,
        lambda a: a[:1024].sum(keepdims=True),
    ),
    Racy(
        "histogram",
        _kernel("int", "if (i < n) out[in[i] % 16] += 1;"),
        16,
        256,
        _INTS,
        16,
        lambda a: np.bincount(a % 16).astype(np.int32),
    ),
    Racy(
        "histogram in shared memory",
        _kernel(
            "int",
            f"""__shared__ int bins[16];
  if (t < 16) bins[t] = 0;
  {_SYNC}
  for (int j = t; j < n; j += blockDim.x) bins[in[j] & 15]++;
  {_SYNC}
  if (t < 16) out[t] = bins[t];""",
        ),
        1,
        128,
        _INTS,
        16,
        lambda a: np.bincount(a % 16).astype(np.int32),
    ),
    Racy(
        "greatest",
        _kernel("int", "if (in[i] > out[0]) out[0] = in[i];"),
        4,
        256,
        np.sort(_INTS[:1024])[::-1].copy(),
        1,
        lambda a: a.max(keepdims=True),
    ),
    Racy(
        "append",
        _kernel("int", "if (in[i] % 2) { int place = out[0]; out[0] = place + 1; out[1 + place] = in[i]; }"),
        4,
        64,
        _INTS[:256],
        257,
        lambda a: np.r_[(a % 2).sum(), np.sort(np.r_[a[a % 2 == 1], np.zeros((a % 2 == 0).sum(), int)])[::-1]].astype(
            np.int32
        ),
        orderless=True,
    ),
    Racy(
        "sum of each column",
        _kernel("int", "out[t] += in[i];"),
        16,
        64,
        _INTS[:1024],
        64,
        lambda a: a.reshape(16, 64).sum(0).astype(np.int32),
    ),
    *[
        Racy(
            f"reversed, {threads} threads",
            _kernel("float", "__shared__ float s[256]; s[t] = in[t]; out[t] = s[n - 1 - t];"),
            1,
            threads,
            _FLOATS[:threads],
            threads,
            lambda a: a[::-1],
        )
        for threads in (64, 256)
    ],
    Racy(
        "transposed",
        """extern "C" __global__ void k(const float* in, float* out, int n) {
  __shared__ float tile[16][17];
  int x = threadIdx.x, y = threadIdx.y;
  tile[y][x] = in[(blockIdx.y * 16 + y) * 64 + blockIdx.x * 16 + x];
  out[(blockIdx.x * 16 + y) * 64 + blockIdx.y * 16 + x] = tile[x][y];
}""",
        (4, 4),
        (16, 16),
        _FLOATS.reshape(64, 64),
        4096,
        lambda a: a.T.ravel(),
    ),
    *[
        Racy(
            f"difference to the {side}, {threads} threads",
            _kernel(
                "float",
                f"__shared__ float s[258]; s[t + 1] = in[i]; out[i] = t == {edge} ? 0 : s[t + 1] - s[t + 1 {sign} 1];",
            ),
            1024 // threads,
            threads,
            _FLOATS[:1024],
            1024,
            lambda a, threads=threads, shift=shift, last=last: _difference(a, threads, shift, last),
        )
        for threads in (64, 256)
        for side, sign, edge, shift, last in (("left", "-", "0", 1, 0), ("right", "+", "blockDim.x - 1", -1, -1))
    ],
    Racy(
        "one thread tells all",
        _kernel("float", "__shared__ float s; if (t == 0) s = in[blockIdx.x]; out[i] = s * in[i];"),
        4,
        64,
        _FLOATS[:256],
        256,
        lambda a: (a.reshape(4, 64) * a[:4, None]).ravel(),
    ),
    Racy("reduction, first barrier", _reduction("", _SYNC), 4, 256, _FLOATS[:1024], 4, lambda a: _IN_BLOCKS.sum(1)),
    Racy(
        "reduction, barrier in the loop", _reduction(_SYNC, ""), 4, 256, _FLOATS[:1024], 4, lambda a: _IN_BLOCKS.sum(1)
    ),
    Racy("scan, between", _scan("", _SYNC), 4, 256, _FLOATS[:1024], 1024, lambda a: _IN_BLOCKS.cumsum(1).ravel()),
    Racy("scan, after", _scan(_SYNC, ""), 4, 256, _FLOATS[:1024], 1024, lambda a: _IN_BLOCKS.cumsum(1).ravel()),
    Racy("product, first barrier", _product("", _SYNC), (4, 4), (16, 16), _SMALL, 4096, lambda a: (a @ a).ravel()),
    Racy("product, second barrier", _product(_SYNC, ""), (4, 4), (16, 16), _SMALL, 4096, lambda a: (a @ a).ravel()),
    Racy(
        "product of ones, first barrier",
        _product("", _SYNC),
        (4, 4),
        (16, 16),
        np.ones((64, 64), np.float32),
        4096,
        lambda a: (a @ a).ravel(),
    ),
]


def _difference(a: np.ndarray, threads: int, shift: int, last: int) -> np.ndarray:
    blocks = a.reshape(-1, threads)
    found = blocks - np.roll(blocks, shift, axis=1)
    found[:, last] = 0
    return found.ravel()
