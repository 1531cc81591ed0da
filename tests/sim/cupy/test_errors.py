"""Errors: CuPy's types, numbers and texts, with an explanation in the notes; and a process that goes on."""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import cudalab.sim.cupy as cp
from cudalab.sim import device as sim_device

OVERRUN = cp.RawKernel(
    """extern "C" __global__ void overrun(float* x) {
    x[threadIdx.x] = 1.0f;
}""",
    "overrun",
)


def notes(error: BaseException) -> str:
    return "\n".join(getattr(error, "__notes__", ()))


def lose_the_device() -> None:
    OVERRUN((1,), (64,), (cp.zeros(10, np.float32),))
    with pytest.raises(cp.cuda.runtime.CUDARuntimeError):
        cp.cuda.Device().synchronize()


def test_an_illegal_access_names_line_thread_and_distance() -> None:
    OVERRUN((1,), (64,), (cp.zeros(10, np.float32),))
    with pytest.raises(cp.cuda.runtime.CUDARuntimeError, match="cudaErrorIllegalAddress: an illegal memory") as caught:
        cp.cuda.Device().synchronize()
    assert caught.value.status == 700
    assert "x[threadIdx.x] = 1.0f;" in notes(caught.value)
    assert "overrun" in notes(caught.value)


TWICE = cp.RawKernel('extern "C" __global__ void twice(int* x) { x[threadIdx.x] *= 2; }', "twice")


@pytest.mark.parametrize("grid", [(0,), (-1,), (1, 0)])
def test_an_empty_grid_runs_one_block_as_under_cupy_and_says_so(grid: tuple[int, ...]) -> None:
    x = cp.ones(32, np.int32)
    with pytest.warns(UserWarning, match=r"grid=.*: CuPy launches 1 where .* \(n \+ threads - 1\)") as caught:
        TWICE(grid, (32,), (x,))
    assert caught[0].filename == __file__, "the learner's own line"
    assert (x.get() == 2).all()


def test_a_grid_of_floats_says_how_to_divide() -> None:
    with pytest.raises(TypeError, match="'float' object cannot be interpreted as an integer") as caught:
        TWICE((1024 / 256,), (32,), (cp.ones(32, np.int32),))
    assert "grid=(4.0,)" in notes(caught.value) and "(n + 255) // 256" in notes(caught.value)


def test_a_launch_in_numbas_way_shows_cupys() -> None:
    with pytest.raises(TypeError, match="'RawKernel' object is not subscriptable") as caught:
        TWICE[1, 32](cp.ones(32, np.int32))
    assert "kernel((blocks,), (threads,), (x,))" in notes(caught.value)


def test_a_module_from_a_source_file_asks_for_its_text(tmp_path: Path) -> None:
    path = tmp_path / "x.cu"
    with pytest.raises(cp.cuda.driver.CUDADriverError, match="CUDA_ERROR_FILE_NOT_FOUND") as caught:
        cp.RawModule(path=str(path)).get_function("twice")
    assert f"no file {str(path)!r}" in notes(caught.value)
    path.write_text(TWICE.code)
    with pytest.raises(cp.cuda.driver.CUDADriverError, match="CUDA_ERROR_INVALID_IMAGE") as caught:
        cp.RawModule(path=str(path)).get_function("twice")
    assert f"cp.RawModule(code=open({str(path)!r}).read())" in notes(caught.value)


def test_a_lost_device_stays_lost_until_a_reset() -> None:
    lose_the_device()
    for call in (lambda: cp.zeros(3), lambda: cp.cuda.Stream(), lambda: cp.cuda.runtime.malloc(100)):
        with pytest.raises(cp.cuda.runtime.CUDARuntimeError, match="cudaErrorIllegalAddress"):
            call()
    with pytest.raises(cp.cuda.driver.CUDADriverError, match="CUDA_ERROR_ILLEGAL_ADDRESS"):
        OVERRUN((1,), (1,), (0,))
    sim_device.reset()
    x = cp.zeros(64, np.float32)
    OVERRUN((1,), (64,), (x,))  # compiled kernels are loaded again
    assert x.tolist() == [1.0] * 64
    assert (cp.arange(3) + 1).tolist() == [1, 2, 3]


