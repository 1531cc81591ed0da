"""What has made the bytes of an output: followed through copies of every shape, and refused by its name."""

from __future__ import annotations

import numpy as np
import pytest

from cudalab.checks.provenance import Maker, Origin
from cudalab.checks.streams import Trial
from tests.checks.test_streams import rules, tried

SCALE = r"""
extern "C" __global__ void scale(const float* x, float* y, int begin, int end) {
    for (int i = begin + threadIdx.x; i < end; i += blockDim.x) y[i] = 2.0f * x[i];
}"""
OWN = (
    'cp.RawKernel(\'extern "C" __global__ void own(const float* x, float* y)'
    " { y[threadIdx.x] = x[threadIdx.x] + x[threadIdx.x]; }', 'own')((1,), (64,), (x, y))"
)
COUNT = 64


def made(body: str, *, by: frozenset[Origin] | None = None) -> tuple[set[tuple[str, str]], dict[str, list[Maker]]]:
    """The findings for an answer that is to make ``y = 2 * x`` on the device and to copy it to ``out``, page-locked;
    and what else than the exercise has made bytes of both."""
    seen: dict[str, list[Maker]] = {}

    def examine(bench):
        with bench.case("64 numbers") as trial:
            values = bench.random(COUNT)
            x, y = trial.array(values), trial.empty((COUNT,), np.float32)
            out = trial.pinned(np.full(COUNT, np.nan, np.float32))
            kernel = trial.kernel(SCALE, "scale")

            def launch(begin: int, end: int) -> None:
                kernel((1,), (32,), (x, y, np.int32(begin), np.int32(end)))

            trial.call(x, y, out, launch, values)
            kept = {} if by is None else {"by": by}
            trial.expect("out", out, 2 * values, **kept)
            for name, array in (("y", y), ("out", out)):
                seen[name] = [maker for maker, _, _ in _others(trial, array)]

    lines = "".join(f"    {line}\n" for line in body.splitlines())
    return rules(tried(f"import numpy as np\ndef answer(x, y, out, launch, values):\n{lines}", examine)), seen


def _others(trial: Trial, array) -> list[tuple[Maker, int, int]]:
    return trial.provenance.others(array, frozenset({Origin.EXERCISE}))


HOME = "\ny.get(out=out)"
RIGHT = {
    "in one piece": "launch(0, 64)" + HOME,
    "in pieces": "launch(32, 64)\nlaunch(0, 32)" + HOME,
    "through a buffer": "launch(0, 64)\nkept = cp.empty_like(y)\n"
    "kind = cudart.cudaMemcpyKind.cudaMemcpyDeviceToDevice\n"
    "cudart.cudaMemcpy(kept.data.ptr, y.data.ptr, 256, kind)\nkept.get(out=out)",
    "in rows": "launch(0, 64)\nkept = cp.empty((8, 16), cp.float32)\n"
    "kind = cudart.cudaMemcpyKind.cudaMemcpyDeviceToDevice\n"
    "cudart.cudaMemcpy2D(kept.data.ptr, 64, y.data.ptr, 32, 32, 8, kind)\n"
    "cudart.cudaMemcpy2D(out.ctypes.data, 32, kept.data.ptr, 64, 32, 8, "
    "cudart.cudaMemcpyKind.cudaMemcpyDeviceToHost)",
}


@pytest.mark.parametrize("way", RIGHT)
def test_a_kernels_results_stay_its_own_through_copies(way):
    found, makers = made(RIGHT[way])
    assert not found and {one.origin for one in makers["out"]} == {Origin.KERNEL}


UPLOAD = "y.set(2 * values)"
REFUSED = {
    "computed on the host": (UPLOAD + HOME, Origin.HOST),
    "and the kernel runs before, for nothing": ("launch(0, 64)\n" + UPLOAD + HOME, Origin.HOST),
    "but for one number, which the kernel makes": (UPLOAD + "\nlaunch(5, 6)" + HOME, Origin.HOST),
    "by CuPy": ("y[:] = 2 * x" + HOME, Origin.ARRAY),
    "by CuPy, in the last bytes": ("launch(0, 63)\ny[63:] = 2 * x[63:]" + HOME, Origin.ARRAY),
    "by a kernel that is not the exercise's": (OWN + HOME, Origin.OWN_KERNEL),
}


@pytest.mark.parametrize("way", REFUSED)
def test_what_something_else_has_made_is_refused_by_name(way):
    body, origin = REFUSED[way]
    found, makers = made(body)
    assert ("correctness", f"made {origin.value}") in found and origin in {one.origin for one in makers["out"]}


def test_an_exercise_can_ask_for_something_else():
    assert made("y[:] = 2 * x" + HOME, by=frozenset({Origin.ARRAY}))[0] == set()


def test_the_line_is_known():
    _, makers = made("launch(0, 64)\n\n" + UPLOAD)
    assert [one.line for one in makers["y"]] == [5]
