"""All planted bugs."""

from __future__ import annotations

from tests.planted import initialisation, memory, races, synchronisation

BUGS = memory.BUGS + races.BUGS + initialisation.BUGS + synchronisation.BUGS
