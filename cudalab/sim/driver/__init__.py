"""``cuda.bindings.driver`` on the simulated device: same names, signatures, types, return values and errors.

Types, enums and constants are those of the installed ``cuda.bindings``; functions answer ``(CUresult, values…)`` as
there. A function that exists in the real module and is not simulated raises an error that names it.
"""

from __future__ import annotations

from typing import Any

from cuda.bindings import driver as _real

from cudalab.sim import binding as _binding
from cudalab.sim.driver.arrays import (
    cuArray3DCreate,
    cuArray3DGetDescriptor,
    cuArrayCreate,
    cuArrayDestroy,
    cuArrayGetDescriptor,
    cuSurfObjectCreate,
    cuSurfObjectDestroy,
    cuTexObjectCreate,
    cuTexObjectDestroy,
)
from cudalab.sim.driver.contexts import (
    cuCtxGetCurrent,
    cuCtxGetDevice,
    cuCtxGetFlags,
    cuCtxGetLimit,
    cuCtxGetStreamPriorityRange,
    cuCtxPopCurrent,
    cuCtxPushCurrent,
    cuCtxSetCurrent,
    cuCtxSetLimit,
    cuCtxSynchronize,
    cuDeviceComputeCapability,
    cuDeviceGet,
    cuDeviceGetAttribute,
    cuDeviceGetCount,
    cuDeviceGetName,
    cuDeviceGetUuid,
    cuDevicePrimaryCtxGetState,
    cuDevicePrimaryCtxRelease,
    cuDevicePrimaryCtxReset,
    cuDevicePrimaryCtxRetain,
    cuDeviceTotalMem,
    cuDriverGetVersion,
    cuGetErrorName,
    cuGetErrorString,
    cuInit,
    cuProfilerStart,
    cuProfilerStop,
)
from cudalab.sim.driver.launches import (
    cuLaunchCooperativeKernel,
    cuLaunchHostFunc,
    cuLaunchKernel,
    cuLaunchKernelEx,
)
from cudalab.sim.driver.memory import (
    cuMemAlloc,
    cuMemAllocHost,
    cuMemAllocPitch,
    cuMemcpy,
    cuMemcpy2D,
    cuMemcpy2DAsync,
    cuMemcpy2DUnaligned,
    cuMemcpy3D,
    cuMemcpy3DAsync,
    cuMemcpyAsync,
    cuMemcpyDtoD,
    cuMemcpyDtoDAsync,
    cuMemcpyDtoH,
    cuMemcpyDtoHAsync,
    cuMemcpyHtoD,
    cuMemcpyHtoDAsync,
    cuMemFree,
    cuMemFreeHost,
    cuMemGetInfo,
    cuMemHostAlloc,
    cuMemHostGetDevicePointer,
    cuMemHostGetFlags,
    cuMemHostRegister,
    cuMemHostUnregister,
    cuMemsetD2D8,
    cuMemsetD2D8Async,
    cuMemsetD2D16,
    cuMemsetD2D16Async,
    cuMemsetD2D32,
    cuMemsetD2D32Async,
    cuMemsetD8,
    cuMemsetD8Async,
    cuMemsetD16,
    cuMemsetD16Async,
    cuMemsetD32,
    cuMemsetD32Async,
)
from cudalab.sim.driver.modules import (
    cuFuncGetAttribute,
    cuFuncGetModule,
    cuFuncGetName,
    cuFuncGetParamCount,
    cuFuncGetParamInfo,
    cuFuncIsLoaded,
    cuFuncLoad,
    cuFuncSetAttribute,
    cuFuncSetCacheConfig,
    cuModuleEnumerateFunctions,
    cuModuleGetFunction,
    cuModuleGetFunctionCount,
    cuModuleGetGlobal,
    cuModuleGetLoadingMode,
    cuModuleLoad,
    cuModuleLoadData,
    cuModuleLoadDataEx,
    cuModuleUnload,
    cuOccupancyAvailableDynamicSMemPerBlock,
    cuOccupancyMaxActiveBlocksPerMultiprocessor,
    cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags,
    cuOccupancyMaxActiveClusters,
    cuOccupancyMaxPotentialBlockSize,
    cuOccupancyMaxPotentialClusterSize,
)
from cudalab.sim.driver.pointers import cuMemGetAddressRange, cuPointerGetAttribute, cuPointerGetAttributes
from cudalab.sim.driver.pools import (
    cuDeviceGetDefaultMemPool,
    cuDeviceGetMemPool,
    cuDeviceSetMemPool,
    cuMemAdvise,
    cuMemAllocAsync,
    cuMemAllocFromPoolAsync,
    cuMemAllocManaged,
    cuMemFreeAsync,
    cuMemPoolCreate,
    cuMemPoolDestroy,
    cuMemPoolGetAccess,
    cuMemPoolGetAttribute,
    cuMemPoolSetAccess,
    cuMemPoolSetAttribute,
    cuMemPoolTrimTo,
    cuMemPrefetchAsync,
    cuMemRangeGetAttribute,
    cuMemRangeGetAttributes,
)
from cudalab.sim.driver.streams import (
    cuEventCreate,
    cuEventDestroy,
    cuEventElapsedTime,
    cuEventQuery,
    cuEventRecord,
    cuEventRecordWithFlags,
    cuEventSynchronize,
    cuStreamAddCallback,
    cuStreamAttachMemAsync,
    cuStreamCopyAttributes,
    cuStreamCreate,
    cuStreamCreateWithPriority,
    cuStreamDestroy,
    cuStreamGetAttribute,
    cuStreamGetCaptureInfo,
    cuStreamGetCtx,
    cuStreamGetDevice,
    cuStreamGetFlags,
    cuStreamGetId,
    cuStreamGetPriority,
    cuStreamIsCapturing,
    cuStreamQuery,
    cuStreamSetAttribute,
    cuStreamSynchronize,
    cuStreamWaitEvent,
    cuStreamWaitValue32,
    cuStreamWaitValue64,
    cuStreamWriteValue32,
    cuStreamWriteValue64,
)

globals().update(_binding.taken_over(_real))


def __getattr__(name: str) -> Any:
    raise _binding.missing(_real, name)


def __dir__() -> list[str]:
    return sorted(name for name in globals() if hasattr(_real, name) and not name.startswith("_"))
