"""The simulated ``cuda.bindings.driver``: names and signatures of the real one, modules, launches, answers."""

from __future__ import annotations

import ctypes
import inspect

import numpy as np
import pytest
from cuda.bindings import driver as real
from cuda.bindings.driver import CUdeviceptr, CUfunction_attribute, CUresult

from cudalab.sim import cudart, driver
from cudalab.sim import device as package
from cudalab.sim.compiler import compile
from cudalab.sim.device import Device

SUCCESS = CUresult.CUDA_SUCCESS
INVALID = CUresult.CUDA_ERROR_INVALID_VALUE
SOURCE = r"""
extern "C" {
__device__ int total = 7;
__constant__ float factors[4] = {1, 2, 3, 4};
struct Pair { int a; double b; };
__global__ void scale(float *x, float factor, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] *= factor * factors[1] / 2;
}
__global__ void nothing() {}
__global__ void pair(Pair p, double *out) { out[0] = p.a + p.b; }
__global__ void __launch_bounds__(128) bounded(int *x) { x[0] = total; }
__global__ void dynamic(int *x) {
    extern __shared__ int s[];
    s[threadIdx.x] = threadIdx.x;
    __syncthreads();
    x[threadIdx.x] = s[blockDim.x - 1 - threadIdx.x];
}
__global__ void overrun(int *x) { x[1 << 20] = 1; }
}
"""


@pytest.fixture(autouse=True)
def device():
    before = package.set_current_device(Device())
    cudart.cudaFree(0)  # the primary context is made, and current in this thread
    yield package.current_device()
    package.set_current_device(before)


@pytest.fixture(scope="module")
def ptx():
    return compile(SOURCE).ptx.encode()


@pytest.fixture
def module(ptx):
    result, module = driver.cuModuleLoadData(ptx)
    assert result == SUCCESS
    return module


def function(module, name):
    result, found = driver.cuModuleGetFunction(module, name.encode())
    assert result == SUCCESS
    return found


def launch(f, parameters=0, grid=1, block=1, shared=0, stream=0):
    return driver.cuLaunchKernel(f, grid, 1, 1, block, 1, 1, shared, stream, parameters, 0)


def upload(array):
    result, pointer = driver.cuMemAlloc(array.nbytes)
    assert result == SUCCESS
    assert driver.cuMemcpyHtoD(pointer, array, array.nbytes) == (SUCCESS,)
    return pointer


def download(pointer, count, dtype):
    array = np.zeros(count, dtype)
    assert driver.cuMemcpyDtoH(array, pointer, array.nbytes) == (SUCCESS,)
    return array


def functions(of):
    return {name for name in dir(of) if name.startswith("cu") and callable(getattr(of, name))} - {
        name for name in dir(of) if isinstance(getattr(of, name), type)
    }


# -- against the real module -------------------------------------------------------------------------------------------


def test_every_name_exists_in_the_real_module():
    assert [name for name in dir(driver) if not hasattr(real, name)] == []


@pytest.mark.parametrize("name", sorted(functions(driver)))
def test_signatures(name):
    def shape(of):
        return [(p.name, p.default) for p in inspect.signature(of).parameters.values()]

    assert shape(getattr(driver, name)) == shape(getattr(real, name))


def test_what_is_not_simulated_says_so_by_name():
    missing = functions(real) - functions(driver)
    assert "cuImportExternalMemory" in missing
    for name in missing:
        with pytest.raises(NotImplementedError, match=rf"{name} exists, but the simulated device does not have it"):
            getattr(driver, name)


# -- devices and errors ------------------------------------------------------------------------------------------------


def test_devices():
    assert driver.cuInit(0) == (SUCCESS,)
    assert driver.cuInit(1) == (INVALID,)
    assert driver.cuDeviceGetCount() == (SUCCESS, 1)
    result, number = driver.cuDeviceGet(0)
    assert (result, int(number)) == (SUCCESS, 0)
    assert driver.cuDeviceGetName(64, number)[1].rstrip(b"\0") == b"NVIDIA H200"
    assert driver.cuDeviceComputeCapability(number) == (SUCCESS, 9, 0)
    assert driver.cuDeviceGet(3) == (CUresult.CUDA_ERROR_INVALID_DEVICE, None)


