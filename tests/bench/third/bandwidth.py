"""Memory traffic."""

from __future__ import annotations

import numpy as np

from tests.bench.third import References

REFERENCES = References()


@REFERENCES.of("triad_loop", "triad_part")
def triad(b, c, a, s, n):
    return {2: b + s * c}


@REFERENCES.of()
def copy_bytes(x, y, n):
    return {1: x.view(np.int8)[:n]}


@REFERENCES.of()
def copy_shorts(x, y, n):
    return {1: x.view(np.int16)[:n]}


@REFERENCES.of()
def copy_triples(x, y, n):
    return {1: x}


@REFERENCES.of("reverse_shared")
def reverse(x, y, n):
    return {1: x[::-1]}


@REFERENCES.of()
def take_apart(z, re, im, n):
    return {1: z[::2], 2: z[1::2]}


@REFERENCES.of()
def planes(rgb, r, g, b, n):
    return {1: rgb[::3], 2: rgb[1::3], 3: rgb[2::3]}


@REFERENCES.of()
def widen(x, y, n):
    return {1: x[:n].astype(np.float32) / np.float32(255)}


@REFERENCES.of()
def narrow(x, y, n):
    return {1: x.astype(np.float32)}


@REFERENCES.of()
def add_matrices(a, b, c, w, h):
    return {2: a + b}


@REFERENCES.of()
def outer_product(u, v, m, w, h):
    return {2: np.outer(u[:h], v[:w]).ravel()}


@REFERENCES.of()
def cut_out(x, out, w, left, top, ow, oh):
    return {1: x.reshape(-1, w)[top : top + oh, left : left + ow].ravel()}


@REFERENCES.of()
def swap_outer(x, y, nx, ny, nz):
    return {1: x.reshape(nz, ny, nx).transpose(1, 0, 2).ravel()}


@REFERENCES.of()
def swap_ends(x, y, nx, ny, nz):
    return {1: x.reshape(nz, ny, nx).transpose(2, 1, 0).ravel()}


@REFERENCES.of()
def diagonals(value, offset, count, x, y, n):
    found, r = np.zeros(n), np.arange(n)
    for row, by in zip(value.reshape(count, n), offset, strict=True):
        within = (r + by >= 0) & (r + by < n)
        found[within] += row[within] * x[(r + by)[within]]
    return {4: found.astype(np.float32)}


def _inner(out, found, w, h, edge):
    """What a launch leaves that writes ``found`` inside of an edge so wide, and nothing at the edge."""
    whole = out.view(found.dtype)[: w * h].reshape(h, w).copy()
    whole[edge:-edge, edge:-edge] = found
    return whole.ravel()


def _shifted(x, w, h, edge, i, j):
    return x.reshape(h, w)[edge + j : h - edge + j, edge + i : w - edge + i].astype(np.float64)


@REFERENCES.of("gauss_tile")
def gauss_global(x, out, w, h):
    row = (1, 4, 6, 4, 1)
    found = sum(row[i + 2] * row[j + 2] * _shifted(x, w, h, 2, i, j) for i in range(-2, 3) for j in range(-2, 3)) / 256
    return {1: _inner(out, found.astype(np.float32), w, h, 2)}


@REFERENCES.of()
def mirror(x, out, w, h):
    return {1: x.reshape(h, w)[:, ::-1].ravel()}


@REFERENCES.of()
def quarter_turn(x, out, w, h):
    return {1: x.reshape(h, w)[::-1].T.ravel()}


