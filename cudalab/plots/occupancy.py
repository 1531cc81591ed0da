"""Occupancy over the block size, with what limits it.

An SM takes whole blocks until its warps, its block slots, its registers or its shared memory run out; so the curve goes
up and down in steps. The bands show which of the four is the limit at each size.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

import matplotlib

from cudalab.plots.picture import Picture, blank
from cudalab.plots.style import BLACK, BLUE, GREEN, INK, PURPLE, QUIET, RC, VERMILLION, tint
from cudalab.sim.machine.launch.occupancy import Occupancy

if TYPE_CHECKING:
    from cudalab.analysis.profile import Profile

COLOURS = {"warps": BLUE, "blocks": PURPLE, "registers": VERMILLION, "shared memory": GREEN}
LETTERS = {"warps": "W", "blocks": "B", "registers": "R", "shared memory": "S"}
HATCHES = {"warps": "", "blocks": "..", "registers": "//", "shared memory": "\\\\"}


def occupancy(p: Profile) -> Picture:
    """Draw the occupancy of a profiled kernel at block sizes of 32 to 1024 threads; the launch's own is marked.

    Registers a thread and shared memory a block are kept as they are, though a kernel may need more shared memory at
    another block size.
    """
    curve, here = p.occupancy_curve(), p.occupancy
    with matplotlib.rc_context(RC):
        figure = blank(9.2, 3.5)
        axes = figure.subplots()
        for entry in curve:
            colour = COLOURS[entry.limiter]
            axes.bar(
                entry.threads, 100 * entry.fraction, width=28, color=tint(colour, 0.35), edgecolor=colour,
                hatch=HATCHES[entry.limiter], linewidth=0.6,
            )  # fmt: skip
            axes.text(
                entry.threads, 4, str(entry.blocks_per_sm), ha="center", va="center", fontsize=7, color=INK,
                bbox={"boxstyle": "square,pad=0.1", "facecolor": tint(colour, 0.2), "edgecolor": "none"},
            )  # fmt: skip
        for limiter, start, end, top in _runs(curve):
            axes.text(
                (start + end) / 2, top + 2.5, LETTERS[limiter] if end - start < 64 else limiter,
                ha="center", va="bottom", fontsize=8, color=INK,
            )  # fmt: skip
        axes.plot([here.threads], [100 * here.fraction], "o", color=BLACK, ms=7, zorder=5, mec="white", mew=1)
        height = min(100.0, 100 * here.fraction + 14) + 14
        axes.annotate(
            f"this launch: {here.threads} threads, {here.fraction:.0%}",
            (here.threads, 100 * here.fraction), (min(880, max(150, here.threads)), height),
            ha="center", va="center", fontsize=9, fontweight="bold", color=INK,
            arrowprops={"arrowstyle": "-", "color": INK, "linewidth": 0.8, "shrinkB": 4},
        )  # fmt: skip
        axes.set_ylim(0, 100 * max(entry.fraction for entry in curve) + 34)
        axes.set_yticks([0, 25, 50, 75, 100])
        axes.set_xlim(0, 1056)
        axes.set_xticks(range(0, 1025, 128))
        axes.set_xlabel("threads a block")
        axes.set_ylabel("occupancy (%)")
        axes.yaxis.grid(True)
        used = [name for name in COLOURS if any(entry.limiter == name for entry in curve)]
        for name in used:
            axes.bar(
                [0],
                [0],
                color=tint(COLOURS[name], 0.35),
                edgecolor=COLOURS[name],
                hatch=HATCHES[name],
                label=f"{LETTERS[name]}  {name}",
            )
        axes.legend(
            title="limited by\n(in a bar: blocks an SM)", loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False,
            fontsize=8.5, title_fontsize=8.5, alignment="left",
        )  # fmt: skip
        resources = p.resources
        text = f"{resources.registers} registers a thread, " if resources else ""
        axes.set_title(f"{p.kernel}: {text}{_bytes(p)} of shared memory a block")
        axes.tick_params(colors=QUIET)
    return Picture(figure, _sentence(curve, here), _description(p, curve, here))


def _bytes(p: Profile) -> str:
    size = p.compiled.static_shared + p.shared
    return f"{size / 1024:.3g} KB" if size >= 1024 else f"{size} bytes"


def _runs(curve: list[Occupancy]) -> list[tuple[str, int, int, float]]:
    """Neighbouring sizes with one limiter: name, first and last size, highest occupancy."""
    runs = []
    for limiter, entries in groupby(curve, key=lambda entry: entry.limiter):
        group = list(entries)
        runs.append((limiter, group[0].threads, group[-1].threads, 100 * max(entry.fraction for entry in group)))
    return runs


def _sentence(curve: list[Occupancy], here: Occupancy) -> str:
    best = max(entry.fraction for entry in curve)
    sizes = [entry.threads for entry in curve if entry.fraction == best]
    fit = "1 block fits" if here.blocks_per_sm == 1 else f"{here.blocks_per_sm} blocks fit"
    start = (
        f"With {here.threads} threads a block, {fit} on an SM: **{here.fraction:.0%}** occupancy, limited by "
        f"{here.limiter}"
    )
    if here.fraction >= best:
        return f"{start}; no other block size gives more."
    named = ", ".join(map(str, sizes[:4])) + (" …" if len(sizes) > 4 else "")
    return f"{start}; most, {best:.0%}, comes with {named} threads."


def _description(p: Profile, curve: list[Occupancy], here: Occupancy) -> str:
    limits = ", ".join(dict.fromkeys(entry.limiter for entry in curve))
    return (
        f"Bars of the theoretical occupancy of {p.kernel} at block sizes of 32 to 1024 threads, limited by {limits}; "
        f"the launch's {here.threads} threads are marked at {here.fraction:.0%}."
    )
