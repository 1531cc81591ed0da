"""Launches of a real GPU brought to the simulator. Here the "GPU" is this process's memory."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from cudalab.analysis import mirror
from cudalab.analysis.mirror import MirrorError
from cudalab.analysis.profile import profile
from cudalab.analysis.sanitize import sanitize


class DeviceArray:
    """Looks like a CuPy array."""

    def __init__(self, array: np.ndarray, base: DeviceArray | None = None) -> None:
        self.array, self.base = array, base
        self.dtype = array.dtype

    @property
    def __cuda_array_interface__(self):
        interface = dict(self.array.__array_interface__)
        return {key: interface[key] for key in ("shape", "typestr", "data", "strides", "version")}

    def __getitem__(self, index):
        return DeviceArray(self.array[index], self)


class GpuKernel:
    """Looks like a recording ``RawKernel``."""

    def __init__(self, code: str, name: str = "k", module=None) -> None:
        self.code, self.name, self.options, self.module = code, name, (), module
        self.name_expressions = ()
        self.max_dynamic_shared_size_bytes = 0


@pytest.fixture(autouse=True)
def fake_gpu(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    known: list[tuple[int, int]] = []
    monkeypatch.setattr(mirror, "read_device", lambda a, n: np.frombuffer(ctypes.string_at(a, n), np.uint8))
    monkeypatch.setattr(mirror, "is_device_address", lambda v: any(a <= v < a + n for a, n in known))
    return known


COPY = """
extern "C" __global__ void k(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i];
}"""


def arrays(n: int) -> tuple[DeviceArray, DeviceArray]:
    return DeviceArray(np.arange(n, dtype=np.float32)), DeviceArray(np.zeros(n, np.float32))


def test_a_launch_is_checked_on_copies() -> None:
    x, y = arrays(1000)
    assert sanitize(GpuKernel(COPY), 4, 256, (x, y, np.int32(1000))).ok
    assert not y.array.any()
    report = sanitize(GpuKernel(COPY.replace("<", "<=")), 4, 256, (x, y, np.int32(1000)))
    assert [f.rule for f in report.findings] == ["out of bounds", "out of bounds"]  # the read and the write
    assert "of the 4000-byte allocation" in report.findings[0].detail


def test_a_launch_is_profiled() -> None:
    x, y = arrays(1024)
    found = profile(GpuKernel(COPY), 4, 256, (x, y, np.int32(1024)))
    assert found.global_loads.sectors_per_request == 4


def test_views_share_their_array() -> None:
    _, y = arrays(1024)
    overlapping = (y[:512], y[500:], np.int32(512))
    code = COPY.replace("y[i] = x[i]", "{ float v = x[i]; __syncthreads(); y[i] = v; }")
    report = sanitize(GpuKernel(code), 2, 256, overlapping, tools=("racecheck",))
    assert [f.rule for f in report.findings] == ["race"]
    assert sanitize(GpuKernel(code), 2, 256, (y[:512], y[512:], np.int32(512)), tools=("racecheck",)).ok


def test_arrays_that_lie_side_by_side_stay_apart() -> None:
    """As CuPy's pool hands them out: the second begins where the first ends."""
    pool = np.zeros(3 * 128, np.float32)
    a, b, c = (DeviceArray(pool[start : start + 128]) for start in (0, 128, 256))
    code = """
extern "C" __global__ void k(const float* a, const float* b, float* c, int n) {
    for (int i = 0; i < n; i++) c[i] = a[i] + b[i];
}"""
    arguments = (a, b, c, np.int32(128))
    assert sanitize(GpuKernel(code), 1, 1, arguments).ok
    assert profile(GpuKernel(code), 1, 1, arguments).global_loads.requests == 256


def test_an_address_inside_an_argument_is_followed() -> None:
    x, y = arrays(100)
    assert sanitize(GpuKernel(COPY), 1, 100, (x, y, np.int32(100))).ok
    address = y.array.ctypes.data + 40
    code = COPY.replace("float* y, int n", "float* y, int n, float* z").replace("y[i]", "z[i]")
    assert sanitize(GpuKernel(code), 1, 32, (x, y, np.int32(20), address)).ok


def test_an_unknown_address_is_refused_by_name() -> None:
    x, y = arrays(100)
    with pytest.raises(MirrorError, match=r"parameter 1 \(x\) is the address 0x.*Pass the array itself"):
        sanitize(GpuKernel(COPY), 1, 100, (x.array.ctypes.data, y, np.int32(100)))


def test_a_struct_with_an_address_is_refused_by_name(fake_gpu) -> None:
    code = """
struct Image { float* data; int width; };
extern "C" __global__ void k(Image image) { image.data[threadIdx.x] = 0.0f; }"""
    data = np.zeros(32, np.float32)
    fake_gpu.append((data.ctypes.data, data.nbytes))
    image = np.array([(data.ctypes.data, 32)], np.dtype([("data", "u8"), ("width", "i4")], align=True))
    with pytest.raises(MirrorError, match=r"parameter 1 \(image.*holds the device address 0x.* at byte 0"):
        profile(GpuKernel(code), 1, 32, (image,))


def test_an_array_of_addresses_is_refused_by_name() -> None:
    code = """
struct Node { Node* next; int value; };
extern "C" __global__ void k(Node* nodes, int* sum) {
    for (Node* node = nodes; node; node = node->next) *sum += node->value;
}"""
    nodes = DeviceArray(np.zeros(4, np.uint64))
    nodes.array[0] = nodes.array.ctypes.data + 16
    with pytest.raises(MirrorError, match=r"parameter 1 \(nodes\) holds addresses of device memory"):
        sanitize(GpuKernel(code), 1, 1, (nodes, DeviceArray(np.zeros(1, np.int32))))


class Module:
    def __init__(self, **variables: np.ndarray) -> None:
        self.variables = variables

    def get_global(self, name: str):
        class Pointer:
            ptr = self.variables[name].ctypes.data

        return Pointer


def test_module_variables_are_copied_and_refused(fake_gpu) -> None:
    code = """
__device__ int limit = 5;
__device__ float* target;
extern "C" __global__ void k(int* x) { assert(x[threadIdx.x] < limit); if (target) target[0] = 1.0f; }"""
    x = DeviceArray(np.full(32, 7, np.int32))
    values = {"limit": np.array([9], np.int32), "target": np.zeros(1, np.uint64)}
    assert [f.rule for f in sanitize(GpuKernel(code), 1, 32, (x,)).findings] == ["assertion failed"]
    assert sanitize(GpuKernel(code, module=Module(**values)), 1, 32, (x,)).ok
    fake_gpu.append((0x7000_0000, 64))
    values["target"][0] = 0x7000_0000
    with pytest.raises(MirrorError, match="the variable target holds an address"):
        sanitize(GpuKernel(code, module=Module(**values)), 1, 32, (x,))


def test_a_kernel_without_source_is_refused() -> None:
    unknown = GpuKernel(COPY)
    unknown.code = None
    with pytest.raises(MirrorError, match="its source is needed"):
        profile(unknown, 1, 32, arrays(32))
