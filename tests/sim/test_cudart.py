"""The simulated ``cuda.bindings.runtime``: names and signatures of the real one, and what calls answer."""

from __future__ import annotations

import ctypes
import inspect
from types import FunctionType

import numpy as np
import pytest
from cuda.bindings import runtime as real
from cuda.bindings.runtime import cudaError_t, cudaMemcpyKind

from cudalab.sim import cudart
from cudalab.sim import device as package
from cudalab.sim.device import Device

SUCCESS = cudaError_t.cudaSuccess
INVALID = cudaError_t.cudaErrorInvalidValue
TO_DEVICE, TO_HOST = cudaMemcpyKind.cudaMemcpyHostToDevice, cudaMemcpyKind.cudaMemcpyDeviceToHost


@pytest.fixture(autouse=True)
def device():
    before = package.set_current_device(Device())
    yield package.current_device()
    package.set_current_device(before)


def functions(module):
    return {name for name in dir(module) if name.startswith("cuda") and callable(getattr(module, name))} - {
        name for name in dir(module) if isinstance(getattr(module, name), type)
    }


# -- against the real module -------------------------------------------------------------------------------------------


def test_every_name_exists_in_the_real_module():
    assert [name for name in dir(cudart) if not hasattr(real, name)] == []


@pytest.mark.parametrize("name", sorted(functions(cudart)))
def test_signatures(name):
    def shape(function):
        return [(p.name, p.default) for p in inspect.signature(function).parameters.values()]

    assert shape(getattr(cudart, name)) == shape(getattr(real, name))


def test_types_enums_and_constants_are_the_real_ones():
    for name in dir(real):
        value = getattr(real, name)
        if name.startswith("cuda") and name != "cuda" and (isinstance(value, type) or not callable(value)):
            assert getattr(cudart, name) is value
    assert cudart.make_cudaExtent is real.make_cudaExtent


def test_what_is_not_simulated_says_so_by_name():
    missing = functions(real) - functions(cudart)
    assert "cudaImportExternalMemory" in missing
    for name in missing:
        with pytest.raises(NotImplementedError, match=rf"{name} exists, but the simulated device does not have it"):
            getattr(cudart, name)
        assert not hasattr(cudart, name)


@pytest.mark.parametrize("name", ["cudaMemcpyToSymbol", "cudaLaunchKernel", "cudaGetSymbolAddress", "nonsense"])
def test_what_does_not_exist_there_does_not_exist_here(name):
    assert not hasattr(real, name)
    with pytest.raises(AttributeError) as caught:
        getattr(cudart, name)
    assert not isinstance(caught.value, NotImplementedError)


# -- arguments ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", ["s", [1], -1, 2**64, 1j])
def test_pointers_that_are_none(value):
    outcomes = []
    for module in (cudart, real):
        with pytest.raises((TypeError, OverflowError)) as caught:
            module.cudaMemcpy(value, 0, 0, TO_DEVICE)
        outcomes.append((type(caught.value), str(caught.value)))
    assert outcomes[0] == outcomes[1]


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("cudaMalloc", ("a",)),
        ("cudaMalloc", (None,)),
        ("cudaMalloc", (-1,)),
        ("cudaMemset", (0, "x", 1)),
        ("cudaMemset", (0, 2**31, 1)),
        ("cudaMemcpy", (0, 0, 4, None)),
        ("cudaMemcpy", (0, 0, 4, "x")),
        ("cudaMalloc3D", (None,)),
        ("cudaMalloc3D", ((1, 2, 3),)),
        ("cudaMemcpy3D", (5,)),
        ("cudaStreamSynchronize", ("x",)),
        ("cudaStreamSynchronize", (-1,)),
        ("cudaDeviceGetAttribute", (None, 0)),
        ("cudaStreamCreateWithFlags", ("x",)),
        ("cudaMemPoolCreate", (5,)),
        ("cudaMemPoolTrimTo", (0, -1)),
        ("cudaMallocFromPoolAsync", ("x", 0, 0)),
        ("cudaMemPrefetchAsync", (0, 4, None, 0, 0)),
        ("cudaMemAdvise", (0, 4, 1, None)),
        ("cudaMemRangeGetAttribute", (4, None, 0, 4)),
        ("cudaStreamSetAttribute", (0, 3, 5)),
        ("cudaStreamAttachMemAsync", (0, 0, -1, 1)),
    ],
)
def test_wrong_arguments_raise_what_the_real_binding_raises(name, arguments):
    kinds = []
    for module in (cudart, real):
        with pytest.raises((TypeError, OverflowError, ValueError)) as caught:
            getattr(module, name)(*arguments)
        kinds.append(type(caught.value))
    assert kinds[0] is kinds[1]


