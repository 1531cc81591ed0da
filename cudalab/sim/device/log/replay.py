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
from typing import TYPE_CHECKING, Any

import numpy as np

from cudalab.sim.compiler.program import Program
from cudalab.sim.device.error import CudaError
from cudalab.sim.device.log.recorder import Block, Entry, Log, Recorder, kind_of, revived
from cudalab.sim.machine.memory.allocations import Memory

if TYPE_CHECKING:
    from cudalab.sim.device.device import Device
    from cudalab.sim.device.queue.kernel_launch import KernelLaunch
    from cudalab.sim.device.queue.transfer import ArrayOperation, Copy

_CALLS = frozenset(
    """malloc free malloc_async malloc_from_pool free_async pool_create pool_destroy pool_get_attribute
    pool_set_attribute pool_trim pool_set_access pool_get_access default_pool current_pool set_current_pool
    prefetch advise range_attribute attach malloc_pitch malloc_3d malloc_managed malloc_host free_host
    host_register host_unregister host_get_device_pointer host_get_flags memory_info pointer_attributes memcpy
    memcpy_2d memcpy_3d memset memset_3d stream_create stream_destroy stream_synchronize stream_query
    stream_wait_event stream_get_flags stream_get_priority stream_get_id stream_priority_range
    stream_get_attribute stream_set_attribute stream_copy_attributes stream_write_value stream_wait_value
    launch_host_function add_callback event_create event_destroy event_record event_query event_synchronize
    event_elapsed malloc_array free_array array_info memcpy_array create_texture destroy_texture
    create_surface destroy_surface load_module unload_module get_function get_global function_set_attribute
    occupancy launch array_operation synchronize get_last_error peek_at_last_error reset host_work attribute
    get_limit set_limit set_flags get_flags""".split()
)
_ADDRESS_ARGUMENTS = {
    "free": (0,),
    "free_async": (0,),
    "free_host": (0,),
    "host_register": (0,),
    "host_unregister": (0,),
    "host_get_device_pointer": (0,),
    "host_get_flags": (0,),
    "pointer_attributes": (0,),
    "memcpy": (0, 1),
    "memcpy_2d": (0, 2),
    "memcpy_3d": (0, 1),
    "memset": (0,),
    "memset_3d": (0,),
    "prefetch": (0,),
    "advise": (0,),
    "range_attribute": (1,),
    "attach": (1,),
    "stream_write_value": (1,),
    "stream_wait_value": (1,),
    "memcpy_array": (0, 1),
    "create_texture": (0,),
    "launch": (3,),
    "array_operation": (2, 3),
}
_ADDRESS_KEYWORDS = frozenset({"pointer", "dst", "src", "args", "reads", "writes", "exact"})


class ReplayError(RuntimeError):
    """The replay did not do what the log says: the message names the call and the difference."""


def replay(
    log: Log,
    *,
    device: Device | None = None,
    load: Callable[[Program], Program] | None = None,
) -> Device:
    """Make the calls of ``log`` again and return the device, whose own log is the replay's.

    ``device`` is a new one of the log's profile unless given. ``load`` may replace each program before it is loaded; a
    grader compiles the source again there instead of trusting what the log says of it.
    """
    from cudalab.sim.device.device import Device as NewDevice

    target = device if device is not None else NewDevice(log.profile)
    player = _Player(log)
    target.state.recorder = player
    if target.hazard_report is not None:
        target.hazard_report.without_lines = True
    target.settings.launch_blocking = player.log.launch_blocking = log.launch_blocking
    for index, entry in enumerate(log.entries):
        player.begin(entry)
        _repeat(target, player, index, entry, load)
    return target


