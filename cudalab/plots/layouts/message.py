"""A message from one block to another: data, then a flag; and what may overtake what where a fence is missing.

Without a fence the flag's store may become visible before the data's, and the data's load may be done before the
flag's (CUDA C++ Programming Guide, "Memory Fence Functions").
"""

from __future__ import annotations

from cudalab.plots.drawing import WIDTH, Drawing, label, line, rect
from cudalab.plots.style import BLUE, GREEN, INK, QUIET, RULE, VERMILLION, tint

_WRITER, _READER, _WIDE, _HIGH = 30.0, 490.0, 290.0, 26.0
_HEAD = (
    '<marker id="msg-head" viewBox="0 0 8 8" refX="7.5" refY="4" markerWidth="6.5" markerHeight="6.5" orient="auto">'
    f'<path d="M0 0.5L8 4L0 7.5z" fill="{INK}"/></marker>'
)


def message(writer_fence: bool = True, reader_fence: bool = True) -> Drawing:
    """Draw the steps of the writer and the reader, with the fences that are there.

    Args:
        writer_fence: stands between the data and the flag.
        reader_fence: stands between the flag and the data.
    """
    parts = [
        f"<defs>{_HEAD}</defs>",
        label(_WRITER + _WIDE / 2, 12, "block 0 writes", size=10.5, anchor="middle", bold=True),
        label(_READER + _WIDE / 2, 12, "block 1 reads", size=10.5, anchor="middle", bold=True),
        label(_WRITER - 8, 78, "↓", size=14, anchor="end", fill=QUIET),
    ]
    parts += _steps(_WRITER, ("write data", "write flag = 1"), writer_fence, "may swap")
    parts += _steps(_READER, ("read flag until it is 1", "read data"), reader_fence, "may swap")
    sure = writer_fence and reader_fence
    dash = "" if sure else "5 4"
    from_flag, to_flag = (_WRITER + _WIDE + 4, 119), (_READER - 6, 41)
    parts.append(line(*from_flag, *to_flag, INK, width=1.6, dash=dash, more=' marker-end="url(#msg-head)"'))
    parts.append(
        label((from_flag[0] + to_flag[0]) / 2, 44, "the flag is seen", size=10, anchor="middle", halo="#FFFFFF")
    )
    verdict = "then so is the data" if sure else "the data: new or old"
    colour = GREEN if sure else VERMILLION
    parts.append(label((from_flag[0] + to_flag[0]) / 2, 119, verdict, size=10, anchor="middle", fill=colour, bold=True))
    if sure:
        summary = "With a fence on both sides, whoever has seen the flag sees the data."
    elif writer_fence or reader_fence:
        side = "reader" if writer_fence else "writer"
        summary = f"Without the {side}'s fence its two steps may swap: the flag is seen, and the data may be the old."
    else:
        summary = "Without fences the steps of both may swap: the flag is seen, and the data may be the old."
    alt = "Two columns of steps, the writer's and the reader's, and an arrow from the flag's write to its read."
    return Drawing("\n".join(parts), WIDTH, 142, summary, alt)


def _steps(x: float, steps: tuple[str, str], fence: bool, without: str) -> list[str]:
    parts = []
    for y, text in zip((28.0, 106.0), steps, strict=True):
        parts.append(rect(x, y, _WIDE, _HIGH, tint(BLUE, 0.2), stroke=BLUE, radius=4))
        parts.append(label(x + _WIDE / 2, y + _HIGH / 2, text, anchor="middle"))
    if fence:
        parts.append(rect(x, 70, _WIDE, 20, tint(GREEN, 0.3), stroke=GREEN, radius=2))
        parts.append(label(x + _WIDE / 2, 80, "fence: nothing passes", size=10, anchor="middle"))
    else:
        parts.append(line(x, 80, x + _WIDE, 80, RULE, dash="3 3"))
        text = f"no fence: the two {without}"
        parts.append(label(x + _WIDE / 2, 80, text, size=10, anchor="middle", fill=VERMILLION, halo="#FFFFFF"))
    return parts
