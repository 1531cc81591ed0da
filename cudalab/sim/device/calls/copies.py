"""Copies and memsets: 1-D, 2-D and 3-D, between all kinds of memory, blocking or not.

Which rule applies follows from the addresses, as unified addressing has it; ``kind`` only has to agree (checked on an
H200): host-to-device wants a destination that CUDA knows, device-to-host such a source, device-to-device both.

When the host may go on (CUDA Runtime API, "API synchronization behavior", and what an H200 with driver 580 does where
that says less): copies between page-locked memory and the device return at once when asynchronous. Asynchronous copies
from pageable memory return when the bytes are staged, if the driver's staging memory holds them (2 MB; the guide
promises 64 KB); larger ones, and copies to pageable memory, when they are done. Synchronous ones wait for the work
before them first. Copies and sets of device memory never block; the host does wait for synchronous ones that touch
page-locked or managed memory.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from cuda.bindings.runtime import cudaError_t

from cudalab.sim.device import host_address
from cudalab.sim.device.calls.group import CallGroup, call
from cudalab.sim.device.calls.placement import is_managed, placed
from cudalab.sim.device.declaration import Address, Handle, Waits
from cudalab.sim.device.error import CudaError, invalid_value
from cudalab.sim.device.graphs.content import Content, CopyContent, MemsetContent, NodeKind
from cudalab.sim.device.queue.copy_region import CopyRegion
from cudalab.sim.device.queue.operation import Stream
from cudalab.sim.device.queue.transfer import Copy, CopyOperation, Memset
from cudalab.sim.device.state import DeviceState
from cudalab.sim.device.timing import transfers

HOST_TO_HOST, HOST_TO_DEVICE, DEVICE_TO_HOST, DEVICE_TO_DEVICE, DEFAULT = range(5)
_SMALL = 64 << 10
_KIND_NAMES = ("HostToHost", "HostToDevice", "DeviceToHost", "DeviceToDevice", "Default")


_MOST_KNOWN = 1024


class _Plain(NamedTuple):
    """A copy that asks nothing of the host but its call."""

    work: Copy
    cost: float
    """ns of the call."""
    blocks: bool
    """Does the host wait for it where it is not asynchronous?"""


class CopyCalls(CallGroup):
    """Copies and memsets."""

    def clear(self) -> None:
        self._staged: list[CopyOperation] = []
        """Copies whose bytes the driver holds."""
        self._known: dict[tuple[int, int, int, int], _Plain] = {}
        """Plain copies by destination, source, size and kind, as memory was at"""
        self._known_at = -1
        """that version of it: a program's loop makes the same copies again and again."""

    @call("cudaMemcpy", "cuMemcpy", cost=None, waits=Waits.OWN_WORK)
    def memcpy(
        self, dst: Address, src: Address, size: int, kind: int = DEFAULT, stream: Handle = 0, asynchronous: bool = False
    ) -> None:
        """Copy ``size`` bytes; ``kind`` is a ``cudaMemcpyKind`` number."""
        if self._known_at != self.state.memory.version:
            self._known.clear()
            self._known_at = self.state.memory.version
        key = dst, src, size, kind
        known = self._known.get(key)
        if known is not None:
            queue = self.state.scheduler.streams.find(stream)
            if queue.capture is None:
                return self._issue_plain(known, queue, asynchronous)
        plain = self.copy("cudaMemcpy", CopyRegion(dst, size), CopyRegion(src, size), kind, stream, asynchronous)
        if plain is not None:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            self._known[key] = plain
        return None

    @call("cudaMemcpy2D", "cuMemcpy2D", cost=None, waits=Waits.OWN_WORK)
    def memcpy_2d(
        self,
        dst: Address,
        dst_pitch: int,
        src: Address,
        src_pitch: int,
        width: int,
        height: int,
        kind: int = DEFAULT,
        stream: Handle = 0,
        asynchronous: bool = False,
    ) -> None:
        """Copy ``height`` rows of ``width`` bytes, ``pitch`` bytes apart on each side."""
        if width and height > 1 and (dst_pitch < width or src_pitch < width):
            self.state.spend(self.state.profile.host["query"])
            raise CudaError(
                cudaError_t.cudaErrorInvalidPitchValue,
                f"cudaMemcpy2D: a pitch (destination {dst_pitch}, source {src_pitch}) is less than the width {width}",
            )
        self.copy(
            "cudaMemcpy2D",
            CopyRegion(dst, width, height, 1, dst_pitch),
            CopyRegion(src, width, height, 1, src_pitch),
            kind,
            stream,
            asynchronous,
        )

    @call("cudaMemcpy3D", "cuMemcpy3D", cost=None, waits=Waits.OWN_WORK)
    def memcpy_3d(
        self,
        dst: tuple[Address, int, int],
        src: tuple[Address, int, int],
        extent: tuple[int, int, int],
        kind: int = DEFAULT,
        stream: Handle = 0,
        asynchronous: bool = False,
    ) -> None:
        """Copy a box. ``dst`` and ``src`` are ``(address of the first byte, pitch, bytes from slice to slice)``,
        ``extent`` is ``(width in bytes, height, depth)``."""
        width, height, depth = extent
        if width and height and depth and (dst[1] < width or src[1] < width):
            self.state.spend(self.state.profile.host["query"])
            raise CudaError(
                cudaError_t.cudaErrorInvalidPitchValue,
                f"cudaMemcpy3D: a pitch (destination {dst[1]}, source {src[1]}) is less than the width {width} bytes",
            )
        self.copy(
            "cudaMemcpy3D",
            CopyRegion(dst[0], width, height, depth, dst[1], dst[2]),
            CopyRegion(src[0], width, height, depth, src[1], src[2]),
            kind,
            stream,
            asynchronous,
        )

    @call("cudaMemset", "cuMemsetD8", cost=None, waits=Waits.OWN_WORK)
    def memset(
        self, pointer: Address, value: int, count: int, stream: Handle = 0, asynchronous: bool = False, element: int = 1
    ) -> None:
        """Set ``count`` elements of ``element`` bytes (1, 2 or 4)."""
        self._memset("cudaMemset", CopyRegion(pointer, count * element), value, element, stream, asynchronous)

    @call("cudaMemset2D", "cudaMemset3D", "cuMemsetD2D8", cost=None, waits=Waits.OWN_WORK)
    def memset_3d(
        self,
        pointer: Address,
        pitch: int,
        slice_pitch: int,
        value: int,
        extent: tuple[int, int, int],
        stream: Handle = 0,
        asynchronous: bool = False,
        element: int = 1,
    ) -> None:
        """Set a box in two or three dimensions; ``extent`` is ``(width in bytes, height, depth)``."""
        width, height, depth = extent
        if width and height and depth and height * depth > 1 and pitch < width:
            self.state.spend(self.state.profile.host["query"])
            raise invalid_value(f"cudaMemset2D: the pitch {pitch} is less than the width {width} bytes")
        region = CopyRegion(pointer, width, height, depth, pitch, slice_pitch)
        self._memset("cudaMemset2D", region, value, element, stream, asynchronous)

    # -- how -----------------------------------------------------------------------------------------------------------

    def copy(
        self, name: str, dst: CopyRegion, src: CopyRegion, kind: int, handle: int, asynchronous: bool
    ) -> _Plain | None:
        """Copy one region to another; returns a plain copy, which the same call makes again."""
        stream = self.state.scheduler.streams.find(handle)
        if not dst.bytes:
            self.state.spend(self.state.profile.host["query"])
            return None
        if stream.capture is not None:
            self._capture(name, stream, dst, src, kind, asynchronous)
            return None
        if not HOST_TO_HOST <= kind <= DEFAULT:
            self.state.spend(self.state.profile.host["query"])
            raise CudaError(cudaError_t.cudaErrorInvalidMemcpyDirection, f"{name}: {kind} is no cudaMemcpyKind")
        (dst, dst_kind), (src, src_kind) = placed(self.state, name, dst), placed(self.state, name, src)
        self._check_direction(name, kind, dst_kind, src_kind)
        on_device = dst_kind == src_kind == "device"
        if on_device and self.state.profile.devices > 1 and (ends := self._two_devices(dst, src)) is not None:
            self._copy_across(name, stream, dst, src, ends)
            return None
        plain = self._plain(name, dst, src, dst_kind, src_kind)
        if plain is not None:
            self._issue_plain(plain, stream, asynchronous)
        elif dst_kind == "device":
            self._copy_in(name, stream, dst, src, asynchronous)
        elif src_kind == "device":
            self._copy_out(name, stream, dst, src)
        else:
            self._copy_on_host(name, stream, dst, src)
        return plain

    def _plain(self, name: str, dst: CopyRegion, src: CopyRegion, dst_kind: str, src_kind: str) -> _Plain | None:
        """A copy within a device, or between one and page-locked memory; None for others."""
        profile, memory = self.state.profile, self.state.memory
        if dst_kind == src_kind == "device":
            work = Copy(f"{name} D2D", memory, src, dst, "sm", transfers.device_copy(profile, src.bytes))
            return _Plain(work, profile.host["memcpy_device"], is_managed(memory, dst) or is_managed(memory, src))
        cost = profile.host["memcpy_async"]
        if dst_kind == "device" and src_kind == "pinned":
            short = src.bytes <= profile.device["copy_inline_limit"]
            duration = transfers.bus_copy(profile, src.bytes, "h2d")
            return _Plain(Copy(f"{name} H2D", memory, src, dst, "h2d", duration, short=short), cost, True)
        if dst_kind == "pinned" and src_kind == "device":
            duration = transfers.bus_copy(profile, src.bytes, "d2h")
            return _Plain(Copy(f"{name} D2H", memory, src, dst, "d2h", duration), cost, True)
        return None

    def _issue_plain(self, plain: _Plain, stream: Stream, asynchronous: bool) -> None:
        self.state.spend(plain.cost)
        copy = self.state.issue(plain.work, stream)
        if plain.blocks and not asynchronous:
            self.state.wait(copy)

    def _capture(
        self, name: str, stream: Stream, dst: CopyRegion, src: CopyRegion, kind: int, asynchronous: bool
    ) -> None:
        """A copy becomes a node of the graph that the stream captures."""
        if not asynchronous:
            self.state.captures.refuse_stream(stream, name)
        self.state.spend(self.state.profile.host["memcpy_async"])
        assert stream.capture is not None
        stream.capture.check(name)
        content = CopyContent(
            (dst.address, dst.pitch, dst.slice_pitch),
            (src.address, src.pitch, src.slice_pitch),
            (src.width, src.height, src.depth),
            kind,
        )
        work = copy_work(self.state, name, dst, src, kind)
        self.state.captures.add(stream, Content(NodeKind.MEMCPY, copy=content), work)

    def _two_devices(self, dst: CopyRegion, src: CopyRegion) -> tuple[int, int] | None:
        """The devices of source and destination, if they are two. Managed memory counts as the destination's."""
        to, of = self.state.memory.find(dst.address), self.state.memory.find(src.address)
        if to is None or of is None or to.device == of.device or "managed" in (to.kind, of.kind):
            return None
        return of.device, to.device

    def _copy_across(self, name: str, stream: Stream, dst: CopyRegion, src: CopyRegion, ends: tuple[int, int]) -> None:
        """A copy from one device to another, for which the host does not wait."""
        source, destination = (self.state.contexts[number] for number in ends)
        access = destination.number in source.peers or source.number in destination.peers
        self.state.spend(self.state.profile.host["memcpy_peer" if access else "memcpy_peer_staged"])
        pull = stream.device != source.number
        duration = transfers.peer_copy(self.state.profile, src.bytes, access=access, pull=pull)
        self._issue_copy(f"{name} P2P", stream, dst, src, "peer", duration)

    def _copy_in(self, name: str, stream: Stream, dst: CopyRegion, src: CopyRegion, asynchronous: bool) -> None:
        """A copy from pageable memory."""
        host = self.state.profile.host
        if not asynchronous:
            for before, _ in self.state.scheduler.streams.dependencies(stream):
                self.state.wait(before)
        taken = self._take(name, src)
        if src.bytes <= _SMALL:
            self.state.spend(host["staging_start"] + src.bytes * host["staging_small_byte"])
            duration = transfers.bus_copy(self.state.profile, src.bytes, "h2d")
            self._issue_copy(f"{name} H2D pageable", stream, dst, src, "h2d", duration, taken)
            return
        if src.bytes <= host["staging_limit"]:
            time = host["staging_start"] + _SMALL * host["staging_small_byte"]
            time += (src.bytes - _SMALL) * host["staging_byte"]
            duration = transfers.bus_copy(self.state.profile, src.bytes, "h2d")
            self._make_room_for_staging(src.bytes)
            behind = transfers.bus_copy(self.state.profile, _SMALL, "h2d") if asynchronous else 0  # the last piece
            staging = round(time) + behind
            copy = self._issue_copy(f"{name} H2D pageable", stream, dst, src, "h2d", duration, taken, staging)
            self._staged.append(copy)
            self.state.spend(time)
            if not asynchronous and not copy.done:  # another copy has the engine
                self.state.wait(copy)
            return
        self.state.spend(host["staging_start"])
        duration = transfers.staged_copy(self.state.profile, src.bytes, "h2d")
        self.state.wait(self._issue_copy(f"{name} H2D pageable", stream, dst, src, "h2d", duration, taken))

    def _make_room_for_staging(self, size: int) -> None:
        """Copies that wait for their turn keep their part of the staging memory: wait for the oldest of them."""
        limit = self.state.profile.host["staging_limit"]
        self._staged = [copy for copy in self._staged if not copy.done]
        while self._staged and sum(copy.bytes for copy in self._staged) + size > limit:
            self.state.scheduler.wait_for(self._staged.pop(0), seen=False)
            self._staged = [copy for copy in self._staged if not copy.done]

    def _copy_out(self, name: str, stream: Stream, dst: CopyRegion, src: CopyRegion) -> None:
        """A copy to pageable memory."""
        self.state.spend(self.state.profile.host["memcpy_async"])
        duration = transfers.staged_copy(self.state.profile, src.bytes, "d2h")
        self.state.wait(self._issue_copy(f"{name} D2H pageable", stream, dst, src, "d2h", duration))

    def _copy_on_host(self, name: str, stream: Stream, dst: CopyRegion, src: CopyRegion) -> None:
        host = self.state.profile.host
        self.state.spend(host["query"])
        self.state.wait(stream.last)
        copy = self._issue_copy(f"{name} H2H", stream, dst, src, "none", round(src.bytes * host["copy_byte"]))
        self.state.wait(copy)

    def _issue_copy(
        self,
        name: str,
        stream: Stream,
        dst: CopyRegion,
        src: CopyRegion,
        engine: str,
        duration: int,
        taken: np.ndarray | None = None,
        staging: int = 0,
    ) -> CopyOperation:
        work = Copy(name, self.state.memory, src, dst, engine, duration, taken is not None, staging)
        copy = self.state.issue(work, stream)
        if taken is not None:
            copy.stage(taken)
        return copy

    def _take(self, name: str, region: CopyRegion) -> np.ndarray:
        """Bytes of pageable host memory, now."""
        try:
            return self.state.recorder.take_from_host(region, self.state.memory)
        except host_address.UnmappedAddress as error:
            raise invalid_value(f"{name}: {error}") from None

    def _memset(self, name: str, region: CopyRegion, value: int, element: int, handle: int, asynchronous: bool) -> None:
        stream = self.state.scheduler.streams.find(handle)
        self.state.spend(transfers.memset_call(self.state.profile, region.bytes))
        if not region.bytes:
            return
        region, kind = placed(self.state, name, region, in_graph=stream.capture is not None)
        if kind == "pageable":
            raise invalid_value(f"{name}: {region.address:#x} is host memory; use memset of the host")
        if self.state.profile.devices > 1:
            self._check_reach(name, region, stream)
        if region.address % element or (region.rows > 1 and region.pitch % element):
            raise invalid_value(f"{name}: {region.address:#x} is not aligned to elements of {element} bytes")
        work = memset_work(self.state, region, value, element, in_graph=stream.capture is not None)
        if stream.capture is not None:
            if not asynchronous:
                self.state.captures.refuse_stream(stream, name)
            content = MemsetContent(region.address, value, region.width // element, element, region.rows, region.pitch)
            return self.state.captures.add(stream, Content(NodeKind.MEMSET, memset=content), work)
        operation = self.state.issue(work, stream)
        if not asynchronous and (kind == "pinned" or is_managed(self.state.memory, region)):
            self.state.wait(operation)
        return None

    def _check_reach(self, name: str, region: CopyRegion, stream: Stream) -> None:
        """A memset is work of its stream's device, which must reach the memory."""
        allocation = self.state.memory.find(region.address)
        peers = self.state.contexts[stream.device].peers
        if allocation is not None and not allocation.reached_by(stream.device, peers):
            raise invalid_value(
                f"{name}: {region.address:#x} is memory of device {allocation.device}, which the stream's device "
                f"{stream.device} has no access to: use a stream of device {allocation.device}, or enable peer access"
            )

    def _check_direction(self, name: str, kind: int, dst_kind: str, src_kind: str) -> None:
        if _contradicts(kind, dst_kind, src_kind):
            self.state.spend(self.state.profile.host["query"])
        check_direction(name, kind, dst_kind, src_kind)


# -- for streams and graphs --------------------------------------------------------------------------------------------


def _contradicts(kind: int, dst_kind: str, src_kind: str) -> bool:
    return (kind in (HOST_TO_DEVICE, DEVICE_TO_DEVICE) and dst_kind == "pageable") or (
        kind in (DEVICE_TO_HOST, DEVICE_TO_DEVICE) and src_kind == "pageable"
    )


def check_direction(name: str, kind: int, dst_kind: str, src_kind: str) -> None:
    """Raise ``cudaErrorInvalidValue`` when a ``cudaMemcpyKind`` contradicts where the memory lies."""
    if _contradicts(kind, dst_kind, src_kind):
        raise invalid_value(
            f"{name}: the kind is cudaMemcpy{_KIND_NAMES[kind]}, but the destination is {dst_kind} and the source "
            f"{src_kind} memory. cudaMemcpyDefault takes the direction from the addresses"
        )


def copy_work(state: DeviceState, name: str, dst: CopyRegion, src: CopyRegion, kind: int) -> Copy:
    """A copy as a node of a graph: it reads its source when it runs, pageable memory too. Raises ``CudaError``."""
    if not HOST_TO_HOST <= kind <= DEFAULT:
        raise CudaError(cudaError_t.cudaErrorInvalidMemcpyDirection, f"{name}: {kind} is no cudaMemcpyKind")
    (dst, to), (src, source) = (placed(state, name, side, in_graph=True) for side in (dst, src))
    check_direction(name, kind, to, source)
    profile = state.profile
    if to == source == "device":
        return Copy(f"{name} D2D", state.memory, src, dst, "sm", transfers.device_copy(profile, src.bytes))
    if "device" not in (to, source):
        return Copy(f"{name} H2H", state.memory, src, dst, "none", round(src.bytes * profile.host["copy_byte"]))
    engine = "h2d" if to == "device" else "d2h"
    duration = transfers.bus_copy(profile, src.bytes, engine)
    if "pageable" in (to, source):
        duration = max(duration, transfers.staged_copy(profile, src.bytes, engine))
    return Copy(f"{name} {engine.upper()}", state.memory, src, dst, engine, duration)


def memset_work(state: DeviceState, region: CopyRegion, value: int, element: int, *, in_graph: bool = False) -> Memset:
    """A memset of a region whose place is known."""
    bits = value & ((1 << 8 * element) - 1)
    data = np.frombuffer(bits.to_bytes(element, "little"), np.uint8)
    duration = transfers.memset(state.profile, region.bytes, in_graph=in_graph)
    return Memset(state.memory, region, data, duration)
