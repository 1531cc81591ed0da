"""Extended-precision arithmetic: the condition code is the carry of an addition, also where a subtraction wrote it."""

from __future__ import annotations

import numpy as np
import pytest

from tests.sim.compiler.kernel_runner import HEADER, Compiled, cuda

_PTX = (
    HEADER
    + """
.visible .entry k(.param .u64 k_a, .param .u64 k_b, .param .u64 k_out)
{
.reg .b64 %a, %b, %out, %at;
.reg .b32 %t, %x, %y, %d, %carry, %borrow;
ld.param.u64 %a, [k_a];
ld.param.u64 %b, [k_b];
ld.param.u64 %out, [k_out];
cvta.to.global.u64 %a, %a;
cvta.to.global.u64 %b, %b;
cvta.to.global.u64 %out, %out;
mov.u32 %t, %tid.x;
mul.wide.u32 %at, %t, 4;
add.s64 %a, %a, %at;
add.s64 %b, %b, %at;
ld.global.u32 %x, [%a];
ld.global.u32 %y, [%b];
sub.cc.u32 %d, %x, %y;
addc.u32 %carry, 0, 0;
add.cc.u32 %d, %x, %y;
subc.u32 %borrow, 0, 0;
mul.wide.u32 %at, %t, 8;
add.s64 %out, %out, %at;
st.global.v2.u32 [%out], {%carry, %borrow};
ret;
}
"""
)


@pytest.mark.parametrize("variant", ["plain", "traced"])
def test_additions_and_subtractions_share_the_carry(variant: str) -> None:
    """A subtraction adds the complement: no borrow is a carry. NVIDIA's 128-bit division relies on it."""
    a = np.array([0, 1, 5, 7, 2**32 - 1, 2**31, 0], np.uint32)
    b = np.array([0, 2, 5, 6, 2**32 - 1, 2**31, 1], np.uint32)
    out = np.zeros((a.size, 2), np.uint32)
    Compiled(_PTX).run("k", 1, a.size, a, b, out, variant=variant)
    total = a.astype(np.uint64) + b
    np.testing.assert_array_equal(out[:, 0], a >= b)
    np.testing.assert_array_equal(out[:, 1], np.where(total >> np.uint64(32), 0, 2**32 - 1))


def test_quotients_of_128_bit_integers() -> None:
    module = cuda(
        """
        typedef unsigned long long u64;
        extern "C" __global__ void k(const u64 *n, const u64 *d, u64 *out) {
            int i = threadIdx.x;
            unsigned __int128 square = (unsigned __int128)n[i] * n[i], q = square / d[i];
            out[3 * i] = (u64)(square % d[i]);
            out[3 * i + 1] = (u64)q;
            out[3 * i + 2] = (u64)(q >> 64);
        }
        """,
        "--device-int128",
    )
    generator = np.random.default_rng(7)
    n = generator.integers(1, 2**63, 64, dtype=np.uint64) >> generator.integers(0, 40, 64, dtype=np.uint64)
    d = (
        generator.integers(1, 2**63, 64, dtype=np.uint64) >> generator.integers(0, 62, 64, dtype=np.uint64)
    ) | np.uint64(1)
    out = np.zeros((64, 3), np.uint64)
    module.run("k", 1, 64, n, d, out)
    for row, x, y in zip(out.tolist(), n.tolist(), d.tolist(), strict=True):
        quotient, rest = divmod(x * x, y)
        assert row == [rest, quotient % 2**64, quotient >> 64]
