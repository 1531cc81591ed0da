"""Recording and replay of runtime calls."""
