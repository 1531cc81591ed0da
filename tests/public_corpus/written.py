"""Launches written by hand, for kernels whose launch cannot be guessed: as the sample's own host code has it.

Each function makes the data, launches the kernel and returns what is compared. They run through CuPy's API, on the
simulated device and on a GPU alike. Where a result depends on time or on the order of threads, `rule` says what is left
out of the comparison and why; everything else is compared as a whole.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.public_corpus.session import WRAP, Session, record

Results = dict[str, Any]


@dataclass(frozen=True)
class Written:
    """A launch of one kernel of one file."""

    file: str
    """How the file's path ends."""
    kernel: str
    """As in the source."""
    run: Callable[[Session], Results]
    rule: str = ""


ALL: list[Written] = []


def every() -> list[Written]:
    """All there are, those of `written_products.py` too."""
    importlib.import_module("tests.public_corpus.written_products")
    return ALL


def find(file: str, kernel: str) -> Written | None:
    """The launch of a kernel, by the name that PTX has for it."""
    for each in every():
        if file.endswith(each.file) and (
            kernel == each.kernel or kernel.startswith(f"_Z{len(each.kernel)}{each.kernel}")
        ):
            return each
    return None


def launches(file: str, *kernels: str, rule: str = "") -> Callable[[Callable[[Session], Results]], Any]:
    """Says of a function that it launches these kernels of a file."""

    def add(run: Callable[[Session], Results]) -> Callable[[Session], Results]:
        ALL.extend(Written(file, kernel, run, rule) for kernel in kernels)
        return run

    return add


def random(count: int | tuple[int, ...], seed: int = 1) -> np.ndarray:
    """Floats from 0 to 1, always the same."""
    return np.random.default_rng(seed).random(count, np.float32)


_PENCILS = {
    "derivative_x": ((16, 64), (64, 4)),
    "derivative_x_lPencils": ((2, 64), (64, 4)),
    "derivative_y": ((16, 64), (4, 64)),
    "derivative_y_lPencils": ((2, 64), (32, 8)),
    "derivative_z": ((16, 64), (4, 64)),
    "derivative_z_lPencils": ((2, 64), (32, 8)),
}


@launches("finite-difference.cu", *_PENCILS)
def _derivative(s: Session) -> Results:
    weights = np.array([4 / 5, -1 / 5, 4 / 105, -1 / 280], np.float32) * np.float32(63)
    for axis in "xyz":
        for name, weight in zip("abcd", weights, strict=True):
            s.constant(f"c_{name}{axis}", weight)
    grid, block = next(_PENCILS[name] for name in sorted(_PENCILS, key=len, reverse=True) if name in s.kernel)
    f, df = s.device(random(64**3)), s.zeros(64**3, np.float32)
    s.launch(grid, block, f, df)
    return {"df": df}


@launches("unified-memory/dataElem.cu", "Kernel")
@launches("unified-memory/dataElem_um.cu", "Kernel")
def _data_element(s: Session) -> Results:
    name = s.device(np.frombuffer(b"hello\0", np.uint8))
    layout = np.dtype({"names": ["name", "value"], "formats": ["u8", "i4"], "itemsize": 16})
    element = np.zeros(1, layout)
    element[0] = (name.data.ptr, 10)
    on_device = s.device(element.view(np.uint8))
    s.launch((1,), (1,), on_device)
    return {"name": name, "value": on_device.get().view(layout)["value"]}


@launches("simpleLayeredTexture.cu", "transformKernel")
def _layered(s: Session) -> Results:
    side, layers = 64, 5
    texels = np.tile(np.arange(side * side, dtype=np.float32).reshape(side, side, 1), (layers, 1, 1, 1))
    texture = s.texture(texels, mode=WRAP, linear=True, normalised=True, layered=True)
    out = s.zeros(side * side * layers, np.float32)
    for layer in range(layers):
        s.launch((8, 8), (8, 8), out, np.int32(side), np.int32(side), np.int32(layer), texture)
    return {"g_odata": out}


@launches("bindlessTexture_kernel.cu", "d_render")
def _bindless(s: Session) -> Results:
    bytes_ = np.random.default_rng(3).integers(0, 256, (4, 32, 32, 4), dtype=np.uint8)
    handles = [s.texture(image, mode=WRAP, linear=True, normalised=True, fractions=True) for image in bytes_]
    atlas = np.array(handles, np.uint64).view(np.uint32).reshape(2, 2, 2)
    out = s.zeros((64 * 64, 4), np.uint8)
    s.launch((4, 4), (16, 16), out, np.uint32(64), np.uint32(64), np.float32(0), s.texture(atlas, normalised=True))
    return {"d_output": out}


