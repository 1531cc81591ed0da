"""Array functions give NumPy's values, on whole arrays of many shapes and types."""

from __future__ import annotations

from typing import Any

import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import cudalab.sim.cupy as cp
from cudalab.sim.cupy._base import catalogue
from cudalab.sim.cupy._core import derivation

SHAPES = hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5)
NUMBERS = st.sampled_from(["?", "i1", "u1", "i2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "c8", "c16"])


def values(shape: Any, dtype: Any, seed: int = 0) -> np.ndarray:
    """Numbers that no function overflows on."""
    rng = np.random.default_rng(seed)
    found = rng.integers(0, 2 if np.dtype(dtype).kind == "b" else 5, shape)
    return np.asarray(found).astype(dtype)


def equal(device: Any, host: Any) -> None:
    """Same shape, type and values; floats to a few units in the last place."""
    assert isinstance(device, cp.ndarray)
    host = np.asarray(host)
    assert device.shape == host.shape
    assert device.dtype == host.dtype
    tolerance = {"f2": 2e-3, "f4": 1e-5}.get(host.dtype.str[1:], 1e-6 if host.dtype.str[1:] == "c8" else 1e-12)
    np.testing.assert_allclose(device.get(), host, rtol=tolerance, atol=tolerance)


@given(SHAPES, NUMBERS, st.sampled_from("CF"))
def test_a_round_trip_keeps_every_byte(shape: Any, dtype: str, order: Any) -> None:
    host = np.asarray(values(shape, dtype), order=order)
    device = cp.asarray(host)
    assert (device.shape, device.dtype) == (host.shape, host.dtype)
    assert device.get().tobytes() == host.tobytes()
    assert repr(device) == repr(host)
    assert device.tolist() == host.tolist()


@pytest.mark.parametrize("name", ["add", "subtract", "multiply", "maximum", "equal", "less", "logical_or"])
@given(hnp.mutually_broadcastable_shapes(num_shapes=2, max_dims=3, max_side=4), NUMBERS, NUMBERS)
def test_two_arrays_broadcast(name: str, shapes: Any, one: str, other: str) -> None:
    a, b = values(shapes.input_shapes[0], one, 1), values(shapes.input_shapes[1], other, 2)
    if name == "subtract" and one == other == "?":
        return  # refused, as in NumPy
    if name == "logical_or" and "c" in one + other:
        return  # CuPy has no complex logical_or
    host = getattr(np, name)(a, b)
    equal(getattr(cp, name)(cp.asarray(a), cp.asarray(b)), host)


@pytest.mark.parametrize("name", ["sin", "exp", "sqrt", "square", "abs", "floor", "isnan", "sign", "tanh"])
@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "i4", "i8"])
def test_one_array(name: str, dtype: str) -> None:
    host = np.linspace(0, 4, 37).astype(dtype).reshape(37, 1)
    expected = getattr(np, name)(host)
    device = getattr(cp, name)(cp.asarray(host))
    np.testing.assert_allclose(device.get(), expected, rtol=2e-3 if dtype == "f2" else 1e-6)


@pytest.mark.parametrize(
    "name",
    ["sum", "prod", "max", "min", "mean", "any", "all", "argmax", "argmin", "std", "var"],
)
@given(hnp.array_shapes(min_dims=1, max_dims=4, min_side=1, max_side=4), st.data())
def test_reductions(name: str, shape: Any, data: Any) -> None:
    host = values(shape, data.draw(st.sampled_from(["i4", "f4", "f8", "?", "u1"])), 3)
    if name.startswith("arg"):
        axis = data.draw(st.one_of(st.none(), st.integers(-len(shape), len(shape) - 1)))
    else:
        axis = data.draw(st.one_of(st.none(), hnp.valid_tuple_axes(len(shape), min_size=1)))
    keepdims = data.draw(st.booleans())
    equal(
        getattr(cp.asarray(host), name)(axis=axis, keepdims=keepdims),
        getattr(host, name)(axis=axis, keepdims=keepdims),
    )