@pytest.mark.parametrize("arguments", [(), (1, 2)])
def test_the_number_of_arguments(arguments):
    with pytest.raises(TypeError):
        cudart.cudaMalloc(*arguments)


def test_objects_with_a_buffer_are_pointers():
    source, target = bytes(range(16)), bytearray(16)
    _, pointer = cudart.cudaMalloc(16)
    assert cudart.cudaMemcpy(pointer, source, 16, TO_DEVICE) == (SUCCESS,)
    assert cudart.cudaMemcpy(target, pointer, 16, TO_HOST) == (SUCCESS,)
    assert bytes(target) == source
    array = np.zeros(16, np.uint8)
    assert cudart.cudaMemcpy(array, pointer, 16, TO_HOST) == (SUCCESS,)
    assert array.tobytes() == source
    with pytest.raises(ValueError, match="contiguous"):
        cudart.cudaMemcpy(np.zeros((4, 4))[:, 1], pointer, 16, TO_HOST)


@pytest.mark.parametrize("kind", [1, cudaMemcpyKind.cudaMemcpyHostToDevice, 1.7, "1"])
def test_kinds_are_what_converts_to_a_number(kind):
    _, pointer = cudart.cudaMalloc(16)
    assert cudart.cudaMemcpy(pointer, bytes(16), 16, kind) == (SUCCESS,)


# -- answers -----------------------------------------------------------------------------------------------------------


def test_an_answer_is_a_tuple_with_a_note():
    answer = cudart.cudaFree(0x1234)
    assert answer == (INVALID,)
    (error,) = answer
    assert error is INVALID
    assert "never allocated" in answer.note


def test_values_are_none_on_failure():
    assert cudart.cudaMallocPitch(1 << 40, 1) == (cudaError_t.cudaErrorMemoryAllocation, None, None)
    assert cudart.cudaEventElapsedTime(0, 0) == (cudaError_t.cudaErrorInvalidResourceHandle, None)
    assert cudart.cudaGetDeviceProperties(5) == (cudaError_t.cudaErrorInvalidDevice, None)


def test_last_error():
    assert cudart.cudaGetLastError() == (SUCCESS,)
    cudart.cudaFree(0x1234)
    assert cudart.cudaPeekAtLastError() == cudart.cudaPeekAtLastError() == (INVALID,)
    assert cudart.cudaGetDeviceCount() == (SUCCESS, 1)
    assert cudart.cudaGetLastError() == (INVALID,)
    assert cudart.cudaGetLastError() == (SUCCESS,)


def test_not_ready_is_no_error():
    _, pointer = cudart.cudaMalloc(1 << 26)
    _, event = cudart.cudaEventCreate()
    cudart.cudaMemsetAsync(pointer, 0, 1 << 26, 0)
    cudart.cudaEventRecord(event, 0)
    not_ready = cudaError_t.cudaErrorNotReady
    assert cudart.cudaStreamQuery(0) == cudart.cudaEventQuery(event) == (not_ready,)
    assert cudart.cudaPeekAtLastError() == (SUCCESS,)
    assert cudart.cudaDeviceSynchronize() == (SUCCESS,)
    assert cudart.cudaStreamQuery(0) == cudart.cudaEventQuery(event) == (SUCCESS,)


def test_errors_have_names_and_texts():
    assert cudart.cudaGetErrorName(cudaError_t.cudaErrorIllegalAddress) == (SUCCESS, b"cudaErrorIllegalAddress")
    assert cudart.cudaGetErrorString(700) == (SUCCESS, b"an illegal memory access was encountered")


