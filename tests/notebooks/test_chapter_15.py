"""Chapter 15's compared cells: each agrees with its stored output, and notices a mistake in the code that feeds it."""

from __future__ import annotations

from tests.notebooks.chapter import Chapter, ComparedCells, Gain, Mutation, Sentence

LEAST_COMPARED = 6
CHAPTER = Chapter(
    "15_graphs.ipynb",
    {
        "capture": ["ok", "kernel-smooth"],
        "launch": ["ok", "kernel-smooth", "capture"],
        "arguments": ["ok", "kernel-smooth", "capture"],
        "diamond": ["ok", "kernel-smooth", "kernel-put-sum"],
        "fork-captured": ["ok", "kernel-smooth", "capture", "kernel-put-sum"],
        "capture-info": ["ok", "kernel-smooth", "capture", "kernel-put-sum", "fork-captured"],
        "mistakes": ["ok", "kernel-smooth", "capture", "kernel-put-sum"],
        "graph-memory": ["ok", "kernel-smooth", "capture", "launch"],
    },
)

MUTATIONS = [
    Mutation("capture", "capture", "graph = ok(cudart.cudaStreamEndCapture(a.ptr))", "passes(b)"),
    Mutation("capture", "capture", "signal[n // 2] = 64", "signal[n // 2] = 63"),
    Mutation("launch", "kernel-smooth", "count=20", "count=18"),
    Mutation("launch", "kernel-smooth", "0.25f * left", "0.2f * left"),
    Mutation("launch", "launch", "ok(cudart.cudaGraphLaunch(executable, a.ptr))", ""),
    Mutation("arguments", "arguments", "value = np.float32(1)\n", "value = np.float32(2)\n"),
    Mutation("arguments", "arguments", "box.fill(10)", ""),
    Mutation("arguments", "arguments", "total[1] += *box", "total[1] += value"),
    Mutation("diamond", "diamond", "[left, right], 4", "[right], 4"),
    Mutation("diamond", "diamond", "[prepare], 3, 1, 1)", "[prepare], 3, 1, 0)"),
    Mutation("diamond", "kernel-put-sum", "x[first] + x[second], v", "x[first] - x[second], v"),
    Mutation("fork-captured", "fork-captured", "b.wait_event(a.record())  # fork", ""),
    Mutation(
        "fork-captured",
        "fork-captured",
        "a.wait_event(b.record())  # join\nstep(a, 4, 2, 3)",
        "a.wait_event(b.record())",
    ),
    Mutation("capture-info", "capture-info", "2, 1, 1)", "2, 1, 0)"),
    Mutation("capture-info", "capture-info", "step(a, 3, 2, 2)", "step(a, 3, 2, 1)"),
    Mutation("graph-memory", "graph-memory", "(room, signal, np", "(signal, signal, np"),
    Mutation("graph-memory", "graph-memory", "ok(cudart.cudaFreeAsync(int(room), a.ptr))", "passes(a, 1)"),
    Mutation("mistakes", "mistakes", "cudart.cudaStreamQuery(a.ptr)[0]", "cudart.cudaError_t.cudaSuccess"),
    Mutation("mistakes", "mistakes", "x.data.ptr, 0, 4, 0)[0], plain", "x.data.ptr, 0, 4, 0)[0], a"),
    Mutation("mistakes", "mistakes", "outside, plain = a.record()", "outside, plain = cp.cuda.Event()"),
]

SENTENCES = [
    Sentence(
        "s3-explain",
        "The host is free after a few microseconds instead of some hundreds.",
        "cost",
        lambda run: run.after("1 graph     : the calls take") < 50 < 200 < run.after("100 launches: the calls take"),
    ),
    Sentence(
        "s3-explain",
        "The device gains as well",
        "cost",
        lambda run: run.after("1 graph", 1) < run.after("100 launches:", 1),
    ),
    Sentence(
        "s3-count",
        "the launch of a graph of 100 kernels takes the host 3 to 7 µs, by the host; that is less than one launch",
        "cost",
        lambda run: (
            2 < run.after("1 graph     : the calls take") < min(7, run.after("100 launches: the calls take") / 100)
        ),
    ),
]


GAINS = [
    Gain(
        "100 kernels as one graph against launches, until all is done",
        "cost",
        lambda run: run.after("100 launches:", 1) / run.after("1 graph", 1),
        least=4,
    ),
    Gain(
        "100 kernels as one graph against launches, the host's calls",
        "cost",
        lambda run: run.after("100 launches:") / run.after("1 graph     :"),
        least=4,
        most_off=0.85,  # the launch of a graph took hosts of four H200 2.7 to 6.8 µs, modelled are 3.2
    ),
]


class TestComparedCells(ComparedCells):
    chapter, mutations, least, sentences, gains = CHAPTER, MUTATIONS, LEAST_COMPARED, SENTENCES, GAINS
