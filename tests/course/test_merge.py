"""A new edition meets a learner's changes: nothing of theirs is lost, and what they left alone follows."""

import random

import nbformat
import pytest

from cudalab.course.merge import OFFER, merge, same


def notebook(**sources):
    """A notebook of code cells, by id."""
    cells = [nbformat.v4.new_code_cell(text, id=name.replace("_", "-")) for name, text in sources.items()]
    return nbformat.v4.new_notebook(cells=cells)


def shown(merged):
    return [(cell.id, cell.source) for cell in merged.notebook.cells]


BASE = {"a": "1", "b": "2", "c": "3"}


def test_what_the_learner_left_alone_follows_the_course():
    merged = merge(notebook(**BASE), notebook(**BASE), notebook(a="1", b="two", c="3"))
    assert shown(merged) == [("a", "1"), ("b", "two"), ("c", "3")] and merged.offers == ()


def test_what_the_learner_changed_stays_and_the_rest_follows():
    merged = merge(notebook(**BASE), notebook(a="mine", b="2", c="3"), notebook(a="1", b="two", c="3"))
    assert shown(merged) == [("a", "mine"), ("b", "two"), ("c", "3")] and merged.offers == ()


def test_a_cell_that_both_changed_stays_and_the_new_text_is_offered_below():
    merged = merge(notebook(**BASE), notebook(a="mine", b="2", c="3"), notebook(a="```\nnew", b="2", c="3"))
    assert [cell.source for cell in merged.notebook.cells][::2] == ["mine", "2"]
    offer = merged.notebook.cells[1]
    assert offer.cell_type == "markdown" and OFFER in offer.metadata.tags
    assert "````python\n```\nnew\n````" in offer.source
    assert merged.offers == ("a",)
    nbformat.validate(merged.notebook)


def test_a_second_edition_replaces_the_offer_of_the_first():
    first = merge(notebook(**BASE), notebook(a="mine", b="2", c="3"), notebook(a="new", b="2", c="3"))
    second = merge(notebook(a="new", b="2", c="3"), first.notebook, notebook(a="newer", b="2", c="3"))
    offers = [cell.source for cell in second.notebook.cells if cell.cell_type == "markdown"]
    assert len(offers) == 1 and "newer" in offers[0]
    third = merge(notebook(a="newer", b="2", c="3"), second.notebook, notebook(a="newer", b="2", c="three"))
    assert [cell.source for cell in third.notebook.cells if cell.cell_type == "markdown"] == offers


def test_own_cells_stay_behind_their_neighbour_and_new_ones_come_in():
    mine = notebook(a="1", own="note", b="2", c="3")
    merged = merge(notebook(**BASE), mine, notebook(a="1", fresh="x", b="2", c="3", last="y"))
    assert [name for name, _ in shown(merged)] == ["a", "fresh", "own", "b", "c", "last"]


def test_deleted_cells_stay_deleted_and_dropped_ones_go_unless_they_were_changed():
    merged = merge(notebook(**BASE), notebook(b="mine", c="3"), notebook(a="1"))
    assert shown(merged) == [("b", "mine")]


@pytest.mark.parametrize(
    "mine, new, order",
    [
        (["c", "a", "b"], ["a", "b", "c"], ["c", "a", "b"]),  # the learner moved
        (["a", "b", "c"], ["c", "a", "b"], ["c", "a", "b"]),  # the course moved
        (["b", "a", "c"], ["c", "a", "b"], ["b", "a", "c"]),  # both: the learner's order
    ],
)
def test_cells_stand_in_the_order_of_whoever_moved_them(mine, new, order):
    merged = merge(
        notebook(**BASE),
        notebook(**{name: BASE[name] for name in mine}),
        notebook(**{name: BASE[name] for name in new}),
    )
    assert [name for name, _ in shown(merged)] == order


def test_outputs_stay_with_the_text_that_made_them():
    mine = notebook(**BASE)
    for cell in mine.cells:
        cell.outputs = [nbformat.v4.new_output("stream", text=cell.source)]
    merged = merge(notebook(**BASE), mine, notebook(a="1", b="two", c="3"))
    assert [len(cell.outputs) for cell in merged.notebook.cells] == [1, 0, 1]


def test_random_editions_and_changes_never_lose_what_the_learner_wrote():
    draw = random.Random(12)
    for _ in range(300):
        base = {f"c{n}": f"text {n}" for n in range(draw.randrange(6))}
        mine, new = dict(base), dict(base)
        for side, word in ((mine, "mine"), (new, "new")):
            for number in range(draw.randrange(4)):
                name = draw.choice([*base, f"{word}{number}"])
                if draw.random() < 0.3:
                    side.pop(name, None)
                else:
                    side[name] = f"{word} {number}"
        shuffled = dict(draw.sample(list(mine.items()), len(mine))) if draw.random() < 0.3 else mine
        merged = merge(notebook(**base), notebook(**shuffled), notebook(**new)).notebook
        sources = {cell.id: cell.source for cell in merged.cells}
        assert len(sources) == len(merged.cells)
        for name, text in mine.items():
            if text != base.get(name):
                assert sources[name] == text
        for name, text in new.items():
            if text != base.get(name) and (name in mine or name not in base):
                assert sources[name] == text or any(text in source for source in sources.values())
        nbformat.validate(merged)
    assert same(nbformat.v4.new_code_cell("a\n"), nbformat.v4.new_code_cell("a"))
