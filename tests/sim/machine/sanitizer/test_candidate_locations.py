"""What need not be followed by vector clocks: the same conflicts are found without it."""

from __future__ import annotations

import numpy as np
import pytest

from cudalab.sim.abi import SHARED_WINDOW, SiteKind, Space, SyncEvent
from cudalab.sim.machine.memory.allocations import Memory
from cudalab.sim.machine.sanitizer.happens_before.candidate_locations import candidate_locations
from cudalab.sim.machine.sanitizer.happens_before.detector import VectorClockDetector
from cudalab.sim.machine.trace.batch import timed
from cudalab.sim.machine.trace.elided_records import RECORD
from tests.sim.machine.handmade import make, site

THREADS = 4
GLOBAL = 0x10_0000_0000
SITES = [
    site(SiteKind.LOAD, Space.SHARED, line=1, opcode="ld.shared.u32"),
    site(SiteKind.STORE, Space.SHARED, line=2, opcode="st.shared.u32"),
    site(SiteKind.LOAD, line=3, opcode="ld.global.u32"),
    site(SiteKind.STORE, line=4, opcode="st.global.u32"),
    site(SiteKind.LOAD, line=5, opcode="ld.volatile.global.u32"),
    site(SiteKind.STORE, line=6, opcode="st.volatile.global.u32"),
    site(SiteKind.ATOMIC, line=7, opcode="atom.global.add.u32"),
    site(SiteKind.FENCE, line=8, opcode="membar.gl"),
    site(SiteKind.BARRIER, line=9, opcode="bar.sync"),
    site(SiteKind.SYNC, line=10, opcode="cp.async.ca.shared.global"),
]
BARRIER, COPY = len(SITES) - 2, len(SITES) - 1


def slices(seed: int) -> list[tuple[int, list[tuple[int, int, int]]]]:
    """Blocks that run side by side: a block, and (thread, site, address) of what it did in one go. In every third trace
    some threads leave before the last barrier."""
    random = np.random.default_rng(seed)
    own: list[list[tuple[int, int, int]]] = []
    for _ in range(3):
        records, present = [], list(range(THREADS))
        for epoch in range(3):
            for _ in range(12):
                thread, kind = int(random.choice(present)), int(random.integers(0, BARRIER))
                address = (SHARED_WINDOW if kind < 2 else GLOBAL) + 4 * int(random.integers(0, 10))
                records += [(thread, kind, 0 if kind == BARRIER - 1 else address)] * int(random.integers(1, 3))
            if seed % 3 == 0 and epoch == 0:
                present.remove(int(random.choice(present)))
            if epoch < 2:
                records += [(int(thread), BARRIER, 0) for thread in random.permutation(present)]
        own.append(records)
    parts = []
    while any(own):
        block, length = int(random.integers(0, len(own))), int(random.integers(1, 25))
        parts.append((block, own[block][:length]))
        own[block] = own[block][length:]
    return [part for part in parts if part[1]]


def trace(parts: list[tuple[int, list[tuple[int, int, int]]]]) -> list[tuple[int, np.ndarray]]:
    steps: dict[int, np.ndarray] = {}
    out = []
    for block, records in parts:
        raw = np.zeros(len(records), RECORD)
        raw["thread"], raw["site"], raw["address"] = (list(column) for column in zip(*records, strict=True))
        before = steps.setdefault(block, np.zeros(THREADS, np.int64))
        out.append((block, timed(raw, np.ones(len(raw), np.bool_), before)))
    return out


@pytest.fixture(scope="module")
def kernel():
    return make(lambda block: None, sites=SITES, memory=Memory(1 << 28)).kernel


@pytest.mark.parametrize("seed", range(30))
def test_the_same_conflicts_are_found(seed: int, kernel) -> None:
    parts = trace(slices(seed))
    candidates = candidate_locations(parts, kernel, THREADS, 4)
    assert candidates is not None
    found = []
    for chosen in (None, candidates):
        detector = VectorClockDetector(kernel, THREADS, unit=4)
        for block, records in parts:
            detector.follow(block, records, chosen[block] if chosen is not None else None)
        found.append(sorted((c.address, c.first_site, c.second_site, c.first, c.second) for c in detector.conflicts))
    assert found[0] == found[1]
    assert found[0]


def test_barriers_private_places_and_atomics_leave_nothing(kernel) -> None:
    """Threads of two blocks: each its own words, then behind a barrier its neighbour's; and all add to one number."""
    parts = []
    for block in range(2):
        records = [(t, 1, SHARED_WINDOW + 4 * t) for t in range(THREADS)]
        records += [(t, BARRIER, 0) for t in range(THREADS)]
        records += [(t, 0, SHARED_WINDOW + 4 * (t ^ 1)) for t in range(THREADS)]
        records += [(t, 3, GLOBAL + 4 * (THREADS * block + t)) for t in range(THREADS)]
        records += [(t, 6, GLOBAL + 4096) for t in range(THREADS)]
        parts.append((block, records))
    candidates = candidate_locations(trace(parts), kernel, THREADS, 4)
    assert candidates is not None
    assert [len(candidates[block].conflicting) for block in range(2)] == [0, 0]
    assert [candidates[block].shared.tolist() for block in range(2)] == [
        [SHARED_WINDOW + 4 * t for t in range(THREADS)] + [GLOBAL + 4096]
    ] * 2


