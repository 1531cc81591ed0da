"""Calibration of the time model by microbenchmarks: ``python -m cudalab calibrate``."""