@pytest.mark.parametrize("name", ["cumsum", "cumprod"])
@given(hnp.array_shapes(max_dims=3, max_side=4), st.data())
def test_scans(name: str, shape: Any, data: Any) -> None:
    host = values(shape, data.draw(st.sampled_from(["i4", "f8", "u1"])), 4)
    axis = data.draw(st.one_of(st.none(), st.integers(-len(shape), len(shape) - 1)))
    equal(getattr(cp, name)(cp.asarray(host), axis=axis), getattr(np, name)(host, axis=axis))


@given(hnp.array_shapes(max_dims=4, max_side=5), st.data())
def test_basic_keys_give_views(shape: Any, data: Any) -> None:
    host = np.arange(int(np.prod(shape))).reshape(shape)
    device = cp.asarray(host)
    key = data.draw(hnp.basic_indices(shape, allow_newaxis=True, allow_ellipsis=True))
    found = device[key]
    assert found.shape == host[key].shape
    assert found.get().tolist() == host[key].tolist()
    if found.size:
        assert found.base is device or found is device
        device[key] = 99
        host[key] = 99
        assert device.tolist() == host.tolist()


@given(hnp.array_shapes(max_dims=4, max_side=5), st.data())
def test_index_arrays(shape: Any, data: Any) -> None:
    host = np.arange(int(np.prod(shape))).reshape(shape)
    key = data.draw(hnp.integer_array_indices(shape))
    device_key = tuple(cp.asarray(entry) for entry in key)
    device = cp.asarray(host)
    assert device[device_key].tolist() == host[key].tolist()
    device[device_key] = -1
    host[key] = -1
    assert device.tolist() == host.tolist()


@given(hnp.array_shapes(max_dims=3, max_side=5), st.integers(0, 5))
def test_masks(shape: Any, seed: int) -> None:
    host = np.arange(int(np.prod(shape))).reshape(shape)
    mask = values(shape, "?", seed)
    device = cp.asarray(host)
    assert device[cp.asarray(mask)].tolist() == host[mask].tolist()
    device[cp.asarray(mask)] *= 2
    host[mask] *= 2
    assert device.tolist() == host.tolist()


@given(hnp.array_shapes(min_dims=2, max_dims=4, max_side=4), st.data())
def test_mixed_keys(shape: Any, data: Any) -> None:
    host = np.arange(int(np.prod(shape))).reshape(shape)
    key: list[Any] = [slice(None)] * len(shape)
    for axis in data.draw(st.sets(st.integers(0, len(shape) - 1), min_size=1)):
        key[axis] = data.draw(st.one_of(st.integers(0, shape[axis] - 1), st.just(np.array([0, shape[axis] - 1]))))
    device_key = tuple(cp.asarray(entry) if isinstance(entry, np.ndarray) else entry for entry in key)
    assert cp.asarray(host)[device_key].tolist() == host[tuple(key)].tolist()


@given(hnp.array_shapes(max_dims=4, max_side=4), st.data())
def test_reshapes_of_views(shape: Any, data: Any) -> None:
    host = np.arange(int(np.prod(shape))).reshape(shape)
    axes = data.draw(st.permutations(range(len(shape))))
    step = data.draw(st.sampled_from([1, 2, -1]))
    host_view, device_view = host.transpose(axes)[::step], cp.asarray(host).transpose(*axes)[::step]
    order: Any = data.draw(st.sampled_from("CF"))
    size = host_view.size
    new = data.draw(st.sampled_from([n for n in range(1, size + 1) if size % n == 0])) if size else 0
    target = (new, size // new) if size else (0,)
    found = device_view.reshape(*target, order=order)
    assert found.tolist() == host_view.reshape(target, order=order).tolist()
    shares = np.shares_memory(host_view.reshape(target, order=order), host)
    assert (found.base is not None) == shares or size <= 1


@given(hnp.mutually_broadcastable_shapes(signature="(n,m),(m,p)->(n,p)", max_dims=2, min_side=1, max_side=4))
def test_products(shapes: Any) -> None:
    a, b = (values(shape, "f4", seed) for seed, shape in enumerate(shapes.input_shapes))
    equal(cp.asarray(a) @ cp.asarray(b), a @ b)


@pytest.mark.parametrize("source", ["f4", "f8", "f2"])
@pytest.mark.parametrize("target", ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "?", "f4", "c8"])
def test_conversions_within_range_are_numpys(source: str, target: str) -> None:
    host = np.array([0.0, 0.5, 1.9, 100.0], source)
    equal(cp.asarray(host).astype(target), host.astype(target))


