"""A new edition of a notebook meets what the learner made of the edition before: a three-way merge, cell by cell.

Cells are known by their ids, which the course keeps from edition to edition and JupyterLab while a cell is edited. So
no cell has to be guessed by its likeness, as tools must that merge any two notebooks (nbdime). What the learner did
not touch follows the course. What they changed, added, moved or deleted stays as they left it; where the course has
changed the same cell, its new text is offered in a Markdown cell below theirs.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import nbformat

from cudalab.course.edition import Notebook

Cell = Any  # nbformat.NotebookNode

OFFER = "cudalab-offer"
"""The tag of a cell that offers the course's new text."""
_SUFFIX = "-new-edition"
_LANGUAGE = {"code": "python", "markdown": "markdown", "raw": ""}


@dataclass(frozen=True)
class Merged:
    """The result of a merge."""

    notebook: Notebook
    offers: tuple[str, ...]
    """Ids of the cells that both sides changed; each is followed by an offer."""


def same(one: Cell, other: Cell) -> bool:
    """Do two cells say the same? Outputs and metadata do not count."""
    return bool(one.cell_type == other.cell_type and one.source.strip() == other.source.strip())


def merge(base: Notebook, mine: Notebook, new: Notebook) -> Merged:
    """The learner's notebook ``mine``, which began as ``base``, brought to the edition ``new``."""
    was, own, coming = ({cell.id: cell for cell in notebook.cells} for notebook in (base, mine, new))
    cells: list[Cell] = []
    offers: list[str] = []
    for name in _order(list(was), list(own), list(coming)):
        cell = _merged_cell(was.get(name), own.get(name), coming.get(name))
        if cell is None or (OFFER in cell.metadata.get("tags", []) and name.removesuffix(_SUFFIX) in offers):
            continue  # the second: an earlier offer for a cell that has just got a newer one
        cells.append(cell)
        if name in own and _both_changed(was.get(name), own[name], coming.get(name)):
            offers.append(name)
            cells.append(_offer(coming[name]))
    result = copy.deepcopy(mine)
    result.metadata.pop("widgets", None)
    result.cells = cells
    return Merged(result, tuple(offers))


def _merged_cell(was: Cell | None, own: Cell | None, coming: Cell | None) -> Cell | None:
    """What stands in the place of one cell; None where it is gone."""
    if own is None:  # new in this edition, or deleted by the learner
        return coming if was is None else None
    if coming is None:  # the learner's own, or dropped by the course
        return None if was is not None and same(own, was) else own
    kept = copy.deepcopy(own)
    if was is not None and same(own, was) and not same(own, coming):
        return coming  # its outputs, if any, belong to the old text
    tags = dict.fromkeys([*coming.metadata.get("tags", []), *own.metadata.get("tags", [])])
    kept.metadata.update(coming.metadata, **({"tags": list(tags)} if tags else {}))
    return kept


def _both_changed(was: Cell | None, own: Cell, coming: Cell | None) -> bool:
    if coming is None or same(own, coming):
        return False
    return was is None or not (same(own, was) or same(coming, was))


def _order(was: Sequence[str], own: Sequence[str], coming: Sequence[str]) -> list[str]:
    """The ids of all cells in their order: the learner's, unless only the course has moved cells."""
    if _moved(was, coming) and not _moved(was, own):
        return _weave(coming, own)
    return _weave(own, coming)


def _moved(was: Sequence[str], now: Sequence[str]) -> bool:
    return [name for name in was if name in set(now)] != [name for name in now if name in set(was)]


def _weave(order: Sequence[str], other: Sequence[str]) -> list[str]:
    """``order``, with what only ``other`` has put behind the cell that it follows there."""
    woven = list(order)
    place = 0
    for name in other:
        if name not in woven:
            woven.insert(place, name)
        place = woven.index(name) + 1
    return woven


def _offer(coming: Cell) -> Cell:
    longest = max((len(run) for run in re.findall(r"`+", coming.source)), default=0)
    fence = "`" * max(3, longest + 1)
    text = (
        "**The course has a new edition of the cell above.** Yours is kept as it is. Take over what you like, then "
        "delete this cell.\n\n"
        f"<details><summary>The new edition</summary>\n\n"
        f"{fence}{_LANGUAGE.get(coming.cell_type, '')}\n{coming.source}\n{fence}\n\n</details>"
    )
    cell = nbformat.v4.new_markdown_cell(text, metadata={"tags": [OFFER]})
    cell.id = coming.id[: 64 - len(_SUFFIX)] + _SUFFIX
    return cell
