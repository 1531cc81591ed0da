"""The third set's launches whose work depends on the data: searches that end early, rows and lists of uneven length,
places that many threads want."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from bench.fidelity.experiment import experiment
from bench.fidelity.laboratory import Laboratory

Result = Iterator[tuple[str, float]]
I, F = np.int32, np.float32  # noqa: E741
TOPIC = "third_data"


def blocks(n: int, block: int) -> int:
    """How many blocks it takes for ``n`` threads."""
    return -(-n // block)


@experiment("third: rays that march to a torus")
def marches(lab: Laboratory) -> Result:
    for w, close, block in ((400, 1e-1, (16, 8)), (400, 1e-3, (16, 8)), (400, 1e-3, (64, 2)), (1200, 1e-3, (16, 8))):
        grid = tuple(blocks(w, side) for side in block)
        yield (
            f"{w} pixels, to {close:g}, {block[0]} x {block[1]}",
            lab.kernel(TOPIC, "march_rays", grid, block, lab.buffer("steps", 4 * w * w), I(w), F(close), I(150)),
        )


@experiment("third: numbers with rounds of their own")
def numbers(lab: Laboratory) -> Result:
    rng = np.random.default_rng(201)
    n = 150_000
    x, out = lab.array(10.0 ** rng.uniform(-3, 6, n)), lab.buffer("out", 8 * n)
    for tolerance in (1e-2, 1e-9):
        args = (x, out, np.float64(tolerance), I(n))
        yield f"cube roots to {tolerance:g}", lab.kernel(TOPIC, "cube_root", blocks(n, 192), 192, *args)
    yield (
        "happy numbers",
        lab.kernel(
            TOPIC, "happy", blocks(n, 192), 192, lab.array(rng.integers(1, 10**6, n, dtype=np.int32)), out, I(n)
        ),
    )
    base = lab.array(rng.integers(2, 1 << 31, n, dtype=np.uint32))
    exponents = {"of 4 bits": rng.integers(8, 16, n), "of any length": 1 << rng.integers(0, 32, n)}
    for name, exponent in exponents.items():
        args = (base, lab.array(exponent.astype(np.uint32)), out, np.uint32(1_000_000_007), I(n))
        yield f"powers, exponents {name}", lab.kernel(TOPIC, "power_modulo", blocks(n, 192), 192, *args)


@experiment("third: particles that are absorbed")
def absorption(lab: Laboratory) -> Result:
    n = 90_000
    for chance in (0.5, 0.1, 0.01):
        out = lab.buffer("depth", 4 * n)
        yield f"{chance:.0%} a hit", lab.kernel(TOPIC, "absorbed", blocks(n, 160), 160, out, F(chance), I(n))


@experiment("third: spins of a magnet")
def spins(lab: Laboratory) -> Result:
    rng = np.random.default_rng(202)
    w = 1440
    fields = {"all up": np.ones((w, w), np.int8), "by lot": rng.choice(np.array([-1, 1], np.int8), (w, w))}
    for name, field in fields.items():
        args = (lab.array(field), lab.buffer("next", w * w), F(0.44), I(w), I(0))
        yield name, lab.kernel(TOPIC, "ising", (w // 32, w // 4), (32, 4), *args)


def coordinates(kind: str, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Row and column of each element of a sparse matrix: a ``band``, or rows that are ``skewed``, by row."""
    rng = np.random.default_rng(203)
    if kind == "band":
        row = np.repeat(np.arange(rows), 11)
        column = row + np.tile(np.arange(-5, 6), rows)
        within = (column >= 0) & (column < rows)
        return row[within], column[within]
    lengths = np.minimum(300, rng.zipf(1.7, rows))
    row = np.repeat(np.arange(rows), lengths)
    return row, rng.integers(0, rows, row.size)


