"""``ElementwiseKernel`` and ``ReductionKernel`` against NumPy, whole arrays."""

from __future__ import annotations

import numpy as np
import pytest

from cudalab.sim import cupy as cp
from cudalab.sim.cupy.cuda.compiler import CompileException

RANDOM = np.random.default_rng(5)
SHAPES = [(1,), (31,), (257,), (3, 5), (4, 1, 6), (2, 3, 4, 5)]


def numbers(shape, dtype=np.float32):
    return RANDOM.uniform(-4, 4, shape).astype(dtype)


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "uint16", "float16", "float32", "float64"])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_statement_runs_for_every_element(shape, dtype):
    x, y = numbers(shape, dtype), numbers(shape, dtype)
    squared = cp.ElementwiseKernel("T x, T y", "T z", "z = (x - y) * (x - y)", "squared_difference")
    got = cp.asnumpy(squared(cp.asarray(x), cp.asarray(y)))
    assert got.dtype == x.dtype
    np.testing.assert_array_equal(got, ((x - y) * (x - y)).astype(dtype))


def test_arguments_are_broadcast_and_may_have_any_strides():
    a, b = numbers((6, 8)), numbers((8,))
    add = cp.ElementwiseKernel("float32 x, float32 y", "float32 z", "z = x + y", "add")
    np.testing.assert_array_equal(cp.asnumpy(add(cp.asarray(a), cp.asarray(b))), a + b)
    np.testing.assert_array_equal(cp.asnumpy(add(cp.asarray(a).T, cp.asarray(b)[:6])), a.T + b[:6])
    np.testing.assert_array_equal(cp.asnumpy(add(cp.asarray(a)[::-2, 1::3], np.float32(2))), a[::-2, 1::3] + 2)


def test_numbers_take_the_type_of_the_parameter():
    scale = cp.ElementwiseKernel("T x, T factor", "T y", "y = x * factor", "scale")
    x = numbers(100)
    np.testing.assert_array_equal(cp.asnumpy(scale(cp.asarray(x), 3)), x * np.float32(3))


def test_the_output_may_be_given_and_several_may_be_returned():
    both = cp.ElementwiseKernel("float64 x", "float64 up, int32 down", "up = ceil(x); down = (int)floor(x)", "both")
    x = numbers((5, 7), np.float64)
    up, down = both(cp.asarray(x))
    np.testing.assert_array_equal(cp.asnumpy(up), np.ceil(x))
    np.testing.assert_array_equal(cp.asnumpy(down), np.floor(x).astype(np.int32))
    target = cp.zeros((5, 7), cp.float32)
    same = cp.ElementwiseKernel("float64 x", "float32 y", "y = x", "same")(cp.asarray(x), target)
    assert same is target
    np.testing.assert_array_equal(cp.asnumpy(target), x.astype(np.float32))


def test_raw_arrays_are_indexed_by_hand():
    x, y = numbers(50), numbers(50)
    reverse = cp.ElementwiseKernel("T x, raw T y", "T z", "z = x + y[_ind.size() - i - 1]", "add_reverse")
    np.testing.assert_array_equal(cp.asnumpy(reverse(cp.asarray(x), cp.asarray(y))), x + y[::-1])
    m = numbers((6, 9))
    gather = cp.ElementwiseKernel(
        "raw T m", "T z", "const ptrdiff_t at[] = {i % m.shape()[0], i % m.shape()[1]}; z = m[at]", "diagonal"
    )
    i = np.arange(40)
    np.testing.assert_array_equal(cp.asnumpy(gather(cp.asarray(m.T).T, size=40)), m[i % 6, i % 9])


