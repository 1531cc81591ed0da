"""One launch on a simulated GPU: memory, blocks and warps, traces, counters, checks (docs/dev/map.md)."""
