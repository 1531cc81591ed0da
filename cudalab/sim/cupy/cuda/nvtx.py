"""``cupy.cuda.nvtx``: marks and named ranges of the host's code for an outside profiler (NVTX).

No profiler watches the simulated device from outside, so marks have no effect; what is nested wrongly raises nothing
on a GPU either. ``cudalab.trace`` shows what happened.
"""

from __future__ import annotations

from typing import Any

from cudalab.sim.cupy._base import catalogue

available = True


def __getattr__(name: str) -> Any:
    raise catalogue.missing("cupy.cuda.nvtx", name)


def __dir__() -> list[str]:
    return catalogue.offered("cupy.cuda.nvtx", globals())


def Mark(message: str, id_color: int = -1) -> None:
    """A mark at this moment."""


def MarkC(message: str, color: int = 0) -> None:
    """A mark at this moment, of a colour 0xAARRGGBB."""


def RangePush(message: str, id_color: int = -1) -> None:
    """Begin a range; ranges nest."""


def RangePushC(message: str, color: int = 0) -> None:
    """Begin a range of a colour 0xAARRGGBB."""


def RangePop() -> None:
    """End the range that was begun last."""


def RangeStart(message: str, color: int = 0) -> int:
    """Begin a range that may overlap others. Returns its number."""
    return 0


def RangeEnd(range_id: int) -> None:
    """End a range that ``RangeStart`` began."""
