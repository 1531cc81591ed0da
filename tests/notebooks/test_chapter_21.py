"""Chapter 21: what its compared cells print, that each notices a mistake, and what its text says of the numbers."""

from tests.notebooks.chapter import Chapter, ComparedCells, Gain, Mutation, Printed, Sentence
from tests.notebooks.test_notebooks import LEAST_COMPARED

_PLAIN = ["ok", "camera", "kernel-plain", "steps", "places"]
_PINNED = [*_PLAIN, "camera-memory", "enqueue"]
_TILED = [*_PINNED, "kernel-tiled"]
_ROUND = [*_TILED, "overlap"]
_SURVEY = [*_ROUND, "graph", "survey", "counts"]
_TURNS = [*_SURVEY, "turns"]

CHAPTER = Chapter(
    "21_pipeline.ipynb",
    {
        "camera": [],
        "load": _PLAIN,
        "pin": _PINNED,
        "tile": _TILED,
        "overlap": _TILED,
        "graph": _ROUND,
        "counts": ["camera", "survey"],
        "beside": _SURVEY,
        "turns": _SURVEY,
        "kept": [*_TURNS, "window"],
        "launched-elsewhere": [*_SURVEY, "beside"],
        "newer": [*_TURNS, "window", "kept"],
    },
)

MUTATIONS = [
    Mutation("camera", "camera", "frame < 2048", "frame <= 2048"),
    Mutation("camera", "camera", 'mode="edge"', 'mode="wrap"'),
    Mutation("load", "kernel-plain", "raw[pixel] < 2048", "raw[pixel] <= 2048"),
    Mutation("load", "load", "frames[number]", "frames[0]"),
    Mutation("pin", "enqueue", "source = camera[number]", "source = camera[0]"),
    Mutation("pin", "kernel-plain", "x <= REACH", "x < REACH"),
    Mutation("tile", "kernel-tiled", "k < WIDE; k++) sum += tile", "k < WIDE - 1; k++) sum += tile"),
    Mutation("tile", "kernel-tiled", "left + to - REACH", "left + to"),
    Mutation("overlap", "overlap", "enqueue(number, place", "enqueue(0, place"),
    Mutation("overlap", "overlap", "    for number in range(FRAMES):", "    for number in range(1, FRAMES):"),
    Mutation("graph", "graph", "    enqueue_all(streams)\n", ""),
    Mutation("graph", "graph", "    graph.launch(one)\n", ""),
    Mutation("counts", "survey", "< level) + ", "<= level) + "),
    Mutation("counts", "counts", "(512, levels)", "(511, levels)"),
    Mutation("beside", "beside", "    graph.launch(launching)\n", ""),
    Mutation("turns", "turns", "down(number, place, streams[place])", "down(number, 0, streams[place])"),
    Mutation("kept", "kept", "replay(turns), pictures", "None, pictures"),
    Mutation("launched-elsewhere", "launched-elsewhere", "captured(enqueue_round", "captured(lambda streams: None"),
    Mutation("newer", "newer", "camera[:] = newer", "camera = newer"),
    Mutation("newer", "newer", "frames[::-1]\n", "frames\n"),
]


_STEPS = "compare-kept"
"""The cell that draws all steps."""


def _step(run: Printed, name: str) -> float:
    """µs a frame of a step, as the figure says."""
    return Printed(run.text.partition("µs a frame, ")[2]).after(f"{name} ")


def _as_the_table_says(run: Printed) -> bool:
    """Is each step within a fifth of its figure in the table, in the column of the device that ran?"""
    table = CHAPTER.texts["s9-explain"].partition("| step |")[2]
    column = 1 if "measured" in run.text else 2
    rows = [line.strip("| ").split(" | ") for line in table.splitlines() if line.startswith("| `")]
    told = {row[0].strip("`"): float(row[1 + column]) for row in rows}
    return len(told) == 9 and all(abs(_step(run, name) / value - 1) < 0.2 for name, value in told.items())


