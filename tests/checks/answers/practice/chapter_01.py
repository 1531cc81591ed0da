"""Chapter 01."""

from __future__ import annotations

from tests.checks.answers.answer import Wrong, table

_BORDER = "row == 0 || row == height - 1 || column == 0 || column == width - 1"
_LOOP = "for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += threads)"
_LOST = {
    "a swap that may fail": "if (x[i] > *best) atomicCAS(best, *best, x[i]);",
    "a swap whose failure goes unseen": "int old = *best; if (old < x[i]) old = atomicCAS(best, old, x[i]);",
    "a swap whose result decides nothing": "int old = atomicAdd(best, 0); if (old < x[i]"
    ' && atomicCAS(best, old, x[i]) == n) printf("%d", n);',
    "four swaps that may fail": "for (int k = 0, seen = atomicAdd(best, 0), old; k < 4; ++k, seen = old) "
    "if ((old = atomicCAS(best, seen, max(seen, x[i]))) == seen) break;",
    "a look and an exchange": "int old = atomicAdd(best, 0); if (x[i] > old) atomicExch(best, x[i]);",
}

WRONG = (
    *table(
        "01.frame",
        Wrong("all of it", ((_BORDER, "true"),), "correctness", "wrong values", mistake="all pixels"),
        Wrong(
            "an inside that is wiped",
            (("if (border) image[row * width + column] = 255;", "image[row * width + column] = border ? 255 : 0;"),),
            "correctness",
            "wrong values",
            mistake="the inside of the image is wiped",
        ),
        Wrong("two sides", ((_BORDER, "row == 0 || column == 0"),), "correctness", "wrong values"),
        Wrong("one too far", (("height - 1", "height"),), "correctness", "wrong values"),
        Wrong("no guard", (("if (row >= height || column >= width) return;", ""),), "soundness", "out of bounds"),
        Wrong(
            "one thread paints it all",
            (
                ("if (row >= height || column >= width) return;", "if (row || column) return;"),
                (
                    f"bool border = {_BORDER};\n    if (border) image[row * width + column] = 255;",
                    "for (; row < height; row++) for (column = 0; column < width; column++)\n"
                    f"        if ({_BORDER}) image[row * width + column] = 255;",
                ),
            ),
            "efficiency",
            "bytes that the busiest thread moves, over what one thread may need",
        ),
    ),
    *table(
        "01.axpy",
        Wrong("one element a thread", (("i += threads", "i += n"),), "correctness", "wrong values"),
        Wrong("the stride of a block", (("gridDim.x * blockDim.x", "blockDim.x"),), "soundness", "race"),
        Wrong(
            "one thread does it all",
            ((_LOOP, "if (blockIdx.x + threadIdx.x == 0) for (int i = 0; i < n; i++)"),),
            "efficiency",
            "bytes that the busiest thread moves, over what one thread may need",
        ),
        Wrong(
            "block 0 does it all",
            (
                (_LOOP, "for (int i = threadIdx.x; i < n; i += blockDim.x)"),
                ("out[i] = a", "if (blockIdx.x == 0) out[i] = a"),
            ),
            "efficiency",
            "bytes that the busiest thread moves, over what one thread may need",
        ),
    ),
    *table(
        "01.reverse",
        Wrong("a barrier of the warp", (("__syncthreads", "__syncwarp"),), "soundness", "race"),
        Wrong("a fence", (("__syncthreads", "__threadfence_block"),), "soundness", "race"),
        Wrong("one place off", (("127 - threadIdx.x", "(128 - threadIdx.x) % 128"),), "correctness", "wrong values"),
        Wrong(
            "the input read in reverse",
            (("    __syncthreads();\n", ""), ("part[127 - threadIdx.x]", "in[blockIdx.x * 128 + 127 - threadIdx.x]")),
            "efficiency",
            "words loaded from shared memory for each number",
        ),
    ),
    *table(
        "01.exchange",
        Wrong("a fence", (("__syncwarp", "__threadfence_block"),), "soundness", "race"),
        Wrong("a lane of its own", (("box[lane ^ 1]", "box[lane]"),), "correctness", "wrong values"),
    ),
    *table(
        "01.largest",
        Wrong(
            "a plain maximum",
            (("atomicMax(best, x[i]);", "*best = x[i] > *best ? x[i] : *best;"),),
            "soundness",
            "race",
        ),
        Wrong("the wrong scope", (("atomicMax", "atomicMax_block"),), "soundness", "race"),
        Wrong("the sum", (("atomicMax", "atomicAdd"),), "correctness", "wrong values"),
        *(
            Wrong(name, (("atomicMax(best, x[i]);", statement),), "soundness", "lost update")
            for name, statement in _LOST.items()
        ),
    ),
)