def test_i_and_the_size_and_the_parts_around_the_loop():
    kernel = cp.ElementwiseKernel(
        "", "float32 y", "y = offset + i * 100 / _ind.size()", "ramp", loop_prep="float offset = 0.5f;", after_loop=""
    )
    out = cp.empty(64, cp.float32)
    kernel(out)
    np.testing.assert_array_equal(cp.asnumpy(out), np.float32(0.5) + np.arange(64) * 100 // 64)


def test_complex_numbers():
    x = (numbers(40) + 1j * numbers(40)).astype(np.complex64)
    turn = cp.ElementwiseKernel("complex64 x", "complex64 y", "y = x * complex<float>(0, 1)", "turn")
    np.testing.assert_array_equal(cp.asnumpy(turn(cp.asarray(x))), x * np.complex64(1j))


@pytest.mark.parametrize(
    "arguments, keywords, error, message",
    [
        ((), {}, TypeError, "Wrong number of arguments for 'scale'. It must be either 1 or 2"),
        ((np.zeros(3),), {}, TypeError, "Unsupported type <class 'numpy.ndarray'>"),
        ((cp.zeros(3, cp.float64), cp.zeros(3, cp.float32)), {}, TypeError, "Type is mismatched. x"),
        (
            (cp.zeros(3, cp.float32), cp.zeros(4, cp.float32)),
            {},
            ValueError,
            "could not be broadcast|Out shape is mismatched",
        ),
        (
            (cp.zeros(3, cp.float32),),
            {"size": 3},
            ValueError,
            "'size' can be used only if all of the ndarray are 'raw'",
        ),
        ((cp.zeros(3, cp.float32),), {"block_size": 0}, ValueError, "block_size must be greater than zero"),
        ((1.0,), {}, ValueError, "Loop size is undecided"),
        ((cp.zeros(3, cp.float32),), {"blocks": 3}, TypeError, "Wrong arguments"),
    ],
)
def test_what_does_not_fit_is_refused(arguments, keywords, error, message):
    scale = cp.ElementwiseKernel("T x", "T y", "y = 2 * x", "scale")
    with pytest.raises(error, match=message):
        scale(*arguments, **keywords)


@pytest.mark.parametrize("text", ["T", "T x y z w", "float33 x", "T i", "T _ind"])
def test_parameters_that_are_none_are_refused(text):
    with pytest.raises(Exception, match="Syntax error|Unknown keyword|not understood|as a parameter name"):
        cp.ElementwiseKernel(text, "T y", "y = 0", "k")


def test_what_does_not_compile_says_so():
    with pytest.raises(CompileException, match="nothing"):
        cp.ElementwiseKernel("T x", "T y", "y = nothing(x)", "k")(cp.zeros(3))


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("axis", [None, 0, 1, -1, (0, 2), (0, 1, 2)])
def test_a_reduction_over_any_axes(axis, keepdims):
    x = numbers((4, 37, 6), np.float64)
    norm = cp.ReductionKernel("T x", "T y", "x * x", "a + b", "y = sqrt(a)", "0", "l2norm")
    got = cp.asnumpy(norm(cp.asarray(x), axis=axis, keepdims=keepdims))
    wanted = np.sqrt((x * x).sum(axis=axis, keepdims=keepdims))
    assert got.shape == wanted.shape
    np.testing.assert_allclose(got, wanted, rtol=1e-14)


@pytest.mark.parametrize("size", [1, 2, 31, 255, 256, 257, 10_001])
def test_a_reduction_of_any_size(size):
    x = RANDOM.integers(-1000, 1000, size).astype(np.int32)
    largest = cp.ReductionKernel("int32 x", "int32 y", "x", "max(a, b)", "y = a", "-2147483648", "largest")
    assert int(largest(cp.asarray(x))) == x.max()
    assert int(largest(cp.asarray(x)[::-1])) == x.max()


def test_a_reduction_of_two_arrays_in_a_wider_type():
    x, y = numbers((300, 3)), numbers(3)
    dot = cp.ReductionKernel(
        "T x, T y", "float32 z", "(double)x * y", "a + b", "z = a", "0", "dot", reduce_type="double"
    )
    wanted = (x.astype(np.float64) * y).sum(axis=0).astype(np.float32)
    np.testing.assert_allclose(cp.asnumpy(dot(cp.asarray(x), cp.asarray(y), axis=0)), wanted, rtol=1e-6)
    out = cp.zeros(3, cp.float32)
    assert dot(cp.asarray(x), cp.asarray(y), axis=0, out=out) is out
    np.testing.assert_allclose(cp.asnumpy(out), wanted, rtol=1e-6)


def test_an_empty_reduction_gives_the_identity_or_an_error():
    total = cp.ReductionKernel("T x", "T y", "x", "a + b", "y = a", "7", "total")
    assert float(total(cp.zeros((0,), cp.float32))) == 7
    none = cp.ReductionKernel("T x", "T y", "x", "a + b", "y = a", None, "none")
    with pytest.raises(ValueError, match="zero-size array to reduction operation none which has no identity"):
        none(cp.zeros((0,), cp.float32))
