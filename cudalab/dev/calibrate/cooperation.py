"""Microbenchmarks of waiting for others: grids, clusters, barriers of a block, copies under way, sleep, and the heap.

Each repeats one operation so often that the launch around it hardly counts. One block, or one cluster, gives a latency;
as many as the device has SMs give what they share.
"""

from __future__ import annotations

from cudalab.dev.calibrate.cooperation_sources import CLUSTER_SIZES
from cudalab.dev.calibrate.microbenchmark import KB, MB, Argument, Buffer, Microbenchmark

_OUT = Buffer("b", 64 * MB)


def cooperation(sms: int) -> list[Microbenchmark]:
    """Those of a device with ``sms`` SMs."""
    return [*_grids(sms), *_clusters(sms), *_copies(sms), *_bulk(sms), *_barriers(sms), *_threads(sms)]


def _together(
    name: str, kernel: str, blocks: int, threads: int, *arguments: Argument, shared: int = 0
) -> Microbenchmark:
    return Microbenchmark(name, kernel, blocks, threads, arguments, shared, "together")


def _grids(sms: int) -> list[Microbenchmark]:
    shapes = [(1, 32), (2, 32), (8, 32), (32, 32), (sms // 2, 32), (sms, 32), (2 * sms, 32), (4 * sms, 32)]
    shapes += [(8 * sms, 32), (16 * sms, 32), (1, 256), (1, 1024), (sms, 256), (sms, 1024), (2 * sms, 1024)]
    return [
        Microbenchmark(
            f"grid barrier {blocks} x {threads}", "grid_sync", blocks, threads, (_OUT, ("i", 100)), 0, "grid"
        )
        for blocks, threads in shapes
    ]


def _clusters(sms: int) -> list[Microbenchmark]:
    found = []
    for size in CLUSTER_SIZES:
        whole = sms // 16 * 14 // size * size  # SMs are in groups of 16 or 18, some of them switched off
        for threads in (32, 256, 1024):
            name = f"cluster barrier {size} x {threads}"
            found.append(_together(name, f"cluster_sync_{size}", size, threads, _OUT, ("i", 200)))
        name = f"cluster barrier {size} x 256 everywhere"
        found.append(_together(name, f"cluster_sync_{size}", whole, 256, _OUT, ("i", 200)))
        found.append(_together(f"cluster chain {size}", f"cluster_chain_{size}", size, 32, _OUT, ("i", 1000)))
        found.append(_together(f"cluster fetch {size}", f"cluster_fetch_{size}", size, 32, _OUT, ("i", 1000)))
        for way in ("read4", "read16", "write4", "write16"):
            name = f"cluster {way} {size}"
            found.append(_together(name, f"cluster_{way}_{size}", whole, 1024, _OUT, ("i", 20)))
        for way in ("read16", "write16"):
            name = f"cluster {way} {size} alone"
            found.append(_together(name, f"cluster_{way}_{size}", size, 1024, _OUT, ("i", 20)))
        found.append(_together(f"cluster add {size}", f"cluster_add_{size}", whole, 1024, _OUT, ("i", 100)))
    return found


def _copies(sms: int) -> list[Microbenchmark]:
    found = []
    small, large = Buffer("a", MB), Buffer("a", 512 * MB)
    for width in (4, 8, 16):
        name = f"async chain {width}"
        arguments = (small, _OUT, ("i", 1024), ("i", 128), ("i", MB - 1))
        found.append(_together(name, f"async_chain{width}", 1, 1, *arguments))
        name = f"async read {width}"
        found.append(_together(f"{name} L2", f"async_read{width}", sms, 256, Buffer("a", 36 * MB), _OUT, ("i", 8)))
        found.append(_together(f"{name} L2 8 blocks", f"async_read{width}", 8 * sms, 256, large, _OUT, ("i", 1)))
        rounds = 256 * MB // (8 * 256 * width * 8 * sms)
        found.append(_together(f"{name} DRAM", f"async_read{width}", 8 * sms, 256, large, _OUT, ("i", rounds)))
    return found


def _bulk(sms: int) -> list[Microbenchmark]:
    found = []
    small, source, target = Buffer("a", MB), Buffer("a", 512 * MB), Buffer("d", 512 * MB)
    for size in (16, 128, KB, 4 * KB, 16 * KB):
        sizes: tuple[Argument, ...] = (("i", 64), ("i", size), ("i", MB - 1))
        found.append(_together(f"bulk chain {size}", "bulk_chain", 1, 1, small, _OUT, *sizes))
        name = f"bulk write chain {size}"
        found.append(_together(name, "bulk_write_chain", 1, 1, Buffer("c", MB), *sizes, shared=32 * KB))
    for size in (128, KB, 8 * KB):
        for where, moved in (("L2", 16 * MB), ("DRAM", 128 * MB)):
            if where == "DRAM" and size < KB:
                continue
            sizes = (("i", moved // (sms * size)), ("i", size))
            for stages in (1, 4):
                name, shared = f"bulk read {size} by {stages} {where}", stages * size
                found.append(_together(name, "bulk_read", sms, 1, source, _OUT, *sizes, ("i", stages), shared=shared))
            name = f"bulk write {size} {where}"
            found.append(_together(name, "bulk_write", sms, 1, target, *sizes, shared=max(size, KB)))
    return found


def _barriers(sms: int) -> list[Microbenchmark]:
    found = []
    for threads in (32, 256, 1024):
        arguments = (_OUT, ("i", 500))
        found.append(_together(f"block barrier {threads}", "block_barrier", sms, threads, *arguments))
        found.append(_together(f"barrier object {threads}", "barrier_object", sms, threads, *arguments))
    found.append(_together("barrier object alone", "barrier_object_alone", 1, 1, _OUT, ("i", 1000)))
    for threads, part in ((64, 64), (256, 64), (256, 128), (1024, 128), (1024, 512)):
        name = f"named barrier {part} of {threads}"
        found.append(_together(name, "named_barrier", sms, threads, _OUT, ("i", 500), ("i", part)))
    found.append(_together("handover", "handover", sms, 64, _OUT, ("i", 1000)))
    return found


def _threads(sms: int) -> list[Microbenchmark]:
    found = []
    for ns in (0, 32, 100, 320, 1000, 10000):
        found.append(_together(f"sleep {ns}", "sleep_for", 1, 32, _OUT, ("i", 100), ("I", ns)))
    for blocks, threads, size in (
        (1, 1, 16),
        (1, 1, 4 * KB),
        (1, 32, 16),
        (1, 256, 16),
        (sms, 32, 16),
        (sms, 256, 16),
    ):
        name = f"heap {blocks} x {threads}, {size}"
        found.append(_together(name, "heap", blocks, threads, _OUT, ("i", 20), ("i", size)))
    return found
