"""Few warps, long chains."""

from __future__ import annotations

import zlib

import numpy as np

from tests.bench.third import References

REFERENCES = References()


@REFERENCES.of()
def odd_even_sort(x, out, n):
    return {1: np.sort(x.reshape(-1, n)).ravel()}


@REFERENCES.of()
def merge_sort(x, out, n):
    return {1: np.sort(x)}


@REFERENCES.of()
def scan_parts(x, out, n):
    return {1: np.cumsum(x, dtype=np.int32)}


@REFERENCES.of("argmax_block")
def argmax_warp(x, best, n):
    return {1: np.array([x.argmax()], np.int32)}


@REFERENCES.of()
def gauss_jordan(a, out, n):
    return {1: np.linalg.inv(a.astype(np.float64)).astype(np.float32).ravel()}


@REFERENCES.of()
def substitute_forward(a, b, x, n):
    return {2: np.linalg.solve(a.astype(np.float64), b).astype(np.float32)}


@REFERENCES.of()
def substitute_by_columns(a, b, x, n):
    return substitute_forward(a.T, b, x, n)


@REFERENCES.of()
def conjugate_gradients(a, b, out, n, rounds):
    x, r = np.zeros(n), b.copy()
    p = r.copy()
    for _ in range(rounds):
        square, ap = r @ r, a @ p
        alpha = square / (p @ ap)
        x += alpha * p
        r -= alpha * ap
        p = r + (r @ r) / square * p
    return {2: x}


@REFERENCES.of()
def markov_steps(chance, start, end, steps):
    end = start.reshape(-1, 32) @ np.linalg.matrix_power(chance.astype(np.float64), int(steps))
    return {2: end.astype(np.float32).ravel()}


@REFERENCES.of("all_paths_global")
def all_paths_shared(given, out):
    d = given.copy()
    for k in range(32):
        d = np.minimum(d, d[:, :, k, None] + d[:, k, None, :])
    return {1: d.ravel()}


def _knapsack(weight, worth, items, capacity):
    best = np.zeros(capacity + 1, np.int32)
    for w, v in zip(weight, worth, strict=True):
        best[w:] = np.maximum(best[w:], best[: capacity + 1 - w] + v)
    return best[-1:]


@REFERENCES.of()
def knapsack_shared(weight, worth, items, capacity, best):
    return {4: _knapsack(weight, worth, items, capacity)}


@REFERENCES.of()
def knapsack_global(weight, worth, items, capacity, table, best):
    return {5: _knapsack(weight, worth, items, capacity)}


@REFERENCES.of()
def tree_lookup(key, left, right, wanted, depth, n):
    level = np.zeros(len(key), np.int32)
    for node in range(len(key)):  # a child comes behind its parent
        for child in (left[node], right[node]):
            if child >= 0:
                level[child] = level[node] + 1
    by_key = np.empty_like(level)
    by_key[key] = level
    return {4: by_key[wanted[:n]]}


@REFERENCES.of("kepler_double")
def kepler_float(m, angle, e, rounds):
    x = m.astype(np.float64)
    for _ in range(60):
        x -= (x - e * np.sin(x) - m) / (1 - e * np.cos(x))
    return {1: x[:32].astype(m.dtype)}


@REFERENCES.of()
def lcg64(state, rounds):
    found = []
    for s in range(1, 33):
        for _ in range(rounds):
            s = (s * 6364136223846793005 + 1442695040888963407) % 2**64
        found.append(s)
    return {0: np.array(found, np.uint64)}


@REFERENCES.of()
def xorshift128(state, rounds):
    x, y, z, w = (np.full(32, v, np.uint32) for v in (0, 362436069, 521288629, 88675123))
    x += np.arange(1, 33, dtype=np.uint32)
    for _ in range(rounds):
        t = x ^ (x << np.uint32(11))
        x, y, z = y, z, w
        w = w ^ (w >> np.uint32(19)) ^ t ^ (t >> np.uint32(8))
    return {0: np.stack([x, y, z, w], axis=1).ravel()}


@REFERENCES.of()
def philox(out, key, rounds):
    a, b, k = np.arange(32, dtype=np.uint64), np.zeros(32, np.uint64), int(key)
    for _ in range(rounds):
        product = a * np.uint64(0xD256D193)
        a, b = (product >> np.uint64(32)) ^ np.uint64(k) ^ b, product & np.uint64(0xFFFFFFFF)
        k = (k + 0x9E3779B9) % 2**32
    return {0: np.stack([a, b], axis=1).ravel().astype(np.uint32)}


@REFERENCES.of()
def pendulum_float(start, end, h, steps):
    x, v = start[:20].astype(np.float64), np.zeros(20)
    for _ in range(steps):
        k1x, k1v = v, -np.sin(x)
        k2x, k2v = v + h / 2 * k1v, -np.sin(x + h / 2 * k1x)
        k3x, k3v = v + h / 2 * k2v, -np.sin(x + h / 2 * k2x)
        k4x, k4v = v + h * k3v, -np.sin(x + h * k3x)
        x = x + h / 6 * (k1x + 2 * k2x + 2 * k3x + k4x)
        v = v + h / 6 * (k1v + 2 * k2v + 2 * k3v + k4v)
    return {1: x.astype(np.float32)}


@REFERENCES.of()
def spring_double(start, end, h, steps):
    x, v = start[:20].copy(), np.zeros(20)
    for _ in range(steps):
        v -= h * (x + 0.1 * v + 0.5 * x**3)
        x += h * v
    return {1: x}


@REFERENCES.of()
def small_cluster(start, end, n, h, steps):
    place = start.astype(np.float64)[: end.size // 4].reshape(-1, n, 4)
    x, mass, v = place[:, :, :3].copy(), place[:, :, 3], np.zeros_like(place[:, :, :3])
    for _ in range(steps):
        d = x[:, None] - x[:, :, None]
        square = (d**2).sum(-1) + 0.05
        v += ((h * mass[:, None] / square**1.5)[..., None] * d).sum(2)
        x += h * v
    return {1: np.concatenate([x, mass[..., None]], axis=2).astype(np.float32).ravel()}


@REFERENCES.of()
def low_pass(x, out, samples, step, channel):
    channels = int(step if channel == 1 else out.size // samples)
    signal = x[: channels * samples].astype(np.float64)
    signal = signal.reshape(samples, channels) if channel == 1 else signal.reshape(channels, samples).T
    y, found = np.zeros(channels), np.empty((samples, channels))
    for i in range(samples):
        y = 0.9 * y + 0.1 * signal[i]
        found[i] = y
    return {1: (found if channel == 1 else found.T).astype(np.float32).ravel()}


def _crc(message, length):
    return np.array([zlib.crc32(row.tobytes()) for row in message.reshape(-1, length)], np.uint32)


@REFERENCES.of()
def crc_bits(message, crc, length):
    return {1: _crc(message, length)}


@REFERENCES.of("crc_shared")
def crc_table(message, table, crc, length):
    return {2: _crc(message, length)}