def test_attributes():
    names = real.CUdevice_attribute
    assert driver.cuDeviceGetAttribute(names.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0) == (SUCCESS, 132)
    assert driver.cuDeviceGetAttribute(names.CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 0) == (SUCCESS, 1)
    assert driver.cuDeviceGetAttribute(99999, 0) == (INVALID, None)


def test_error_names():
    assert driver.cuGetErrorName(CUresult.CUDA_ERROR_ILLEGAL_ADDRESS) == (SUCCESS, b"CUDA_ERROR_ILLEGAL_ADDRESS")
    assert driver.cuGetErrorString(CUresult.CUDA_ERROR_NOT_FOUND) == (SUCCESS, b"named symbol not found")
    assert driver.cuGetErrorName(123456) == (INVALID, None)


def test_errors_of_the_driver_are_not_the_runtimes_last_error():
    assert driver.cuMemFree(0x1234) == (INVALID,)
    assert cudart.cudaPeekAtLastError() == (cudart.cudaError_t.cudaSuccess,)


# -- memory ------------------------------------------------------------------------------------------------------------


def test_round_trip_and_address_range():
    data = np.arange(100, dtype=np.float64)
    pointer = upload(data)
    assert type(pointer) is CUdeviceptr
    assert np.array_equal(download(pointer, 100, np.float64), data)
    result, base, size = driver.cuMemGetAddressRange(int(pointer) + 16)
    assert (result, int(base), size) == (SUCCESS, int(pointer), 800)
    assert driver.cuMemFree(pointer) == (SUCCESS,)
    assert driver.cuMemFree(pointer) == (INVALID,)


def test_no_bytes_are_refused():
    assert driver.cuMemAlloc(0) == (INVALID, None)


@pytest.mark.parametrize(
    ("name", "dtype"), [("cuMemsetD8", np.uint8), ("cuMemsetD16", np.uint16), ("cuMemsetD32", np.uint32)]
)
def test_memsets(name, dtype):
    pointer = upload(np.zeros(16, dtype))
    assert getattr(driver, name)(int(pointer) + 4 * np.dtype(dtype).itemsize, 0x7F, 8) == (SUCCESS,)
    assert download(pointer, 16, dtype).tolist() == [0] * 4 + [0x7F] * 8 + [0] * 4


def test_2d_copies_by_struct():
    image = np.arange(48, dtype=np.uint8).reshape(6, 8)
    _, pointer, pitch = driver.cuMemAllocPitch(8, 6, 4)
    copy = real.CUDA_MEMCPY2D()
    copy.srcMemoryType, copy.srcHost, copy.srcPitch = real.CUmemorytype.CU_MEMORYTYPE_HOST, image, 8
    copy.dstMemoryType, copy.dstDevice, copy.dstPitch = real.CUmemorytype.CU_MEMORYTYPE_DEVICE, pointer, pitch
    copy.WidthInBytes, copy.Height = 8, 6
    assert driver.cuMemcpy2D(copy) == (SUCCESS,)
    rows = download(pointer, 6 * pitch, np.uint8).reshape(6, pitch)
    assert np.array_equal(rows[:, :8], image)


# -- modules -----------------------------------------------------------------------------------------------------------


def test_ptx_by_address_and_with_its_nul(ptx):
    text = ctypes.create_string_buffer(ptx)
    assert driver.cuModuleLoadData(ctypes.addressof(text))[0] == SUCCESS
    assert driver.cuModuleLoadData(ptx + b"\0")[0] == SUCCESS
    assert driver.cuModuleLoadData(np.frombuffer(ptx + b"\0", np.uint8))[0] == SUCCESS


