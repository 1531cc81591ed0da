"""Cheats made from the solution of any kernel: they give the right values, or none where nobody looks."""

from __future__ import annotations

import re

from cudalab.checks import find
from tests.checks.answers.answer import Wrong, solution_of

BUSIEST = "bytes that the busiest thread moves, over what one thread may need"
_LARGE = 300
"""Threads of a grid that counts as large: fewer than those of any launch that is counted."""
_ALL = ("nothing done in large grids", "one thread", "one block", "doubled traffic")


def kernel_cheats(exercise: str, only: tuple[str, ...] = _ALL) -> tuple[Wrong, ...]:
    """The cheats named; those but the first for kernels without barriers, whose threads can run one after the other."""
    name = find(exercise).kernel
    source = solution_of(exercise).partition("\n")[2]
    head = re.search(rf'extern "C" __global__ void {name}\((.*?)\) \{{', source, re.DOTALL)
    assert head is not None
    parameters = head[1]
    arguments = ", ".join(re.findall(r"(\w+)(?=,|$)", parameters))
    body = source.replace(head[0], f"__device__ void body(uint3 threadIdx, uint3 blockIdx, {parameters}) {{")

    def calling(text: str) -> str:
        return f'{body}\nextern "C" __global__ void {name}({parameters}) {{\n{text}\n}}'

    def over(index: str, limits: str) -> str:
        return (
            f"for (unsigned y{index} = 0; y{index} < {limits}.y; y{index}++)"
            f" for (unsigned x{index} = 0; x{index} < {limits}.x; x{index}++)"
        )

    cheats = (
        Wrong(
            _ALL[0],
            (),
            "correctness",
            "wrong values",
            source=source.replace(
                head[0],
                f"{head[0]}\n    if (gridDim.x * gridDim.y * blockDim.x * blockDim.y >= {_LARGE}) return;",
            ),
            cheat=True,
        ),
        Wrong(
            _ALL[1],
            (),
            "efficiency",
            BUSIEST,
            source=calling(
                "if (threadIdx.x || threadIdx.y || blockIdx.x || blockIdx.y) return;\n"
                f"{over('b', 'gridDim')} {over('t', 'blockDim')}"
                f" body(make_uint3(xt, yt, 0), make_uint3(xb, yb, 0), {arguments});"
            ),
            cheat=True,
        ),
        Wrong(
            _ALL[2],
            (),
            "efficiency",
            BUSIEST,
            source=calling(
                f"if (blockIdx.x || blockIdx.y) return;\n"
                f"{over('b', 'gridDim')} body(threadIdx, make_uint3(xb, yb, 0), {arguments});"
            ),
            cheat=True,
        ),
        Wrong(
            _ALL[3],
            (),
            "efficiency",
            "bytes loaded, over the bytes that are needed",
            source=calling(
                f"for (volatile int round = 0; round < 2; round = round + 1) body(threadIdx, blockIdx, {arguments});"
            ),
            cheat=True,
        ),
    )
    return tuple(cheat for cheat in cheats if cheat.name in only)


_MEET = """__device__ unsigned arrived[1 << 20];

__device__ void meet() {
    unsigned threads = blockDim.x * blockDim.y, warps = (threads + 31) / 32;
    unsigned* mine = &arrived[(1024 * threads + blockIdx.y * gridDim.x + blockIdx.x) % (1 << 20)];
    __syncwarp();
    if ((threadIdx.y * blockDim.x + threadIdx.x) % 32 == 0) {
        __threadfence_block();
        unsigned all = (atomicAdd(mine, 1) / warps + 1) * warps;
        while (atomicAdd(mine, 0) < all) {}
        __threadfence_block();
    }
    __syncwarp();
}

"""


def polled_barrier(exercise: str, then: str = "") -> str:
    """The solution with a counter in global memory that a thread of each warp asks until all of the block have come;
    ``then`` comes behind that."""
    return _MEET + solution_of(exercise).partition("\n")[2].replace("__syncthreads();", f"meet(); {then}")