def test_overlapping_copies_read_before_they_write() -> None:
    device, host = cp.arange(1000), np.arange(1000)
    device[1:] = device[:-1]
    host[1:] = host[:-1].copy()
    assert device.tolist() == host.tolist()
    device[::-1] = device
    host[::-1] = host.copy()
    assert device.tolist() == host.tolist()


MATRIX = np.array([[4.0, 1.0, 0.5], [1.0, 3.0, 0.25], [0.5, 0.25, 2.0]])
VECTOR = np.array([3.0, 1.0, 2.0, 5.0])
CALLS: dict[str, tuple[Any, ...]] = {
    "angle": (VECTOR + 1j,),
    "allclose": (VECTOR, VECTOR),
    "array_equal": (VECTOR, VECTOR),
    "array_equiv": (VECTOR, VECTOR),
    "average": (MATRIX,),
    "bincount": (np.array([0, 1, 1, 3]),),
    "compress": (np.array([True, False, True]), VECTOR),
    "convolve": (VECTOR, VECTOR),
    "corrcoef": (MATRIX,),
    "correlate": (VECTOR, VECTOR),
    "count_nonzero": (MATRIX,),
    "cov": (MATRIX,),
    "cross": (MATRIX, MATRIX[::-1]),
    "cumulative_prod": (VECTOR,),
    "cumulative_sum": (VECTOR,),
    "delete": (VECTOR, 1),
    "diag": (VECTOR,),
    "diagflat": (VECTOR,),
    "diff": (MATRIX,),
    "digitize": (VECTOR, np.arange(5.0)),
    "ediff1d": (VECTOR,),
    "extract": (VECTOR > 1, VECTOR),
    "gradient": (VECTOR,),
    "histogram": (VECTOR, 3),
    "in1d": (VECTOR, VECTOR[:2]),
    "interp": (VECTOR, np.arange(5.0), np.arange(5.0) * 2),
    "intersect1d": (VECTOR, VECTOR[:2]),
    "iscomplex": (VECTOR,),
    "isclose": (VECTOR, VECTOR[::-1]),
    "isin": (MATRIX, VECTOR),
    "isneginf": (VECTOR,),
    "isposinf": (VECTOR,),
    "isreal": (VECTOR,),
    "kron": (MATRIX, MATRIX),
    "lexsort": (MATRIX,),
    "median": (MATRIX,),
    "msort": (MATRIX,),
    "nanmedian": (MATRIX,),
    "packbits": (np.array([1, 0, 1], np.uint8),),
    "pad": (MATRIX, 2),
    "partition": (VECTOR, 2),
    "percentile": (MATRIX, 30),
    "polyadd": (VECTOR, VECTOR),
    "polyfit": (np.arange(4.0), VECTOR, 1),
    "polymul": (VECTOR, VECTOR),
    "polysub": (VECTOR, VECTOR),
    "polyval": (VECTOR, VECTOR),
    "quantile": (MATRIX, 0.3),
    "ravel_multi_index": ((np.array([1, 0]), np.array([2, 1])), (3, 4)),
    "repeat": (MATRIX, 2),
    "resize": (VECTOR, (3, 3)),
    "roll": (MATRIX, 2),
    "searchsorted": (np.sort(VECTOR), VECTOR),
    "select": ([VECTOR > 2, VECTOR > 1], [VECTOR, -VECTOR]),
    "setdiff1d": (VECTOR, VECTOR[:2]),
    "setxor1d": (VECTOR, VECTOR[:2]),
    "sort": (MATRIX,),
    "sort_complex": (VECTOR + 0j,),
    "take_along_axis": (MATRIX, np.array([[1], [0], [2]]), 1),
    "tile": (MATRIX, (2, 1)),
    "trace": (MATRIX,),
    "trapezoid": (VECTOR,),
    "tril": (MATRIX,),
    "triu": (MATRIX,),
    "trim_zeros": (np.array([0, 1, 0]),),
    "union1d": (VECTOR, VECTOR),
    "unique": (VECTOR,),
    "unpackbits": (np.array([5], np.uint8),),
    "unravel_index": (np.array([5, 1]), (2, 3)),
    "vander": (VECTOR,),
    "argwhere": (MATRIX > 1,),
    "real_if_close": (VECTOR + 0j,),
    "nan_to_num": (np.array([np.nan, np.inf, 1.0]),),
    "around": (MATRIX, 1),
    "unwrap": (VECTOR * 4,),
    "where": (VECTOR > 1, VECTOR, -VECTOR),
    "take": (VECTOR, np.array([2, 0])),
    "clip": (VECTOR, 1.5, 3),
    "meshgrid": (VECTOR, VECTOR[:2]),
    "flatnonzero": (MATRIX > 1,),
    "nonzero": (MATRIX > 1,),
    "concatenate": ([MATRIX, MATRIX],),
    "dstack": ([MATRIX, MATRIX],),
    "vstack": ([VECTOR, VECTOR],),
    "hstack": ([MATRIX, MATRIX],),
    "tensordot": (MATRIX, MATRIX),
    "einsum": ("ij,kj->ik", MATRIX, MATRIX),
    "outer": (VECTOR, VECTOR),
    "inner": (MATRIX, MATRIX),
    "vdot": (MATRIX, MATRIX),
    "ix_": (np.array([0, 1]), np.array([2])),
    "apply_along_axis": (lambda row: row[::-1].copy() * 2, 1, MATRIX),
    "argsort": (MATRIX,),
    "argpartition": (VECTOR, 2),
}
UNORDERED = {"partition", "argpartition"}


