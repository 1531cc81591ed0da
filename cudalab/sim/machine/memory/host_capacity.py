"""How much memory is available on the host: the machine's, or the container's limit where that is less.

The simulated device keeps its memory in the host's RAM. An H200 has 141 GB of its own; a laptop has 8 or 16 GB for
everything. So an allocation here fails earlier than on the GPU, and the error says so.
"""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path

_UNLIMITED = 1 << 60


def available() -> int:
    """Bytes that can be allocated now without swapping, respecting a container's limit."""
    return min(_machine_available(), _control_group_available())


def _machine_available() -> int:
    if sys.platform == "win32":
        return _windows_available()
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError):
        pass
    try:
        import os

        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
    except (ValueError, OSError, AttributeError):
        return 4 << 30


def _windows_available() -> int:
    class MemoryStatus(ctypes.Structure):
        _fields_ = [("length", ctypes.c_uint32), ("load", ctypes.c_uint32)] + [
            (name, ctypes.c_uint64)
            for name in ("total", "available", "page_total", "page_free", "virtual", "virtual_free", "extended")
        ]

    status = MemoryStatus(length=ctypes.sizeof(MemoryStatus))
    kernel32 = ctypes.WinDLL("kernel32")  # type: ignore[attr-defined,unused-ignore]
    if not kernel32.GlobalMemoryStatusEx(ctypes.byref(status)):
        return 4 << 30
    return min(int(status.available), int(status.page_free))


def _control_group_available(groups: Path = Path("/proc/self/cgroup"), root: Path = Path("/sys/fs/cgroup")) -> int:
    """The tightest limit of this process's memory control group and its parents (versions 1 and 2)."""
    try:
        lines = groups.read_text().splitlines()
    except OSError:
        return _UNLIMITED
    best = _UNLIMITED
    for line in lines:
        number, controllers, path = line.split(":", 2)
        if number == "0" and not controllers:
            mount, names = root, ("memory.max", "memory.current", "inactive_file")
        elif "memory" in controllers.split(","):
            mount, names = root / "memory", ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
        else:
            continue
        folder = mount / path.lstrip("/")
        while True:
            best = min(best, _group_left(folder, *names))
            if folder == mount or mount not in folder.parents:
                break
            folder = folder.parent
    return best


def _group_left(folder: Path, limit_name: str, usage_name: str, cache_name: str) -> int:
    try:
        limit = (folder / limit_name).read_text().strip()
        if limit == "max" or int(limit) >= _UNLIMITED:
            return _UNLIMITED
        used = int((folder / usage_name).read_text())
        for line in (folder / "memory.stat").read_text().splitlines():
            if line.startswith(cache_name + " "):
                used -= int(line.split()[1])  # page cache that is given up under pressure
        return max(0, int(limit) - max(0, used))
    except (OSError, ValueError):
        return _UNLIMITED
