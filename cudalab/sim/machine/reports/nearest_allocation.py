"""An invalid address, explained: what is there, the allocation that was probably meant, and by how much it was missed.

compute-sanitizer says as much of global memory ("is 4 bytes after the nearest allocation"); a GPU alone does not.
The pointer parameter that the address was computed from, the index and the array's length are added here.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from msgspec import Struct

from cudalab.sim.abi import CLUSTER_END, LOCAL_WINDOW, RANK_SHIFT, SHARED_WINDOW, WINDOW_SIZE, WINDOWS_END, Space
from cudalab.sim.machine.memory.allocation import GRAPH_MEMORY, NO_ACCESS, UNBACKED, AddressDescription, Allocation
from cudalab.sim.machine.memory.host_mapping import is_mapped

if TYPE_CHECKING:
    from cudalab.sim.compiler.program import Parameter, Site
    from cudalab.sim.machine.launch.module import LoadedKernel

NEAR = 64 << 20
"""Bytes up to which a miss is put down to the nearest allocation."""
BELOW = 1 << 20
"""Bytes ahead of shared memory's window in which a generic address is put down to it: a negative index."""
SIZES = {
    "char": 1,
    "signed char": 1,
    "unsigned char": 1,
    "bool": 1,
    "short": 2,
    "unsigned short": 2,
    "int": 4,
    "unsigned int": 4,
    "float": 4,
    "double": 8,
    "long long": 8,
    "unsigned long long": 8,
    "float2": 8,
    "int2": 8,
    "float4": 16,
    "int4": 16,
    "double2": 16,
}

Explanation = tuple[str, str, str]
"""Rule, detail, advice."""


class FailedAccess(Struct, frozen=True):
    """An access that failed its check."""

    address: int
    size: int
    site: Site
    root: int
    """Index + 1 into ``Kernel.roots``, or 0."""
    kernel: LoadedKernel
    args: bytes
    shared_size: int
    local_size: int
    extent: tuple[int, int] = (0, 0)
    """For shared and local memory: offset and length of the array that was meant, as far as the compiler knows it."""

    def parameter_at(self, offset: int) -> Parameter | None:
        for parameter in self.kernel.kernel.parameters:
            if parameter.offset <= offset < parameter.offset + parameter.size:
                return parameter
        return None

    def root_parameter(self) -> Parameter | None:
        if not self.root:
            return None
        return self.parameter_at(self.kernel.kernel.roots[self.root - 1].parameter_offset)

    def root_pointer(self) -> int | None:
        """The pointer that the access was computed from, where the compiler could tell."""
        if not self.root:
            return None
        source = self.kernel.kernel.roots[self.root - 1]
        if source.symbol:
            return self.kernel.module.global_variable(source.symbol)[0]
        return int(struct.unpack_from("<Q", self.args, source.parameter_offset)[0])

    def owner(self, allocation: Allocation) -> tuple[str, Parameter | None, int]:
        """How the learner knows an allocation: `` of parameter 2 (out)``; with the parameter and its pointer."""
        wanted = self.root_parameter()
        candidates = [wanted] if wanted else list(self.kernel.kernel.parameters)
        for parameter in candidates:
            if parameter.kind == "pointer" and len(self.args) >= parameter.offset + 8:
                (pointer,) = struct.unpack_from("<Q", self.args, parameter.offset)
                if allocation.pointer <= pointer <= allocation.end:
                    return f" of parameter {_name(parameter)}", parameter, pointer
        if allocation.kind == "global":
            return f" of the variable {allocation.label.removeprefix('__constant__ ')}", None, allocation.pointer
        return "", None, allocation.pointer


def _name(parameter: Parameter) -> str:
    return f"{parameter.index + 1} ({parameter.name})" if parameter.name else str(parameter.index + 1)


def _is_low_host_pointer(access: FailedAccess) -> bool:
    """Was the kernel handed host memory that lies where shared and local memory have their addresses?"""
    pointer = access.root_pointer() if access.root_parameter() is not None else None
    return pointer is not None and SHARED_WINDOW <= pointer < WINDOWS_END and is_mapped(pointer)


