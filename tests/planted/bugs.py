"""All planted bugs."""

from __future__ import annotations

from tests.planted import (
    absent_lanes,
    barrier_objects,
    block_races,
    grid_races,
    initialisation,
    memory,
    private_memory,
    synchronisation,
)

BUGS = (
    memory.BUGS
    + block_races.BUGS
    + grid_races.BUGS
    + initialisation.BUGS
    + synchronisation.BUGS
    + absent_lanes.BUGS
    + private_memory.BUGS
    + barrier_objects.BUGS
)
