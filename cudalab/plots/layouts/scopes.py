"""The four thread scopes, seen from one thread: for which others its atomic operations and fences count.

CUDA C++ Programming Guide, "Thread Scopes": thread, block, device, system; and the cluster's, which is left out here.
"""

from __future__ import annotations

from cudalab.plots.drawing import WIDTH, Drawing, label, rect
from cudalab.plots.style import BLUE, FAINT, GREEN, INK, QUIET, RULE, tint

_COUNTS = {
    "thread": "itself alone",
    "block": "the threads of its block",
    "device": "all threads of its GPU",
    "system": "all threads of every GPU, and of the host",
}
_BLOCKS, _THREADS = 3, 6
_CELL, _GAP = 20.0, 10.0


def scopes(scope: str = "block") -> Drawing:
    """Draw two GPUs and the host, and mark the threads for which an operation of ``scope`` by one thread counts.

    Args:
        scope: ``thread``, ``block``, ``device`` or ``system``.

    Raises:
        ValueError: another word.
    """
    if scope not in _COUNTS:
        raise ValueError(f"scopes: the scope is {', '.join(_COUNTS)} (got {scope!r})")
    block = _THREADS * _CELL + 2 * _GAP
    gpu = _BLOCKS * block + (_BLOCKS + 1) * _GAP
    widths = {"GPU 0": gpu, "GPU 1": block + 2 * _GAP, "host": 3 * _CELL + 2 * _GAP}
    left = (WIDTH - sum(widths.values()) - 2 * _GAP) / 2
    parts = []
    for name, width in widths.items():
        reached = scope == "system" or (scope == "device" and name == "GPU 0")
        parts.append(rect(left, 4, width, 108, tint(BLUE, 0.1) if reached else "#FFFFFF", stroke=RULE, radius=6))
        parts.append(label(left + 10, 18, name, size=10, bold=True))
        if name == "host":
            parts += _row(left + _GAP, 3, [scope == "system"] * 3, first=False)
            parts.append(label(left + _GAP, 96, "threads", size=9, fill=QUIET))
        for at in range({"GPU 0": _BLOCKS, "GPU 1": 1}.get(name, 0)):
            x = left + _GAP + at * (block + _GAP)
            mine = name == "GPU 0" and at == 0
            whole = reached or (mine and scope == "block")
            parts.append(rect(x, 30, block, 74, tint(BLUE, 0.2) if whole else "#FFFFFF", stroke=RULE, radius=4))
            parts.append(label(x + _GAP, 96, f"block {at}", size=9, fill=QUIET))
            parts += _row(x + _GAP, _THREADS, [whole] * _THREADS, first=mine)
        left += width + _GAP
    summary = f"Scope *{scope}*: what the green thread does counts for {_COUNTS[scope]}."
    alt = (
        f"Two GPUs and the host, with blocks and threads; one thread is green, and those for which the scope {scope} "
        "counts are blue."
    )
    return Drawing("\n".join(parts), WIDTH, 118, summary, alt, summary.replace("*", ""))


def _row(x: float, count: int, reached: list[bool], *, first: bool) -> list[str]:
    """Threads side by side; the first may be the one that all is seen from."""
    parts = []
    for at in range(count):
        me = first and at == 0
        fill = GREEN if me else BLUE if reached[at] else FAINT
        parts.append(rect(x + at * _CELL + 2, 48, _CELL - 4, 28, fill, stroke=INK if me else RULE, radius=3))
        if me or reached[at]:
            mark = "●" if me else "✓"
            parts.append(label(x + (at + 0.5) * _CELL, 62, mark, size=9, anchor="middle", fill="#FFFFFF"))
    return parts
