"""The simulated CuPy answers as the real one did on an H200 (`facts.json`), program by program."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest

import cudalab.sim.cupy as cp
from tests import slices

from . import record
from .programs import PROGRAMS

FACTS: dict[str, Any] = json.loads((Path(__file__).parent / "facts.json").read_text())["facts"]

# Answers that differ, on purpose: what the simulated CuPy gives instead, and why.
OTHER_ERROR = {  # name: (error, part of its text)
    "kernels_arguments.005": ("OverflowError", "does not fit 32 bits"),  # the GPU drops the upper half in silence
    "kernels_arguments.015": ("TypeError", "np.int64(x)"),  # reads 4 bytes too many; they happened to be 0
    "kernels_arguments.019": ("TypeError", "float(x)"),  # the bytes of an integer, read as a double
    "kernels_arguments.021": ("TypeError", "np.float32(x)"),  # half of a double
    "kernels_arguments.022": ("TypeError", "np.float32(x)"),
    "kernels_arguments.023": ("TypeError", "np.float32(x)"),
    "kernels_arguments.024": ("TypeError", "float(x)"),
    "kernels_arguments.029": ("TypeError", ".astype(np.float32)"),  # a float64 array for float*
    "kernels_arguments.052": ("OverflowError", "does not fit 32 bits"),
    "more_arguments.001": ("TypeError", "got None"),  # CuPy passes a null pointer's bytes
    "more_arguments.002": ("TypeError", "got None"),
    "more_arguments.004": ("TypeError", "True or False"),
    "more_arguments.005": ("TypeError", "True or False"),
    "more_arguments.011": ("TypeError", "np.int32(x)"),
    "more_arguments.015": ("TypeError", "float(x)"),
    "more_arguments.016": ("TypeError", "float(x)"),
    "more_arguments.017": ("TypeError", "8 bytes"),
    "more_arguments.018": ("TypeError", "16 bytes"),
    "more_arguments.019": ("TypeError", "pass a CuPy array"),  # an illegal access on a GPU
    "more_arguments.020": ("TypeError", "pass a CuPy array"),
    "more_arguments.021": ("TypeError", ".item()"),  # half of an address
    "more_arguments.022": ("TypeError", "np.float32(x)"),
    "more_arguments.028": ("TypeError", ".astype(np.float32)"),
    "more_arguments.029": ("TypeError", ".astype(np.int32)"),
    "more_arguments.033": ("TypeError", "double* o is missing"),  # CUDA_ERROR_INVALID_VALUE on a GPU
    "more.112": ("TypeError", "Unsupported type <class 'list'>"),  # CuPy stumbles over the list's lack of `ravel`
    "more.116": ("TypeError", "Unsupported type <class 'list'>"),
    "more.119": ("TypeError", "incorrect type"),
    "more.123": ("ValueError", "Size of label 'j'"),
    "more.277": ("ValueError", "Input must be >= 2-d"),
    "kernels.050": ("AttributeError", "cupy.fuse is not simulated"),
    "user_kernels.014": ("CompileException", '"n" is undefined'),  # the code around the statement is CuPy's own
    "user_kernels.022": ("CompileException", '"n" is undefined'),
    "user_kernels.040": ("CompileException", 'overloaded function "norm" has "C" linkage'),
    "user_kernels.041": ("CompileException", 'overloaded function "norm" has "C" linkage'),
    "user_kernels.055": ("CompileException", '"float64" is undefined'),
    "manipulation.125": ("AttributeError", "cupy.vectorize is not simulated"),
    "pool.055": ("AttributeError", "cupy.fuse is not simulated"),
    # Python words its own errors differently from Cython
    "attributes.042": ("AttributeError", "dtype"),
    "kernels.024": ("TypeError", "args"),
    "kernels.034": ("AttributeError", "no attribute 'x'"),
    "kernels.035": ("TypeError", "name"),
    "kernels.037": ("TypeError", "positional"),
    "reductions.072": ("TypeError", "unexpected keyword argument 'initial'"),
    "more.215": ("TypeError", "positional"),
    "streams.027": ("TypeError", "positional arguments"),
    "streams.045": ("TypeError", "unhashable"),
}
OTHER_VALUE = {
    "layout.062": "a scan's result lies in C order",
    "layout.068": "CuPy gives a view of the new array",
    "layout.069": "CuPy gives a view of the new array",
    "layout.085": "einsum copies where CuPy gives a view",
    "layout.089": "an inverse lies in C order",
    "types.204": "percentiles of booleans",
    "types.240": "rfft of complex numbers",
    "types.255": "interp with booleans",
    "manipulation.114": "an inverse of a singular matrix is NaN throughout; cuSOLVER's has an infinity in it",
    "pool.002": "a block that is handed out at another size has another address",
    "pool.003": "arrays out of one split block do not touch",
    "pool.005": "as pool.002",
    "pool.006": "as pool.002",
    "pool.041": "ctypes says '<b' for 'b'",
    "runtime.034": "an address",
}

RANDOM = {"more.200": {1, 2, 3}}
"""Programs without a seed: the values that they choose from."""


def same(expected: Any, found: Any) -> bool:
    """Equal, floats up to 1e-6, and numbers that depend on what ran before left out of messages."""
    if isinstance(expected, dict) and isinstance(found, dict):
        return expected.keys() == found.keys() and all(same(expected[key], found[key]) for key in expected)
    if isinstance(expected, list) and isinstance(found, list):
        return len(expected) == len(found) and all(map(same, expected, found))
    if isinstance(expected, float) and isinstance(found, float):
        both_nan = math.isnan(expected) and math.isnan(found)
        return both_nan or math.isclose(expected, found, rel_tol=1e-6, abs_tol=1e-12)
    if isinstance(expected, str) and isinstance(found, str):
        return _plain(expected) == _plain(found)
    return type(expected) is type(found) and expected == found


def _plain(text: str) -> str:
    if text == "CompileException":  # CuPy's own kernel does not compile for some types; here they are refused
        text = "TypeError"
    return re.sub(r"allocated so far: [\d,]+", "allocated so far: N", text)


NAMES = [name for name in PROGRAMS if "process" not in str(FACTS[name])[:12]]


def answer(name: str) -> Any:
    return json.loads(json.dumps(record.run(PROGRAMS[name], cp, cp.ndarray)))


ALIKE = [name for name in NAMES if name not in OTHER_ERROR | OTHER_VALUE | RANDOM]


@pytest.mark.parametrize("name", slices.cases(ALIKE, kind=lambda name: name.split(".")[0]))
def test_answers_as_the_real_cupy(name: str) -> None:
    found = answer(name)
    assert same(FACTS[name], found), f"{PROGRAMS[name]}\n real: {FACTS[name]}\n ours: {found}"


@pytest.mark.parametrize("name", OTHER_ERROR)
def test_explains_what_a_gpu_does_in_silence(name: str) -> None:
    error, text = OTHER_ERROR[name]
    found = answer(name)
    assert found["error"] == error
    assert text in found["message"]


@pytest.mark.parametrize("name", OTHER_VALUE)
def test_known_differences_are_still_differences(name: str) -> None:
    assert not same(FACTS[name], answer(name)), f"{name} agrees now: take it off the list"


@pytest.mark.parametrize("name", RANDOM)
def test_random_numbers_have_the_form_of_the_real_ones(name: str) -> None:
    found = answer(name)
    assert set(found.pop("array")) <= RANDOM[name]
    assert found == {key: value for key, value in FACTS[name].items() if key != "array"}


def test_every_program_has_a_fact() -> None:
    assert set(FACTS) == set(PROGRAMS)
    assert len(NAMES) == len(PROGRAMS)
