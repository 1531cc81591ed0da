"""Replay of a recorded log on another simulated device.

The calls are made again, in order, with the bytes that they brought from the host; nothing of the program that was
recorded runs. Addresses differ from one process to the next, so every address of the log, in arguments and in data, is
translated to where the same allocation lies now. Handles of streams, events, modules and kernels count up alike.

The same log gives the same bytes in device memory and the same modelled timeline. Where a call of the log failed, it
must fail again with the same error; anything else is a :class:`ReplayError`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from cuda.bindings.runtime import cudaError_t

from cudalab.sim.compiler.program import Program
from cudalab.sim.device import host_address
from cudalab.sim.device.declaration import CALLS, Allocates, Call
from cudalab.sim.device.device import Device
from cudalab.sim.device.error import CudaError
from cudalab.sim.device.log.log import Block, Entry, Log, relocated, revived
from cudalab.sim.device.log.recorder import Recorder, kind_of
from cudalab.sim.machine.memory.allocations import Memory

if TYPE_CHECKING:
    from cudalab.sim.device.queue.array_function import ArrayOperation
    from cudalab.sim.device.queue.copy_region import CopyRegion
    from cudalab.sim.device.queue.kernel_launch import KernelOperation
    from cudalab.sim.device.queue.transfer import CopyOperation


_PAGE = 4096


class ReplayError(RuntimeError):
    """The replay did not do what the log says: the message names the call and the difference."""


def replay(
    log: Log,
    *,
    device: Device | None = None,
    load: Callable[[Program], Program] | None = None,
) -> Device:
    """Make the calls of ``log`` again and return the device, whose own log is the replay's.

    ``device`` is a new one of the log's profile, with as much memory, unless given. ``load`` may replace each program
    before it is loaded; a grader compiles the source again there instead of trusting what the log says of it.
    """
    if device is None:
        device = Device(log.profile)
        device.memory.capacity = log.capacity
    player = _Player(log)
    device.state.recorder = player
    if device.hazard_report is not None:
        device.hazard_report.without_lines = True
    device.settings.launch_blocking = player.log.launch_blocking = log.launch_blocking
    for index, entry in enumerate(log.entries):
        player.begin(entry)
        _repeat(device, player, index, entry, load)
    return device


def _repeat(
    device: Device, player: _Player, index: int, entry: Entry, load: Callable[[Program], Program] | None
) -> None:
    call = CALLS.get(entry.name)
    if call is None:
        raise ReplayError(f"call {index} of the log is {entry.name!r}, which is no runtime call")
    arguments = _arguments(call, player, index, entry, load)
    error = 0
    if device.contexts.number != entry.device:  # the log's threads are one here
        device.contexts.use(entry.device)
    try:
        with device.driver_call() if entry.by_driver else nullcontext():
            getattr(device, call.name)(**arguments)
    except CudaError as raised:
        error = int(raised.code)
    if error != entry.error:
        raise ReplayError(
            f"call {index} of the log, {entry.name}, returned error {entry.error} when it was recorded and {error} now"
        )


def _arguments(
    call: Call, player: _Player, index: int, entry: Entry, load: Callable[[Program], Program] | None
) -> dict[str, Any]:
    """The arguments of a call, of the types that it declares, with addresses of this process."""
    try:
        arguments = {
            name: relocated(revived(value, call.parameters[name]), call.parameters[name], player.addresses)
            for name, value in entry.arguments.items()
        }
    except (KeyError, msgspec.ValidationError) as error:
        raise ReplayError(f"call {index} of the log, {entry.name}, has arguments of another kind: {error}") from None
    if call.allocates is Allocates.REGISTERED and not entry.error:
        arguments["pointer"] = player.host_memory(arguments["pointer"], arguments["size"])
    if load is not None:
        arguments = {name: load(a) if isinstance(a, Program) else a for name, a in arguments.items()}
    return arguments


class _Addresses:
    """Where the allocations of the log lie in this process."""

    def __init__(self, old: list[tuple[int, int]]) -> None:
        self._recorded = old
        self._next = 0
        self._starts: list[int] = []
        self._ranges: list[tuple[int, int, int]] = []

    def made(self, address: int, size: int) -> None:
        """The next allocation of the log now lies at ``address``."""
        if self._next >= len(self._recorded):
            raise ReplayError("the replay allocates more than the log")
        old, old_size = self._recorded[self._next]
        self._next += 1
        if old_size != size:
            raise ReplayError(f"allocation {self._next} of the log has {old_size} bytes, the replay's {size}")
        place = bisect_right(self._starts, old)
        if place and self._starts[place - 1] == old:
            self._ranges[place - 1] = (old, size, address)
        else:
            self._starts.insert(place, old)
            self._ranges.insert(place, (old, size, address))

    def address(self, address: int) -> int:
        """An address of the log, as it is here; what is none stays. One past the end belongs to its range."""
        place = bisect_right(self._starts, address)
        if place:
            old, size, new = self._ranges[place - 1]
            if address <= old + size:
                return new + address - old
        return address

    def packed(self, data: bytes) -> bytes:
        """Bytes with every aligned 8-byte word that is an address of the log translated."""
        return self.data(np.frombuffer(data, np.uint8)).tobytes()

    def data(self, data: np.ndarray) -> np.ndarray:
        """The same for an array of bytes."""
        if not self._ranges or data.size < 8:
            return data
        words = np.frombuffer(data[: data.size // 8 * 8].tobytes(), np.uint64)
        starts = np.array(self._starts, np.uint64)
        place = np.searchsorted(starts, words, side="right")
        sizes = np.array([size for _, size, _ in self._ranges], np.uint64)
        inside = (place > 0) & (words - starts[place - 1] <= sizes[place - 1])
        if not inside.any():
            return data
        moved = words.copy()
        for index in np.flatnonzero(inside):
            moved[index] = self.address(int(words[index]))
        result = data.copy()
        result[: moved.nbytes] = moved.view(np.uint8)
        return result


class _Player(Recorder):
    """Stands in for the recorder of the device: gives out the log's bytes, and records the replay."""

    replaying = True

    def __init__(self, log: Log) -> None:
        super().__init__(log.profile, log.capacity, on=True)
        self._source = log
        self.addresses = _Addresses(log.allocations)
        self._bytes: list[bytes] = []
        self._refused = False
        """Was the call refused when it was recorded?"""
        self._host_memory: list[np.ndarray] = []

    def begin(self, entry: Entry) -> None:
        """The next call of the log."""
        self._bytes, self._refused = list(entry.brought), entry.error == cudaError_t.cudaErrorInvalidValue

    def allocated(self, address: int, size: int) -> None:
        super().allocated(address, size)
        self.addresses.made(address, size)

    def host_memory(self, address: int, size: int) -> int:
        """Memory that stands for what the program had registered, at the same place in its page. It lives as long as
        the replay."""
        memory = np.zeros(size + _PAGE, np.uint8)
        self._host_memory.append(memory)
        return int(memory.ctypes.data) + (address - int(memory.ctypes.data)) % _PAGE

    def check_host(self, address: int, size: int) -> None:
        if self._refused and not self._bytes:
            raise host_address.UnmappedAddress("memory that the recorded program did not have")

    def take_from_host(self, region: CopyRegion, memory: Memory) -> np.ndarray:
        if not self._bytes:
            raise ReplayError("the log lacks the bytes that a copy took from host memory")
        data = self.addresses.data(np.frombuffer(self._bytes.pop(0), np.uint8))
        self._keep(data)
        return data

    def watch_copy(self, copy: CopyOperation, memory: Memory) -> None:
        taken, work = self._source.taken.get(copy.sequence), copy.work

        def take(data: np.ndarray) -> np.ndarray:
            if taken is None:
                return data
            data = self.addresses.data(np.frombuffer(taken[0][1], np.uint8))
            self.log.taken[copy.sequence] = [(work.source.address, data.tobytes())]
            return data

        def deliver(data: np.ndarray) -> None:
            self.log.delivered[copy.sequence] = [(work.destination.address, data.tobytes())]

        copy.source_here = work.source.on_device
        copy.destination_here = work.destination.on_device
        copy.on_take = take
        if not work.destination.on_device or kind_of(memory, work.destination.address) == "pinned":
            copy.on_deliver = deliver

    def watch_launch(self, launch: KernelOperation, memory: Memory) -> None:
        blocks = self._source.taken.get(launch.sequence, [])

        def take() -> None:
            _write(memory, self._here(blocks))

        launch.on_take = take
        if blocks:
            self.log.taken[launch.sequence] = self._here(blocks)

    def watch_array(self, operation: ArrayOperation, memory: Memory) -> None:
        blocks = self._source.written.get(operation.sequence, [])

        def write() -> None:
            _write(memory, self._here(blocks))

        operation.function = write
        super().watch_array(operation, memory)

    def _here(self, blocks: list[Block]) -> list[Block]:
        addresses = self.addresses
        return [(addresses.address(a), addresses.packed(data)) for a, data in blocks]


def _write(memory: Memory, blocks: list[Block]) -> None:
    for address, data in blocks:
        if (address, len(data)) in memory.ranges:  # what stands for registered memory
            host_address.write(address, np.frombuffer(data, np.uint8))
        else:
            memory.view(address, len(data))[:] = data
