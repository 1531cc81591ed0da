"""The card: the one look of everything that is reported, errors and findings, hazards and results of checks.

It says what is wrong (or good), where, which rule, and what to try; all else is one click away. Good news is green
with a tick, a mistake red with a cross, a warning purple with a triangle: told by shape as well as by colour. Grounds
are translucent, so that a dark theme shows through.

What only a notebook knows, in which cell a line stands and how the learner calls a stream, it tells by setting
``cell_of_file`` and ``stream_names`` and filling ``cell_of_kernel``.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

State = Literal["wrong", "warning", "good"]

cell_of_file: Callable[[str], int | None] = lambda file: None  # noqa: E731
"""The number of the cell that Python knows by a file name; None outside of a notebook."""
cell_of_kernel: dict[str, int] = {}
"""The number of the ``%%cuda`` cell that bound a kernel last, by the kernel's name."""

stream_names: Callable[[], Mapping[int, str]] = dict
"""The learner's names of streams, by handle, so that reports call them as timelines do."""

_SIGNS: dict[State, tuple[str, str]] = {
    "wrong": ("✘", "#D55E00"),
    "warning": ("▲", "#A8558A"),
    "good": ("✔", "#009E73"),
}
_BOX = (
    "border:1px solid rgba(128,128,128,.35);border-left:6px solid {colour};border-radius:4px;padding:6px 10px;"
    "margin:8px 0;text-align:left;max-width:60em;line-height:1.45"
)
_CODE = (
    "margin:4px 0;padding:3px 6px;background:rgba(128,128,128,.14);border-radius:3px;overflow-x:auto;text-align:left"
)
_BADGE = "color:#fff;border-radius:3px;padding:1px 6px;font-size:85%;white-space:nowrap"
_FACT = "display:inline-block;margin-right:1.4em;font-variant-numeric:tabular-nums"
_ADVICE = "margin-top:4px;padding-left:6px;border-left:3px solid #009E73"


def card(
    state: State,
    title: str,
    *,
    kind: str = "",
    where: str = "",
    code: Sequence[tuple[int, str]] = (),
    rule: str = "",
    facts: Sequence[tuple[str, str]] = (),
    detail: str = "",
    advice: str = "",
    more: tuple[str, str] | None = None,
    body: str = "",
) -> str:
    """HTML of one report; all texts but the body are plain.

    Args:
        state: how it looks.
        title: what: one sentence.
        kind: which tool says so: ``memcheck``, ``hazard``, ``error``.
        where: the place: ``In[7], line 3``.
        code: the learner's lines with their numbers, 0 where that is not known.
        rule: which rule.
        facts: names and values: thread, address, how often.
        detail: more about this case.
        advice: what to try.
        more: a heading and a text that opens on a click.
        body: HTML of what has more than one finding, the table of a check.
    """
    sign, colour = _SIGNS[state]
    badge = f" <span style='{_BADGE};background:{colour}'>"
    parts = [
        f"<div class='cudalab-card' data-state='{state}' role='note' style='{_BOX.format(colour=colour)}'>",
        f"<div><b><span style='color:{colour}'>{sign}</span> {_text(title)}</b>",
        f"{badge}{_text(kind)}</span>" if kind else "",
        f" <span style='display:inline-block;opacity:.75'>{_text(where)}</span></div>" if where else "</div>",
    ]
    parts.append(passage(code=code, rule=rule, facts=facts, detail=detail, advice=advice))
    parts.append(body)
    if more is not None:
        heading, text = more
        parts.append(
            f"<details style='margin-top:4px'><summary style='cursor:pointer;opacity:.75'>{_text(heading)}</summary>"
            f"<pre style='{_CODE}'>{html.escape(text)}</pre></details>"
        )
    return "".join([*parts, "</div>"])


def passage(
    *,
    where: str = "",
    code: Sequence[tuple[int, str]] = (),
    rule: str = "",
    facts: Sequence[tuple[str, str]] = (),
    detail: str = "",
    advice: str = "",
) -> str:
    """HTML of what is said of one place; the body of a card that tells of several places has one of each."""
    parts = [f"<div style='margin-top:6px'>{_text(where)}</div>"] if where else []
    if code:
        lines = (f"<span style='opacity:.6'>{number or '':>4} │ </span>{html.escape(line)}" for number, line in code)
        parts.append(f"<pre style='{_CODE}'>" + "\n".join(lines) + "</pre>")
    if rule:
        parts.append(f"<div><b>Rule:</b> {_text(rule)}</div>")
    cells = (
        f"<span style='{_FACT}'><span style='opacity:.65'>{name}</span> {_text(value)}</span>" for name, value in facts
    )
    parts += ["<div>", *cells, "</div>"] if facts else []
    if detail:
        parts.append(f"<div style='margin-top:4px'>{_text(detail)}</div>")
    if advice:
        parts.append(f"<div style='{_ADVICE}'><b>Try:</b> {_text(advice)}</div>")
    return "".join(parts)


def _text(text: str) -> str:
    """Escaped; indented lines, which quote code, keep their spaces."""
    lines = text.strip("\n").split("\n")
    return "<br>".join(
        f"<code style='white-space:pre-wrap'>{html.escape(line)}</code>" if line[:1] in " \t" else html.escape(line)
        for line in lines
    )
