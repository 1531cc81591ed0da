"""``RawKernel`` and ``RawModule``: arguments and their packing, integers for pointers, views, globals, caching."""

import numpy as np

from cudalab import cp

from ..program import program, raised


@program(
    "scalars of every kind: NumPy scalars have their own size, Python numbers eight bytes",
    expect=lambda v: {"out": np.array([-1, 200, -300, 40000, -5, 6, 2**40, 0.5, 2.25, 1, 7, 3.5, 0], np.float64)},
)
def scalar_arguments():
    kernel = cp.RawKernel(
        r"""
        extern "C" __global__ void k(signed char a, unsigned char b, short c, unsigned short d, int e, unsigned f,
                                     long long g, float h, double i, bool j, long long k_, double l, bool m,
                                         double* out) {
            double v[] = {(double)a, (double)b, (double)c, (double)d, (double)e, (double)f, (double)g, h, i, (double)j,
                          (double)k_, l, (double)m};
            out[threadIdx.x] = v[threadIdx.x];
        }""",
        "k",
    )
    out = cp.zeros(13)
    kernel(
        (1,),
        (13,),
        (
            np.int8(-1), np.uint8(200), np.int16(-300), np.uint16(40000), np.int32(-5), np.uint32(6), np.int64(2**40),
            np.float32(0.5), np.float64(2.25), np.bool_(True), 7, 3.5, False, out,
        ),
    )  # fmt: skip
    return {"out": out}


@program(
    "a Python integer for an int parameter: the low half counts",
    expect=lambda v: {"out": np.array([5, -7, 2147483647], np.int32)},
)
def python_integers():
    kernel = cp.RawKernel(
        'extern "C" __global__ void k(int a, int* out, int b, int c) { out[0] = a; out[1] = b; out[2] = c; }', "k"
    )
    out = cp.zeros(3, cp.int32)
    kernel((1,), (1,), (5, out, -7, 2**31 - 1))
    return {"out": out}


@program(
    "complex numbers are passed as pairs",
    expect=lambda v: {"out": np.array([1.5, -2.5, 3.25, 4.75])},
)
def complex_arguments():
    kernel = cp.RawKernel(
        r"""
        struct C { float re, im; }; struct Z { double re, im; };
        extern "C" __global__ void k(C a, Z b, double* out) { out[0] = a.re; out[1] = a.im; out[2] = b.re;
            out[3] = b.im; }""",
        "k",
    )
    out = cp.zeros(4)
    kernel((1,), (1,), (np.complex64(1.5 - 2.5j), 3.25 + 4.75j, out))
    return {"out": out}


@program(
    "integers are accepted for pointers: data.ptr, with an offset, and zero for null",
    expect=lambda v: {"out": np.array([0, 1, 2, 42, 4, 5], np.int32), "null": 1},
)
def integers_for_pointers():
    kernel = cp.RawKernel(
        'extern "C" __global__ void k(int* p, const void* maybe, int* null) { p[0] = 42; *null = maybe == nullptr; }',
        "k",
    )
    x, null = cp.arange(6, dtype=cp.int32), cp.zeros(1, cp.int32)
    kernel((1,), (1,), (x.data.ptr + 12, 0, null))
    return {"out": x, "null": int(null[0])}


@program(
    "None is a null pointer; a MemoryPointer is its address",
    expect=lambda v: {"out": np.array([1, 0, 1], np.int32)},
)
def none_and_memory_pointers():
    kernel = cp.RawKernel(
        'extern "C" __global__ void k(void* a, void* b, int* out) { out[0] = !a; out[1] = !b; out[2] = 1; }', "k"
    )
    out, other = cp.zeros(3, cp.int32), cp.zeros(4)
    none = raised(lambda: kernel((1,), (1,), (None, other.data, out)))
    return {"out": out, "none": none}


@program(
    "an array argument is the address of its first element: slices, reversed and transposed views",
    expect=lambda v: {
        "firsts": np.array([0, 12, 3, 11, 1], np.int32),
        "after": np.concatenate([np.arange(5), [100, 101], np.arange(7, 12)]).astype(np.int32),
    },
)
def views_as_arguments():
    first = cp.RawKernel('extern "C" __global__ void first(const int* x, int* out) { *out = *x; }', "first")
    x = cp.arange(12, dtype=cp.int32)
    two = cp.arange(12, 24, dtype=cp.int32).reshape(3, 4)
    firsts = cp.zeros(5, cp.int32)
    for i, view in enumerate([x, two.T, x[3::2], x[::-1], x.reshape(3, 4)[:, 1]]):
        first((1,), (1,), (view, firsts[i:]))
    write = cp.RawKernel('extern "C" __global__ void write(int* x) { x[threadIdx.x] = 100 + threadIdx.x; }', "write")
    write((1,), (2,), (x[5:],))
    return {"firsts": firsts, "after": x}


@program("host arrays as arguments are copied by value, or refused")
def numpy_arrays_as_arguments():
    kernel = cp.RawKernel('extern "C" __global__ void k(int a, int* out) { *out = a; }', "k")
    out = cp.zeros(1, cp.int32)
    host = np.arange(4, dtype=np.int32)
    zero_d = np.array(9, np.int32)
    return {"0-d": raised(lambda: kernel((1,), (1,), (zero_d, out))), "value": int(out[0]), "1-d": type(host).__name__}


POINT = np.dtype([("x", "f4"), ("y", "f4"), ("id", "i8")])