def _repeat(
    device: Device, player: _Player, index: int, entry: Entry, load: Callable[[Program], Program] | None
) -> None:
    if entry.name not in _CALLS:
        raise ReplayError(f"call {index} of the log is {entry.name!r}, which is no runtime call")
    positions = _ADDRESS_ARGUMENTS.get(entry.name, ())
    arguments = [
        player.addresses.value(revived(a)) if place in positions else revived(a)
        for place, a in enumerate(entry.arguments)
    ]
    keywords = {
        key: player.addresses.value(revived(a)) if key in _ADDRESS_KEYWORDS else revived(a)
        for key, a in entry.keywords.items()
    }
    if entry.name == "load_module" and load is not None:
        arguments = [load(a) if isinstance(a, Program) else a for a in arguments]
    error = 0
    try:
        getattr(device, entry.name)(*arguments, **keywords)
    except CudaError as raised:
        error = int(raised.code)
    if error != entry.error:
        raise ReplayError(
            f"call {index} of the log, {entry.name}, returned error {entry.error} when it was recorded and {error} now"
        )


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

    def one(self, address: int) -> int:
        """An address of the log, as it is here; what is no address stays. One past the end belongs to its range."""
        place = bisect_right(self._starts, address)
        if place:
            old, size, new = self._ranges[place - 1]
            if address <= old + size:
                return new + address - old
        return address

    def value(self, value: Any) -> Any:
        """The same for numbers, tuples of them (ranges: only their first), and packed parameters."""
        if isinstance(value, int) and not isinstance(value, bool):
            return self.one(value)
        if isinstance(value, tuple):
            if value and all(isinstance(entry, int) for entry in value):
                return (self.one(value[0]), *value[1:])
            return tuple(self.value(entry) for entry in value)
        if isinstance(value, bytes):
            return self.data(np.frombuffer(value, np.uint8)).tobytes()
        return value

    def data(self, data: np.ndarray) -> np.ndarray:
        """Bytes with every aligned 8-byte word that is an address of the log translated."""
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
            moved[index] = self.one(int(words[index]))
        result = data.copy()
        result[: moved.nbytes] = moved.view(np.uint8)
        return result


class _Player(Recorder):
    """Stands in for the recorder of the device: gives out the log's bytes, and records the replay."""

    replaying = True

    def __init__(self, log: Log) -> None:
        super().__init__(log.profile, on=True)
        self._source = log
        self.addresses = _Addresses(log.allocations)
        self._bytes: list[bytes] = []

    def begin(self, entry: Entry) -> None:
        self._bytes = list(entry.brought)

    def allocated(self, address: int, size: int) -> None:
        super().allocated(address, size)
        self.addresses.made(address, size)

    def bring(self) -> np.ndarray | None:
        if not self._bytes:
            raise ReplayError("the log lacks the bytes that a copy took from host memory")
        data = self.addresses.data(np.frombuffer(self._bytes.pop(0), np.uint8))
        self.brought(data)
        return data

    def watch_copy(self, copy: Copy, memory: Memory) -> None:
        taken = self._source.taken.get(copy.sequence)

        def take(data: np.ndarray) -> np.ndarray:
            if taken is None:
                return data
            data = self.addresses.data(np.frombuffer(taken[0][1], np.uint8))
            self.log.taken[copy.sequence] = [(copy.source.address, data.tobytes())]
            return data

        def deliver(data: np.ndarray) -> None:
            self.log.delivered[copy.sequence] = [(copy.destination.address, data.tobytes())]

        copy.source_here = copy.source.on_device
        copy.destination_here = copy.destination.on_device
        copy.on_take = take
        if not copy.destination.on_device or kind_of(memory, copy.destination.address) == "pinned":
            copy.on_deliver = deliver

    def watch_launch(self, launch: KernelLaunch, memory: Memory) -> None:
        blocks = self._source.taken.get(launch.sequence, [])

        def take() -> None:
            _write(memory, self._here(blocks))

        launch.on_take = take
        if blocks:
            self.log.taken[launch.sequence] = self._here(blocks)

    def array_work(self, run: Callable[[], None] | None, memory: Memory) -> Callable[[], None]:
        return lambda: None  # watch_array fills in what was written

    def watch_array(self, operation: ArrayOperation, memory: Memory) -> None:
        blocks = self._source.written.get(operation.sequence, [])

        def work() -> None:
            _write(memory, self._here(blocks))

        operation.replace_work(work)
        super().watch_array(operation, memory)

    def _here(self, blocks: list[Block]) -> list[Block]:
        addresses = self.addresses
        return [(addresses.one(a), addresses.data(np.frombuffer(data, np.uint8)).tobytes()) for a, data in blocks]


def _write(memory: Memory, blocks: list[Block]) -> None:
    for address, data in blocks:
        memory.view(address, len(data))[:] = data