def test_device_properties():
    error, properties = cudart.cudaGetDeviceProperties(0)
    assert error == SUCCESS
    assert properties.name.rstrip(b"\0") == b"NVIDIA H200"
    assert (properties.major, properties.minor, properties.multiProcessorCount) == (9, 0, 132)
    assert properties.sharedMemPerBlockOptin == 232448
    assert list(properties.maxGridSize) == [2147483647, 65535, 65535]
    assert properties.asyncEngineCount >= 2


def test_attributes_agree_with_properties():
    _, properties = cudart.cudaGetDeviceProperties(0)
    names = cudart.cudaDeviceAttr
    for attribute, value in (
        (names.cudaDevAttrMultiProcessorCount, properties.multiProcessorCount),
        (names.cudaDevAttrMaxThreadsPerBlock, properties.maxThreadsPerBlock),
        (names.cudaDevAttrL2CacheSize, properties.l2CacheSize),
        (names.cudaDevAttrAsyncEngineCount, properties.asyncEngineCount),
        (names.cudaDevAttrMaxGridDimX, properties.maxGridSize[0]),
    ):
        assert cudart.cudaDeviceGetAttribute(attribute, 0) == (SUCCESS, value)
    assert cudart.cudaDeviceGetAttribute(9999, 0) == (INVALID, None)


@pytest.mark.parametrize("device", [5, -1])
def test_devices_that_are_none(device):
    invalid = cudaError_t.cudaErrorInvalidDevice
    assert cudart.cudaSetDevice(device) == (invalid,)
    assert cudart.cudaDeviceGetAttribute(10, device) == (invalid, None)


def test_pci_bus_id_round_trip():
    error, name = cudart.cudaDeviceGetPCIBusId(64, 0)
    assert (error, len(name)) == (SUCCESS, 64)
    assert cudart.cudaDeviceGetByPCIBusId(name) == (SUCCESS, 0)
    assert cudart.cudaDeviceGetPCIBusId(4, 0) == (INVALID, None)


def test_limits():
    limits = cudart.cudaLimit
    assert cudart.cudaDeviceGetLimit(limits.cudaLimitStackSize) == (SUCCESS, 1024)
    assert cudart.cudaDeviceSetLimit(limits.cudaLimitStackSize, 4096) == (SUCCESS,)
    assert cudart.cudaDeviceGetLimit(limits.cudaLimitStackSize) == (SUCCESS, 4096)
    assert cudart.cudaDeviceSetLimit(limits.cudaLimitPrintfFifoSize, 100) == (SUCCESS,)
    assert cudart.cudaDeviceGetLimit(limits.cudaLimitPrintfFifoSize) == (SUCCESS, 524288)
    assert cudart.cudaDeviceSetLimit(limits.cudaLimitPersistingL2CacheSize, 1 << 40) == (INVALID,)
    unsupported = cudaError_t.cudaErrorUnsupportedLimit
    assert cudart.cudaDeviceGetLimit(limits.cudaLimitDevRuntimeSyncDepth) == (unsupported, None)


def test_device_flags():
    assert cudart.cudaGetDeviceFlags() == (SUCCESS, 8)
    assert cudart.cudaSetDeviceFlags(cudart.cudaDeviceScheduleBlockingSync) == (SUCCESS,)
    assert cudart.cudaGetDeviceFlags() == (SUCCESS, 12)
    assert cudart.cudaSetDeviceFlags(1 << 20) == (INVALID,)


