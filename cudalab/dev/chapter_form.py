"""The form of a chapter: its parts in order, headings without gaps, short cells, summaries of figures, links that lead
somewhere, and no word before it is explained.

The start page, chapter 00, introduces the form and has one of its own: for it, links and headings are looked at alone.
``terms.toml`` says which cells explain a word. A chapter may use it from there on, or anywhere when a chapter that
it builds on, as its first cell links them, explains it. The first cell, which announces, headings, what is folded
away, the closing section, and what points to another chapter or says "below", are not looked at.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

FIRST = "00"
MOST_LINES = 25
MINUTES = re.compile(r"\bAbout (\d+) minutes, and (twenty|a quarter of an hour) for the \*\*Now you\*\* cells\.")
TITLE_PARTS = (
    r"# \S",
    r"\*\*What you'll do\*\*",
    r"\*\*What you'll learn\*\*",
    r"\*\*What you'll need\*\*",
    MINUTES.pattern,
)
COVERS = re.compile(r"\*\*Covers\*\*.*https://docs\.nvidia\.com/cuda/", re.DOTALL)
SECTIONS = ("## What goes wrong", "## Check yourself", "## Key points", "### 要点", "## Where to go next")
CLOSING = ("../exercises/", "**Next chapter:**", "**In the guide:**")
WORDS_A_MINUTE, MINUTES_A_CELL, MINUTES_A_TASK = 200, 0.5, 4
"""How fast a learner reads; what running a cell and looking at what it shows takes, and a **Now you**."""
MOST_SLACK = 1.6
"""A chapter says at least the minutes that these give, and at most so many times as many."""
LEAST_MISTAKES = 2
QUESTIONS = range(3, 6)
WITHOUT_EXERCISES = frozenset({"09", "21"})
"""Chapters whose exercises are still to come, and the last one, which joins the others."""

_HEADING = re.compile(r"^(#+) +(.+?) *$", re.MULTILINE)
_FENCED = re.compile(r"```.*?```", re.DOTALL)
_FOLDED = re.compile(r"<details>.*?</details>", re.DOTALL)
_LINK = re.compile(r"\]\((?P<to>(?!https?:|attachment:)[^)\s]+)\)")
_CODE = re.compile(r"`[^`\n]+`")
_POINTER = re.compile(r"[^.:;|\n]*\b(?:[Cc]hapters? \d\d|below)\b[^.:;|\n]*")
_BUILDS_ON = re.compile(r"\]\((?:\.\./notebooks/)?(\d\d)_\w+\.ipynb\)")


def broken(path: Path, notebook: Any) -> Iterator[tuple[str, str]]:
    """Cell and rule, for every rule about the form that the chapter in ``path`` breaks."""
    markdown = [cell for cell in notebook.cells if cell.cell_type == "markdown"]
    yield from _headings(markdown)
    yield from _links(path, markdown)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            yield from _code_rules(cell, path.name[:2])
    if path.name[:2] != FIRST:
        yield from _parts(notebook.cells, path.name[:2])
        yield from _words(path, markdown)


def _headings(cells: Sequence[Any]) -> Iterator[tuple[str, str]]:
    before = 0
    for cell in cells:
        for marks, text in _HEADING.findall(_FENCED.sub("", cell.source)):
            level = len(marks)
            if level == 1 and before:
                yield cell.id, f"a second title, {text!r}; a notebook has one heading of the first level"
            if level > before + 1:
                yield cell.id, f"the heading {text!r} is of level {level} below one of level {before}"
            before = level


def _links(path: Path, cells: Sequence[Any]) -> Iterator[tuple[str, str]]:
    anchors = _anchors(cell.source for cell in cells)
    for cell in cells:
        for found in _LINK.finditer(_CODE.sub("", _FENCED.sub("", cell.source))):
            target, _, anchor = found["to"].partition("#")
            if target and not (path.parent / target).exists():
                yield cell.id, f"links to {target}, which is not there"
            elif target.endswith(".ipynb") and anchor and anchor not in _anchors(_texts(path.parent / target)):
                yield cell.id, f"links to {target}#{anchor}, but no heading there is named so"
            if not target and anchor not in anchors:
                yield cell.id, f"links to #{anchor}, but no heading is named so"


def _anchors(texts: Iterable[str]) -> set[str]:
    """What JupyterLab calls the headings of these cells in an address."""
    return {heading.replace(" ", "-") for text in texts for _, heading in _HEADING.findall(text)}


def _code_rules(cell: Any, chapter: str) -> Iterator[tuple[str, str]]:
    lines = cell.source.count("\n") + 1
    if lines > MOST_LINES:
        yield cell.id, f"has {lines} lines; a cell has at most {MOST_LINES}"
    for output in cell.outputs:
        data = output.get("data", {})
        summary = "".join(data.get("text/plain", ""))
        if {"image/svg+xml", "image/png", "text/html"} & set(data) and (not summary or summary.startswith("<")):
            yield cell.id, "its figure has no summary in words (text/plain)"


def _parts(cells: Sequence[Any], chapter: str) -> Iterator[tuple[str, str]]:
    title = cells[0].source
    places = [found.start() if (found := re.search(part, title)) else -1 for part in TITLE_PARTS]
    for part, place in zip(TITLE_PARTS, places, strict=True):
        if place < 0:
            yield cells[0].id, f"the first cell lacks {part!r}"
    if -1 not in places and places != sorted(places):
        yield cells[0].id, "the first cell says what you'll do, learn and need in another order"
    if not COVERS.search(title):
        yield (
            cells[0].id,
            "the first cell does not say, with a link, which sections of the guide the chapter **Covers**",
        )
    code = [cell for cell in cells if cell.cell_type == "code"]
    if not code or code[0].source.rstrip().split("\n")[-1] != "cudalab.device()":
        yield (code or cells)[0].id, "the first code cell does not end with the banner, cudalab.device()"
    calls = [name for cell in code for name in re.findall(r"\bcudalab\.(\w+)\(", cell.source)]
    for name, what in {"predict": "prediction", "tune": "live control"}.items():
        if name not in calls:
            yield "", f"there is no {what} (cudalab.{name})"
    yield from _minutes(cells)
    asked = sorted({number for cell in code for number in _numbers(cell, "quiz")})
    if len(asked) not in QUESTIONS:
        yield "", f"it asks {len(asked)} questions; three to five were agreed"
    yield from _sections(cells, chapter)


def _minutes(cells: Sequence[Any]) -> Iterator[tuple[str, str]]:
    """The minutes that the first cell states against those that words, cells and tasks take."""
    stated = MINUTES.search(cells[0].source)
    if stated is None:
        return
    words = sum(len(_FOLDED.sub("", cell.source).split()) for cell in cells if cell.cell_type == "markdown")
    run = [cell for cell in cells if cell.cell_type == "code" and not cell.id.startswith("now-")]
    tasks = sum(cell.cell_type == "code" and "cudalab.check(" in cell.source for cell in cells)
    takes = words / WORDS_A_MINUTE + len(run) * MINUTES_A_CELL
    if not takes <= int(stated[1]) <= takes * MOST_SLACK:
        yield cells[0].id, f"says {stated[1]} minutes; by its words and cells it takes {takes:.0f}"
    for_tasks = {"twenty": 20, "a quarter of an hour": 15}[stated[2]]
    if abs(for_tasks - tasks * MINUTES_A_TASK) >= MINUTES_A_TASK:
        yield cells[0].id, f"says {stated[2]} for its {tasks} tasks, of {MINUTES_A_TASK} minutes each"


def _numbers(cell: Any, call: str) -> set[str]:
    return set(re.findall(r'"(\d\d\.\d+)"', cell.source)) if f"cudalab.{call}(" in cell.source else set()


def _sections(cells: Sequence[Any], chapter: str) -> Iterator[tuple[str, str]]:
    found = [
        (f"{marks} {text}", cell.id)
        for cell in cells
        if cell.cell_type == "markdown"
        for marks, text in _HEADING.findall(_FENCED.sub("", cell.source))
    ]
    names = [heading for heading, _ in found]
    missing = [section for section in SECTIONS if section not in names]
    for section in missing:
        yield "", f"the section {section!r} is missing"
    if missing:
        return
    at = [names.index(section) for section in SECTIONS]
    if at != sorted(at) or at[-1] != len(names) - 1:
        yield found[at[-1]][1], f"the chapter ends in another order than {', '.join(SECTIONS)}"
    if sum(name.startswith("### ") for name in names[at[0] : at[1]]) < LEAST_MISTAKES:
        yield found[at[0]][1], f"shows fewer than {LEAST_MISTAKES} mistakes"
    end = cells[-1].source.partition(SECTIONS[-1])[2]
    for part in CLOSING:
        if part not in end and not (part == CLOSING[0] and chapter in WITHOUT_EXERCISES):
            yield cells[-1].id, f"its last section lacks {part!r}"


# -- words -------------------------------------------------------------------------------------------------------------


@cache
def terms() -> Mapping[str, tuple[re.Pattern[str], Mapping[str, str]]]:
    """Word → how it is found in a text, and chapter → the cell that explains it."""
    table = tomllib.loads(Path(__file__).with_name("terms.toml").read_text(encoding="utf-8"))
    return {
        word: (
            re.compile(rf"\b(?:{entry['found']})", 0 if entry["found"] != entry["found"].lower() else re.I),
            entry["in"],
        )
        for word, entry in table.items()
    }


def _words(path: Path, cells: Sequence[Any]) -> Iterator[tuple[str, str]]:
    chapter = path.name[:2]
    known = builds_on(path)
    order = {cell.id: place for place, cell in enumerate(cells)}
    for word, (pattern, places) in terms().items():
        if known & places.keys():
            continue
        place = order.get(places.get(chapter, ""), len(cells))
        if chapter in places and place == len(cells):
            yield "", f"{word!r} is to be explained in the cell {places[chapter]!r}, which is not there"
        for cell in cells[1:place]:
            if found := pattern.search(_prose(cell)):
                where = (
                    f"before it is explained in {places[chapter]!r}" if chapter in places else "and explains it nowhere"
                )
                yield (
                    cell.id,
                    f"uses {found[0]!r} {where} (cudalab/dev/terms.toml; chapters known: {', '.join(sorted(known))})",
                )
                break


def builds_on(path: Path) -> frozenset[str]:
    """Numbers of the chapters that one builds on, and that these build on: those its first cell links."""
    found: set[str] = set()
    waiting = [path]
    while waiting:
        one = waiting.pop()
        for number in set(_BUILDS_ON.findall(_first_cell(one))) - found:
            found.add(number)
            waiting += path.parent.glob(f"{number}_*.ipynb")
    return frozenset(found - {path.name[:2]})


def _first_cell(path: Path) -> str:
    return _texts(path)[0]


def _texts(path: Path) -> list[str]:
    """The markdown cells of a stored notebook."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown"]


def _prose(cell: Any) -> str:
    """What a reader reads: no code, no headings, nothing folded, no targets of links, no pointer to another chapter."""
    text = _FOLDED.sub("", _FENCED.sub("", cell.source.partition(SECTIONS[-1])[0]))
    text = re.sub(r"\[[^]]*\]\([^)]*\)", "", _HEADING.sub("", text))
    return _POINTER.sub("", _CODE.sub("", text))
