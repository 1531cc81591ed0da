"""The picture of a timeline: what it shows, in what it stays readable, and how long it takes."""

from __future__ import annotations

import re
import time
from xml.etree import ElementTree

import pytest

from cudalab.plots import plot
from cudalab.plots.drawing import label, shorten, text_width, ticks
from cudalab.plots.span_style import ORDER
from cudalab.timeline import Timeline
from cudalab.timeline.spans import Span, Wait

SVG = "{http://www.w3.org/2000/svg}"


class Made:
    """A source of spans made by hand."""

    label, hazard_note, device = "modelled", "", "simulated GPU"
    engines = ("H2D copy engine", "D2H copy engine", "SMs")

    def __init__(self, spans):
        self._spans = sorted(spans, key=lambda span: span.start)
        for number, span in enumerate(self._spans):
            span.number = number

    def spans(self):
        return self._spans

    def hazards(self):
        return ()

    def host_elapsed(self):
        return 1.0


def timeline(spans):
    t = Timeline(Made(spans), plot.timeline)
    t._open = False
    return t


def span(name, kind, start, end, stream=1, engine="SMs", **more):
    return Span(-1, name, kind, f"s{stream}", stream, engine, start, end, "modelled", **more)


def pipeline(streams=4, rounds=1, length=100.0):
    found = []
    for at in range(streams * rounds):
        stream, start = at % streams + 1, at * length
        copy = span("copy to device", "copy", start, start + length, stream, "H2D copy engine", bytes=1 << 20)
        kernel = span("scale", "kernel", start + length, start + 2 * length, stream, waited=Wait("stream order", copy))
        back = span("copy to host", "copy", start + 2 * length, start + 3 * length, stream, "D2H copy engine")
        back.waited = Wait("stream order", kernel)
        back.bytes = 1 << 20
        found += [copy, kernel, back]
    call = Span(-1, "cudaDeviceSynchronize", "runtime call", "", -1, "host", 5, found[-1].end, "modelled")
    call.waited = Wait("device", found[-1])
    return [*found, call]


def texts(drawing):
    return ["".join(node.itertext()) for node in ElementTree.fromstring(drawing.svg()).iter(f"{SVG}text")]


def titles(drawing):
    return [node.text for node in ElementTree.fromstring(drawing.svg()).iter(f"{SVG}title")]


def test_rows_axis_and_legend_are_named():
    shown = texts(plot.timeline(timeline(pipeline()), title="Four streams"))
    for text in ("Four streams", "host", "s1", "s4", "H2D copy engine", "D2H copy engine", "SMs", "µs, modelled"):
        assert text in shown
    assert {"copy to device", "kernel", "copy to host", "call that waits", "critical path"} <= set(shown)
    assert any(text.endswith("% busy") for text in shown)
    assert "scale" in shown and "copy to device, 1 MiB" in shown


@pytest.mark.parametrize("by, present, absent", [("stream", "s1", "SMs"), ("engine", "SMs", "s1")])
def test_rows_by_stream_or_by_engine(by, present, absent):
    shown = texts(plot.timeline(timeline(pipeline()), by=by, calls=False))
    assert present in shown and absent not in shown and "host" not in shown


def test_each_bar_tells_what_it_waited_for():
    shown = titles(plot.timeline(timeline(pipeline())))
    scale = next(text for text in shown if text.startswith("scale in s2"))
    assert "waited for stream order: copy to device (s2)" in scale and "100 µs, modelled" in scale
    assert any("1 MiB at 10 GB/s" in text for text in shown)


def test_an_event_is_an_arrow_between_two_rows():
    first, second = span("a", "kernel", 0, 50), span("b", "kernel", 51, 90, 2)
    record = span("event record", "event record", 50, 51, engine="", waited=Wait("stream order", first))
    second.waited = Wait("event", record)
    svg = plot.timeline(timeline([first, record, second])).svg()
    assert svg.count("marker-end") == 2  # one in the picture, one in the legend
    assert "by an event" in svg and "event record" in svg


def test_nothing_is_told_by_colour_alone():
    assert len({style.pattern for style in ORDER if style.letter and style.pattern}) >= 6
    letters = [style.letter for style in ORDER if style.letter]
    assert len(letters) == len(set(letters))
    looks = [(style.colour, style.pattern, style.strength) for style in ORDER]
    assert len(looks) == len(set(looks))


def test_several_kernels_get_letters_where_names_do_not_fit():
    spans = [span(name, "kernel", 100 * at, 100 * at + 35) for at, name in enumerate(["transpose_tiled", "reduce_all"])]
    shown = texts(plot.timeline(timeline([*spans, span("x", "memset", 900, 1000)])))
    assert shown.count("K1") == shown.count("K2") == 2 and {"transpose_tiled", "reduce_all"} <= set(shown)


