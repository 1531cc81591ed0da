"""The runtime calls, one module for each family."""
