"""Drawings of layouts, orders and paths: what they count, what they say, and what they refuse to draw."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from cudalab.plots import plot
from cudalab.plots.layouts.struct import offsets

DRAWINGS = {
    "rows": lambda: plot.rows(6, 8, 4),
    "rows with a wrong step": lambda: plot.rows(6, 8, 4, step=6),
    "slices": lambda: plot.rows(5, 8, 3, depth=2),
    "struct": lambda: plot.struct({"float value": 4, "Node* next": 8}),
    "array of structs": lambda: plot.struct({"float x": 4, "float y": 4}, count=4),
    "nodes": lambda: plot.nodes([10, 20, 30]),
    "bank layout": lambda: plot.bank_layout([32, 33], column=5),
    "warp reads": lambda: plot.warp_reads([1, 16, 32]),
    "tiles": lambda: plot.tiles(step=1),
    "register tile": lambda: plot.register_tile(),
    "levels": lambda: plot.levels([32, 128, 1024, 2048]),
    "barriers": lambda: plot.barriers(first=False),
    "queue": lambda: plot.queue(wait=True),
}


@pytest.fixture(params=DRAWINGS)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_a_drawing_says_in_a_sentence_what_it_shows(name):
    drawing = DRAWINGS[name]()
    root = ElementTree.fromstring(drawing.svg())
    assert root[0].text == drawing.alt and drawing.alt.endswith(".")
    assert drawing.summary.endswith(".") and "\n" not in drawing.summary


def test_nothing_lies_outside_of_a_drawing(name):
    drawing = DRAWINGS[name]()
    for part in ElementTree.fromstring(drawing.svg()).iter("{http://www.w3.org/2000/svg}rect"):
        x, y, width, height = (float(part.get(key, "0")) for key in ("x", "y", "width", "height"))
        assert x >= 0 and y >= 0 and x + width <= drawing.width and y + height <= drawing.height


def test_each_byte_bears_the_row_for_which_it_is_read():
    titles = re.findall(r"<title>(byte .+?)</title>", plot.rows(6, 8, 3, step=6).svg())
    assert "byte 5: row 0, byte 5; read as row 0, byte 5" in titles
    assert "byte 6: padding; read as row 1, byte 0" in titles
    assert "byte 8: row 1, byte 0; read as row 1, byte 2" in titles
    assert "byte 23: padding; not read" in titles


def test_rows_says_how_far_a_wrong_step_slips():
    assert "2 bytes" not in plot.rows(6, 8, 4).summary
    assert "too early: row 1 by 2, row 2 by 4, row 3 by 6." in plot.rows(6, 8, 4, step=6).summary
    assert "slice *s* at byte 24·*s*" in plot.rows(5, 8, 3, depth=2).summary


@pytest.mark.parametrize(
    "members, places, size",
    [
        ({"value": 4, "next": 8}, {"value": 0, "next": 8}, 16),
        ({"next": 8, "value": 4}, {"next": 0, "value": 8}, 16),
        ({"a": 1, "b": 2, "c": 1}, {"a": 0, "b": 2, "c": 4}, 6),
        ({"x": 4, "y": 4, "z": 4, "mass": 4}, {"x": 0, "y": 4, "z": 8, "mass": 12}, 16),
    ],
)
def test_members_lie_where_c_puts_them(members, places, size):
    assert offsets(members) == (places, size)


@pytest.mark.parametrize("length, turns", [(32, 32), (33, 1), (34, 2), (36, 4), (40, 8)])
def test_bank_layout_counts_turns(length, turns):
    drawing = plot.bank_layout([length], column=3)
    assert f"rows of {length}: **{turns}**" in drawing.summary
    held = re.findall(r"<title>lane \d+ reads word \d+, in bank (\d+)</title>", drawing.svg())
    assert max(held.count(bank) for bank in held) == turns


@pytest.mark.parametrize(
    "width, said", [(1, "32 sectors of A and 1 sector of B"), (16, "2 sectors of A and 2 sectors of B"),
                    (256, "1 sector of A and 4 sectors of B")],
)  # fmt: skip
def test_warp_reads_counts_sectors(width, said):
    assert f"blocks {width} wide: {said}" in plot.warp_reads([width]).summary


def test_barriers_names_the_race_of_each_one_that_is_missing():
    assert "no warp reads a tile that is not complete" in plot.barriers().summary
    late, over = plot.barriers(first=False), plot.barriers(second=False)
    assert "not loaded yet" in late.summary and "it reads what is not loaded yet" in late.svg()
    assert "still reads" in over.summary and "it overwrites what is still read" in over.svg()
    assert "; it " not in plot.barriers().svg()


def test_queue_says_what_the_clock_has_seen():
    assert "it has seen 4 of 17 units" in plot.queue(4, launch=1, kernel=4).summary
    assert "the whole of the work" in plot.queue(wait=True).summary


def test_banks_takes_the_distance_of_neighbouring_lanes():
    assert "**32** wavefronts" in plot.banks(stride=128).summary
    assert "**2** wavefronts, half a warp at a time, without bank conflicts" in plot.banks(stride=136, size=8).summary


@pytest.mark.parametrize(
    "draw, match",
    [
        (lambda: plot.rows(9, 8, 1), "got width 9, pitch 8"),
        (lambda: plot.rows(4, 8, 20), "1 to 12 rows"),
        (lambda: plot.rows(4, 8, 2, step=0), "at least 1 byte"),
        (lambda: plot.struct({}), "at least one member"),
        (lambda: plot.struct({"odd": 3}), "got odd: 3"),
        (lambda: plot.struct({"x": 16}, count=9), "at most 128 bytes"),
        (lambda: plot.nodes([]), "1 to 6 values"),
        (lambda: plot.bank_layout([]), "one or two tiles"),
        (lambda: plot.bank_layout([64]), "32 to 40 words"),
        (lambda: plot.bank_layout([33], column=32), "0 to 31"),
        (lambda: plot.warp_reads([]), "1 to 3 widths"),
        (lambda: plot.warp_reads([12]), "power of two"),
        (lambda: plot.warp_reads([16], k=32), "0 to 31"),
        (lambda: plot.tiles(9), "got height 9"),
        (lambda: plot.tiles(step=4), "no step 4"),
        (lambda: plot.register_tile(9), "1 to 8 elements"),
        (lambda: plot.register_tile(thread=(4, 0)), "not in a block"),
        (lambda: plot.levels([1, 2, 3]), "4 positive amounts"),
        (lambda: plot.queue(0), "at least 1"),
        (lambda: plot.banks(), "1 to 32 lanes"),
        (lambda: plot.banks([0], stride=4), "either access or stride"),
    ],
)
def test_what_cannot_be_drawn_is_said(draw, match):
    with pytest.raises(ValueError, match=match):
        draw()
