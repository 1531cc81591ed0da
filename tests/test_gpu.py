"""The learner-facing frame on a real GPU with the real CuPy."""

import warnings

import numpy as np
import pytest

import cudalab
from cudalab import cp
from cudalab.cells import isolated
from tests.random_graphs import Machine, edges_of, in_one_stream, random_steps, size_of

pytestmark = pytest.mark.gpu

ADD = """
extern "C" __global__ void add(const float *a, const float *b, float *c, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}
"""
SCALE = "template <typename T> __global__ void scale(T *a, T by) { a[threadIdx.x] *= by; }"


def vectors(n, dtype=np.float32):
    return cp.arange(n, dtype=dtype), cp.ones(n, dtype=dtype), cp.zeros(n, dtype=dtype), np.int32(n)


def test_banner_is_that_of_the_gpu():
    banner = cudalab.device()
    assert (banner.kind, banner.label) == ("gpu", "measured")
    assert banner.name == cp.cuda.runtime.getDeviceProperties(0)["name"].decode()
    assert banner.memory_bandwidth > 100
    assert "measured" in repr(banner)


def test_kernel_launches_and_knows_its_source():
    add = cp.RawKernel(ADD, "add")
    a, b, c, n = vectors(1000)
    add((4,), (256,), (a, b, c, n))
    np.testing.assert_array_equal(c.get(), np.arange(1000, dtype=np.float32) + 1)
    assert (add.code, add.name) == (ADD, "add") and add.num_regs > 0


def test_kernel_of_a_module_launches_and_knows_its_source():
    module = cp.RawModule(code=SCALE, name_expressions=["scale<double>"])
    scale = module.get_function("scale<double>")
    numbers = cp.ones(8)
    scale((1,), (8,), (numbers, np.float64(2.5)))
    np.testing.assert_array_equal(numbers.get(), np.full(8, 2.5))
    assert scale.code == SCALE and scale.name_expressions == ("scale<double>",) and scale.num_regs > 0
    scale.max_dynamic_shared_size_bytes = 65536
    assert scale.attributes["max_dynamic_shared_size_bytes"] == 65536


def test_globals_of_a_module_are_cupys():
    code = "__constant__ float factor;\n" + ADD.replace("a[i] + b[i]", "factor * a[i]")
    module = cp.RawModule(code=code)
    cp.ndarray(1, cp.float32, memptr=module.get_global("factor"))[:] = 3
    a, b, c, n = vectors(100)
    module.get_function("add")((1,), (128,), (a, b, c, n))
    np.testing.assert_array_equal(c.get(), 3 * np.arange(100, dtype=np.float32))


def test_array_of_another_element_type_is_a_warning_once():
    add = cp.RawKernel(ADD, "add")
    with pytest.warns(UserWarning, match=r"parameter 'a' is 'const float \*a', but the array holds float64"):
        add((1,), (32,), (vectors(32, np.float64)[0], *vectors(32)[1:]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        add((1,), (32,), (vectors(32, np.float64)[0], *vectors(32)[1:]))
        add((1,), (32,), vectors(32))


def test_benchmark_measures_with_events():
    timing = cudalab.benchmark(cp.RawKernel(ADD, "add"), (1 << 18,), (256,), vectors(1 << 26))
    assert timing.kind == "measured" and len(timing.times) >= 5
    rate = timing.gigabytes_per_second(12 * (1 << 26))
    assert 0.3 < rate / cudalab.device().memory_bandwidth < 1


def test_benchmark_does_not_count_the_host():
    """Python needs longer to launch a small kernel than the kernel runs; the queue is filled ahead of it."""
    timing = cudalab.benchmark(cp.RawKernel(ADD, "add"), (4,), (256,), vectors(1024))
    assert 1 < timing.microseconds < 12


def test_benchmark_of_work_that_is_no_kernel():
    a, b, c, _ = vectors(1 << 24)
    assert cudalab.benchmark(lambda: cp.add(a, b, c), repeats=7).microseconds > 5


def test_clock_and_host_work_are_the_machines():
    before = cudalab.clock()
    cudalab.host_work(2000)
    assert 2000 <= cudalab.clock() - before < 20_000


def test_source_shows_ptx_on_a_gpu_too():
    view = cudalab.source(cp.RawKernel(ADD, "add"))
    opcodes = [line.split()[0] for lines in view.instructions.values() for line in lines]
    assert any(opcode.startswith("add") and opcode.endswith("f32") for opcode in opcodes)


def test_fault_stays_in_the_child(capfd):
    code = (
        "k = cp.RawKernel('extern \"C\" __global__ void f(float *a) { a[1 << 40] = 1; }', 'f')\n"
        "k((1,), (1,), (np.uint64(0),))\ncp.cuda.Device().synchronize()"
    )
    result = isolated.run(code)
    assert "CUDARuntimeError: cudaErrorIllegalAddress" in result.error
    assert float(cp.arange(4).sum()) == 6.0


def test_isolated_runs_on_the_simulated_device_too(capfd):
    assert isolated.run("print(cudalab.device().label)", device="sim:h200").error is None
    assert capfd.readouterr().out == "modelled\n"


def test_reset_explains_the_restart():
    with pytest.raises(RuntimeError, match="Restart the notebook's kernel"):
        cudalab.reset()


@pytest.mark.parametrize("captured", [False, True], ids=["by API", "captured"])
def test_random_graphs_give_what_one_stream_gives(captured):
    """A hundred, of up to 200 steps of all kinds, launched twice: those of the simulated device's test."""
    for seed in range(100):
        steps, machine = random_steps(size_of(seed), seed), Machine()
        edges = edges_of(steps)
        machine.launch(machine.captured(steps, edges, seed) if captured else machine.graph(steps, edges), times=2)
        contents, calls = in_one_stream(steps, times=2)
        assert machine.contents() == contents, f"seed {seed}"
        assert sorted(machine.calls) == sorted(calls), f"seed {seed}"
