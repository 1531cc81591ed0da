"""What chapter 01 asks in between: indices, a grid-stride loop, barriers of a block and of a warp, an atomic."""

from __future__ import annotations

import numpy as np

from cudalab.checks.advice import refuse_lost_updates
from cudalab.checks.bench import KernelBench, Known, counted
from cudalab.checks.exercise import Exercise
from cudalab.checks.gate import Gate
from cudalab.checks.work import BUSIEST, Needs

# --- the border of an image ------------------------------------------------------------------------------------------


def _frame(bench: KernelBench) -> None:
    for height, width in ((16, 48), (1, 7), (bench.between(30, 40), bench.between(50, 60))):
        before = np.array(bench.integers(1, 255, height * width), np.uint8).reshape(height, width)
        image = bench.changed("image", before)
        grid, sizes = (-(-width // 16), -(-height // 16)), (np.int32(height), np.int32(width))
        needs = Needs(0, 2 * (height + width), share=1)
        bench.launch(grid, (16, 16), (image, *sizes), f"{counted(height, 'row')} of {width}", needs=needs)
        right = np.full((height, width), 255, np.uint8)
        wiped = right.copy()
        right[1:-1, 1:-1], wiped[1:-1, 1:-1] = before[1:-1, 1:-1], 0
        known = (
            Known("all pixels are painted", np.full_like(right, 255)),
            Known("the inside of the image is wiped: it is to stay as it was", wiped),
        )
        bench.expect(image, right, known=known, look="the condition: four sides, each with its own row or column")


FRAME = Exercise("01.frame", "Paint the border", "frame", _frame, gates=(BUSIEST.of(),))

# --- a grid-stride loop ----------------------------------------------------------------------------------------------


def _axpy(bench: KernelBench) -> None:
    for n, blocks, threads in ((1000, 4, 256), (1000, 1, 33), (bench.between(5000, 6000), 12, 32), (5, 2, 128)):
        x, y, a = bench.random(n), bench.random(n), np.float32(2.5)
        out = bench.output("out", (n,), np.float32)
        arguments = (bench.input("x", x), bench.input("y", y), out, a, np.int32(n))
        needs = Needs(8 * n, 4 * n, share=12 * -(-n // (blocks * threads))) if n > 1000 else None
        bench.launch((blocks,), (threads,), arguments, f"n = {n}, {blocks} × {threads} threads", needs=needs)
        look = "where a thread goes on after its first element, and how far the step is"
        bench.expect(out, a * x + y, tolerance=1e-5, look=look)


AXPY = Exercise("01.axpy", "Loop with the stride of the grid", "axpy", _axpy, gates=(BUSIEST.of(),))

# --- a barrier of the block ------------------------------------------------------------------------------------------


READ_BACK = Gate(
    "words loaded from shared memory for each number",
    least=1,
    look="where out comes from: each number goes into part, and another thread takes it from there, behind a barrier",
    measure=lambda work: work.counts.shared_loads.bytes / work.needs.stored,
)


def _reverse(bench: KernelBench) -> None:
    for blocks in (1, bench.between(3, 6)):
        numbers = np.array(bench.integers(-1000, 1000, 128 * blocks), np.int32)
        out = bench.output("out", numbers.shape, np.int32)
        needs = Needs(numbers.nbytes, numbers.nbytes, share=8)
        bench.launch((blocks,), (128,), (bench.input("in", numbers), out), f"{blocks} × 128 threads", needs=needs)
        look = "what a thread of another warp has to have done before you read its number"
        bench.expect(out, numbers.reshape(-1, 128)[:, ::-1].reshape(-1), look=look)


REVERSE = Exercise("01.reverse", "Reverse by shared memory", "reverse", _reverse, gates=(READ_BACK,))

# --- a barrier of the warp -------------------------------------------------------------------------------------------


def _exchange(bench: KernelBench) -> None:
    numbers = np.array(bench.integers(-1000, 1000, 32), np.int32)
    out = bench.output("out", (32,), np.int32)
    bench.launch((1,), (32,), (bench.input("in", numbers), out), "one warp")
    bench.expect(out, numbers.reshape(-1, 2)[:, ::-1].reshape(-1), look="whose number a lane reads")


EXCHANGE = Exercise("01.exchange", "Exchange numbers in a warp", "exchange", _exchange)

# --- an atomic -------------------------------------------------------------------------------------------------------


def _largest(bench: KernelBench) -> None:
    refuse_lost_updates(bench)
    for n, blocks, threads in ((1, 1, 32), (1000, 4, 256), (bench.between(2000, 3000), 3, 64)):
        numbers = np.array(bench.integers(1, 1_000_000, n), np.int32)
        best = bench.zeroed("best", (1,), np.int32)
        arguments = (bench.input("x", numbers), np.int32(n), best)
        bench.launch((blocks,), (threads,), arguments, f"n = {n}, {blocks} × {threads} threads")
        bench.expect(best, numbers.max(keepdims=True), look="an atomic that keeps the larger of two numbers")


LARGEST = Exercise("01.largest", "Find the largest number", "largest", _largest)

EXERCISES = (FRAME, AXPY, REVERSE, EXCHANGE, LARGEST)
