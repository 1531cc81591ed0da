"""Peer access, and copies from one device to another.

A device that was given access reaches a peer's memory from kernels, at the speed of the link; access goes one way and
is given for all memory at once, also for what is allocated later (CUDA C++ Programming Guide, "Peer-to-Peer Memory
Access"). Copies need no access: over the link they go directly, from one memory to the other, and where access is off
they are staged through the host's memory, which is slower. Devices that a profile puts into one machine are linked all
to all; a learner would notice that on machines where they are not.
"""

from __future__ import annotations

from cuda.bindings.runtime import cudaDeviceP2PAttr, cudaError_t

from cudalab.sim.device.calls.copies import DEVICE_TO_DEVICE, CopyCalls
from cudalab.sim.device.calls.group import CallGroup, call
from cudalab.sim.device.declaration import Address, Handle, Waits
from cudalab.sim.device.error import CudaError, invalid_value
from cudalab.sim.device.queue.copy_region import CopyRegion
from cudalab.sim.device.state import DeviceState

_LINK = {
    cudaDeviceP2PAttr.cudaDevP2PAttrPerformanceRank: 0,
    cudaDeviceP2PAttr.cudaDevP2PAttrAccessSupported: 1,
    cudaDeviceP2PAttr.cudaDevP2PAttrNativeAtomicSupported: 1,
    cudaDeviceP2PAttr.cudaDevP2PAttrCudaArrayAccessSupported: 1,
}


class PeerCalls(CallGroup):
    """What concerns two devices. Their numbers have been checked by the layers above."""

    def __init__(self, state: DeviceState, copies: CopyCalls) -> None:
        super().__init__(state)
        self._copies = copies

    @call("cudaDeviceCanAccessPeer", "cuDeviceCanAccessPeer", when_lost=True, needs_context=False)
    def can_access_peer(self, number: int, peer: int) -> bool:
        """Can a device be given access to a peer's memory? It is no peer of itself."""
        return self.state.contexts[number] is not self.state.contexts[peer]

    @call("cudaDeviceGetP2PAttribute", "cuDeviceGetP2PAttribute", when_lost=True, needs_context=False)
    def link_attribute(self, attribute: int, source: int, destination: int) -> int:
        """What the link between two devices can: a ``cudaDeviceP2PAttr`` number."""
        if self.state.contexts[source] is self.state.contexts[destination]:
            raise CudaError(
                cudaError_t.cudaErrorInvalidDevice, f"device {source} has no link with itself: name two devices"
            )
        if attribute not in _LINK:
            raise invalid_value(f"{attribute} is no attribute of a link (cudaDeviceP2PAttr)")
        return _LINK[cudaDeviceP2PAttr(attribute)]

    @call("cudaDeviceEnablePeerAccess", "cuCtxEnablePeerAccess")
    def enable_peer_access(self, peer: int, flags: int = 0) -> None:
        """Let kernels of the current device reach a peer's memory."""
        here, context = self.state.contexts.here, self.state.contexts[peer]
        if flags:
            raise invalid_value(f"cudaDeviceEnablePeerAccess: flags must be 0 (got {flags})")
        if context is here:
            raise CudaError(
                cudaError_t.cudaErrorPeerAccessUnsupported, f"device {peer} is the current one, and no peer of itself"
            )
        if peer in here.peers:
            raise CudaError(
                cudaError_t.cudaErrorPeerAccessAlreadyEnabled,
                f"device {here.number} has access to device {peer} already. Access goes one way and is given once: the "
                "other way needs a call of its own, with the other device current",
            )
        if not context.active:
            self.state.make_context(context, by_runtime=True)
        self.state.spend(self.state.profile.host["peer_enable"])
        here.peers.add(peer)

    @call("cudaDeviceDisablePeerAccess", "cuCtxDisablePeerAccess", waits=Waits.DEVICE)
    def disable_peer_access(self, peer: int) -> None:
        """Take the access to a peer's memory back, once what runs has ended."""
        here = self.state.contexts.here
        if self.state.contexts[peer].number not in here.peers:
            raise CudaError(
                cudaError_t.cudaErrorPeerAccessNotEnabled,
                f"device {here.number} has no access to device {peer}: cudaDeviceEnablePeerAccess gives it",
            )
        self.state.wait_for_all()
        here.peers.discard(peer)

    @call(
        "cudaMemcpyPeer",
        "cudaMemcpyPeerAsync",
        "cuMemcpyPeer",
        "cuMemcpyPeerAsync",
        cost=None,
        waits=Waits.OWN_WORK,
    )
    def memcpy_peer(
        self,
        dst: Address,
        dst_device: int,
        src: Address,
        src_device: int,
        size: int,
        stream: Handle = 0,
        asynchronous: bool = False,
    ) -> None:
        """Copy ``size`` bytes from a device to another. The addresses say which they are (unified addressing); the
        numbers must be those of devices, and are looked at no further."""
        for number in (dst_device, src_device):
            _ = self.state.contexts[number]
        destination, source = CopyRegion(dst, size), CopyRegion(src, size)
        self._copies.copy("cudaMemcpyPeer", destination, source, DEVICE_TO_DEVICE, stream, asynchronous)
