"""Loads that a trace shows to be wrong whatever their order: of read-only data that the kernel writes, and of another
thread's local addresses.

``__ldg`` and loads of ``const … __restrict__`` parameters go through the read-only data cache, which is not kept
coherent: the data must not be written while the kernel runs (CUDA C++ Programming Guide, "Read-Only Data Cache Load
Function"; PTX ISA, ``ld.global.nc``). A thread that reads an element, and then writes it itself as the only one, gets
what it expects, and is let pass.

The generic address of a local variable means the reader's own local memory in every thread. One that was stored to
shared or device memory and is loaded by another thread points to something else there.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from cudalab.sim.abi import LOCAL_WINDOW, SHARED_WINDOW, WINDOW_SIZE, SiteKind, Space
from cudalab.sim.compiler.program import Kernel

_GLOBAL = LOCAL_WINDOW + WINDOW_SIZE
_UNIT = 4
_ACCESS = np.dtype([(name, "<i8") for name in ("unit", "agent", "site", "when")])


@dataclass(frozen=True)
class Misread:
    """A load, and the store that makes it wrong."""

    site: int
    block: int
    thread: int
    address: int
    store: int
    """Site of the store."""
    store_block: int
    store_thread: int
    count: int


class ReadOnlyLoads:
    """Finds read-only loads of what the launch writes."""

    def __init__(self, kernel: Kernel, threads: int) -> None:
        self._threads = threads
        sites = kernel.sites
        self._loads = np.array([s.semantics.read_only for s in sites] or [False])
        self._stores = np.array(
            [s.kind in (SiteKind.STORE, SiteKind.ATOMIC) and s.space in (Space.GLOBAL, Space.GENERIC) for s in sites]
            or [False]
        )
        self._size = np.array([max(1, s.size) for s in sites] or [1], np.int64)
        self._parts: list[tuple[np.ndarray, np.ndarray]] = []
        self._before = 0

    @property
    def wanted(self) -> bool:
        return bool(self._loads.any() and self._stores.any())

    def add(self, block: int, records: np.ndarray) -> None:
        """The next records of a block."""
        site = records["site"]
        device = (records["flags"] & 15 == 0) & (records["address"] >= _GLOBAL)
        loads, stores = (np.flatnonzero(device & which[site]) for which in (self._loads, self._stores))
        self._parts.append((self._units(block, records, loads), self._units(block, records, stores)))
        self._before += len(records)

    def find(self) -> list[Misread]:
        """One for each load instruction."""
        if not self._parts:
            return []
        loads, stores = (np.concatenate(parts) for parts in zip(*self._parts, strict=True))
        stores = stores[np.isin(stores["unit"], loads["unit"])]
        loads = loads[np.isin(loads["unit"], stores["unit"])]
        if not len(loads):
            return []
        first = stores[np.unique(stores["unit"], return_index=True)[1]]
        writer = {int(row["unit"]): row for row in first}
        agents: dict[int, set[int]] = {}
        for row in (*loads, *stores):
            agents.setdefault(int(row["unit"]), set()).add(int(row["agent"]))
        found: dict[int, list[Misread]] = {}
        for row in loads:
            unit = int(row["unit"])
            store = writer[unit]
            if len(agents[unit]) == 1 and row["when"] < store["when"]:
                continue
            found.setdefault(int(row["site"]), []).append(
                Misread(
                    int(row["site"]),
                    *divmod(int(row["agent"]), self._threads),
                    unit * _UNIT,
                    int(store["site"]),
                    *divmod(int(store["agent"]), self._threads),
                    1,
                )
            )
        return [_first(each) for each in found.values()]

    def _units(self, block: int, records: np.ndarray, chosen: np.ndarray) -> np.ndarray:
        """Some accesses, cut into units of memory."""
        pieces = -(-self._size[records["site"][chosen]] // _UNIT)
        row = np.repeat(chosen, pieces)
        found = np.empty(len(row), _ACCESS)
        inside = np.arange(len(row)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
        found["unit"] = records["address"][row].astype(np.int64) // _UNIT + inside
        found["agent"] = block * self._threads + records["thread"][row].astype(np.int64)
        found["site"] = records["site"][row]
        found["when"] = self._before + row
        return found


class EscapedLocals:
    """Finds loads of addresses of local variables that another thread has stored."""

    def __init__(self, kernel: Kernel) -> None:
        self._stores_local = np.array([s.stores_local for s in kernel.sites] or [False])
        self._is_store = np.array([s.kind in (SiteKind.STORE, SiteKind.ATOMIC) for s in kernel.sites] or [False])
        self._is_load = np.array([s.kind is SiteKind.LOAD and s.size >= 8 for s in kernel.sites] or [False])
        self._held: dict[tuple[int, int], tuple[int, int, int]] = {}
        """Place (block, or -1 of device memory; address) to the store: block, thread, site."""
        self._found: dict[int, list[Misread]] = {}

    @property
    def wanted(self) -> bool:
        return bool(self._stores_local.any())

    def add(self, block: int, records: np.ndarray) -> None:
        """The next records of a block."""
        site = records["site"]
        escapes = self._stores_local[site]
        places = {address for _, address in self._held} | set(records["address"][escapes].tolist())
        if not places:
            return
        near = np.isin(records["address"], np.array(sorted(places), np.uint64)) & (records["flags"] & 15 == 0)
        for row in records[near & (self._is_store | self._is_load)[site]]:
            number, thread, address = int(row["site"]), int(row["thread"]), int(row["address"])
            shared = SHARED_WINDOW <= address < SHARED_WINDOW + WINDOW_SIZE
            place = (block if shared else -1, address)
            if self._stores_local[number]:
                self._held[place] = (block, thread, number)
            elif self._is_store[number]:
                self._held.pop(place, None)
            elif place in self._held and self._held[place][:2] != (block, thread):
                owner_block, owner, store = self._held[place]
                misread = Misread(number, block, thread, address, store, owner_block, owner, 1)
                self._found.setdefault(number, []).append(misread)

    def find(self) -> list[Misread]:
        """One for each load instruction."""
        return [_first(each) for each in self._found.values()]


def _first(found: list[Misread]) -> Misread:
    return replace(found[0], count=len(found))
