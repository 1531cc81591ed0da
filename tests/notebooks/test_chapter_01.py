"""Chapter 01's compared cells: each notices a mistake in the code that feeds it; and its sentences about numbers."""

from __future__ import annotations

from tests.notebooks.chapter import Chapter, ComparedCells, Mutation, Sentence

LEAST_COMPARED = 11
CHAPTER = Chapter(
    "01_programming_model.ipynb",
    {
        "matrix-add": [],
        "thread-id": [],
        "too-many": ["matrix-add"],
        "stride-check": ["kernel-stride"],
        "driver-launch": ["kernel-stride"],
        "orders-checked": ["kernel-order"],
        "divergence": ["kernel-diverge"],
        "relay": ["kernel-relay"],
        "lives": ["kernel-lives"],
        "managed": ["kernel-stride"],
        "counts-checked": ["kernel-count"],
        "right-size": ["kernel-stride", "wrong-size"],
    },
)

MUTATIONS = [
    Mutation("matrix-add", "matrix-add", "(width + 15) // 16, (height + 15)", "(height + 15) // 16, (width + 15)"),
    Mutation("matrix-add", "matrix-add", "A[i] +", "A[row * height + column] +"),
    Mutation("thread-id", "thread-id", "threadIdx.z * blockDim.x * blockDim.y", "threadIdx.z * blockDim.x"),
    Mutation("thread-id", "thread-id", "threadIdx.x + threadIdx.y * blockDim.x", "threadIdx.y + threadIdx.x * 8"),
    Mutation("too-many", "too-many", "(33, 32)", "(32, 32)"),
    Mutation("stride-check", "kernel-stride", "i += threads", "i += blockDim.x * 2"),
    Mutation("stride-check", "kernel-stride", "i += threads", "i += n"),
    Mutation("driver-launch", "driver-launch", "np.float32(3)", "np.float32(4)"),
    Mutation("driver-launch", "kernel-stride", "factor * in[i]", "factor + in[i]"),
    Mutation("orders-checked", "kernel-order", "out[block * blockDim.x - 1]", "block * blockDim.x"),
    Mutation("orders-checked", "kernel-order", "= block * blockDim.x + threadIdx.x + 1;", "= block + threadIdx.x + 1;"),
    Mutation("divergence", "kernel-diverge", "i % 2 == 0", "i / 64 % 2 == 0"),
    Mutation("divergence", "kernel-diverge", "i / 32 % 2 == 0", "i / 16 % 2 == 0"),
    Mutation("relay", "kernel-relay", "out[lane] = 31 - lane;", "out[lane] = baton - 1;"),
    Mutation("lives", "kernel-lives", "atomicAdd(&shared_counter, 1);", ""),
    Mutation("lives", "lives", "start[...] = 1000", "start[...] = 1001"),
    Mutation("managed", "managed", "numbers[:] = range(8)", "numbers[:] = range(1, 9)"),
    Mutation("counts-checked", "kernel-count", "{ atomicAdd(counter, 1); }", "{ *counter += 1; }"),
    Mutation("counts-checked", "kernel-count", "atomicAdd_block", "atomicAdd"),
    Mutation("right-size", "right-size", "(x, y, np.float32(2)", "(x, y, np.float32(3)"),
]


ONE_EACH = 51.0
"""µs that 16 M elements take at least with one thread each: chapter 00's tuner, 53.8 on an H200, 51.2 modelled."""
SENTENCES = [
    Sentence(
        "s1-id",
        "The matrix has 3500 elements and the grid 5120 threads",
        "matrix-add",
        lambda run: (run.after("threads:"), run.after("elements:")) == (5120, 3500),
    ),
    Sentence(
        "s2-explain",
        "33 blocks take more than ten times as long as 1056",
        "tune-blocks",
        lambda run: run.after("33 takes") > 10 and run.after("so far is") >= 1056,
    ),
    Sentence(
        "s2-explain",
        "A grid-stride loop with just enough blocks to fill the SMs, here 8 of 256 threads each, is at least as "
        "fast as one thread per element, the 65536 blocks above. With fewer blocks it is slower.",
        "tune-blocks",
        lambda run: run.after("so far is", 1) < ONE_EACH and run.after("33 takes") > 1,
    ),
    Sentence(
        "s2-tune",
        "An SM of an H200 runs up to 2048 threads at once, that is 8 blocks of 256.",
        "capability",
        lambda run: run.after("blocks in y and z") == 2048,
    ),
    Sentence("s2-explain", "8 on each of 132 SMs", "capability", lambda run: {2048, 132} <= set(run.numbers)),
    Sentence(
        "s3-explain",
        "Even *ascending* is not safe.",
        "orders-checked",
        lambda run: "dependent: found in 64 blocks: race" in run.text,
    ),
    Sentence(
        "s4-draw",
        "Half the lanes idle, almost twice the time.",
        "time-divergence",
        lambda time: 1.6 < time.after("by_lane:") / time.after("by_warp:") < 2.1,
    ),
    Sentence(
        "s4-draw",
        "The compiler has unrolled the loops, so the `if` is the only branch left, and in `by_lane` it parts every "
        "warp: 0 %.",
        "divergence",
        lambda lanes: lanes.after("by_lane:") == 0 and lanes.after("warp together,") == 17,
    ),
    Sentence(
        "s6-scopes",
        "It may well count right on your device",
        "counts",
        lambda run: run.after("block_scope:") == run.after("atomic     :") == 8192 > run.after("plain      :"),
    ),
    Sentence(
        "s5-explain",
        "7 + 1 in the first three launches, 1000 + 1 in the fourth",
        "lives",
        lambda run: (
            [run.after(f"launch {n}: local") for n in (1, 2, 3)] + [run.after("changed: local")] == [8, 8, 8, 1001]
        ),
    ),
    Sentence(
        "s5-explain",
        "The global counter is the module's and stays: 32 more with each launch.",
        "lives",
        lambda run: [run.after("global", place) for place in (0, 4, 8, 11)] == [32, 64, 96, 128],
    ),
    Sentence("s9-guard", "24 threads have no element", "no-guard", lambda run: run.after("Seen") == 24),
    Sentence(
        "s9-fault",
        "After a fault each later call fails with the same error",
        "fault",
        lambda run: run.text.count("cudaErrorIllegalAddress") == 2 and "after the reset: [1. 1. 1. 1.]" in run.text,
    ),
]


class TestComparedCells(ComparedCells):
    chapter, mutations, least, sentences = CHAPTER, MUTATIONS, LEAST_COMPARED, SENTENCES
