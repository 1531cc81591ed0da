"""Chapter 01's compared cells: each notices a mistake in the code that feeds it.

The chapter is a draft: its stored outputs came from the simulated device, so each cell is also run as it stands.
"""

from __future__ import annotations

from tests.notebooks.chapter import Chapter, ComparedCells, Mutation

LEAST_COMPARED = 17
CHAPTER = Chapter(
    "01_programming_model.ipynb",
    {
        "matrix-add": [],
        "thread-id": [],
        "too-many": ["matrix-add"],
        "stride-check": ["kernel-stride"],
        "driver-launch": ["kernel-stride"],
        "orders-checked": ["kernel-order"],
        "clusters": [],
        "divergence": ["kernel-diverge"],
        "relay": ["kernel-relay"],
        "neighbours": ["kernel-relay", "relay"],
        "lives": ["kernel-lives"],
        "managed": ["kernel-stride"],
        "counts-checked": ["kernel-count"],
        "message": ["kernel-message"],
        "async": ["kernel-async"],
        "group-copy": ["kernel-async", "async"],
        "architecture": ["capability"],
        "right-size": ["kernel-stride", "wrong-size"],
    },
)

MUTATIONS = [
    Mutation("matrix-add", "matrix-add", "(width + 15) // 16, (height + 15)", "(height + 15) // 16, (width + 15)"),
    Mutation("matrix-add", "matrix-add", "A[row * width + column] +", "A[row * height + column] +"),
    Mutation("thread-id", "thread-id", "threadIdx.z * blockDim.x * blockDim.y", "threadIdx.z * blockDim.x"),
    Mutation("thread-id", "thread-id", "threadIdx.x + threadIdx.y * blockDim.x", "threadIdx.y + threadIdx.x * 8"),
    Mutation("too-many", "too-many", "(33, 32)", "(32, 32)"),
    Mutation("stride-check", "kernel-stride", "i += threads", "i += blockDim.x * 2"),
    Mutation("stride-check", "kernel-stride", "i += threads", "i += n"),
    Mutation("driver-launch", "driver-launch", "np.float32(3)", "np.float32(4)"),
    Mutation("driver-launch", "kernel-stride", "factor * in[i]", "factor + in[i]"),
    Mutation("orders-checked", "kernel-order", "out[block * blockDim.x - 1]", "block * blockDim.x"),
    Mutation("orders-checked", "kernel-order", "= block * blockDim.x + threadIdx.x + 1;", "= block + threadIdx.x + 1;"),
    Mutation("clusters", "clusters", "cluster.block_rank() + 1", "cluster.block_rank() + 2"),
    Mutation("clusters", "clusters", "__cluster_dims__(4, 1, 1)", "__cluster_dims__(2, 1, 1)"),
    Mutation("divergence", "kernel-diverge", "i % 2 == 0", "i / 64 % 2 == 0"),
    Mutation("divergence", "kernel-diverge", "i / 32 % 2 == 0", "i / 16 % 2 == 0"),
    Mutation("relay", "kernel-relay", "out[lane] = 31 - lane;", "out[lane] = baton - 1;"),
    Mutation("neighbours", "neighbours", "box[lane ^ 1]", "box[lane]"),
    Mutation("neighbours", "neighbours", '("", "__syncwarp();")', '("", "")'),
    Mutation("lives", "kernel-lives", "atomicAdd(&shared_counter, 1);", ""),
    Mutation("lives", "lives", "start[...] = 1000", "start[...] = 1001"),
    Mutation("managed", "managed", "numbers[:] = range(8)", "numbers[:] = range(1, 9)"),
    Mutation("counts-checked", "kernel-count", "{ atomicAdd(counter, 1); }", "{ *counter += 1; }"),
    Mutation("counts-checked", "kernel-count", "atomicAdd_block", "atomicAdd"),
    Mutation("message", "kernel-message", '"__threadfence();")', '"")'),
    Mutation("message", "kernel-message", "100 + threadIdx.x", "101 + threadIdx.x"),
    Mutation("async", "kernel-async", '"ready.arrive_and_wait();")', '"")'),
    Mutation("async", "kernel-async", "tile[255 - threadIdx.x]", "tile[threadIdx.x]"),
    Mutation("group-copy", "group-copy", "tile[255 - threadIdx.x]", "tile[254 - threadIdx.x % 255]"),
    Mutation("architecture", "architecture", "= __CUDA_ARCH__", "= __CUDA_ARCH__ + 10"),
    Mutation("right-size", "right-size", "(x, y, np.float32(2)", "(x, y, np.float32(3)"),
]


class TestComparedCells(ComparedCells):
    chapter, mutations, least = CHAPTER, MUTATIONS, LEAST_COMPARED
