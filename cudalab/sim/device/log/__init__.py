"""Recording of runtime calls."""
