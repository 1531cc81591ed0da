"""Is an address mapped in this process? Asked when a kernel accessed one that is no device memory.

With unified addressing a GPU faults on a host address that was not mapped for it; the driver does not say why. Here the
message does: a mapped address outside the arena is a host address.
"""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path


def is_mapped(address: int) -> bool:
    """True when this process has memory at `address`; False also where the system cannot tell."""
    if sys.platform == "win32":
        return _is_mapped_windows(address)
    try:
        with Path("/proc/self/maps").open() as lines:
            for line in lines:
                first, _, rest = line.partition("-")
                last, _, permissions = rest.partition(" ")
                if int(first, 16) <= address < int(last, 16):
                    return permissions.startswith("r")
    except (OSError, ValueError):
        pass
    return False


def _is_mapped_windows(address: int) -> bool:
    class MemoryInformation(ctypes.Structure):
        _fields_ = [
            ("base", ctypes.c_void_p),
            ("allocation_base", ctypes.c_void_p),
            ("allocation_protect", ctypes.c_uint32),
            ("partition", ctypes.c_uint32),
            ("size", ctypes.c_size_t),
            ("state", ctypes.c_uint32),
            ("protect", ctypes.c_uint32),
            ("type", ctypes.c_uint32),
        ]

    information = MemoryInformation()
    kernel32 = ctypes.WinDLL("kernel32")  # type: ignore[attr-defined,unused-ignore]
    kernel32.VirtualQuery.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]
    kernel32.VirtualQuery.restype = ctypes.c_size_t
    if not kernel32.VirtualQuery(address, ctypes.byref(information), ctypes.sizeof(information)):
        return False
    return int(information.state) == 0x1000  # MEM_COMMIT
