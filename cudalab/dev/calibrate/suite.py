"""All microbenchmarks, and those in which blocks do not wait for one another.

Sizes are chosen so that one resource decides and everything else hides behind it.
"""

from __future__ import annotations

from cudalab.dev.calibrate.accesses import accesses
from cudalab.dev.calibrate.cooperation import cooperation
from cudalab.dev.calibrate.microbenchmark import GB, KB, LINE, MB, Buffer, Microbenchmark
from cudalab.dev.calibrate.sources import OPERATIONS

SMS = 132


def microbenchmarks(sms: int = SMS) -> list[Microbenchmark]:
    """All microbenchmarks for a device with ``sms`` SMs."""
    apart = [*_starts(sms), *_operations(sms), *_streams(sms), *_apart(), *_caches(sms), *_shared(sms), *_atomics(sms)]
    return [*apart, *accesses(sms), *cooperation(sms)]


def _starts(sms: int) -> list[Microbenchmark]:
    found = [
        Microbenchmark(f"empty {blocks} x {threads}", "empty", blocks, threads)
        for blocks, threads in (
            (1, 32),
            (sms, 32),
            (10 * sms, 32),
            (100 * sms, 32),
            (1000 * sms, 32),
            (1000 * sms, 256),
            (200 * sms, 512),
            (200 * sms, 1024),
        )
    ]
    out = Buffer("b", 64 * MB)
    for blocks, threads in ((1, 32), (sms, 32), (2 * sms, 32), (sms, 1024), (2 * sms, 1024)):
        found.append(Microbenchmark(f"store {blocks} x {threads}", "store1", blocks, threads, (out,)))
    for n in (1024, 16384, 262144, MB):
        found.append(
            Microbenchmark(
                f"add {n}",
                "add_one",
                n // 256,
                256,
                (Buffer("a", 16 * MB), Buffer("c", 16 * MB), Buffer("b", 16 * MB), ("i", n)),
            )
        )
    return found


def _operations(sms: int) -> list[Microbenchmark]:
    """Each operation as one warp's chain (its latency) and with every scheduler full (its throughput)."""
    out = Buffer("b", 64 * MB)
    found = []
    for name, (kind, _) in OPERATIONS.items():
        letter = {"float": "f", "double": "d", "int": "i", "unsigned": "I", "long long": "q"}[kind]
        numbers = (letter, 3), (letter, 5)
        found.append(Microbenchmark(f"{name} one warp", f"op_{name}", 1, 32, (out, ("i", 128), *numbers)))
        found.append(Microbenchmark(f"{name} full", f"op_{name}", 2 * sms, 1024, (out, ("i", 32), *numbers)))
    for warps in (1, 4, 8, 16, 32):
        found.append(Microbenchmark(f"plain loop {warps} warps", "plain_loop", sms, 32 * warps, (out, ("i", 4096))))
        found.append(
            Microbenchmark(f"plain int loop {warps} warps", "plain_int_loop", sms, 32 * warps, (out, ("i", 4096)))
        )
    for per in (2, 8, 16, 64):
        found.append(Microbenchmark(f"plain loop {per} x 256", "plain_loop", per * sms, 256, (out, ("i", 1024))))
    for warps in (1, 32):
        for ways in (1, 2, 3, 4):
            found.append(
                Microbenchmark(
                    f"branching {ways} ways {warps} warps", "branching", sms, 32 * warps, (out, ("i", 512), ("i", ways))
                )
            )
    for threads in (32, 128, 256, 512, 1024):
        found.append(Microbenchmark(f"barrier {threads}", "barrier", sms, threads, (out, ("i", 1000))))
    found.append(Microbenchmark("barrier 8 x 256", "barrier", 8 * sms, 256, (out, ("i", 1000))))
    for spread in (1, 2, 8, 32):
        found.append(
            Microbenchmark(f"constants spread {spread}", "constants", sms, 1024, (out, ("i", 512), ("i", spread)))
        )
    return found


