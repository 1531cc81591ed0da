"""Figures: what they count, what they say, and that they stay readable where style sheets are dropped."""

from __future__ import annotations

import itertools
import re
from xml.etree import ElementTree

import numpy as np
import pytest

from cudalab.plots import plot
from cudalab.plots.picture import PNG_LIMIT, Picture
from cudalab.plots.style import MARKERS, number, tint
from cudalab.plots.tuning import Point, tuning

LANE = np.arange(32)

PICTURES = {
    "curve": lambda: plot.curve([1, 2, 4], [3.0, 5.5, 11.0], xlabel="stride", ylabel="time (µs), measured"),
    "bars": lambda: plot.bars({"load": 276.0, "pin": 98.5}, unit="µs a frame", kind="measured"),
    "sectors": lambda: plot.sectors({"stride 1": 4 * LANE, "stride 8": 32 * LANE}),
    "pitch": lambda: plot.pitch({100: 512, 513: 1024}),
    "memories": lambda: plot.memories(["a", "b"], ["c"], kernel="add"),
    "routes": lambda: plot.routes("pageable", "pinned", "mapped"),
    "image": lambda: plot.image({"grey": np.full((4, 6), 128, np.uint8)}),
    "roofline": lambda: plot.roofline({"add": (1 / 12, 270)}, bandwidth=4800, arithmetic=60_000, kind="modelled"),
    "tuning": lambda: tuning([Point(64, 640.0, 1258.0), Point(256, 241.5, 3335.0)], parameter="block", kind="measured"),
    "compared tuning": lambda: tuning(
        [Point(0.5, 278.0), Point(1.0, 314.0)], parameter="ratio", kind="measured", compare={"no window": 277.0}
    ),
    "empty tuning": lambda: tuning([], parameter="block", kind="modelled", choices=[32, 64]),
}


@pytest.mark.parametrize("name", PICTURES)
def test_svg_is_the_same_each_time(name):
    first, second = PICTURES[name](), PICTURES[name]()
    assert first.svg() == first.svg() == second.svg()


@pytest.fixture(params=PICTURES)
def picture(request: pytest.FixtureRequest) -> Picture:
    return PICTURES[request.param]()


def test_svg_has_presentation_in_attributes_and_a_description(picture):
    svg = picture.svg()
    root = ElementTree.fromstring(svg)
    assert "style" not in svg
    assert root.get("role") == "img" and root.get("aria-label") == picture.alt
    assert root[0].tag.endswith("title") and root[0].text == picture.alt
    assert "fill=" in svg and "stroke=" in svg


def test_svg_has_no_text_that_needs_a_font(picture):
    assert not re.search(r"<text\b", picture.svg())


def test_png_stands_beside_the_svg_where_it_is_small(picture):
    data, metadata = picture.bundle()
    assert ("image/png" in data) == (len(picture.png()) <= PNG_LIMIT)
    assert all(entry["alt"] == picture.alt for entry in metadata.values())


def test_every_picture_says_in_a_sentence_what_it_shows(picture):
    assert picture.summary.endswith(".") and picture.alt.endswith(".")
    assert "\n" not in picture.summary


@pytest.mark.parametrize(
    "addresses, size, count, used",
    [
        (4 * LANE, 4, 4, 128),
        (8 * LANE, 4, 8, 128),
        (32 * LANE, 4, 32, 128),
        (4 * (LANE + 1), 4, 5, 128),
        (8 * LANE, 8, 8, 256),
        (0 * LANE, 4, 1, 4),
        (16 * LANE, 4, 16, 128),
        ([30], 4, 2, 4),
    ],
)
def test_touched_counts_sectors_and_bytes(addresses, size, count, used):
    found = plot.touched(addresses, size)
    assert (len(found.sectors), found.used, found.moved) == (count, used, 32 * count)


def test_sectors_says_the_counts_in_words():
    text = plot.sectors({"stride 2": 8 * LANE, "offset 1": 4 * (LANE + 1)}).summary
    assert "stride 2: **8** (128 of 256 bytes used)" in text
    assert "offset 1: **5** (128 of 160 bytes used)" in text


