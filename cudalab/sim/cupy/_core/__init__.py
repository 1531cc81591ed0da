"""What the modules of the simulated CuPy are made of. CuPy keeps its own inner parts under the same name."""
