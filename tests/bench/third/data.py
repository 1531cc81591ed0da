"""Work that depends on the data."""

from __future__ import annotations

import math

import numpy as np

from tests.bench.third import References

REFERENCES = References()


@REFERENCES.of()
def march_rays(steps, width, close, most):
    across, down = np.meshgrid(np.arange(width) - width // 2, np.arange(width) - width // 2)
    ray = np.stack([across.ravel() * 1.6 / width, down.ravel() * -1.6 / width, np.ones(width**2)])
    ray /= np.sqrt((ray**2).sum(0))
    along, count, on = np.zeros(width**2), np.zeros(width**2, np.int32), np.arange(width**2)
    for _ in range(most):
        x, y, z = along[on] * ray[:, on] + np.array([[0], [0.4], [-3]])
        torus = np.hypot(np.hypot(x, z) - 1, y) - 0.3
        far = np.minimum(torus, np.minimum(np.sqrt(x * x + y * y + z * z) - 0.4, y + 0.8))
        along[on] += far * (far >= close)
        count[on] += far >= close
        on = on[(far >= close) & (along[on] < 20)]
    return {0: count}


@REFERENCES.of()
def cube_root(x, root, tolerance, n):
    return {1: np.cbrt(x)}


@REFERENCES.of()
def happy(number, out, n):
    found = []
    for v in number.tolist():
        count = 0
        while v not in (1, 4):
            v, count = sum(int(digit) ** 2 for digit in str(v)), count + 1
        found.append(count)
    return {1: np.array(found, np.int32)}


@REFERENCES.of()
def power_modulo(base, exponent, out, modulus, n):
    pairs = zip(base.tolist(), exponent.tolist(), strict=True)
    return {2: np.array([pow(b, e, int(modulus)) for b, e in pairs], np.uint32)}


def _xorshift(s: int) -> int:
    s = (s ^ s << 13) % 2**32
    s ^= s >> 17
    return (s ^ s << 5) % 2**32


@REFERENCES.of()
def absorbed(depth, chance, n):
    found = []
    for i in range(500):
        s, x, cosine = 2654435769 * (i + 1) % 2**32, 0.0, 1.0
        for _ in range(400):
            s = _xorshift(s)
            x -= cosine * math.log((s >> 8) / 2**24 + 1e-7)
            s = _xorshift(s)
            if x < 0 or (s >> 8) / 2**24 < chance:
                break
            s = _xorshift(s)
            cosine = (s >> 8) / 2**23 - 1
        found.append(x)
    return {0: np.array(found, np.float32)}


@REFERENCES.of()
def ising(spin, out, beta, w, colour):
    s = spin.astype(np.int64)
    cost = 2 * s * sum(np.roll(s, by, axis) for by in (1, -1) for axis in (0, 1))
    i = np.arange(w * w, dtype=np.uint32).reshape(w, w)
    r = i * np.uint32(747796405) + np.uint32(2891336453)
    r = ((r >> ((r >> 28) + 4)) ^ r) * np.uint32(277803737)
    r ^= r >> np.uint32(22)
    y, x = np.divmod(np.arange(w * w).reshape(w, w), w)
    turns = ((x + y) % 2 == colour) & ((cost <= 0) | ((r >> 8) / 2**24 < np.exp(-float(beta) * cost)))
    return {1: np.where(turns, -s, s).astype(np.int8).ravel()}


@REFERENCES.of()
def ell_product(column, value, x, y, rows, width):
    return {3: np.where(column >= 0, value * x[np.maximum(column, 0)], 0).sum(0, dtype=np.float64).astype(np.float32)}


@REFERENCES.of()
def coo_product(row, column, value, x, y, count):
    return {4: (y + np.bincount(row, value * x[column], len(y))).astype(np.float32)}


@REFERENCES.of()
def csr_eights(start, column, value, x, y, rows):
    row = np.repeat(np.arange(rows), np.diff(start))
    return {4: np.bincount(row, value * x[column], rows).astype(np.float32)}


@REFERENCES.of()
def row_maxima(start, value, most, rows):
    bounds = zip(start[:-1], start[1:], strict=True)
    return {2: np.array([value[a:b].max(initial=-1) for a, b in bounds], np.float32)}


@REFERENCES.of()
def count_triangles(one, other, start, edge, found, edges):
    def common(e: int) -> int:
        a, b = (edge[start[v] : start[v + 1]].tolist() for v in (one[e], other[e]))
        i = j = count = 0
        while i < len(a) and j < len(b):
            u, v = a[i], b[j]
            count, i, j = count + (u == v), i + (u <= v), j + (v <= u)
        return count

    return {4: np.array([common(e) for e in range(300)], np.int32)}


@REFERENCES.of()
def spread_labels(one, other, label, following, edges):
    found = following.copy()
    np.minimum.at(found, other, label[one])
    np.minimum.at(found, one, label[other])
    return {3: found}


@REFERENCES.of()
def relax_edges(one, other, length, distance, following, edges):
    found, reached = following.copy(), distance[one] < 0x7FFFFFFF
    np.minimum.at(found, other[reached], distance[one[reached]] + length[reached])
    return {4: found}


@REFERENCES.of()
def pull_rank(start, by, rank, degree, out, nodes):
    sums = np.bincount(np.repeat(np.arange(nodes), np.diff(start)), rank[by] / degree[by], nodes)
    return {4: (0.15 / nodes + 0.85 * sums).astype(np.float32)}


@REFERENCES.of()
def colour_histogram(image, bins, n):
    pixel = image.reshape(-1, 4)
    added = [np.bincount(pixel[:, channel] // 4, minlength=64) for channel in range(3)]
    return {1: (bins.view(np.int32)[:192] + np.concatenate(added)).astype(np.int32)}


@REFERENCES.of()
def joint_histogram(image, bins, n):
    pixel = image.reshape(-1, 4).astype(int) // 4
    added = np.bincount(pixel[:, 0] * 64 + pixel[:, 1], minlength=4096)
    return {1: (bins.view(np.int32) + added).astype(np.int32)}


@REFERENCES.of()
def despeckle(page, out, w, h, threshold):
    p, found = page.astype(int), page.copy()
    sums = p[1:-1, :-2] + p[1:-1, 2:] + p[:-2, 1:-1] + p[2:, 1:-1]
    around = np.stack([p[1 + j : h - 1 + j, 1 + i : w - 1 + i] for j in (-1, 0, 1) for i in (-1, 0, 1)])
    speckled = np.abs(4 * p[1:-1, 1:-1] - sums) > 4 * threshold
    found[1:-1, 1:-1] = np.where(speckled, np.median(around, axis=0), p[1:-1, 1:-1])
    return {1: found.ravel()}


@REFERENCES.of()
def next_ink(page, out, w, n):
    distance, ahead = np.empty(page.shape, np.int32), np.zeros(page.shape[0], np.int32)
    for x in reversed(range(w)):
        ahead = np.where(page[:, x], 0, ahead + 1)
        distance[:, x] = ahead
    return {1: distance.ravel()}


@REFERENCES.of()
def inside_polygon(point, corner, corners, left, right, low, high, inside, n):
    px, py = point.T.astype(np.float64)
    found = np.zeros(len(point), bool)
    for (ax, ay), (bx, by) in zip(corner.astype(float), np.roll(corner, 1, axis=0).astype(float), strict=True):
        found ^= ((ay > py) != (by > py)) & (px < (bx - ax) * (py - ay) / (by - ay) + ax)
    return {7: found.astype(np.int32)}


@REFERENCES.of()
def count_words(text, line, words, lines):
    rows = (text[a:b].tobytes() for a, b in zip(line[:-1], line[1:], strict=True))
    return {2: np.array([len(row.split()) for row in rows], np.int32)}


@REFERENCES.of()
def horspool(text, word, skip, length, found, part, n):
    whole, wanted = text.tobytes(), word.tobytes()
    count, at = np.zeros(-(-n // part), np.int32), whole.find(wanted)
    while at >= 0:
        count[at // part] += 1
        at = whole.find(wanted, at + 1)
    return {4: count}


@REFERENCES.of("shell_sort")
def heap_sort(x, out, length, segments):
    return {1: np.sort(x, axis=1).ravel()}


@REFERENCES.of()
def into_buckets(key, start, used, out, shift, n):
    return {3: ("sorted in parts", start, np.sort(key))}


@REFERENCES.of()
def merge_path(a, na, b, nb, out, each):
    return {4: np.sort(np.concatenate([a, b]))}


@REFERENCES.of()
def nearest_eight(x, query, distance, n, queries):
    return {2: np.sort(np.abs(np.sort(x)[None, :8] - query[:, None]), axis=1).T.ravel()}


@REFERENCES.of()
def cell_lists(place, head, following, cells, reach, energy, n):
    p = place[:300, None, :3].astype(np.float64)
    square = ((p - place[None, :, :3]) ** 2).sum(-1)
    near = square < float(reach) ** 2
    near[range(300), range(300)] = False
    s = np.where(near, float(reach) ** 2 / (square + 1e-6), 0) ** 3
    return {5: (s * s - s).sum(1).astype(np.float32)}


@REFERENCES.of()
def verlet_lists(place, first, other, force, n):
    i = np.repeat(np.arange(n), np.diff(first))
    d = place[other].astype(np.float64) - place[i]
    f = place[other, 3] / ((d[:, :3] ** 2).sum(1) + 0.1)
    sums = [np.bincount(i, f * d[:, axis], n) for axis in range(3)]
    return {3: np.stack([*sums, np.zeros(n)], axis=1).astype(np.float32).ravel()}
