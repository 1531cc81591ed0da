"""One module a topic; each registers its kernels with ``kernel(…)`` when imported."""
