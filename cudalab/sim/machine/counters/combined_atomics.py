"""Atomic operations that are done once for all lanes of a warp that name the same word.

Where the lanes of a warp add to one address, the assembler lets one of them do so for all: a vote finds the active
lanes, their number or the sum of their values (``POPC``, ``REDUX``) is what the leader adds, and the others work out
their results from the leader's. The memory sees one operation of the warp. The machine code tells: what it made of the
atomic instruction holds a vote and a guarded atomic operation.

On shared memory the hardware itself combines the additions of one whose results nobody uses (``ATOMS.POPC.INC``), as a
histogram has them: a warp whose lanes all count the same colour needs one turn, where other operations need 32.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cudalab.sim.abi import SiteKind
from cudalab.sim.compiler.machine_code.assembly import Assembly
from cudalab.sim.compiler.program import Site
from cudalab.sim.machine.trace.requests import Visits

_VOTES = frozenset(("VOTE", "VOTEU", "MATCH"))
_ATOMICS = frozenset(("ATOM", "ATOMG", "ATOMS", "REDG"))


def combined_atomics(sites: Sequence[Site], code: Assembly) -> np.ndarray:
    """bool[sites]: which of them a warp does once for all lanes that share an address."""
    found = np.zeros(len(sites), np.bool_)
    for index, site in enumerate(sites):
        if site.kind == SiteKind.ATOMIC:
            made = code.of_line.get(site.ptx_line, ())
            votes = any(each.name in _VOTES for each in made)
            by_leader = votes and any(each.guarded and each.name in _ATOMICS for each in made)
            found[index] = by_leader or any(each.counts_lanes for each in made)
    return found


def without_followers(found: Visits, combined: np.ndarray) -> np.ndarray:
    """bool[records]: False for those of lanes that leave a combined operation to another lane."""
    kept = np.ones(len(found.site), np.bool_)
    rows = np.flatnonzero(combined[found.site])
    order = rows[np.lexsort((found.address[rows], found.request[rows]))]
    request, address = found.request[order], found.address[order]
    kept[order[1:]] = (request[1:] != request[:-1]) | (address[1:] != address[:-1])
    return kept
