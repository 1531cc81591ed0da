"""How functions of the driver answer: ``(CUresult, values…)``."""

from __future__ import annotations

from contextlib import AbstractContextManager

from cuda.bindings.driver import CUresult
from cuda.bindings.runtime import cudaError_t

from cudalab.sim import binding
from cudalab.sim.device import CudaError, Device, current_device

# Runtime and driver number their errors alike, but for these, which the driver does not tell apart.
_INVALID = frozenset(
    {
        cudaError_t.cudaErrorInvalidConfiguration,
        cudaError_t.cudaErrorInvalidPitchValue,
        cudaError_t.cudaErrorInvalidMemcpyDirection,
    }
)


def _result(error: CudaError) -> CUresult:
    return CUresult.CUDA_ERROR_INVALID_VALUE if error.code in _INVALID else CUresult(int(error.code))


def _driver_call() -> AbstractContextManager[None]:
    return current_device().driver_call()


def _in_context() -> AbstractContextManager[None]:
    device = current_device()
    if not device.contexts.ready:
        with device.driver_call():
            raise _no_context(device)
    return device.driver_call()


def _no_context(device: Device) -> CudaError:
    """Why a call of the driver API cannot work in this host thread."""
    if device.contexts.current:
        return device.fail(
            cudaError_t.cudaErrorContextIsDestroyed,
            "the device's primary context is current in this host thread, but it was reset, or nobody has retained it: "
            "a call of the runtime, cudaFree(0) for example, or cuDevicePrimaryCtxRetain makes it anew",
        )
    return device.fail(
        cudaError_t.cudaErrorDeviceUninitialized,
        "no context is current in this host thread. A call of the runtime, cudaFree(0) for example, makes the device's "
        "primary context current; in the driver API that takes cuDevicePrimaryCtxRetain and cuCtxSetCurrent",
    )


api = binding.answering(CUresult.CUDA_SUCCESS, _result, _in_context)
"""Decorator: ``@api(n)`` for a function that returns ``n`` values besides the result, and needs a current context."""
api_without_context = binding.answering(CUresult.CUDA_SUCCESS, _result, _driver_call)
"""The same for a function that needs none."""


def failed(result: CUresult, note: str) -> CudaError:
    """An error that the driver layer found itself."""
    return current_device().fail(cudaError_t(int(result)), note)
