"""Tools for maintainers: calibration, locks, recording, the test suite, the notebook format."""
