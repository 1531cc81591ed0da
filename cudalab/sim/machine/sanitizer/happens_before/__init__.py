"""Which accesses inside a kernel are ordered: happens-before by vector clocks."""
