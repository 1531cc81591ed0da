"""``cuda.bindings.runtime`` on the simulated device: same names, signatures, types, return values and errors.

Types, enums and constants are those of the installed ``cuda.bindings``; functions answer ``(error, values…)`` as there.
A function that exists in the real module and is not simulated raises an error that names it.
"""

from __future__ import annotations

from typing import Any

from cuda.bindings import runtime as _real

from cudalab.sim import binding as _binding
from cudalab.sim.cudart.copies import (
    cudaMemcpy,
    cudaMemcpy2D,
    cudaMemcpy2DAsync,
    cudaMemcpy3D,
    cudaMemcpy3DAsync,
    cudaMemcpyAsync,
    cudaMemcpyBatchAsync,
    cudaMemcpyPeer,
    cudaMemcpyPeerAsync,
    cudaMemset,
    cudaMemset2D,
    cudaMemset2DAsync,
    cudaMemset3D,
    cudaMemset3DAsync,
    cudaMemsetAsync,
)
from cudalab.sim.cudart.devices import (
    cudaChooseDevice,
    cudaCtxResetPersistingL2Cache,
    cudaDeviceCanAccessPeer,
    cudaDeviceDisablePeerAccess,
    cudaDeviceEnablePeerAccess,
    cudaDeviceGetAttribute,
    cudaDeviceGetByPCIBusId,
    cudaDeviceGetCacheConfig,
    cudaDeviceGetLimit,
    cudaDeviceGetP2PAttribute,
    cudaDeviceGetPCIBusId,
    cudaDeviceGetStreamPriorityRange,
    cudaDeviceReset,
    cudaDeviceSetCacheConfig,
    cudaDeviceSetLimit,
    cudaDeviceSynchronize,
    cudaDriverGetVersion,
    cudaGetDevice,
    cudaGetDeviceCount,
    cudaGetDeviceFlags,
    cudaGetDeviceProperties,
    cudaGetErrorName,
    cudaGetErrorString,
    cudaGetLastError,
    cudaInitDevice,
    cudaPeekAtLastError,
    cudaProfilerStart,
    cudaProfilerStop,
    cudaRuntimeGetVersion,
    cudaSetDevice,
    cudaSetDeviceFlags,
    getLocalRuntimeVersion,
)
from cudalab.sim.cudart.graph_memory import (
    cudaDeviceGetGraphMemAttribute,
    cudaDeviceGraphMemTrim,
    cudaDeviceSetGraphMemAttribute,
    cudaGraphAddMemAllocNode,
    cudaGraphAddMemFreeNode,
    cudaGraphMemAllocNodeGetParams,
    cudaGraphMemFreeNodeGetParams,
)
from cudalab.sim.cudart.graph_nodes import (
    cudaGraphAddChildGraphNode,
    cudaGraphAddEmptyNode,
    cudaGraphAddEventRecordNode,
    cudaGraphAddEventWaitNode,
    cudaGraphAddHostNode,
    cudaGraphAddKernelNode,
    cudaGraphAddMemcpyNode,
    cudaGraphAddMemcpyNode1D,
    cudaGraphAddMemsetNode,
    cudaGraphAddNode,
    cudaGraphEventRecordNodeGetEvent,
    cudaGraphEventRecordNodeSetEvent,
    cudaGraphEventWaitNodeGetEvent,
    cudaGraphEventWaitNodeSetEvent,
    cudaGraphExecChildGraphNodeSetParams,
    cudaGraphExecEventRecordNodeSetEvent,
    cudaGraphExecEventWaitNodeSetEvent,
    cudaGraphExecHostNodeSetParams,
    cudaGraphExecKernelNodeSetParams,
    cudaGraphExecMemcpyNodeSetParams,
    cudaGraphExecMemcpyNodeSetParams1D,
    cudaGraphExecMemsetNodeSetParams,
    cudaGraphExecNodeSetParams,
    cudaGraphHostNodeGetParams,
    cudaGraphHostNodeSetParams,
    cudaGraphKernelNodeGetParams,
    cudaGraphKernelNodeSetParams,
    cudaGraphMemcpyNodeGetParams,
    cudaGraphMemcpyNodeSetParams,
    cudaGraphMemcpyNodeSetParams1D,
    cudaGraphMemsetNodeGetParams,
    cudaGraphMemsetNodeSetParams,
    cudaGraphNodeSetParams,
)
from cudalab.sim.cudart.graphs import (
    cudaGraphAddDependencies,
    cudaGraphChildGraphNodeGetGraph,
    cudaGraphClone,
    cudaGraphConditionalHandleCreate,
    cudaGraphConditionalHandleCreate_v2,
    cudaGraphCreate,
    cudaGraphDebugDotPrint,
    cudaGraphDestroy,
    cudaGraphDestroyNode,
    cudaGraphExecDestroy,
    cudaGraphExecGetFlags,
    cudaGraphExecGetId,
    cudaGraphExecUpdate,
    cudaGraphGetEdges,
    cudaGraphGetId,
    cudaGraphGetNodes,
    cudaGraphGetRootNodes,
    cudaGraphInstantiate,
    cudaGraphInstantiateWithFlags,
    cudaGraphInstantiateWithParams,
    cudaGraphLaunch,
    cudaGraphNodeFindInClone,
    cudaGraphNodeGetContainingGraph,
    cudaGraphNodeGetDependencies,
    cudaGraphNodeGetDependentNodes,
    cudaGraphNodeGetEnabled,
    cudaGraphNodeGetLocalId,
    cudaGraphNodeGetType,
    cudaGraphNodeSetEnabled,
    cudaGraphRemoveDependencies,
    cudaGraphUpload,
)
from cudalab.sim.cudart.managed import (
    cudaMallocManaged,
    cudaMemAdvise,
    cudaMemPrefetchAsync,
    cudaMemRangeGetAttribute,
    cudaMemRangeGetAttributes,
    cudaStreamAttachMemAsync,
)
from cudalab.sim.cudart.memory import (
    cudaFree,
    cudaFreeHost,
    cudaHostAlloc,
    cudaHostGetDevicePointer,
    cudaHostGetFlags,
    cudaHostRegister,
    cudaHostUnregister,
    cudaMalloc,
    cudaMalloc3D,
    cudaMallocHost,
    cudaMallocPitch,
    cudaMemGetInfo,
    cudaPointerGetAttributes,
)
from cudalab.sim.cudart.node_attributes import (
    cudaGraphKernelNodeCopyAttributes,
    cudaGraphKernelNodeGetAttribute,
    cudaGraphKernelNodeSetAttribute,
)
from cudalab.sim.cudart.pools import (
    cudaDeviceGetDefaultMemPool,
    cudaDeviceGetMemPool,
    cudaDeviceSetMemPool,
    cudaFreeAsync,
    cudaMallocAsync,
    cudaMallocFromPoolAsync,
    cudaMemGetDefaultMemPool,
    cudaMemGetMemPool,
    cudaMemPoolCreate,
    cudaMemPoolDestroy,
    cudaMemPoolGetAccess,
    cudaMemPoolGetAttribute,
    cudaMemPoolSetAccess,
    cudaMemPoolSetAttribute,
    cudaMemPoolTrimTo,
    cudaMemSetMemPool,
)
from cudalab.sim.cudart.stream_attributes import (
    cudaStreamCopyAttributes,
    cudaStreamGetAttribute,
    cudaStreamSetAttribute,
)
from cudalab.sim.cudart.stream_capture import (
    cudaStreamBeginCapture,
    cudaStreamBeginCaptureToGraph,
    cudaStreamEndCapture,
    cudaStreamGetCaptureInfo,
    cudaStreamIsCapturing,
    cudaStreamUpdateCaptureDependencies,
    cudaThreadExchangeStreamCaptureMode,
)
from cudalab.sim.cudart.streams import (
    cudaEventCreate,
    cudaEventCreateWithFlags,
    cudaEventDestroy,
    cudaEventElapsedTime,
    cudaEventQuery,
    cudaEventRecord,
    cudaEventRecordWithFlags,
    cudaEventSynchronize,
    cudaLaunchHostFunc,
    cudaStreamAddCallback,
    cudaStreamCreate,
    cudaStreamCreateWithFlags,
    cudaStreamCreateWithPriority,
    cudaStreamDestroy,
    cudaStreamGetDevice,
    cudaStreamGetFlags,
    cudaStreamGetId,
    cudaStreamGetPriority,
    cudaStreamQuery,
    cudaStreamSynchronize,
    cudaStreamWaitEvent,
)
from cudalab.sim.cudart.textures import (
    cudaArrayGetInfo,
    cudaCreateChannelDesc,
    cudaCreateSurfaceObject,
    cudaCreateTextureObject,
    cudaDestroySurfaceObject,
    cudaDestroyTextureObject,
    cudaFreeArray,
    cudaGetChannelDesc,
    cudaGetSurfaceObjectResourceDesc,
    cudaGetTextureObjectResourceDesc,
    cudaGetTextureObjectTextureDesc,
    cudaMalloc3DArray,
    cudaMallocArray,
    cudaMemcpy2DArrayToArray,
    cudaMemcpy2DFromArray,
    cudaMemcpy2DFromArrayAsync,
    cudaMemcpy2DToArray,
    cudaMemcpy2DToArrayAsync,
)
from cudalab.sim.cudart.user_objects import (
    cudaGraphReleaseUserObject,
    cudaGraphRetainUserObject,
    cudaUserObjectCreate,
    cudaUserObjectRelease,
    cudaUserObjectRetain,
)

globals().update(_binding.taken_over(_real))
_binding.document(globals(), _real)


def __getattr__(name: str) -> Any:
    raise _binding.missing(_real, name)


def __dir__() -> list[str]:
    return sorted(name for name in globals() if hasattr(_real, name) and not name.startswith("_"))
