"""What a learner gets back: one HTML file with the verdicts and their own lines, which needs nothing else to be shown.

Every text in it is escaped, and the page's policy forbids scripts and anything from elsewhere.
"""

from __future__ import annotations

import re
from html import escape

from cudalab.grading.messages import ResultRecord
from cudalab.grading.scores import Score, Sheet
from cudalab.grading.settings import Settings

_LINE = re.compile(r"\bline (\d+)\b")
_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #111; }
pre { background: #f6f6f6; padding: .5rem; overflow-x: auto; font-size: 14px; line-height: 1.4; }
pre .named { background: #ffe8d6; }
pre .number { color: #666; user-select: none; }
table { border-collapse: collapse; } td, th { padding: .2rem .8rem; text-align: left; border-bottom: 1px solid #ccc; }
.note { border-left: 4px solid #D55E00; padding-left: .8rem; }
"""


def feedback(sheet: Sheet, settings: Settings, release: str) -> str:
    """The page of one student."""
    title = escape(f"{settings.title}: {sheet.student}")
    rows = "".join(
        f"<tr><td>{escape(score.exercise.id)} {escape(score.exercise.title)}</td>"
        f"<td>{score.points:g} of {score.maximum:g}</td><td>{escape(score.state)}</td></tr>"
        for score in sheet.scores
    )
    marks = settings.marks.get(sheet.student, {})
    rows += "".join(
        f"<tr><td>{escape(name)}</td><td>{marks.get(name, 0):g} of {most:g}</td><td>by hand</td></tr>"
        for name, most in settings.rubric.items()
    )
    late = (
        f"<p class='note'>{sheet.days_late} day(s) late: {sheet.kept:.0%} of the points count.</p>"
        if sheet.days_late
        else ""
    )
    body = "".join(_exercise(score) for score in sheet.scores)
    return (
        "<!DOCTYPE html>\n<html lang='en'><head><meta charset='utf-8'>"
        "<meta http-equiv='Content-Security-Policy' content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        f"<title>{title}</title><style>{_STYLE}</style></head><body><h1>{title}</h1>"
        f"<p><b>{sheet.points:g} of {sheet.maximum:g} points</b></p>{late}"
        f"<table><tr><th>Exercise</th><th>Points</th><th>State</th></tr>{rows}</table>{body}"
        f"<p>Graded with cudalab, release {escape(release)}.</p></body></html>\n"
    )


def _exercise(score: Score) -> str:
    outcome, task = score.answer.outcome, score.answer.task
    head = f"<h2>{escape(score.exercise.id)} {escape(score.exercise.title)}</h2>"
    told = f"<p class='note'>{escape(score.note)}</p>" if score.note else ""
    named: set[int] = set()
    if isinstance(outcome, ResultRecord):
        result = outcome.result()
        told = result._repr_html_()
        named = {int(number) for one in result.findings for number in _LINE.findall(one.text)}
        told += (
            "<p>In your notebook, this repeats the check: <code>"
            f"{escape(f'cudalab.check({result.exercise!r}, {score.exercise.kernel}, seed={result.seed})')}</code></p>"
        )
    return head + told + (_source(task.text, named) if task else "")


def _source(text: str, named: set[int]) -> str:
    """The learner's lines with their numbers; those that a finding names are marked."""
    lines = text.split("\n")
    width = len(str(len(lines)))
    shown = [
        f"<span class='number'>{number:>{width}} {'▶' if number in named else ' '} </span>"
        f"<span{' class=named' if number in named else ''}>{escape(line)}</span>"
        for number, line in enumerate(lines, 1)
    ]
    return f"<details open><summary>Your answer</summary><pre>{chr(10).join(shown)}</pre></details>"
