"""`cupyx.profiler` on the simulated device: the same signature, checks and text as CuPy's, with modelled times."""

from __future__ import annotations

import inspect
import subprocess
import sys

import numpy as np
import pytest

from cudalab.sim import cupy as cp
from cudalab.sim import cupyx
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


def test_scattered_updates_count_each_time_an_element_is_named() -> None:
    a, where = cp.zeros(6, cp.float32), cp.asarray([1, 0, 1, 2])
    values = cp.asarray([1, 2, 3, -1], cp.float32)
    cupyx.scatter_add(a, where, values)
    assert a.get().tolist() == [2, 4, -1, 0, 0, 0]
    cupyx.scatter_max(a, where, values)
    assert a.get().tolist() == [2, 4, -1, 0, 0, 0]
    cupyx.scatter_min(a, where, values)
    assert a.get().tolist() == [2, 1, -1, 0, 0, 0]
    grid = cp.zeros((2, 3), cp.int32)
    cupyx.scatter_add(grid, (slice(None), cp.asarray([0, 0, 2])), 1)
    assert grid.get().tolist() == [[2, 0, 1], [2, 0, 1]]


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.complex64])
def test_rsqrt(dtype: type) -> None:
    found = cupyx.rsqrt(cp.asarray([1, 4, 16], dtype))
    assert found.dtype == dtype
    assert np.allclose(found.get(), [1, 0.5, 0.25])
    assert cupyx.rsqrt.name == "cupy_rsqrt"


def test_arrays_in_page_locked_memory() -> None:
    shaped = cupyx.zeros_pinned((3, 4), np.float32, order="F")
    assert (shaped.shape, shaped.dtype, shaped.flags.f_contiguous, shaped.any()) == ((3, 4), np.float32, True, False)
    like = cupyx.empty_like_pinned(cp.zeros((5, 6), np.int16).T)
    assert (like.shape, like.dtype, like.strides) == ((6, 5), np.int16, (2, 12))
    for host in (shaped, like, cupyx.empty_pinned(7), cupyx.zeros_like_pinned(np.ones(3))):
        assert cp.cuda.pinned_memory.is_memory_pinned(host.ctypes.data)
    assert cupyx.zeros_like_pinned(np.ones(3)).tolist() == [0, 0, 0]
    with pytest.raises(TypeError, match="subok"):
        cupyx.empty_like_pinned(shaped, subok=True)


def test_a_time_range_is_a_context_manager_and_a_decorator() -> None:
    @profiler.time_range()
    def work(n: int) -> int:
        return n + 1

    with profiler.time_range("outer", color_id=2, sync=True):
        assert work(1) == 2
    assert work.__name__ == "work"
    with pytest.raises(ValueError, match="Only either"):
        profiler.time_range("both", color_id=1, argb_color=2)
    with pytest.raises(ValueError, match="message"), profiler.time_range():
        pass


def test_marks_of_nvtx_have_no_effect() -> None:
    nvtx = cp.cuda.nvtx
    nvtx.RangePush("a", 1)
    nvtx.Mark("b")
    nvtx.RangePop()
    nvtx.RangeEnd(nvtx.RangeStart("c"))
    assert nvtx.available


INSTEAD = {
    "cupyx.jit": "cp.RawKernel or in a %%cuda cell",
    "cupyx.scipy": "NumPy and SciPy on the host",
    "cp.fuse": "cp.ElementwiseKernel",
    "cp.vectorize": "cp.ElementwiseKernel",
    "cp.fromDlpack": "cp.from_dlpack",
    "cp.zeros(1).toDlpack": "cp.from_dlpack",
    "cp.cuda.cufft": "cp.fft",
    "cp.cuda.cublas": "a @ b",
    "cp.cuda.nccl": "one simulated device",
    "cp.cuda.memory_hooks.LineProfileHook": "DebugPrintHook",
}


@pytest.mark.parametrize("name", INSTEAD)
def test_what_is_not_simulated_says_what_to_write_instead(name: str) -> None:
    with pytest.raises(AttributeError, match="is not simulated: CuPy .* works on a machine with a GPU") as caught:
        eval(name)
    assert INSTEAD[name] in str(caught.value)


def test_a_name_that_nobody_has() -> None:
    with pytest.raises(AttributeError, match="module 'cupyx' has no attribute 'scatter_mul'"):
        cupyx.scatter_mul  # noqa: B018


def test_from_dlpack_gives_a_view_of_an_array_on_the_device() -> None:
    a = cp.arange(6, dtype=cp.int32).reshape(2, 3)
    view = cp.from_dlpack(a)
    view[0, 0] = 7
    assert (a[0, 0].item(), view.data.ptr) == (7, a.data.ptr)
    assert cp.from_dlpack(a, copy=True).data.ptr != a.data.ptr
    assert a.__dlpack_device__() == (2, 0)


def test_dlpack_reaches_other_libraries_by_a_copy_only() -> None:
    a = cp.arange(6, dtype=cp.int32)
    assert np.from_dlpack(a, device="cpu").tolist() == [0, 1, 2, 3, 4, 5]
    with pytest.raises(BufferError, match=r"cp\.asnumpy\(a\) gives a NumPy array"):
        np.from_dlpack(a)
    with pytest.raises(TypeError, match="CPU arrays cannot be directly imported to CuPy"):
        cp.from_dlpack(np.arange(3))

    class OnAGpu:
        def __dlpack_device__(self) -> tuple[int, int]:
            return 2, 0

    with pytest.raises(BufferError, match="cannot reach the memory of a OnAGpu: bring it to the host first"):
        cp.from_dlpack(OnAGpu())
