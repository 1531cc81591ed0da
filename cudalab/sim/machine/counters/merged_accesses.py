"""Shared memory accesses that the assembler has merged.

The assembler may merge PTX loads of four bytes each from ``[r]``, ``[r+4]``, ``[r+8]`` and ``[r+12]`` into one machine
instruction of 16 bytes where it can prove the alignment, even if one of the four is not needed. The hardware then has
one request instead of four, and serves it by the rules for wide accesses. The machine code tells which loads were
merged: a wide load names the PTX line of a narrow one. The other members of the group are its neighbours through the
same register in the same basic block; the address tells where the group begins, because a wide access is aligned to its
width.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from msgspec import Struct, field

from cudalab.sim.abi import SiteKind, Space
from cudalab.sim.compiler.machine_code.assembly import Assembly
from cudalab.sim.compiler.machine_code.listing import Listed
from cudalab.sim.compiler.program import Site

_NAMES = {SiteKind.LOAD: ("LDS", "LD"), SiteKind.STORE: ("STS", "ST")}


class Merge(Struct, frozen=True):
    """Accesses of the PTX that became one machine instruction."""

    leader: int
    """Site that stands for all of them: the one that the machine code names."""
    members: tuple[int, ...]
    """Their sites, by address; the leader is one of them."""
    width: int
    """Bytes that one thread moves."""
    start: int
    """Bytes from the first member to the leader."""


class Merging(Struct):
    """Merged accesses of one kernel; refined with the addresses seen.

    ``resolved`` are groups that are known. ``open`` maps a site that belongs to a wider machine instruction to that
    one's width, as long as no address has told the group's beginning.
    """

    sites: Sequence[Site]
    by_place: Mapping[tuple[str, int, tuple[int, ...], SiteKind], int]
    """Register, offset, basic blocks and kind → site."""
    place_of: Mapping[int, tuple[str, int, tuple[int, ...], SiteKind]]
    named: frozenset[int]
    """Sites with a machine instruction of their own."""
    open: dict[int, int]
    resolved: list[Merge] = field(default_factory=list)
    refused: list[int] = field(default_factory=list)
    """Sites whose machine instruction is wider, but whose neighbours cannot be told."""

    def look(self, site: np.ndarray, address: np.ndarray) -> list[Merge]:
        """Resolve groups from the sites and addresses of these records; returns all resolved groups."""
        for leader in list(self.open):
            where = site == leader
            first = int(where.argmax())
            if where[first]:
                self._resolve(leader, self.open.pop(leader), int(address[first]))
        return self.resolved

    def _resolve(self, leader: int, width: int, address: int) -> None:
        base, offset, blocks, kind = self.place_of[leader]
        start = address % width
        places = [(base, at, blocks, kind) for at in range(offset - start, offset - start + width)]
        members = [self.by_place[place] for place in places if place in self.by_place]
        if len(members) < 2 or any(member != leader and member in self.named for member in members):
            self.refused.append(leader)
            return
        self.resolved.append(Merge(leader, tuple(members), width, start))


def merging(sites: Sequence[Site], lines: Sequence[Listed], code: Assembly) -> Merging:
    """The shared accesses among ``sites`` that are wider in the machine code than in the PTX."""
    listed = {each.line: each for each in lines}
    by_place: dict[tuple[str, int, tuple[int, ...], SiteKind], int] = {}
    place_of: dict[int, tuple[str, int, tuple[int, ...], SiteKind]] = {}
    named, wider = set(), {}
    for index, site in enumerate(sites):
        if site.kind not in _NAMES or site.space not in (Space.SHARED, Space.GENERIC) or site.ptx_line not in listed:
            continue
        each = listed[site.ptx_line]
        place = (each.base, each.offset, each.blocks, site.kind)
        place_of[index] = place
        by_place[place] = index
        widths = {i.width for i in code.of_line.get(site.ptx_line, ()) if i.name in _NAMES[site.kind]}
        if widths:
            named.add(index)
        if len(widths) == 1 and max(widths) > site.size:
            wider[index] = max(widths)
    return Merging(sites, by_place, place_of, frozenset(named), wider)
