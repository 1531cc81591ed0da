"""How many sectors, or wavefronts, each request of each warp took: a table of colours.

A row is a warp, a column a request (or some, where there are many), in the order in which the warp made them, side by
side for each line of the source. The colour compares with what the same lanes would need if their addresses were
neighbours: a load that is fine in one warp and bad in another, or gets worse from round to round, shows at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LinearSegmentedColormap, LogNorm
from matplotlib.patches import Rectangle

from cudalab.analysis.line_counts import KINDS
from cudalab.plots.picture import Picture, blank
from cudalab.plots.style import BLUE, INK, QUIET, RC, VERMILLION, number, tint
from cudalab.sim.abi import LOCAL_WINDOW, SHARED_WINDOW, WINDOW_SIZE
from cudalab.sim.machine.counters.bank_conflicts import count_wavefronts
from cudalab.sim.machine.counters.collection import local_sectors
from cudalab.sim.machine.reports.finding import Place, place_of
from cudalab.sim.machine.trace.requests import distinct

if TYPE_CHECKING:
    from cudalab.analysis.profile import Profile

T = TypeVar("T")
MOST_ROWS = 16  # warps in one drawing
MOST_COLUMNS = 64
MOST_LINES = 6  # side by side
WIDTH = 7.1  # inches of the table
HEAD = 1.05  # inches that the words over a column need
NARROW = 0.2  # inches; cells below it bear no number
_COLOURS = LinearSegmentedColormap.from_list(
    "cost", [tint(BLUE, 0.3), "#F6E7D8", tint(VERMILLION, 0.6), VERMILLION, "#6E2F00"]
)


@dataclass(frozen=True)
class Request:
    """One request as the pictures see it."""

    place: Place
    kind: str
    """``global load`` …"""
    size: int
    """Bytes a lane moves."""
    block: int
    warp: int
    order: tuple[int, int]
    """Visit of its site, and site."""
    addresses: np.ndarray
    active: np.ndarray
    units: float
    """Sectors, or wavefronts of shared memory."""
    ideal: float
    """The fewest that as many lanes can do with."""


def requests_of(p: Profile, unit: str) -> list[Request]:
    """The requests that a profile has kept; ``unit`` is ``sectors`` (global, local) or ``wavefronts`` (shared)."""
    found: list[Request] = []
    entries = {id(entry.site): entry for entry in p.counts.sites}
    starts = {merge.leader: merge.start for merge in p.counts.merges}
    for kept in p.requests:
        for index in np.unique(kept.site).tolist():
            site = p.compiled.sites[index]
            entry, place = entries.get(id(site)), place_of(site.location, p.program)
            if entry is None or place is None or entry.merged or bool(entry.wavefronts) != (unit == "wavefronts"):
                continue
            if not (entry.wavefronts or entry.sectors):
                continue
            rows = np.flatnonzero(kept.site == index)
            addresses, active = kept.addresses[rows], kept.active[rows]
            size = entry.width or site.size
            if unit == "wavefronts":
                space = "shared"
                addresses = addresses - np.where(active, np.uint64(starts.get(index, 0)), np.uint64(0))
                units, ideal = count_wavefronts(addresses, active, size, atomic=KINDS[site.kind] == "atomic")
            else:
                local = LOCAL_WINDOW <= int(addresses[active].min(initial=SHARED_WINDOW)) < LOCAL_WINDOW + WINDOW_SIZE
                space = "local" if local else "global"
                sectors = local_sectors(addresses) if local else addresses // np.uint64(32)
                units = distinct(sectors, active)
                ideal = np.minimum(units, -(-active.sum(axis=1) * size // 32))
            for position, row in enumerate(rows.tolist()):
                found.append(
                    Request(
                        place,
                        f"{space} {KINDS[site.kind]}",
                        size,
                        int(kept.block[row]),
                        int(kept.warp[row]),
                        (int(kept.visit[row]), index),
                        addresses[position],
                        active[position],
                        float(units[position]),
                        float(ideal[position]),
                    )
                )
    return found


def heat_map(p: Profile, *, unit: str = "") -> Picture:
    """Draw the sectors of each request, warp by warp, of a profiled launch.

    Args:
        p: what ``cudalab.profile`` returned. Requests of up to four blocks are drawn, and of a long kernel the first
            ones at each line.
        unit: ``"sectors"`` of global and local memory or ``"wavefronts"`` of shared memory; by default what the kernel
            has, sectors first.

    Raises:
        ValueError: another unit, or a launch without requests of that kind.
    """
    if unit not in ("", "sectors", "wavefronts"):
        raise ValueError(f"heat_map: unit must be 'sectors' or 'wavefronts' (got {unit!r})")
    chosen = unit or "sectors"
    requests = requests_of(p, chosen)
    if not requests and not unit:
        chosen = "wavefronts"
        requests = requests_of(p, chosen)
    if not requests:
        what = {"sectors": "global or local memory", "wavefronts": "shared memory"}[unit or "sectors"]
        raise ValueError(f"heat_map: {p.kernel} made no request to {what}" + ("" if unit else ", nor to shared memory"))
    groups: dict[tuple[Place, str], list[Request]] = {}
    for request in requests:
        groups.setdefault((request.place, request.kind), []).append(request)
    by_excess = sorted(groups, key=lambda key: -sum(each.units - each.ideal for each in groups[key]))
    ordered = sorted(by_excess[:MOST_LINES], key=lambda key: (key[0].file, key[0].line, key[1]))
    warps = _chosen_warps(sorted({(request.block, request.warp) for request in requests}))
    tables = {key: _orders(groups[key]) for key in ordered}
    widths = _widths([len(tables[key]) for key in ordered])
    with matplotlib.rc_context(RC):
        gap = 0.16
        cell = min(0.62, (WIDTH - gap * len(widths)) / sum(widths))
        while cell > 0.02 and sum(max(cell * width, HEAD) + gap for width in widths) > WIDTH:
            cell *= 0.95
        breaks = _breaks(warps)
        cells = [max(cell, min(0.35, HEAD / width)) for width in widths]
        full = sum(max(each * width, HEAD) + gap for each, width in zip(cells, widths, strict=True))
        figure = blank(min(9.2, max(5.0, full + 2.1)), 1.25 + 0.2 * len(warps) + 0.09 * len(breaks))
        axes = figure.subplots()
        left = 0.0
        for key, width, each in zip(ordered, widths, cells, strict=True):
            _group(axes, key, groups[key], tables[key], width, warps, breaks, left, each)
            left += max(each * width, HEAD) + gap
        _rows(axes, warps, breaks)
        axes.set_xlim(-1.25, max(left, 2.9))
        axes.set_ylim(len(warps) + 0.45 * len(breaks) + 0.05, -3.6)
        axes.axis("off")
        axes.set_title(f"{p.kernel}: {chosen} of each request, warp by warp", loc="left")
        scale = figure.colorbar(
            ScalarMappable(LogNorm(1, 32), _COLOURS),
            ax=axes,
            shrink=0.9,
            aspect=22,
            pad=0.02,
            ticks=[1, 2, 4, 8, 16, 32],
        )
        scale.ax.set_yticklabels(["ideal", "2×", "4×", "8×", "16×", "32×"])
        scale.ax.minorticks_off()
        scale.outline.set_visible(False)
    return Picture(figure, _sentence(groups, ordered, chosen), _description(ordered, warps, chosen))


def _chosen_warps(warps: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Some of the warps where there are too many, spread over all."""
    blocks = sorted({block for block, _ in warps})
    each = min(MOST_ROWS // min(2, len(blocks)), max(sum(block == first for block, _ in warps) for first in blocks))
    shown = _spread(blocks, max(1, MOST_ROWS // each))
    return [pair for block in shown for pair in _spread([pair for pair in warps if pair[0] == block], each)]


def _spread(items: list[T], most: int) -> list[T]:
    """At most ``most`` of the items, the first and the last among them."""
    if len(items) <= most:
        return items
    return [items[(len(items) - 1) * index // max(1, most - 1)] for index in range(most)]


def _orders(requests: list[Request]) -> dict[tuple[int, int], int]:
    """Each (visit, site) of a group → its place in the order."""
    return {order: place for place, order in enumerate(sorted({request.order for request in requests}))}


def _widths(counts: list[int]) -> list[int]:
    """Columns of each group: one a request, or fewer where there are too many."""
    total = sum(counts)
    if total <= MOST_COLUMNS:
        return counts
    return [max(1, count * MOST_COLUMNS // total) for count in counts]


def _breaks(warps: list[tuple[int, int]]) -> list[int]:
    """Rows before which another block begins."""
    return [row for row in range(1, len(warps)) if warps[row][0] != warps[row - 1][0]]


def _top(row: int, breaks: list[int]) -> float:
    return row + 0.45 * sum(row >= each for each in breaks)


def _group(
    axes: Axes,
    key: tuple[Place, str],
    requests: list[Request],
    table: dict[tuple[int, int], int],
    width: int,
    warps: list[tuple[int, int]],
    breaks: list[int],
    left: float,
    cell: float,
) -> None:
    row_of = {warp: row for row, warp in enumerate(warps)}
    total, best, times = (np.zeros((len(warps), width)) for _ in range(3))
    for request in requests:
        row = row_of.get((request.block, request.warp))
        if row is None:
            continue
        column = table[request.order] * width // len(table)
        total[row, column] += request.units
        best[row, column] += request.ideal
        times[row, column] += 1
    norm = LogNorm(1, 32, clip=True)
    for row, column in zip(*np.nonzero(times), strict=True):
        mean, ratio = total[row, column] / times[row, column], total[row, column] / max(1e-9, best[row, column])
        face = _COLOURS(norm(max(1.0, ratio)))
        x, y = left + column * cell, _top(int(row), breaks)
        line = 0.9 if cell > 0.1 else 0.4
        axes.add_patch(Rectangle((x, y), cell, 1.0, facecolor=face, edgecolor="white", linewidth=line))
        if cell >= NARROW:
            colour = "white" if ratio > 9 else INK
            axes.text(x + cell * 0.5, y + 0.53, f"{mean:.3g}", ha="center", va="center", fontsize=7.5, color=colour)
    place, kind = key
    mean, ideal = _mean(requests)
    head = f"line {place.line}" if place.line else place.file
    axes.text(left, -2.75, head, fontweight="bold", fontsize=9, color=INK, va="center")
    axes.text(left, -1.75, kind, fontsize=8.5, color=QUIET, va="center")
    words = f"{_short(mean)}, ideal {_short(ideal)}"
    axes.text(left, -0.75, words, fontsize=8.5, color=VERMILLION if mean > 1.05 * ideal else INK, va="center")


def _short(value: float) -> str:
    return number(round(value, 1))


def _mean(requests: list[Request]) -> tuple[float, float]:
    return (
        float(np.mean([request.units for request in requests])),
        float(np.mean([request.ideal for request in requests])),
    )


def _rows(axes: Axes, warps: list[tuple[int, int]], breaks: list[int]) -> None:
    several = len({block for block, _ in warps}) > 1
    for row, (block, warp) in enumerate(warps):
        y = _top(row, breaks) + 0.5
        first = row == 0 or row in breaks
        text = f"block {block}  warp {warp}" if several and first else f"warp {warp}"
        axes.text(-0.08, y, text, ha="right", va="center", fontsize=8, color=QUIET)


def _sentence(groups: dict[tuple[Place, str], list[Request]], ordered: list[tuple[Place, str]], unit: str) -> str:
    means = {key: _mean(groups[key]) for key in ordered}
    bad = [key for key in ordered if means[key][0] > 1.05 * means[key][1]]
    if not bad:
        kinds = "; ".join(f"line {key[0].line}, {key[1]}: {_short(means[key][0])}" for key in ordered)
        return f"Every request takes as few {unit} as its lanes need ({kinds})."
    worst = max(bad, key=lambda key: means[key][0] / means[key][1])
    mean, ideal = means[worst]
    rest = f"; {len(bad) - 1} more of {len(ordered)} kinds of access take too many" if len(bad) > 1 else ""
    one = "a request" if unit == "sectors" else "each request"
    return (
        f"The {worst[1]} of line {worst[0].line} takes **{_short(mean)}** {unit} {one}, where {_short(ideal)} would "
        f"do{rest}."
    )


def _description(ordered: list[tuple[Place, str]], warps: list[tuple[int, int]], unit: str) -> str:
    kinds = ", ".join(f"{kind} of line {place.line}" for place, kind in ordered)
    return (
        f"Table of colours with {len(warps)} warps as rows and their requests as columns, by line: {kinds}; the "
        f"colour is the number of {unit} against the ideal."
    )
