"""Kernel arguments: what is passed, and what is refused with the reason."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cudalab.sim.cupy as cp

KINDS = {
    "signed char": "int8",
    "unsigned char": "uint8",
    "short": "int16",
    "unsigned short": "uint16",
    "int": "int32",
    "unsigned int": "uint32",
    "long long": "int64",
    "unsigned long long": "uint64",
    "float": "float32",
    "double": "float64",
}
_names = {ctype: ctype.replace(" ", "_") for ctype in KINDS}
_code = "".join(
    f"__global__ void value_{_names[c]}({c} x, {c}* out) {{ out[0] = x; }}\n"
    f"__global__ void array_{_names[c]}(const {c}* x, {c}* out) {{ out[0] = x[0]; }}\n"
    for c in KINDS
)
MODULE = cp.RawModule(
    code=f"""
struct Pair {{ int a; double b; }};
extern "C" {{
{_code}
__global__ void pair(Pair p, double* out) {{ out[0] = p.a * 100 + p.b; }}
__global__ void vector(const float4* x, float* out) {{ out[0] = x[0].w; }}
__global__ void anything(const void* x, int* out) {{ out[0] = ((const int*)x)[0]; }}
__global__ void bytes(const char* x, int* out) {{ out[0] = x[1]; }}
__global__ void flag(bool x, int* out) {{ out[0] = x; }}
__global__ void saxpy(float a, const float* x, float* y, int n) {{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] += a * x[i];
}}
}}
template <typename T> __global__ void twice(T* x) {{ x[0] *= 2; }}
""",
    name_expressions=["twice<double>"],
)


def launch(name: str, *args: Any) -> None:
    MODULE.get_function(name)((1,), (1,), args)


@pytest.mark.parametrize("ctype", KINDS)
def test_numpy_scalars_of_the_declared_type(ctype: str) -> None:
    dtype = np.dtype(KINDS[ctype])
    extreme = np.finfo(dtype).max if dtype.kind == "f" else np.iinfo(dtype).max
    out = cp.zeros(1, dtype)
    launch(f"value_{_names[ctype]}", dtype.type(extreme), out)
    assert out.get()[0] == extreme


@pytest.mark.parametrize("ctype", [c for c in KINDS if "float" not in KINDS[c]])
def test_python_integers_that_fit(ctype: str) -> None:
    limits = np.iinfo(KINDS[ctype])
    out = cp.zeros(1, KINDS[ctype])
    for value in (int(limits.min), int(limits.max), 0, 7):
        launch(f"value_{_names[ctype]}", value, out)
        assert out.get()[0] == value
    with pytest.raises(OverflowError, match=rf"'x' \({ctype}\).*does not fit {8 * out.itemsize} bits"):
        launch(f"value_{_names[ctype]}", 1 << 8 * out.itemsize, out)


@pytest.mark.parametrize("ctype", KINDS)
@pytest.mark.parametrize("given", KINDS.values())
def test_arrays_of_another_element_type_are_refused(ctype: str, given: str) -> None:
    wanted, found = np.dtype(KINDS[ctype]), np.dtype(given)
    values, out = cp.ones(1, given), cp.zeros(1, wanted)
    integers = wanted.kind in "iu" and found.kind in "iu"
    if found == wanted or (integers and found.itemsize == wanted.itemsize):
        launch(f"array_{_names[ctype]}", values, out)
        assert out.get()[0] == 1
        return
    with pytest.raises(TypeError, match=rf"'x' \({ctype} const\*\): got an array of {given}.*astype\(np.{wanted}\)"):
        launch(f"array_{_names[ctype]}", values, out)


_FLOATS, _SCALAR = object(), object()
"""Stand for arrays, which are made when the device of the test is there."""
REFUSED: dict[str, tuple[tuple[Any, ...], str]] = {
    "a Python float for a float": ((2.5, _FLOATS, _FLOATS, 3), r"'a' \(float\).*np\.float32\(x\)"),
    "an int for a float": ((2, _FLOATS, _FLOATS, 3), r"'a' \(float\).*np\.float32\(x\)"),
    "a float for an int": ((np.float32(2), _FLOATS, _FLOATS, 3.0), r"'n' \(int\).*np\.int32\(x\)"),
    "too few": ((np.float32(2), _FLOATS, _FLOATS), r"takes 4 arguments .*got 3: int n is missing"),
    "too many": ((np.float32(2), _FLOATS, _FLOATS, 3, 4), r"got 5: 1 too many"),
    "an array for a value": ((np.float32(2), _FLOATS, _FLOATS, _SCALAR), r"'n' \(int\).*\.item\(\)"),
    "a value for an array": ((np.float32(2), 1.5, _FLOATS, 3), r"'x' \(float const\*\).*pass a CuPy array"),
    "a NumPy array": ((np.float32(2), np.ones(1, "f4"), _FLOATS, 3), r"'x'.*host's memory.*cp\.asarray"),
    "a short integer for a pointer": ((np.float32(2), np.int32(0), _FLOATS, 3), r"'x'.*8 bytes"),
    "a string": ((np.float32(2), "x", _FLOATS, 3), r"Unsupported type <class 'str'>"),
    "half an integer": ((np.float32(2), _FLOATS, _FLOATS, np.int16(3)), r"'n' \(int\).*np\.int32\(x\)"),
    "None for a value": ((np.float32(2), _FLOATS, _FLOATS, None), r"'n' \(int\): got None"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case: str) -> None:
    args, text = REFUSED[case]
    arrays = {id(_FLOATS): cp.ones(3, np.float32), id(_SCALAR): cp.array(3)}
    with pytest.raises(TypeError, match=text):
        launch("saxpy", *(arrays.get(id(each), each) for each in args))


def test_the_note_on_a_host_array_says_what_to_write() -> None:
    with pytest.raises(TypeError, match="Only numpy.ndarrays of size one") as caught:
        launch("saxpy", np.float32(1), np.ones(3, "f4"), cp.ones(3, "f4"), 3)
    assert "cp.asarray(a)" in caught.value.__notes__[0]
    assert "'x'" in caught.value.__notes__[0]


def test_all_of_saxpy() -> None:
    x, y = np.arange(1000, dtype=np.float32), np.ones(1000, np.float32)
    device = cp.asarray(y)
    MODULE.get_function("saxpy")((8,), (128,), (np.float32(0.5), cp.asarray(x), device, x.size))
    assert device.tolist() == (y + np.float32(0.5) * x).tolist()


def test_structs_and_vectors() -> None:
    out = cp.zeros(1)
    pair = np.dtype([("a", "i4"), ("b", "f8")], align=True)
    for value in (np.array((3, 0.5), pair), np.array([(3, 0.5)], pair), np.array([(3, 0.5)], pair)[0]):
        launch("pair", value, out)
        assert float(out[0]) == 300.5
    with pytest.raises(TypeError, match=r"'p' \(Pair\): got 12 bytes.*has 16 bytes.*align=True"):
        launch("pair", np.array((3, 0.5), np.dtype([("a", "i4"), ("b", "f8")])), out)
    last = cp.zeros(1, np.float32)
    launch("vector", cp.arange(8, dtype=np.float32), last)
    assert float(last[0]) == 3


def test_untyped_pointers_take_any_array() -> None:
    out = cp.zeros(1, np.int32)
    for dtype in ("i4", "u4", "i8"):
        launch("anything", cp.array([7, 8], dtype), out)
        assert int(out[0]) == 7
    launch("bytes", cp.array([0x0201], np.int16), out)
    assert int(out[0]) == 2


def test_addresses_for_pointers() -> None:
    x, out = cp.array([2.5], np.float32), cp.zeros(1, np.float32)
    for value in (x.data, x.data.ptr, np.uint64(x.data.ptr), np.int64(x.data.ptr), np.array(x.data.ptr)):
        out.fill(0)
        launch("array_float", value, out)
        assert float(out[0]) == 2.5
    with pytest.raises(OverflowError, match="less than 2\\*\\*64"):
        launch("array_float", -1, out)


@pytest.mark.parametrize("value", [True, False, np.True_, np.False_, 0, 1])
def test_booleans(value: Any) -> None:
    out = cp.full(1, 7, np.int32)
    launch("flag", value, out)
    assert int(out[0]) == int(value)


def test_a_template_checks_its_own_types() -> None:
    kernel = MODULE.get_function("twice<double>")
    x = cp.array([1.5])
    kernel((1,), (1,), (x,))
    assert float(x[0]) == 3
    with pytest.raises(TypeError, match=r"double\*.*got an array of float32"):
        kernel((1,), (1,), (cp.ones(1, np.float32),))


def test_a_view_is_passed_by_its_first_element() -> None:
    out = cp.zeros(1, np.float32)
    launch("array_float", cp.arange(10, dtype=np.float32)[4:], out)
    assert float(out[0]) == 4
