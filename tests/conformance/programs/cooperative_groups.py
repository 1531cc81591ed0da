"""Cooperative groups within a block: tiles of all sizes, partitions, coalesced groups, reductions, scans, votes."""

import numpy as np

from cudalab import cp

from ..program import near, program

_CG = r"""
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
namespace cg = cooperative_groups;
"""


def _kernel(text):
    return cp.RawKernel(_CG + text, "k", options=("--std=c++17",))


def _tile_sums(v):
    x = v["x"]
    return {f"sums{n}": x.reshape(-1, n).sum(axis=1, dtype=np.int32).repeat(n) for n in (1, 2, 4, 8, 16, 32)}


@program("a sum over tiles of 1 to 32 threads", expect=_tile_sums)
def tile_sums():
    x = np.random.default_rng(70).integers(-1000, 1000, 192).astype(np.int32)
    found = {"x": x}
    for n in (1, 2, 4, 8, 16, 32):
        kernel = _kernel(r"""
            extern "C" __global__ void k(const int* x, int* out) {
                auto tile = cg::tiled_partition<N>(cg::this_thread_block());
                int v = x[threadIdx.x];
                for (int i = tile.size() / 2; i; i /= 2) v += tile.shfl_xor(v, i);
                out[threadIdx.x] = v;
            }""".replace("N>", f"{n}>"))  # fmt: skip
        out = cp.zeros(192, cp.int32)
        kernel((1,), (192,), (cp.asarray(x), out))
        found[f"sums{n}"] = out.get()
    return found


def _reductions(v):
    x, f, n = v["x"].reshape(-1, 16), v["f"].reshape(-1, 16), 16
    return {
        "plus": x.sum(1, dtype=np.int32).repeat(n), "less": x.min(1).repeat(n), "greater": x.max(1).repeat(n),
        "and": np.bitwise_and.reduce(x, 1).repeat(n), "or": np.bitwise_or.reduce(x, 1).repeat(n),
        "xor": np.bitwise_xor.reduce(x, 1).repeat(n), "float": near(f.sum(1).repeat(n), 1e-5),
        "double": near(f.astype(np.float64).max(1).repeat(n)), "long": x.astype(np.int64).sum(1).repeat(n) * 10**10,
    }  # fmt: skip


@program("reduce with each operator, over integers, floats and 64-bit values", expect=_reductions)
def reduce_operators():
    rng = np.random.default_rng(71)
    x, f = rng.integers(-(2**30), 2**30, 96).astype(np.int32) // 64, rng.random(96, np.float32)
    kernel = _kernel(r"""
        extern "C" __global__ void k(const int* x, const float* f, int* out, float* fsum, double* dmax,
                                     long long* lsum) {
            auto tile = cg::tiled_partition<16>(cg::this_thread_block());
            int t = threadIdx.x, v = x[t];
            out[t] = cg::reduce(tile, v, cg::plus<int>());
            out[96 + t] = cg::reduce(tile, v, cg::less<int>());
            out[192 + t] = cg::reduce(tile, v, cg::greater<int>());
            out[288 + t] = cg::reduce(tile, v, cg::bit_and<int>());
            out[384 + t] = cg::reduce(tile, v, cg::bit_or<int>());
            out[480 + t] = cg::reduce(tile, v, cg::bit_xor<int>());
            fsum[t] = cg::reduce(tile, f[t], cg::plus<float>());
            dmax[t] = cg::reduce(tile, (double)f[t], cg::greater<double>());
            lsum[t] = cg::reduce(tile, v * 10000000000ll, cg::plus<long long>());
        }""")
    out, fsum = cp.zeros((6, 96), cp.int32), cp.zeros(96, cp.float32)
    dmax, lsum = cp.zeros(96, cp.float64), cp.zeros(96, cp.int64)
    kernel((1,), (96,), (cp.asarray(x), cp.asarray(f), out, fsum, dmax, lsum))
    names = ("plus", "less", "greater", "and", "or", "xor")
    return {"x": x, "f": f, **dict(zip(names, out.get(), strict=True)), "float": fsum, "double": dmax, "long": lsum}


