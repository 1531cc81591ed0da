"""Records of a trace that change no vector clock, or that one record stands for.

The detector takes a step of Python for each record. A thread that polls a flag makes thousands of equal reads, and a
barrier of the whole block makes one arrival a thread; array operations find both before.
"""

from __future__ import annotations

import numpy as np

from cudalab.sim.arrays import unique_values
from cudalab.sim.machine.trace.batch import whole_block


def idempotent(records: np.ndarray, sites: np.ndarray) -> np.ndarray:
    """Indices of records that the same thread repeats at once, from one of these ``sites``: of the reads of a thread
    that polls a flag the last one counts, and of fences with nothing in between, too."""
    order = np.argsort(records["thread"], kind="stable")
    own = records[order]
    same = np.ones(max(0, len(own) - 1), np.bool_)
    for name in ("thread", "site", "address", "flags"):
        same &= own[name][1:] == own[name][:-1]
    found: np.ndarray = order[:-1][same & sites[own["site"][:-1]]]
    return found


def whole_barriers(
    records: np.ndarray, chosen: np.ndarray, is_barrier: np.ndarray, arrivals: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Let one record stand for a whole barrier where all threads of the block arrive one directly after the other.

    Args:
        records: the chosen records.
        chosen: their indices in the trace.
        is_barrier: which sites are barriers.
        arrivals: by thread, how often it has arrived at the barrier of the whole block; counted on here.

    Returns:
        What is left of ``chosen``, and which of them stand for all threads.
    """
    whole = np.zeros(len(chosen), np.bool_)
    threads = len(arrivals)
    regular = is_barrier[records["site"]] & (records["flags"] == 0) & whole_block(records["address"], threads)
    at = np.flatnonzero(regular)
    thread = records["thread"][at].astype(np.int64)
    before = arrivals.copy()
    arrivals += np.bincount(thread, minlength=threads)
    if threads == 1 or len(at) < threads:
        return chosen, whole
    # The run of a barrier's arrivals may begin in the middle of one and end in the middle of the next.
    number = np.zeros(len(chosen), np.int64)
    order = np.argsort(thread, kind="stable")
    starts = np.searchsorted(thread[order], np.arange(threads))
    number[at[order]] = np.arange(len(at)) - starts[thread[order]] + before[thread[order]]
    keep = np.ones(len(chosen), np.bool_)
    edges = np.flatnonzero(np.diff(np.concatenate(([0], regular.view(np.int8), [0]))))
    for begin, end in edges.reshape(-1, 2).tolist():
        for first in range(begin, end - threads + 1, threads):
            run = slice(first, first + threads)
            if len(unique_values(records["thread"][run])) != threads or np.ptp(number[run]):
                break
            whole[first] = True
            keep[first + 1 : first + threads] = False
    return chosen[keep], whole[keep]