@program(
    "a structured scalar is passed by value, and a buffer of structs by its address",
    expect=lambda v: {"out": np.array([1.5, -2.0, 77, 4, 5, 6])},
)
def structured_arguments():
    kernel = cp.RawKernel(
        r"""
        struct Point { float x, y; long long id; };
        extern "C" __global__ void k(Point p, const Point* many, double* out) {
            out[0] = p.x; out[1] = p.y; out[2] = p.id;
            out[3] = many[1].x; out[4] = many[1].y; out[5] = many[1].id;
        }""",
        "k",
    )
    many = np.array([(1, 2, 3), (4, 5, 6)], POINT)
    buffer = cp.asarray(many.view(np.uint8))
    out = cp.zeros(6)
    kernel((1,), (1,), (np.array((1.5, -2.0, 77), POINT)[()], buffer, out))
    return {"out": out}


@program(
    "buffers of another element type for vectors and structs",
    expect=lambda v: {"out": np.arange(16, dtype=np.float32).reshape(4, 4).sum(axis=1)},
)
def buffers_for_vectors():
    kernel = cp.RawKernel(
        r"""
        extern "C" __global__ void k(const float4* x, float* s) {
            float4 v = x[threadIdx.x];
            s[threadIdx.x] = v.x + v.y + v.z + v.w;
        }""",
        "k",
    )
    out = cp.zeros(4, cp.float32)
    kernel((1,), (4,), (cp.arange(16, dtype=cp.float32), out))
    return {"out": out}


@program(
    "get_global gives a pointer that arrays can be laid over",
    expect=lambda v: {"seen": np.arange(6, dtype=np.float64) * 2, "written": 3.5, "type": "MemoryPointer"},
)
def global_as_array():
    module = cp.RawModule(
        code=r"""
        __device__ double grid[2][3];
        __device__ double single = 7.0;
        extern "C" __global__ void fill() { grid[threadIdx.y][threadIdx.x] = 2.0 * (threadIdx.y * 3 + threadIdx.x); }
        extern "C" __global__ void copy(double* out) { *out = single; }"""
    )
    pointer = module.get_global("grid")
    grid = cp.ndarray((2, 3), cp.float64, memptr=pointer)
    module.get_function("fill")((1,), (3, 2), ())
    cp.ndarray((), cp.float64, memptr=module.get_global("single"))[()] = 3.5
    out = cp.zeros(1)
    module.get_function("copy")((1,), (1,), (out,))
    return {"seen": grid.ravel(), "written": float(out[0]), "type": type(pointer).__name__}


@program("two RawModules of the same source and options are one module underneath, or not")
def module_identity():
    source = r"""
        __device__ int shared_or_not = 1;
        extern "C" __global__ void set(int v) { shared_or_not = v; }
        extern "C" __global__ void get(int* out) { *out = shared_or_not; }"""
    a, b = cp.RawModule(code=source), cp.RawModule(code=source)
    out = cp.zeros(1, cp.int32)
    a.get_function("set")((1,), (1,), (np.int32(55),))
    b.get_function("get")((1,), (1,), (out,))
    return {"seen by the other": int(out[0])}


@program("what a RawKernel and a RawModule tell about themselves")
def self_description():
    source = 'extern "C" __global__ void k(int* x) { *x = 1; }'
    kernel = cp.RawKernel(source, "k", options=("-DA=1",))
    module = cp.RawModule(code=source, options=("-DA=1",))
    return {
        "name": kernel.name,
        "code": kernel.code == source,
        "options": list(kernel.options),
        "module options": list(module.options),
        "module code": module.code == source,
        "backend": kernel.backend,
        "types": [type(kernel).__mro__[-2].__name__, type(module.get_function("k")).__name__],
        "is kernel": isinstance(module.get_function("k"), cp.RawKernel),
    }


@program(
    "grids and blocks as tuples of one to three integers, keyword arguments, a stream",
    expect=lambda v: {"count": 8 + 24 + 6 + 4 + 2},
)
def ways_to_launch():
    kernel = cp.RawKernel('extern "C" __global__ void k(int* n) { atomicAdd(n, 1); }', "k")
    n = cp.zeros(1, cp.int32)
    kernel((2,), (4,), (n,))
    kernel((1, 2), (3, 4), (n,))
    kernel(grid=(1, 1, 1), block=(1, 2, 3), args=(n,))
    kernel((np.int64(2),), (np.int32(2),), [n], shared_mem=16)
    with cp.cuda.Stream(non_blocking=True) as stream:
        stream.wait_event(cp.cuda.Stream.null.record())
        kernel((1,), (2,), (n,))
    stream.synchronize()
    return {"count": int(n[0])}


@program(
    "a kernel object can be launched many times, on other arrays and other sizes",
    expect=lambda v: {"sums": [sum(range(n)) for n in (10, 100, 1000)]},
)
def repeated_launches():
    kernel = cp.RawKernel(
        r"""
        extern "C" __global__ void k(const int* x, unsigned long long* s, int n) {
            int i = blockIdx.x * blockDim.x + threadIdx.x;
            if (i < n) atomicAdd(s, (unsigned long long)x[i]);
        }""",
        "k",
    )
    sums = []
    for n in (10, 100, 1000):
        total = cp.zeros(1, cp.uint64)
        kernel(((n + 63) // 64,), (64,), (cp.arange(n, dtype=cp.int32), total, np.int32(n)))
        sums.append(int(total[0]))
    return {"sums": sums}


@program(
    "compile() ahead of the first launch; lineinfo and debug options change no result",
    expect=lambda v: {"values": [3, 3, 3]},
)
def options_without_effect():
    values = []
    for options in ((), ("-lineinfo",), ("--std=c++14", "--use_fast_math")):
        kernel = cp.RawKernel('extern "C" __global__ void k(int* x) { *x = 3; }', "k", options=options)
        kernel.compile()
        x = cp.zeros(1, cp.int32)
        kernel((1,), (1,), (x,))
        values.append(int(x[0]))
    return {"values": values}