@program(
    "reduce of a struct with an operator of one's own",
    expect=lambda v: {
        "largest": v["x"].reshape(-1, 32).max(1), "where": v["x"].reshape(-1, 32).argmax(1).astype(np.int32)
    },
)  # fmt: skip
def reduce_user_type():
    x = np.random.default_rng(72).permutation(128).astype(np.float32)
    kernel = _kernel(r"""
        struct Best { float value; int where; };
        extern "C" __global__ void k(const float* x, float* largest, int* where) {
            auto tile = cg::tiled_partition<32>(cg::this_thread_block());
            Best mine = {x[threadIdx.x], (int)tile.thread_rank()};
            Best best = cg::reduce(tile, mine, [](Best a, Best b) { return a.value > b.value ? a : b; });
            if (tile.thread_rank() == 5) { largest[tile.meta_group_rank()] = best.value;
                where[tile.meta_group_rank()] = best.where; }
        }""")
    largest, where = cp.zeros(4, cp.float32), cp.zeros(4, cp.int32)
    kernel((1,), (128,), (cp.asarray(x), largest, where))
    return {"x": x, "largest": largest, "where": where}


@program(
    "tiles of 64 to 512 threads: sync, reduce, votes, inclusive scan",
    expect=lambda v: {
        f"{n}": np.stack([
            v["x"].reshape(-1, n).sum(1, dtype=np.int32).repeat(n),
            np.cumsum(v["x"].reshape(-1, n), 1, dtype=np.int32).ravel(),
            (v["x"].reshape(-1, n) > 98).any(1).repeat(n), (v["x"].reshape(-1, n) >= 0).all(1).repeat(n),
            np.arange(512) // n, np.full(512, 512 // n),
        ]).astype(np.int32) for n in (64, 128, 256, 512)
    },
)  # fmt: skip
def large_tiles():
    x = np.random.default_rng(73).integers(0, 100, 512).astype(np.int32)
    found = {"x": x}
    for n in (64, 128, 256, 512):
        kernel = _kernel(r"""
            extern "C" __global__ void k(const int* x, int* out) {
                __shared__ cg::block_tile_memory<512> memory;
                auto block = cg::this_thread_block(memory);
                auto tile = cg::tiled_partition<N>(block);
                int t = threadIdx.x, v = x[t];
                out[t] = cg::reduce(tile, v, cg::plus<int>());
                tile.sync();
                out[512 + t] = cg::inclusive_scan(tile, v, cg::plus<int>());
                out[1024 + t] = tile.any(v > 98);
                out[1536 + t] = tile.all(v >= 0);
                out[2048 + t] = tile.meta_group_rank();
                out[2560 + t] = tile.meta_group_size();
            }""".replace("N>", f"{n}>"))  # fmt: skip
        out = cp.zeros((6, 512), cp.int32)
        kernel((1,), (512,), (cp.asarray(x), out))
        found[f"{n}"] = out.get()
    return found


@program(
    "tiles of 64 threads go separate ways: only one of them syncs",
    expect=lambda v: {"out": np.concatenate([np.arange(64)[::-1], np.arange(64, 128)]).astype(np.int32)},
)
def large_tile_alone():
    kernel = _kernel(r"""
        extern "C" __global__ void k(int* out) {
            __shared__ cg::block_tile_memory<128> memory;
            __shared__ int a[128];
            auto tile = cg::tiled_partition<64>(cg::this_thread_block(memory));
            int t = threadIdx.x;
            a[t] = t;
            if (tile.meta_group_rank() == 0) { tile.sync(); out[t] = a[63 - t]; }
            else out[t] = a[t];
        }""")
    out = cp.zeros(128, cp.int32)
    kernel((1,), (128,), (out,))
    return {"out": out}


