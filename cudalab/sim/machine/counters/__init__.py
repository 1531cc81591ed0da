"""Counters under Nsight Compute's names: requests, sectors, bank conflicts, divergence, occupancy."""
