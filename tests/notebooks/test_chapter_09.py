"""Chapter 09's compared cells: each notices a mistake in the code that feeds it; and its sentences about numbers."""

from __future__ import annotations

import numpy as np

from tests.notebooks.chapter import Chapter, ComparedCells, Mutation, Printed, Sentence

LEAST_COMPARED = 10
CHAPTER = Chapter(
    "09_memory_order.ipynb",
    {
        "scopes": ["kernel-scopes"],
        "message": ["kernel-message"],
        "release": ["kernel-message", "message", "kernel-release"],
        "fences": ["kernel-message", "message"],
        "average": ["kernel-average", "predict-fit", "fit"],
        "async": ["kernel-async"],
        "group-copy": ["kernel-async", "async"],
        "tiles": ["kernel-tiles"],
        "domains": ["domain-count"],
        "half-fenced": ["kernel-message", "message"],
    },
)

MUTATIONS = [
    Mutation("scopes", "kernel-scopes", "&counters[0]", "&counters[blockIdx.x]"),
    Mutation("scopes", "kernel-scopes", "&counters[blockIdx.x]", "&counters[blockIdx.x / 2]"),
    Mutation("message", "kernel-message", '"__threadfence();")', '"")'),
    Mutation("message", "kernel-message", "100 + threadIdx.x", "101 + threadIdx.x"),
    Mutation("release", "kernel-release", '("release", "acquire")', '("relaxed", "acquire")'),
    Mutation("release", "kernel-release", "thread_scope_device", "thread_scope_block"),
    Mutation("fences", "fences", "threadIdx.x + 33", "threadIdx.x"),
    Mutation("fences", "fences", '"__threadfence_system();"', '"__syncthreads();"'),
    Mutation("average", "kernel-average", "grid.sync();", "__syncthreads();"),
    Mutation("average", "kernel-average", "(i + 1) % n", "(i + 2) % n"),
    Mutation("average", "average", "(fit + 1,)", "(fit,)"),
    Mutation("async", "kernel-async", '"ready.arrive_and_wait();")', '"")'),
    Mutation("async", "kernel-async", "tile[255 - threadIdx.x]", "tile[threadIdx.x]"),
    Mutation("group-copy", "group-copy", "tile[255 - threadIdx.x]", "tile[254 - threadIdx.x % 255]"),
    Mutation("tiles", "kernel-tiles", "tile[stage][255", "tile[0][255"),
    Mutation("tiles", "kernel-tiles", "next += gridDim.x", "next += 1"),
    Mutation("domains", "domains", "min(3, domains - 1)", "min(2, domains - 1)"),
    Mutation("domains", "domains", "value.memSyncDomainMap.default_ = domains", "value.memSyncDomainMap.default_ = 0"),
    Mutation("half-fenced", "half-fenced", 'fence, "__threadfence_block();"', "fence, fence"),
    Mutation("half-fenced", "half-fenced", "first + fence + second + last", "alone"),
    Mutation("half-fenced", "kernel-message", "*flag = 1;", "*flag = 1; out[0] = 0;"),
]


def places(run: Printed) -> list[float]:
    """Microseconds with one, two and four places for a tile, where four are the fastest."""
    four, slower, gain = run.after("stages = 4 with"), run.after("1 takes"), run.after("run says")
    return [four * slower, four * slower / gain, four]


SENTENCES = [
    Sentence(
        "s1-explain",
        "It is wrong all the same, for nothing promises it.",
        "scopes",
        lambda run: "all: found in 32 blocks: race" in run.text and "own: found in 32 blocks: nothing" in run.text,
    ),
    Sentence(
        "s3-explain",
        "It waits for no other thread.",
        "fences",
        lambda run: run.text.count("race") == 3 and "__syncthreads();          found in 1 block: nothing" in run.text,
    ),
    Sentence(
        "s4-explain",
        "CuPy has cut the grid to what fits, and said so in a warning.",
        "average",
        lambda run: run.after("beyond those that fit:") == 0 and "The grid size will be reduced" in run.text,
    ),
    Sentence(
        "s5-explain",
        "Without the wait, threads read what the copy still writes: a race.",
        "async",
        lambda run: "with the wait: found in 4 blocks: nothing" in run.text and "RAW hazard in __shared__" in run.text,
    ),
    Sentence(
        "s6-explain",
        "The second place is what pays; a third and a fourth bring less.",
        "tune-stages",
        lambda run: 1.15 < run.after("run says") > run.after("1 takes") / run.after("run says"),
    ),
    Sentence(
        "s6-explain",
        "8 MB took 9.1 µs with one place, 6.8 µs with two and 6.2 µs with four (measured)",
        "tune-stages",
        lambda run: "modelled" in run.text or np.allclose(places(run), [9.1, 6.8, 6.2], atol=0.1),
    ),
    Sentence(
        "s7-map",
        "A stream starts with default → 0, remote → 1.",
        "domains",
        lambda run: (run.after("compute: default ->"), run.after("compute: default ->", 1)) == (0, 1),
    ),
    Sentence(
        "s8-wait",
        "264 blocks of 1024 threads are on the device at once. The 265th",
        ("fit", "too-many-wait"),
        lambda fit, waits: (
            fit.numbers[0] == 264 and "264 blocks: all have come\n265 blocks: cudaErrorLaunchTimeout" in waits.text
        ),
    ),
    Sentence(
        "s8-fence",
        "One fence is as good as none",
        "half-fenced",
        lambda run: run.text.count("race") == 3 and "both: found in 2 blocks: nothing" in run.text,
    ),
]


class TestComparedCells(ComparedCells):
    chapter, mutations, least, sentences = CHAPTER, MUTATIONS, LEAST_COMPARED, SENTENCES
