"""Structs as they lie in memory, and nodes that point to each other.

C++ puts a member at a multiple of its alignment, which is the size of the scalars that a kernel uses, and rounds the
struct's size up to a multiple of its largest alignment, so that the next element of an array is aligned as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cudalab.plots.drawing import WIDTH, Drawing, coordinate, group, label, line, rect, shorten, text_width
from cudalab.plots.style import BLUE, FAINT, GREEN, INK, PURPLE, QUIET, RULE, VERMILLION, tint

MOST_BYTES = 128
MOST_NODES = 6
_LEFT, _RIGHT, _TOP, _HEIGHT = 10.0, 10.0, 24.0, 34.0
_COLOURS = (BLUE, GREEN, VERMILLION, PURPLE)


def offsets(members: Mapping[str, int]) -> tuple[dict[str, int], int]:
    """Where each member begins, and the struct's size, in bytes."""
    places, end = {}, 0
    for name, size in members.items():
        places[name] = -(-end // size) * size
        end = places[name] + size
    largest = max(members.values())
    return places, -(-end // largest) * largest


def struct(members: Mapping[str, int], *, count: int = 1) -> Drawing:
    """Draw one struct, or several of an array, byte by byte.

    Args:
        members: the declaration of each member → its size in bytes, which is its alignment, too: 1, 2, 4, 8 or 16.
        count: how many of the array to draw.

    Raises:
        ValueError: no member, a size that no scalar has, or more than 128 bytes.
    """
    if not members or count < 1:
        raise ValueError("struct needs at least one member and one element")
    odd = [f"{name}: {size}" for name, size in members.items() if size not in (1, 2, 4, 8, 16)]
    if odd:
        raise ValueError(f"struct: a member has 1, 2, 4, 8 or 16 bytes (got {', '.join(odd)})")
    places, size = offsets(members)
    if size * count > MOST_BYTES:
        raise ValueError(f"struct: at most {MOST_BYTES} bytes can be drawn (got {size * count})")
    scale = min(36.0, (WIDTH - _LEFT - _RIGHT) / (size * count))
    parts = []
    for element in range(count):
        left = _LEFT + scale * size * element
        parts.append(rect(left, _TOP, scale * size, _HEIGHT, FAINT, stroke=RULE))
        for at, (name, begin) in enumerate(places.items()):
            x, wide = left + scale * begin, scale * members[name]
            fill = tint(_COLOURS[at % len(_COLOURS)], 0.35)
            short = shorten(name.split()[-1], wide - 4, 10)
            words = f"{name}: bytes {element * size + begin} to {element * size + begin + members[name] - 1}"
            parts.append(group([rect(x, _TOP, wide, _HEIGHT, fill, stroke=QUIET),
                                label(x + wide / 2, _TOP + _HEIGHT / 2, short, size=10, anchor="middle")],
                               words))  # fmt: skip
        parts.append(line(left, _TOP - 6, left, _TOP + _HEIGHT + 4, INK, width=1.6))
        if count > 1:
            parts.append(label(left + 3, _TOP - 12, f"[{element}]", size=9.5, fill=QUIET))
    step = next(each for each in (4, 8, 16, 32) if scale * each >= 22)
    for byte in range(0, size * count + 1, step):
        parts.append(label(_LEFT + scale * byte, _TOP + _HEIGHT + 12, str(byte), size=9, anchor="middle", fill=QUIET))
    wide = _LEFT + scale * size * count + _RIGHT
    return Drawing(
        "\n".join(parts), max(wide, 420.0), _TOP + _HEIGHT + 24, _sentence(members, places, size),
        f"The bytes of {count} struct{'s' if count > 1 else ''} in a row, each member in its place.",
    )  # fmt: skip


def _sentence(members: Mapping[str, int], places: Mapping[str, int], size: int) -> str:
    where = ", ".join(f"`{name.split()[-1]}` at byte {begin}" for name, begin in places.items())
    padding = size - sum(members.values())
    unused = f", of which {padding} are padding" if padding else ", without padding"
    return f"{where}; a struct takes {size} bytes{unused}."


def nodes(values: Sequence[float], *, gap: int = 512) -> Drawing:
    """Draw a linked list whose nodes were allocated from the last to the first, as they lie in device memory.

    Args:
        values: of the nodes, in the order of the list.
        gap: bytes from one allocation to the next; an example, as the addresses are.

    Raises:
        ValueError: no node, or more than can be drawn.
    """
    if not 1 <= len(values) <= MOST_NODES:
        raise ValueError(f"nodes: 1 to {MOST_NODES} values (got {len(values)})")
    room = (WIDTH - 40) / len(values)
    wide = min(150.0, room - 40)
    top, high = 58.0, 34.0
    addresses = [0x1000 + gap * at for at in range(len(values))]
    parts = [rect(4, top - 22, WIDTH - 8, high + 52, tint(GREEN, 0.06), stroke=tint(GREEN, 0.5), radius=6)]
    parts.append(label(14, top - 32, "device memory", size=10, fill=QUIET))
    for at, value in enumerate(reversed(values)):  # the last was allocated first
        x = 20 + room * at + (room - wide) / 2
        pointer = f"{addresses[at - 1]:#x}" if at else "0"
        parts.append(group(
            [rect(x, top, wide / 2, high, tint(BLUE, 0.35), stroke=QUIET),
             label(x + wide / 4, top + high / 2, f"{value:g}", size=11, anchor="middle"),
             rect(x + wide / 2, top, wide / 2, high, "#FFFFFF", stroke=QUIET),
             label(x + wide * 3 / 4, top + high / 2, pointer, size=10, anchor="middle")],
            f"value {value:g}, next {pointer}",
        ))  # fmt: skip
        parts.append(label(x, top + high + 14, f"{addresses[at]:#x}", size=9.5, fill=QUIET))
        if at:
            parts.append(_arrow(x + wide * 3 / 4, x - room + 8, top))
    last = 20 + room * (len(values) - 1) + (room - wide) / 2
    note = "the kernel begins here"
    x = min(last + wide / 2, WIDTH - 8 - text_width(note, 10) / 2)
    parts.append(label(x, top + high + 42, note, size=10, anchor="middle", fill=VERMILLION))
    parts.append(line(last + 8, top + high + 36, last + 8, top + high + 24, VERMILLION, width=1.4))
    return Drawing(
        "\n".join(parts), WIDTH, top + high + 54,
        f"A list of {len(values)} nodes: each holds a value and the address of the next, and the last holds 0.",
        "Boxes in device memory, each with a value and an address; an arrow leads from each address to the node there.",
    )  # fmt: skip


def _arrow(begin: float, end: float, top: float) -> str:
    """From the address in a node, over the top, to the node that lies there."""
    b, e, t = coordinate(begin), coordinate(end), coordinate(top)
    head = f"M{coordinate(end - 4)} {coordinate(top - 8)}L{e} {t}L{coordinate(end + 4)} {coordinate(top - 8)}z"
    return (
        f'<path d="M{b} {t}C{b} {coordinate(top - 42)} {e} {coordinate(top - 42)} {e} {coordinate(top - 6)}" '
        f'fill="none" stroke="{INK}" stroke-width="1.4"/><path d="{head}" fill="{INK}"/>'
    )
