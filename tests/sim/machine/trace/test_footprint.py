"""Footprints of launches against byte sets made with NumPy: every byte of every allocation is compared."""

from __future__ import annotations

import _thread
import ctypes
import struct
import threading
from collections.abc import Iterator

import numpy as np
import pytest

from cudalab.sim.abi import SiteKind, Space
from cudalab.sim.compiler import compile, native
from cudalab.sim.cupy.cuda._arguments import pack as pack_values
from cudalab.sim.machine.execution import Outcome, Standalone, execute
from cudalab.sim.machine.launch.module import LoadedKernel, Module
from cudalab.sim.machine.memory.allocations import Memory
from cudalab.sim.machine.trace import footprint as footprints
from cudalab.sim.machine.trace.footprint import Footprint
from cudalab.sim.machine.trace.recorder import trace
from tests.sim.h200 import LIMITS
from tests.sim.machine.counters.counter_programs import programs

HOW = {"one worker": {}, "two workers": {"surroundings": Standalone(workers=2)}, "held": {"hold_stores": True}}
"""Ways to run a launch; all give the same footprint."""


@pytest.fixture
def memory() -> Iterator[Memory]:
    memory = Memory(1 << 30)
    yield memory
    memory.free_all()


@pytest.fixture(params=HOW)
def how(request: pytest.FixtureRequest) -> dict[str, object]:
    return HOW[request.param]


def load(memory: Memory, code: str, name: str = "k") -> LoadedKernel:
    return Module(compile(code), memory, LIMITS).kernel(name)


def put(memory: Memory, array: np.ndarray) -> int:
    pointer = memory.allocate(array.nbytes)
    memory.array(pointer, array.size, array.dtype)[:] = array.ravel()
    return pointer


def room(memory: Memory, size: int) -> int:
    return put(memory, np.zeros(size, np.uint8))