def _reach_of_device(access: FailedAccess) -> Explanation:
    parameter, pointer = access.root_parameter(), access.root_pointer()
    who = f" Parameter {_name(parameter)} is {pointer:#x}." if parameter and pointer is not None else ""
    return (
        "host pointer",
        f"Address {access.address:#x} is host memory of this process, which the device cannot reach.{who}",
        "copy the data to the device first (cp.asarray, cudaMemcpy), or use page-locked or managed memory.",
    )


def explain_access(access: FailedAccess) -> Explanation:
    """Rule, detail and advice for an access that is out of bounds."""
    address = access.address
    if _is_low_host_pointer(access):
        return _reach_of_device(access)
    if access.site.space == Space.LOCAL:
        return _outside_window(access, LOCAL_WINDOW, access.local_size, "local memory", "thread")
    if access.site.space == Space.SHARED or SHARED_WINDOW - BELOW <= address < SHARED_WINDOW + WINDOW_SIZE:
        return _outside_window(access, SHARED_WINDOW, access.shared_size, "shared memory", "block")
    if access.site.space == Space.CLUSTER or SHARED_WINDOW <= address < CLUSTER_END:
        start = address - (address - SHARED_WINDOW) % (1 << RANK_SHIFT)
        whose = f"block of rank {((address - SHARED_WINDOW) >> RANK_SHIFT) - 1}" if start > SHARED_WINDOW else "block"
        return _outside_window(access, start, access.shared_size, "shared memory", whose)
    if LOCAL_WINDOW <= address < LOCAL_WINDOW + WINDOW_SIZE:
        return _outside_window(access, LOCAL_WINDOW, access.local_size, "local memory", "thread")
    near = access.kernel.module.memory.explain(address, access.size)
    pointer = access.root_pointer()
    parameter = access.root_parameter()
    who = f" Parameter {_name(parameter)} is {pointer:#x}." if parameter and pointer is not None else ""
    if pointer == 0 or (pointer is None and address < 1 << 16):
        which = f"parameter {_name(parameter)}" if parameter else "the pointer"
        at = f", {address} bytes from it" if address else ""
        return (
            "null pointer",
            f"Address {address:#x} is no memory: {which} is null{at}.",
            "pass the address of an allocation; check what the allocation returned.",
        )
    if near.inside is None and near.freed is not None and near.freed.freed_where == NO_ACCESS:
        return _no_access(access, near.freed)
    if near.inside is None and near.freed is not None:
        return _use_after_free(access, near.freed)
    if near.is_former:
        return (
            "memory of before a reset",
            f"Address {address:#x} was device memory before the device was reset.{who}",
            "make the array anew: what was on the device before cudalab.reset() is lost.",
        )
    if near.is_host and (pointer is None or access.kernel.module.memory.find(pointer) is None):
        return _reach_of_device(access)
    target, distance = _intended(access, near, pointer)
    if target is None or distance > NEAR:
        tail = f" The nearest allocation, the {target.describe()}, is {distance} bytes away." if target else ""
        return (
            "out of bounds" if pointer is None or target else "never allocated",
            f"Address {address:#x} was never allocated.{who}{tail}",
            "check how the address is computed: an index that was never set, a negative one, or an integer overflow.",
        )
    return _out_of_bounds(access, target)


def _intended(access: FailedAccess, near: AddressDescription, pointer: int | None) -> tuple[Allocation | None, int]:
    """The allocation that was probably meant, and how many bytes the access lies outside it."""
    memory = access.kernel.module.memory
    if pointer is not None:
        target = memory.find(pointer) or (memory.find(pointer - 1) if pointer else None)
        return target, _distance(access, target) if target else 0
    candidates = [a for a in (near.inside, near.before, near.after) if a is not None]
    if not candidates:
        return None, 0
    target = min(candidates, key=lambda a: _distance(access, a))
    return target, _distance(access, target)


