"""Happens-before inside one launch, by vector clocks: which accesses are ordered, and which conflict."""
