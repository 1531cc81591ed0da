"""What an address is: the allocation that it lies in, and its attributes."""

from __future__ import annotations

from typing import Any

from cuda.bindings.driver import CUcontext, CUdeviceptr, CUmemoryPool, CUmemorytype, CUpointer_attribute, CUresult

from cudalab.sim.binding import enumerator, handle, unsigned
from cudalab.sim.device import CudaError, current_device
from cudalab.sim.driver.answer import api, failed
from cudalab.sim.driver.contexts import context_of

_A = CUpointer_attribute
_HOST, _MANAGED = 1, 3


@api(2)
def cuMemGetAddressRange(dptr: Any) -> tuple[CUdeviceptr, int]:
    address = handle(dptr)
    found = current_device().address_range(address)
    if found is None:
        raise failed(CUresult.CUDA_ERROR_NOT_FOUND, f"{address:#x} is in no allocation of this device")
    return CUdeviceptr(found[0]), found[1]


@api(1)
def cuPointerGetAttribute(attribute: CUpointer_attribute, ptr: Any) -> Any:
    return _attribute(enumerator(attribute, "attribute"), handle(ptr))


@api(1)
def cuPointerGetAttributes(
    numAttributes: Any, attributes: tuple[CUpointer_attribute] | list[CUpointer_attribute] | None, ptr: Any
) -> list[Any]:
    """Unlike the single question this one succeeds for any address: what does not apply is 0."""
    address, values = handle(ptr), []
    for attribute in list(attributes or ())[: unsigned(numAttributes)]:
        try:
            values.append(_attribute(int(attribute), address))
        except CudaError:
            values.append(_NOTHING.get(int(attribute), 0))
    return values


_NOTHING: dict[int, Any] = {
    int(_A.CU_POINTER_ATTRIBUTE_CONTEXT): CUcontext(0),
    int(_A.CU_POINTER_ATTRIBUTE_DEVICE_POINTER): CUdeviceptr(0),
    int(_A.CU_POINTER_ATTRIBUTE_RANGE_START_ADDR): CUdeviceptr(0),
    int(_A.CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE): CUmemoryPool(0),
    int(_A.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL): 0,
    int(_A.CU_POINTER_ATTRIBUTE_IS_MANAGED): False,
    int(_A.CU_POINTER_ATTRIBUTE_SYNC_MEMOPS): False,
    int(_A.CU_POINTER_ATTRIBUTE_MAPPED): False,
}


def _attribute(number: int, address: int) -> Any:
    device = current_device()
    found, around = device.pointer_attributes(address), device.address_range(address)
    if found.type == 0 or around is None:
        raise failed(CUresult.CUDA_ERROR_INVALID_VALUE, f"{address:#x} is no memory that CUDA knows")
    host = found.type == _HOST
    if number == _A.CU_POINTER_ATTRIBUTE_HOST_POINTER and found.host_pointer:
        return found.host_pointer
    values: dict[int, Any] = {
        int(_A.CU_POINTER_ATTRIBUTE_CONTEXT): context_of(max(0, found.device)),
        int(_A.CU_POINTER_ATTRIBUTE_MEMORY_TYPE): (
            CUmemorytype.CU_MEMORYTYPE_HOST if host else CUmemorytype.CU_MEMORYTYPE_DEVICE
        ),
        int(_A.CU_POINTER_ATTRIBUTE_DEVICE_POINTER): CUdeviceptr(found.device_pointer),
        int(_A.CU_POINTER_ATTRIBUTE_IS_MANAGED): found.type == _MANAGED,
        int(_A.CU_POINTER_ATTRIBUTE_SYNC_MEMOPS): found.type == _MANAGED,
        int(_A.CU_POINTER_ATTRIBUTE_BUFFER_ID): device.buffer_id(address),
        int(_A.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL): found.device,
        int(_A.CU_POINTER_ATTRIBUTE_RANGE_START_ADDR): CUdeviceptr(around[0]),
        int(_A.CU_POINTER_ATTRIBUTE_RANGE_SIZE): around[1],
        int(_A.CU_POINTER_ATTRIBUTE_MAPPED): True,
        int(_A.CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE): CUmemoryPool(device.pool_of(address)),
    }
    if number not in values:
        raise failed(CUresult.CUDA_ERROR_INVALID_VALUE, f"attribute {number} does not apply to {address:#x}")
    return values[number]