@pytest.mark.parametrize(
    ("image", "result", "note"),
    [
        (b"hello", CUresult.CUDA_ERROR_INVALID_IMAGE, "no PTX"),
        (b"\x7fELF\x02", CUresult.CUDA_ERROR_INVALID_IMAGE, "shorter than its header"),
        (b"\x7fELF\x02" + bytes(64), CUresult.CUDA_ERROR_NO_BINARY_FOR_GPU, "cubin.*Compile to PTX"),
        (
            b".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k(){ bogus; }",
            CUresult.CUDA_ERROR_INVALID_PTX,
            "bogus",
        ),
        (0, INVALID, "null"),
        (0x1234, INVALID, "no such memory"),
    ],
)
def test_images_that_are_none(image, result, note):
    answer = driver.cuModuleLoadData(image)
    assert answer == (result, None)
    import re

    assert re.search(note, answer.note)


def test_functions_and_globals(module):
    not_found = CUresult.CUDA_ERROR_NOT_FOUND
    assert driver.cuModuleGetFunction(module, b"nope") == (not_found, None)
    assert driver.cuModuleGetGlobal(module, b"nope") == (not_found, None, None)
    result, pointer, size = driver.cuModuleGetGlobal(module, b"factors")
    assert (result, size) == (SUCCESS, 16)
    assert download(pointer, 4, np.float32).tolist() == [1, 2, 3, 4]
    with pytest.raises(TypeError):
        driver.cuModuleGetFunction(module, "scale")
    assert driver.cuModuleGetFunctionCount(module) == (SUCCESS, 6)


def test_unloading(module):
    f = function(module, "nothing")
    assert driver.cuModuleUnload(module) == (SUCCESS,)
    assert launch(f) == (CUresult.CUDA_ERROR_INVALID_HANDLE,)


def test_function_attributes(module):
    names = CUfunction_attribute
    bounded, dynamic = function(module, "bounded"), function(module, "dynamic")
    get, put = driver.cuFuncGetAttribute, driver.cuFuncSetAttribute
    assert get(names.CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, bounded) == (SUCCESS, 128)
    assert get(names.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, dynamic) == (SUCCESS, 49152)
    assert get(names.CU_FUNC_ATTRIBUTE_BINARY_VERSION, dynamic) == (SUCCESS, 90)
    shared = names.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    assert put(dynamic, shared, 232448) == (SUCCESS,)
    assert put(dynamic, shared, 232449) == (INVALID,)
    assert put(dynamic, names.CU_FUNC_ATTRIBUTE_NUM_REGS, 3) == (INVALID,)
    assert put(dynamic, names.CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, 101) == (INVALID,)
    assert driver.cuFuncGetName(bounded) == (SUCCESS, b"bounded")
    assert driver.cuFuncGetParamInfo(function(module, "scale"), 2) == (SUCCESS, 12, 4)


@pytest.mark.parametrize(
    ("block", "shared", "blocks"), [(32, 0, 32), (256, 0, 8), (1024, 0, 2), (1025, 0, 0), (256, 300000, 0)]
)
def test_occupancy(module, block, shared, blocks):
    f = function(module, "dynamic")
    assert driver.cuOccupancyMaxActiveBlocksPerMultiprocessor(f, block, shared) == (SUCCESS, blocks)


def test_occupancy_questions(module):
    f = function(module, "scale")
    assert driver.cuOccupancyMaxActiveBlocksPerMultiprocessor(f, 0, 0) == (INVALID, None)
    assert driver.cuOccupancyMaxPotentialBlockSize(f, None, 0, 0) == (SUCCESS, 264, 1024)
    assert driver.cuOccupancyAvailableDynamicSMemPerBlock(f, 2, 256) == (SUCCESS, 49152)


# -- launches ----------------------------------------------------------------------------------------------------------


def pointers(*values):
    """An array with a pointer to each value, and what must stay alive with it."""
    cells = [np.array([value], dtype) for value, dtype in values]
    return np.array([cell.ctypes.data for cell in cells], np.uint64), cells


