"""CuPy's memory pools: rounding, reuse, splitting, accounting, limits, and memory that is not the pool's."""

import numpy as np

from cudalab import cp, cudart

from ..program import program, raised


def state(pool):
    return [pool.used_bytes(), pool.free_bytes(), pool.total_bytes(), pool.n_free_blocks()]


@program("used, free and total bytes and free blocks through a sequence of allocations and frees")
def accounting():
    pool = cp.cuda.MemoryPool()
    steps = [state(pool)]
    with cp.cuda.using_allocator(pool.malloc):
        a = cp.empty(100, cp.uint8)
        steps.append(state(pool))
        b = cp.empty(1000, cp.float64)
        steps.append(state(pool))
        del a
        steps.append(state(pool))
        c = cp.empty(512, cp.uint8)
        steps.append(state(pool))
        d = cp.empty(1, cp.uint8)
        steps.append(state(pool))
        del b, c, d
        steps.append(state(pool))
        pool.free_all_blocks()
        steps.append(state(pool))
    return {"steps": steps}


@program("a large free block is split for smaller requests and joined again")
def splitting():
    pool = cp.cuda.MemoryPool()
    steps = []
    with cp.cuda.using_allocator(pool.malloc):
        big = cp.empty(8192, cp.uint8)
        del big
        steps.append(state(pool))
        a = cp.empty(1024, cp.uint8)
        steps.append(state(pool))
        b = cp.empty(2048, cp.uint8)
        steps.append(state(pool))
        del a
        steps.append(state(pool))
        c = cp.empty(512, cp.uint8)
        steps.append(state(pool))
        del c, b
        steps.append(state(pool))
        again = cp.empty(8192, cp.uint8)
        steps.append(state(pool))
        del again
        pool.free_all_blocks()
        steps.append(state(pool))
    return {"steps": steps}


@program("requests are rounded up to multiples of 512 bytes; nothing costs nothing")
def rounding():
    pool = cp.cuda.MemoryPool()
    sizes = [0, 1, 511, 512, 513, 1024, 1025, 100000]
    used = []
    for size in sizes:
        memory = pool.malloc(size)
        used.append([pool.used_bytes(), memory.mem.size if size else 0])
        del memory
        pool.free_all_blocks()
    return {"used": used}


@program("freed memory is handed out again, most recent sizes first")
def reuse():
    pool = cp.cuda.MemoryPool()
    a = pool.malloc(4096)
    first = a.ptr
    del a
    b = pool.malloc(4096)
    same = b.ptr == first
    c = pool.malloc(4096)
    return {"same": same, "other": c.ptr != first, "state": state(pool)}


@program("a view keeps its memory alive; the last reference frees it")
def lifetime():
    pool = cp.cuda.MemoryPool()
    with cp.cuda.using_allocator(pool.malloc):
        a = cp.arange(256, dtype=cp.int32)
        v = a[128:]
        steps = [pool.used_bytes()]
        del a
        steps.append(pool.used_bytes())
        total = int(v[0])
        del v
        steps.append(pool.used_bytes())
        pool.free_all_blocks()
    return {"steps": steps, "value": total}


@program("temporaries of an expression are returned to the pool")
def temporaries():
    pool = cp.cuda.MemoryPool()
    with cp.cuda.using_allocator(pool.malloc):
        a, b = cp.ones(1024), cp.ones(1024)
        before = pool.used_bytes()
        c = (a + b) * 2 - a / b
        after = pool.used_bytes()
        value = float(c[5])
        total = pool.total_bytes()
    return {"before": before, "after": after, "value": value, "at most four more": total <= before + 6 * 8192}


@program("a limit in bytes: the error beyond it, and lifting it")
def limits():
    pool = cp.cuda.MemoryPool()
    pool.set_limit(size=1 << 20)
    limit = pool.get_limit()
    kept = pool.malloc(1 << 19)
    result = {
        "limit": limit,
        "beyond": raised(lambda: pool.malloc((1 << 19) + 1)),
        "just": raised(lambda: pool.malloc(1 << 19)),
        "used": pool.used_bytes(),
    }
    pool.set_limit(size=0)
    return {**result, "lifted": pool.get_limit(), "now": raised(lambda: pool.malloc(1 << 21)), "kept": kept.mem.size}


