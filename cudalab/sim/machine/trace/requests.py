"""Reconstruction of a warp's requests from the accesses of single threads.

Hardware executes a load once for a warp: 32 lanes, one *request*. Traced code records each lane by itself. A request
consists of the lanes of a warp that visit a site for the same time: the k-th visit of each lane. Where lanes run a loop
a different number of times, the request has fewer lanes, as on hardware. Where lanes of a warp take different paths
inside a loop, visits are first aligned by each lane's path (``branch_divergence.py``).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from msgspec import Struct

from cudalab.sim.abi import WARP

_MATRIX_ROWS = 1 << 16


class Visits(Struct):
    """Records of one or more blocks, each with the request it belongs to."""

    site: np.ndarray
    """int64[n]"""
    lane: np.ndarray
    """int64[n]: 0 … 31"""
    address: np.ndarray
    """uint64[n]"""
    request: np.ndarray
    """int64[n]: requests are numbered by site, then warp, then visit."""
    request_site: np.ndarray
    """int64[requests]"""
    request_warp: np.ndarray
    """int64[requests]: numbered through all blocks."""

    @property
    def requests(self) -> int:
        return len(self.request_site)


def stable_order(keys: np.ndarray, bound: int) -> np.ndarray:
    """Indices that sort integer `keys` below `bound`, equal ones in their present order.

    NumPy sorts 16-bit keys by counting, several times faster than wider ones; wider keys take one pass for 16 bits.
    Keys are often in order already, as those of threads that ran one after the other.
    """
    if (keys[1:] >= keys[:-1]).all():
        return np.arange(len(keys))
    order = np.argsort((keys & 0xFFFF).astype(np.uint16), kind="stable")
    shift = 16
    while bound >> shift:
        digit = ((keys >> shift) & 0xFFFF).astype(np.uint16)
        order = order[np.argsort(digit[order], kind="stable")]
        shift += 16
    return order


def occurrences(keys: np.ndarray, bound: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """How many equal keys come before each one; and each distinct key with its number of times."""
    return _occurrences(keys, stable_order(keys, bound))


def _occurrences(keys: np.ndarray, order: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The same for an order that puts equal keys together."""
    count = len(keys)
    if not count:
        empty = np.zeros(0, np.int64)
        return empty, empty, empty
    ordered = keys[order]
    before, first, times = _repetitions(ordered)
    result = np.empty(count, np.int64)
    result[order] = before
    return result, ordered[first], times


def equal_before(ordered: np.ndarray) -> np.ndarray:
    """How many equal keys come before each one, of keys of which equal ones stand together."""
    return _repetitions(ordered)[0]


