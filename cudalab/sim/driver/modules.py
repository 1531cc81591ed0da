"""Modules from PTX, their functions and global variables, and the attributes of functions.

A module is loaded from PTX, as NVRTC or nvcc make it. A cubin holds machine code of a real GPU, which this device does
not run: compile to PTX instead.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cuda.bindings.driver import (
    CUdeviceptr,
    CUfunc_cache,
    CUfunction,
    CUfunction_attribute,
    CUfunctionLoadingState,
    CUjit_option,
    CUlaunchAttributeID,
    CUlaunchConfig,
    CUmodule,
    CUmoduleLoadingMode,
    CUresult,
)

from cudalab.sim.binding import enumerator, handle, signed, size_t, struct, unsigned, void_pointer
from cudalab.sim.compiler import CompileError, compile_ptx
from cudalab.sim.compiler.frontend.targets import misfit
from cudalab.sim.device import FunctionInfo, current_device, host_address
from cudalab.sim.driver.answer import api, failed
from cudalab.sim.driver.launches import cluster_of

_Triple = tuple[int, int, int]
_MOST_PTX = 64 << 20
_ELF, _FATBIN = b"\x7fELF", b"\x50\xed\x55\xba"
_ELF_HEADER = 64  # bytes


@api(1)
def cuModuleLoadData(image: Any) -> CUmodule:
    return _load(_image(image))


@api(1)
def cuModuleLoadDataEx(
    image: Any,
    numOptions: Any,
    options: tuple[CUjit_option] | list[CUjit_option] | None,
    optionValues: tuple[Any] | list[Any] | None,
) -> CUmodule:
    unsigned(numOptions)
    return _load(_image(image))


@api(1)
def cuModuleLoad(fname: Any) -> CUmodule:
    try:
        return _load(Path(bytes(fname).decode()).read_bytes())
    except OSError as error:
        raise failed(CUresult.CUDA_ERROR_FILE_NOT_FOUND, f"cuModuleLoad: {error}") from None


def _image(image: Any) -> bytes:
    """The bytes of an image: an object with a buffer, or the address of a string that ends with NUL."""
    if isinstance(image, (bytes, bytearray, memoryview)):
        return bytes(image)
    address = void_pointer(image)
    if not address:
        raise failed(CUresult.CUDA_ERROR_INVALID_VALUE, "cuModuleLoadData: no image (null)")
    data = bytearray()
    try:
        while len(data) < _MOST_PTX:
            # up to the end of the page, which is there when its first byte is
            piece = host_address.read(address + len(data), 4096 - (address + len(data)) % 4096).tobytes()
            end = piece.find(0)
            data += piece if end < 0 else piece[:end]
            if end >= 0:
                break
    except host_address.UnmappedAddress as error:
        raise failed(CUresult.CUDA_ERROR_INVALID_VALUE, f"cuModuleLoadData: {error}") from None
    return bytes(data)


def _load(image: bytes) -> CUmodule:
    if image.startswith(_ELF) and len(image) < _ELF_HEADER:
        raise failed(CUresult.CUDA_ERROR_INVALID_IMAGE, "the image begins like a cubin, and is shorter than its header")
    if image.startswith((_ELF, _FATBIN)):
        raise failed(
            CUresult.CUDA_ERROR_NO_BINARY_FOR_GPU,
            "the image is a cubin or fat binary: machine code of a real GPU, which the simulated device does not run. "
            "Compile to PTX: nvrtcGetPTX with --gpu-architecture=compute_90, or nvcc -ptx",
        )
    text = image.rstrip(b"\0").decode("utf-8", "replace")
    if ".version" not in text or ".target" not in text:
        raise failed(CUresult.CUDA_ERROR_INVALID_IMAGE, "the image is no PTX: it has no .version and .target")
    properties = current_device().properties
    wrong = misfit(text, properties["major"], properties["minor"])
    if wrong is not None:
        refused = CUresult.CUDA_ERROR_UNSUPPORTED_PTX_VERSION
        raise failed(refused if wrong.rule == "version" else CUresult.CUDA_ERROR_INVALID_PTX, wrong.message)
    try:
        program = compile_ptx(text)
    except CompileError as error:
        raise failed(CUresult.CUDA_ERROR_INVALID_PTX, str(error)) from None
    return CUmodule(current_device().load_module(program))


@api()
def cuModuleUnload(hmod: Any) -> None:
    current_device().unload_module(handle(hmod))


@api(1)
def cuModuleGetLoadingMode() -> CUmoduleLoadingMode:
    return CUmoduleLoadingMode.CU_MODULE_EAGER_LOADING


@api(1)
def cuModuleGetFunction(hmod: Any, name: Any) -> CUfunction:
    return CUfunction(current_device().get_function(handle(hmod), _text(name)))


@api(2)
def cuModuleGetGlobal(hmod: Any, name: Any) -> tuple[CUdeviceptr, int]:
    pointer, size = current_device().get_global(handle(hmod), _text(name))
    return CUdeviceptr(pointer), size


@api(1)
def cuModuleGetFunctionCount(mod: Any) -> int:
    return len(current_device().function_names(handle(mod)))


@api(1)
def cuModuleEnumerateFunctions(numFunctions: Any, mod: Any) -> list[CUfunction]:
    device, module = current_device(), handle(mod)
    names = device.function_names(module)[: unsigned(numFunctions)]
    return [CUfunction(device.get_function(module, name)) for name in names]


def _text(name: Any) -> str:
    if not isinstance(name, bytes):
        raise TypeError(f"expected bytes, {type(name).__name__} found")
    return name.decode()


# -- functions ---------------------------------------------------------------------------------------------------------


def _info(function: Any) -> FunctionInfo:
    return current_device().function_info(handle(function))


@api(1)
def cuFuncGetAttribute(attrib: CUfunction_attribute, hfunc: Any) -> int:
    number, info = enumerator(attrib, "attrib"), _info(hfunc)
    values = _attributes(info)
    if number not in values:
        raise failed(CUresult.CUDA_ERROR_INVALID_VALUE, f"{number} is no attribute of a function")
    return values[number]


def _attributes(info: FunctionInfo) -> dict[int, int]:
    a = CUfunction_attribute
    kernel, resources = info.kernel, info.kernel.resources
    properties = current_device().properties
    version = 10 * int(properties["major"]) + int(properties["minor"])
    values = {
        a.CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK: kernel.max_threads,
        a.CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES: kernel.static_shared,
        a.CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES: resources.constant if resources else 0,
        a.CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES: resources.local if resources else kernel.local_bytes,
        a.CU_FUNC_ATTRIBUTE_NUM_REGS: resources.registers if resources else 0,
        a.CU_FUNC_ATTRIBUTE_PTX_VERSION: version,
        a.CU_FUNC_ATTRIBUTE_BINARY_VERSION: version,
        a.CU_FUNC_ATTRIBUTE_CACHE_MODE_CA: 0,
        a.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES: info.max_dynamic_shared,
        a.CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT: info.preferred_carveout,
        a.CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET: kernel.cluster is not None and not kernel.blocks_are_clusters,
        a.CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH: info.required_cluster[0],
        a.CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT: info.required_cluster[1],
        a.CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH: info.required_cluster[2],
        a.CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED: info.non_portable_clusters,
        a.CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE: 0,
    }
    return {int(name): int(value) for name, value in values.items()}


@api()
def cuFuncSetAttribute(hfunc: Any, attrib: CUfunction_attribute, value: Any) -> None:
    current_device().function_set_attribute(handle(hfunc), enumerator(attrib, "attrib"), signed(value))


@api()
def cuFuncSetCacheConfig(hfunc: Any, config: CUfunc_cache) -> None:
    """A preference; L1 and shared memory of the simulated device are not divided by it."""
    _info(hfunc)
    enumerator(config, "config")


@api(1)
def cuFuncGetName(hfunc: Any) -> bytes:
    return _info(hfunc).kernel.name.encode()


@api(1)
def cuFuncGetModule(hfunc: Any) -> CUmodule:
    return CUmodule(_info(hfunc).module)


@api(2)
def cuFuncGetParamInfo(func: Any, paramIndex: Any) -> tuple[int, int]:
    parameters, index = _info(func).kernel.parameters, size_t(paramIndex)
    if index >= len(parameters):
        raise failed(
            CUresult.CUDA_ERROR_INVALID_VALUE, f"the kernel has {len(parameters)} parameters (asked for number {index})"
        )
    return parameters[index].offset, parameters[index].size


@api(1)
def cuFuncGetParamCount(func: Any) -> int:
    return len(_info(func).kernel.parameters)


@api(1)
def cuFuncIsLoaded(function: Any) -> CUfunctionLoadingState:
    _info(function)
    return CUfunctionLoadingState.CU_FUNCTION_LOADING_STATE_LOADED


@api()
def cuFuncLoad(function: Any) -> None:
    _info(function)


# -- occupancy ---------------------------------------------------------------------------------------------------------


@api(1)
def cuOccupancyMaxActiveBlocksPerMultiprocessor(func: Any, blockSize: Any, dynamicSMemSize: Any) -> int:
    return current_device().occupancy(handle(func), signed(blockSize), size_t(dynamicSMemSize))


@api(1)
def cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
    func: Any, blockSize: Any, dynamicSMemSize: Any, flags: Any
) -> int:
    unsigned(flags)
    return current_device().occupancy(handle(func), signed(blockSize), size_t(dynamicSMemSize))


@api(1)
def cuOccupancyMaxPotentialClusterSize(func: Any, config: CUlaunchConfig | None) -> int:
    _, block, shared, _ = _configuration(config)
    return current_device().largest_cluster(handle(func), block, shared)


@api(1)
def cuOccupancyMaxActiveClusters(func: Any, config: CUlaunchConfig | None) -> int:
    grid, block, shared, cluster = _configuration(config)
    return current_device().cluster_occupancy(handle(func), grid, block, shared, cluster)


def _configuration(config: CUlaunchConfig | None) -> tuple[_Triple, _Triple, int, _Triple | None]:
    """Grid, block, dynamic shared memory and cluster of a launch configuration."""
    if config is None:
        raise failed(CUresult.CUDA_ERROR_INVALID_VALUE, "there is no configuration (None)")
    struct(config, "config", CUlaunchConfig)
    wanted = CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
    attributes = [each for each in list(config.attrs)[: config.numAttrs] if each.id == wanted]
    return (
        (config.gridDimX, config.gridDimY, config.gridDimZ),
        (config.blockDimX, config.blockDimY, config.blockDimZ),
        int(config.sharedMemBytes),
        cluster_of(attributes[-1]) if attributes else None,
    )


@api(2)
def cuOccupancyMaxPotentialBlockSize(
    func: Any, blockSizeToDynamicSMemSize: Any, dynamicSMemSize: Any, blockSizeLimit: Any
) -> tuple[int, int]:
    if blockSizeToDynamicSMemSize is not None and int(blockSizeToDynamicSMemSize):
        raise failed(
            CUresult.CUDA_ERROR_NOT_SUPPORTED, "a function for the shared size is not simulated; pass None and a size"
        )
    return current_device().best_block_size(handle(func), size_t(dynamicSMemSize), signed(blockSizeLimit))


@api(1)
def cuOccupancyAvailableDynamicSMemPerBlock(func: Any, numBlocks: Any, blockSize: Any) -> int:
    return current_device().available_shared(handle(func), signed(numBlocks), signed(blockSize))
