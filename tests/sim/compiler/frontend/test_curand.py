"""cuRAND's device functions, from NVIDIA's own header: there without a further install, and right on the device."""

from __future__ import annotations

import numpy as np
import pytest

from cudalab import cp

SOURCE = """
#include <curand_kernel.h>
extern "C" __global__ void draw(unsigned long long seed, unsigned *bits, float *uniform) {
    GENERATOR state;
    curand_init(seed, threadIdx.x, 0, &state);
    bits[threadIdx.x] = curand(&state);
    uniform[threadIdx.x] = curand_uniform(&state);
}
"""


def _draw(generator: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
    bits, uniform = cp.zeros(64, cp.uint32), cp.zeros(64, cp.float32)
    kernel = cp.RawKernel(SOURCE, "draw", (f"-DGENERATOR={generator}",))
    kernel((1,), (64,), (np.uint64(seed), bits, uniform))
    return bits.get(), uniform.get()


def _philox(seed: int, sequence: int) -> list[int]:
    """The first four words of Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011)."""
    x, key = [0, 0, sequence, 0], [seed & 0xFFFFFFFF, seed >> 32]
    for _ in range(10):
        a, b = 0xD2511F53 * x[0], 0xCD9E8D57 * x[2]
        x = [(b >> 32) ^ x[1] ^ key[0], b & 0xFFFFFFFF, (a >> 32) ^ x[3] ^ key[1], a & 0xFFFFFFFF]
        key = [(key[0] + 0x9E3779B9) & 0xFFFFFFFF, (key[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return x


def test_philox_is_that_of_its_paper() -> None:
    seed = 0x1234_5678_9ABC
    bits, uniform = _draw("curandStatePhilox4_32_10_t", seed)
    words = [_philox(seed, sequence) for sequence in range(64)]
    assert bits.tolist() == [word[0] for word in words]
    expected = np.array([word[1] for word in words], np.float32) * np.float32(2**-32) + np.float32(2**-33)
    assert np.allclose(uniform, expected, rtol=1e-6)


@pytest.mark.parametrize("generator", ["curandState", "curandStatePhilox4_32_10_t"])
def test_each_thread_has_numbers_of_its_own_and_a_seed_repeats_them(generator: str) -> None:
    bits, uniform = _draw(generator, 1234)
    assert len(set(bits.tolist())) == 64
    assert (0 < uniform).all() and (uniform <= 1).all() and 0.3 < uniform.mean() < 0.7
    again, other = _draw(generator, 1234)[0], _draw(generator, 1235)[0]
    assert (bits == again).all() and (bits != other).any()