def _volume(s: Session) -> tuple[np.uint64, np.uint64]:
    eye = np.array([[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 4]], np.float32)
    s.constant("c_invViewMatrix", eye.reshape(-1))
    volume = np.random.default_rng(4).integers(0, 256, (16, 16, 16, 1), dtype=np.uint8)
    colours = random((8, 4), 5)
    return (
        s.texture(volume, mode=WRAP, linear=True, normalised=True, fractions=True),
        s.texture(colours, linear=True, normalised=True),
    )


_VIEW = (np.uint32(64), np.uint32(64), np.float32(0.05), np.float32(1), np.float32(0), np.float32(1))


@launches("volumeRender/volumeRender_kernel.cu", "d_render")
def _render(s: Session) -> Results:
    volume, colours = _volume(s)
    out = s.zeros(64 * 64, np.uint32)
    s.launch((4, 4), (16, 16), out, *_VIEW, volume, colours)
    return {"d_output": out}


@launches("volumeFiltering/volumeRender_kernel.cu", "d_render_regular", "d_render_preint", "d_render_preint_off")
def _render_filtered(s: Session) -> Results:
    volume, colours = _volume(s)
    layers = s.texture(random((2, 16, 16, 4), 6), linear=True, normalised=True, layered=True)
    out = s.zeros(64 * 64, np.uint32)
    s.launch((4, 4), (16, 16), out, *_VIEW, volume, colours, layers, np.float32(0))
    return {"d_output": out}


@launches("vulkanImageCUDA.cu", "d_boxfilter_rgba_x", "d_boxfilter_rgba_y")
def _box_filter(s: Session) -> Results:
    image = np.random.default_rng(7).integers(0, 256, (32, 32, 4), dtype=np.uint8)
    target = s.array(np.zeros_like(image), surface=True)
    targets = s.device(np.array([s.surface(target)], np.uint64))
    if "rgba_x" in s.kernel:
        source: Any = s.texture(image, mode=WRAP, linear=True, normalised=True, fractions=True)
    else:
        source = s.device(np.array([s.surface(s.array(image, surface=True))], np.uint64))
    sizes = np.uint64(32), np.uint64(32), np.uint64(1)
    s.launch((1,), (64,), targets, source, *sizes, np.int32(3))
    return {"surface": s.read(target, image)}