@program("asking for a terabyte: the exception, its kind, and that the pool goes on")
def one_terabyte():
    error = None
    try:
        cp.empty(1 << 40, cp.uint8)
    except Exception as caught:
        error = caught
    return {
        "type": type(error).__name__,
        "is MemoryError": isinstance(error, MemoryError),
        "is OutOfMemoryError": isinstance(error, cp.cuda.memory.OutOfMemoryError),
        "says how much": "1,099,511,627,776" in str(error),
        "zeros too": raised(lambda: cp.zeros((1 << 20, 1 << 20), cp.uint8)),
        "then": int(cp.arange(5).sum()),
        "last": cudart.cudaGetLastError()[0].name,
    }


@program("memory pointers: offsets, copies from and to the host and between, sets")
def memory_pointers():
    pointer = cp.cuda.alloc(64)
    host = np.arange(16, dtype=np.int32)
    pointer.copy_from_host(host.ctypes.data, 64)
    (pointer + 16).memset(0xFF, 8)
    other = cp.cuda.alloc(64)
    other.copy_from_device(pointer, 64)
    back = np.zeros(16, np.int32)
    other.copy_to_host(back.ctypes.data, 64)
    return {
        "back": back,
        "offset": (pointer + 24).ptr - pointer.ptr,
        "minus": ((pointer + 24) - 8).ptr - pointer.ptr,
        "as int": int(pointer) == pointer.ptr,
        "size": pointer.mem.size,
        "device": pointer.device.id,
    }


@program(
    "an array over memory from cudart, and one over part of another array's",
    expect=lambda v: {"array": np.arange(8, dtype=np.float32) * 2, "part": np.array([4, 6], np.float32)},
)
def foreign_memory():
    _, raw = cudart.cudaMalloc(32)
    memory = cp.cuda.UnownedMemory(int(raw), 32, owner=None)
    x = cp.ndarray(8, cp.float32, memptr=cp.cuda.MemoryPointer(memory, 0))
    x[...] = cp.arange(8, dtype=cp.float32) * 2
    part = cp.ndarray(2, cp.float32, memptr=x.data + 8)
    result = {"array": x.get(), "part": part.get()}
    cudart.cudaFree(raw)
    return result


@program("no pool at all: each array is its own allocation")
def without_a_pool():
    before = cp.get_default_memory_pool().used_bytes()
    with cp.cuda.using_allocator(None):
        x = cp.ones(1000)
        inside = cp.get_default_memory_pool().used_bytes()
        value = float(x.sum())
    return {"value": value, "pool unchanged": inside == before, "type": type(x.data.mem).__name__}


@program("the pool of pinned memory counts free blocks")
def pinned_pool():
    pool = cp.cuda.PinnedMemoryPool()
    counts = [pool.n_free_blocks()]
    a, b = pool.malloc(1000), pool.malloc(3000)
    counts.append(pool.n_free_blocks())
    sizes = [a.mem.size, b.mem.size]
    del a
    counts.append(pool.n_free_blocks())
    del b
    counts.append(pool.n_free_blocks())
    pool.free_all_blocks()
    counts.append(pool.n_free_blocks())
    return {"counts": counts, "sizes": sizes}


@program("the default pool is the current allocator and can be replaced")
def allocators():
    pool = cp.cuda.MemoryPool()
    cp.cuda.set_allocator(pool.malloc)
    x = cp.empty(100)
    used = pool.used_bytes()
    cp.cuda.set_allocator(cp.get_default_memory_pool().malloc)
    y = cp.empty(100)
    return {
        "used": used,
        "then": pool.used_bytes(),
        "default": cp.get_default_memory_pool().used_bytes() >= y.nbytes,
        "n": x.size,
    }