@REFERENCES.of()
def shrink(x, out, ow, oh):
    pixel = x.view(np.uint8)[: 16 * ow * oh].reshape(oh, 4, ow, 4).astype(int)
    return {1: (pixel.sum((1, 3)) // 16).astype(np.uint8).ravel()}


@REFERENCES.of()
def gamma_power(x, y, g, n):
    return {1: x**g}


@REFERENCES.of("look_up_shared")
def look_up(x, table, out, n):
    return {2: table[x]}


@REFERENCES.of()
def wave(before, now, after, w, h):
    x = {(i, j): _shifted(now, w, h, 1, i, j) for i, j in ((0, 0), (1, 0), (-1, 0), (0, 1), (0, -1))}
    found = 2 * x[0, 0] - _shifted(before, w, h, 1, 0, 0) + 0.2 * (sum(x.values()) - 5 * x[0, 0])
    return {2: _inner(after, found.astype(np.float32), w, h, 1)}


@REFERENCES.of()
def magnetic_step(ex, ey, hz, after, w, h):
    ex, ey, hz = (part.reshape(h, w) for part in (ex, ey, hz))
    whole = after[: w * h].reshape(h, w).copy()
    whole[:-1, :-1] = hz[:-1, :-1] + 0.5 * (ex[1:, :-1] - ex[:-1, :-1] - ey[:-1, 1:] + ey[:-1, :-1])
    return {3: whole.ravel()}


@REFERENCES.of()
def upwind(x, vx, vy, out, w, h):
    here, u, v = (_shifted(part, w, h, 1, 0, 0) for part in (x, vx, vy))
    dx = np.where(u > 0, here - _shifted(x, w, h, 1, -1, 0), _shifted(x, w, h, 1, 1, 0) - here)
    dy = np.where(v > 0, here - _shifted(x, w, h, 1, 0, -1), _shifted(x, w, h, 1, 0, 1) - here)
    return {3: _inner(out, (here - 0.2 * (u * dx + v * dy)).astype(np.float32), w, h, 1)}


@REFERENCES.of()
def wide_star(x, out, w, h):
    weight = {0: {0: 20, 1: -8, 2: 1}, 1: {0: -8, 1: 2}, 2: {0: 1}}
    places = ((i, j) for i in range(-2, 3) for j in range(-2, 3) if abs(i) + abs(j) <= 2)
    found = sum(weight[abs(i)][abs(j)] * _shifted(x, w, h, 2, i, j) for i, j in places)
    return {1: _inner(out, found, w, h, 2)}


@REFERENCES.of()
def leapfrog(place, speed, force, to, faster, h, n):
    p, v, f = (part.reshape(-1, 4) for part in (place, speed, force))
    moving = np.array([1, 1, 1, 0], np.float32) * h
    v = v + moving * f
    return {3: (p + moving * v).ravel(), 4: v.ravel()}


@REFERENCES.of()
def bounce(place, speed, to, h, n):
    p = (place + h * speed)[: 3 * n].reshape(-1, 3)
    p[:, :2] = np.where(p[:, :2] > 1, 2 - p[:, :2], p[:, :2])
    return {2: p.ravel()}


@REFERENCES.of()
def kinetic(speed, energy, n):
    v = speed.astype(np.float64).reshape(-1, 4)
    return {1: ("sum", 660, (0.5 * v[:, 3] * (v[:, :3] ** 2).sum(1)).sum())}


@REFERENCES.of()
def cell_numbers(place, cell, cells, n):
    at = (place[: 3 * n].reshape(-1, 3) * np.float32(cells)).astype(np.int32)
    return {1: (at[:, 2] * cells + at[:, 1]) * cells + at[:, 0]}


@REFERENCES.of()
def odd_even_pass(x, out, odd, n):
    return {1: np.concatenate([out.view(np.int32)[:1], np.sort(x[1:-1].view(np.int32).reshape(-1, 2)).ravel()])}


@REFERENCES.of()
def bit_flags(key, flag, bit, n):
    return {1: (1 - (key >> bit & 1)).astype(np.int32)}


@REFERENCES.of()
def split_by_bit(key, before, out, bit, zeros, n):
    return {2: key[np.argsort(key >> bit & 1, kind="stable")]}


@REFERENCES.of()
def merge_runs(x, out, run, n):
    return {1: np.sort(x.reshape(-1, 2 * run)).ravel()}


@REFERENCES.of()
def scan_warps(x, y, sums, n):
    found = np.cumsum(x.reshape(-1, 32), axis=1, dtype=np.int32)
    return {1: found.ravel(), 2: found[:, -1]}


@REFERENCES.of()
def scan_fours(x, y, sums):
    found = np.cumsum(x.reshape(-1, 512), axis=1, dtype=np.int32)
    return {1: found.ravel(), 2: found[:, -1]}


@REFERENCES.of()
def embed(table, word, out, width, n):
    return {2: table.reshape(-1, width)[word].ravel()}


@REFERENCES.of()
def count_above(x, count, bound, n):
    return {1: (x.reshape(-1, 32) > bound).sum(1).astype(np.int32)}


@REFERENCES.of()
def moments(x, mean, variance, n):
    return {1: ("sum", 528, x.sum(dtype=np.float64)), 2: ("sum", 528, (x.astype(np.float64) ** 2).sum())}


@REFERENCES.of()
def dot_atomic(a, b, out, n):
    return {2: ("sum", 1, out[0] + a.astype(np.float64) @ b)}


@REFERENCES.of()
def sigmoid(x, y, n):
    return {1: 1 / (1 + np.exp(-x))}


@REFERENCES.of()
def scale_channels(x, scale, shift, out, pixels, channels, n):
    picture = x.reshape(-1, channels, pixels)
    return {3: np.maximum(0, scale[:, None] * picture + shift[:, None]).ravel()}


@REFERENCES.of()
def max_pool(x, out, ow, oh):
    return {1: x[: 4 * ow * oh].reshape(oh, 2, ow, 2).max((1, 3)).ravel()}


@REFERENCES.of()
def patches(image, row, w, k):
    ow = w - k + 1
    picture = image[: w * w].reshape(w, w)
    return {1: np.concatenate([picture[j : j + ow, i : i + ow].ravel() for j in range(k) for i in range(k)])}