@experiment("third: sparse products by form of the matrix")
def sparse(lab: Laboratory) -> Result:
    rng = np.random.default_rng(204)
    rows = 50_000
    for kind in ("band", "skewed"):
        row, column = coordinates(kind, rows)
        value = rng.random(row.size, np.float32)
        start = np.searchsorted(row, np.arange(rows + 1)).astype(np.int32)
        width = int(np.diff(start).max())
        slot = np.arange(row.size) - start[row]
        ell_column, ell_value = np.full((width, rows), -1, np.int32), np.zeros((width, rows), np.float32)
        ell_column[slot, row], ell_value[slot, row] = column, value
        x, y = lab.array(rng.random(rows, np.float32)), lab.zeros("y", 4 * rows)
        held = [lab.array(part) for part in (start, row.astype(np.int32), column.astype(np.int32), value)]
        yield (
            f"{kind}, ELLPACK",
            lab.kernel(
                TOPIC,
                "ell_product",
                blocks(rows, 128),
                128,
                *map(lab.array, (ell_column, ell_value)),
                x,
                y,
                I(rows),
                I(width),
            ),
        )
        args = (*held[1:], x, y, I(row.size))
        yield f"{kind}, coordinates", lab.kernel(TOPIC, "coo_product", blocks(row.size, 256), 256, *args)
        args = (held[0], *held[2:], x, y, I(rows))
        yield f"{kind}, rows by eight", lab.kernel(TOPIC, "csr_eights", blocks(8 * rows, 128), 128, *args)