def test_curve_summary_names_both_ends():
    text = plot.curve([1, 8], {"stride": [50, 400], "offset": [50, 52]}, xlabel="x", ylabel="µs, modelled").summary
    assert "stride: 50 at 1 to 400 at 8" in text and "offset: 50 at 1 to 52 at 8" in text and "modelled" in text


def test_tuning_draws_and_names_what_the_curve_is_compared_with():
    points = [Point(0.5, 232.0), Point(1.0, 240.0)]
    picture = tuning(points, parameter="ratio", kind="measured", compare={"no window": 277.0})
    assert picture.summary.endswith("1 takes 1.03 times as long; no window takes 277 µs.")
    assert "Dashed lines: no window" in picture.alt
    axes = picture.figure.axes[0]
    assert [list(each.get_ydata()) for each in axes.lines if each.get_linestyle() == "--"] == [[277.0, 277.0]]
    assert axes.get_ylim()[1] > 277


def test_bars_say_every_value_and_where_they_come_from():
    text = plot.bars({"load": 276.04, "pin": 98.5}, unit="µs a frame", kind="modelled").summary
    assert text == "µs a frame, modelled: load **276**, pin **98.5**."


def test_tuning_names_the_best_point_its_rate_and_its_share_of_the_peak():
    points = [Point(64, 640.0, 1258.0), Point(256, 400.0, 2013.0), Point(256, 241.5, 3335.0)]
    text = tuning(points, parameter="block (threads)", kind="measured", title="64 M", peak=4800).summary
    assert "64 M" in text and "**256** with 242 µs (3335 GB/s, 69% of the peak), measured" in text
    assert "64 takes 2.65 times as long" in text


def test_tuning_shows_small_times_beside_one_that_is_much_larger():
    apart = tuning([Point(1, 324_000), Point(10, 32_400), Point(100, 3_240)], parameter="calls", kind="modelled")
    near = tuning([Point(1, 300), Point(10, 100)], parameter="calls", kind="modelled")
    assert [picture.figure.axes[0].get_yscale() for picture in (apart, near)] == ["log", "linear"]


@pytest.mark.parametrize(
    "values, left_out",
    [
        ([33, 66, 132, 264, 528, 1056, 2112, 4224, 65536], ["2112"]),
        ([32, 64, 128, 256, 512, 1024], []),
        ([1000, 1001, 1002, 9000], ["1001", "1002"]),
        ([7], []),
    ],
    ids=["blocks", "powers of two", "close together", "one"],
)
def test_labels_of_ticks_that_would_touch_are_left_out(values, left_out):
    drawn = tuning([Point(value, 100.0, 1.0) for value in values], parameter="blocks", kind="modelled", peak=2)
    drawn.svg()
    labels = [tick for tick in drawn.figure.axes[0].get_xticklabels() if tick.get_text()]
    assert [number(value) for value in values if number(value) not in {tick.get_text() for tick in labels}] == left_out
    boxes = [tick.get_window_extent() for tick in labels]
    assert all(before.x1 < after.x0 for before, after in itertools.pairwise(boxes))


def test_tuning_does_not_call_equal_times_the_worst():
    text = tuning([Point(1, 100.0), Point(10, 100.1)], parameter="calls", kind="modelled").summary
    assert text.endswith("100 µs, modelled; the others take as long.")


def test_roofline_says_which_roof_is_near():
    low = plot.roofline({"add": (1 / 12, 200)}, bandwidth=4800, arithmetic=60_000, kind="measured")
    high = plot.roofline({"fma": (100, 30_000)}, bandwidth=4800, arithmetic=60_000, kind="measured")
    assert "**50%** of what memory allows" in low.summary
    assert "**50%** of what arithmetic allows" in high.summary


def test_six_kernels_under_a_roofline_have_marks_of_their_own():
    kernels = {f"rung {number}": (float(number), 500.0) for number in range(1, 7)}
    drawn = plot.roofline(kernels, bandwidth=4800, arithmetic=60_000, kind="measured").figure.axes[0].lines
    marks = {(mark.get_marker(), mark.get_color()) for mark in drawn if mark.get_marker() in MARKERS}
    assert len(marks) == 6


