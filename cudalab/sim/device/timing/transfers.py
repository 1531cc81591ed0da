"""How long copies, memsets and the library's array functions take: they need no sample."""

from __future__ import annotations

from cudalab.sim.abi import WARP
from cudalab.sim.device.profile import Profile

_STAGED_FIRST = 64 << 10
"""Bytes of a copy that is staged through the host's memory, each of which takes longer than the further ones."""


def bus_copy(profile: Profile, size: int, direction: str) -> int:
    """ns of a copy between page-locked host memory and the device; ``direction`` is ``h2d`` or ``d2h``."""
    return round(profile.device[f"copy_{direction}_start"] + size * profile.device["bus_byte"])


def peer_copy(profile: Profile, size: int, *, access: bool, pull: bool) -> int:
    """ns of a copy from one device to another: over their link where one of them has access to the other's memory,
    otherwise staged through the host's. ``pull``: in a stream of the destination, which takes longer to start."""
    c = profile.device
    if not access:
        first = min(size, _STAGED_FIRST) * c["peer_staged_first"]
        return round(c["peer_staged_start"] + first + size * c["peer_staged_byte"])
    return round(c["peer_pull_start" if pull else "peer_start"] + size * c["peer_byte"])


def device_copy(profile: Profile, size: int) -> int:
    """ns of a copy within device memory: each byte is read and written."""
    bandwidth = profile.device["dram_bandwidth"] * 1e3 * (1.0 - profile.device["dram_mix"] / 4)
    return round(profile.device["copy_d2d_start"] + 2 * size / bandwidth)


def staged_copy(profile: Profile, size: int, direction: str) -> int:
    """ns of a copy from (``h2d``) or to (``d2h``) pageable memory: the host copies piece by piece through page-locked
    memory. Host and bus work side by side, but for the first piece."""
    host, bus, first = profile.host, profile.device["bus_byte"], min(size, profile.host["staging_piece"])
    if direction == "d2h":
        start = profile.device["copy_d2h_start"] + host["staging_out_start"]
        return round(start + size * max(host["staging_out_byte"], bus) + first * host["staging_out_first"])
    return round(size * max(host["staging_byte"], bus) + first * min(host["staging_byte"], bus))


def memset(profile: Profile, size: int, *, in_graph: bool = False) -> int:
    """ns of a memset: small ones are done by the front end, large ones by a kernel, which a graph has ready."""
    c = profile.device
    if size <= c["memset_inline_limit"]:
        return round(c["memset_inline"] + size * c["memset_inline_byte"])
    return round(c["graph_memset" if in_graph else "memset_start"] + size / (c["memset_bandwidth"] * 1e3))


def memset_call(profile: Profile, size: int) -> float:
    """ns that the call keeps the host: the large ones are a launch."""
    large = size > profile.device["memset_inline_limit"]
    return profile.host["memset"] + (profile.host["memset_kernel"] if large else 0)


def array_operation(profile: Profile, moved: int, flops: float) -> int:
    """ns of an array function that reads and writes ``moved`` bytes and computes ``flops`` operations."""
    c = profile.device
    bandwidth = c["dram_bandwidth"] * 1e3 * (1.0 - c["dram_mix"] / 4)
    memory = moved / bandwidth
    issue = flops / (profile.sms * c["schedulers"] * WARP * c["clock"])
    return round(c["kernel_start"] + c["dram_latency"] + c["store_latency"] + max(memory, issue))
