"""Tests of cudalab, mirroring the package."""
