"""Pictures of a notebook as a learner sees it.

    python -m tests.browser.look notebooks/04_device_memory.ipynb out.png          # as stored
    python -m tests.browser.look notebooks/04_device_memory.ipynb out.png --run    # after Run All
    python -m tests.browser.look NOTEBOOK out.png --run --cell 12 --cell now-grid  # these cells only
    python -m tests.browser.look NOTEBOOK out.png --run --dark --width 900 --width 1600 --tall 1400

However many pictures are asked for, the cells run once. A picture is as tall as the notebook, or ``--tall`` pixels, and
then there are as many as the notebook needs. Where there is more than one, each file's name says what it shows:
``out-900-dark-03.png`` is the third piece. Errors that the page or a cell reports are printed, and what is cut.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.browser.notebook_page import NotebookPage, chromium, notebook_page
from tests.browser.server import serve

_MOST = 16_000  # pixels; Chromium draws nothing taller
_BARS = 160  # pixels of menu, toolbar and status bar
_HEIGHT = "() => [...document.querySelectorAll('.jp-Cell')].reduce((sum, cell) => sum + cell.offsetHeight, 0)"
_OUTER = ".jp-WindowedPanel-outer"
# What stands in a cell's outputs and is wider than the box that scrolls or hides it.
_CUT = """() => [...document.querySelectorAll('.jp-Cell')].flatMap((cell, number) =>
    [...cell.querySelectorAll('.jp-Cell-outputWrapper *')]
        .filter(part => getComputedStyle(part).overflowX !== 'visible' && part.clientWidth
            && part.scrollWidth > part.clientWidth + 1)
        .map(part => `cell ${number}: ${part.tagName}.${part.classList[0] ?? ''} is ${part.scrollWidth} pixels wide, `
            + `of which ${part.clientWidth} show: ${part.textContent.trim().slice(0, 60)}`))"""


def pictures(opened: NotebookPage, target: Path, cells: list[str], tall: int | None, width: int) -> Iterator[Path]:
    """Write the pictures of one width and theme."""
    page = opened.page
    page.mouse.move(0, 0)  # no note of a timeline is open
    for _ in range(2):  # a scroll bar that goes away changes the height
        height = min(page.evaluate(_HEIGHT) + _BARS, _MOST)
        page.set_viewport_size({"width": width, "height": min(height, (tall or _MOST) + _BARS)})
        page.wait_for_timeout(700)
    if cells:
        for cell in cells:
            found = page.locator(".jp-Notebook .jp-Cell").nth(opened.cell(cell))
            found.screenshot(path=str(path := named(target, f"cell-{cell}" if len(cells) > 1 else "")))
            yield path
        return
    outer = page.locator(_OUTER).first
    whole, shown = page.evaluate(_HEIGHT), outer.evaluate("outer => outer.clientHeight")
    for number, top in enumerate(range(0, whole, shown)):
        outer.evaluate("(outer, top) => { outer.scrollTop = top }", top)
        page.wait_for_timeout(50)
        outer.screenshot(path=str(path := named(target, f"{number:02}" if whole > shown else "")))
        yield path


def named(picture: Path, *parts: str) -> Path:
    return picture.with_stem("-".join([picture.stem, *filter(None, parts)]))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("notebook", type=Path)
    parser.add_argument("picture", type=Path)
    parser.add_argument("--run", action="store_true", help="Run All first")
    parser.add_argument("--press", action="append", default=[], help="then press the button with this label")
    parser.add_argument("--reopen", action="store_true", help="then save, end the kernel and open the page again")
    parser.add_argument("--cell", action="append", default=[], help="only this cell: its id, or its number from 0")
    parser.add_argument("--device", default="sim")
    parser.add_argument("--width", type=int, action="append", help="pixels; may be given again (default 1280)")
    parser.add_argument("--tall", type=int, help="most pixels of a picture's height")
    parser.add_argument("--dark", action="store_true", help="pictures in the dark theme, too")
    parser.add_argument("--timeout", type=float, default=300)
    args = parser.parse_args()
    widths = args.width or [1280]
    with tempfile.TemporaryDirectory() as folder:
        # a copy, so that a run changes nothing
        shutil.copy(args.notebook, folder)
        with (
            serve(Path(folder), device=args.device) as server,
            chromium() as browser,
            notebook_page(browser, server, width=widths[0]) as opened,
        ):
            opened.open(args.notebook.name)
            if args.run:
                opened.run_all(timeout=args.timeout)
            for label in args.press:
                opened.press(label)
                opened.wait_idle(timeout=args.timeout)
            if args.reopen:
                opened.reopen_without_kernel()
            for text in [*opened.errors, *opened.tracebacks()]:
                print(text)
            for theme in ("light", "dark") if args.dark else ("light",):
                opened.choose_theme(theme)
                for width in widths:
                    several = [str(width)] if len(widths) > 1 else []
                    target = named(args.picture, *several, "dark" if theme == "dark" else "")
                    for path in pictures(opened, target, args.cell, args.tall, width):
                        print(path)
                    if theme == "light":
                        print(*opened.page.evaluate(_CUT), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
