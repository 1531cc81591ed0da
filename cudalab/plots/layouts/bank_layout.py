"""A tile in shared memory: in which bank each word lies, and how a warp that walks down a column meets them.

Word *w* lies in bank *w* mod 32. In rows of 32 words a column lies in one bank; one word more in each row moves every
row one bank further. Lane *i* reads the word of row *i*, as ``tile[threadIdx.x][column]`` does.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cudalab.plots.drawing import Drawing, group, label, rect
from cudalab.plots.style import BLUE, FAINT, GREEN, QUIET, RULE, VERMILLION, tint
from cudalab.sim.abi import WARP
from cudalab.sim.machine.counters.bank_conflicts import BANKS, count_wavefronts

LONGEST = 40
_WORD = 4  # bytes
WIDTH = 900.0  # px: two tiles of 32 to 40 words side by side
_CELL, _LEFT, _TOP = 11.0, 40.0, 40.0


def bank_layout(lengths: Sequence[int], *, column: int = 0) -> Drawing:
    """Draw tiles of 32 rows side by side, with the words that one request for a column reads.

    Args:
        lengths: words of a row, of each tile; one or two tiles, of 32 to 40 words.
        column: which column the lanes read.

    Raises:
        ValueError: no length, more than two, or a length or a column that does not fit.
    """
    if not 1 <= len(lengths) <= 2:
        raise ValueError(f"bank_layout: give the row length of one or two tiles (got {len(lengths)})")
    for length in lengths:
        if not WARP <= length <= LONGEST:
            raise ValueError(f"bank_layout: rows have {WARP} to {LONGEST} words (got {length})")
    if not 0 <= column < WARP:
        raise ValueError(f"bank_layout: column must be 0 to {WARP - 1} (got {column})")
    parts, turns = [], {}
    for at, length in enumerate(lengths):
        left = _LEFT + at * WIDTH / 2
        turns[length] = _turns(length, column)
        parts += _tile(left, length, column)
        words = f"rows of {length}: {turns[length]} turn{'s' if turns[length] > 1 else ''}"
        parts.append(label(left, 12, words, size=11.5, bold=True))
    bottom = _TOP + WARP * _CELL
    legend = (
        (tint(GREEN, 0.5), "first of its bank"),
        (tint(VERMILLION, 0.5), "its bank is busy with another lane"),
        (tint(BLUE, 0.25), "same bank as lane 0"),
        (FAINT, "padding"),
    )
    x = _LEFT
    for fill, text in legend:
        parts += [
            rect(x, bottom + 10, 12, 12, fill, stroke=RULE),
            label(x + 18, bottom + 16, text, size=9.5, fill=QUIET),
        ]
        x += 42 + 6.0 * len(text)
    said = ", ".join(f"rows of {length}: **{count}**" for length, count in turns.items())
    return Drawing(
        "\n".join(parts), WIDTH, bottom + 30,
        f"Turns of the banks for one word a lane of column {column} — {said}.",
        "Tiles of 32 rows in shared memory; the word that each lane reads bears the number of its bank.",
    )  # fmt: skip


def _turns(length: int, column: int) -> int:
    words = (np.arange(WARP) * length + column) * _WORD
    taken, _ = count_wavefronts(words[None].astype(np.uint64), np.ones((1, WARP), bool), _WORD)
    return int(taken[0])


def _tile(left: float, length: int, column: int) -> list[str]:
    parts, seen = [], set()
    first = column % BANKS
    parts.append(
        label(left + _CELL * (column + 0.5), _TOP - 10, f"column {column}", size=9, anchor="middle", fill=QUIET)
    )
    for row in range(WARP):
        y = _TOP + _CELL * row
        parts.append(rect(left, y, _CELL * WARP, _CELL, "#FFFFFF", stroke=RULE))
        if length > WARP:
            parts.append(rect(left + _CELL * WARP, y, _CELL * (length - WARP), _CELL, FAINT, stroke=RULE))
        for at in range((first - row * length) % BANKS, length, BANKS):
            parts.append(rect(left + _CELL * at, y, _CELL, _CELL, tint(BLUE, 0.25)))
        bank = (row * length + column) % BANKS
        fill = tint(VERMILLION if bank in seen else GREEN, 0.5)
        seen.add(bank)
        x = left + _CELL * column
        parts.append(group(
            [rect(x - 2, y, _CELL + 4, _CELL, fill),
             label(x + _CELL / 2, y + _CELL / 2, str(bank), size=8, anchor="middle")],
            f"lane {row} reads word {row * length + column}, in bank {bank}",
        ))  # fmt: skip
        if row % 8 == 0 or row == WARP - 1:
            parts.append(label(left - 6, y + _CELL / 2, f"lane {row}", size=8, anchor="end", fill=QUIET))
    return parts
