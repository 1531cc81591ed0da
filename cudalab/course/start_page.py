"""The page that JupyterLab opens with: what comes next, the map of the course, and what is done.

It is a piece of HTML in JupyterLab's own colours, light and dark. Links and buttons say what they are for in ``data-``
attributes; the JupyterLab extension (``cudalab/labextension``) acts on them.
"""

from __future__ import annotations

from html import escape

from cudalab.course.outline import Chapter, Part, comes_next, outline
from cudalab.course.working_copy import BACKUPS, WorkingCopy


def render(copy: WorkingCopy) -> str:
    """The page for a working copy, as it stands now."""
    chapters = outline(copy)
    rows = "".join(_row(chapter) for chapter in chapters if chapter.parts)
    planned = ", ".join(f"{chapter.number} {escape(chapter.title)}" for chapter in chapters if not chapter.parts)
    backups = (
        f"What was there before you started over is in the folder <code>{BACKUPS}</code>."
        if (copy.folder / BACKUPS).is_dir()
        else ""
    )
    return f"""<article class="cudalab-start">
<h1>CUDA C++, hands on</h1>
{_next(chapters)}
<table>
<thead><tr><th></th><th>Chapter</th><th>Time</th><th>Answered</th><th>Exercises</th><th></th></tr></thead>
<tbody>{rows}</tbody>
</table>
<p class="cudalab-quiet">★ marks the core of the course.{f" Planned: {planned}." if planned else ""}</p>
<p class="cudalab-quiet">This is your own copy. Outputs appear as you run the cells; your edits and answers stay when
the course is updated. {backups}</p>
<p class="cudalab-quiet">Every answer and every attempt is kept. Save them as
<button data-export="csv">a table</button> or <button data-export="json">with your texts</button>, or
<button data-reset="all">begin to count anew …</button></p>
</article>"""


def _next(chapters: list[Chapter]) -> str:
    part = comes_next(chapters)
    if part is None:
        return '<p class="cudalab-next">You have answered everything there is. Well done.</p>'
    chapter = next(chapter for chapter in chapters if part in chapter.parts)
    verb = "Go on with" if part.last >= 0 else "Begin with" if all(_untouched(other) for other in chapters) else "Next"
    what = escape(chapter.title) if part == chapter.chapter else f"{escape(chapter.title)}: exercises"
    minutes = f" · {chapter.minutes} minutes" if chapter.minutes and part == chapter.chapter else ""
    return (
        f'<p class="cudalab-next"><a class="cudalab-button" data-open="{escape(part.name)}" href="#">'
        f"{verb}: {chapter.number} {what}</a><span>{_told(part)}{minutes}</span></p>"
    )


def _untouched(chapter: Chapter) -> bool:
    return all(part.last < 0 for part in chapter.parts)


def _row(chapter: Chapter) -> str:
    star = ' <span class="cudalab-core" title="part of the core">★</span>' if chapter.core else ""
    title = escape(chapter.title)
    if chapter.chapter is not None:
        title = f'<a data-open="{escape(chapter.chapter.name)}" href="#">{title}</a>'
    time = f"{chapter.minutes} min" if chapter.minutes else ""
    menu = "".join(_menu(part, chapter) for part in chapter.parts)
    return (
        f'<tr data-chapter="{chapter.number}"><td>{chapter.number}</td><td>{title}{star}</td><td>{time}</td>'
        f"<td>{_bar(chapter.chapter)}</td><td>{_exercises(chapter.exercises)}</td>"
        f'<td><details class="cudalab-menu"><summary title="Changes, and starting over" aria-label="Changes of chapter '
        f'{chapter.number}, and starting it over">⋯</summary><div>{menu}</div></details></td></tr>'
    )


def _exercises(part: Part | None) -> str:
    if part is None:
        return ""
    return f'<a data-open="{escape(part.name)}" href="#">exercises</a> {_bar(part)}'


def _bar(part: Part | None) -> str:
    if part is None or not part.total:
        return ""
    state = " cudalab-done" if part.done else ""
    return (
        f'<span class="cudalab-bar{state}" role="img" aria-label="{_told(part)}" title="{_told(part)}">'
        f'<span style="width: {100 * part.answered // part.total}%"></span></span>'
        f'<span class="cudalab-count">{"✔" if part.done else f"{part.answered}/{part.total}"}</span>'
    )


def _told(part: Part) -> str:
    return f"{part.answered} of {part.total} answered" if part.total else ""


def _menu(part: Part, chapter: Chapter) -> str:
    what = "chapter" if part == chapter.chapter else "exercises"
    name = escape(part.name)
    return (
        f'<button data-changes="{name}">What have I changed in the {what}?</button>'
        f'<button data-start-over="{name}">Start the {what} over …</button>'
    )