def pack(*values: int | float | np.uint64) -> bytes:
    """Addresses (of the host as ``np.uint64``, wherever they are), C ints and floats, laid out as parameters."""
    out = b""
    for value in values:
        if isinstance(value, float):
            out += struct.pack("<f", value)
        elif value >= 1 << 32 or isinstance(value, np.uint64):
            out = out.ljust(-(-len(out) // 8) * 8, b"\0") + struct.pack("<Q", value)
        else:
            out += struct.pack("<i", value)
    return out


def at(base: int, index: np.ndarray | list[int] | range, width: int, offset: int = 0) -> np.ndarray:
    """Addresses of all bytes of the elements ``index`` of an array of elements of ``width`` bytes."""
    first = base + offset + np.asarray(index, np.int64).ravel() * width
    return (first[:, None] + np.arange(width)).ravel()


def runs(*byte_sets: np.ndarray) -> tuple[tuple[int, int], ...]:
    """Sorted, disjoint runs of a set of bytes."""
    everything = np.sort(np.concatenate([np.zeros(0, np.int64), *byte_sets]))  # with repetitions
    if not everything.size:
        return ()
    breaks = np.flatnonzero(np.diff(everything) > 1)
    first, last = everything[[0, *(breaks + 1)]], everything[[*breaks, -1]]
    return tuple(zip(first.tolist(), (last + 1 - first).tolist(), strict=True))


def footprint_of(outcome: Outcome) -> Footprint:
    assert outcome.footprint is not None
    return outcome.footprint


def check(
    outcome: Outcome,
    reads: tuple[np.ndarray, ...] = (),
    writes: tuple[np.ndarray, ...] = (),
    atomics: tuple[np.ndarray, ...] = (),
) -> None:
    found = footprint_of(outcome)
    assert found.reads == runs(*reads)
    assert found.writes == runs(*writes)
    assert found.atomics == runs(*atomics)


ADD = """
extern "C" __global__ void k(const float* a, const float* b, float* c, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}"""


@pytest.mark.parametrize("n", [1, 31, 256, 5000, 100_000])
def test_vector_add(memory: Memory, n: int, how: dict) -> None:
    a, b, c = (room(memory, 4 * n) for _ in range(3))
    outcome = execute(load(memory, ADD).launch(-(-n // 256), 256, pack(a, b, c, n)), footprint=True, **how)
    check(outcome, (at(a, range(n), 4), at(b, range(n), 4)), (at(c, range(n), 4),))
    assert outcome.fault is None


@pytest.mark.parametrize("stride", [1, 2, 3, 7, 64, 1000])
@pytest.mark.parametrize("ctype, width", [("char", 1), ("short", 2), ("int", 4), ("double", 8), ("double2", 16)])
def test_strides_of_all_widths(memory: Memory, stride: int, ctype: str, width: int) -> None:
    code = f"""extern "C" __global__ void k(const {ctype}* from, {ctype}* to, int stride, int n) {{
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < n) to[n - 1 - i] = from[i * stride];
    }}"""
    n = 500
    source, target = room(memory, n * stride * width), room(memory, n * width)
    outcome = execute(load(memory, code).launch(2, 256, pack(source, target, stride, n)), footprint=True)
    check(outcome, (at(source, np.arange(n) * stride, width),), (at(target, range(n), width),))


def test_rows_of_a_pitched_array_stay_apart(memory: Memory, how: dict) -> None:
    code = """extern "C" __global__ void k(char* base, unsigned pitch, int width, int height, int first) {
        int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
        if (x < width && y < height) {
            float* row = (float*)(base + y * pitch);
            row[first + x] = row[x] * 2.0f;
        }
    }"""
    width, height, pitch, first = 37, 300, 512, 50
    base = room(memory, pitch * height)
    outcome = execute(
        load(memory, code).launch((2, 38), (32, 8), pack(base, pitch, width, height, first)), footprint=True, **how
    )
    y, x = np.mgrid[:height, :width]
    cell = y * (pitch // 4) + x
    check(outcome, (at(base, cell, 4),), (at(base, cell + first, 4),))
    assert len(footprint_of(outcome).writes) == height


def test_interleaved_rows_of_two_launches_share_no_byte(memory: Memory) -> None:
    code = """extern "C" __global__ void k(float* a, int columns, int odd) {
        a[(2 * blockIdx.x + odd) * columns + threadIdx.x] = 1.0f;
    }"""
    base, kernel = room(memory, 4 * 96 * 400), load(memory, code)
    even, odd = (
        footprint_of(execute(kernel.launch(200, 96, pack(base, 96, which)), footprint=True)).write_runs
        for which in (0, 1)
    )
    assert even.shape == odd.shape == (200, 2) and even.dtype == np.uint64
    assert np.array_equal(odd[:, 0], even[:, 0] + np.uint64(4 * 96))
    assert (even[:, 1] == 4 * 96).all() and (odd[:, 1] == 4 * 96).all()


def test_gather_and_scatter(memory: Memory, how: dict) -> None:
    code = """extern "C" __global__ void k(const int* index, const double* from, short* to, int n) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < n) to[index[i]] = (short)from[index[n - 1 - i]];
    }"""
    n, size = 3000, 40_000
    index = np.random.default_rng(5).integers(0, size, n).astype(np.int32)
    source, target = room(memory, 8 * size), room(memory, 2 * size)
    where = put(memory, index)
    outcome = execute(load(memory, code).launch(24, 128, pack(where, source, target, n)), footprint=True, **how)
    check(outcome, (at(where, range(n), 4), at(source, index, 8)), (at(target, index, 2),))


def test_members_of_structures(memory: Memory, how: dict) -> None:
    code = """struct Body { float x, y, z; char alive; double mass; };
    extern "C" __global__ void k(Body* bodies, int n) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < n && bodies[i].alive) bodies[i].z = (float)bodies[i].mass;
    }"""
    n = 700
    kind = np.dtype(
        {"names": ["z", "alive", "mass"], "formats": ["f4", "i1", "f8"], "offsets": [8, 12, 16], "itemsize": 24}
    )
    bodies = np.zeros(n, kind)
    bodies["alive"] = np.arange(n) % 3 == 0
    base = put(memory, bodies.view(np.uint8))
    outcome = execute(load(memory, code).launch(6, 128, pack(base, n)), footprint=True, **how)
    step = 24 * np.arange(n)
    alive = step[::3]
    flags, masses = base + 12 + step, (base + 16 + alive[:, None] + np.arange(8)).ravel()
    check(outcome, (flags, masses), ((base + 8 + alive[:, None] + np.arange(4)).ravel(),))


def test_vector_loads_and_stores(memory: Memory, how: dict) -> None:
    code = """extern "C" __global__ void k(const float4* a, float2* b) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i % 3 != 1) { float4 v = a[2 * i]; b[i] = make_float2(v.x, v.w); }
    }"""
    i = np.array([i for i in range(256) if i % 3 != 1])
    a, b = room(memory, 16 * 512), room(memory, 8 * 256)
    kernel = load(memory, code)
    outcome = execute(kernel.launch(2, 128, pack(a, b)), footprint=True, **how)
    check(outcome, (at(a, 2 * i, 16),), (at(b, i, 8),))


def test_atomics_of_all_kinds(memory: Memory, how: dict) -> None:
    code = """extern "C" __global__ void k(int* count, float* sum, unsigned long long* most, int* flag, double* d) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        atomicAdd(&count[i % 10], 1);
        if (i % 2) atomicAdd(&sum[i], 1.0f);
        atomicMax(&most[i / 64], (unsigned long long)i);
        if (atomicCAS(flag, 5, 6) == 5) flag[1] = 1;
        atomicAdd(&d[3], 1.0);
        count[20] = 1;
    }"""
    count, total, most, flag, d = (room(memory, 8 * 512) for _ in range(5))
    outcome = execute(load(memory, code).launch(4, 64, pack(count, total, most, flag, d)), footprint=True, **how)
    odd = np.arange(1, 256, 2)
    check(
        outcome,
        (),
        (at(count, [20], 4),),
        (at(count, range(10), 4), at(total, odd, 4), at(most, range(4), 8), at(flag, [0], 4), at(d, [3], 8)),
    )


def test_pointers_found_in_memory(memory: Memory, how: dict) -> None:
    code = """struct Node { Node* next; int value; int seen; };
    extern "C" __global__ void k(Node* first, int** rows) {
        if (threadIdx.x == 0 && blockIdx.x == 0)
            for (Node* n = first; n; n = n->next) n->seen = n->value;
        rows[blockIdx.x][threadIdx.x * 3] += 1;
    }"""
    nodes = [room(memory, 16) for _ in range(5)]
    for node, following in zip(nodes, [*nodes[1:], 0], strict=True):
        memory.array(node, 1, np.uint64)[0] = following
    tables = [room(memory, 4 * 200) for _ in range(3)]
    rows = put(memory, np.array(tables, np.uint64))
    outcome = execute(load(memory, code).launch(3, 64, pack(nodes[0], rows)), footprint=True, **how)
    touched = [at(table, 3 * np.arange(64), 4) for table in tables]
    reads = [at(node, range(12), 1) for node in nodes] + [at(rows, range(3), 8), *touched]
    check(outcome, tuple(reads), (*touched, *(at(node, [0], 4, 12) for node in nodes)))


def test_variables_of_the_module(memory: Memory, how: dict) -> None:
    code = """__device__ int table[1000]; __constant__ float weights[64];
    __device__ double total; __device__ int* where;
    extern "C" __global__ void k(int* set) {
        int i = threadIdx.x;
        table[i * 5] = (int)weights[i / 2];
        if (i == 0) { total = 1.0; where = set; }
        const float* w = weights;
        if (i == 1) where[7] = (int)w[set[1] + 40];
    }"""
    kernel = load(memory, code)
    table, weights, total, where = (
        kernel.module.global_variable(name)[0] for name in ("table", "weights", "total", "where")
    )
    target = room(memory, 64)
    memory.array(where, 1, np.uint64)[0] = target
    outcome = execute(kernel.launch(1, 64, pack(target)), footprint=True, **how)
    check(
        outcome,
        (at(weights, range(32), 4), at(weights, [40], 4), at(where, [0], 8), at(target, [1], 4)),
        (at(table, 5 * np.arange(64), 4), at(total, [0], 8), at(where, [0], 8), at(target, [7], 4)),
    )


def test_shared_and_local_memory_and_parameters_leave_nothing(memory: Memory, how: dict) -> None:
    code = """struct Big { int v[40]; };
    extern "C" __global__ void k(Big big, int* out, int n) {
        __shared__ int tile[256]; extern __shared__ int more[];
        int own[32];
        int* p = n > 3 ? tile : more;
        for (int i = 0; i < 32; i++) own[(i * n) % 32] = i;
        tile[threadIdx.x] = own[threadIdx.x % 32]; more[threadIdx.x] = big.v[threadIdx.x % 40];
        __syncthreads();
        atomicAdd(&p[(threadIdx.x + n) % 256], 1);
        __syncthreads();
        if (threadIdx.x < 7) out[threadIdx.x * 2] = tile[threadIdx.x + 1];
    }"""
    out = room(memory, 4 * 64)
    args = struct.pack("<40i", *range(40)) + struct.pack("<Qi", out, 5)
    outcome = execute(load(memory, code).launch(3, 256, args, 1024), footprint=True, **how)
    check(outcome, (), (at(out, 2 * np.arange(7), 4),))


def test_barriers_warps_and_functions(memory: Memory, how: dict) -> None:
    code = """__device__ __noinline__ float pick(const float* a, int i) { return i % 4 ? a[i] : 0.0f; }
    extern "C" __global__ void k(const float* a, float* sums, int n) {
        __shared__ float part[4];
        float v = 0;
        for (int i = blockIdx.x * 1000 + threadIdx.x; i < min(n, (int)(blockIdx.x + 1) * 1000); i += blockDim.x)
            v += pick(a, i);
        for (int d = 16; d; d /= 2) v += __shfl_down_sync(~0u, v, d);
        if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = v;
        __syncthreads();
        if (threadIdx.x == 0) sums[blockIdx.x * 2] = part[0] + part[1] + part[2] + part[3];
    }"""
    n = 4321
    a, sums = room(memory, 4 * 5000), room(memory, 4 * 10)
    outcome = execute(load(memory, code).launch(5, 128, pack(a, sums, n)), footprint=True, **how)
    index = np.arange(n)
    check(outcome, (at(a, index[index % 4 != 0], 4),), (at(sums, 2 * np.arange(5), 4),))


def test_lanes_switched_off_and_early_exits(memory: Memory, how: dict) -> None:
    code = """extern "C" __global__ void k(int* a, int* b, int limit) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i % 5 == 0) return;
        a[i] = 1;
        if (i > limit) return;
        int v = i % 2 ? b[i] : 0;
        if (v == 0 && i % 3 == 0) b[i + 1000] = v;
    }"""
    a, b = room(memory, 4 * 2000), room(memory, 4 * 2000)
    outcome = execute(load(memory, code).launch(4, 200, pack(a, b, 600)), footprint=True, **how)
    i = np.arange(800)
    alive = i[i % 5 != 0]
    near = alive[alive <= 600]
    check(outcome, (at(b, near[near % 2 == 1], 4),), (at(a, alive, 4), at(b, near[near % 3 == 0] + 1000, 4)))


def test_registered_memory_at_an_odd_address(memory: Memory, how: dict) -> None:
    code = """extern "C" __global__ void k(const unsigned char* host, int* words, int** list, int n) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < n) words[3 * i] = host[2 * i];
        if (i == 0) atomicAdd(&list[0][n * 3], 1);
    }"""
    n = 400
    raw, ints = np.zeros(70_001, np.uint8), np.zeros(20_000, np.int32)
    host, words = raw[1:].ctypes.data, ints.ctypes.data
    memory.register(host, 70_000)
    memory.register(words, ints.nbytes)
    found = put(memory, np.array([words], np.uint64))
    outcome = execute(
        load(memory, code).launch(4, 128, pack(np.uint64(host), np.uint64(words), found, n)), footprint=True, **how
    )
    check(
        outcome,
        (at(host, 2 * np.arange(n), 1), at(found, [0], 8)),
        (at(words, 3 * np.arange(n), 4),),
        (at(words, [3 * n], 4),),
    )
    memory.unregister(host)
    memory.unregister(words)


def test_what_was_touched_before_a_fault(memory: Memory) -> None:
    code = """extern "C" __global__ void k(const int* a, int* b, int n) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        b[i] = a[i * 2];
    }"""
    a, b = room(memory, 4 * 4000), room(memory, 4 * 1000)
    outcome = execute(load(memory, code).launch(20, 64, pack(a, b, 0)), footprint=True)
    assert outcome.fault is not None and outcome.fault.error == "cudaErrorIllegalAddress"
    check(outcome, (at(a, 2 * np.arange(1001), 4),), (at(b, range(1000), 4),))
    again = execute(load(memory, code).launch(2, 64, pack(a, b, 0)), footprint=True)
    check(again, (at(a, 2 * np.arange(128), 4),), (at(b, range(128), 4),))


@pytest.mark.parametrize("workers", [1, 2])
def test_an_interrupt_leaves_no_marks_behind(memory: Memory, workers: int) -> None:
    code = """extern "C" __global__ void k(int* a, int go_on) {
        a[threadIdx.x] = 1;
        while (go_on && a[5000] == 0) atomicAdd(&a[5001], 1);
    }"""
    a, kernel = room(memory, 1 << 16), load(memory, code)
    kernel.entry(footprints.variant_for(workers))
    timer = threading.Timer(0.2, _thread.interrupt_main)
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        execute(kernel.launch(4, 64, pack(a, 1)), Standalone(workers=workers), footprint=True)
    timer.join()
    again = execute(kernel.launch(4, 32, pack(a, 0)), Standalone(workers=workers), footprint=True)
    check(again, (), (at(a, range(32), 4),))


def test_a_time_limit_keeps_what_was_touched(memory: Memory) -> None:
    code = 'extern "C" __global__ void k(int* a) { while (a[3] == 0) atomicAdd(&a[9], 1); }'
    a = room(memory, 64)
    outcome = execute(load(memory, code).launch(1, 1, pack(a)), Standalone(time_limit=0.1), footprint=True)
    assert outcome.fault is not None and outcome.fault.error == "cudaErrorLaunchTimeout"
    check(outcome, (at(a, [3], 4),), (), (at(a, [9], 4),))


def test_successive_launches_do_not_mix(memory: Memory) -> None:
    """Also when allocations come and go between them and the device's memory grows."""
    kernel = load(memory, ADD)
    rng = np.random.default_rng(8)
    live: list[int] = []
    for _ in range(60):
        n = int(rng.integers(1, 9000))
        live += [room(memory, 4 * n) for _ in range(3)]
        a, b, c = live[-3:]
        count = int(rng.integers(1, n + 1))
        outcome = execute(kernel.launch(-(-count // 64), 64, pack(a, b, c, count)), footprint=True)
        check(outcome, (at(a, range(count), 4), at(b, range(count), 4)), (at(c, range(count), 4),))
        while len(live) > 9:
            memory.free(live.pop(0))
    big = memory.allocate(300 << 20)
    n = 70_000_000
    outcome = execute(kernel.launch(1, 64, pack(big, big + 4 * (n - 64), big + 4096, 64)), footprint=True)
    check(outcome, (at(big, range(64), 4), at(big, range(n - 64, n), 4)), (at(big, range(64), 4, 4096),))


def test_two_roots_in_one_allocation(memory: Memory, how: dict) -> None:
    n = 5000
    base = room(memory, 12 * n)
    outcome = execute(
        load(memory, ADD).launch(-(-n // 128), 128, pack(base, base + 4 * n, base + 4, n)), footprint=True, **how
    )
    check(outcome, (at(base, range(2 * n), 4),), (at(base, range(1, n + 1), 4),))


def test_many_runs_are_all_there(memory: Memory) -> None:
    """More than the buffer for them holds at first."""
    code = 'extern "C" __global__ void k(char* a) { a[2 * (blockIdx.x * blockDim.x + threadIdx.x)] = 1; }'
    base = room(memory, 1 << 19)
    found = footprint_of(execute(load(memory, code).launch(1024, 256, pack(base)), footprint=True))
    assert np.array_equal(found.write_runs[:, 0], base + 2 * np.arange(1 << 18, dtype=np.uint64))
    assert (found.write_runs[:, 1] == 1).all()
    assert found.reads == found.atomics == ()


def test_alignment_is_still_checked(memory: Memory) -> None:
    code = """extern "C" __global__ void k(const float4* a, const float* b, float* out) {
        float4 v = a[threadIdx.x];
        out[threadIdx.x] = b[threadIdx.x] + v.x + v.y + v.z + v.w;
    }"""
    a, out = room(memory, 4096), room(memory, 4096)
    kernel = load(memory, code)
    outcome = execute(kernel.launch(1, 4, pack(a + 4, a + 4, out)), footprint=True)
    assert outcome.fault is not None and outcome.fault.error == "cudaErrorMisalignedAddress"
    assert execute(kernel.launch(1, 4, pack(a + 16, a + 4, out)), footprint=True).fault is None


def test_unlike_members_at_an_unknown_distance(memory: Memory, how: dict) -> None:
    """The narrow member comes first, and nothing is known of the distance from the root."""
    code = """struct S { int a, b; double c; };
    extern "C" __global__ void k(char* bytes, int* offsets) {
        S* s = (S*)(bytes + offsets[threadIdx.x]);
        s->c = s->b;
    }"""
    base = room(memory, 4096)
    offsets = np.arange(32) * 40
    where = put(memory, offsets.astype(np.int32))
    outcome = execute(load(memory, code).launch(1, 32, pack(base, where)), footprint=True, **how)
    assert outcome.fault is None
    check(
        outcome,
        (at(where, range(32), 4), (base + offsets[:, None] + 4 + np.arange(4)).ravel()),
        ((base + offsets[:, None] + 8 + np.arange(8)).ravel(),),
    )
    assert execute(load(memory, code).launch(1, 32, pack(base, where))).fault is None
    memory.array(where, 1, np.int32)[0] = 4
    assert execute(load(memory, code).launch(1, 32, pack(base, where)), footprint=True).fault is not None
    assert execute(load(memory, code).launch(1, 32, pack(base, where))).fault is not None


def test_results_are_those_of_plain_code(memory: Memory, how: dict) -> None:
    a = np.random.default_rng(3).random(1000, np.float32)
    x, y, out = put(memory, a), put(memory, a[::-1].copy()), room(memory, 4000)
    outcome = execute(load(memory, ADD).launch(8, 128, pack(x, y, out, 1000)), footprint=True, **how)
    if outcome.held is not None:
        assert not memory.array(out, 1000, np.float32).any()
        outcome.held.apply()
    assert np.array_equal(memory.array(out, 1000, np.float32), a + a[::-1])


def test_footprint_code_is_made_only_when_asked_for(memory: Memory) -> None:
    code = ADD.replace("a[i] + b[i]", "a[i] - b[i] * 3.25f")
    program = compile(code)
    kernel = Module(program, memory, LIMITS).kernel("k")
    a = room(memory, 400)
    assert execute(kernel.launch(1, 100, pack(a, a, a, 100))).footprint is None
    assert not footprints.is_ready(kernel)
    footprints.prepare(kernel)
    native(program, "footprint")
    assert footprints.is_ready(kernel) and not footprints.is_ready(kernel, 2)


@pytest.mark.parametrize("variant, footprint", [("plain", True), ("atomic", True), ("footprint", False)])
def test_variants_that_do_not_fit_are_refused(memory: Memory, variant: str, footprint: bool) -> None:
    kernel, a = load(memory, ADD), room(memory, 400)
    with pytest.raises(ValueError, match=f"'{variant}'"):
        execute(kernel.launch(1, 100, pack(a, a, a, 100)), variant=variant, footprint=footprint)


def test_maps_of_large_launches_are_not_kept(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(footprints, "_KEPT", 1 << 16)
    kernel, a = load(memory, ADD), room(memory, 1 << 20)
    for count in (1 << 18, 64):
        outcome = execute(kernel.launch(-(-count // 256), 256, pack(a, a, a, count)), footprint=True)
        check(outcome, (at(a, range(count), 4),), (at(a, range(count), 4),))


def test_maps_that_launches_fill_part_by_part_are_not_kept(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two launches over arrays of their own would leave the maps of both behind: 100 MB in chapter 05."""
    monkeypatch.setattr(footprints, "_KEPT", 400 << 10)
    kernel, kept = load(memory, ADD), []
    for _ in range(3):
        a, count = room(memory, 1 << 20), 1 << 16  # 64 KiB of marks for the loads, as much for the stores
        execute(kernel.launch(count // 256, 256, pack(a, a, a, count)), footprint=True)
        kept.append([maps.touched > 120 << 10 for maps in footprints._idle[memory]])
    assert kept == [[True], [True], []]


def test_address_space_may_be_short(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(size: int) -> np.ndarray:
        raise OSError("Cannot allocate memory")

    monkeypatch.setattr(footprints.arenas, "reserve", refuse)
    kernel, a = load(memory, ADD), room(memory, 400)
    with pytest.raises(MemoryError, match="maps of a footprint"):
        execute(kernel.launch(1, 100, pack(a, a, a, 100)), footprint=True)
    assert execute(kernel.launch(1, 100, pack(a, a, a, 100))).fault is None


def test_a_stack_address_is_no_device_memory(memory: Memory) -> None:
    """The end of the arena and beyond are not marked: the launch faults, and the next one is clean."""
    code = 'extern "C" __global__ void k(int** list, int* out) { out[0] = *list[threadIdx.x]; }'
    here = ctypes.c_int(7)
    good = room(memory, 64)
    table = put(memory, np.array([good, ctypes.addressof(here)], np.uint64))
    outcome = execute(load(memory, code).launch(1, 2, pack(table, good)), footprint=True)
    assert outcome.fault is not None
    check(outcome, (at(table, range(2), 8), at(good, [0], 4)), (at(good, [0], 4),))


PROGRAMS = {program.name: program for program in programs()}
SLICE = list(PROGRAMS)[::9]


def traced_bytes(memory: Memory, kernel: LoadedKernel, grid: tuple, block: tuple, args: bytes) -> list[np.ndarray]:
    """Bytes of device memory that each kind of access touches, by the records of all blocks."""
    found: list[list[np.ndarray]] = [[], [], []]
    low, high = memory.arena.base, memory.arena.base + memory.arena.extent
    for each in trace(kernel.launch(grid, block, args)):
        for number, site in enumerate(kernel.kernel.sites):
            if site.kind > SiteKind.ATOMIC or site.space not in (Space.GENERIC, Space.GLOBAL, Space.CONSTANT):
                continue
            address = each.records["address"][each.records["site"] == number].astype(np.int64)
            address = np.unique(address[(address >= low) & (address < high)])
            found[site.kind].append((address[:, None] + np.arange(site.size)).ravel())
    return [np.concatenate([np.zeros(0, np.int64), *each]) for each in found]


@pytest.mark.parametrize("name", [n if n in SLICE else pytest.param(n, marks=pytest.mark.long) for n in PROGRAMS])
def test_footprints_equal_the_trace(memory: Memory, name: str) -> None:
    """Two ways to the same bytes, on the kernels whose counters were compared with hardware."""
    program = PROGRAMS[name]
    kernel = load(memory, program.code)
    values = [put(memory, value) if isinstance(value, np.ndarray) else value for value in program.args]
    args = pack_values("k", kernel.kernel.parameters, values, kernel.kernel.parameter_bytes)
    grid, block = (*program.grid, 1, 1)[:3], (*program.block, 1, 1)[:3]
    loads, stores, atomics = traced_bytes(memory, kernel, grid, block, args)
    check(execute(kernel.launch(grid, block, args), footprint=True), (loads,), (stores,), (atomics,))
