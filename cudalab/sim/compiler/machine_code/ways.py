"""Ways of warps through the basic blocks of a kernel: as traced PTX has them, and as the machine code was executed."""

from __future__ import annotations

from collections.abc import Mapping, Set

from msgspec import Struct


class Ways(Struct, frozen=True):
    """What warps did in the PTX, each number summed over warps."""

    visits: Mapping[int, float]
    """How often a warp ran each basic block, by its index in ``Kernel.sites``."""
    edges: Mapping[tuple[int, int], float]
    """How often a warp left the first block for the second (-1: it ended)."""
    rounds: Mapping[int, Mapping[tuple[int, ...], float]]
    """Of blocks of innermost loops: how often a warp came to one, and its lanes then ran the block so many times."""


class Walk(Struct, frozen=True):
    """What a lane executes that runs some rounds of an unrolled loop."""

    executed: Mapping[int, int]
    """How often each basic block of the machine code."""
    left: Set[tuple[int, int, int]]
    """By which block it left the loop or came to where lanes converge, the how many-eth time (from 0), and where to."""
    whole: bool
    """Whether these are all of its rounds, and no more."""


class Executed(Struct, frozen=True):
    """How often warps executed the machine code."""

    blocks: tuple[float, ...]
    """Each of its basic blocks."""
    consistent: bool
    """Whether these account for everything that warps did in the PTX."""
    exact: bool
    """Whether, beside that, no block executes more often than those before it lead to it. Where one does, the numbers
    around it are estimates."""
