"""The programs that the benchmarks run."""

from bench.programs.case import Case
from bench.programs.table import cases
from bench.programs.unnamed import unnamed

__all__ = ["Case", "cases", "unnamed"]