def test_3d_copies_through_parameters():
    volume = np.random.default_rng(0).integers(0, 256, (3, 4, 20), np.uint8)
    extent = cudart.make_cudaExtent(20, 4, 3)
    error, pitched = cudart.cudaMalloc3D(extent)
    assert (error, pitched.pitch, pitched.xsize, pitched.ysize) == (SUCCESS, 512, 20, 4)
    copy = cudart.cudaMemcpy3DParms()
    copy.srcPtr = cudart.make_cudaPitchedPtr(volume.ctypes.data, 20, 20, 4)
    copy.dstPtr, copy.extent, copy.kind = pitched, extent, TO_DEVICE
    assert cudart.cudaMemcpy3D(copy) == (SUCCESS,)
    part = np.zeros((2, 2, 8), np.uint8)
    back = cudart.cudaMemcpy3DParms()
    back.srcPtr, back.srcPos = pitched, cudart.make_cudaPos(4, 1, 1)
    back.dstPtr = cudart.make_cudaPitchedPtr(part.ctypes.data, 8, 8, 2)
    back.extent, back.kind = cudart.make_cudaExtent(8, 2, 2), TO_HOST
    assert cudart.cudaMemcpy3D(back) == (SUCCESS,)
    assert np.array_equal(part, volume[1:3, 1:3, 4:12])
    assert cudart.cudaMemset3D(pitched, 7, extent) == (SUCCESS,)
    back.srcPos = cudart.make_cudaPos(0, 0, 0)
    assert cudart.cudaMemcpy3D(back) == (SUCCESS,)
    assert (part == 7).all()
    assert cudart.cudaMemcpy3D(None) == (INVALID,)


def test_2d_copies_and_memsets():
    image = np.arange(60, dtype=np.uint8).reshape(6, 10)
    _, pointer, pitch = cudart.cudaMallocPitch(10, 6)
    assert cudart.cudaMemset2D(pointer, pitch, 9, pitch, 6) == (SUCCESS,)
    assert cudart.cudaMemcpy2D(pointer, pitch, image, 10, 10, 6, TO_DEVICE) == (SUCCESS,)
    rows = np.zeros((6, pitch), np.uint8)
    assert cudart.cudaMemcpy(rows, pointer, rows.nbytes, TO_HOST) == (SUCCESS,)
    expected = np.full((6, pitch), 9, np.uint8)
    expected[:, :10] = image
    assert np.array_equal(rows, expected)


def test_streams_and_events_have_the_real_types():
    _, stream = cudart.cudaStreamCreateWithPriority(cudart.cudaStreamNonBlocking, -3)
    _, event = cudart.cudaEventCreateWithFlags(cudart.cudaEventDisableTiming)
    assert type(stream) is real.cudaStream_t
    assert type(event) is real.cudaEvent_t
    assert cudart.cudaStreamGetFlags(stream) == (SUCCESS, cudart.cudaStreamNonBlocking)
    assert cudart.cudaStreamGetPriority(stream) == (SUCCESS, -3)
    assert cudart.cudaStreamGetId(stream)[1] != cudart.cudaStreamGetId(0)[1]
    assert cudart.cudaDeviceGetStreamPriorityRange() == (SUCCESS, 0, -5)
    assert cudart.cudaEventRecord(event, stream) == (SUCCESS,)
    assert cudart.cudaStreamWaitEvent(cudart.cudaStreamPerThread, event, 0) == (SUCCESS,)
    assert cudart.cudaStreamWaitEvent(stream, event, 9) == (INVALID,)
    assert cudart.cudaStreamDestroy(stream) == (SUCCESS,)
    assert cudart.cudaStreamQuery(stream) == (cudaError_t.cudaErrorInvalidResourceHandle,)


def test_host_functions_get_their_user_data():
    seen = []
    callback = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(seen.append)
    function = real.cudaHostFn_t(_ptr=ctypes.addressof(callback))
    address = ctypes.cast(callback, ctypes.c_void_p).value
    assert cudart.cudaLaunchHostFunc(0, address, 1234) == (SUCCESS,)
    assert cudart.cudaLaunchHostFunc(0, function, 5678) == (SUCCESS,)
    assert cudart.cudaDeviceSynchronize() == (SUCCESS,)
    assert seen == [1234, 5678]


