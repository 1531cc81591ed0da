"""Pitched rows in memory, and where a kernel finds them that steps from row to row by some number of bytes.

Memory is one line of bytes. It is drawn folded at the pitch, so that every row of the allocation begins at the left. A
byte bears the number of the row that the kernel takes it for: with the right step each row has its own number, and with
another one the numbers drift. Slices of a volume follow each other without a gap.
"""

from __future__ import annotations

from cudalab.plots.drawing import Drawing, group, label, rect, text_width
from cudalab.plots.style import BLUE, FAINT, QUIET, RULE, VERMILLION, tint

MOST_BYTES = 24
MOST_ROWS = 12
_CELL, _LEFT, _TOP = 22.0, 96.0, 34.0


def rows(width: int, pitch: int, height: int, *, step: int | None = None, depth: int = 1) -> Drawing:
    """Draw the rows of a pitched allocation and the bytes that a kernel takes for each.

    Args:
        width: bytes of a row that hold data.
        pitch: bytes from the start of one row to the start of the next.
        height: rows; of each slice, where there are several.
        step: the bytes by which the kernel steps from row to row; by default the pitch.
        depth: slices.

    Raises:
        ValueError: a pitch below the width, a step below 1, or more than can be drawn.
    """
    step = pitch if step is None else step
    if not 1 <= width <= pitch <= MOST_BYTES:
        raise ValueError(f"rows: 1 ≤ width ≤ pitch ≤ {MOST_BYTES} (got width {width}, pitch {pitch})")
    if height < 1 or depth < 1 or height * depth > MOST_ROWS:
        raise ValueError(f"rows: 1 to {MOST_ROWS} rows in all slices together (got {depth} × {height})")
    if step < 1:
        raise ValueError(f"rows: step must be at least 1 byte (got {step})")
    count = height * depth
    parts = [label(_LEFT + _CELL * pitch / 2, 14, f"pitch {pitch}: width {width}, padding {pitch - width}", size=10,
                   anchor="middle", fill=QUIET)]  # fmt: skip
    for row in range(count):
        y = _TOP + _CELL * row + 8 * (row // height)
        parts.append(label(_LEFT - 8, y + _CELL / 2, f"byte {row * pitch}", size=9.5, anchor="end", fill=QUIET))
        parts += [_byte(row * pitch + at, at, y, width, pitch, step, count) for at in range(pitch)]
        name = f"slice {row // height}, row {row % height}" if depth > 1 else f"row {row}"
        where = _where(row, pitch, step)
        colour = QUIET if step == pitch else VERMILLION if row else QUIET
        parts.append(label(_LEFT + _CELL * pitch + 14, y + _CELL / 2, f"{name} {where}", size=10, fill=colour))
    bottom = _TOP + _CELL * count + 8 * (depth - 1)
    parts.append(_legend(bottom + 14, step != pitch))
    return Drawing(
        "\n".join(parts), _LEFT + _CELL * pitch + 300, bottom + 30, _sentence(width, pitch, height, step, depth),
        f"The bytes of {count} pitched rows; each byte bears the number of the row for which a kernel takes it.",
    )  # fmt: skip


def _byte(byte: int, at: int, y: float, width: int, pitch: int, step: int, count: int) -> str:
    """One byte, and the number of the row for which it is taken, if it is read at all."""
    taken, offset = divmod(byte, step)
    read = offset < width and taken < count
    right = read and taken == byte // pitch and offset == at
    padding = at >= width
    fill = tint(BLUE, 0.35) if right else tint(VERMILLION, 0.35) if read else FAINT if padding else "#FFFFFF"
    x = _LEFT + _CELL * at
    inside = [rect(x, y, _CELL, _CELL, fill, stroke=RULE)]
    if read:
        inside.append(label(x + _CELL / 2, y + _CELL / 2, str(taken), size=10, anchor="middle"))
    what = "padding" if padding else f"row {byte // pitch}, byte {at}"
    taken_for = f"; read as row {taken}, byte {offset}" if read else "; not read"
    return group(inside, f"byte {byte}: {what}{taken_for}")


def _where(row: int, pitch: int, step: int) -> str:
    off = row * (step - pitch)
    if not off:
        return f"begins at byte {row * pitch}" if step == pitch else "is found"
    return f"is read from byte {row * step}: {abs(off)} too {'late' if off > 0 else 'early'}"


def _legend(y: float, wrong: bool) -> str:
    entries = [(tint(BLUE, 0.35), "read as the row it belongs to"), (FAINT, "padding")]
    if wrong:
        entries.insert(1, (tint(VERMILLION, 0.35), "read as another place than it is"))
    parts, x = [], _LEFT
    for fill, words in entries:
        parts += [rect(x, y - 6, 12, 12, fill, stroke=RULE), label(x + 18, y, words, size=9.5, fill=QUIET)]
        x += 18 + text_width(words, 9.5) + 22
    return "".join(parts)


def _sentence(width: int, pitch: int, height: int, step: int, depth: int) -> str:
    if step != pitch:
        off, side = abs(step - pitch), "late" if step > pitch else "early"
        read = [f"row {row} by {off * row}" for row in range(1, min(height * depth, 4))]
        drift = f" and reads too {side}, in bytes: {', '.join(read)}" if read else ""
        return f"A kernel that steps by {step} bytes where the pitch is {pitch} slips from row to row{drift}."
    slices = f", and slice *s* at byte {pitch * height}·*s*" if depth > 1 else ""
    padding = f"; {pitch - width} of {pitch} bytes are padding" if pitch > width else ""
    return f"Rows of {width} bytes with a pitch of {pitch}: row *r* begins at byte {pitch}·*r*{slices}{padding}."
