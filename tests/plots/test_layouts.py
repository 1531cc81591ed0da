"""Drawings of layouts, orders and paths: what they count, what they say, and what they refuse to draw."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from cudalab.plots import plot
from cudalab.plots.layouts import pending
from cudalab.plots.layouts.stages import schedule
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
    "warp tile": lambda: plot.warp_tile(),
    "warp tiles of small lanes": lambda: plot.warp_tile((1, 8, 32), each=4, warp=7),
    "levels": lambda: plot.levels([32, 128, 1024, 2048]),
    "barriers": lambda: plot.barriers(first=False),
    "queue": lambda: plot.queue(wait=True),
    "grid": lambda: plot.grid((3, 2), (8, 8)),
    "grid of one dimension": lambda: plot.grid((4,), 32),
    "grid as a launch has it": lambda: plot.grid((4, 2, 1), (8, 4, 1)),
    "grid of large blocks": lambda: plot.grid((6, 6), (32, 16), (5, 5)),
    "stride": lambda: plot.stride(20, 2, 4),
    "stride of one round": lambda: plot.stride(3, 4, 8),
    "lanes": lambda: plot.lanes(ways=8, run=4),
    "stages": lambda: plot.stages(6, 16, copy=0.5, use=7),
    "pending blocks": lambda: plot.pending(),
    "pending blocks, and urgent ones": lambda: plot.pending(4, 16, 3, urgent=2, called=4, priority=True),
    "scopes": lambda: plot.scopes("device"),
    "set-aside": lambda: plot.set_aside(16, 32, 0.5),
    "set-aside of three streams": lambda: plot.set_aside(16, [1, 12, 32], [1.0, 0.65, 0.1], sweeps=6),
    "no set-aside": lambda: plot.set_aside(0, 5, sweeps=1),
    "context": lambda: plot.context(threads=("main", "a thread with a very long name, which is cut"), destroyed=True),
    "message": lambda: plot.message(writer_fence=False),
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
    assert "reads too early, in bytes: row 1 by 2, row 2 by 4, row 3 by 6." in plot.rows(6, 8, 4, step=6).summary
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


def test_a_warp_tile_says_what_its_warp_reads():
    said = plot.warp_tile((2, 8)).summary
    assert "2 × 16 lanes: 16 + 128 = 144 numbers" in said and "8 × 4 lanes: 64 + 32 = 96 numbers" in said


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
    "block, said",
    [
        ((16, 4), "The 64 of a block are 2 warps."),
        ((10, 5), "2 warps, the last with 18 threads."),
        ((8, 2), "1 warp, "),
    ],
)
def test_grid_counts_threads_and_warps(block, said):
    drawing = plot.grid((3, 2), block)
    assert f"{6 * block[0] * block[1]} threads." in drawing.summary and said in drawing.summary


def test_stride_says_what_the_first_thread_takes_and_who_takes_nothing():
    text = plot.stride(20, 2, 4).summary
    assert "a step of 8, 3 rounds" in text and "takes 0, 8, 16; in the last round 4 of 8 threads" in text
    assert "find no element" not in plot.stride(16, 2, 4).summary


@pytest.mark.parametrize(
    "ways, run, steps, busy",
    [(2, 1, 2, "16 of 32"), (2, 32, 1, "32 of 32"), (4, 8, 4, "8 of 32"), (8, 32, 1, "32 of 32")],
)
def test_a_warp_takes_a_step_for_each_way_that_its_lanes_take(ways, run, steps, busy):
    drawing = plot.lanes(ways, run)
    assert f"{steps} step" in drawing.summary and busy in drawing.summary
    assert drawing.svg().count(">step ") == steps


@pytest.mark.parametrize(
    "stages, tiles, copy, use, end",
    [(1, 6, 3, 2, 30), (2, 6, 3, 2, 20), (4, 6, 3, 2, 20), (2, 6, 2, 3, 20), (2, 1, 3, 2, 5), (2, 4, 2, 2, 10)],
)
def test_stages_hide_the_shorter_of_copy_and_use(stages, tiles, copy, use, end):
    spans = schedule(stages, tiles, copy, use)
    assert spans[-1][1] + use == end
    assert all(used >= copied + copy for copied, used in spans)
    assert all(spans[at][0] >= spans[at - stages][1] + use for at in range(stages, tiles))
    assert f"done after {end}" in plot.stages(stages, tiles, copy, use).summary


@pytest.mark.parametrize(
    "blocks, length, priority, begin, end",
    [
        (16, 3, False, 12, 13),
        (16, 3, True, 6, 13),
        (48, 1, True, 4, 13),
        (4, 12, True, 12, 13),
        (2, 12, False, 4, 12),
    ],
)
def test_pending_blocks_get_a_place_that_comes_free(blocks, length, priority, begin, end):
    ran = pending.schedule(4, blocks, length, urgent=2, called=4, takes=1, priority=priority)
    assert len(ran) == blocks + 2
    assert min(block.begin for block in ran if block.urgent) == begin
    assert max(block.end for block in ran) == end
    for place in range(4):
        mine = sorted((block.begin, block.end) for block in ran if block.place == place)
        assert all(one[1] <= other[0] for one, other in zip(mine, mine[1:], strict=False))


@pytest.mark.parametrize("scope, marked", [("thread", 1), ("block", 6), ("device", 18), ("system", 27)])
def test_scopes_marks_the_threads_that_an_operation_counts_for(scope, marked):
    svg = plot.scopes(scope).svg()
    assert svg.count("✓") + svg.count("●") == marked


@pytest.mark.parametrize(
    "size, window, ratio, hits",
    [
        (16, 32, 1.0, 0),
        (16, 32, 0.5, 32),
        (16, 32, 0.25, 16),
        (32, 32, 1.0, 64),
        (16, [12, 12], 1.0, 0),
        (16, [12, 4], 1.0, 32),
        (16, [12, 12], 0.65, 28),
        (0, 8, 1.0, 0),
    ],
)
def test_lines_that_persist_hit_as_far_as_the_set_aside_goes(size, window, ratio, hits):
    assert plot.set_aside(size, window, ratio).summary.endswith(f"lines looked up again, {hits} hit.")


def test_context_says_who_shares_it_and_what_a_reset_leaves():
    assert plot.context(threads=["main"]).summary.startswith("1 host thread of one process has one")
    assert "3 host threads of one process share" in plot.context(threads=["a", "b", "c"]).summary
    gone = plot.context(destroyed=True)
    assert "gone" in gone.summary and "primary context, destroyed" in gone.svg()
    with pytest.raises(ValueError, match="at least one thread"):
        plot.context(threads=[])


def test_message_says_which_steps_may_swap():
    assert "whoever has seen the flag sees the data" in plot.message().summary
    assert "the writer's fence" in plot.message(writer_fence=False).summary
    assert "the reader's fence" in plot.message(reader_fence=False).summary
    assert "the steps of both" in plot.message(False, False).summary
    assert plot.message(False, True).svg().count("may swap") == 1


@pytest.mark.parametrize(
    "draw, match",
    [
        (lambda: plot.grid((7, 1)), "got 7 × 1"),
        (lambda: plot.grid((2, 2, 2)), "two dimensions are drawn"),
        (lambda: plot.grid(block=(8, 2, 1, 1)), "two dimensions are drawn"),
        (lambda: plot.grid(block=(33, 1)), "got 33 × 1"),
        (lambda: plot.grid((2, 2), chosen=(2, 0)), "not in a grid of 2 × 2"),
        (lambda: plot.stride(20, 5, 8), "got 5 × 8 threads"),
        (lambda: plot.stride(1000, 1, 4), "250: 1000 elements"),
        (lambda: plot.lanes(9), "got ways=9"),
        (lambda: plot.lanes(2, 33), "run=33"),
        (lambda: plot.stages(0), "got stages=0"),
        (lambda: plot.stages(2, use=0), "times above 0"),
        (lambda: plot.scopes("grid"), "got 'grid'"),
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
        (lambda: plot.warp_tile([]), "1 to 3 arrangements"),
        (lambda: plot.warp_tile([3]), "power of two"),
        (lambda: plot.warp_tile([1]), "at most 128 × 128"),
        (lambda: plot.warp_tile([8], warp=8), "0 to 7"),
        (lambda: plot.levels([1, 2, 3]), "4 positive amounts"),
        (lambda: plot.queue(0), "at least 1"),
        (lambda: plot.pending(9), "got places=9"),
        (lambda: plot.pending(takes=0), "times are above 0"),
        (lambda: plot.set_aside(window=33), "one to three windows of 1 to 32 KB"),
        (lambda: plot.set_aside(window=[8, 8], hit_ratio=[1.0]), "one for each of 2 windows"),
        (lambda: plot.set_aside(65), "got size=65"),
        (lambda: plot.banks(), "1 to 32 lanes"),
        (lambda: plot.banks([0], stride=4), "either access or stride"),
    ],
)
def test_what_cannot_be_drawn_is_said(draw, match):
    with pytest.raises(ValueError, match=match):
        draw()
