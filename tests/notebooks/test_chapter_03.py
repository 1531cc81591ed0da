"""Chapter 03's compared cells: each agrees with its stored output, and notices a mistake in the code that feeds it."""

from __future__ import annotations

from tests.notebooks.chapter import Chapter, ComparedCells, Mutation, Sentence

LEAST_COMPARED = 8
CHAPTER = Chapter(
    "03_initialization.ipynb",
    {
        "who-needs": ["active"],
        "no-such-device": ["devices"],
        "threads": ["active", "who-needs", "look"],
        "shared-pointer": ["look"],
        "own-errors": ["look"],
        "after-reset": ["active", "look", "shared-pointer"],
        "tidy": [],
        "another-process": [],
    },
)

MUTATIONS = [
    Mutation("who-needs", "active", "cudart.cudaSetDevice(0)", "cudart.cudaGetDevice()"),
    Mutation("who-needs", "active", "cudart.cudaMemGetInfo()", "cudart.cudaDriverGetVersion()"),
    Mutation("who-needs", "active", "cudart.cudaGetLastError()", "cudart.cudaDeviceSynchronize()"),
    Mutation("who-needs", "who-needs", "    cudart.cudaDeviceReset()\n", "    cudart.cudaFree(0)\n"),
    Mutation("no-such-device", "no-such-device", "cudaSetDevice(count)", "cudaSetDevice(count - 1)"),
    Mutation("no-such-device", "no-such-device", "cudaPeekAtLastError()", "cudaGetLastError()"),
    Mutation("threads", "look", "    cudart.cudaFree(0)\n", ""),
    Mutation("threads", "look", "    cudart.cudaFree(0)\n", "    cudart.cudaGetDevice()\n"),
    Mutation("threads", "threads", "    in_thread(look)", "    look()"),
    Mutation("shared-pointer", "shared-pointer", "pointer, 1, 4", "pointer, 2, 4"),
    Mutation("shared-pointer", "shared-pointer", "cudaMemset(pointer", "cudaMemset(0"),
    Mutation("own-errors", "own-errors", "in_thread(mistake)", "mistake()"),
    Mutation("own-errors", "own-errors", "cudaSetDevice(-1)", "cudaSetDevice(0)"),
    Mutation("after-reset", "after-reset", "cudart.cudaDeviceReset()", "cudart.cudaDeviceSynchronize()"),
    Mutation("tidy", "tidy", "    cudart.cudaDeviceReset()\n", "    cudart.cudaFree(scratch)\n"),
    Mutation("another-process", "another-process", "cudaMalloc(4)", "cudaMalloc(1 << 50)"),
]

SENTENCES = [
    Sentence(
        "s1-explain",
        "The first call took more than ten thousand times as long as the second",
        "first-call",
        lambda run: run.after("call 1:") > 10_000 * run.after("call 2:"),
    ),
    Sentence(
        "s4-explain",
        "Even a mean of a thousand calls is more than a hundred times too long when the first is among them.",
        "means",
        lambda run: run.after("1000 calls:") > 100 * run.after("1000 calls:", 1),
    ),
    Sentence(
        "s4-explain",
        "One call before the clock starts is enough to be rid of it.",
        "means",
        lambda run: run.after("   1 calls:") > 1000 * run.after("   1 calls:", 1),
    ),
    Sentence(
        "key-points",
        "takes a good part of a second",
        "first-call",
        lambda run: 50_000 < run.after("call 1:") < 500_000,
    ),
    Sentence(
        "s6-sticky",
        "each call that needs the device returns it, whatever the call was to do",
        "sticky",
        lambda run: run.after("failed:") == 4,
    ),
]


class TestComparedCells(ComparedCells):
    chapter, mutations, least, sentences = CHAPTER, MUTATIONS, LEAST_COMPARED, SENTENCES
