"""Stops an installation where cudalab cannot run, with the reason; everything else stands in pyproject.toml."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))

try:
    import cudalab  # noqa: F401  (raises ImportError on macOS and on Windows for Arm)
except ImportError as error:
    sys.exit(f"cudalab cannot be installed here.\n{error}")

from setuptools import setup

setup()
