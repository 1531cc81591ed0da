"""How functions of the driver answer: ``(CUresult, values…)``."""

from __future__ import annotations

from contextlib import AbstractContextManager

from cuda.bindings.driver import CUresult
from cuda.bindings.runtime import cudaError_t

from cudalab.sim import binding
from cudalab.sim.device import CudaError, current_device

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


def _around() -> AbstractContextManager[None]:
    return current_device().driver_call()


api = binding.answering(CUresult.CUDA_SUCCESS, _result, _around)
"""Decorator: ``@api(n)`` for a function that returns ``n`` values besides the result."""


def failed(result: CUresult, note: str) -> CudaError:
    """An error that the driver layer found itself."""
    return current_device().fail(cudaError_t(int(result)), note)