@pytest.mark.parametrize(
    "use",
    [
        lambda old: old.get(),
        lambda old: old[2].item(),
        lambda old: old[::2].copy(),
        lambda old: old + 1,
        lambda old: cp.ones(64, np.float32) + old,
        lambda old: old.fill(2),
        lambda old: old.__setitem__(0, 2),
        lambda old: old.set(np.zeros(64, np.float32)),
        lambda old: cp.ones(64, np.float32).data.copy_from_device(old.data, 256),
        lambda old: old.data.memset(0, 256),
        lambda old: OVERRUN((1,), (64,), (old,)),
        lambda old: OVERRUN((1,), (64,), (old.data,)),
        lambda old: repr(old),
    ],
)
def test_arrays_from_before_a_reset_are_refused_even_at_an_address_that_is_used_again(
    use: Callable[[cp.ndarray], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    old = cp.ones(64, np.float32)
    sim_device.reset()
    new = cp.arange(64, dtype=np.float32)
    monkeypatch.setattr(old.data, "ptr", new.data.ptr)
    with pytest.raises(cp.cuda.runtime.CUDARuntimeError, match="cudaErrorInvalidValue") as caught:
        use(old)
    assert "was on the device before it was reset, and what was there is lost" in notes(caught.value)
    assert new.tolist() == list(range(64))


@pytest.mark.parametrize(
    ("grid", "block", "shared", "text"),
    [
        ((1,), (2048,), 0, "1024"),
        ((1,), (1, 1, 128), 0, "64"),
        ((1, 70000), (1,), 0, "65535"),
        ((1,), (1,), 60000, "49152"),
    ],
)
def test_configurations_that_no_device_takes(
    grid: tuple[int, ...], block: tuple[int, ...], shared: int, text: str
) -> None:
    with pytest.raises(cp.cuda.driver.CUDADriverError) as caught:
        OVERRUN(grid, block, (cp.zeros(1, np.float32),), shared_mem=shared)
    assert caught.value.status == 1
    assert str(caught.value) == "CUDA_ERROR_INVALID_VALUE: invalid argument"
    assert text in notes(caught.value).replace(",", "")
    assert cp.ones(2).tolist() == [1.0, 1.0]


def test_more_shared_memory_after_opting_in() -> None:
    kernel = cp.RawKernel(
        """extern "C" __global__ void big(int* out) {
            extern __shared__ int s[];
            s[threadIdx.x * 20] = threadIdx.x;
            __syncthreads();
            out[threadIdx.x] = s[(blockDim.x - 1 - threadIdx.x) * 20];
        }""",
        "big",
    )
    out = cp.zeros(1000, np.int32)
    with pytest.raises(cp.cuda.driver.CUDADriverError):
        kernel((1,), (1000,), (out,), shared_mem=80000)
    kernel.max_dynamic_shared_size_bytes = 80000
    kernel((1,), (1000,), (out,), shared_mem=80000)
    assert out.tolist() == list(range(999, -1, -1))


def test_a_compile_error_shows_the_learners_line() -> None:
    source = 'extern "C" __global__ void f(int* o) {\n    o[0] = undeclared;\n}'
    kernel = cp.RawKernel(source, "f")
    with pytest.raises(cp.cuda.compiler.CompileException, match='identifier "undeclared" is undefined') as caught:
        kernel((1,), (1,), (cp.zeros(1, np.int32),))
    error = caught.value
    assert (error.source, error.backend, error.options) == (source, "nvrtc", ())
    assert error.get_message() == str(error)
    assert "o[0] = undeclared;" in notes(error)
    written = io.StringIO()
    error.dump(written)
    assert "2     o[0] = undeclared;" in written.getvalue()
    again = pickle.loads(pickle.dumps(error))
    assert str(again) == str(error)


def test_an_unknown_kernel_lists_those_there_are() -> None:
    module = cp.RawModule(code='extern "C" __global__ void here() {}')
    with pytest.raises(cp.cuda.driver.CUDADriverError, match="CUDA_ERROR_NOT_FOUND: named symbol not found") as caught:
        module.get_function("there")
    assert "here" in notes(caught.value)


@pytest.mark.parametrize("kind", [cp.cuda.runtime.CUDARuntimeError, cp.cuda.driver.CUDADriverError])
def test_errors_can_be_pickled(kind: type) -> None:
    error = pickle.loads(pickle.dumps(kind(700)))
    assert (type(error), error.status, str(error)) == (kind, 700, str(kind(700)))


def test_a_freed_pointer_in_an_array_function_is_an_illegal_access() -> None:
    pointer = cp.cuda.runtime.malloc(800)
    array = cp.ndarray((100,), np.float64, cp.cuda.MemoryPointer(cp.cuda.UnownedMemory(pointer, 800, None, 0), 0))
    array.fill(1)
    assert float(array.sum()) == 100
    cp.cuda.runtime.free(pointer)
    array + 1
    with pytest.raises(cp.cuda.runtime.CUDARuntimeError, match="cudaErrorIllegalAddress") as caught:
        cp.cuda.Device().synchronize()
    assert "freed" in notes(caught.value)


def test_double_free_is_an_invalid_argument() -> None:
    pointer = cp.cuda.runtime.malloc(100)
    cp.cuda.runtime.free(pointer)
    with pytest.raises(cp.cuda.runtime.CUDARuntimeError, match="cudaErrorInvalidValue") as caught:
        cp.cuda.runtime.free(pointer)
    assert "freed" in notes(caught.value)
    assert cp.ones(1).tolist() == [1.0]


def test_values_that_a_function_cannot_compute_do_not_stop_the_device(capsys: pytest.CaptureFixture[str]) -> None:
    found = cp.digitize(cp.array([0.5]), cp.array([1.0, 3.0, 2.0]))
    cp.cuda.Device().synchronize()
    assert "could not compute" in capsys.readouterr().err
    assert found.tolist() == [0]
    with pytest.raises(ValueError, match="negative"):
        cp.bincount(cp.array([-1]))
    assert cp.ones(1).tolist() == [1.0]