@experiment("third: the largest of each row")
def maxima(lab: Laboratory) -> Result:
    rng = np.random.default_rng(205)
    rows, total = 3000, 900_000
    shapes = {
        "rows of 300": np.full(rows, total // rows),
        "a few long rows": np.where(np.arange(rows) % 600 == 0, 150_000, 50),
        "growing rows": np.arange(rows) * 2 * total // rows // rows,
    }
    for name, lengths in shapes.items():
        start = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
        value = lab.array(rng.random(int(start[-1]), np.float32))
        args = (lab.array(start), value, lab.buffer("most", 4 * rows), I(rows))
        yield name, lab.kernel(TOPIC, "row_maxima", 396, 64, *args)


def graph(kind: str, nodes: int, degree: int) -> tuple[np.ndarray, np.ndarray]:
    """Both ends of the edges of a graph in order of the first: ``even``, with ``hubs``, or a ``chain``."""
    rng = np.random.default_rng(206)
    if kind == "chain":
        return np.arange(nodes - 1, dtype=np.int32), np.arange(1, nodes, dtype=np.int32)
    ends = rng.random((2, nodes * degree))
    if kind == "hubs":
        ends = ends**3
    one, other = (ends * nodes).astype(np.int32)
    order = np.lexsort((other, one))
    return one[order], other[order]


@experiment("third: triangles of a graph, a thread an edge")
def triangles(lab: Laboratory) -> Result:
    nodes = 12_000
    for kind in ("even", "hubs"):
        one, other = graph(kind, nodes, 9)
        start = np.searchsorted(one, np.arange(nodes + 1)).astype(np.int32)
        held = [lab.array(part) for part in (one, other, start, other)]
        found = lab.buffer("found", 4 * one.size)
        yield kind, lab.kernel(TOPIC, "count_triangles", blocks(one.size, 128), 128, *held, found, I(one.size))


@experiment("third: steps of labels, paths and ranks")
def steps(lab: Laboratory) -> Result:
    rng = np.random.default_rng(207)
    nodes = 70_000
    label = np.arange(nodes, dtype=np.int32)
    for kind in ("even", "hubs", "chain"):
        one, other = graph(kind, nodes, 6)
        held, grid = [lab.array(one), lab.array(other)], blocks(one.size, 256)
        args = (*held, lab.array(label), lab.array(label), I(one.size))
        yield f"labels, {kind}", lab.kernel(TOPIC, "spread_labels", grid, 256, *args)
    one, other = graph("even", nodes, 6)
    length = lab.array(rng.integers(1, 100, one.size, dtype=np.int32))
    for share in (0.01, 0.6):
        distance = np.where(rng.random(nodes) < share, rng.integers(0, 200, nodes), 0x7FFFFFFF).astype(np.int32)
        args = (lab.array(one), lab.array(other), length, lab.array(distance), lab.array(distance), I(one.size))
        yield f"paths, {share:.0%} reached", lab.kernel(TOPIC, "relax_edges", blocks(one.size, 256), 256, *args)
    for kind in ("even", "hubs"):
        to, by = graph(kind, nodes, 6)
        start = np.searchsorted(to, np.arange(nodes + 1)).astype(np.int32)
        rank, degree = np.full(nodes, 1 / nodes, np.float32), np.bincount(by, minlength=nodes).astype(np.int32)
        args = (*map(lab.array, (start, by, rank, degree)), lab.buffer("next", 4 * nodes), I(nodes))
        yield f"ranks, {kind}", lab.kernel(TOPIC, "pull_rank", blocks(nodes, 96), 96, *args)


@experiment("third: histograms of colours")
def colours(lab: Laboratory) -> Result:
    rng = np.random.default_rng(208)
    w = 1100
    across, down = np.meshgrid(np.arange(w), np.arange(w))
    smooth = np.stack([across // 5, down // 5, (across + down) // 9, 0 * down], axis=-1) % 256
    pictures = {"noise": rng.integers(0, 256, (w, w, 4)), "a smooth picture": smooth, "grey": np.full((w, w, 4), 99)}
    for name, picture in pictures.items():
        image, n = lab.array(picture.astype(np.uint8)), I(w * w)
        bins = lab.zeros("bins", 4 * 4096)
        yield f"{name}, by channel", lab.kernel(TOPIC, "colour_histogram", 200, 384, image, bins, n)
        yield f"{name}, two channels", lab.kernel(TOPIC, "joint_histogram", blocks(w * w, 384), 384, image, bins, n)


@experiment("third: pictures of pages")
def pages(lab: Laboratory) -> Result:
    rng = np.random.default_rng(209)
    w, h = 1000, 700
    out = lab.buffer("out", 4 * w * h)
    grey = np.full((h, w), 90)
    for share in (0.001, 0.05, 0.5):
        page = np.where(rng.random((h, w)) < share, rng.integers(0, 256, (h, w)), grey).astype(np.uint8)
        grid = (blocks(w, 32), blocks(h, 8))
        args = (lab.array(page), out, I(w), I(h), I(10))
        yield f"median, {share:.1%} speckles", lab.kernel(TOPIC, "despeckle", grid, (32, 8), *args)
    for share in (0.3, 0.02):
        ink = lab.array((rng.random((h, w)) < share).astype(np.uint8))
        yield (
            f"way to the next ink, {share:.0%}",
            lab.kernel(TOPIC, "next_ink", blocks(w * h, 128), 128, ink, out, I(w), I(w * h)),
        )


@experiment("third: points in a polygon")
def polygons(lab: Laboratory) -> Result:
    rng = np.random.default_rng(210)
    n, corners = 200_000, 120
    turn = np.arange(corners) * 2 * np.pi / corners
    reach = rng.uniform(0.5, 1, corners)
    corner = np.stack([reach * np.cos(turn), reach * np.sin(turn)], axis=1).astype(np.float32)
    held, out = lab.array(corner), lab.buffer("inside", 4 * n)
    box = [edge for axis in corner.T for edge in (axis.min(), axis.max())]
    for name, spread in (("all near", 0.9), ("a tenth near", 6.0)):
        point = lab.array(rng.uniform(-spread, spread, (n, 2)).astype(np.float32))
        args = (point, held, I(corners), *box, out, I(n))
        yield name, lab.kernel(TOPIC, "inside_polygon", blocks(n, 224), 224, *args)


@experiment("third: words of lines")
def lines(lab: Laboratory) -> Result:
    rng = np.random.default_rng(211)
    count = 24_000
    shapes = {
        "lines of 60": np.full(count, 60),
        "lines of 1 to 119": rng.integers(1, 120, count),
        "one of 4000": np.where(np.arange(count) == 5000, 4000, 60),
    }
    for name, lengths in shapes.items():
        line = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
        text = np.where(rng.random(int(line[-1])) < 0.2, 32, 97).astype(np.int8)
        args = (lab.array(text), lab.array(line), lab.buffer("words", 4 * count), I(count))
        yield name, lab.kernel(TOPIC, "count_words", blocks(count, 128), 128, *args)


@experiment("third: a word, by Horspool's way")
def horspool(lab: Laboratory) -> Result:
    rng = np.random.default_rng(212)
    n, part, word = 2_000_000, 100, b"abracadabra"
    skip = np.full(256, len(word), np.int32)
    for place, letter in enumerate(word[:-1]):
        skip[letter] = len(word) - 1 - place
    texts = {"of 26 letters": rng.integers(97, 123, n), "of two letters": rng.integers(97, 99, n)}
    texts["of the word"] = np.resize(np.frombuffer(word, np.uint8), n)
    for name, text in texts.items():
        threads = blocks(n, part)
        args = (lab.array(text.astype(np.int8)), lab.array(np.frombuffer(word, np.int8)), lab.array(skip))
        found = lab.buffer("found", 4 * threads)
        yield (
            f"a text {name}",
            lab.kernel(TOPIC, "horspool", blocks(threads, 128), 128, *args, I(len(word)), found, I(part), I(n)),
        )


@experiment("third: sorts of short rows, a thread each")
def sorts(lab: Laboratory) -> Result:
    rng = np.random.default_rng(213)
    length, segments = 40, 10_000
    keys = rng.random((segments, length), np.float32)
    out = lab.buffer("out", keys.nbytes)
    for name, given in (("by lot", keys), ("sorted", np.sort(keys, 1))):
        x = lab.array(given)
        for form in ("heap", "shell"):
            args = (x, out, I(length), I(segments))
            yield f"{form}, {name}", lab.kernel(TOPIC, f"{form}_sort", blocks(segments, 64), 64, *args)


@experiment("third: keys into buckets")
def buckets(lab: Laboratory) -> Result:
    rng = np.random.default_rng(214)
    n, shift, many = 400_000, 23, 512
    keys = {
        "even": rng.integers(0, 1 << 32, n, dtype=np.uint32),
        "skewed": (rng.random(n) ** 6 * (1 << 32)).astype(np.uint32),
        "in order": np.sort(rng.integers(0, 1 << 32, n, dtype=np.uint32)),
    }
    for name, key in keys.items():
        start = np.searchsorted(np.sort(key >> shift), np.arange(many + 1)).astype(np.int32)
        used, out = lab.array(np.zeros(many, np.int32)), lab.buffer("buckets", 4 * n)
        args = (lab.array(key), lab.array(start), used, out, I(shift), I(n))
        yield name, lab.kernel(TOPIC, "into_buckets", blocks(n, 320), 320, *args)


@experiment("third: merges of two sorted arrays")
def merges(lab: Laboratory) -> Result:
    rng = np.random.default_rng(215)
    n = 500_000
    one = np.sort(rng.integers(0, 1 << 29, n, dtype=np.int32))
    others = {"mixed": np.sort(rng.integers(0, 1 << 29, n, dtype=np.int32)), "one behind the other": one + (1 << 29)}
    for name, other in others.items():
        for each in (5, 50):
            args: tuple[Any, ...] = (lab.array(one), I(n), lab.array(other.astype(np.int32)), I(n))
            yield (
                f"{name}, {each} a thread",
                lab.kernel(
                    TOPIC,
                    "merge_path",
                    blocks(2 * n // each, 128),
                    128,
                    *args,
                    lab.buffer("merged", 8 * n),
                    I(each),
                ),
            )


@experiment("third: the eight nearest numbers")
def nearest(lab: Laboratory) -> Result:
    rng = np.random.default_rng(216)
    n, queries = 1500, 20_000
    x = np.sort(rng.random(n, np.float32))
    asked = lab.array(-rng.random(queries, np.float32))
    out = lab.buffer("distance", 32 * queries)
    for name, given in (("by lot", rng.permutation(x)), ("nearest first", x), ("nearest last", x[::-1].copy())):
        args = (lab.array(given), asked, out, I(n), I(queries))
        yield name, lab.kernel(TOPIC, "nearest_eight", blocks(queries, 128), 128, *args)


@experiment("third: particles and those near them")
def particles(lab: Laboratory) -> Result:
    rng = np.random.default_rng(217)
    n, cells = 20_000, 16
    for name in ("spread evenly", "half in a cluster"):
        place = rng.random((n, 4), np.float32)
        if name == "half in a cluster":
            place[::2, :3] = 0.5 + 0.1 * (place[::2, :3] - 0.5)
        cell = ((place[:, :3] * cells).astype(int) @ [1, cells, cells**2]).astype(int)
        head, following = np.full(cells**3, -1, np.int32), np.full(n, -1, np.int32)
        for i, c in enumerate(cell):
            following[i], head[c] = head[c], i
        args = (*map(lab.array, (place, head, following)), I(cells), F(0.05), lab.buffer("energy", 4 * n), I(n))
        yield f"lists of cells, {name}", lab.kernel(TOPIC, "cell_lists", blocks(n, 96), 96, *args)
    many = {
        "40 each": np.full(n, 40),
        "20 to 60 each": rng.integers(20, 61, n),
        "sorted by number": np.sort(rng.integers(0, 81, n)),
    }
    place = lab.array(rng.random((n, 4), np.float32))
    for name, lengths in many.items():
        first = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
        other = lab.array(rng.integers(0, n, int(first[-1]), dtype=np.int32))
        args = (place, lab.array(first), other, lab.buffer("force", 16 * n), I(n))
        yield f"lists of neighbours, {name}", lab.kernel(TOPIC, "verlet_lists", blocks(n, 96), 96, *args)
