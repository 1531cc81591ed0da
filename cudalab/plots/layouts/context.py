"""Host threads, the primary context that they share, and what lives in it.

The context is made by the first call that needs the device, belongs to the process, and takes all that is in it along
when it is destroyed (CUDA C++ Programming Guide, "Initialization").
"""

from __future__ import annotations

from collections.abc import Sequence

from cudalab.plots.drawing import WIDTH, Drawing, label, line, rect, shorten
from cudalab.plots.style import BLUE, GREEN, INK, QUIET, RULE, VERMILLION, tint

_THREAD_WIDE, _ROW, _TOP = 200.0, 44.0, 34.0
_CONTEXT, _CONTEXT_WIDE = 300.0, 270.0
_DEVICE, _DEVICE_WIDE = 640.0, 145.0


def context(
    threads: Sequence[str] = ("main", "worker"),
    holds: Sequence[str] = ("allocations", "streams and events", "kernels, loaded"),
    destroyed: bool = False,
) -> Drawing:
    """Draw one process: its host threads, its primary context, and the device.

    Args:
        threads: names of the host threads.
        holds: what lives in the context.
        destroyed: after ``cudaDeviceReset``: what was in the context is gone, and pointers to it lead nowhere.
    """
    if not threads or not holds:
        raise ValueError("context: needs at least one thread and one thing that the context holds")
    height = _TOP + _ROW * max(len(threads), len(holds)) + 32
    middle = _TOP + (height - _TOP - 32) / 2
    parts = [
        rect(8, 20, _CONTEXT + _CONTEXT_WIDE + 10, height - 26, "#FFFFFF", stroke=RULE, radius=6),
        label(18, 10, "one process", size=10.5, bold=True),
        label(_DEVICE + _DEVICE_WIDE / 2, 10, "the device", size=10.5, anchor="middle", bold=True),
    ]
    colour = VERMILLION if destroyed else GREEN
    top = middle - _ROW * len(holds) / 2
    inside = rect(_CONTEXT, top - 4, _CONTEXT_WIDE, _ROW * len(holds) + 22, tint(colour, 0.15), stroke=colour, radius=6)
    parts.append(inside)
    name = "primary context, destroyed" if destroyed else "primary context"
    parts.append(label(_CONTEXT + 12, top + 8, name, size=10.5, bold=True))
    for at, text in enumerate(holds):
        parts += _thing(top + 18 + at * _ROW, text, destroyed)
    for at, text in enumerate(threads):
        y = middle - _ROW * len(threads) / 2 + at * _ROW + 16  # the column's middle is the context's
        parts.append(rect(20, y, _THREAD_WIDE, 28, tint(BLUE, 0.2), stroke=BLUE, radius=4))
        shown = shorten(f"host thread {text}", _THREAD_WIDE - 16)
        parts.append(label(20 + _THREAD_WIDE / 2, y + 14, shown, anchor="middle"))
        parts.append(line(20 + _THREAD_WIDE, y + 14, _CONTEXT, middle + 8, INK, dash="5 4" if destroyed else ""))
    parts.append(rect(_DEVICE, middle - 26, _DEVICE_WIDE, 66, tint(QUIET, 0.2), stroke=QUIET, radius=4))
    parts.append(label(_DEVICE + _DEVICE_WIDE / 2, middle + 8, "memory, SMs", anchor="middle"))
    if not destroyed:
        parts.append(line(_CONTEXT + _CONTEXT_WIDE, middle + 8, _DEVICE, middle + 8, INK, width=1.6))
    number = f"{len(threads)} host thread{'s' * (len(threads) > 1)}"
    if destroyed:
        summary = f"After a reset {number} may still hold pointers, and what they pointed to is gone."
    else:
        share = "share" if len(threads) > 1 else "has"
        summary = f"{number} of one process {share} one primary context on the device, and all that is in it."
    alt = "On the left host threads, in the middle the context with what it holds, on the right the device."
    return Drawing("\n".join(parts), WIDTH, height, summary, alt)


def _thing(y: float, text: str, destroyed: bool) -> list[str]:
    x, wide = _CONTEXT + 12, _CONTEXT_WIDE - 24
    parts = [rect(x, y, wide, 28, "#FFFFFF", stroke=QUIET, radius=3)]
    shown = shorten(text, wide - 16)
    parts.append(label(x + wide / 2, y + 14, shown, anchor="middle", fill=QUIET if destroyed else INK))
    if destroyed:
        parts.append(line(x, y + 28, x + wide, y, VERMILLION))
    return parts