def _streams(sms: int) -> list[Microbenchmark]:
    a, b = Buffer("a", GB), Buffer("b", GB)
    found = []
    for kernel, width in (("copy1", 4), ("copy2", 8), ("copy4", 16)):
        n = 256 * MB // width
        for threads in (64, 128, 256, 512, 1024):
            found.append(Microbenchmark(f"{kernel} {threads} threads", kernel, n // threads, threads, (a, b, ("q", n))))
        for kilobytes in (28, 36, 54, 72, 110, 215):
            found.append(
                Microbenchmark(
                    f"{kernel} {kilobytes} KB shared", kernel, n // 256, 256, (a, b, ("q", n)), kilobytes * KB
                )
            )
    for kernel, width in (("loop1", 4), ("loop4", 16), ("sweep1", 4), ("sweep4", 16)):
        for per in (1, 2, 4, 8):
            n = 256 * MB // width
            found.append(Microbenchmark(f"{kernel} {per} x 256", kernel, per * sms, 256, (a, b, ("q", n))))
    for kernel, width in (("read1", 4), ("read4", 16), ("write1", 4), ("write4", 16)):
        n = GB // width
        found.append(Microbenchmark(f"{kernel} 1 GB", kernel, n // 256, 256, (a, b, ("q", n))))
        n = 256 * MB // width
        found.append(Microbenchmark(f"{kernel} 256 MB 1024 threads", kernel, n // 1024, 1024, (a, b, ("q", n))))
    for size in (1, 4, 8, 16, 32, 64):
        for kernel, width in (("copy1", 4), ("copy4", 16)):
            n = size * MB // width
            found.append(
                Microbenchmark(
                    f"{kernel} {size} MB",
                    kernel,
                    n // 256,
                    256,
                    (Buffer("a", size * MB), Buffer("b", size * MB), ("q", n)),
                )
            )
    return found


def _apart() -> list[Microbenchmark]:
    a, b = Buffer("a", 4 * GB), Buffer("b", 4 * GB)
    n = 16 * MB
    found = []
    for stride in (1, 2, 4, 8, 16, 32, 64):
        found.append(
            Microbenchmark(f"read apart {stride}", "apart_read", n // 256, 256, (a, b, ("q", n), ("i", stride)))
        )
        found.append(
            Microbenchmark(f"write apart {stride}", "apart_write", n // 256, 256, (b, ("q", n), ("i", stride)))
        )
    for size in (MB, 16 * MB, 32 * MB, 512 * MB, 4 * GB):
        m = 4 * MB
        found.append(
            Microbenchmark(
                f"read hashed {size // MB} MB",
                "hashed_read",
                m // 256,
                256,
                (Buffer("a", size), Buffer("c", MB), ("i", m), ("I", size // 4 - 1)),
            )
        )
    for threads, size in ((64, 64), (256, 64), (1024, 64), (256, 4)):
        n = size * MB // 4
        found.append(
            Microbenchmark(
                f"write columns {size} MB {threads} threads",
                "columns",
                n // 1024,
                threads,
                (b, ("i", 1024 if size == 4 else 4096)),
            )
        )
    for size in (16 * MB, 512 * MB):
        found.append(
            Microbenchmark(
                f"write hashed {size // MB} MB",
                "hashed_write",
                m // 256,
                256,
                (Buffer("b", size), ("i", m), ("I", size // 4 - 1)),
            )
        )
    return found


def _caches(sms: int) -> list[Microbenchmark]:
    out = Buffer("b", 64 * MB)
    found = []
    for label, size, step in (
        ("16 KB", 16 * KB, 32),
        ("128 KB", 128 * KB, 32),
        ("1 MB", MB, 32),
        ("8 MB", 8 * MB, 1056),
        ("256 MB", 256 * MB, 33056),
        ("2 GB", 2 * GB, 33056),
    ):
        found.append(
            Microbenchmark(
                f"chain {label}",
                "chain",
                1,
                1,
                (Buffer("a", size), out, ("i", 8192), ("i", step), ("i", size // 4 - 1)),
            )
        )
    for megabytes in (48, 96):  # every line of so much memory, one after the other
        found.append(
            Microbenchmark(
                f"chain {megabytes} MB",
                "chain_all",
                1,
                1,
                (Buffer("a", megabytes * MB), out, ("i", megabytes * MB // LINE)),
            )
        )
    for steps in (0, 1, 2, 4, 8, 16, 64):
        found.append(
            Microbenchmark(
                f"chain of {steps}", "chain", 1, 1, (Buffer("a", MB), out, ("i", steps), ("i", 32), ("i", MB // 4 - 1))
            )
        )
    for stride in (1, 2, 4, 8, 16, 32):
        found.append(
            Microbenchmark(
                f"near stride {stride}",
                "near",
                sms,
                1024,
                (Buffer("a", MB), out, ("i", 64), ("i", stride), ("i", 4096)),
            )
        )
    found.append(
        Microbenchmark("near one warp", "near", 1, 32, (Buffer("a", MB), out, ("i", 64), ("i", 1), ("i", 4096)))
    )
    found.append(Microbenchmark("near float4", "near4", sms, 1024, (Buffer("a", MB), out, ("i", 64), ("i", 1024))))
    found.append(Microbenchmark("near same address", "same", sms, 1024, (Buffer("a", MB), out, ("i", 64), ("i", 4096))))
    for size in (8, 16, 24, 32, 48, 96, 256):
        found.append(
            Microbenchmark(
                f"sweep {size} MB", "sweep4", 8 * sms, 256, (Buffer("a", size * MB), out, ("q", size * MB // 16))
            )
        )
    found.append(Microbenchmark("sweep1 16 MB", "sweep1", 8 * sms, 256, (Buffer("a", 16 * MB), out, ("q", 4 * MB))))
    for stride in (8, 32):
        found.append(
            Microbenchmark(
                f"read apart {stride} in 16 MB",
                "apart_read",
                16 * MB // 4 // stride // 256,
                256,
                (Buffer("a", 16 * MB), out, ("q", 16 * MB // 4 // stride), ("i", stride)),
            )
        )
    return found


def _shared(sms: int) -> list[Microbenchmark]:
    out = Buffer("b", 64 * MB)
    found = []
    for warps in (1, 4, 16, 32):
        for stride in (1, 2, 4, 32):
            found.append(
                Microbenchmark(
                    f"shared read stride {stride} {warps} warps",
                    "shared_read",
                    sms,
                    32 * warps,
                    (out, ("i", 1024), ("i", stride)),
                )
            )
    for stride in (1, 2, 8, 32):
        found.append(
            Microbenchmark(
                f"shared write stride {stride}", "shared_write", sms, 1024, (out, ("i", 1024), ("i", stride))
            )
        )
    for warps in (1, 32):
        found.append(
            Microbenchmark(
                f"shared chain {warps} warps", "shared_chain", sms, 32 * warps, (out, ("i", 1024), ("i", 32))
            )
        )
    return found


def _atomics(sms: int) -> list[Microbenchmark]:
    x, out = Buffer("c", MB), Buffer("b", 64 * MB)
    found = []
    for spread in (1, 2, 8, 32, 256, 1024, 32768, 262144):
        found.append(Microbenchmark(f"pile spread {spread}", "pile", 4096, 256, (x, ("i", spread), ("I", 1))))
        found.append(Microbenchmark(f"pile of 3 spread {spread}", "pile", 4096, 256, (x, ("i", spread), ("I", 3))))
        found.append(Microbenchmark(f"float pile spread {spread}", "pile_float", 4096, 256, (x, ("i", spread))))
    found.append(Microbenchmark("fetch one thread", "fetch", 1, 1, (x, out, ("i", 256))))
    found.append(Microbenchmark("fetch one warp", "fetch", 1, 32, (x, out, ("i", 256))))
    for spread in (1, 2, 4, 8, 16, 32, 1024):
        for value in (1, 3):
            found.append(
                Microbenchmark(
                    f"shared pile of {value} spread {spread}",
                    "shared_pile",
                    2 * sms,
                    512,
                    (out, ("i", 256), ("i", spread), ("I", value)),
                )
            )
        found.append(
            Microbenchmark(
                f"shared float pile spread {spread}",
                "shared_pile_float",
                2 * sms,
                512,
                (out, ("i", 256), ("i", spread)),
            )
        )
    return found
