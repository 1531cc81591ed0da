"""Chapter 04's compared cells: each agrees with its stored output, and notices a mistake in the code that feeds it.

A compared cell that prints the same whatever its kernel does would prove nothing. So every one of them is run again
with one small mistake made in its own code or in a cell before it, on the simulated device, and must print something
else. The cells run in one IPython shell in this process; only those that the compared cell needs.
"""

from __future__ import annotations

from tests.notebooks.chapter import Chapter, ComparedCells, Mutation

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
    Mutation("cupy-way", "cupy-way", "(x, y, z, np.int32(n))", "(x, x, z, np.int32(n))"),
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


class TestComparedCells(ComparedCells):
    chapter, mutations, least = CHAPTER, MUTATIONS, LEAST_COMPARED
