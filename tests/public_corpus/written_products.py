"""More launches written by hand (see `written.py`): matrix products, transposes, histograms, filters."""

from __future__ import annotations

import numpy as np

from tests.public_corpus.session import Session
from tests.public_corpus.written import Results, launches, random

_CHUNKS = (
    "MatrixMulAsyncCopyMultiStageLargeChunk",
    "MatrixMulAsyncCopyLargeChunk",
    "MatrixMulAsyncCopyLargeChunkAWBarrier",
    "MatrixMulAsyncCopySingleStage",
    "MatrixMulAsyncCopyMultiStage",
    "MatrixMulAsyncCopyMultiStageSharedState",
    "MatrixMulNaive",
    "MatrixMulNaiveLargeChunk",
)


@launches("globalToShmemAsyncCopy.cu", *_CHUNKS)
def _chunked_product(s: Session) -> Results:
    side = 16 if "Li16E" in s.kernel else 32  # blocks of the instance
    n = 4 * side
    a, b, c = s.device(random(n * n, 21)), s.device(random(n * n, 22)), s.zeros(n * n, np.float32)
    rows = side + 2 if "SharedState" in s.kernel else side  # two warps more that copy
    s.launch((4, 4), (side, rows), c, a, b, np.int32(n), np.int32(n))
    return {"C": c}


@launches("matrixMulDrv/matrixMul_kernel.cu", "matrixMul_bs8_64bit", "matrixMul_bs16_64bit", "matrixMul_bs32_64bit")
def _driver_product(s: Session) -> Results:
    side = next(side for side in (8, 16, 32) if f"bs{side}_" in s.kernel)
    a, b, c = s.device(random(64 * 64, 21)), s.device(random(64 * 64, 22)), s.zeros(64 * 64, np.float32)
    s.launch((64 // side, 64 // side), (side, side), c, a, b, np.uint64(64), np.uint64(64))
    return {"C": c}


_TRANSPOSES = ("transposeCoalesced", "transposeNoBankConflicts", "transposeDiagonal", "transposeFineGrained")


@launches("6_Performance/transpose/transpose.cu", *_TRANSPOSES)
def _transpose(s: Session) -> Results:
    side, tile, rows = 64, 32, 16
    out = s.zeros(side * side, np.float32)
    s.launch((side // tile, side // tile), (tile, rows), out, s.device(random(side * side, 23)), *_sides(side))
    return {"odata": out}


def _sides(side: int) -> tuple[np.int32, np.int32]:
    return np.int32(side), np.int32(side)


@launches("histogram256.cu", "histogram256Kernel")
def _histogram(s: Session) -> Results:
    data = np.random.default_rng(24).integers(0, 1 << 32, 4096, dtype=np.uint32)
    partial = s.zeros(4 * 256, np.uint32)
    s.launch((4,), (192,), partial, s.device(data), np.uint32(data.size))
    return {"d_PartialHistograms": partial}


@launches(
    "warpAggregatedAtomicsCG.cu",
    "filter_arr",
    rule="where an element goes depends on the order of warps: compared sorted",
)
def _filter(s: Session) -> Results:
    source = np.random.default_rng(25).integers(-50, 50, 4096, dtype=np.int32)
    found, count = s.zeros(4096, np.int32), s.zeros(1, np.int32)
    s.launch((8,), (256,), found, count, s.device(source), np.int32(4096))
    return {"dst": np.sort(found.get()), "nres": count}


@launches(
    "simpleHyperQ.cu",
    "kernel_A",
    "kernel_B",
    rule="the result is a number of clock ticks: compared is only that it is at least what was asked for",
)
def _ticks(s: Session) -> Results:
    ticks = s.zeros(1, np.int64)
    s.launch((1,), (1,), ticks, np.int64(5000))
    return {"long enough": ticks.get() >= 5000}


@launches("flash_attention_spilling_from_registers.cu", "flash_attention_spilling_from_registers_k")
def _flash_attention(s: Session) -> Results:
    n, width = 16, 128
    q, k, v = (s.device(random(n * width, seed)) for seed in (14, 15, 16))
    out, sums = s.zeros(n * width, np.float32), s.zeros(n, np.float32)
    s.launch((1,), (16, 16), out, sums, q, k, v, np.float32(width**-0.5), np.int32(n), np.int32(1), np.int32(1))
    return {"out": out}
