"""A launch, brought before the simulator: what ``profile`` and ``sanitize`` run.

On the simulated device the kernel is there already, and its arrays are used where they lie; work that was enqueued
before is finished first, as a copy to the host would do.

On a GPU the kernel's source is compiled for the simulator and its arrays are copied there; the GPU's own memory is
read, never written. What cannot be copied is refused by name: an address that belongs to no array among the arguments,
a struct or a variable that holds one, a kernel of unknown source."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from cudalab.sim.device.profile import load
from cudalab.sim.machine.launch.module import Launch, LoadedKernel, Module
from cudalab.sim.machine.memory.allocations import Memory


class MirrorError(ValueError):
    """The launch cannot be brought to the simulator; the message names the argument and says what to pass instead."""


@contextmanager
def mirrored(
    kernel: Any,
    grid: Any,
    block: Any,
    args: Sequence[Any],
    shared: int,
    what: str,
    *,
    cluster: Any = None,
    cooperative: bool | None = None,
) -> Iterator[Launch]:
    """Bring a launch to the simulator for as long as the block runs.

    Args:
        kernel: a ``RawKernel``, a function of a ``RawModule``, or what ``%%cuda`` bound.
        grid: blocks, one to three numbers.
        block: threads a block, one to three numbers.
        args: the kernel's arguments, as for a launch.
        shared: dynamic shared memory a block, bytes.
        what: who asks, for messages.
        cluster: blocks of a cluster, one to three numbers; without it as the kernel says.
        cooperative: all blocks are resident at once; by default as the kernel was made (``enable_cooperative_groups``).

    Raises:
        LaunchError: a configuration that CUDA refuses.
        TypeError: `kernel` is no kernel, or the arguments do not fit its declaration.
        MirrorError: an argument cannot be copied to the simulator.
        CompileError: the source does not compile.
    """
    if not hasattr(kernel, "code") or not hasattr(kernel, "name"):
        raise TypeError(
            f"{what}: expected a kernel (a RawKernel, a function of a RawModule, or what %%cuda bound), got "
            f"{type(kernel).__name__}"
        )
    if cooperative is None:
        cooperative = bool(getattr(kernel, "enable_cooperative_groups", False))
    if type(kernel).__module__.startswith("cudalab.sim."):
        with _simulated(kernel, tuple(args), checked=what == "sanitize") as (loaded, buffer):
            yield loaded.launch(grid, block, buffer, int(shared), cluster=cluster, cooperative=cooperative)
    else:
        loaded, buffer = _copied(kernel, tuple(args), what)
        yield loaded.launch(grid, block, buffer, int(shared), cluster=cluster, cooperative=cooperative)


@contextmanager
def _simulated(kernel: Any, args: tuple[Any, ...], *, checked: bool) -> Iterator[tuple[LoadedKernel, bytes]]:
    """``checked``: memory that a pool has back counts as freed. A launch that is counted may use it, as on a GPU."""
    from cudalab.sim.cupy._base.call import device
    from cudalab.sim.cupy.cuda._arguments import pack
    from cudalab.sim.cupy.cuda._pool import cached

    function = kernel.kernel
    loaded: LoadedKernel = device().loaded_kernel(function.ptr)
    buffer = pack(function.name, loaded.kernel.parameters, args, loaded.kernel.parameter_bytes)
    device().synchronize()
    pooled = [address for address, _ in cached()] if checked else []
    if not pooled:  # else the launch finds another memory, and looks its pointers up anew
        yield loaded, buffer
        return
    with loaded.module.memory.set_aside(pooled, "given back to CuPy's memory pool: no array owns it"):
        yield loaded, buffer


# -- from a real GPU --------------------------------------------------------------------------------------------------


def _copied(kernel: Any, args: tuple[Any, ...], what: str) -> tuple[LoadedKernel, bytes]:
    from cudalab.sim.compiler import compile
    from cudalab.sim.cupy.cuda._arguments import pack

    if not isinstance(kernel.code, str):
        raise MirrorError(f"{what}: kernel {kernel.name!r} was made from a file of machine code; its source is needed")
    expressions = tuple(getattr(kernel, "name_expressions", ()) or ())
    program = compile(kernel.code, options=_options(kernel), name_expressions=expressions)
    loaded = Module(program, Memory(), load().launch_limits).kernel(kernel.name)
    copies = _Copies(loaded, what)
    values = [copies.argument(index, value) for index, value in enumerate(args)]
    buffer = pack(kernel.name, loaded.kernel.parameters, values, loaded.kernel.parameter_bytes)
    copies.check_structs(buffer)
    copies.check_contents()
    copies.variables(kernel)
    loaded.max_dynamic_shared = int(getattr(kernel, "max_dynamic_shared_size_bytes", 0)) or None
    return loaded, buffer


def _options(kernel: Any) -> tuple[str, ...]:
    return tuple(getattr(kernel, "options", ()) or ())


class _Copies:
    """Arrays of a GPU, copied into the simulator's memory; views of one array share their copy."""

    def __init__(self, loaded: LoadedKernel, what: str) -> None:
        self._loaded, self._what = loaded, what
        self._memory = loaded.module.memory
        self._copies: list[tuple[int, int, int, str]] = []  # address on the GPU, bytes, address here, whose
        self._program = loaded.module.program

    def argument(self, index: int, value: Any) -> Any:
        """The value to pass in place of an argument."""
        parameters = self._loaded.kernel.parameters
        name = f"parameter {index + 1}"
        if index < len(parameters) and parameters[index].name:
            name += f" ({parameters[index].name})"
        if hasattr(value, "__cuda_array_interface__"):
            return self._array(value, name)
        if hasattr(value, "ptr") and hasattr(value, "mem"):  # a cupy.cuda.MemoryPointer
            return self._address(int(value.ptr), name, value.mem)
        is_pointer = index < len(parameters) and parameters[index].kind == "pointer"
        if is_pointer and isinstance(value, (int, np.integer)) and int(value):
            return self._address(int(value), name, None)
        return value

    def _array(self, array: Any, name: str) -> int:
        owner = array
        while getattr(owner, "base", None) is not None:
            owner = owner.base
        pointer = int(array.__cuda_array_interface__["data"][0])
        start, size = _span(owner)
        low, high = _span(array)
        start, end = min(start, low), max(start + size, low + high)
        if end > start:
            self._copy(start, end - start, name)
        return self._here(pointer) or 0

    def _address(self, address: int, name: str, memory: Any) -> int:
        if memory is not None and self._here(address) is None and getattr(memory, "size", None):
            self._copy(int(memory.ptr), int(memory.size), name)
        here = self._here(address)
        if here is None:
            raise MirrorError(
                f"{self._what}: {name} is the address {address:#x}, which belongs to no array among the arguments, so "
                "its memory cannot be copied to the simulator. Pass the array itself."
            )
        return here

    def _copy(self, address: int, size: int, name: str) -> None:
        if any(start <= address and address + size <= start + length for start, length, _, _ in self._copies):
            return
        pointer = self._memory.allocate(size, "device", name)
        self._memory.array(pointer, size)[:] = read_device(address, size)
        self._copies.append((address, size, pointer, name))

    def _here(self, address: int) -> int | None:
        """The same place in the simulator's memory. One past the end of an array is no other array's start unless one
        begins there, as arrays out of CuPy's pool do."""
        past = None
        for start, size, pointer, _ in self._copies:
            if start <= address < start + size:
                return pointer + address - start
            if address == start + size:
                past = pointer + size
        return past

    def check_structs(self, buffer: bytes) -> None:
        """Refuse a struct argument that holds an address of the GPU."""
        for parameter in self._loaded.kernel.parameters:
            if parameter.kind not in ("struct", "unknown", "integer") or parameter.size < 8:
                continue
            for offset in range(parameter.offset, parameter.offset + parameter.size - 7, 8):
                (value,) = struct.unpack_from("<Q", buffer, offset)
                if is_device_address(value):
                    raise MirrorError(
                        f"{self._what}: parameter {parameter.index + 1} ({parameter.name}, {parameter.ctype}) holds "
                        f"the device address {value:#x} at byte {offset - parameter.offset}. Addresses inside a "
                        "struct or an integer cannot be followed to the simulator; pass the array as a pointer."
                    )

    def check_contents(self) -> None:
        """Refuse arrays of addresses, when the kernel follows addresses that it loads."""
        if not self._loaded.follows_pointers:
            return
        for _, size, pointer, name in self._copies:
            words = self._memory.array(pointer, size // 8, np.uint64, write=False)
            for start, length, _, other in self._copies:
                inside = (words >= np.uint64(start)) & (words < np.uint64(start + length))
                if inside.any():
                    raise MirrorError(
                        f"{self._what}: {name} holds addresses of device memory (of {other}, for one, at byte "
                        f"{8 * int(np.argmax(inside))}). A copy of them means nothing to the simulator; use indices "
                        "instead of addresses to look at this kernel, or run it on the simulated device."
                    )

    def variables(self, kernel: Any) -> None:
        """Copy the ``__device__`` and ``__constant__`` variables of a module; refuse those that hold addresses."""
        module = getattr(kernel, "module", None)
        if module is None or not hasattr(module, "get_global"):
            return
        for variable in self._program.globals.values():
            if variable.name.startswith("$") or not variable.size:
                continue
            try:
                there = int(module.get_global(variable.name).ptr)
            except Exception:  # a variable that the GPU's compiler left out is not used
                continue
            here, size = self._loaded.module.global_variable(variable.name)
            data = read_device(there, size)
            words = data[: size // 8 * 8].view(np.uint64)
            if size % 8 == 0 and len(words) <= 4096 and any(is_device_address(int(w)) for w in words):
                raise MirrorError(
                    f"{self._what}: the variable {variable.name} holds an address of device memory, which cannot be "
                    "followed to the simulator. Pass the array as an argument instead."
                )
            self._memory.array(here, size)[:] = data


def read_device(address: int, size: int) -> np.ndarray:
    """Copy `size` bytes of a GPU's memory to the host, when the work that was enqueued has been done."""
    import cupy

    cupy.cuda.runtime.deviceSynchronize()
    memory = cupy.cuda.UnownedMemory(address, size, None)
    source = cupy.ndarray((size,), cupy.uint8, cupy.cuda.MemoryPointer(memory, 0))
    found: np.ndarray = cupy.asnumpy(source)
    return found


def is_device_address(value: int) -> bool:
    """Does the driver know this number as an address of device or managed memory?"""
    import cupy

    if value < 1 << 20:
        return False
    try:
        return bool(cupy.cuda.runtime.pointerGetAttributes(value).type in (2, 3))
    except Exception:  # "invalid value": the driver does not know the address
        return False


def _span(array: Any) -> tuple[int, int]:
    """First byte and length of the memory that an array's elements lie in."""
    interface = array.__cuda_array_interface__
    pointer = int(interface["data"][0])
    shape, item = interface["shape"], np.dtype(interface["typestr"]).itemsize
    if 0 in shape:
        return pointer, 0
    strides = interface.get("strides")
    if strides is None:
        return pointer, item * int(np.prod(shape, dtype=np.int64))
    low = sum(min(0, stride * (n - 1)) for stride, n in zip(strides, shape, strict=True))
    high = sum(max(0, stride * (n - 1)) for stride, n in zip(strides, shape, strict=True))
    return pointer + low, high - low + item