def test_roofline_names_another_memory():
    near = plot.roofline({"sum": (1, 30)}, bandwidth=60, arithmetic=600, kind="measured", memory="shared memory")
    assert "**50%** of what shared memory allows" in near.summary
    assert "shared memory 60 GB/s" in [text.get_text() for text in near.figure.axes[0].texts]


def test_labels_under_a_roofline_do_not_cover_each_other():
    marks = {name: (8.0, 500.0 + place) for place, name in enumerate(("one", "two", "three"))}
    drawn = plot.roofline(marks, bandwidth=60, arithmetic=600, kind="measured")
    drawn.svg()
    axes = drawn.figure.axes[0]
    texts = axes.texts[:3]
    assert [text.get_text().split(":")[0] for text in texts] == list(marks)
    boxes = [text.get_window_extent() for text in texts]
    assert boxes[0].y1 <= boxes[1].y0 and boxes[1].y1 <= boxes[2].y0
    assert boxes[2].y0 < axes.transData.transform(next(iter(marks.values())))[1] < boxes[2].y1, (
        "the highest stands beside its mark"
    )
    assert all(box.x1 <= drawn.figure.bbox.x1 for box in boxes)


def test_marks_on_each_other_under_a_roofline_all_show_and_stand_before_their_labels():
    marks = {"one": (8.0, 500.0), "two": (8.0, 501.0), "three": (8.0, 502.0), "apart": (1.0, 20.0)}
    drawn = plot.roofline(marks, bandwidth=60, arithmetic=600, kind="measured").figure.axes[0].lines
    shown = [mark for mark in drawn if mark.get_marker() in MARKERS]
    large, small = shown[::2], shown[1::2]
    assert [mark.get_marker() for mark in large] == [mark.get_marker() for mark in small]
    sizes, layers = [[getattr(mark, what)() for mark in large] for what in ("get_markersize", "get_zorder")]
    assert sizes[0] > sizes[1] > sizes[2] == sizes[3]
    assert layers[0] < layers[1] < layers[2]


def test_pitch_lists_widths_with_their_pitch():
    assert "100 → 512" in plot.pitch({100: 512}).summary


@pytest.mark.parametrize(
    "draw, match",
    [
        (lambda: plot.curve([], [], xlabel="x", ylabel="y"), "at least one point"),
        (lambda: plot.curve([1, 2], [1], xlabel="x", ylabel="y"), "1 values for 2"),
        (lambda: plot.bars({}, unit="µs", kind="measured"), "needs values"),
        (lambda: plot.bars({"less": -1}, unit="µs", kind="measured"), "below zero"),
        (lambda: plot.sectors({}), "at least one pattern"),
        (lambda: plot.sectors({"far": 4096 * LANE}), "'far' must stay within 0 … 2047"),
        (lambda: plot.sectors({"negative": LANE - 1}), "must stay within"),
        (lambda: plot.pitch({600: 512}), "cannot have a pitch of 512"),
        (lambda: plot.pitch({}), "at least one width"),
        (lambda: plot.memories([], []), "at least one array"),
        (lambda: plot.routes(), "got nothing"),
        (lambda: plot.routes("pinned", "managed"), "got pinned, managed"),
        (lambda: plot.image({"flat": np.zeros(4, np.uint8)}), "two dimensions"),
        (lambda: plot.image({}), "at least one array"),
        (lambda: plot.roofline({"add": (0, 1)}, bandwidth=1, arithmetic=1, kind="measured"), "positive"),
    ],
)
def test_what_cannot_be_drawn_is_said(draw, match):
    with pytest.raises(ValueError, match=match):
        draw()


@pytest.mark.parametrize(
    "value, text",
    [(0, "0"), (7, "7"), (1024, "1024"), (12345.6, "12,346"), (241.49, "241"), (5.649, "5.65"), (0.00513, "0.00513")],
)
def test_numbers_have_three_digits(value, text):
    assert number(value) == text


def test_tint_mixes_with_white():
    assert (tint("#000000", 0), tint("#102030", 1), tint("#000000", 0.5)) == ("#FFFFFF", "#102030", "#808080")


def test_outside_a_notebook_a_picture_prints_its_sentence(capsys):
    picture = plot.pitch({100: 512})
    picture.show()
    assert capsys.readouterr().out == picture.summary + "\n"
    assert repr(picture) == picture.summary