def _repetitions(ordered: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The same; and where each distinct key begins, and its number of times."""
    first = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
    times = np.diff(np.append(first, len(ordered)))
    return np.arange(len(ordered)) - np.repeat(first, times), first, times


class Passes(Struct):
    """How often each thread has passed each site."""

    number: np.ndarray
    """int64[n]: how many earlier records have the same thread and site."""
    keys: np.ndarray
    """Distinct ``thread * sites + site``."""
    times: np.ndarray
    """How often each of them occurs."""


def by_thread(records: np.ndarray) -> np.ndarray:
    """The records of a block, those of its threads one after the other. At a barrier the threads took turns."""
    thread = records["thread"]
    if (thread[1:] >= thread[:-1]).all():
        return records
    return records[np.argsort(thread, kind="stable")]


def passes(site: np.ndarray, thread: np.ndarray, sites: int) -> Passes:
    """Count the passes of `thread` through `site`; the records of threads come one after the other."""
    return Passes(*_occurrences(thread * sites + site, stable_order(site, sites)))


def visits(
    site: np.ndarray,
    thread: np.ndarray,
    address: np.ndarray,
    sites: int,
    warps: int,
    passed: Passes,
    visit: np.ndarray | None = None,
) -> Visits:
    """Number the requests.

    Args:
        site: index of each record's site.
        thread: each record's thread, numbered through all blocks, each block padded to whole warps.
        address: each record's address.
        sites: number of sites.
        warps: number of warps in all blocks.
        passed: from :func:`passes`.
        visit: which visit of its site each record is; by default the passes of its thread.
    """
    warp = thread // WARP
    place = site * warps + warp
    if visit is None:
        visit = passed.number
        most = np.zeros(sites * warps, np.int64)
        np.maximum.at(most, passed.keys % sites * warps + passed.keys // sites // WARP, passed.times)
    else:
        most = np.zeros(sites * warps, np.int64)
        np.maximum.at(most, place, visit + 1)
    base = np.cumsum(most) - most
    places = np.repeat(np.arange(sites * warps), most)
    return Visits(site, thread % WARP, address, base[place] + visit, places // warps, places % warps)


class KeptRequests(Struct):
    """Some requests of a launch with all their addresses, for pictures."""

    site: np.ndarray
    """int64[r]: index in ``Kernel.sites``."""
    block: np.ndarray
    """int64[r]: linear index in the grid."""
    warp: np.ndarray
    """int64[r]: of its block."""
    visit: np.ndarray
    """int64[r]: how many earlier requests the same warp made at the same site."""
    addresses: np.ndarray
    """uint64[r, 32]"""
    active: np.ndarray
    """bool[r, 32]"""


def keep(found: Visits, chosen: np.ndarray, blocks: np.ndarray, warps_per_block: int, most: int) -> KeptRequests:
    """Keep at most ``most`` requests of the chosen sites, of each warp the first ones at each site.

    Args:
        found: the visits.
        chosen: bool[sites]: which sites.
        blocks: int64[b]: index in the grid of each block, -1 for blocks that are not wanted.
        warps_per_block: warps of each block.
        most: requests.
    """
    block = blocks[found.request_warp // warps_per_block] if len(blocks) else np.zeros(0, np.int64)
    wanted = np.flatnonzero(chosen[found.request_site] & (block >= 0))
    place = found.request_site[wanted] * (int(found.request_warp.max(initial=0)) + 1) + found.request_warp[wanted]
    first = np.concatenate(([True], place[1:] != place[:-1])) if len(place) else np.zeros(0, np.bool_)
    position = np.arange(len(wanted))
    visit = position - np.maximum.accumulate(np.where(first, position, 0))
    if len(wanted) > most:
        early = np.sort(np.argsort(visit, kind="stable")[:most])
        wanted, visit = wanted[early], visit[early]
    row_of = np.full(found.requests, -1, np.int64)
    row_of[wanted] = np.arange(len(wanted))
    row = row_of[found.request]
    inside = row >= 0
    addresses, active = np.zeros((len(wanted), WARP), np.uint64), np.zeros((len(wanted), WARP), np.bool_)
    addresses[row[inside], found.lane[inside]] = found.address[inside]
    active[row[inside], found.lane[inside]] = True
    warp = found.request_warp[wanted] % warps_per_block
    return KeptRequests(found.request_site[wanted], block[wanted], warp, visit, addresses, active)


def matrices(found: Visits, chosen: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Requests of the chosen sites as matrices with a column a lane.

    Args:
        found: the visits.
        chosen: bool[sites]: which sites to take.

    Yields:
        request numbers int64[r], addresses uint64[r, 32], active lanes bool[r, 32]; some thousand requests at a time.
    """
    wanted = np.flatnonzero(chosen[found.request_site])
    if not len(wanted):
        return
    mine = np.flatnonzero(chosen[found.site])
    row_of = np.zeros(found.requests, np.int64)
    row_of[wanted] = np.arange(len(wanted))
    row = row_of[found.request[mine]]
    place, address = row * WARP + found.lane[mine], found.address[mine]
    for start in range(0, len(wanted), _MATRIX_ROWS):
        stop = min(start + _MATRIX_ROWS, len(wanted))
        inside = slice(None) if len(wanted) <= _MATRIX_ROWS else (row >= start) & (row < stop)
        places = place[inside] - start * WARP
        addresses = np.zeros((stop - start) * WARP, np.uint64)
        active = np.zeros((stop - start) * WARP, np.bool_)
        addresses[places] = address[inside]
        active[places] = True
        yield wanted[start:stop], addresses.reshape(-1, WARP), active.reshape(-1, WARP)


def distinct(values: np.ndarray, active: np.ndarray) -> np.ndarray:
    """How many different values each row has among its active columns."""
    filled = _filled(values, active)
    steps = filled[:, 1:] != filled[:, :-1]
    backwards = (filled[:, 1:] < filled[:, :-1]).any(axis=1)
    if backwards.any():
        rows = np.sort(filled[backwards], axis=1)
        steps[backwards] = rows[:, 1:] != rows[:, :-1]
    return np.where(active.any(axis=1), steps.sum(axis=1) + 1, 0)


def _filled(values: np.ndarray, active: np.ndarray) -> np.ndarray:
    """Inactive columns repeat an active column of their row, so that they add no value of their own."""
    if active.all():
        return values
    columns = np.where(active, np.arange(values.shape[1]), -1)
    last = np.maximum.accumulate(columns, axis=1)
    first = np.argmax(active, axis=1)
    return np.take_along_axis(values, np.where(last >= 0, last, first[:, None]), axis=1)
