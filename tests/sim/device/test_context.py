"""The primary context: which calls make it, what that costs, who shares it, and what a reset leaves of it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from cuda.bindings.driver import CUresult
from cuda.bindings.runtime import cudaComputeMode, cudaDeviceAttr, cudaError_t

from cudalab.sim import cudart, cupy, driver
from cudalab.sim import device as package
from cudalab.sim.device import Device
from cudalab.sim.device.profile import load

HANDLE = 0x0D00_0000
"""The context of device 0."""
SUCCESS, DONE = cudaError_t.cudaSuccess, CUresult.CUDA_SUCCESS

QUIET: dict[str, Callable[[], Any]] = {
    "cudaGetDeviceCount": cudart.cudaGetDeviceCount,
    "cudaGetDevice": cudart.cudaGetDevice,
    "cudaGetDeviceProperties": lambda: cudart.cudaGetDeviceProperties(0),
    "cudaDeviceGetAttribute": lambda: cudart.cudaDeviceGetAttribute(cudaDeviceAttr.cudaDevAttrWarpSize, 0),
    "cudaSetDeviceFlags": lambda: cudart.cudaSetDeviceFlags(cudart.cudaDeviceScheduleYield),
    "cudaGetDeviceFlags": cudart.cudaGetDeviceFlags,
    "cudaGetLastError": cudart.cudaGetLastError,
    "cudaPeekAtLastError": cudart.cudaPeekAtLastError,
    "cudaGetErrorString": lambda: cudart.cudaGetErrorString(SUCCESS),
    "cudaRuntimeGetVersion": cudart.cudaRuntimeGetVersion,
    "cudaDriverGetVersion": cudart.cudaDriverGetVersion,
    "cudaDeviceReset": cudart.cudaDeviceReset,
}
"""Calls that do not make the context."""
MAKING: dict[str, Callable[[], Any]] = {
    "cudaFree": lambda: cudart.cudaFree(0),
    "cudaSetDevice": lambda: cudart.cudaSetDevice(0),
    "cudaMalloc": lambda: cudart.cudaMalloc(16),
    "cudaDeviceSynchronize": cudart.cudaDeviceSynchronize,
    "cudaMemGetInfo": cudart.cudaMemGetInfo,
    "cudaStreamCreate": cudart.cudaStreamCreate,
}


@pytest.fixture(autouse=True)
def device() -> Iterator[Device]:
    before = package.set_current_device(Device())
    yield package.current_device()
    package.set_current_device(before)


def active() -> int:
    result, _, state = driver.cuDevicePrimaryCtxGetState(0)
    assert result == DONE
    return int(state)


def current() -> int:
    return int(driver.cuCtxGetCurrent()[1])


def in_thread(function: Callable[[], Any]) -> Any:
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(function()))
    thread.start()
    thread.join()
    return found[0]


@pytest.mark.parametrize("name", QUIET)
def test_questions_do_not_make_it(name: str, device: Device) -> None:
    assert QUIET[name]()[0] == SUCCESS
    assert (active(), current()) == (0, 0)
    assert device.clock_ns < 10_000


@pytest.mark.parametrize("name", MAKING)
def test_the_first_call_that_needs_it_pays(name: str, device: Device) -> None:
    assert MAKING[name]()[0] == SUCCESS
    assert (active(), current()) == (1, HANDLE)
    first = device.clock_ns
    assert first > device.profile.host["initialize"] > 1e8
    MAKING[name]()
    assert device.clock_ns - first < first / 100


def test_init_device_does_not_make_it_current() -> None:
    assert cudart.cudaInitDevice(0, 0, 0) == (SUCCESS,)
    assert (active(), current()) == (1, 0)
    assert driver.cuMemGetInfo()[0] == CUresult.CUDA_ERROR_INVALID_CONTEXT
    cudart.cudaFree(0)
    assert current() == HANDLE


def test_a_device_that_is_not_there_makes_nothing() -> None:
    assert cudart.cudaSetDevice(1) == cudart.cudaInitDevice(1, 0, 0) == (cudaError_t.cudaErrorInvalidDevice,)
    assert cudart.cudaGetLastError() == (cudaError_t.cudaErrorInvalidDevice,)
    assert active() == 0


def test_cupy_makes_it_with_its_first_array() -> None:
    with cupy.cuda.Device(0):
        assert active() == 0
    with cupy.cuda.using_allocator(cupy.cuda.MemoryPool().malloc):
        cupy.zeros(4)
        assert active() == 1


def test_setting_the_device_by_cupy_makes_it() -> None:
    cupy.cuda.Device(0).use()
    assert active() == 1


def test_threads_share_it_and_have_it_current_each_for_itself(device: Device) -> None:
    pointer = cudart.cudaMalloc(64)[1]
    before = device.clock_ns
    assert in_thread(current) == 0
    assert in_thread(lambda: driver.cuMemGetInfo()[0]) == CUresult.CUDA_ERROR_INVALID_CONTEXT
    assert in_thread(lambda: (cudart.cudaFree(0), current())[1]) == HANDLE
    assert in_thread(lambda: cudart.cudaFree(pointer)) == (SUCCESS,)
    assert device.clock_ns - before < 1e6


def test_a_reset_destroys_it_and_the_next_call_makes_it_anew(device: Device) -> None:
    pointer = cudart.cudaMalloc(64)[1]
    assert cudart.cudaDeviceReset() == (SUCCESS,)
    assert (active(), current()) == (0, HANDLE)
    assert driver.cuMemGetInfo()[0] == CUresult.CUDA_ERROR_CONTEXT_IS_DESTROYED
    before = device.clock_ns
    assert cudart.cudaFree(pointer) == (cudaError_t.cudaErrorInvalidValue,)
    assert active() == 1
    assert device.clock_ns - before > device.profile.host["initialize"]


def test_errors_of_missing_contexts_are_not_the_runtimes_and_say_what_to_do() -> None:
    answer = driver.cuMemAlloc(64)
    assert answer[0] == CUresult.CUDA_ERROR_INVALID_CONTEXT
    assert "cudaFree(0)" in answer.note
    assert cudart.cudaPeekAtLastError() == (SUCCESS,)


def test_the_driver_retains_and_releases_it() -> None:
    assert driver.cuDevicePrimaryCtxRelease(0)[0] == CUresult.CUDA_ERROR_INVALID_CONTEXT
    _, context = driver.cuDevicePrimaryCtxRetain(0)
    assert (active(), current()) == (1, 0)
    assert driver.cuCtxPushCurrent(context) == (DONE,)
    assert driver.cuMemAlloc(64)[0] == DONE
    assert int(driver.cuCtxPopCurrent()[1]) == HANDLE
    assert driver.cuCtxPopCurrent()[0] == CUresult.CUDA_ERROR_INVALID_CONTEXT
    assert driver.cuDevicePrimaryCtxRelease(0) == (DONE,)
    assert active() == 0


def test_what_the_runtime_has_made_outlives_a_release() -> None:
    cudart.cudaFree(0)
    assert int(driver.cuDevicePrimaryCtxRetain(0)[1]) == HANDLE
    driver.cuDevicePrimaryCtxRelease(0)
    assert active() == 1


def test_contexts_that_do_not_exist() -> None:
    for function in (driver.cuCtxSetCurrent, driver.cuCtxPushCurrent):
        assert function(0xBAD) == (CUresult.CUDA_ERROR_INVALID_CONTEXT,)
    assert driver.cuCtxPushCurrent(0) == (CUresult.CUDA_ERROR_INVALID_VALUE,)
    assert driver.cuCtxSetCurrent(0) == (DONE,)


def test_a_prohibited_device_cannot_be_set_up_and_the_others_can() -> None:
    machine = load("h200-x2")
    mode = {"computeMode": cudaComputeMode.cudaComputeModeProhibited}
    package.set_current_device(Device(replace(machine, differing={1: mode})))
    asked = cudart.cudaDeviceGetAttribute(cudaDeviceAttr.cudaDevAttrComputeMode, 1)
    assert asked == (SUCCESS, cudaComputeMode.cudaComputeModeProhibited)
    assert cudart.cudaSetDevice(1) == (cudaError_t.cudaErrorDevicesUnavailable,)
    assert driver.cuDevicePrimaryCtxRetain(1)[0] == CUresult.CUDA_ERROR_DEVICE_UNAVAILABLE
    assert cudart.cudaSetDevice(0) == (SUCCESS,) and cudart.cudaFree(0) == (SUCCESS,)
    assert [context.active for context in package.current_device().contexts.all] == [True, False]
