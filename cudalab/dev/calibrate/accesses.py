"""Microbenchmarks of accesses that caches merge, share or repeat, and of what stands beside them: upper halves of
products, counters in shared memory (docs/evidence/2026-11-23-accesses.md)."""

from __future__ import annotations

from cudalab.dev.calibrate.microbenchmark import MB, Argument, Buffer, Microbenchmark

MODULE = "accesses"
_THREADS = 256
_SIDE = 4096
"""Rows and columns of the matrix that tiles are parts of."""


def accesses(sms: int) -> list[Microbenchmark]:
    """A part of those that were measured, for a device with ``sms`` SMs."""
    return [*_rows(), *_tiles(), *_lines(sms), *_columns(), *_searches(), *_hashed(), *_counts(sms), *_products(sms)]


def _each(name: str, kernel: str, n: int, *arguments: Argument) -> Microbenchmark:
    """A thread for each of ``n``."""
    return Microbenchmark(name, kernel, -(-n // _THREADS), _THREADS, arguments, module=MODULE)


def _rows() -> list[Microbenchmark]:
    found = []
    for size, words in ((16, 2), (16, 3), (16, 4), (16, 5), (16, 8), (64, 8), (256, 3), (64, 16)):
        b, n = Buffer("b", size * MB), size * MB // 4 // words
        found.append(_each(f"row write {words} of {size} MB", f"row_write{words}", n, b, ("i", n)))
    for size, words in ((16, 3), (64, 4)):
        n, both = size * MB // 4 // words, (Buffer("a", size * MB), Buffer("b", size * MB))
        found.append(_each(f"row copy {words} of {size} MB", f"row_copy{words}", n, *both, ("i", n)))
    b, n = Buffer("b", 16 * MB), 16 * MB // 4 // 64
    found.append(_each("row write loop 64 of 16 MB", "row_write_loop", n, b, ("i", n), ("i", 64)))
    return found


def _tiles() -> list[Microbenchmark]:
    found = []
    a, b = Buffer("a", 4 * _SIDE**2), Buffer("b", 4 * _SIDE**2)
    for kernel, width, height in (
        ("tile_copy", 2, 64),
        ("tile_copy", 4, 64),
        ("tile_copy", 12, 12),
        ("tile_copy_down", 4, 64),
        ("tile_write", 4, 64),
    ):
        side = _SIDE // width * width
        blocks, shape = (side // width) * (side // height), (("i", side), ("i", width), ("i", height))
        name = f"{kernel.replace('_', ' ')} {_SIDE} {width} x {height}"
        arguments = (*((b,) if kernel == "tile_write" else (a, b)), *shape)
        found.append(Microbenchmark(name, kernel, blocks, width * height, arguments, module=MODULE))
    return found


def _lines(sms: int) -> list[Microbenchmark]:
    found = []
    for size, radius in ((16, 16), (256, 16), (256, 8)):
        n = size * MB // 4 - 2 * radius
        both = Buffer("a", size * MB), Buffer("b", size * MB)
        found.append(_each(f"halo sum {radius} of {size} MB", f"halo_sum{radius}", n, *both, ("i", n)))
    x, out = Buffer("a", MB), Buffer("b", 64 * MB)
    for stride in (1, 9, 33):
        numbers: tuple[Argument, ...] = ("i", 64), ("i", stride), ("i", 4096)
        name = f"across stride {stride}"
        found.append(Microbenchmark(name, "across", sms, 1024, (x, out, *numbers), module=MODULE))
    for offset in (0, 1):
        far: tuple[Argument, ...] = ("i", 32), ("i", offset), ("i", 0)
        found.append(Microbenchmark(f"beyond {offset}", "beyond", sms, 1024, (x, out, *far), module=MODULE))
    return found


def _columns() -> list[Microbenchmark]:
    """The same work on rows that lie close together and far apart."""
    columns, rows, found = 16384, 64, []
    for megabytes in (0, 1000):
        pitch = max(columns, megabytes * MB // 4 // rows)
        whole = 4 * (rows * pitch + columns)
        numbers: tuple[Argument, ...] = ("i", columns), ("i", rows), ("i", pitch)
        name = f"fading {columns} x {rows}" + (f" in {megabytes} MB" if megabytes else "")
        found.append(_each(name, "fading", columns, Buffer("a", whole), Buffer("b", whole), *numbers))
    return found


def _searches() -> list[Microbenchmark]:
    found = []
    for n, step in ((4096, 1), (4096, 40503), (262144, 1)):
        numbers: tuple[Argument, ...] = ("i", n), ("i", step), ("i", 4096)
        both = Buffer("a", 4 * n), Buffer("b", 4 * 4096)
        found.append(_each(f"search {n} by {step}", "search", 4096, *both, *numbers))
    return found


def _hashed() -> list[Microbenchmark]:
    found = []
    for size in (16, 64, 256):
        n = size * MB // 4
        numbers: tuple[Argument, ...] = ("i", n), ("I", n - 1)
        for what in ("gather", "scatter"):
            both = Buffer("a", size * MB), Buffer("b", size * MB)
            found.append(_each(f"hashed {what} {size} MB", f"hashed_{what}", n, *both, *numbers))
    return found


def _counts(sms: int) -> list[Microbenchmark]:
    out, found = Buffer("b", 64 * MB), []
    for what, spread in (
        ("count", 1),
        ("count", 1024),
        ("hashed", 8),
        ("hashed", 1024),
        ("taken", 1024),
        ("most", 1024),
        ("sum", 8),
        ("sum", 1024),
    ):
        numbers: tuple[Argument, ...] = ("i", 256), ("i", spread if what == "count" else spread - 1)
        if what == "sum":
            numbers = (*numbers, ("I", 3))
        name = f"shared {what} {spread}"
        found.append(Microbenchmark(name, f"shared_{what}", 2 * sms, 512, (out, *numbers), module=MODULE))
    return found


def _products(sms: int) -> list[Microbenchmark]:
    out, found = Buffer("b", 64 * MB), []
    for label, blocks, threads, rounds in (("one warp", 1, 32, 128), ("full", 2 * sms, 1024, 32)):
        numbers: tuple[Argument, ...] = ("i", rounds), ("I", 40503)
        name = f"high product {label}"
        found.append(Microbenchmark(name, "high_product", blocks, threads, (out, *numbers), module=MODULE))
    return found