def test_a_missing_barrier_leaves_the_words_it_was_for(kernel) -> None:
    records = [(t, 1, SHARED_WINDOW + 4 * t) for t in range(THREADS)] + [(2, 0, SHARED_WINDOW + 12)]
    candidates = candidate_locations(trace([(5, records)]), kernel, THREADS, 4)
    assert candidates is not None
    assert candidates[5].conflicting.tolist() == [SHARED_WINDOW + 12]


def test_a_thread_that_comes_late_to_a_barrier_is_not_taken_for_one_at_the_next(kernel) -> None:
    """Between the last thread's two arrivals lie those of the others at the second barrier."""
    word = SHARED_WINDOW
    records = [(0, BARRIER, 0), (1, BARRIER, 0), (2, BARRIER, 0), (3, 1, word + 4), (3, BARRIER, 0)]
    records += [(t, BARRIER, 0) for t in range(3)]
    records += [(3, 0, word), (3, BARRIER, 0), (0, 1, word)]
    detector = VectorClockDetector(kernel, THREADS, unit=4)
    detector.follow(*trace([(0, records)])[0])
    assert detector.conflicts == []


def copies(seed: int) -> np.ndarray:
    """One block whose threads copy words of shared memory asynchronously, wait for some of their groups, pass barriers,
    and read and write words; numbers of groups pass 4096."""
    random = np.random.default_rng(seed)
    rows: list[tuple[int, int, int, int]] = []
    group = [4090] * THREADS
    for _ in range(8):
        for thread in random.permutation(THREADS).tolist():
            for _ in range(int(random.integers(0, 3))):
                word = int(random.integers(0, 12))
                number = (group[thread] & 0xFFF) << 4
                rows.append((thread, COPY, GLOBAL + 4 * word, number | SyncEvent.ASYNC_READ))
                rows.append((thread, COPY, SHARED_WINDOW + 4 * word, number | SyncEvent.ASYNC_WRITE))
            group[thread] += 1
            if random.random() < 0.6:
                waited = group[thread] - 1 - int(random.integers(0, 2))
                rows.append((thread, COPY, 0, (waited & 0xFFF) << 4 | SyncEvent.ASYNC_WAIT))
            if random.random() < 0.5:
                kind, word = int(random.choice([0, 0, 0, 1, 2])), int(random.integers(0, 12))
                rows.append((thread, kind, (GLOBAL if kind == 2 else SHARED_WINDOW) + 4 * word, 0))
        rows += [(thread, BARRIER, 0, 0) for thread in range(THREADS)]
    raw = np.zeros(len(rows), RECORD)
    for name, column in zip(("thread", "site", "address", "flags"), zip(*rows, strict=True), strict=True):
        raw[name] = column
    return timed(raw, np.ones(len(raw), np.bool_), np.zeros(THREADS, np.int64))


def conflicts_of(kernel, records: np.ndarray, candidates: object) -> list[tuple[object, ...]]:
    detector = VectorClockDetector(kernel, THREADS, unit=4)
    assert detector.follow(0, records, candidates)
    return sorted((c.address, c.first_site, c.second_site, c.first, c.second) for c in detector.conflicts)


def test_the_same_conflicts_of_copies_are_found(kernel) -> None:
    followed = found = 0
    for seed in range(60):
        records = copies(seed)
        candidates = candidate_locations([(0, records)], kernel, THREADS, 4)
        assert candidates is not None
        conflicts = conflicts_of(kernel, records, candidates[0])
        assert conflicts == conflicts_of(kernel, records, None)
        followed, found = followed + len(candidates[0].conflicting), found + len(conflicts)
    assert 0 < found
    assert followed < 60 * 12 * 2


def test_copies_that_are_waited_for_before_a_barrier_leave_nothing(kernel) -> None:
    rows = []
    for tile in range(4):
        for thread in range(THREADS):
            rows += [(thread, COPY, GLOBAL + 4 * thread, tile << 4 | SyncEvent.ASYNC_READ)]
            rows += [(thread, COPY, SHARED_WINDOW + 4 * thread, tile << 4 | SyncEvent.ASYNC_WRITE)]
            rows += [(thread, COPY, 0, tile << 4 | SyncEvent.ASYNC_WAIT)]
        rows += [(thread, BARRIER, 0, 0) for thread in range(THREADS)]
        rows += [(thread, 0, SHARED_WINDOW + 4 * (thread ^ 1), 0) for thread in range(THREADS)]
        rows += [(thread, BARRIER, 0, 0) for thread in range(THREADS)]
    raw = np.zeros(len(rows), RECORD)
    for name, column in zip(("thread", "site", "address", "flags"), zip(*rows, strict=True), strict=True):
        raw[name] = column
    records = timed(raw, np.ones(len(raw), np.bool_), np.zeros(THREADS, np.int64))
    candidates = candidate_locations([(0, records)], kernel, THREADS, 4)
    assert candidates is not None
    assert candidates[0].conflicting.tolist() == []


def test_following_ends_at_the_deadline(kernel) -> None:
    detector = VectorClockDetector(kernel, THREADS, unit=4)
    assert not detector.follow(0, copies(0), deadline=0.0)
