"""`RawKernel` and `RawModule` beyond a plain launch."""

from __future__ import annotations

import io
import pickle

import numpy as np
import pytest

import cudalab.sim.cupy as cp

SOURCE = """
extern "C" {
__constant__ float weights[3];
__device__ int counter = 5;
__device__ float* target;
__global__ void convolve(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i > 0 && i < n - 1) y[i] = weights[0] * x[i - 1] + weights[1] * x[i] + weights[2] * x[i + 1];
}
__global__ void count() { atomicAdd(&counter, 1); }
__global__ void through() { target[threadIdx.x] = threadIdx.x; }
}
"""


def test_weights_change_without_compiling_again() -> None:
    module = cp.RawModule(code=SOURCE)
    weights = cp.ndarray((3,), np.float32, module.get_global("weights"))
    x = np.arange(100, dtype=np.float32) ** 2
    for row in ([1, 0, 0], [0.25, 0.5, 0.25], [-1, 0, 1]):
        weights.set(np.array(row, np.float32))
        y = cp.zeros(100, np.float32)
        module.get_function("convolve")((1,), (128,), (cp.asarray(x), y, 100))
        expected = np.zeros(100, np.float32)
        expected[1:-1] = row[0] * x[:-2] + row[1] * x[1:-1] + row[2] * x[2:]
        np.testing.assert_allclose(y.get(), expected)


def test_device_variables_and_pointers() -> None:
    module = cp.RawModule(code=SOURCE, options=("-DONE_OF_ITS_OWN",))
    counter = cp.ndarray((), np.int32, module.get_global("counter"))
    assert int(counter) == 5
    module.get_function("count")((4,), (32,), ())
    assert int(counter) == 5 + 128
    data = cp.zeros(8, np.float32)
    cp.ndarray((), np.uint64, module.get_global("target"))[...] = data.data.ptr
    module.get_function("through")((1,), (8,), ())
    assert data.tolist() == list(range(8))


def test_equal_sources_share_their_variables_and_others_do_not() -> None:
    one, other = cp.RawModule(code=SOURCE), cp.RawModule(code=SOURCE + "// another\n")
    address = one.get_global("counter").ptr
    assert cp.RawModule(code=SOURCE).get_global("counter").ptr == address
    assert other.get_global("counter").ptr != address


def test_it_compiles_when_it_is_first_needed() -> None:
    kernel = cp.RawKernel("this is no C++", "f")
    assert (kernel.name, kernel.backend) == ("f", "nvrtc")
    with pytest.raises(cp.cuda.compiler.CompileException):
        _ = kernel.num_regs


def test_compile_writes_the_log() -> None:
    log = io.StringIO()
    kernel = cp.RawKernel('extern "C" __global__ void f(int* o) { int unused = 1; o[0] = 2; }', "f")
    kernel.compile(log_stream=log)
    assert "unused" in log.getvalue()


def test_attributes_are_numbers() -> None:
    kernel = cp.RawKernel(
        'extern "C" __global__ void __launch_bounds__(256) f(float* x) '
        "{ __shared__ float s[64]; s[threadIdx.x] = x[0]; __syncthreads(); x[0] = s[1]; }",
        "f",
    )
    assert all(isinstance(value, int) for value in kernel.attributes.values())
    assert (kernel.max_threads_per_block, kernel.shared_size_bytes) == (256, 256)
    assert 0 < kernel.num_regs < 256


def test_a_kernel_goes_through_pickle() -> None:
    kernel = pickle.loads(
        pickle.dumps(cp.RawKernel('extern "C" __global__ void f(int* o) { o[0] = N; }', "f", ("-DN=3",)))
    )
    out = cp.zeros(1, np.int32)
    kernel((1,), (1,), (out,))
    assert int(out[0]) == 3


def test_kernels_take_no_attributes_but_subclasses_do() -> None:
    kernel = cp.RawKernel("", "f")
    with pytest.raises(AttributeError):
        kernel.mine = 1  # type: ignore[attr-defined]

    class Named(cp.RawKernel):
        pass

    named = Named("", "f")
    named.mine = 1  # type: ignore[attr-defined]
    assert named.mine == 1  # type: ignore[attr-defined]


def test_a_cooperative_launch_must_fit_the_device() -> None:
    source = 'extern "C" __global__ void add_one(int* x) { atomicAdd(x, 1); }'
    kernel = cp.RawKernel(source, "add_one", enable_cooperative_groups=True)
    x = cp.zeros(1, np.int32)
    kernel((8,), (64,), (x,))
    assert int(x[0]) == 512
    with pytest.raises(ValueError, match="exceeds the limit"):
        kernel((1 << 10, 1 << 10), (64,), (x,))
    with pytest.warns(UserWarning, match="grid size will be reduced from 1048576"):
        kernel((1 << 20,), (1024,), (x,))
    assert int(x[0]) == 512 + 1024 * 2 * cp.cuda.Device().attributes["MultiProcessorCount"]


def test_a_ptx_file(tmp_path: object) -> None:
    from pathlib import Path

    from cudalab.sim.compiler import compile

    program = compile('extern "C" __global__ void f(int* o) { o[0] = 11; }')
    path = Path(str(tmp_path)) / "f.ptx"
    path.write_text(program.ptx)
    out = cp.zeros(1, np.int32)
    cp.RawModule(path=str(path)).get_function("f")((1,), (1,), (out,))
    assert int(out[0]) == 11


def test_a_list_of_allocations_is_walked() -> None:
    node = np.dtype([("value", "i8"), ("next", "u8")])
    addresses = [cp.cuda.alloc(node.itemsize) for _ in range(3)]
    for index, memory in enumerate(addresses):
        following = addresses[index + 1].ptr if index < 2 else 0
        memory.copy_from_host(np.array((10 * (index + 1), following), node).ctypes.data, node.itemsize)
    kernel = cp.RawKernel(
        """struct Node { long long value; Node* next; };
        extern "C" __global__ void walk(const Node* node, long long* sum) {
            for (; node; node = node->next) *sum += node->value;
        }""",
        "walk",
    )
    total = cp.zeros(1, np.int64)
    kernel((1,), (1,), (addresses[0], total))
    assert int(total[0]) == 60
