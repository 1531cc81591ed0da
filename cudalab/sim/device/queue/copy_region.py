"""The two sides of a copy: rows of bytes in device or host memory.

A linear copy is one row. A 2-D copy has rows that lie ``pitch`` bytes apart; a 3-D copy has slices of rows, ``pitch``
times the allocation's height apart. A region can be gathered into one packed array and scattered from one.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from cudalab.sim.device import host_address
from cudalab.sim.device.queue.byte_ranges import Range, StridedRange, strided_range
from cudalab.sim.machine.memory.allocations import Memory

_FEW = 64 << 10
"""Bytes up to which a system call is quicker than the faults at protected pages."""


@dataclass(slots=True)
class CopyRegion:
    """``depth`` slices of ``height`` rows of ``width`` bytes, from ``address`` on.

    ``on_device`` says whether the address lies in memory that the simulated device allocated (device, pinned or
    managed); otherwise it is ordinary host memory.
    """

    address: int
    width: int
    height: int = 1
    depth: int = 1
    pitch: int = 0
    slice_pitch: int = 0
    on_device: bool = False
    bytes: int = field(init=False)
    span: int = field(init=False)
    """Bytes from the first to the last one touched."""
    contiguous: bool = field(init=False)

    def __post_init__(self) -> None:
        width, height, depth = self.width, self.height, self.depth
        if height == depth == 1:
            self.bytes = self.span = width
            self.contiguous = True
            return
        self.bytes = width * height * depth
        self.span = (depth - 1) * self.slice_pitch + (height - 1) * self.pitch + width if self.bytes else 0
        rows_touch = height == 1 or self.pitch == width
        self.contiguous = rows_touch and (depth == 1 or self.slice_pitch == width * height)

    @property
    def rows(self) -> int:
        return self.height * self.depth

    def ranges(self) -> tuple[Range, ...]:
        """What it touches in device memory, for the order of effects: the rows, or their span when they are many."""
        if not self.on_device or not self.bytes:
            return ()
        if self.contiguous or self.rows > 256:
            return ((self.address, self.span),)
        return tuple(
            (self.address + z * self.slice_pitch + y * self.pitch, self.width)
            for z in range(self.depth)
            for y in range(self.height)
        )

    def strided_range(self) -> StridedRange:
        """Exactly the bytes that it touches, wherever they are."""
        if self.height == 1 and self.depth == 1:
            return self.address, self.width, ()
        if not self.bytes:
            return self.address, 0, ()
        return strided_range(self.address, self.width, (self.depth, self.height), (self.slice_pitch, self.pitch))

    def _rows_of(self, flat: np.ndarray) -> np.ndarray:
        """``flat``, which begins at the first byte, seen as (depth, height, width)."""
        strides = (self.slice_pitch or self.span, self.pitch or self.width, 1)
        return np.lib.stride_tricks.as_strided(flat, (self.depth, self.height, self.width), strides)

    def gather(self, memory: Memory, watched: bool = False) -> np.ndarray:
        """A packed copy of its bytes, ``uint8``. ``watched``: pages may be protected
        (``machine/memory/host_watch.py``)."""
        if not self.bytes:
            return np.empty(0, np.uint8)
        if watched and self.contiguous and self.bytes <= _FEW:
            taken = host_address.read_protected(self.address, self.bytes)
            if taken is not None:
                return taken
        if self.on_device:
            flat = memory.array(self.address, self.span, write=False)
        else:
            flat = host_address.read(self.address, self.span)
            if self.contiguous:
                return flat
        return flat.copy() if self.contiguous else self._rows_of(flat).reshape(-1)

    def scatter(self, memory: Memory, data: np.ndarray, watched: bool = False) -> None:
        """Write packed bytes to its rows."""
        if not self.bytes:
            return
        if watched and self.contiguous and self.bytes <= _FEW:
            if self.on_device:
                memory.array(self.address, self.span)  # it must still be there, and counts as written
            if host_address.write_protected(self.address, data):
                return
        if self.on_device and self.contiguous:
            memory.array(self.address, self.span)[...] = data
        elif self.on_device:
            flat = memory.array(self.address, self.span, write=False)
            self._rows_of(flat)[...] = data.reshape(self.depth, self.height, self.width)
            for start, size in self.ranges():
                memory.mark_written(start, size)
        elif self.contiguous:
            host_address.write(self.address, data)
        else:
            rows = data.reshape(self.rows, self.width)
            for index, row in enumerate(rows):
                z, y = divmod(index, self.height)
                host_address.write(self.address + z * self.slice_pitch + y * self.pitch, row)

    def fill(self, memory: Memory, element: np.ndarray) -> None:
        """Write the bytes of ``element`` over and over; ``width`` is a multiple of its length."""
        if self.contiguous and self.bytes and (not element.any() or element.size in (1, 2, 4)):
            memory.fill(self.address, self.span, element.view(f"u{element.size}")[0])
            return
        row = np.tile(element, self.width // element.size) if element.size > 1 else element
        flat = memory.array(self.address, self.span, write=False)
        self._rows_of(flat)[...] = row
        for start, size in self.ranges():
            memory.mark_written(start, size)
