"""All planted bugs."""

from __future__ import annotations

from tests.planted import block_races, grid_races, initialisation, memory, synchronisation

BUGS = memory.BUGS + block_races.BUGS + grid_races.BUGS + initialisation.BUGS + synchronisation.BUGS
