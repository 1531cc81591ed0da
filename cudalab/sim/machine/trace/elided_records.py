"""Elided records: those that ``traced`` code does not write, because another record implies them.

An access at a constant distance from another one of its basic block has no record of its own, nor has a basic block
that begins with an access (``compiler/codegen/tracing.py``): ``Site.behind`` names the site whose record implies it. A
block of a tiled matrix product writes a quarter of its records that way. The counters need all of them, so they are
restored here. Records of one thread stay in program order, except that accesses of one basic block may be reordered.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from cudalab.sim.abi import Record, SiteKind
from cudalab.sim.compiler.program import Site

if TYPE_CHECKING:
    from cudalab.sim.machine.launch.module import LoadedKernel

RECORD = np.dtype([("address", "<u8"), ("site", "<u4"), ("thread", "<u2"), ("flags", "<u2")])
assert RECORD.itemsize == ctypes.sizeof(Record)


class ElidedRecords:
    """The records that each written record of a kernel implies.

    Attributes:
        counts: int64[sites]: how many records a record of this site implies, itself included.
    """

    def __init__(self, sites: Sequence[Site]) -> None:
        members: list[list[int]] = [[index] if site.behind < 0 else [] for index, site in enumerate(sites)]
        for index, site in enumerate(sites):
            if site.behind >= 0 and site.kind != SiteKind.BLOCK:
                members[site.behind].append(index)
        for index, site in enumerate(sites):
            if site.behind >= 0 and site.kind == SiteKind.BLOCK:  # one has entered the block before
                members[site.behind].insert(0, index)
        flat = [index for part in members for index in part]
        self.counts = np.array([len(part) for part in members], np.int64)
        self._first = np.cumsum(self.counts) - self.counts
        self._site = np.array(flat, np.uint32)
        self._distance = np.array([sites[index].distance for index in flat], np.int64).astype(np.uint64)
        self._has_address = np.array([sites[index].kind != SiteKind.BLOCK for index in flat], np.uint64)
        self.is_needed = bool((self.counts > 1).any())

    def restored_length(self, records: np.ndarray) -> int:
        """How many records there are once the elided ones are restored."""
        return int(self.counts[records["site"]].sum()) if self.is_needed else len(records)

    def restore(self, records: np.ndarray, most: int | None = None) -> np.ndarray:
        """All records; with ``most``, the first of them, not many more than so many."""
        if not self.is_needed or not len(records):
            return records[:most]
        counts = self.counts[records["site"]]
        if most is not None:
            ends = np.cumsum(counts)
            records = records[: int(np.searchsorted(ends, most, "right"))]
            counts = counts[: len(records)]
        starts = np.cumsum(counts) - counts
        out = np.repeat(records, counts)
        member = np.repeat(self._first[records["site"]] - starts, counts) + np.arange(len(out))
        out["address"] = out["address"] * self._has_address[member] + self._distance[member]
        out["site"] = self._site[member]
        return out


_known: weakref.WeakKeyDictionary[LoadedKernel, ElidedRecords] = weakref.WeakKeyDictionary()


def elided_records_of(kernel: LoadedKernel) -> ElidedRecords:
    """The records that each written record of a kernel implies."""
    found = _known.get(kernel)
    if found is None:
        found = _known[kernel] = ElidedRecords(kernel.kernel.sites)
    return found
