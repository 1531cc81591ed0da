"""A matrix product C = A·B: what a warp, a block or a thread needs of A and B for its part of C.

B stands above C and A to its left, so that a row of A and a column of B meet in the element of C that they give.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby

import numpy as np

from cudalab.plots.access import touched
from cudalab.plots.drawing import Drawing, label, rect
from cudalab.plots.style import BLUE, FAINT, GREEN, INK, RULE, VERMILLION, tint
from cudalab.sim.abi import WARP

MOST_WIDTHS = 3
MOST_TILES = 8
MOST_EACH = 8
_BLOCK, _PIECE = 128, 4  # elements of C that a block has in each direction, and those that are drawn as one cell
_LEFT, _TOP, _GAP = 14.0, 26.0, 26.0
_FLOAT = 4  # bytes

Fill = Callable[[int, int], str]
"""The colour of the cell in this row and column; empty: as the ground."""


def warp_reads(widths: Sequence[int], *, k: int = 5) -> Drawing:
    """Draw where the lanes of one warp lie in C, and what they read of A and B in one step of the plain product.

    Args:
        widths: of the block, in threads along x; the lanes are numbered along x first. One to three widths.
        k: the step: a column of A and a row of B.

    Raises:
        ValueError: more widths, a width that is no power of two, or a step outside of the 32 × 32 elements drawn.
    """
    if not 1 <= len(widths) <= MOST_WIDTHS:
        raise ValueError(f"warp_reads: give 1 to {MOST_WIDTHS} widths of a block (got {len(widths)})")
    for width in widths:
        if width < 1 or width & (width - 1):
            raise ValueError(f"warp_reads: width must be a power of two (got {width})")
    if not 0 <= k < WARP:
        raise ValueError(f"warp_reads: k must be 0 to {WARP - 1} (got {k})")
    parts, said, right, bottom = [], [], _LEFT, 0.0
    for at, width in enumerate(widths):
        drawn, words, right, bottom = _one_warp(width, k, right + 22 * bool(at))
        parts += drawn
        said.append(words)
    return Drawing(
        "\n".join(parts), right + _LEFT, bottom, f"What a warp requests in one step of the loop — {'; '.join(said)}.",
        "Matrices A, B and C; marked are the elements of one warp in C and what it reads of A and B in one step.",
    )  # fmt: skip


def _one_warp(width: int, k: int, left: float) -> tuple[list[str], str, float, float]:
    """One width of a block: what is drawn, the same in words, and where it ends to the right and below."""
    columns = min(width, WARP)
    height = WARP // columns
    lane = np.arange(WARP)
    of_a = _sectors(_FLOAT * (lane // columns * WARP + k))
    of_b = _sectors(_FLOAT * (k * WARP + lane % columns))
    of_c = _sectors(_FLOAT * (lane // columns * WARP + lane % columns))
    blue, red, green = tint(BLUE, 0.8), tint(VERMILLION, 0.8), tint(GREEN, 0.6)
    parts, right, bottom = _matrices(
        (WARP, WARP, WARP), 4.0,
        lambda row, column: "" if row >= height else blue if column == k else tint(BLUE, 0.12),
        lambda row, column: "" if column >= columns else red if row == k else tint(VERMILLION, 0.12),
        lambda row, column: green if row < height and column < columns else "",
        left=left,
    )  # fmt: skip
    lines = [
        (f"{width} wide", INK, True),
        (f"A: {height} word{'s' * (height > 1)},", BLUE, False),
        (f"     {of_a}", BLUE, False),
        (f"B: {columns} word{'s' * (columns > 1)},", VERMILLION, False),
        (f"     {of_b}", VERMILLION, False),
        ("C: 32 words,", GREEN, False),
        (f"     {of_c}", GREEN, False),
    ]
    parts += _lines(lines, left, 18)
    return parts, f"blocks {width} wide: {of_a} of A and {of_b} of B", right, bottom + 12


def tiles(
    height: int = 3, depth: int = 4, width: int = 4, *, block: tuple[int, int] = (1, 1), step: int = 0
) -> Drawing:
    """Draw the tiles that one block loads, in the step that it is at.

    Args:
        height, depth, width: of the product, in tiles: A has height × depth, B has depth × width.
        block: row and column of the block's tile in C.
        step: which of the depth steps the block is at.

    Raises:
        ValueError: more than 8 tiles a side, or a block or a step that does not exist.
    """
    sizes = {"height": height, "depth": depth, "width": width}
    wrong = [f"{name} {size}" for name, size in sizes.items() if not 1 <= size <= MOST_TILES]
    if wrong:
        raise ValueError(f"tiles: 1 to {MOST_TILES} tiles each way (got {', '.join(wrong)})")
    row, column = block
    if not (0 <= row < height and 0 <= column < width and 0 <= step < depth):
        raise ValueError(f"tiles: there is no block {block} or no step {step} in {height} × {depth} × {width} tiles")
    strong, weak = (tint(BLUE, 0.6), tint(BLUE, 0.15)), (tint(VERMILLION, 0.6), tint(VERMILLION, 0.15))
    parts, right, bottom = _matrices(
        (height, depth, width), 30.0,
        lambda r, c: "" if r != row else strong[0] if c == step else strong[1],
        lambda r, c: "" if c != column else weak[0] if r == step else weak[1],
        lambda r, c: tint(GREEN, 0.55) if (r, c) == (row, column) else "",
        (lambda r, c: f"t{c}" if r == row else "", lambda r, c: f"t{r}" if c == column else "",
         lambda r, c: "C" if (r, c) == (row, column) else ""),
    )  # fmt: skip
    lines = [
        (f"block in row {row}, column {column} of C, step {step}", INK, True),
        ("", INK, False),
        (f"1  load tile t{step} of A and of B, an element a thread", INK, False),
        ("2  wait for all threads: the tiles are complete", INK, False),
        ("3  add up the products of the two tiles", INK, False),
        ("4  wait for all threads: the tiles are done with", INK, False),
        (f"then step {step + 1}" if step + 1 < depth else "then store the tile of C", INK, False),
    ]
    parts += _lines(lines, right + 30)
    return Drawing(
        "\n".join(parts), right + 360, bottom + 12,
        f"The block loads its row of A and its column of B tile by tile, {depth} steps in all; "
        f"in step {step} it holds tile {step} of each.",
        "Matrices A, B and C cut into tiles; marked are the tiles of one block, and those of the step it is at.",
    )  # fmt: skip


def register_tile(each: int = 4, *, threads: int = 4, thread: tuple[int, int] = (1, 2)) -> Drawing:
    """Draw the elements of C that one thread keeps in registers, and what it reads of the two tiles for one k.

    Args:
        each: elements a thread computes, in each direction.
        threads: of the block, in each direction; a thread's elements lie that far apart.
        thread: its ``threadIdx.y`` and ``threadIdx.x``.

    Raises:
        ValueError: more than can be drawn, or a thread outside of the block.
    """
    if not (1 <= each <= MOST_EACH and 1 <= threads <= MOST_EACH):
        raise ValueError(f"register_tile: 1 to {MOST_EACH} elements and threads each way (got {each} and {threads})")
    y, x = thread
    if not (0 <= y < threads and 0 <= x < threads):
        raise ValueError(f"register_tile: thread {thread} is not in a block of {threads} × {threads}")
    side = each * threads
    parts, right, bottom = _matrices(
        (side, 1, side), max(5.0, min(18.0, 260.0 / side)),
        lambda r, c: tint(BLUE, 0.7) if r % threads == y else "",
        lambda r, c: tint(VERMILLION, 0.7) if c % threads == x else "",
        lambda r, c: tint(GREEN, 0.6) if (r % threads, c % threads) == (y, x) else "",
        names=("As[k]", "Bs[k]", "C of the block"),
    )  # fmt: skip
    many = each * each
    lines = [
        (f"thread x = {x}, y = {y} of {threads} × {threads}", INK, True),
        ("", INK, False),
        (f"reads {each} number{'s' * (each > 1)} of the tile of A", BLUE, False),
        (f"reads {each} number{'s' * (each > 1)} of the tile of B", VERMILLION, False),
        (f"adds a product to each of its {many} element{'s' * (many > 1)}", GREEN, False),
        (f"{2 * each} reads for {many} multiply-add{'s' * (many > 1)}", INK, False),
    ]
    parts += _lines(lines, right + 30)
    return Drawing(
        "\n".join(parts), right + 330, bottom + 12,
        f"With {each} × {each} elements a thread, {2 * each} reads of shared memory serve {many} multiply-adds.",
        "A column of A's tile, a row of B's tile and the block's part of C, with what one thread takes of each.",
    )  # fmt: skip


def warp_tile(rows: Sequence[int] = (2, 8), *, each: int = 8, warp: int = 1) -> Drawing:
    """Draw the part of a block's 128 × 128 elements of C that one warp computes, and what its lanes read of the two
    tiles for one k.

    Args:
        rows: of lanes; the 32 lanes of the warp stand in ``rows`` × (32 / ``rows``). One to three arrangements.
        each: elements a lane computes, in each direction: 4 or 8.
        warp: which warp of the block.

    Raises:
        ValueError: more arrangements, rows that are no power of two, a warp tile that is larger than the block's, or a
            warp that the block has not.
    """
    if not 1 <= len(rows) <= MOST_WIDTHS or each not in (4, 8):
        raise ValueError(f"warp_tile: 1 to {MOST_WIDTHS} arrangements, 4 or 8 elements each (got {len(rows)}, {each})")
    parts, said, right, bottom = [], [], _LEFT, 0.0
    for at, down in enumerate(rows):
        if down < 1 or down & (down - 1) or max(down, WARP // down) * each > _BLOCK:
            raise ValueError(
                f"warp_tile: rows must be a power of two, with a warp tile of at most {_BLOCK} × {_BLOCK} elements "
                f"(got {down})"
            )
        height, width = down * each, WARP // down * each
        beside = _BLOCK // width  # warps side by side in the block
        if not 0 <= warp < beside * _BLOCK // height:
            raise ValueError(f"warp_tile: warp must be 0 to {beside * _BLOCK // height - 1} (got {warp})")
        top, left = warp // beside * height, warp % beside * width
        in_rows, in_columns = range(top, top + height, _PIECE), range(left, left + width, _PIECE)
        drawn, right, bottom = _matrices(
            (_BLOCK // _PIECE, 1, _BLOCK // _PIECE), 6.0,
            _within(in_rows, range(1), tint(BLUE, 0.7)), _within(range(1), in_columns, tint(VERMILLION, 0.7)),
            _within(in_rows, in_columns, tint(GREEN, 0.6)),
            names=("As[k]", "Bs[k]", "C of the block"), left=right + 22 * bool(at),
        )  # fmt: skip
        lines = [
            (f"{down} × {WARP // down} lanes", INK, True),
            (f"C: {height} × {width}", GREEN, False),
            (f"As[k]: {height} numbers", BLUE, False),
            (f"Bs[k]: {width} numbers", VERMILLION, False),
        ]
        parts += drawn + _lines(lines, right + 12, 18)
        said.append(f"{down} × {WARP // down} lanes: {height} + {width} = {height + width} numbers")
        right += 130
    return Drawing(
        "\n".join(parts), right, bottom + 12,
        f"What a warp with {each} × {each} elements a lane reads for one k — {'; '.join(said)}.",
        "A column of A's tile, a row of B's tile and the block's part of C, with one warp's part of each.",
    )  # fmt: skip


def _within(rows: range, columns: range, colour: str) -> Fill:
    """A colour for the cells whose elements lie in these rows and columns."""
    return lambda row, column: colour if row * _PIECE in rows and column * _PIECE in columns else ""


def _matrices(
    sizes: tuple[int, int, int],
    cell: float,
    of_a: Fill,
    of_b: Fill,
    of_c: Fill,
    words: tuple[Fill, Fill, Fill] | None = None,
    names: tuple[str, str, str] = ("A", "B", "C"),
    left: float = _LEFT,
) -> tuple[list[str], float, float]:
    """The three matrices in their places; and where the drawing ends to the right and below."""
    height, depth, width = sizes
    beside = left + cell * depth + _GAP + (18 if depth == 1 else 0)
    top = _TOP + cell * depth + _GAP
    nothing: Fill = lambda row, column: ""  # noqa: E731
    shown = words or (nothing, nothing, nothing)
    places = ((left, top, height, depth, of_a), (beside, _TOP, depth, width, of_b), (beside, top, height, width, of_c))
    parts = []
    for (x, y, rows, columns, fill), name, text in zip(places, names, shown, strict=True):
        parts.append(label(x, y - 10, name, size=11, bold=True))
        if cell < 8:  # too fine for lines between the cells
            parts.append(rect(x, y, cell * columns, cell * rows, FAINT, stroke=RULE))
            parts += _regions(x, y, rows, columns, cell, fill)
            continue
        for row in range(rows):
            for column in range(columns):
                left_of, top_of = x + cell * column, y + cell * row
                parts.append(rect(left_of, top_of, cell, cell, fill(row, column) or FAINT, stroke=RULE))
                if text(row, column):
                    middle = (left_of + cell / 2, top_of + cell / 2)
                    parts.append(label(*middle, text(row, column), size=10, anchor="middle"))
    return parts, beside + cell * width, top + cell * height


def _regions(x: float, y: float, rows: int, columns: int, cell: float, fill: Fill) -> list[str]:
    """Cells too fine to be told apart: neighbours of one colour as one rectangle."""
    open_runs: dict[tuple[int, int, str], int] = {}  # first and last column and colour → its first row
    parts = []
    for row in range(rows + 1):
        colours = [fill(row, column) for column in range(columns)] if row < rows else []
        runs: dict[tuple[int, int, str], int] = {}
        begin = 0
        for colour, group_of in groupby(colours):
            length = len(list(group_of))
            if colour:
                runs[begin, begin + length, colour] = row
            begin += length
        for run, since in open_runs.items():
            if run in runs:
                runs[run] = since
            else:
                first, end, colour = run
                parts.append(
                    rect(x + cell * first, y + cell * since, cell * (end - first), cell * (row - since), colour)
                )
        open_runs = runs
    return parts


def _lines(lines: list[tuple[str, str, bool]], x: float, apart: float = 19) -> list[str]:
    return [
        label(x, _TOP + 8 + apart * at, text, size=11, fill=colour, bold=bold)
        for at, (text, colour, bold) in enumerate(lines)
        if text
    ]


def _sectors(addresses: np.ndarray) -> str:
    count = len(touched(addresses).sectors)
    return f"{count} sector{'s' if count != 1 else ''}"
