"""Pictures of a notebook as a learner sees it.

    python -m tests.browser.look notebooks/04_device_memory.ipynb out.png          # as stored, whole page
    python -m tests.browser.look notebooks/04_device_memory.ipynb out.png --run    # after Run All
    python -m tests.browser.look NOTEBOOK out.png --run --cell 12                  # one cell only

The picture is as tall as the notebook. Errors that the page or a cell reports are printed.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

from tests.browser.notebook_page import NotebookPage, chromium, notebook_page, screenshot
from tests.browser.server import serve


def whole_height(opened: NotebookPage) -> int:
    """Pixels that the open notebook needs, all of its cells drawn."""
    script = "() => [...document.querySelectorAll('.jp-Cell')].reduce((sum, cell) => sum + cell.offsetHeight, 0)"
    height: int = opened.page.evaluate(script)
    return height


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("notebook", type=Path)
    parser.add_argument("picture", type=Path)
    parser.add_argument("--run", action="store_true", help="Run All first")
    parser.add_argument("--press", action="append", default=[], help="then press the button with this label")
    parser.add_argument("--cell", type=int, help="only this cell, counted from 0")
    parser.add_argument("--device", default="sim")
    parser.add_argument("--width", type=int, default=1280)
    parser.add_argument("--timeout", type=float, default=300)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        # a copy, so that a run changes nothing
        shutil.copy(args.notebook, folder)
        with (
            serve(Path(folder), device=args.device) as server,
            chromium() as browser,
            notebook_page(browser, server, width=args.width) as opened,
        ):
            opened.open(args.notebook.name)
            if args.run:
                opened.run_all(timeout=args.timeout)
            for label in args.press:
                opened.press(label)
                opened.wait_idle(timeout=args.timeout)
            for _ in range(2):  # a scroll bar that goes away changes the height
                opened.page.set_viewport_size({"width": args.width, "height": min(whole_height(opened) + 160, 16000)})
                opened.page.wait_for_timeout(700)
            opened.page.evaluate("() => document.querySelector('.jp-Cell').scrollIntoView()")
            if args.cell is not None:
                opened.page.locator(".jp-Notebook .jp-Cell").nth(args.cell).screenshot(path=str(args.picture))
            else:
                screenshot(opened, args.picture)
            for text in [*opened.errors, *opened.tracebacks()]:
                print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