def lifted(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return cp.asarray(value)
    return type(value)(map(lifted, value)) if isinstance(value, (tuple, list)) else value


def lowered(value: Any) -> Any:
    return tuple(map(lowered, value)) if isinstance(value, (tuple, list)) else value.get()


def test_tables_name_only_what_cupy_has() -> None:
    names = {*derivation.SHAPED, *derivation.SAME, *derivation.POSITIONS, *derivation.TESTS, *derivation.WAITS}
    assert names | set(derivation.PLAIN) <= catalogue.names("cupy")
    assert set(derivation.MATRICES) <= catalogue.names("cupy.linalg")
    assert names <= set(CALLS), "every row of the tables is tested"


@pytest.mark.parametrize("name", CALLS)
def test_every_derived_function(name: str) -> None:
    arguments = CALLS[name]
    numpys: Any = derivation.numpy_function(name)
    options: dict[str, Any] = {"axis": 0} if name == "msort" else {}
    if name in UNORDERED:
        found = getattr(cp, name)(*lifted(arguments)).get()
        assert sorted(found.tolist()) == sorted(numpys(*arguments).tolist())
        return
    found, expected = lowered(getattr(cp, name)(*lifted(arguments))), numpys(*arguments, **options)
    for one, other in zip(*((x if isinstance(x, tuple) else (x,)) for x in (found, expected)), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-12)
        assert np.asarray(one).dtype == np.asarray(other).dtype


@pytest.mark.parametrize("name", derivation.MATRICES)
def test_every_matrix_function(name: str) -> None:
    arguments: tuple[Any, ...] = (MATRIX,)
    if name in ("solve", "lstsq", "tensorsolve"):
        arguments = (MATRIX, VECTOR[:3])
    if name == "matrix_power":
        arguments = (MATRIX, 3)
    options: dict[str, Any] = {"ind": 1} if name == "tensorinv" else {}
    found = lowered(getattr(cp.linalg, name)(*lifted(arguments), **options))
    expected = getattr(np.linalg, name)(*arguments, **options)
    for one, other in zip(*((x if isinstance(x, tuple) else (x,)) for x in (found, expected)), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)


def test_large_arrays_need_no_memory_for_shapes() -> None:
    a = cp.zeros((1 << 12, 1 << 12), np.float32)
    assert cp.median(cp.broadcast_to(cp.zeros(1, np.float32), (3, 5)), axis=1).shape == (3,)
    assert (a.T.shape, a[::2].shape, a.reshape(-1).shape) == ((4096, 4096), (2048, 4096), (1 << 24,))