def test_pointer_attributes():
    _, pointer = cudart.cudaMalloc(100)
    _, pinned = cudart.cudaHostAlloc(100, cudart.cudaHostAllocMapped)
    error, found = cudart.cudaPointerGetAttributes(pointer + 8)
    assert error == SUCCESS
    assert found.type == real.cudaMemoryType.cudaMemoryTypeDevice
    assert (found.device, found.devicePointer, found.hostPointer) == (0, pointer + 8, 0)
    assert cudart.cudaPointerGetAttributes(pinned)[1].type == real.cudaMemoryType.cudaMemoryTypeHost
    assert cudart.cudaHostGetDevicePointer(pinned, 0) == (SUCCESS, pinned)


def test_reset_forgets_allocations():
    _, pointer = cudart.cudaMalloc(64)
    assert cudart.cudaDeviceReset() == (SUCCESS,)
    assert cudart.cudaFree(pointer) == (INVALID,)
    assert cudart.cudaMalloc(64)[0] == SUCCESS


def test_memory_info():
    free, total = cudart.cudaMemGetInfo()[1:]
    cudart.cudaMalloc(1 << 20)
    assert cudart.cudaMemGetInfo() == (SUCCESS, free - (1 << 20), total)


# -- pools, managed memory, attributes ---------------------------------------------------------------------------------


def test_values_have_the_types_of_the_bindings():
    _, pool = cudart.cudaDeviceGetDefaultMemPool(0)
    _, used = cudart.cudaMemPoolGetAttribute(pool, real.cudaMemPoolAttr.cudaMemPoolAttrUsedMemCurrent)
    _, reuse = cudart.cudaMemPoolGetAttribute(pool, real.cudaMemPoolAttr.cudaMemPoolReuseAllowOpportunistic)
    _, value = cudart.cudaStreamGetAttribute(0, real.cudaStreamAttrID.cudaLaunchAttributePriority)
    assert type(pool) is real.cudaMemPool_t
    assert (type(used).__name__, int(used), reuse) == ("cuuint64_t", 0, 1)
    assert type(value) is real.cudaStreamAttrValue


def test_a_callback_gets_stream_status_and_data():
    seen = []
    kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)
    function = kind(lambda stream, status, data: seen.append((stream, status, data)))
    _, stream = cudart.cudaStreamCreate()
    callback = real.cudaStreamCallback_t(ctypes.cast(function, ctypes.c_void_p).value)
    assert cudart.cudaStreamAddCallback(stream, callback, 77, 0) == (SUCCESS,)
    assert cudart.cudaStreamSynchronize(stream) == (SUCCESS,)
    assert seen == [(int(stream), 0, 77)]
    refused = cudart.cudaStreamAddCallback(stream, callback, 77, 1)
    assert refused == (INVALID,)
    assert "flags must be 0" in refused.note


def test_a_batch_needs_a_stream_and_an_order_for_its_sources():
    _, stream = cudart.cudaStreamCreate()
    _, memory = cudart.cudaMalloc(64)
    host = np.arange(16, dtype=np.int32)
    order = real.cudaMemcpyAttributes()
    order.srcAccessOrder = real.cudaMemcpySrcAccessOrder.cudaMemcpySrcAccessOrderStream
    address, pointer = host.ctypes.data, int(memory)
    arguments = ([pointer, pointer + 32], [address + 32, address], [32, 32], 2)
    assert cudart.cudaMemcpyBatchAsync(*arguments, [order], [0], 1, stream) == (SUCCESS,)
    cudart.cudaStreamSynchronize(stream)
    back = np.zeros(16, np.int32)
    cudart.cudaMemcpy(back.ctypes.data, memory, 64, TO_HOST)
    np.testing.assert_array_equal(back, np.roll(host, 8))
    for wrong, handle in (([order], 0), ([real.cudaMemcpyAttributes()], stream)):
        assert cudart.cudaMemcpyBatchAsync(*arguments, wrong, [0], 1, handle) == (INVALID,)


def test_help_says_what_a_function_takes_and_returns():
    for name in dir(cudart):
        if name.startswith("cuda") and isinstance(getattr(cudart, name), FunctionType):
            assert getattr(cudart, name).__doc__, name
    assert cudart.cudaGraphGetEdges.__doc__.startswith("cudaGraphGetEdges(graph")
    assert "Returns\n-------\ncudaError_t" in cudart.cudaGraphGetEdges.__doc__
