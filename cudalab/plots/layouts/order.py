"""What happens in which order, in two places where it is often taken wrongly: the warps of a block between barriers,
and the host that puts launches into a queue and reads a clock. Lengths are examples, in units of nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cudalab.plots.drawing import WIDTH, Drawing, group, label, line, rect
from cudalab.plots.style import BLUE, FAINT, GREEN, INK, QUIET, RULE, VERMILLION, tint

LOADING = (3, 5, 4)
"""How long each warp of the drawing loads."""
ADDING = (4, 3, 6)
"""How long each adds up products."""
ROUNDS = 2
_LEFT, _TOP, _ROW, _HIGH = 70.0, 26.0, 34.0, 24.0


@dataclass(frozen=True)
class _Piece:
    warp: int
    turn: int
    what: str
    """``load`` or ``products``."""
    begin: int
    end: int


def barriers(*, first: bool = True, second: bool = True) -> Drawing:
    """Draw three warps of a block in two rounds of a tiled product: they load tiles, and add up products.

    Args:
        first: is there a barrier between the loads and the products?
        second: is there one at the end of a round?
    """
    pieces, waits = _run(first, second)
    scale = (WIDTH - _LEFT - 20) / max(piece.end for piece in pieces)
    parts, early = [], []
    for warp in range(len(LOADING)):
        parts.append(label(_LEFT - 10, _TOP + _ROW * warp + _HIGH / 2, f"warp {warp}", size=11, anchor="end"))
    for piece in pieces:
        wrong = _wrong(piece, pieces)
        early += [piece] if wrong else []
        base = BLUE if piece.what == "load" else GREEN
        x, y = _LEFT + scale * piece.begin, _TOP + _ROW * piece.warp
        fill = tint(VERMILLION if wrong else base, 0.4)
        text = f"{piece.what} {piece.turn}"
        parts.append(group(
            [rect(x, y, scale * (piece.end - piece.begin), _HIGH, fill, stroke=VERMILLION if wrong else base),
             label(x + scale * (piece.end - piece.begin) / 2, y + _HIGH / 2, f"{text} !" if wrong else text, size=10,
                   anchor="middle")],
            f"warp {piece.warp}: {text}{'; ' + wrong if wrong else ''}",
        ))  # fmt: skip
    bottom = _TOP + _ROW * len(LOADING)
    for begin, end, warp in waits:
        x, y = _LEFT + scale * begin, _TOP + _ROW * warp
        parts.append(rect(x, y + 4, scale * (end - begin), _HIGH - 8, FAINT, stroke=RULE))
        if scale * (end - begin) > 32:
            parts.append(
                label(x + scale * (end - begin) / 2, y + _HIGH / 2, "waits", size=9, anchor="middle", fill=QUIET)
            )
    for at in sorted({end for _, end, _ in waits}):
        parts.append(line(_LEFT + scale * at, _TOP - 8, _LEFT + scale * at, bottom - 4, INK, width=1.6, dash="5 3"))
    note = "dashed: a barrier; a number: the tile" + ("; orange and !: a race" if early else "")
    parts.append(label(_LEFT, bottom + 8, note, size=9.5, fill=QUIET))
    return Drawing(
        "\n".join(parts), WIDTH, bottom + 22, _races(first, second),
        "Three warps as rows over the time: each loads its part of a tile, adds up products, and waits at barriers.",
    )  # fmt: skip


def _run(first: bool, second: bool) -> tuple[list[_Piece], list[tuple[int, int, int]]]:
    """What each warp does when, and from when to when it waits."""
    now = [0] * len(LOADING)
    pieces: list[_Piece] = []
    waits: list[tuple[int, int, int]] = []
    for turn in range(ROUNDS):
        for what, lengths, barrier in (("load", LOADING, first), ("products", ADDING, second)):
            for warp, length in enumerate(lengths):
                pieces.append(_Piece(warp, turn, what, now[warp], now[warp] + length))
                now[warp] += length
            if barrier:
                last = max(now)
                waits += [(at, last, warp) for warp, at in enumerate(now)]
                now = [last] * len(now)
    return pieces, waits


def _wrong(piece: _Piece, pieces: Sequence[_Piece]) -> str:
    """What is wrong with a piece that begins before others have ended."""
    if piece.what == "products":
        late = any(p.what == "load" and p.turn == piece.turn and p.end > piece.begin for p in pieces)
        return "it reads what is not loaded yet" if late else ""
    late = any(p.what == "products" and p.turn == piece.turn - 1 and p.end > piece.begin for p in pieces)
    return "it overwrites what is still read" if late else ""


def _races(first: bool, second: bool) -> str:
    if first and second:
        return (
            "With both barriers no warp reads a tile that is not complete, and none overwrites one that is still read."
        )
    found = []
    if not first:
        found.append("without the first barrier a fast warp reads what a slow one has not loaded yet")
    if not second:
        found.append("without the second a fast warp overwrites the tile that a slow one still reads")
    text = "; ".join(found)
    return f"{text[0].upper()}{text[1:]}."


def queue(launches: int = 4, *, launch: int = 1, kernel: int = 4, wait: bool = False) -> Drawing:
    """Draw a host that launches kernels and reads its clock before and after, with the device below.

    Args:
        launches: how many.
        launch: how long one call takes on the host.
        kernel: how long one kernel takes on the device.
        wait: does the host wait for the device before it reads the clock again?

    Raises:
        ValueError: nothing to draw.
    """
    if launches < 1 or launch < 1 or kernel < 1:
        raise ValueError(f"queue: launches, launch and kernel are at least 1 (got {launches}, {launch}, {kernel})")
    ends: list[int] = []
    for at in range(launches):
        ends.append(max(launch * (at + 1), ends[-1] if ends else 0) + kernel)
    returned, done = launch * launches, ends[-1]
    read = done if wait else returned
    scale = (WIDTH - _LEFT - 90) / done
    parts = []
    for at, name in enumerate(("host", "device")):
        parts.append(label(_LEFT - 10, _TOP + _ROW * at + _HIGH / 2, name, size=11, anchor="end"))
    for at, end in enumerate(ends):
        x = _LEFT + scale * launch * at
        parts.append(rect(x, _TOP, scale * launch, _HIGH, tint(BLUE, 0.4), stroke=BLUE))
        x = _LEFT + scale * (end - kernel)
        parts.append(rect(x, _TOP + _ROW, scale * kernel, _HIGH, tint(GREEN, 0.4), stroke=GREEN))
        parts.append(
            label(x + scale * kernel / 2, _TOP + _ROW + _HIGH / 2, f"kernel {at + 1}", size=9.5, anchor="middle")
        )
    if wait:
        x = _LEFT + scale * returned
        parts.append(rect(x, _TOP + 4, scale * (done - returned), _HIGH - 8, FAINT, stroke=RULE))
        parts.append(
            label(x + scale * (done - returned) / 2, _TOP + _HIGH / 2, "synchronize()", size=9.5, anchor="middle")
        )
    bottom = _TOP + 2 * _ROW
    for at, words in ((0, "clock"), (read, "clock again")):
        x = _LEFT + scale * at
        parts.append(line(x, _TOP - 8, x, bottom - 4, VERMILLION, width=1.6, dash="5 3"))
        parts.append(label(x + 4, _TOP - 12, words, size=9.5, fill=VERMILLION))
    share = "the whole of the work" if wait else f"{read} of {done} units"
    return Drawing(
        "\n".join(parts), WIDTH, bottom + 6,
        f"The host reads its clock {'after it has waited' if wait else 'when the last launch has returned'}: "
        f"it has seen {share}.",
        "Two rows over the time: the host's launches, and the kernels on the device; dashed where the clock is read.",
    )  # fmt: skip
