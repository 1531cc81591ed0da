"""`cupyx.profiler` on the simulated device: the same signature, checks and text as CuPy's, with modelled times."""

from __future__ import annotations

import inspect
import subprocess
import sys

import numpy as np
import pytest

from cudalab.sim import cupy as cp
from cudalab.sim.cupyx import profiler

CODE = 'extern "C" __global__ void scale(float* x, float f) { x[blockIdx.x * 256 + threadIdx.x] *= f; }'


def test_each_call_runs_and_is_timed() -> None:
    x, kernel = cp.ones(1 << 16, cp.float32), cp.RawKernel(CODE, "scale")
    found = profiler.benchmark(lambda f: kernel((256,), (256,), (x, np.float32(f))), (2,), n_repeat=5, n_warmup=3)
    assert np.array_equal(cp.asnumpy(x), np.full(1 << 16, 2.0**8, np.float32))
    assert found.cpu_times.shape == (5,) and found.gpu_times.shape == (1, 5)
    assert (found.cpu_times > 0).all() and (found.cpu_times < 1e-4).all()
    assert (found.gpu_times > 1e-6).all() and (found.gpu_times < 1e-4).all()


def test_more_work_takes_longer() -> None:
    def times(n: int) -> float:
        x, kernel = cp.ones(n, cp.float32), cp.RawKernel(CODE, "scale")
        run = profiler.benchmark(kernel, ((n // 256,), (256,), (x, np.float32(1))), n_repeat=3, name="k")
        return float(run.gpu_times.mean())

    assert times(1 << 24) > 3 * times(1 << 18)


def test_keyword_arguments_are_passed_on() -> None:
    seen = []
    profiler.benchmark(lambda *args, **kwargs: seen.append((args, kwargs)), (1,), {"a": 2}, 2, n_warmup=1)
    assert seen == [((1,), {"a": 2})] * 3


def test_it_ends_after_max_duration() -> None:
    found = profiler.benchmark(lambda: None, n_repeat=10_000, n_warmup=0, max_duration=0.0)
    assert found.cpu_times.shape == (1,)


def test_the_text_is_cupy_s() -> None:
    times = np.array([[1e-6, 3e-6], [2e-5, 4e-5]])
    found = profiler._PerfCaseResult("scale", times, (0,))
    cpu = "    CPU:     2.000 us   +/-  1.000 (min:     1.000 / max:     3.000) us"
    gpu = "    GPU-0:    30.000 us   +/- 10.000 (min:    20.000 / max:    40.000) us"
    assert str(found) == repr(found) == f"{'scale':<20s}:{cpu} {gpu}"
    assert found.to_str() == f"{'scale':<20s}:{cpu}"
    assert profiler._PerfCaseResult("one", times[:, :1], (0,)).to_str() == f"{'one':<20s}:    CPU:     1.000 us"


@pytest.mark.parametrize(
    ("arguments", "options", "text"),
    [
        ((len, [1]), {}, "`args` should be of tuple type."),
        ((len, (), []), {}, "`kwargs` should be of dict type."),
        ((len, (), {}, 2.0), {}, "`n_repeat` should be an integer."),
        ((len,), {"name": 3}, "`name` should be a string."),
        ((len,), {"n_warmup": 1.5}, "`n_warmup` should be an integer."),
        ((len,), {"max_duration": 1j}, "`max_duration` should be given in seconds"),
        ((len,), {"devices": [0]}, "`devices` should be of tuple type"),
        ((3,), {"name": "three"}, "`func` should be a callable object."),
    ],
)
def test_wrong_arguments_are_refused_as_by_cupy(arguments: tuple, options: dict, text: str) -> None:
    with pytest.raises(ValueError) as error:
        profiler.benchmark(*arguments, **options)
    assert str(error.value) == text


def test_a_device_that_is_not_there() -> None:
    with pytest.raises(cp.cuda.runtime.CUDARuntimeError, match="cudaErrorInvalidDevice"):
        profiler.benchmark(lambda: None, n_repeat=1, devices=(1,))


def test_what_is_missing_says_what_there_is() -> None:
    from cudalab.sim import cupyx

    with pytest.raises(AttributeError, match="no cupyx.scipy; of cupyx there is cupyx.profiler"):
        _ = cupyx.scipy
    with pytest.raises(AttributeError, match="no cupyx.profiler.time_range; there are benchmark and profile"):
        _ = profiler.time_range


def test_profile_is_a_context() -> None:
    with profiler.profile():
        cp.arange(3)


def test_signatures_are_cupy_s() -> None:
    real = pytest.importorskip("cupyx.profiler", reason="CuPy is not installed", exc_type=ImportError)
    assert [(p.name, p.default, p.kind) for p in inspect.signature(real.benchmark).parameters.values()] == [
        (p.name, p.default, p.kind) for p in inspect.signature(profiler.benchmark).parameters.values()
    ]
    public = {name for name in dir(real._time._PerfCaseResult) if not name.startswith("_")}
    assert {name for name in dir(profiler._PerfCaseResult) if not name.startswith("_")} == public
    assert set(profiler.__all__) <= set(dir(real))
    times = np.array([[1e-6, 3e-6], [2e-5, 4e-5]])
    assert str(real._time._PerfCaseResult("k", times, (0,))) == str(profiler._PerfCaseResult("k", times, (0,)))


def test_the_package_gives_it() -> None:
    code = "from cudalab import cupyx; print(cupyx.profiler.benchmark.__module__)"
    environment = {"CUDALAB_DEVICE": "sim", "PATH": ""}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    assert done.stdout.strip() == "cudalab.sim.cupyx.profiler"
