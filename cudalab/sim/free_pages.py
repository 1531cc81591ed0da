"""Memory that a process holds and does not use.

glibc gives freed memory back to the system from the end of its heap alone. What lies between pieces that are still in
use stays, tens of megabytes after work with large temporary arrays. Pages of a library's file, too, stay mapped once
they were looked at: NVRTC and LLVM have 60 and 75 MB of them after one compile.
"""

from __future__ import annotations

import ctypes
import mmap
import re
import sys
from pathlib import Path


def give_back() -> None:
    """Return them to the system: 0.2 to 2 ms. Does nothing where the C library is another."""
    if sys.platform == "linux" and (trim := getattr(ctypes.CDLL(None), "malloc_trim", None)):
        trim(0)


_MAPPING = re.compile(r"^([0-9a-f]+)-([0-9a-f]+) r-[x-]p \S+ \S+ \S+ +(/.*)$")
_unchanged: dict[str, list[tuple[int, int]]] = {}


def unmap_library(name: str) -> None:
    """Let go of the pages of a library, whose file name begins with ``name``: under a millisecond, and some 2 for who
    uses all of it again, from the system's cache of files. Pages that the process has changed stay. Linux only."""
    if sys.platform != "linux":
        return
    libc = ctypes.CDLL(None)
    for start, size in _unchanged.get(name) or _find_unchanged(name):
        libc.madvise(ctypes.c_void_p(start), ctypes.c_size_t(size), mmap.MADV_DONTNEED)


def _find_unchanged(name: str) -> list[tuple[int, int]]:
    """Start and bytes of each part of a library that nobody can write to and of which no page is this process's own."""
    try:
        if f"/{name}" not in Path("/proc/self/maps").read_text():
            return []  # it is not loaded
        lines = Path("/proc/self/smaps").read_text().splitlines()
    except OSError:  # a jailed process that did not look before
        return []
    found, parts = (0, 0), []
    for line in lines:
        if line[0].isupper():
            if found[1] and line.startswith("Anonymous:") and line.split()[1] == "0":
                parts.append(found)
            continue
        match = _MAPPING.match(line)
        inside = match is not None and match[3].rpartition("/")[2].startswith(name)
        found = (int(match[1], 16), int(match[2], 16) - int(match[1], 16)) if match and inside else (0, 0)
    _unchanged[name] = parts
    return parts