SENTENCES = [
    Sentence(
        "s4",
        "A frame takes about half as long, or less.",
        "show-pin",
        lambda run: _step(run, "pin") < 0.55 * _step(run, "load"),
    ),
    Sentence("s4", "That is still more than 100 µs.", "show-pin", lambda run: _step(run, "pin") > 100),
    Sentence(
        "s4-explain",
        "The kernel takes longer than either copy",
        "split",
        lambda run: run.after("kernel") > max(run.after("up"), run.after("down")),
    ),
    Sentence("s5-explain", "Now a frame takes less than 100 µs", "show-tile", lambda run: _step(run, "tile") < 100),
    Sentence(
        "s5-explain",
        "The kernel is the shortest of the three parts.",
        "show-tile",
        lambda run: run.after("kernel") < min(run.after("up"), run.after("down")),
    ),
    Sentence(
        "s6-explain",
        "A round takes a little more than twelve copies up.",
        "compare-overlap",
        lambda run: 1 < run.numbers[0] / run.numbers[1] < 1.15,
    ),
    Sentence(
        "s6-tuner",
        "With one stream, the three parts of a frame follow each other.",
        "tuner",
        lambda run: "the slowest, streams 1," in run.text,
    ),
    Sentence(
        "s6-tuner",
        "so a traced round takes longer than the figure above says",
        ("tuner", "compare-overlap"),
        lambda traced, run: traced.after("fastest so far with") > 12 * _step(run, "overlap"),
    ),
    Sentence(
        "s7-explain",
        "The frames come no faster",
        "compare-graph",
        lambda run: _step(run, "graph") > 0.95 * _step(run, "overlap"),
    ),
    Sentence(
        "s7-explain",
        "the host puts a round into streams in less time than the device takes for it",
        "compare-graph",
        lambda run: run.numbers[0] < 12 * _step(run, "overlap"),
    ),
    Sentence(
        "s8",
        "The SMs are idle most of the time.",
        "tuner",
        lambda run: run.after("the SMs idle") > 50,
    ),
    Sentence(
        "s7-explain",
        "the host is free again after a fraction of the time",
        "compare-graph",
        lambda run: run.numbers[1] < 0.5 * run.numbers[0],
    ),
    Sentence(
        "s8-explain",
        "it takes the next place that comes free, some microseconds later",
        "compare-survey",
        lambda run: _step(run, "urgent") < 0.7 * _step(run, "beside a survey"),
    ),
    Sentence(
        "s8-explain",
        "so a frame takes longer than on an empty device",
        "compare-survey",
        lambda run: _step(run, "urgent") > _step(run, "graph"),
    ),
    Sentence(
        "s9-explain",
        "the frames come sooner than beside the survey",
        _STEPS,
        lambda run: _step(run, "in turns") < _step(run, "urgent"),
    ),
    Sentence("s9-explain", "the filter takes less time", _STEPS, lambda run: run.numbers[1] < 0.95 * run.numbers[0]),
    Sentence(
        "s9-explain",
        "You do not see that in the frames",
        _STEPS,
        lambda run: abs(_step(run, "table kept") / _step(run, "in turns") - 1) < 0.1,
    ),
    Sentence("s9-explain", "Here are all steps of one run", _STEPS, _as_the_table_says),
    Sentence(
        "s10-priority",
        "By default the priority of the stream counts that you launch the graph *into*",
        "elsewhere-times",
        lambda run: run.numbers[0] > 1.4 * run.numbers[1],
    ),
]


GAINS = [
    Gain(
        "overlap against its bound, the longest of the three parts",  # within 1.25 times
        "compare-overlap",
        lambda run: run.after("its longest part takes") / run.after("overlapped:"),
        least=1 / 1.25,
        share=True,
    ),
    Gain(
        "overlap against one stream",
        "compare-overlap",
        lambda run: _step(run, "tile") / run.after("overlapped:"),
        least=1.5,
    ),
]


class TestComparedCells(ComparedCells):
    chapter, mutations, least, sentences, gains = CHAPTER, MUTATIONS, LEAST_COMPARED, SENTENCES, GAINS