def test_a_bar_does_not_tell_how_its_time_was_found():
    one = span(
        "spin", "kernel", 0, 10, bound="latency-bound, 0 % of peak", extrapolated="timed by the PTX: some reason"
    )
    svg = plot.timeline(timeline([one])).svg()
    assert "latency-bound, 0 % of peak" in svg and "PTX" not in svg


def test_the_legend_keeps_the_letter_of_a_kernel_for_a_page_that_has_room_for_it():
    drawing = plot.timeline(timeline([span("batch", "kernel", 0, 900), span("urgent", "kernel", 900, 908)]))
    entries = [
        node for node in ElementTree.fromstring(drawing.svg()).iter(f"{SVG}g") if node.get("class") == "tl-entry"
    ]
    letters = {node.get("data-letter"): (node.get("display"), "".join(node.itertext())) for node in entries}
    assert letters["K2"] == ("none", "K2urgent") and "K1" not in letters
    places = [node.get("transform") for node in entries if node.get("display") != "none"]
    assert len(places) == len(set(places))


def test_a_gap_between_calls_is_python_and_no_rest():
    calls = [span("cudaLaunchKernel", "runtime call", at, at + 5, -1, "host", thread="") for at in (10, 15, 60)]
    for call in calls:
        call.stream = ""
    svg = plot.timeline(timeline([*calls, span("a", "kernel", 20, 90)])).svg()
    assert "Python, between calls" in svg and svg.count('stroke-width="1.6"') == 2  # one gap, and the legend
    assert "Python" not in plot.timeline(timeline([calls[0], span("a", "kernel", 20, 90)])).svg()


def test_a_graph_is_a_frame_around_its_nodes():
    spans = [span("graph 1", "graph", 0, 100, engine=""), span("a", "kernel", 1, 50), span("b", "kernel", 50, 100)]
    svg = plot.timeline(timeline(spans)).svg()
    bars = [node for node in ElementTree.fromstring(svg).iter(f"{SVG}g") if node.get("class") == "tl-bar"]
    (frame, inner) = (
        next(node.find(f"{SVG}rect") for node in bars if node.find(f"{SVG}title").text.startswith(name))
        for name in ("graph 1 in s1", "a in s1")
    )
    top, bottom = ([float(one.get("y")) + part * float(one.get("height")) for one in (frame, inner)] for part in (0, 1))
    assert top[0] < top[1] - 2 and bottom[0] > bottom[1] + 2
    assert "graph, around its nodes" in svg and "other work" not in svg


def test_the_svg_is_safe_and_plain():
    drawing = plot.timeline(timeline([span("a<float> & 'b'", "kernel", 0, 10)]), title="1 < 2")
    svg = drawing.svg()
    root = ElementTree.fromstring(svg)
    assert "style=" not in svg and "<script" not in svg and "href" not in svg
    assert root.get("role") == "img" and root.get("aria-label") == drawing.alt and root[0].text == drawing.alt
    assert "a<float> & 'b'" in texts(drawing)
    data, metadata = drawing.bundle()
    assert set(data) == {"text/html", "image/svg+xml", "text/plain"}
    assert metadata["image/svg+xml"]["alt"] == drawing.alt and data["image/svg+xml"] == svg
    assert drawing.summary.endswith(".") and "\n" not in drawing.summary


def test_the_sentence_is_markdown_beside_plain_text():
    kernels = [span("run<float>", "kernel", 0, 10), span("_other_", "kernel", 10, 30, waited=None)]
    kernels[1].waited = Wait("stream order", kernels[0])
    caption = plot.timeline(timeline(kernels)).caption()
    assert r"run\<float\>" in caption["text/markdown"] and r"\_other\_" in caption["text/markdown"]
    assert "run<float> → _other_" in caption["text/plain"] and "\\" not in caption["text/plain"]


def test_on_a_page_the_figure_is_inline_with_its_script_and_names_of_its_own():
    """Patterns and markers of one figure must not be those of another, which may be hidden."""
    pages = [plot.timeline(timeline(pipeline(streams))).bundle()[0]["text/html"] for streams in (1, 2)]
    names = [set(re.findall(r'\bid="([^"]+)"', page)) for page in pages]
    assert names[0] and not names[0] & names[1]
    for page, known in zip(pages, names, strict=True):
        assert page.startswith('<div class="cudalab-figure"') and page.count("<svg") == 1 and "<script>" in page
        assert set(re.findall(r"url\(#([^)]+)\)", page)) - {"${clip}"} <= known
        assert "<title>" in page and 'data-labels="' in page and "http://www.w3.org" in page