@launches("marchingCubes_kernel.cu", "classifyVoxel", "compactVoxels", "generateTriangles", "generateTriangles2")
def _marching_cubes(s: Session) -> Results:
    side, count = 16, 16**3
    random = np.random.default_rng(8)
    corners = 3 * random.integers(0, 6, 256, dtype=np.uint32)  # vertices of each case; the tables are made up
    edges = s.linear_texture(random.integers(0, 12, 256 * 16, dtype=np.uint32))
    counts = s.linear_texture(corners)
    data = random.integers(0, 256, count, dtype=np.uint8)
    volume, field = s.device(data), s.linear_texture(data, fractions=True)
    threes = (
        record(x=np.uint32(side), y=np.uint32(side), z=np.uint32(side)),
        record(x=np.uint32(0), y=np.uint32(4), z=np.uint32(8)),
        record(x=np.uint32(side - 1), y=np.uint32(side - 1), z=np.uint32(side - 1)),
    )
    step = np.float32(2 / side)
    voxel, iso = record(x=step, y=step, z=step), np.float32(0.5)
    vertices, occupied = s.zeros(count, np.uint32), s.zeros(count, np.uint32)
    classify = (vertices, occupied, volume, *threes, np.uint32(count), voxel, iso, counts, field)
    s.launch((count // 128,), (128,), *classify, kernel="classifyVoxel")
    if "classifyVoxel" in s.kernel:
        return {"voxelVerts": vertices, "voxelOccupied": occupied}
    flags, compact = occupied.get(), s.zeros(count, np.uint32)
    scanned = s.device(np.cumsum(flags, dtype=np.uint32) - flags)
    s.launch((count // 128,), (128,), compact, occupied, scanned, np.uint32(count), kernel="compactVoxels")
    if "compactVoxels" in s.kernel:
        return {"compactedVoxelArray": compact}
    each = vertices.get()
    if "generateTriangles2" not in s.kernel:  # takes its corners from the field function, which may give up to 15
        each = np.full_like(each, 15)
    first, most, active = np.cumsum(each, dtype=np.uint32) - each, int(each.sum()), int(flags.sum())
    place, normal = s.zeros((most, 4), np.float32), s.zeros((most, 4), np.float32)
    shape = (compact, s.device(first), *((volume,) if "generateTriangles2" in s.kernel else ()), *threes, voxel, iso)
    tables = (edges, counts, *((field,) if "generateTriangles2" in s.kernel else ()))
    numbers = np.uint32(active), np.uint32(most)
    s.launch(((active + 31) // 32,), (32,), place, normal, *shape, *numbers, *tables)
    return {"pos": place, "norm": normal}


@launches(
    "clock.cu",
    "timedReduction",
    rule="timer holds clock readings: compared is only that no block ended before it began",
)
@launches(
    "clock_kernel.cu",
    "timedReduction",
    rule="timer holds clock readings: compared is only that no block ended before it began",
)
def _clock(s: Session) -> Results:
    values, out, timer = s.device(random(512, 9)), s.zeros(64, np.float32), s.zeros(128, np.int64)
    s.launch((64,), (256,), values, out, timer, shared=4 * 512)
    begun, ended = timer.get().reshape(2, 64)
    return {"output": out, "ended after it began": ended > begun}


@launches(
    "systemWideAtomics.cu",
    "atomicKernel",
    rule="words 1 (atomicExch) and 6 (atomicCAS) keep what the last thread to come stored, and threads come in no "
    "order: of these, compared is only that a thread of the launch stored them, as the sample's own check does",
)
def _system_atomics(s: Session) -> Results:
    start = np.zeros(10, np.int32)
    start[7] = start[9] = 0xFF
    words, threads = s.device(start), 64 * 256
    s.launch((64,), (256,), words)
    found = words.get()
    loose = (found[[1, 6]] >= 0) & (found[[1, 6]] < threads)
    return {"atom_arr": np.delete(found, [1, 6]), "words 1 and 6": loose}


@launches("mergeSort.cu", "mergeElementaryIntervalsKernel")
@launches("bitonic.cu", "bitonicMergeElementaryIntervalsKernel")
def _merge_intervals(s: Session) -> Results:
    count, stride, samples = 2048, 1024, 128
    keys = np.sort(np.random.default_rng(10).integers(0, 1000, (2, stride), dtype=np.uint32), axis=1)
    if "Lj1E" not in s.kernel:  # sortDir: 1 is upwards
        keys = keys[:, ::-1]
    # every sample, with the place of the run it is of, and where it would go in the other run
    limits = np.zeros((2, 16), np.uint32)
    up = keys if keys[0, 0] <= keys[0, -1] else keys.astype(np.int64) * -1
    ranks = [
        (int(k), 0, i, int(np.searchsorted(up[1], k, "left")))
        for i, k in zip(range(0, stride, samples), up[0, ::samples], strict=True)
    ]
    ranks += [
        (int(k), 1, int(np.searchsorted(up[0], k, "right")), i)
        for i, k in zip(range(0, stride, samples), up[1, ::samples], strict=True)
    ]
    for at, (_, _, in_a, in_b) in enumerate(sorted(ranks, key=lambda rank: (rank[2] + rank[3], rank[1]))):
        limits[:, at] = in_a, in_b
    source, values = s.device(keys.reshape(-1)), s.device(np.arange(count, dtype=np.uint32))
    sorted_keys, sorted_values = s.zeros(count, np.uint32), s.zeros(count, np.uint32)
    halves = s.device(limits[0]), s.device(limits[1])
    numbers = np.uint32(stride), np.uint32(count)
    s.launch((count // samples,), (samples,), sorted_keys, sorted_values, source, values, *halves, *numbers)
    return {"d_DstKey": sorted_keys, "d_DstVal": sorted_values}


@launches("simpleAWBarrier.cu", "normVecByDotProductAWBarrier")
def _norm(s: Session) -> Results:
    a, b, partial = s.device(random(4096, 11)), s.device(random(4096, 12)), s.zeros(4, np.float64)
    s.launch((4,), (256,), a, b, partial, np.int32(4096), shared=8 * 9, cooperative=True)
    return {"vecA": a, "vecB": b, "partialResults": partial}


@launches("conjugateGradientMultiBlockCG.cu", "gpuConjugateGradient")
@launches("conjugateGradientMultiDeviceCG.cu", "multiGpuConjugateGradient")
def _conjugate_gradient(s: Session) -> Results:
    n = 512
    rows = np.repeat(np.arange(n), 3)[1:-1]
    columns = (np.arange(n)[:, None] + [-1, 0, 1]).reshape(-1)[1:-1]
    off = random(n, 13)
    values = np.where(rows == columns, 10 + off[rows], off[np.minimum(rows, columns)])
    starts = np.searchsorted(rows, np.arange(n + 1))
    matrix = [s.device(each) for each in (starts.astype("i4"), columns.astype("i4"), values.astype("f4"))]
    x, residual = s.zeros(n, np.float32), s.device(np.ones(n, np.float32))
    ax, p, dot = s.zeros(n, np.float32), s.zeros(n, np.float32), s.zeros(1, np.float64)
    numbers: list[Any] = [np.int32(len(columns)), np.int32(n), np.float32(1e-5)]
    if "multiGpu" in s.kernel:  # a group of one device
        arrived = s.zeros(16, np.uint8)
        numbers.append(record(arrived=np.uint64(arrived.data.ptr), devices=np.uint32(1), rank=np.uint32(0)))
    s.launch((2,), (256,), *matrix, x, ax, p, residual, dot, *numbers, shared=8 * 9, cooperative=True)
    return {"x": x}


_POPS = (
    "a thread gets what it pops, which depends on the order of threads: sorted before, as the sample's own check does"
)


@launches("newdelete.cu", "vectorCreate", "containerFill", "containerConsume", "containerDelete", rule=_POPS)
def _container(s: Session) -> Results:
    holder, results = s.zeros(1, np.uint64), s.zeros(64 * 64, np.int32)
    s.launch((1,), (1,), holder, np.int32(64), kernel="vectorCreate")
    s.launch((64,), (64,), holder, kernel="containerFill")
    s.launch((64,), (64,), holder, results, kernel="containerConsume")
    s.launch((1,), (1,), holder, kernel="containerDelete")
    return {"d_result": np.sort(results.get())}


@launches("newdelete.cu", "placementNew", "complexVector", rule=_POPS)
def _placement(s: Session) -> Results:
    results = s.zeros(1024, np.int32)
    s.launch((1,), (1024,), results)
    return {"d_result": np.sort(results.get())}


@launches("flash_attention.cu", "flash_attention_k")
def _flash_attention(s: Session) -> Results:
    n, width = 64, 128
    q, k, v = (s.device(random(n * width, seed)) for seed in (14, 15, 16))
    out, sums = s.zeros(n * width, np.float32), s.zeros(n, np.float32)
    numbers = np.float32(width**-0.5), np.int32(n), np.int32(n // 8), np.int32(n // 32)
    s.launch((n // 8,), (128, 8), out, sums, q, k, v, *numbers)
    return {"out": out}


@launches(
    "cudaGraphPerfScaling.cu",
    "waitWithTimeout",
    rule="timeElapsed is a time: compared is only that it is at least what was asked for",
)
def _wait(s: Session) -> Results:
    late, elapsed = s.zeros(1, np.uint8), s.zeros(1, np.int64)
    s.launch((1,), (1,), np.int64(20_000), late, elapsed, s.zeros(1, np.int32))
    return {"timeoutDetected": late, "long enough": elapsed.get() >= 20_000}


@launches("shfl_scan.cu", "shfl_vertical_shfl")
def _vertical(s: Session) -> Results:
    width, height = 64, 1080  # the kernel counts on 135 steps of 8 rows
    image = s.device(np.random.default_rng(17).integers(0, 100, (height, width), dtype=np.uint32))
    s.launch((width // 32,), (32, 8), image, np.int32(width), np.int32(height))
    return {"img": image}


@launches("shfl_scan.cu", "shfl_intimage_rows")
def _rows(s: Session) -> Results:
    rows = 8  # of 1920 pixels, 16 for each thread
    image = s.device(np.random.default_rng(18).integers(0, 256, (rows, 1920), dtype=np.uint8))
    integral = s.zeros((rows, 1920), np.uint32)
    s.launch((rows,), (120,), image, integral)
    return {"integral_image": integral}


@launches("BezierLineCDP.cu", "computeBezierLinePositions")
def _bezier(s: Session) -> Results:
    vertices = s.zeros((32, 2), np.float32)
    layout = np.dtype({"names": ["CP", "at", "n"], "formats": ["6f4", "u8", "i4"], "itemsize": 40})
    line = np.zeros(1, layout)
    line[0] = (random(6, 19), vertices.data.ptr, 32)
    s.launch((1,), (32,), np.int32(0), s.device(line.view(np.uint8)), np.int32(32))
    return {"vertexPos": vertices}


@launches("FunctionPointers_kernels.cu", "SobelTex", "SobelShared")
def _function_pointers(s: Session) -> Results:
    filters = s.variable("pComputeSobel", np.uint64), s.variable("pComputeBox", np.uint64)
    threshold = s.variable("pComputeThreshold", np.uint64)
    s.constant("blockFunction_table", np.concatenate(filters))
    width, height = 64, 16
    image = s.texture(np.random.default_rng(20).integers(0, 256, (height, width, 1), dtype=np.uint8))
    out = s.zeros((height, width), np.uint8)
    work = np.float32(1), np.int32(0), threshold[0], image
    if "SobelTex" in s.kernel:
        s.launch((height,), (384,), out, np.uint32(width), np.int32(width), np.int32(height), *work)
    else:
        pitch = 384  # for blocks of 80 times 4 pixels and a border of one
        sizes = np.uint16(width), np.int16(80), np.int16(pitch), np.int16(width), np.int16(height)
        s.launch((1, height // 4), (16, 4), out, *sizes, *work, shared=pitch * 6)
    return {"pSobel": out}
