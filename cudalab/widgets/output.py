"""What every widget of the course puts on the page.

First a static part: text (and a figure) that reads without a running kernel, on GitHub and in the rendered course.
Beside it the live part, an ipywidgets view. Nothing here asks who runs the notebook: both parts are always emitted, and
no widget state is written into the notebook.
"""

from __future__ import annotations

import html
import re

import ipywidgets
import mistune
from IPython.core.getipython import get_ipython
from IPython.display import display

from cudalab.plots.style import BLUE, GREEN, QUIET, VERMILLION

WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
_DETAILS = re.compile(r"<details>.*?</details>", re.DOTALL)

RIGHT = ("✔", GREEN)
WRONG = ("✘", VERMILLION)
NEUTRAL = ("●", BLUE)
WAITING = ("○", QUIET)


def show_text(markdown: str) -> None:
    """Emit ``markdown`` as an output of the running cell; its plain form leaves ``<details>`` (the answers) out."""
    plain = _DETAILS.sub("", markdown).strip()
    if get_ipython() is None:
        print(plain)
        return
    display({"text/markdown": markdown, "text/plain": plain}, raw=True)


def show_live(view: ipywidgets.Widget, what: str) -> None:
    """Emit a live view; where it cannot be shown, the page says ``what`` is missing."""
    if get_ipython() is None:
        return
    bundle = view._repr_mimebundle_()
    display({WIDGET_VIEW: bundle[WIDGET_VIEW], "text/plain": f"[{what}: run this cell to use it]"}, raw=True)


def message(sign: tuple[str, str], markdown: str) -> str:
    """HTML of a short message with a sign, which differs in shape as well as in colour."""
    shape, colour = sign
    text = str(mistune.html(markdown)).strip()
    text = re.sub(r"^<p>(.*)</p>$", r"\1", text, flags=re.DOTALL)
    return (
        f'<div style="border-left: 4px solid {colour}; padding: 2px 10px; margin: 4px 0; line-height: 1.45; '
        f'max-width: 48em; color: var(--jp-content-font-color1, #222)">'
        f'<b style="color: {colour}">{shape}</b>&ensp;{text}</div>'
    )


def error(exception: BaseException) -> str:
    """HTML of an exception and its notes."""
    lines = [f"{type(exception).__name__}: {exception}", *getattr(exception, "__notes__", ())]
    shape, colour = WRONG
    return (
        f'<pre style="border-left: 4px solid {colour}; padding: 2px 10px; white-space: pre-wrap">'
        f"{shape} {html.escape(chr(10).join(lines))}</pre>"
    )


class Shown:
    """Base of what a widget function returns: already on the page, so that showing it again adds nothing."""

    def _ipython_display_(self) -> None:
        pass