def test_every_form_of_parameters(module):
    scale, data = function(module, "scale"), np.ones(100, np.float32)
    pointer = upload(data)
    array, _keep = pointers((int(pointer), np.uint64), (2.0, np.float32), (100, np.int32))
    types = (ctypes.c_void_p, ctypes.c_float, ctypes.c_int)
    for parameters in (
        ((int(pointer), 2.0, 100), types),
        ((pointer, 2.0, 100), (None, ctypes.c_float, ctypes.c_int)),
        ((int(pointer), np.float32(2), np.int32(100)), types),
        array,
        int(array.ctypes.data),
    ):
        assert launch(scale, parameters, block=128) == (SUCCESS,)
    assert download(pointer, 100, np.float32).tolist() == [32.0] * 100


def test_structures_by_value(module):
    class Pair(ctypes.Structure):
        _fields_ = [("a", ctypes.c_int), ("b", ctypes.c_double)]

    out = upload(np.zeros(1))
    assert launch(function(module, "pair"), ((Pair(3, 0.5), int(out)), (None, ctypes.c_void_p))) == (SUCCESS,)
    assert download(out, 1, np.float64)[0] == 3.5


@pytest.mark.parametrize(
    ("parameters", "match"),
    [
        (((1, 2), (ctypes.c_int,)), "different length"),
        (((5,), (None,)), "expected Type"),
        ((("x",), (ctypes.c_void_p,)), "expected Type"),
        (((None,), (ctypes.c_void_p,)), "expected Type"),
        (((1.5,), (ctypes.c_int,)), "integer"),
        ([1], "not a valid type"),
    ],
)
def test_parameters_that_are_none(module, parameters, match):
    with pytest.raises(TypeError, match=match):
        launch(function(module, "bounded"), parameters)


def test_too_few_parameters(module):
    answer = launch(function(module, "scale"), ((0,), (ctypes.c_void_p,)))
    assert answer == (INVALID,)
    assert "takes 3 parameters (got 1)" in answer.note


@pytest.mark.parametrize("numbers", [(0, 1, 0), (1, 0, 0), (1, 1025, 0), (1, 1, 49153)])
def test_configurations_that_are_not_allowed(module, numbers):
    grid, block, shared = numbers
    assert launch(function(module, "nothing"), 0, grid, block, shared) == (INVALID,)
    assert cudart.cudaPeekAtLastError()[0] == 0


def test_launch_by_configuration(module):
    pointer = upload(np.ones(64, np.float32))
    config = real.CUlaunchConfig()
    config.gridDimX = config.gridDimY = config.gridDimZ = config.blockDimY = config.blockDimZ = 1
    config.blockDimX = 64
    parameters = ((int(pointer), 3.0, 64), (ctypes.c_void_p, ctypes.c_float, ctypes.c_int))
    assert driver.cuLaunchKernelEx(config, function(module, "scale"), parameters, 0) == (SUCCESS,)
    assert download(pointer, 64, np.float32).tolist() == [3.0] * 64
    attribute = real.CUlaunchAttribute()
    attribute.id = real.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
    config.attrs, config.numAttrs = [attribute], 1
    answer = driver.cuLaunchKernelEx(config, function(module, "scale"), parameters, 0)
    assert answer == (SUCCESS,)  # of 0 blocks: none is meant
    attribute.id = real.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE
    config.attrs, config.numAttrs = [attribute], 1
    answer = driver.cuLaunchKernelEx(config, function(module, "scale"), parameters, 0)
    assert answer == (CUresult.CUDA_ERROR_NOT_SUPPORTED,)
    assert "only a node of a graph can be updatable by kernels" in answer.note


def test_dynamic_shared_memory(module):
    pointer = upload(np.zeros(256, np.int32))
    assert launch(function(module, "dynamic"), ((int(pointer),), (ctypes.c_void_p,)), block=256, shared=1024) == (
        SUCCESS,
    )
    assert download(pointer, 256, np.int32).tolist() == list(range(255, -1, -1))


