"""The table of mistakes that a learner makes, and what each must lead to: ``MISTAKES``, by name."""

from __future__ import annotations

from . import addresses, compiling, configuration, control  # noqa: F401  (each adds its rows)
from .mistake import TABLE

MISTAKES = TABLE
