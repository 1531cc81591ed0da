"""Random kernels against NumPy, and damaged PTX and CUDA C++, which must end in an error and never in a crash.

`make test` takes a seeded slice; `make test-long` takes the rest.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest

from cudalab import cp
from cudalab.sim.compiler import CompileError, compile, compile_ptx, native

SIZE = 200
Values = dict[str, np.ndarray]
Expression = tuple[str, Callable[[Values], np.ndarray]]

_BINARY: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "({} + {})": np.add,
    "({} - {})": np.subtract,
    "({} * {})": np.multiply,
    "({} & {})": np.bitwise_and,
    "({} | {})": np.bitwise_or,
    "({} ^ {})": np.bitwise_xor,
    "min({}, {})": np.minimum,
    "max({}, {})": np.maximum,
    "({} << ({} & 31))": lambda a, b: (a.view(np.uint32) << (b & 31).astype(np.uint32)).view(np.int32),
    "({} >> ({} & 31))": lambda a, b: a >> (b & 31),
    "({} / ({} | 1))": lambda a, b: _quotient(a, b | 1),
    "({} % ({} | 1))": lambda a, b: a - _quotient(a, b | 1) * (b | 1),
}


def _quotient(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """C++ division truncates; INT_MIN / -1 wraps here as it does on the device."""
    wide = np.abs(a.astype(np.int64)) // np.abs(b.astype(np.int64))
    return np.where((a < 0) != (b < 0), -wide, wide).astype(np.int32)


def expression(dice: random.Random, depth: int) -> Expression:
    """A random C++ expression on the ints a, b, c, and what computes the same with NumPy."""
    if depth == 0 or dice.random() < 0.1:
        if dice.random() < 0.3:
            number = dice.choice([0, 1, -1, 7, 255, 2**31 - 1, dice.randrange(-(2**31) + 1, 2**31)])
            return f"({number})", lambda v: np.full(SIZE, number, np.int32)
        name = dice.choice("abc")
        return name, lambda v: v[name]
    if dice.random() < 0.2:
        (t, test), (x, yes), (y, no) = (expression(dice, depth - 1) for _ in range(3))
        return f"({t} > 0 ? {x} : {y})", lambda v: np.where(test(v) > 0, yes(v), no(v))
    form = dice.choice(list(_BINARY))
    (x, left), (y, right) = expression(dice, depth - 1), expression(dice, depth - 1)
    operation = _BINARY[form]
    return form.format(x, y), lambda v: operation(left(v), right(v))


def check_random_kernel(seed: int) -> None:
    """A kernel with a loop, a barrier and a random body gives what NumPy gives."""
    dice = random.Random(seed)
    (first, one), (second, two) = expression(dice, 4), expression(dice, 4)
    rounds, block = dice.randrange(1, 5), dice.choice([32, 50, 64, 200])
    source = f"""
    extern "C" __global__ void f(const int* x, const int* y, int* out, int n) {{
        __shared__ int s[200];
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        int a = i < n ? x[i] : 0, b = i < n ? y[i] : 0, c = i;
        for (int k = 0; k < {rounds}; k++) {{
            int r = {first};
            s[threadIdx.x] = r;
            __syncthreads();
            a = s[(threadIdx.x + 1) % blockDim.x];
            __syncthreads();
            c = {second};
        }}
        if (i < n) out[i] = a ^ c;
    }}"""
    numbers = np.random.default_rng(seed)
    x, y = (numbers.integers(-(2**31), 2**31, SIZE, dtype=np.int32) for _ in range(2))
    grid = -(-SIZE // block)
    threads = grid * block
    out = cp.zeros(SIZE, np.int32)
    cp.RawKernel(source, "f")((grid,), (block,), (cp.asarray(x), cp.asarray(y), out, np.int32(SIZE)))

    global_size = SIZE
    with np.errstate(over="ignore"):
        pad = np.zeros(threads - global_size, np.int32)
        a, b, c = np.concatenate([x, pad]), np.concatenate([y, pad]), np.arange(threads, dtype=np.int32)
        for _ in range(rounds):
            r = _on(one, a, b, c)
            a = np.roll(r.reshape(grid, block), -1, axis=1).ravel()
            c = _on(two, a, b, c)
    np.testing.assert_array_equal(out.get(), (a ^ c)[:SIZE], err_msg=f"seed {seed}:\n{source}")


def _on(function: Callable[[Values], np.ndarray], a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """Evaluate on all threads, `SIZE` at a time: constants in an expression are arrays of that length."""
    parts = []
    for start in range(0, len(a), SIZE):
        chunk = [np.resize(v[start : start + SIZE], SIZE) for v in (a, b, c)]
        values = dict(zip("abc", chunk, strict=True))
        parts.append(function(values)[: len(a[start : start + SIZE])])
    return np.concatenate(parts).astype(np.int32)


KERNEL = """
template <typename T> __device__ T twice(T x) { return x + x; }
extern "C" __global__ void f(float* x, int n) {
    __shared__ float s[64];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    s[threadIdx.x % 64] = i < n ? x[i] : 0.0f;
    __syncthreads();
    for (int k = 0; k < 5; k++) s[threadIdx.x % 64] = twice(s[threadIdx.x % 64]) + sinf(x[0]);
    if (i < n) atomicAdd(&x[i], s[threadIdx.x % 64]);
}
"""


def damage(text: str, dice: random.Random) -> str:
    """Delete, double, swap or change a few words or characters."""
    words = text.split(" ")
    for _ in range(dice.randrange(1, 4)):
        at, other = dice.randrange(len(words)), dice.randrange(len(words))
        kind = dice.randrange(4)
        if kind == 0:
            del words[at]
        elif kind == 1:
            words.insert(at, words[other])
        elif kind == 2:
            words[at], words[other % len(words)] = words[other % len(words)], words[at]
        elif words[at]:
            place = dice.randrange(len(words[at]))
            words[at] = words[at][:place] + chr(dice.randrange(32, 127)) + words[at][place + 1 :]
    return " ".join(words)


def check_damaged(seed: int) -> None:
    """Damaged text compiles or is refused with a message; the compiler answers afterwards."""
    dice = random.Random(seed)
    ptx = compile(KERNEL).ptx
    for text, translate in ((ptx, compile_ptx), (KERNEL, compile)):
        try:
            program = translate(damage(text, dice))
            native(program, "plain")
        except CompileError as error:
            assert str(error).strip()
            assert "This is a mistake in cudalab" not in str(error), f"seed {seed}: {error}"


@pytest.mark.parametrize("seed", range(12))
def test_random_kernels_agree_with_numpy(seed: int) -> None:
    check_random_kernel(seed)


@pytest.mark.parametrize("seed", range(20))
def test_damaged_source_never_ends_in_a_crash(seed: int) -> None:
    check_damaged(seed)


@pytest.mark.long
@pytest.mark.parametrize("start", range(1000, 2000, 100))
def test_many_random_kernels_agree_with_numpy(start: int) -> None:
    for seed in range(start, start + 100):
        check_random_kernel(seed)


@pytest.mark.long
@pytest.mark.parametrize("start", range(1000, 3000, 100))
def test_much_damaged_source_never_ends_in_a_crash(start: int) -> None:
    for seed in range(start, start + 100):
        check_damaged(seed)
