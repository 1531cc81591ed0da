"""The sectors of memory that one warp's request touches.

Device memory moves in sectors of 32 bytes, aligned to 32. One load or store of a warp is one request; it costs as many
sectors as its 32 lanes touch, however few bytes of each they use. Four neighbouring sectors share a 128-byte cache
line. The picture counts from the addresses alone; ``cudalab.profile`` counts what a kernel really did.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PolyCollection
from numpy.typing import ArrayLike

from cudalab.plots.picture import Picture, blank
from cudalab.plots.style import BLUE, INK, QUIET, RC, RULE, VERMILLION, tint

SECTOR = 32  # bytes
LINE = 128  # bytes
MOST_SECTORS = 64  # in one drawing; more cannot be told apart


@dataclass(frozen=True)
class Touched:
    """What one request touches."""

    sectors: tuple[int, ...]
    """Numbers of the sectors, counted from address 0."""
    used: int
    """Bytes of them that some lane asked for."""

    @property
    def moved(self) -> int:
        """Bytes that move: 32 for each sector."""
        return SECTOR * len(self.sectors)


def touched(addresses: ArrayLike, size: int = 4) -> Touched:
    """The sectors that lanes reading ``size`` bytes each at ``addresses`` (bytes) touch."""
    starts = np.asarray(addresses, dtype=np.int64).ravel()
    spans = starts[:, None] + np.arange(size)
    return Touched(tuple(int(sector) for sector in np.unique(spans // SECTOR)), int(np.unique(spans).size))


def sectors(patterns: Mapping[str, ArrayLike], *, size: int = 4, title: str = "") -> Picture:
    """Draw a warp's lanes, the bytes they read, and the 32-byte sectors that move.

    Args:
        patterns: by name, the byte address each of up to 32 lanes reads, counted from the start of an array that
            begins at a sector boundary (every allocation does).
        size: bytes each lane reads.
        title: what the drawing shows.

    Raises:
        ValueError: no pattern, negative addresses, or addresses that reach beyond 2048 bytes.
    """
    if not patterns:
        raise ValueError("sectors needs at least one pattern of addresses; got none")
    lanes = {name: np.asarray(addresses, dtype=np.int64).ravel() for name, addresses in patterns.items()}
    for name, addresses in lanes.items():
        if addresses.size == 0 or addresses.min() < 0 or addresses.max() + size > MOST_SECTORS * SECTOR:
            raise ValueError(
                f"sectors: pattern {name!r} must stay within 0 … {MOST_SECTORS * SECTOR - 1}; "
                f"got {addresses.min() if addresses.size else 'nothing'} … {addresses.max() if addresses.size else ''}"
            )
    end = max(int(addresses.max()) + size for addresses in lanes.values())
    span = -(-end // LINE) * LINE
    with matplotlib.rc_context(RC):
        figure = blank(9.2, 0.35 + 1.12 * len(lanes) + (0.25 if title else 0))
        rows = figure.subplots(len(lanes), 1, squeeze=False)[:, 0]
        counts = {}
        for axes, (name, addresses) in zip(rows, lanes.items(), strict=True):
            counts[name] = touched(addresses, size)
            _row(axes, name, addresses, size, span, counts[name], last=axes is rows[-1])
        if title:
            rows[0].set_title(title)
    return Picture(
        figure,
        _sentence(counts),
        f"Lanes of a warp as dots, joined to the bytes they read among 32-byte sectors: {', '.join(lanes)}.",
    )


def _row(axes: Axes, name: str, addresses: np.ndarray, size: int, span: int, found: Touched, *, last: bool) -> None:
    top, height = 1.0, 0.3
    places = (np.arange(addresses.size) + 0.5) * span / addresses.size
    middles = addresses + size / 2
    axes.add_collection(
        LineCollection(
            [((place, top - 0.07), (middle, height)) for place, middle in zip(places, middles, strict=True)],
            colors=tint(VERMILLION, 0.55),
            linewidths=0.7,
        )
    )
    axes.plot(places, np.full(addresses.size, top), "o", ms=5.2, color=VERMILLION, mec="white", mew=0.6, clip_on=False)
    gap = span / 900
    missed = [sector for sector in range(span // SECTOR) if sector not in found.sectors]
    boxes(axes, [sector * SECTOR + gap for sector in missed], SECTOR - 2 * gap, height, "white", RULE, 0.7)
    boxes(axes, [s * SECTOR + gap for s in found.sectors], SECTOR - 2 * gap, height, tint(BLUE, 0.28), BLUE, 1.0)
    words = [float(address) + span / 1800 for address in np.unique(addresses)]
    boxes(axes, words, size - span / 900, height - 0.1, BLUE, "none", 0, bottom=0.05)
    axes.set_xlim(-span * 0.115, span * 1.17)
    axes.set_ylim(-0.32 if last else -0.12, 1.12)
    axes.axis("off")
    axes.text(-span * 0.012, top, "lanes 0–31", ha="right", va="center", fontsize=8.5, color=QUIET)
    axes.text(-span * 0.012, height / 2, "memory", ha="right", va="center", fontsize=8.5, color=QUIET)
    axes.text(-span * 0.115, 0.62, name, ha="left", va="center", fontweight="bold", color=INK)
    count = len(found.sectors)
    axes.text(span * 1.015, 0.6, f"{count} sector{'s' if count > 1 else ''}", va="center", fontweight="bold", color=INK)
    axes.text(span * 1.015, 0.15, f"{found.used} of {found.moved} bytes\nused", va="center", fontsize=8.5, color=QUIET)
    if last:
        for byte in range(0, span + 1, span // 8 if span > LINE * 2 else SECTOR):
            axes.text(byte, -0.1, str(byte), ha="center", va="top", fontsize=8, color=QUIET)
        axes.text(-span * 0.03, -0.1, "byte", ha="right", va="top", fontsize=8, color=QUIET)


def boxes(
    axes: Axes,
    lefts: Sequence[float],
    width: float,
    height: float,
    face: str,
    edge: str,
    line_width: float,
    *,
    bottom: float = 0.0,
) -> None:
    """Equal rectangles side by side, as one collection: a drawing of hundreds stays small."""
    corners = [
        [(left, bottom), (left + width, bottom), (left + width, bottom + height), (left, bottom + height)]
        for left in lefts
    ]
    axes.add_collection(
        PolyCollection(corners, facecolors=face, edgecolors=edge, linewidths=line_width, zorder=3 if bottom else 2)
    )


def _sentence(counts: Mapping[str, Touched]) -> str:
    words: Sequence[str] = [
        f"{name}: **{len(found.sectors)}** ({found.used} of {found.moved} bytes used)" for name, found in counts.items()
    ]
    return "Sectors that one request of a warp moves — " + ", ".join(words) + "."
