"""``cupy.cuda.driver``: the few calls of the CUDA driver that CuPy gives, on the simulated device."""

from __future__ import annotations

from typing import Any

from cuda.bindings.runtime import cudaError_t

from cudalab.sim.compiler.frontend.targets import misfit
from cudalab.sim.cupy._base import catalogue
from cudalab.sim.cupy._base.call import device, driver_errors, integer
from cudalab.sim.cupy._base.errors import CUDADriverError
from cudalab.sim.device import CudaError

globals().update(catalogue.constants("cupy.cuda.driver"))

# cudaFuncAttribute numbers of the two attributes that can be set; CUfunction_attribute has the same numbers.
MAX_DYNAMIC_SHARED = 8
PREFERRED_CARVEOUT = 9
_INVALID_VALUE = 1


def __getattr__(name: str) -> Any:
    raise catalogue.missing("cupy.cuda.driver", name)


def __dir__() -> list[str]:
    return catalogue.offered("cupy.cuda.driver", globals())


def check_status(status: int) -> None:
    """Raise :class:`CUDADriverError` unless ``status`` is 0."""
    if status:
        raise CUDADriverError(status)


def get_build_version() -> int:
    """CUDA version that CuPy was built with."""
    return int(catalogue.data()["runtime_version"])


def funcGetAttribute(attribute: int, f: int) -> int:
    """Value of a ``CUfunction_attribute`` of the kernel with handle ``f``."""
    with driver_errors():
        info = device().function_info(integer(f))
    kernel = info.kernel
    resources = kernel.resources
    own = 10 * device().properties["major"] + device().properties["minor"]  # what kernels are compiled for
    found = {
        0: kernel.max_threads,
        1: resources.shared if resources else kernel.static_shared,
        2: sum_of_constants(info),
        3: resources.local if resources else kernel.local_bytes,
        4: resources.registers if resources else 0,
        5: own,
        6: own,
        7: 0,
        MAX_DYNAMIC_SHARED: info.max_dynamic_shared,
        PREFERRED_CARVEOUT: info.preferred_carveout,
    }.get(integer(attribute))
    if found is None:
        raise CUDADriverError(_INVALID_VALUE)
    return int(found)


def sum_of_constants(info: Any) -> int:
    """Bytes of ``__constant__`` variables of the kernel's module, as reported by the compiler."""
    resources = info.kernel.resources
    return int(getattr(resources, "user_constant", 0)) if resources else 0


def funcSetAttribute(f: int, attribute: int, value: int) -> None:
    """Set ``CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES`` or the carve-out."""
    with driver_errors():
        device().function_set_attribute(integer(f), integer(attribute), integer(value))


def moduleLoadData(image: bytes) -> int:
    """Load PTX text; gives a module handle."""
    from cudalab.sim.compiler import compile_ptx

    text = bytes(image).rstrip(b"\0").decode()
    with driver_errors():
        if ".version" not in text or ".target" not in text:
            text = "the image is no PTX: it has no .version and .target"
            raise CudaError(cudaError_t.cudaErrorInvalidKernelImage, text)
        properties = device().properties
        wrong = misfit(text, properties["major"], properties["minor"])
        if wrong is not None:
            newer = wrong.rule == "version"
            code = cudaError_t.cudaErrorUnsupportedPtxVersion if newer else cudaError_t.cudaErrorInvalidPtx
            raise CudaError(code, wrong.message)
        return int(device().load_module(compile_ptx(text)))


def moduleUnload(module: int) -> None:
    """Unload a module; its functions and variables are gone."""
    with driver_errors():
        device().unload_module(integer(module))


def moduleGetFunction(module: int, funcname: str) -> int:
    """Handle of a kernel (``CUDA_ERROR_NOT_FOUND`` when there is none of that name)."""
    with driver_errors():
        return int(device().get_function(integer(module), funcname))


def moduleGetGlobal(module: int, varname: str) -> int:
    """Address of a ``__device__`` or ``__constant__`` variable."""
    with driver_errors():
        return int(device().get_global(integer(module), varname)[0])


def occupancyMaxActiveBlocksPerMultiprocessor(func: int, blockSize: int, dynamicSMemSize: int) -> int:
    """Blocks of ``blockSize`` threads that one SM holds at a time."""
    with driver_errors():
        return int(device().occupancy(integer(func), integer(blockSize), integer(dynamicSMemSize)))