def _distance(access: FailedAccess, allocation: Allocation) -> int:
    return max(allocation.pointer - access.address, access.address + access.size - allocation.end)


def _out_of_bounds(access: FailedAccess, target: Allocation) -> Explanation:
    of, parameter, pointer = access.owner(target)
    if access.address < target.pointer:
        off = target.pointer - access.address
        how = f"begin {off} bytes before the start"
    else:
        off = access.address + access.size - target.end
        how = f"reach {off} bytes past the end"
    label = f" ({target.label})" if target.label and not of else ""
    detail = (
        f"The {access.size} bytes at {access.address:#x} {how} of the {target.size}-byte allocation at "
        f"{target.pointer:#x}{of}{label}"
    )
    element = SIZES.get(parameter.pointee.removeprefix("const ").removesuffix(" const"), 0) if parameter else 0
    if element and (access.address - pointer) % element == 0:
        index, count = (access.address - pointer) // element, (target.end - pointer) // element
        detail += f": index {index} of {count} elements of type {parameter.pointee if parameter else ''}"
    advice = (
        "keep threads outside the array from touching it: if (i < n) …"
        if access.address >= target.pointer
        else "check for an index below zero; an unsigned index wraps to a huge one instead."
    )
    return "out of bounds", detail + ".", advice


def _no_access(access: FailedAccess, other: Allocation) -> Explanation:
    of, _, _ = access.owner(other)
    return (
        "no peer access",
        f"Address {access.address:#x} is in the {other.describe()}{of}, which is memory of device {other.device}. The "
        "kernel runs on another device, which has no access to it.",
        f"enable peer access before the launch, with cudaDeviceEnablePeerAccess({other.device}, 0) while the kernel's "
        "device is current; or copy the data over with cudaMemcpyPeer, which needs no access.",
    )


def _use_after_free(access: FailedAccess, freed: Allocation) -> Explanation:
    of, _, _ = access.owner(freed)
    offset = access.address - freed.pointer
    advice = (
        "keep the array alive until the last launch that uses it has ended; an address taken as an integer does not."
    )
    if freed.label == GRAPH_MEMORY:
        advice = "let the work that uses it depend on its allocation node, and its free node on that work."
    return (
        "use after free" if freed.freed_where != UNBACKED else "never allocated",
        f"Address {access.address:#x} is {offset} bytes into the {freed.describe()}{of}, which {freed.gone}.",
        advice,
    )


def _outside_window(access: FailedAccess, window: int, size: int, what: str, whose: str) -> Explanation:
    offset = access.address - window
    if offset >= 1 << 63:  # far below the window: addresses have 64 bits
        offset -= 1 << 64
    elif WINDOW_SIZE // 2 <= offset < WINDOW_SIZE:  # below the window of another block of the cluster
        offset -= WINDOW_SIZE
    low, length = access.extent
    if not length and not low:
        length = size
    array = (
        f"the {length}-byte array in {what}" if length < size else f"the {length} bytes of {what} that a {whose} has"
    )
    index = (offset - low) // access.size if offset % access.size == 0 else 0
    wrapped = index - (1 << 32) if 1 << 31 <= index < 1 << 32 else 0
    if offset < low:
        detail = f"The {access.size} bytes at offset {offset} begin {low - offset} bytes before the start of {array}."
    else:
        over = offset + access.size - (low + length)
        place = f" (index {index} of {length // access.size})" if index else ""
        detail = f"The {access.size} bytes at offset {offset} reach {over} bytes past the end of {array}{place}."
    if wrapped:
        detail += f" As an unsigned int, {wrapped} is {index}."
    if offset < low or wrapped:
        advice = "check for an index below zero; an unsigned index wraps to a huge one instead."
    elif what == "shared memory":
        advice = "check the index against the array's length; for dynamic shared memory, pass its size at the launch."
    else:
        advice = "check the index against the length of the local array."
    return "out of bounds", detail, advice