def test_a_kernel_of_one_block_fills_one_sm_of_the_bar_and_the_load_says_so():
    small = span("one", "kernel", 0, 100, blocks=1, load=1 / 132)
    shown = texts(plot.timeline(timeline([small])))
    assert "0.8 % load" in shown and not any("busy" in text and "100" in text for text in shown)
    assert any("1 block, 0.76 % of the SMs at most" in text for text in titles(plot.timeline(timeline([small]))))
    shown = texts(plot.timeline(timeline([span("all", "kernel", 0, 100, blocks=1000)])))
    assert "100 % load" in shown


def test_the_same_timeline_gives_the_same_svg():
    assert plot.timeline(timeline(pipeline())).svg() == plot.timeline(timeline(pipeline())).svg()


def test_several_timelines_share_one_scale():
    drawing = plot.timeline({"one stream": timeline(pipeline(1, 4)), "four": timeline(pipeline(4))})
    shown = texts(drawing)
    assert "one stream" in shown and "four" in shown and shown.count("SMs") == 2
    assert drawing.summary.startswith("one stream: **600 µs**")
    slow, fast = timeline(pipeline(2, length=100)), timeline(pipeline(2, length=50))
    drawing = plot.timeline([slow, fast])
    assert "2 times as fast" in drawing.summary
    root = ElementTree.fromstring(drawing.svg())
    bars = [float(node.get("width")) for node in root.iter(f"{SVG}rect") if node.get("fill") == "url(#tl-to-device)"]
    assert min(bars) / max(bars[:4]) == pytest.approx(0.5, abs=0.06) or len(bars) > 8


def test_within_cuts_the_time_axis():
    shown = texts(plot.timeline(timeline(pipeline()), within=(100, 200)))
    numbers = [float(text) for text in shown if re.fullmatch(r"\d+", text)]
    assert min(numbers) >= 100 and max(numbers) <= 200


def test_a_long_start_on_the_host_is_left_out():
    shown = texts(plot.timeline(timeline([span("late", "kernel", 90_000, 90_100)]), calls=False))
    assert any(text.startswith("90,") or text.startswith("90.") for text in shown) and "0" not in shown


@pytest.mark.parametrize(
    "arguments, words", [({"by": "colour"}, "by must be"), ({"within": (5, 5)}, "begin < end"), ({}, "got none")]
)
def test_what_cannot_be_drawn_is_refused(arguments, words):
    with pytest.raises(ValueError, match=words):
        plot.timeline(timeline(pipeline()) if arguments else {}, **arguments)


def test_a_trace_without_work_is_drawn_too():
    call = Span(-1, "cudaMalloc", "runtime call", "", -1, "host", 0, 100, "modelled")
    assert "cudaMalloc" in texts(plot.timeline(timeline([call])))
    assert "No work reached the device" in plot.timeline(timeline([])).summary


def test_hundreds_of_spans_stay_small_and_legible():
    crowd = [span("tiny", "kernel", at, at + 0.4, at % 3 + 1) for at in range(3000)]
    svg = plot.timeline(timeline(crowd)).svg()
    assert len(svg) < 700_000
    many = [span("k", "kernel", 10 * at, 10 * at + 8, at) for at in range(1, 80)]
    assert "… and 31 more streams" in texts(plot.timeline(timeline(many)))


def test_sixty_spans_take_less_than_fifty_milliseconds():
    t = timeline(pipeline(4, 5))
    plot.timeline(t).svg()  # the font is looked up once
    took = []
    for _ in range(5):
        begin = time.thread_time()
        assert plot.timeline(t).svg()
        took.append(time.thread_time() - begin)
    assert len(t.work) == 60 and min(took) < 0.05


def test_text_is_measured_with_the_font():
    assert text_width("W") > 2 * text_width("i") and text_width("bold", bold=True) > text_width("bold")
    assert shorten("abcdefghijkl", 40) != "abcdefghijkl" and text_width(shorten("abcdefghijkl", 40)) <= 40
    assert label(1, 2, "a<b").endswith(">a&lt;b</text>")


@pytest.mark.parametrize("begin, end", [(0, 431), (0, 0.9), (90_000, 90_100), (0, 3.2e6), (3, 3.5)])
def test_ticks_are_few_and_round(begin, end):
    found = ticks(begin, end, 8)
    assert 2 <= len(found) <= 10 and begin <= found[0] and found[-1] <= end * (1 + 1e-9)
    steps = {round(b - a, 9) for a, b in zip(found, found[1:], strict=False)}
    assert len(steps) <= 2 and f"{max(steps):.0e}"[0] in "125"
