"""One large range of virtual addresses that holds all simulated device memory.

A GPU translates a kernel's addresses through its own page tables. Here an address of device memory is an address of
this process, inside a range that is reserved once and gets physical pages only where it is touched. Its *shadow*, as in
AddressSanitizer, says for every granule of 256 bytes how many of them are addressable; compiled kernels look there
before an access whose allocation they do not know. Bytes outside live allocations are poisoned.

What a learner would notice: pointers look like host pointers (``0x7e…``), and the first pass over new memory is slower
than the second, because the operating system hands out zeroed pages on first touch.
"""

from __future__ import annotations

import ctypes
import gc
import mmap
import sys
import weakref
from typing import Any, ClassVar

import numpy as np

from cudalab.sim.abi import GRANULE
from cudalab.sim.machine.memory.repeated_pages import HUGE_PAGE as HUGE_PAGE
from cudalab.sim.machine.memory.repeated_pages import RepeatedPages

TARGET = 1 << 40
SMALLEST = 1 << 30
PAGE = 4096
_STEP = 64 << 20  # the extent grows in steps, so that a shadow page is committed once
_FEW_ARENAS = 16
_NORESERVE = 0x4000 if sys.platform == "linux" else 0x40
_NO_REPLACE = 0x100000


class Arena:
    """Reserved addresses ``base … base + size`` with their shadow.

    Attributes:
        base: first address, aligned to 2 MiB.
        size: bytes reserved: 1 TiB, or the largest power of two that the system grants.
        extent: bytes from ``base`` that have ever been handed out; nothing beyond is accessible.
        bytes: the whole range as a NumPy ``uint8`` array; slices of it keep the range mapped.
        shadow: ``uint16`` per 256-byte granule, how many of its bytes are addressable.
    """

    _next_place: ClassVar[int] = 0
    """Where the next arena is to lie; 0: wherever the system puts it."""
    _live: ClassVar[weakref.WeakSet[Arena]] = weakref.WeakSet()
    _collect_at: ClassVar[int] = _FEW_ARENAS

    def __init__(self, size: int = TARGET) -> None:
        self._free_unreachable()
        self.size, raw = self._placed(size) or _reserve_largest(size)
        start = address_of(raw)
        self.base = -(-start // HUGE_PAGE) * HUGE_PAGE
        self._skew = self.base - start
        self._raw = raw
        self.bytes = raw[self._skew : self._skew + self.size]
        owner: Any = raw
        while isinstance(owner, (np.ndarray, memoryview)):
            owner = owner.base if isinstance(owner, np.ndarray) else owner.obj
        self._mapping = owner
        self._raw_shadow = reserve(self.size // GRANULE * 2)
        self.shadow = self._raw_shadow.view(np.uint16)
        self.extent = 0
        self._repeated = RepeatedPages(self.base)
        Arena._live.add(self)

    @classmethod
    def place_at(cls, address: int) -> None:
        """Let the arenas that this process makes from now on lie at ``address`` and behind it, so that a program meets
        the same addresses each time. One whose place is taken lies anywhere."""
        cls._next_place = address

    @classmethod
    def _placed(cls, size: int) -> tuple[int, np.ndarray] | None:
        if not cls._next_place:
            return None
        place, cls._next_place = cls._next_place, cls._next_place + size + HUGE_PAGE
        try:
            return size, np.asarray(_MappedAt(place, size + HUGE_PAGE))
        except OSError:
            return None

    @staticmethod
    def _free_unreachable() -> None:
        """Run the garbage collector when there are many arenas. Devices that are no longer used lie in reference
        cycles; they look small to the collector, and each holds 1 of the 128 TiB of addresses that a process has."""
        if len(Arena._live) >= Arena._collect_at:
            gc.collect()
            Arena._collect_at = max(_FEW_ARENAS, min(2 * len(Arena._live), len(Arena._live) + _FEW_ARENAS))

    def extend(self, end: int) -> None:
        """Make the first `end` bytes addressable (their shadow readable)."""
        if end <= self.extent:
            return
        new = min(self.size, -(-end // _STEP) * _STEP)
        if sys.platform == "win32":
            first, last = self.extent // GRANULE * 2, new // GRANULE * 2
            commit(address_of(self._raw_shadow) + first, last - first)
        self.extent = new

    def commit(self, offset: int, size: int) -> None:
        """Prepare `size` bytes at `offset` for use. Large ranges, which begin at a huge page, get huge pages: they make
        the first touch cheap. The last one is for ranges alone that have three quarters of it."""
        if sys.platform == "win32":
            commit(self.base + offset, size)
            return
        first, last = offset // HUGE_PAGE * HUGE_PAGE, (offset + size + HUGE_PAGE // 4) // HUGE_PAGE * HUGE_PAGE
        if size >= HUGE_PAGE // 4 and last > first and hasattr(mmap, "MADV_HUGEPAGE"):
            self._advise(mmap.MADV_HUGEPAGE, first, last - first)

    def discard(self, offset: int, size: int) -> None:
        """Give the physical pages of a freed range back. The addresses stay mapped and read as zeros."""
        first, last = offset // PAGE * PAGE, -(-(offset + size) // PAGE) * PAGE
        if sys.platform == "win32":
            # Committed pages stay: a NumPy view of freed memory must not end the process.
            self.bytes[first:last] = 0
        elif hasattr(mmap, "MADV_DONTNEED"):
            self._discard(first, last - first)

    def clear(self, offset: int, size: int) -> None:
        """Write zeros. Huge pages that are cleared whole are given back instead, and come anew where they are next
        written: so large arrays of zeros take no memory until something else is in them."""
        first, last = -(-offset // HUGE_PAGE) * HUGE_PAGE, (offset + size) // HUGE_PAGE * HUGE_PAGE
        if sys.platform != "linux" or first >= last:  # elsewhere the advice need not bring zeros
            self.bytes[offset : offset + size] = 0
            return
        self.bytes[offset:first] = 0
        self.bytes[last : offset + size] = 0
        if not self._discard(first, last - first):  # locked pages, for example
            self.bytes[first:last] = 0

    def fill(self, offset: int, size: int, element: np.ndarray, *, repeated: bool = True) -> None:
        """Write the bytes of ``element``, one number, over and over; ``size`` is a multiple of its length. With
        ``repeated`` large ranges take no memory until something else is written (``repeated_pages``)."""
        data = element.tobytes()
        if not any(data):
            self.clear(offset, size)
            return
        first, last = self._repeated.fill(offset, size, data) if repeated else (offset, offset)
        for start, end in ((offset, first), (last, offset + size)):
            self.bytes[start:end].view(element.dtype)[...] = element

    def give_back_zeros(self, offset: int, size: int) -> int:
        """Give back the memory of huge pages of the range in which nothing but zeros has been stored, and return how
        many bytes that are. Nothing may be stored there meanwhile. Linux only."""
        first, last = -(-offset // HUGE_PAGE) * HUGE_PAGE, (offset + size) // HUGE_PAGE * HUGE_PAGE
        if sys.platform != "linux" or first >= last:
            return 0
        present = np.zeros((last - first) // PAGE, np.uint8)
        ask = ctypes.CDLL(None).mincore
        if ask(ctypes.c_void_p(self.base + first), ctypes.c_size_t(last - first), ctypes.c_void_p(address_of(present))):
            return 0
        taken = np.flatnonzero(present.reshape(-1, HUGE_PAGE // PAGE).any(axis=1)) * HUGE_PAGE + first
        given = 0
        for page in taken.tolist():
            words = self.bytes[page : page + HUGE_PAGE].view(np.uint64)
            alike = not (words[0] or words[-1] or words[words.size // 2] or words.any())
            if alike and self._discard(page, HUGE_PAGE):
                given += HUGE_PAGE
        return given

    def unpoison(self, offset: int, size: int) -> None:
        """Make the bytes of an allocation addressable."""
        first, full = offset // GRANULE, size // GRANULE
        self.shadow[first : first + full] = GRANULE
        if size % GRANULE:
            self.shadow[first + full] = size % GRANULE

    def poison(self, offset: int, size: int) -> None:
        """Make the bytes of an allocation inaccessible."""
        first = offset // GRANULE
        self.shadow[first : first + -(-size // GRANULE)] = 0

    @property
    def shadow_address(self) -> int:
        return address_of(self._raw_shadow)

    def _discard(self, offset: int, size: int) -> bool:
        """Give pages back, and have them read as zeros; False where the system does not."""
        self._repeated.release(offset, size, self.bytes)
        return self._advise(mmap.MADV_DONTNEED, offset, size)

    def _advise(self, option: int, offset: int, size: int) -> bool:
        size = min(size, self.size - offset)
        try:
            self._mapping.madvise(option, self._skew + offset, size)
        except OSError:
            return False  # advice only: without it memory is slower to touch, or returned later
        return True


def address_of(array: np.ndarray) -> int:
    """Where an array's bytes begin."""
    return int(array.__array_interface__["data"][0])


def _reserve_largest(size: int) -> tuple[int, np.ndarray]:
    """Reserve `size` bytes, or half, a quarter … as the system allows; 2 MiB more for alignment."""
    while True:
        try:
            return size, reserve(size + HUGE_PAGE)
        except (OSError, MemoryError, ValueError, OverflowError):
            if size <= SMALLEST:
                raise MemoryError(
                    f"could not reserve {SMALLEST >> 30} GiB of virtual addresses for the simulated device's memory; "
                    "raise the limit on address space (ulimit -v) or the container's limit"
                ) from None
            size //= 2


def reserve(size: int) -> np.ndarray:
    """Addresses that read as zeros and take memory only where they are written; on Windows :func:`commit` them first.

    Raises:
        OSError: the system has none left.
    """
    if sys.platform == "win32":
        return _reserve_windows(size)
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NORESERVE
    return np.frombuffer(mmap.mmap(-1, size, flags=flags), dtype=np.uint8)


class _MappedAt:
    """Reserved addresses of the program's choice, which ``mmap.mmap`` does not offer. Linux only.

    Raises:
        OSError: something lies there, or the system has no such call.
    """

    def __init__(self, address: int, size: int) -> None:
        if sys.platform != "linux":
            raise OSError("not on this system")
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._libc.mmap.restype = ctypes.c_void_p
        self._libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
        self._libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
        self._libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
        self._address, self._size = address, 0
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NORESERVE | _NO_REPLACE
        found = self._libc.mmap(address, size, mmap.PROT_READ | mmap.PROT_WRITE, flags, -1, 0)
        if found != address:
            raise OSError(ctypes.get_errno(), f"{size} bytes at {address:#x} cannot be reserved")
        self._size = size
        self.__array_interface__ = {"shape": (size,), "typestr": "|u1", "data": (address, False), "version": 3}

    def madvise(self, option: int, start: int, size: int) -> None:
        """As the method of ``mmap.mmap``."""
        if self._libc.madvise(self._address + start, size, option):
            raise OSError(ctypes.get_errno(), "madvise")

    def __del__(self) -> None:
        if self._size:
            self._libc.munmap(self._address, self._size)


_MEM_COMMIT, _MEM_RESERVE, _MEM_RELEASE = 0x1000, 0x2000, 0x8000
_PAGE_NOACCESS, _PAGE_READWRITE = 0x01, 0x04


def _reserve_windows(size: int) -> np.ndarray:
    kernel32 = _kernel32()
    address = kernel32.VirtualAlloc(None, size, _MEM_RESERVE, _PAGE_NOACCESS)
    if not address:
        raise OSError("VirtualAlloc")
    region_type: Any = type("Region", (ctypes.c_uint8 * size,), {})
    region = region_type.from_address(address)
    weakref.finalize(region, kernel32.VirtualFree, address, 0, _MEM_RELEASE).atexit = False
    return np.frombuffer(memoryview(region), dtype=np.uint8)


def commit(address: int, size: int) -> None:
    """Make reserved addresses usable (Windows)."""
    if size and not _kernel32().VirtualAlloc(address, size, _MEM_COMMIT, _PAGE_READWRITE):
        raise MemoryError("the system refused to commit memory")


def _kernel32() -> ctypes.CDLL:
    kernel32: ctypes.CDLL = ctypes.WinDLL("kernel32")  # type: ignore[attr-defined,unused-ignore]
    kernel32.VirtualAlloc.restype = ctypes.c_void_p
    kernel32.VirtualAlloc.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint32, ctypes.c_uint32]
    kernel32.VirtualFree.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint32]
    return kernel32
