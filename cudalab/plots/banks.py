"""The 32 banks of shared memory while they serve one request of a warp.

Word *w* of shared memory lies in bank *w* mod 32. In one wavefront each bank delivers one word, to all lanes that want
it. The picture has a column a bank and a row a wavefront; a cell names the lanes that are served. Where lanes want
different words of one bank, that bank is busy for several wavefronts, and the others wait. Requests of 8 and 16 bytes
a lane are served a half or a quarter of the warp at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from numpy.typing import ArrayLike

from cudalab.plots.heat_map import Request, requests_of
from cudalab.plots.picture import Picture, blank
from cudalab.plots.style import BLUE, FAINT, GREEN, INK, QUIET, RC, RULE, VERMILLION, tint
from cudalab.sim.abi import WARP
from cudalab.sim.machine.counters.bank_conflicts import BANKS, Wavefront, count_wavefronts, wavefronts_of

if TYPE_CHECKING:
    from cudalab.analysis.profile import Profile

MOST_ROWS = 32
SIZES = (1, 2, 4, 8, 16)


def banks(
    access: Profile | ArrayLike = (),
    *,
    stride: int | None = None,
    line: int | None = None,
    request: int | None = None,
    size: int = 4,
    title: str = "",
) -> Picture:
    """Draw how the banks serve one request.

    Args:
        access: a profile, or the byte address that each of up to 32 lanes wants in shared memory (-1: the lane is off).
        stride: in place of ``access``, the bytes from one lane's address to the next lane's.
        line: of a profile, the source line whose accesses to look at; by default the one with most conflicts.
        request: of a profile, which of the requests kept for that line, counted from 0; by default the one that takes
            most wavefronts.
        size: of addresses, the bytes each lane moves: 1, 2, 4, 8 or 16.
        title: what the drawing shows.

    Raises:
        ValueError: a profile without shared accesses, no such line or request, addresses that are not aligned, or not
            one of ``access`` and ``stride``.
    """
    from cudalab.analysis.profile import Profile

    if stride is not None:
        if not isinstance(access, tuple) or access:
            raise ValueError("banks: give either access or stride, not both")
        access = np.arange(WARP) * stride
    if isinstance(access, Profile):
        chosen, place = _chosen(access, line, request)
        addresses, active, size, kind = chosen.addresses, chosen.active, chosen.size, chosen.kind.split()[-1]
        title = title or f"Line {place}: one shared {kind} of {size} bytes a lane"
    else:
        addresses, active = _lanes(access, size)
        kind = "load"
        title = title or f"One request of {size} bytes a lane"
    atomic = kind == "atomic"
    served = wavefronts_of(addresses, active, size, atomic=atomic)
    least = int(count_wavefronts(addresses[None], active[None], size, atomic=atomic)[1][0])
    shown = served[:MOST_ROWS]
    with matplotlib.rc_context(RC):
        tall = len(shown) > 8
        figure = blank(9.2, 1.05 + (0.19 if tall else 0.33) * max(1, len(shown)))
        axes = figure.subplots()
        _draw(axes, shown, tall)
        axes.set_title(title)
    return Picture(figure, _sentence(served, least, active, atomic), _description(served, kind, size))


def _chosen(p: Profile, line: int | None, request: int | None) -> tuple[Request, int]:
    found = [each for each in requests_of(p, "wavefronts") if each.active.any()]
    if not found:
        raise ValueError(f"banks: {p.kernel} made no request to shared memory")
    lines = sorted({each.place.line for each in found})
    if line is None:
        extra: dict[int, float] = dict.fromkeys(lines, 0.0)
        for access in p.lines:
            if access.place.line in extra:
                extra[access.place.line] += access.bank_conflicts
        took: dict[int, float] = dict.fromkeys(lines, 0.0)
        for each in found:
            took[each.place.line] += each.units
        line = max(lines, key=lambda each: (extra[each], took[each]))
    mine = [each for each in found if each.place.line == line]
    if not mine:
        raise ValueError(
            f"banks: line {line} makes no request to shared memory; these do: {', '.join(map(str, lines))}"
        )
    if request is None:
        return max(mine, key=lambda each: each.units), line
    if not 0 <= request < len(mine):
        raise ValueError(f"banks: request must be 0 to {len(mine) - 1} for line {line} (got {request})")
    return mine[request], line


def _lanes(access: ArrayLike, size: int) -> tuple[np.ndarray, np.ndarray]:
    if size not in SIZES:
        raise ValueError(f"banks: size must be 1, 2, 4, 8 or 16 bytes (got {size})")
    given = np.asarray(access, dtype=np.int64).ravel()
    if not 0 < given.size <= 32:
        raise ValueError(f"banks: give the addresses of 1 to 32 lanes (got {given.size})")
    addresses = np.full(32, -1, np.int64)
    addresses[: given.size] = given
    active = addresses >= 0
    if not active.any():
        raise ValueError("banks: all lanes are off; give at least one address of 0 or more")
    if (addresses[active] % size).any():
        bad = int(addresses[active][addresses[active] % size != 0][0])
        raise ValueError(f"banks: addresses must be multiples of the {size} bytes that a lane moves (got {bad})")
    return np.where(active, addresses, 0).astype(np.uint64), active


_LOOKS = {
    "one": (tint(BLUE, 0.3), BLUE, "one lane"),
    "shared": (tint(GREEN, 0.3), GREEN, "several lanes, one word"),
    "again": (tint(VERMILLION, 0.35), VERMILLION, "conflict: the bank's next word"),
}


def _draw(axes: Axes, shown: Sequence[Wavefront], tall: bool) -> None:
    rows = len(shown)
    low = min((word for turn in shown for word, _ in turn.banks.values()), default=0) // BANKS
    cells: dict[str, list[list[tuple[float, float]]]] = {name: [] for name in _LOOKS}
    idle = []
    seen: dict[tuple[range, int], int] = {}
    for row, turn in enumerate(shown):
        for bank in range(BANKS):
            if bank not in turn.banks:
                idle.append(_box(bank + 0.04, row + 0.08, 0.92, 0.84))
                continue
            before = seen.get((turn.lanes, bank), 0)
            seen[turn.lanes, bank] = before + 1
            word, lanes = turn.banks[bank]
            kind = "again" if before else "shared" if len(lanes) > 1 else "one"
            cells[kind].append(_box(bank + 0.04, row + 0.08, 0.92, 0.84))
            _write(axes, bank + 0.5, row + (0.5 if tall else 0.4), _named(lanes))
            if not tall:
                _write(axes, bank + 0.5, row + 0.76, str(word // BANKS - low), 5, QUIET)
    axes.add_collection(PolyCollection(idle, facecolors="white", edgecolors=FAINT, linewidths=0.8))
    for kind, (face, edge, _) in _LOOKS.items():
        axes.add_collection(PolyCollection(cells[kind], facecolors=face, edgecolors=edge, linewidths=0.8))
    for bank in range(BANKS):
        _write(axes, bank + 0.5, -0.3, str(bank), 7.5, QUIET)
    axes.text(-0.3, -0.3, "bank", ha="right", va="center", fontsize=8.5, color=QUIET)
    for row, turn in enumerate(shown):
        axes.text(-0.3, row + 0.5, f"wavefront {row + 1}", ha="right", va="center", fontsize=8.5, color=INK)
        if len(turn.lanes) < WARP and (row == 0 or shown[row - 1].lanes != turn.lanes):
            axes.text(32.3, row + 0.5, f"lanes {turn.lanes[0]}–{turn.lanes[-1]}", va="center", fontsize=8, color=QUIET)
            if row:
                axes.plot([-0.1, 32.1], [row, row], color=RULE, lw=1.2)
    _legend(axes, {name for name in cells if cells[name]}, rows + (1.1 if tall else 0.65), tall)
    axes.set_xlim(-3.6, 35.2 if any(len(turn.lanes) < WARP for turn in shown) else 32.2)
    axes.set_ylim(rows + (1.8 if tall else 1.1), -0.8)
    axes.axis("off")


def _legend(axes: Axes, used: set[str], y: float, tall: bool) -> None:
    x = 0.0
    for name, (face, edge, text) in _LOOKS.items():
        if name in used:
            height = 0.7 if tall else 0.5
            box = _box(x, y - height / 2, 0.6, height)
            axes.add_collection(PolyCollection([box], facecolors=face, edgecolors=edge, linewidths=0.8))
            axes.text(x + 0.85, y, text, va="center", fontsize=8.5, color=INK)
            x += 2 + 0.31 * len(text)
    words = "a number: the lane" if tall else "large: the lane, small: the row of 32 words"
    axes.text(32, y, words, ha="right", va="center", fontsize=7.5, color=QUIET)


def _box(x: float, y: float, width: float, height: float) -> list[tuple[float, float]]:
    return [(x, y), (x + width, y), (x + width, y + height), (x, y + height)]


def _write(axes: Axes, x: float, y: float, text: str, size: float = 0.0, colour: str = INK) -> None:
    fitting = {1: 7.5, 2: 7.5, 3: 6.2, 4: 5.4}.get(len(text), 4.6)
    axes.text(x, y, text, ha="center", va="center", fontsize=size or fitting, color=colour)


def _named(lanes: tuple[int, ...]) -> str:
    if len(lanes) == 1:
        return str(lanes[0])
    if lanes == tuple(range(lanes[0], lanes[-1] + 1)):
        return f"{lanes[0]}–{lanes[-1]}"
    return f"{len(lanes)}×" if len(lanes) > 2 else f"{lanes[0]},{lanes[1]}"


def _sentence(served: Sequence[Wavefront], least: int, active: np.ndarray, atomic: bool) -> str:
    count = len(served)
    lanes = int(active.sum())
    words = f"The {lanes} lanes" if lanes > 1 else "The one lane"
    part = {16: ", half a warp at a time", 8: ", a quarter of a warp at a time"}.get(
        max(len(t.lanes) for t in served), ""
    )
    plural = "s" if count != 1 else ""
    shared = sum(len(lanes) > 1 for turn in served for _, lanes in turn.banks.values())
    verb = "are" if lanes > 1 else "is"
    if count == least:
        broadcast = ""
        if shared:
            one = shared == 1
            broadcast = f"; {shared} bank{'' if one else 's'} serve{'s' if one else ''} several lanes with one word"
        return f"{words} {verb} served in **{count}** wavefront{plural}{part}, without bank conflicts{broadcast}."
    busiest = max(range(BANKS), key=lambda bank: sum(bank in turn.banks for turn in served))
    why = "atomics of one address take turns" if atomic else "its lanes want different words"
    return (
        f"{words} are served in **{count}** wavefronts{part}, {count - least} more than without conflicts: "
        f"bank {busiest} is asked in {sum(busiest in turn.banks for turn in served)} of them, because {why}."
    )


def _description(served: Sequence[Wavefront], kind: str, size: int) -> str:
    cut = f", of which the first {MOST_ROWS} are drawn" if len(served) > MOST_ROWS else ""
    return (
        f"Table with the 32 banks of shared memory as columns and {len(served)} wavefront"
        f"{'s' if len(served) > 1 else ''} of one {kind} of {size} bytes a lane as rows{cut}; cells name the "
        "lanes served."
    )
