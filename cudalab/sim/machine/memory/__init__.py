"""Device memory: the arena, allocations, the device heap, textures, and the host memory that is shared."""
