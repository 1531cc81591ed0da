"""Traces of a launch, one record for each access, barrier and basic block, and footprints."""
