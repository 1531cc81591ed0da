"""Chapter 04's compared cells: each agrees with its stored output, and notices a mistake in the code that feeds it.

A compared cell that prints the same whatever its kernel does would prove nothing. So every one of them is run again
with one small mistake made in its own code or in a cell before it, on the simulated device, and must print something
else. The cells run in one IPython shell in this process; only those that the compared cell needs.
"""

from __future__ import annotations

from tests.notebooks.chapter import Chapter, ComparedCells, Mutation, Printed, Sentence

LEAST_COMPARED = 6

# What each compared cell needs, besides `setup` and itself.
NEEDS = {
    "long-way": ["ok", "kernel-add"],
    "cupy-way": ["ok", "kernel-add", "long-way"],
    "pool": [],
    "walk-list": ["ok", "make-list"],
    "count-sectors": ["kernel-strided"],
    "particles": [],
    "pitches": ["ok"],
    "pitch-ignored": ["ok", "make-image", "kernel-negative"],
    "walk-volume": ["ok", "make-image", "kernel-slices"],
    "convolve": ["ok", "module", "globals"],
    "sizes": ["ok", "module", "globals"],
    "sanitize-mended": ["sanitize-off-by-one"],
    "double-free": ["ok"],
    "out-of-memory": ["ok"],
    "fall-back": ["ok"],
}


MUTATIONS = [
    Mutation("long-way", "kernel-add", "a[i] + b[i]", "a[i] - b[i]"),
    Mutation("long-way", "kernel-add", "if (i < n)", "if (i < n - 1)"),
    Mutation("long-way", "long-way", "(4,), (256,)", "(3,), (256,)"),
    Mutation("cupy-way", "cupy-way", "(x, y, z, np.int32(x.size))", "(x, x, z, np.int32(x.size))"),
    Mutation("cupy-way", "cupy-way", "cp.asarray(b)", "cp.asarray(b[::-1] * 2)"),
    Mutation("pool", "pool", "del array", "kept = globals().setdefault('kept', []); kept.append(array)"),
    Mutation("pool", "pool", "1 << 20", "1 << 19"),
    Mutation("walk-list", "walk-list", "node != nullptr", "node->next != nullptr"),
    Mutation("walk-list", "make-list", "make_node(10.0, second)", "make_node(10.0, third)"),
    Mutation("count-sectors", "kernel-strided", "stride * i + offset", "i + offset"),
    Mutation("count-sectors", "kernel-strided", "stride * i + offset", "stride * i"),
    Mutation("particles", "particles", "float x, y, z, mass", "float x, mass"),
    Mutation("pitches", "pitches", "cudaMallocPitch(width, 64)", "cudaMallocPitch(4 * width, 64)"),
    Mutation("pitch-ignored", "kernel-negative", "base + r * pitch", "base + r * width"),
    Mutation("pitch-ignored", "kernel-negative", "255 - row[column]", "row[column]"),
    Mutation("pitch-ignored", "make-image", "width, width, height, to_device", "width, width, height - 1, to_device"),
    Mutation("walk-volume", "kernel-slices", "slice + r * pitch", "slice + r * width"),
    Mutation("walk-volume", "kernel-slices", "column < width", "column < width - 1"),
    Mutation("walk-volume", "kernel-slices", "threadIdx.x * pitch * height", "threadIdx.x * pitch"),
    Mutation("convolve", "module", "i + k - 2", "i + k - 1"),
    Mutation("convolve", "module", "weights[k] * in[j]", "in[j]"),
    Mutation("convolve", "module", "launches += 1", "launches = 1"),
    Mutation("sizes", "module", "weights[5]", "weights[6]"),
    Mutation("sizes", "module", "__device__ int launches", "__device__ long long launches"),
    Mutation("sanitize-mended", "sanitize-mended", '"i < n"', '"i < n + 1"'),
    Mutation("sanitize-mended", "sanitize-off-by-one", "cp.ones(1000", "cp.ones(1024"),
    Mutation("double-free", "double-free", "cudart.cudaFree(x)", "cudart.cudaFree(0)"),
    Mutation("out-of-memory", "out-of-memory", "cp.empty(1 << 40", "cp.empty(1 << 39"),
    Mutation("fall-back", "fall-back", "300_000)", "500_000)"),
    Mutation("fall-back", "fall-back", "begin + room.size]", "begin + room.size - 1]"),
]


CHAPTER = Chapter("04_device_memory.ipynb", NEEDS)


def block_rates(run: Printed) -> dict[int, float]:
    """Blocks started in a nanosecond, by block size."""
    return {int(row[0]): float(row[2]) for row in map(str.split, run.text.splitlines()[1:])}


