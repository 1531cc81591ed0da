"""The bottom of the facade: calls of the device with CuPy's errors, the catalogue of CuPy's names, and what an array of
the device is to the modules below ``cupy.ndarray``."""
