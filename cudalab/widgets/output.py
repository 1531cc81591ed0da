"""What every widget of the course puts on the page.

First a static part: text (and a figure) that reads without a running kernel, on GitHub and in the rendered course.
Beside it the live part, an ipywidgets view. Nothing here asks who runs the notebook: both parts are always emitted, and
no widget state is written into the notebook.
"""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from functools import cache
from importlib import resources
from string import ascii_uppercase
from typing import Literal

import ipywidgets
import mistune
from IPython.core.getipython import get_ipython
from IPython.display import display

from cudalab.plots.style import BLUE, GREEN, QUIET, VERMILLION

WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
_DETAILS = re.compile(r"<details>.*?</details>", re.DOTALL)
_TAGS = re.compile(r"</?div[^>]*>\n?")
_MARKUP = re.compile(r"`([^`]*)`|\*\*?([^*\s](?:[^*]*[^*\s])?)\*\*?")

RIGHT = ("✔", GREEN)
WRONG = ("✘", VERMILLION)
NEUTRAL = ("●", BLUE)
WAITING = ("○", f"var(--jp-content-font-color2, {QUIET})")

Look = Literal["", "chosen", "right", "wrong"]
_ICONS: dict[Look, str] = {"": "circle-o", "chosen": "dot-circle-o", "right": "check", "wrong": "times"}
_MANY_ICONS: dict[Look, str] = _ICONS | {"": "square-o", "chosen": "check-square-o"}


def show_text(markdown: str) -> None:
    """Emit ``markdown`` as an output of the running cell; its plain form leaves ``<details>`` (the answers) out."""
    plain = _TAGS.sub("", _DETAILS.sub("", markdown)).strip()
    if get_ipython() is None:
        print(plain)
        return
    display({"text/markdown": markdown, "text/plain": plain}, raw=True)


def show_live(view: ipywidgets.Widget, what: str) -> None:
    """Emit a live view; where it cannot be shown, the page says ``what`` is missing. In JupyterLab a view whose kernel
    is gone says the same (``labextension/static/no_kernel.js``)."""
    if get_ipython() is None:
        return
    bundle = view._repr_mimebundle_()
    advice = f"{what}: run this cell again to use them"
    display(
        {
            WIDGET_VIEW: bundle[WIDGET_VIEW],
            "text/html": f'<p style="opacity: 0.7">{html.escape(advice)}</p>',
            "text/plain": f"[{advice}]",
        },
        raw=True,
    )


def message(sign: tuple[str, str], markdown: str) -> str:
    """HTML of a short message with a sign, which differs in shape as well as in colour."""
    shape, colour = sign
    text = str(mistune.html(markdown)).strip()
    text = re.sub(r"^<p>(.*)</p>$", r"\1", text, flags=re.DOTALL)
    return (
        f'<div role="status" style="border-left: 4px solid {colour}; padding: 2px 10px; margin: 4px 0; '
        f'line-height: 1.45; max-width: 48em; color: var(--jp-content-font-color1, #222)">'
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


def listed(lines: Sequence[str]) -> list[str]:
    """Lines of Markdown that are hidden where buttons beside them say the same."""
    return ['<div class="cudalab-listed">', "", *lines, "", "</div>"]


@cache
def _style_sheet() -> str:
    return (resources.files("cudalab.widgets") / "controls.css").read_text(encoding="utf-8")


class Options:
    """Answers as buttons, each with its letter; how one looks is told by its icon, its border and its colour."""

    def __init__(self, texts: Sequence[str], *, several: bool = False) -> None:
        self._icons = _MANY_ICONS if several else _ICONS
        self.buttons = [
            ipywidgets.Button(description=f"{letter} · {plain(text)}", icon=self._icons[""], tooltip=plain(text))
            for letter, text in zip(ascii_uppercase, texts, strict=False)
        ]

    def look(self, place: int, look: Look) -> None:
        """Make the button at ``place`` look chosen, right, wrong, or like nothing in particular."""
        button = self.buttons[place]
        button.icon = self._icons[look]
        button.remove_class("cudalab-chosen").remove_class("cudalab-wrong").remove_class("cudalab-right")
        if look:
            button.add_class(f"cudalab-{look}")

    def lock(self) -> None:
        for button in self.buttons:
            button.disabled = True

    def view(self, *below: ipywidgets.Widget) -> ipywidgets.Widget:
        """The buttons, side by side where they fit, and what stands below them."""
        row = ipywidgets.HBox(self.buttons, layout=ipywidgets.Layout(flex_flow="row wrap"))
        style = ipywidgets.HTML(f"<style>{_style_sheet()}</style>", layout=ipywidgets.Layout(display="none"))
        box = ipywidgets.VBox([style, row, *below])
        box.add_class("cudalab-options")
        return box


def plain(markdown: str) -> str:
    """One line of Markdown as the text of a button, which shows no markup. A name that could be read as a word of the
    sentence is put in quotes."""

    def shown(found: re.Match[str]) -> str:
        code: str | None = found[1]
        if code is None:
            return str(found[2])
        return f"‘{code}’" if code.isalpha() and code.islower() else code

    return _MARKUP.sub(shown, markdown)


class Shown:
    """Base of what a widget function returns: already on the page, so that showing it again adds nothing."""

    def _ipython_display_(self) -> None:
        pass