def test_a_fault_comes_up_later_and_stays(module):
    pointer = upload(np.zeros(4, np.int32))
    illegal = CUresult.CUDA_ERROR_ILLEGAL_ADDRESS
    assert launch(function(module, "overrun"), ((int(pointer),), (ctypes.c_void_p,))) == (SUCCESS,)
    answer = driver.cuCtxSynchronize()
    assert answer == (illegal,)
    assert "past the end" in answer.note
    assert driver.cuMemAlloc(16) == (illegal, None)
    assert cudart.cudaDeviceSynchronize() == (cudart.cudaError_t.cudaErrorIllegalAddress,)


# -- streams -----------------------------------------------------------------------------------------------------------


def test_streams_and_events():
    _, stream = driver.cuStreamCreate(real.CUstream_flags.CU_STREAM_NON_BLOCKING)
    assert type(stream) is real.CUstream
    _, start = driver.cuEventCreate(0)
    _, end = driver.cuEventCreate(0)
    _, pointer = driver.cuMemAlloc(1 << 24)
    driver.cuEventRecord(start, stream)
    driver.cuMemsetD8Async(pointer, 1, 1 << 24, stream)
    driver.cuEventRecord(end, stream)
    assert driver.cuStreamQuery(stream) == (CUresult.CUDA_ERROR_NOT_READY,)
    assert driver.cuEventSynchronize(end) == (SUCCESS,)
    result, milliseconds = driver.cuEventElapsedTime(start, end)
    assert result == SUCCESS
    assert 0.002 < milliseconds < 0.1
    assert driver.cuStreamDestroy(stream) == (SUCCESS,)
    assert driver.cuStreamSynchronize(stream) == (CUresult.CUDA_ERROR_INVALID_HANDLE,)


def test_runtime_and_driver_share_streams_and_memory(module):
    _, stream = cudart.cudaStreamCreate()
    _, pointer = cudart.cudaMalloc(400)
    cudart.cudaMemsetAsync(pointer, 0, 400, stream)
    parameters = ((pointer, 2.0, 100), (ctypes.c_void_p, ctypes.c_float, ctypes.c_int))
    assert launch(function(module, "scale"), parameters, block=128, stream=stream) == (SUCCESS,)
    assert driver.cuStreamSynchronize(stream) == (SUCCESS,)
    assert not download(pointer, 100, np.float32).any()


def test_pointer_attributes_of_what_cuda_does_not_know():
    names = [
        real.CUpointer_attribute.CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
        real.CUpointer_attribute.CU_POINTER_ATTRIBUTE_CONTEXT,
    ]
    host = np.zeros(4)
    result, (kind, context) = driver.cuPointerGetAttributes(2, names, host.ctypes.data)
    assert (result, int(kind), int(context)) == (SUCCESS, 0, 0)
    assert driver.cuPointerGetAttribute(names[0], host.ctypes.data) == (CUresult.CUDA_ERROR_INVALID_VALUE, None)


def test_a_stream_waits_for_a_value_and_goes_on():
    _, stream = driver.cuStreamCreate(1)
    _, memory = driver.cuMemAlloc(8)
    driver.cuMemsetD32(memory, 0, 2)
    assert driver.cuStreamWaitValue32(stream, memory, 3, 0) == (SUCCESS,)
    assert driver.cuStreamQuery(stream) == (CUresult.CUDA_ERROR_NOT_READY,)
    assert driver.cuMemsetD32(memory, 3, 1) == (SUCCESS,)
    assert driver.cuStreamSynchronize(stream) == (SUCCESS,)
    with pytest.raises(OverflowError):
        driver.cuStreamWriteValue32(stream, memory, 1 << 32, 0)


def test_a_link_takes_ptx_only_and_says_what_to_do():
    _, state = driver.cuLinkCreate(0, [], [])
    answer = driver.cuLinkAddData(state, real.CUjitInputType.CU_JIT_INPUT_CUBIN, b"\x7fELF", 4, b"x", 0, [], [])
    assert answer == (CUresult.CUDA_ERROR_NO_BINARY_FOR_GPU,)
    assert "compile to PTX" in answer.note
    assert driver.cuLinkDestroy(state) == (SUCCESS,)
    assert driver.cuLinkDestroy(state) == (CUresult.CUDA_ERROR_INVALID_HANDLE,)
