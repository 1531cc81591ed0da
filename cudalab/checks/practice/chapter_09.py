"""What chapter 09 asks in between: a scope, a release and its acquire, fences round a ticket, a wait for a copy."""

from __future__ import annotations

import numpy as np

from cudalab.checks.bench import KernelBench, counted
from cudalab.checks.exercise import Exercise


def _visits(bench: KernelBench) -> None:
    for blocks, n in ((1, 64), (bench.between(5, 8), bench.between(300, 320))):
        came = np.array(bench.integers(0, 2, n), np.int32)
        total = bench.zeroed("total", (1,), np.int32)
        bench.launch(
            (blocks,), (64,), (bench.input("came", came), np.int32(n), total), f"n = {n}, {blocks} × 64 threads"
        )
        bench.expect(total, came[: 64 * blocks].sum(keepdims=True), look="who adds to total, and who to mine")


VISITS = Exercise("09.visits", "Count with the right scopes", "visits", _visits)


def _publish(bench: KernelBench) -> None:
    numbers = np.array(bench.integers(1, 1000, 32), np.int32)
    word, data = bench.zeroed("word", (1,), np.int32), bench.output("data", (32,), np.int32)
    out = bench.output("out", (32,), np.int32)
    arguments = (bench.input("in", numbers), word, data, out)
    bench.launch((2,), (32,), arguments, "2 × 32 threads", handed_over=data)
    bench.expect(out, numbers, look="what block 1 reads after it has seen the flag")


PUBLISH = Exercise("09.publish", "Publish with a flag", "publish", _publish)


def _total(bench: KernelBench) -> None:
    for blocks in (1, bench.between(6, 12)):
        numbers = np.array(bench.integers(-50, 100, 100 * blocks), np.int32)
        parts, tickets = bench.output("parts", (blocks,), np.int32), bench.zeroed("tickets", (1,), np.int32)
        out = bench.output("out", (1,), np.int32)
        arguments = (bench.input("x", numbers), parts, tickets, out)
        bench.launch((blocks,), (32,), arguments, counted(blocks, "block"), handed_over=parts)
        bench.expect(out, numbers.sum(keepdims=True).astype(np.int32), look="which block adds up, and what it adds")


TOTAL = Exercise("09.total", "Let the last block add up", "total", _total)


def _shift(bench: KernelBench) -> None:
    blocks = bench.between(2, 5)
    numbers = np.array(bench.integers(-1000, 1000, 128 * blocks), np.int32)
    out = bench.output("out", numbers.shape, np.int32)
    bench.launch((blocks,), (128,), (bench.input("in", numbers), out), f"{blocks} × 128 threads")
    bench.expect(out, np.roll(numbers.reshape(-1, 128), -1, axis=1).reshape(-1), look="from which place a thread reads")


SHIFT = Exercise("09.shift", "Wait for a copy", "shift", _shift)

EXERCISES = (VISITS, PUBLISH, TOTAL, SHIFT)