def falls_then_rises(run: Printed) -> bool:
    times = [2**26 / block / rate for block, rate in block_rates(run).items()]
    halves = all(1.8 < slow / fast < 2.2 for slow, fast in zip(times[:2], times[1:3], strict=True))
    return halves and times[3] == min(times) and times[3] < times[4] < times[5] < 1.3 * times[3]


SENTENCES = [
    Sentence(
        "s1-waits",
        "1024 threads ran, and there are 1000 elements.",
        "long-way",
        lambda run: run.after("sum:") == sum(range(1000)) + 500,
    ),
    Sentence(
        "s2",
        "The two results are equal to the last bit",
        "cupy-way",
        lambda run: run.after("difference to the long way:") == 0,
    ),
    Sentence(
        "s2",
        "The first array cost one call of `cudaMalloc`; the second and third cost none.",
        "pool",
        lambda run: [run.after(f"array {turn}:") for turn in (1, 2, 3)] == [1, 1, 1],
    ),
    Sentence(
        "s2-list", "four bytes of padding follow `value`", "walk-list", lambda run: run.after("60.0,") == 4 + 4 + 8
    ),
    Sentence(
        "s3-why",
        "From 32 to 64 threads the time halves, and again to 128. At 256 it is best, and beyond that it rises again.",
        "blocks-per-ns",
        falls_then_rises,
    ),
    Sentence(
        "s3-why",
        "At 256 it is best",
        "tuner",
        lambda run: run.after("so far is") == 256,
    ),
    Sentence(
        "s3-explain",
        "The first three sizes start about 1.65 blocks a nanosecond.",
        "blocks-per-ns",
        lambda run: all(abs(rate - 1.65) < 0.05 for block, rate in block_rates(run).items() if block <= 128),
    ),
    Sentence(
        "s3-why",
        "Blocks of 32 threads take about five times as long as the best.",
        "tuner",
        lambda run: 4.5 < run.after("32 takes") < 6 and "The run says 5" in run.text.replace("*", ""),
    ),
    Sentence(
        "s3-explain",
        "With 32 threads a block that makes 1024 resident threads, half of what fits.",
        "blocks-per-ns",
        lambda run: [int(line.split()[-1]) for line in run.text.splitlines()[1:3]] == [1024, 2048],
    ),
    Sentence(
        "s4-explain",
        "An offset of 1 costs one sector more, 5 instead of 4.",
        "count-sectors",
        lambda run: run.after("offset 1:") == run.after("stride 1:") + 1 == 5,
    ),
    Sentence(
        "s4-explain",
        "At stride 8 each lane needs a sector for itself",
        "count-sectors",
        lambda run: run.after("stride 8:") == 32,
    ),
    Sentence(
        "s4-aos",
        "It takes about five times as long.",
        "time-stride",
        lambda run: 4.5 < run.after("stride: ", 2) / run.after("stride: ") < 5.5,
    ),
    Sentence(
        "s4-aos",
        "stride 8 reaches 4 TB/s (1.07 GB in 266 µs, measured), stride 1 only 2.5",
        "time-stride",
        lambda run: 3.8 < 1073.7 / run.after("stride: ", 2) < 4.3 and 2.3 < 134.2 / run.after("stride: ") < 2.7,
    ),
    Sentence(
        "s4-aos",
        "1.1 MB in all, too few to keep the memory busy",
        "time-stride",
        lambda run: 1.05 < 132 * 2048 * 4 / 1e6 < 1.15 and 134.2e3 / run.after("stride: ") < 0.7 * 4800,
    ),
    Sentence(
        "s4-aos",
        "The offset costs almost nothing",
        "time-stride",
        lambda run: run.after("offset: ") < 1.1 * run.after("stride: "),
    ),
    Sentence(
        "s4-arrays",
        "stride 4, 16 sectors. The struct of arrays reads at stride 1.",
        "particles",
        lambda run: (run.after("structs:"), run.after("arrays:")) == (16, 4),
    ),
    Sentence(
        "s5-rules",
        "of rows of 100 bytes, four fifths of the memory is padding",
        "pitches",
        lambda run: abs(run.after("width  100", 1) / run.after("width  100") - 0.8) < 0.01,
    ),
    Sentence(
        "s5-3d",
        "every address lies inside the allocation. Only the picture is wrong.",
        "pitch-ignored",
        lambda run: run.after("pitch used:") == 0 < run.after("pitch ignored:") <= 510 * 200,
    ),
    Sentence(
        "s6-names",
        "Three launches saw three sets of weights, and counted themselves",
        "convolve",
        lambda run: run.after("launches:") == 3,
    ),
    Sentence(
        "timing-wrong-explain",
        "No memory is that fast.",
        "timing-wrong",
        lambda run: run.after("GB/s,") >= 5,
    ),
]


class TestComparedCells(ComparedCells):
    chapter, mutations, least, sentences = CHAPTER, MUTATIONS, LEAST_COMPARED, SENTENCES
