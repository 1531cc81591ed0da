"""The headers of C that tutorials include: they compile on the device, with what they declare there."""

from __future__ import annotations

import numpy as np
import pytest

from cudalab import cp
from cudalab.sim.compiler import compile
from cudalab.sim.compiler.frontend.headers import STANDARD_HEADERS, include_directories

HEADERS = sorted(path.name for path in STANDARD_HEADERS.iterdir())
KERNEL = 'extern "C" __global__ void k(int *x) { x[0] = 1; }\n'
#: header → condition that holds with it; without std, and with
DECLARES = {
    "cassert": "(assert(x[0] == 0), true)",
    "cfloat": "FLT_MAX == 3.402823466e+38f && DBL_EPSILON > 0 && FLT_RADIX == 2",
    "climits": "INT_MAX == 2147483647 && INT_MIN < 0 && CHAR_BIT == 8 && LONG_MAX > 0",
    "cmath": "std::sqrt(4.0f) == 2.0f && std::isinf(INFINITY) && std::isnan(NAN) && sin(M_PI) < 1e-15",
    "cstddef": "sizeof(std::size_t) == 8 && offsetof(float2, y) == 4",
    "cstdint": "sizeof(std::uint8_t) == 1 && sizeof(int64_t) == 8 && UINT32_MAX == 0xffffffff",
    "cstdio": '(std::printf("%d", x[0]), true)',
    "cstdlib": "std::abs(-1) == 1 && EXIT_SUCCESS == 0",
    "cstring": "(std::memset(x, 0, 4), x[0] == 0)",
    "ctime": "std::clock() >= 0",
    "stdbool.h": "true",
}


def test_the_headers_that_tutorials_begin_with() -> None:
    wanted = {"stdio.h", "stdint.h", "math.h", "cassert", "cstdio", "cstdint", "cmath", "assert.h", "stdlib.h"}
    assert wanted <= set(HEADERS)
    assert include_directories()[-1] == str(STANDARD_HEADERS), "CUDA's own headers go first"


@pytest.mark.parametrize("standard", ["c++11", "c++14", "c++17", "c++20"])
def test_all_of_them_together(standard: str) -> None:
    includes = "".join(f"#include <{name}>\n" for name in [*HEADERS, "cuda_runtime.h", "cuda.h"])
    program = compile(includes + KERNEL, options=(f"--std={standard}",))
    assert "error" not in program.log


@pytest.mark.parametrize("order", ["before", "after"])
def test_beside_libcu_plus_plus(order: str) -> None:
    ours = "#include <cstdint>\n#include <climits>\n"
    theirs = "#include <cuda/std/cstdint>\n#include <cuda/std/climits>\n"
    program = compile((ours + theirs if order == "before" else theirs + ours) + KERNEL)
    assert "warning" not in program.log


@pytest.mark.parametrize("header", DECLARES)
def test_what_a_header_declares(header: str) -> None:
    source = f'#include <{header}>\nextern "C" __global__ void k(int *x) {{ x[1] = {DECLARES[header]}; }}'
    x = cp.zeros(2, np.int32)
    cp.RawKernel(source, "k")((1,), (1,), (x,))
    assert x.get()[1] == 1


def test_every_header_of_c_plus_plus_is_looked_at() -> None:
    assert {name for name in HEADERS if not name.endswith(".h")} <= set(DECLARES)


def test_ndebug_switches_assertions_off() -> None:
    source = '#include <cassert>\nextern "C" __global__ void k(int *x) { assert(x[0] == 7); x[0] = 3; }'
    x = cp.zeros(1, np.int32)
    cp.RawKernel(source, "k", ("-DNDEBUG",))((1,), (1,), (x,))
    assert x.get()[0] == 3