@program(
    "a partition whose size is known at run time",
    expect=lambda v: {
        "out": np.stack([np.arange(64) % n + 100 * (np.arange(64) // n) + 10000 * n for n in (1, 4, 32)]).astype(
            np.int32
        )
    },
)
def dynamic_tiles():
    kernel = _kernel(r"""
        extern "C" __global__ void k(int* out, int n) {
            auto group = cg::tiled_partition(cg::this_thread_block(), n);
            out[threadIdx.x] = group.thread_rank() + 100 * (threadIdx.x / group.size()) + 10000 * group.size();
        }""")
    out = cp.zeros((3, 64), cp.int32)
    for row, n in enumerate((1, 4, 32)):
        kernel((1,), (64,), (out[row], np.int32(n)))
    return {"out": out}


def _labels(v):
    x = v["x"].reshape(2, 32)
    rows = []
    for row in x:
        labels = row % 5
        rank = np.array([(labels[:i] == labels[i]).sum() for i in range(32)])
        rows.append(np.stack([rank, np.array([(labels == k).sum() for k in labels]),
                              np.array([row[labels == k].sum() for k in labels])]))  # fmt: skip
    return {"out": np.concatenate(rows, 1).astype(np.int32)}


@program("labeled_partition groups the lanes with equal labels", expect=_labels)
def labeled_partition():
    x = np.random.default_rng(74).integers(0, 50, 64).astype(np.int32)
    kernel = _kernel(r"""
        extern "C" __global__ void k(const int* x, int* out) {
            auto tile = cg::tiled_partition<32>(cg::this_thread_block());
            int t = threadIdx.x;
            auto group = cg::labeled_partition(tile, x[t] % 5);
            out[t] = group.thread_rank(); out[64 + t] = group.num_threads();
            out[128 + t] = cg::reduce(group, x[t], cg::plus<int>());
        }""")
    out = cp.zeros((3, 64), cp.int32)
    kernel((1,), (64,), (cp.asarray(x), out))
    return {"x": x, "out": out}


def _halves(v):
    odd = v["x"] % 2 == 1
    rank = np.array([(odd[:i] == odd[i]).sum() for i in range(32)])
    first = np.array([v["x"][np.flatnonzero(odd == o)[0]] for o in odd])
    return {"out": np.stack([rank, np.where(odd, odd.sum(), (~odd).sum()), first]).astype(np.int32)}


@program("binary_partition and shfl within the halves", expect=_halves)
def binary_partition():
    x = np.random.default_rng(75).integers(0, 1000, 32).astype(np.int32)
    kernel = _kernel(r"""
        extern "C" __global__ void k(const int* x, int* out) {
            auto tile = cg::tiled_partition<32>(cg::this_thread_block());
            int t = threadIdx.x;
            auto half = cg::binary_partition(tile, x[t] & 1);
            out[t] = half.thread_rank(); out[32 + t] = half.size(); out[64 + t] = half.shfl(x[t], 0);
        }""")
    out = cp.zeros((3, 32), cp.int32)
    kernel((1,), (32,), (cp.asarray(x), out))
    return {"x": x, "out": out}


def _coalesced(v):
    mine = np.flatnonzero(v["x"] > 50)
    out = np.full((4, 32), -1, np.int32)
    out[0, mine], out[1, mine] = np.arange(len(mine)), len(mine)
    out[2, mine] = np.cumsum(v["x"][mine])
    out[3, mine] = v["x"][np.roll(mine, -1)]
    out[3, mine[-1]] = v["x"][mine[-1]]
    return {"out": out}


@program("coalesced_threads: rank, size, scan and shuffle of the lanes in a branch", expect=_coalesced)
def coalesced_group():
    x = np.random.default_rng(76).integers(0, 100, 32).astype(np.int32)
    kernel = _kernel(r"""
        extern "C" __global__ void k(const int* x, int* out) {
            int t = threadIdx.x, v = x[t];
            if (v > 50) {
                auto active = cg::coalesced_threads();
                out[t] = active.thread_rank(); out[32 + t] = active.num_threads();
                out[64 + t] = cg::inclusive_scan(active, v);
                out[96 + t] = active.shfl_down(v, 1);
            }
        }""")
    out = cp.full((4, 32), -1, cp.int32)
    kernel((1,), (32,), (cp.asarray(x), out))
    return {"x": x, "out": out}


@program(
    "one atomic for all lanes that want one",
    expect=lambda v: {
        "count": int((v["x"] % 3 == 0).sum()),
        "places": np.arange((v["x"] % 3 == 0).sum(), dtype=np.int32),
    },
)
def aggregated_atomic():
    x = np.random.default_rng(77).integers(0, 100, 256).astype(np.int32)
    kernel = _kernel(r"""
        extern "C" __global__ void k(const int* x, int* places, int* count) {
            if (x[threadIdx.x] % 3 == 0) {
                auto active = cg::coalesced_threads();
                int first = 0;
                if (active.thread_rank() == 0) first = atomicAdd(count, active.size());
                int at = active.shfl(first, 0) + active.thread_rank();
                places[at] = at;
            }
        }""")
    places, count = cp.full(256, -1, cp.int32), cp.zeros(1, cp.int32)
    kernel((1,), (256,), (cp.asarray(x), places, count))
    n = int(count[0])
    return {"x": x, "count": n, "places": places[:n].get()}


def _scans(v):
    x = v["x"].reshape(-1, 8)
    return {
        "inclusive": np.cumsum(x, 1, dtype=np.int32).ravel(),
        "exclusive": (np.cumsum(x, 1) - x).astype(np.int32).ravel(),
        "max": np.maximum.accumulate(x, 1).ravel(),
        "before": np.where(np.arange(64) % 8, np.roll(np.bitwise_xor.accumulate(x, 1).ravel(), 1), 0).astype(np.int32),
    }  # fmt: skip


@program("inclusive and exclusive scans with several operators", expect=_scans)
def scans():
    x = np.random.default_rng(78).integers(0, 1000, 64).astype(np.int32)
    kernel = _kernel(r"""
        extern "C" __global__ void k(const int* x, int* out) {
            auto tile = cg::tiled_partition<8>(cg::this_thread_block());
            int t = threadIdx.x, v = x[t];
            out[t] = cg::inclusive_scan(tile, v);
            out[64 + t] = cg::exclusive_scan(tile, v);
            out[128 + t] = cg::inclusive_scan(tile, v, cg::greater<int>());
            out[192 + t] = cg::exclusive_scan(tile, v, cg::bit_xor<int>());
        }""")
    out = cp.zeros((4, 64), cp.int32)
    kernel((1,), (64,), (cp.asarray(x), out))
    return {"x": x, **dict(zip(("inclusive", "exclusive", "max", "before"), out.get(), strict=True))}


@program(
    "scans that fetch and raise an atomic, and reductions into one",
    expect=lambda v: {
        "total": int(v["x"].sum()), "ends": np.sort(v["x"].reshape(-1, 32).sum(1)).astype(np.int32),
        "sum": int(v["x"].sum()), "largest": int(v["x"].max()),
    },
)  # fmt: skip
def updating_collectives():
    x = np.random.default_rng(79).integers(1, 50, 128).astype(np.int32)
    kernel = _kernel(r"""
        #include <cuda/atomic>
        extern "C" __global__ void k(const int* x, int* place, int* out) {
            __shared__ cuda::atomic<int, cuda::thread_scope_block> total, sum;
            if (threadIdx.x == 0) { total = 0; sum = 0; }
            __syncthreads();
            auto tile = cg::tiled_partition<32>(cg::this_thread_block());
            int v = x[threadIdx.x];
            place[threadIdx.x] = cg::exclusive_scan_update(tile, total, v, cg::plus<int>());
            cg::reduce_update_async(tile, sum, v, cg::plus<int>());
            cg::reduce_store_async(tile, out + 2 + tile.meta_group_rank(), v, cg::greater<int>());
            __syncthreads();
            if (threadIdx.x == 0) { out[0] = total; out[1] = sum; }
        }""")
    place, out = cp.zeros(128, cp.int32), cp.zeros(6, cp.int32)
    kernel((1,), (128,), (cp.asarray(x), place, out))
    places, answers = place.get().reshape(-1, 32), out.get()
    rows = x.reshape(-1, 32)
    ends = np.sort(places[:, -1] + rows[:, -1] - places[:, 0]).astype(np.int32)
    return {"x": x, "total": int(answers[0]), "sum": int(answers[1]), "ends": ends, "largest": int(answers[2:].max())}


@program(
    "invoke_one and invoke_one_broadcast",
    expect=lambda v: {"count": np.array([3 + 6, 40], np.int32), "same": np.ones(96, np.int32)},
)
def invoke_one():
    kernel = _kernel(r"""
        extern "C" __global__ void k(int* count, int* same) {
            auto tile = cg::tiled_partition<32>(cg::this_thread_block());
            cg::invoke_one(tile, [&] { atomicAdd(count, 1); });
            int mine = cg::invoke_one_broadcast(tile, [&] { return atomicAdd(count, 2); });
            same[threadIdx.x] = tile.all(mine == tile.shfl(mine, 7));
            if (threadIdx.x < 40) { auto active = cg::coalesced_threads();
                cg::invoke_one(active, [&] { atomicAdd(count + 1, active.size()); }); }
        }""")
    count, same = cp.zeros(2, cp.int32), cp.zeros(96, cp.int32)
    kernel((1,), (96,), (count, same))
    return {"count": count, "same": same}


def _votes(v):
    x = v["x"].reshape(-1, 16)
    odd = x % 2 == 1
    ballot = (odd * (1 << np.arange(16))).sum(1)
    match = np.array([[((row == value) * (1 << np.arange(16))).sum() for value in row] for row in x])
    every = np.array([0xFFFF if (row == row[0]).all() else 0 for row in x])
    return {
        "out": np.stack(
            [odd.any(1).repeat(16), odd.all(1).repeat(16), ballot.repeat(16), match.ravel(), every.repeat(16)]
        ).astype(np.uint32)
    }


@program("votes and matches of a tile of 16", expect=_votes)
def tile_votes():
    x = np.random.default_rng(80).integers(0, 6, 96).astype(np.int32)
    x[16:32] = 3
    x[32:48] = 1 + 2 * (x[32:48] // 2)
    kernel = _kernel(r"""
        extern "C" __global__ void k(const int* x, unsigned* out) {
            auto tile = cg::tiled_partition<16>(cg::this_thread_block());
            int t = threadIdx.x, v = x[t], same;
            out[t] = tile.any(v & 1); out[96 + t] = tile.all(v & 1); out[192 + t] = tile.ballot(v & 1);
            out[288 + t] = tile.match_any(v); out[384 + t] = tile.match_all(v, same);
        }""")
    out = cp.zeros((5, 96), cp.uint32)
    kernel((1,), (96,), (cp.asarray(x), out))
    return {"x": x, "out": out}


@program(
    "shuffles of doubles and structs, up, down, across",
    expect=lambda v: {
        "up": np.where(np.arange(64) % 32 < 3, v["x"], np.roll(v["x"], 3)),
        "down": np.roll(v["x"].reshape(-1, 2), -1, 1).ravel(),
        "across": v["x"].reshape(-1, 8)[:, [5, 4, 7, 6, 1, 0, 3, 2]].ravel(),
    },
)  # fmt: skip
def shuffles_of_large_types():
    x = np.random.default_rng(81).random(64)
    kernel = _kernel(r"""
        struct Pair { double a; int b; };
        extern "C" __global__ void k(const double* x, double* out) {
            auto block = cg::this_thread_block();
            int t = threadIdx.x;
            double v = x[t];
            out[t] = cg::tiled_partition<32>(block).shfl_up(v, 3);
            Pair p = {v, t};
            p = cg::tiled_partition<2>(block).shfl(p, 1 - (t & 1));
            out[64 + t] = p.b == (t ^ 1) ? p.a : -1.0;
            out[128 + t] = cg::tiled_partition<8>(block).shfl_xor(v, 5);
        }""")
    out = cp.zeros((3, 64), cp.float64)
    kernel((1,), (64,), (cp.asarray(x), out))
    up, down, across = out.get()
    return {"x": x, "up": up, "down": down, "across": across}


@program(
    "members of thread_block, and its barrier in two halves",
    expect=lambda v: {
        "facts": np.array([24, 2, 3, 4, 1, 2, 1, 23], np.int32),
        "out": np.arange(24, dtype=np.int32)[::-1].copy(),
    },
)
def thread_block_group():
    kernel = _kernel(r"""
        extern "C" __global__ void k(int* facts, int* out) {
            __shared__ int a[24];
            auto b = cg::this_thread_block();
            int t = b.thread_rank();
            a[t] = t;
            auto token = b.barrier_arrive();
            b.barrier_wait(cg::thread_block::arrival_token(token));
            if (blockIdx.x + blockIdx.y == 3) out[t] = a[23 - t];
            if (t == 23 && blockIdx.x + blockIdx.y == 3) {
                facts[0] = b.size(); facts[1] = b.dim_threads().x; facts[2] = b.dim_threads().y;
                    facts[3] = b.dim_threads().z;
                facts[4] = b.group_index().x; facts[5] = b.group_index().y; facts[6] = b.thread_index().x; facts[7] = t;
            }
        }""")
    facts, out = cp.zeros(8, cp.int32), cp.zeros(24, cp.int32)
    kernel((2, 3), (2, 3, 4), (facts, out))
    return {"facts": facts, "out": out}


@program(
    "tiles of tiles, and a matrix product of tiles that load for each other",
    expect=lambda v: {
        "c": (v["a"].astype(np.int64) @ v["b"]).astype(np.int32),
        "meta": np.array([3, 4, 1, 2], np.int32),
    },
)
def nested_tiles():
    rng = np.random.default_rng(82)
    a, b = rng.integers(-9, 9, (16, 16)).astype(np.int32), rng.integers(-9, 9, (16, 16)).astype(np.int32)
    kernel = _kernel(r"""
        extern "C" __global__ void k(const int* a, const int* b, int* c, int* meta) {
            auto warp = cg::tiled_partition<32>(cg::this_thread_block());
            auto half = cg::tiled_partition<16>(warp);
            auto quad = cg::tiled_partition<4>(half);
            int row = threadIdx.x / 16, col = half.thread_rank(), mine = a[row * 16 + col], sum = 0;
            for (int i = 0; i < 16; ++i) sum += half.shfl(mine, i) * b[i * 16 + col];
            c[row * 16 + col] = sum;
            if (threadIdx.x == 31) { meta[0] = quad.meta_group_rank(); meta[1] = quad.meta_group_size();
                meta[2] = half.meta_group_rank(); meta[3] = half.meta_group_size(); }
        }""")
    c, meta = cp.zeros((16, 16), cp.int32), cp.zeros(4, cp.int32)
    kernel((1,), (256,), (cp.asarray(a), cp.asarray(b), c, meta))
    return {"a": a, "b": b, "c": c, "meta": meta}
