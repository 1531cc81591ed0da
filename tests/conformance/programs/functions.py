"""C++ on the device: templates, name expressions, calls, recursion, function pointers, classes, control flow."""

import math

import numpy as np

from cudalab import cp, cudart

from ..program import program, raised


@program(
    "template kernels are found by name expressions",
    expect=lambda v: {"i": np.arange(8, dtype=np.int32) * 3, "d": np.arange(8) * 0.5, "names differ": True},
)
def template_kernels():
    module = cp.RawModule(
        code=r"""
        template<typename T, int SCALE> __global__ void scale(T* out, T step) {
            out[threadIdx.x] = threadIdx.x * step * SCALE; }
        """,
        options=("-std=c++17",),
        name_expressions=("scale<int, 3>", "scale<double, 1>"),
    )
    i, d = cp.zeros(8, cp.int32), cp.zeros(8)
    first, second = module.get_function("scale<int, 3>"), module.get_function("scale<double, 1>")
    first((1,), (8,), (i, np.int32(1)))
    second((1,), (8,), (d, 0.5))
    return {"i": i, "d": d, "names differ": first.name != second.name}


@program(
    "overloads, namespaces, default arguments and deduction",
    expect=lambda v: {"out": np.array([1, 2, 3, 42, 15, 10, 7], np.float64)},
)
def overloads():
    module = cp.RawModule(
        code=r"""
        namespace lab {
            __device__ int kind(int) { return 1; }
            __device__ int kind(float) { return 2; }
            __device__ int kind(const char*) { return 3; }
            template<typename T> __device__ T add(T a, T b = T(2)) { return a + b; }
            template<typename... Ts> __device__ auto sum(Ts... values) { return (values + ... + 0); }
            template<int N> struct Factor { static constexpr int value = N * Factor<N - 1>::value; };
            template<> struct Factor<1> { static constexpr int value = 5; };
            __global__ void run(double* out) {
                out[0] = kind(7); out[1] = kind(7.0f); out[2] = kind("seven");
                out[3] = add(40.0); out[4] = sum(1, 2.5, 11.5f); out[5] = Factor<2>::value;
                if constexpr (sizeof(long) == 8) out[6] = add<short>(5);
            }
        }""",
        options=("--std=c++17",),
        name_expressions=("lab::run",),
    )
    out = cp.zeros(7)
    module.get_function("lab::run")((1,), (1,), (out,))
    return {"out": out}


@program(
    "recursion: factorial, Fibonacci, Ackermann, and a pair of functions that call each other",
    expect=lambda v: {
        "factorial": np.array([math.factorial(n) for n in range(16)], np.int64),
        "fibonacci": np.array([[0, 1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233, 377, 610]], np.int64)[0],
        "ackermann": 61,
        "even": (np.arange(16) % 2 == 0).astype(np.int32),
    },
)
def recursion():
    kernel = cp.RawKernel(
        r"""
        __device__ long long factorial(int n) { return n < 2 ? 1 : n * factorial(n - 1); }
        __device__ long long fibonacci(int n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }
        __device__ int ackermann(int m, int n) {
            return m == 0 ? n + 1 : n == 0 ? ackermann(m - 1, 1) : ackermann(m - 1, ackermann(m, n - 1));
        }
        __device__ bool odd(unsigned n);
        __device__ __noinline__ bool even(unsigned n) { return n == 0 ? true : odd(n - 1); }
        __device__ __noinline__ bool odd(unsigned n) { return n == 0 ? false : even(n - 1); }
        extern "C" __global__ void k(long long* f, long long* g, int* a, int* e) {
            int i = threadIdx.x;
            f[i] = factorial(i); g[i] = fibonacci(i); e[i] = even(i);
            if (i == 5) *a = ackermann(3, 3);
        }""",
        "k",
    )
    f, g, a, e = cp.zeros(16, cp.int64), cp.zeros(16, cp.int64), cp.zeros(1, cp.int32), cp.zeros(16, cp.int32)
    # Ackermann's calls nest 61 deep, which the usual stack of 1 KB does not hold
    stack = cudart.cudaLimit.cudaLimitStackSize
    before = int(cudart.cudaDeviceGetLimit(stack)[1])
    cudart.cudaDeviceSetLimit(stack, 16384)
    kernel((1,), (16,), (f, g, a, e))
    cudart.cudaDeviceSynchronize()
    cudart.cudaDeviceSetLimit(stack, before)
    return {"factorial": f, "fibonacci": g, "ackermann": int(a[0]), "even": e}


def _quicksort(v):
    return {"sorted": np.sort(v["x"], axis=1)}


@program("a recursive quicksort with pointers into the array", expect=_quicksort)
def recursive_quicksort():
    x = np.random.default_rng(40).integers(0, 1000, (32, 40)).astype(np.int32)
    kernel = cp.RawKernel(
        r"""
        __device__ void sort(int* first, int* last) {
            if (last - first < 2) return;
            int pivot = first[(last - first) / 2], *l = first, *r = last - 1;
            while (l <= r) {
                while (*l < pivot) ++l;
                while (*r > pivot) --r;
                if (l <= r) { int t = *l; *l++ = *r; *r-- = t; }
            }
            sort(first, r + 1);
            sort(l, last);
        }
        extern "C" __global__ void k(int* x) { sort(x + threadIdx.x * 40, x + threadIdx.x * 40 + 40); }""",
        "k",
    )
    data = cp.asarray(x)
    data = data.copy()
    kernel((1,), (32,), (data,))
    return {"x": x, "sorted": data}


@program(
    "functions that are not inlined: results by value, reference, pointer and struct",
    expect=lambda v: {"out": np.array([7, 12, 25, 3, 4, 33, 2.5, 1e10], np.float64)},
)
def calls_without_inlining():
    kernel = cp.RawKernel(
        r"""
        struct Result { double total; int parts[3]; float mean; };
        __device__ __noinline__ int add(int a, short b) { return a + b; }
        __device__ __noinline__ void product(int a, int b, int& result) { result = a * b; }
        __device__ __noinline__ void square(int* p) { *p *= *p; }
        __device__ __noinline__ Result describe(Result r, int extra) {
            r.parts[2] += extra; r.total += r.parts[2]; r.mean = r.total / 4; return r;
        }
        __device__ __noinline__ double big(float f, bool negative, char c, double d, long long l) {
            return (negative ? -f : f) * c + d * l;
        }
        extern "C" __global__ void k(double* out, int three, int four) {
            out[0] = add(three, four);
            int p; product(three, four, p); out[1] = p;
            int s = 5; square(&s); out[2] = s;
            Result r = {-23.0, {three, four, 30}, 0};
            Result q = describe(r, three);
            out[3] = q.parts[0]; out[4] = q.parts[1]; out[5] = q.parts[2]; out[6] = q.mean;
            out[7] = big(0.0f, true, 'a', 1e5, 100000);
        }""",
        "k",
    )
    out = cp.zeros(8)
    kernel((1,), (1,), (out, np.int32(3), np.int32(4)))
    return {"out": out}


@program(
    "function pointers: a table on the device, called by each thread's choice",
    expect=lambda v: {
        "out": np.array([f(float(i)) for i, f in enumerate([lambda x: x + 1, lambda x: x * x, lambda x: -x] * 4)]),
    },
)
def function_pointers():
    kernel = cp.RawKernel(
        r"""
        typedef double (*Function)(double);
        __device__ double next(double x) { return x + 1; }
        __device__ double square(double x) { return x * x; }
        __device__ double minus(double x) { return -x; }
        __device__ Function table[] = {next, square, minus};
        extern "C" __global__ void k(double* out) {
            int i = threadIdx.x;
            out[i] = table[i % 3](i);
        }""",
        "k",
    )
    out = cp.zeros(12)
    kernel((1,), (12,), (out,))
    return {"out": out}


@program(
    "virtual functions of objects made on the device",
    expect=lambda v: {"areas": np.array([4.0, 6.0] * 8)},
)
def virtual_functions():
    kernel = cp.RawKernel(
        r"""
        struct Shape { __device__ virtual double area() const = 0; };
        struct Square : Shape { double s; __device__ Square(double s) : s(s) {}
            __device__ double area() const override { return s * s; } };
        struct Box : Shape { double a, b; __device__ Box(double a, double b) : a(a), b(b) {}
                             __device__ double area() const override { return a * b; } };
        extern "C" __global__ void k(double* areas) {
            Square square(2); Box box(2, 3);
            const Shape* shapes[2] = {&square, &box};
            areas[threadIdx.x] = shapes[threadIdx.x & 1]->area();
        }""",
        "k",
    )
    areas = cp.zeros(16)
    kernel((1,), (16,), (areas,))
    return {"areas": areas}


@program(
    "lambdas, captures and a generic algorithm",
    expect=lambda v: {"out": np.array([sum(k * k + i for k in range(i)) for i in range(20)], np.int32)},
)
def lambdas():
    kernel = cp.RawKernel(
        r"""
        template<typename F> __device__ int accumulate(int n, F f) { int s = 0; for (int k = 0; k < n; ++k) s += f(k);
            return s; }
        extern "C" __global__ void k(int* out) {
            int i = threadIdx.x;
            auto term = [=](int k) { return k * k + i; };
            int calls = 0;
            auto counted = [&](int k) { ++calls; return term(k); };
            out[i] = accumulate(i, counted) + (calls - i);
        }""",
        "k",
    )
    out = cp.zeros(20, cp.int32)
    kernel((1,), (20,), (out,))
    return {"out": out}


@program(
    "classes: operators, constructors, destructors in order of scopes",
    expect=lambda v: {
        "log": np.array([1, 2, 3, -3, 4, -4, -2, -1], np.int32),
        "complex": np.array([-5, 10], np.float64),
    },
)
def classes():
    kernel = cp.RawKernel(
        r"""
        struct Log {
            int* at; int& n; int id;
            __device__ Log(int* at, int& n, int id) : at(at), n(n), id(id) { at[n++] = id; }
            __device__ ~Log() { at[n++] = -id; }
        };
        struct Complex {
            double re, im;
            __device__ Complex operator*(const Complex& o) const { return {re * o.re - im * o.im,
                re * o.im + im * o.re}; }
            __device__ Complex& operator*=(const Complex& o) { return *this = *this * o; }
        };
        extern "C" __global__ void k(int* log, double* out) {
            int n = 0;
            {
                Log a(log, n, 1), b(log, n, 2);
                for (int i = 3; i < 5; ++i) { Log c(log, n, i); }
            }
            Complex z{1, 2};
            z *= Complex{3, 4};
            out[0] = z.re; out[1] = z.im;
        }""",
        "k",
    )
    log, out = cp.zeros(8, cp.int32), cp.zeros(2)
    kernel((1,), (1,), (log, out))
    return {"log": log, "complex": out}


def _switched(v):
    table = [11, 7, 3, 100, 42, 8, 8, 19, 77, 5]
    return {"out": np.array([table[i] if i < 10 else -1 for i in range(16)], np.int32)}


@program("a switch with many cases, fall-through and a default", expect=_switched)
def switches():
    kernel = cp.RawKernel(
        r"""
        extern "C" __global__ void k(int* out) {
            int v, i = threadIdx.x;
            switch (i) {
                case 0: v = 11; break;   case 1: v = 4;   /* falls through */
                case 2: v = i == 1 ? v + 3 : 3; break;
                case 3: v = 100; break;  case 4: v = 42; break;
                case 5: case 6: v = 8; break;
                case 7: v = 19; break;   case 8: v = 77; break;  case 9: v = 5; break;
                default: v = -1;
            }
            out[i] = v;
        }""",
        "k",
    )
    out = cp.zeros(16, cp.int32)
    kernel((1,), (16,), (out,))
    return {"out": out}


def _primes(v):
    return {"prime": np.array([n > 1 and all(n % d for d in range(2, n)) for n in range(200)])}


@program("nested loops with break, continue, goto and early return", expect=_primes)
def loop_exits():
    kernel = cp.RawKernel(
        r"""
        extern "C" __global__ void k(bool* prime, int n) {
            int i = blockIdx.x * blockDim.x + threadIdx.x;
            if (i >= n) return;
            prime[i] = false;
            if (i < 2) return;
            for (int d = 2; ; ++d) {
                if (d * d > i) break;
                if (d > 2 && d % 2 == 0) continue;
                if (i % d == 0) goto composite;
            }
            prime[i] = true;
            return;
        composite:
            prime[i] = false;
        }""",
        "k",
    )
    prime = cp.zeros(200, cp.bool_)
    kernel((4,), (64,), (prime, np.int32(200)))
    return {"prime": prime}


def _mandelbrot(v):
    y, x = np.meshgrid(np.linspace(-1.25, 1.25, 24), np.linspace(-2, 0.5, 32), indexing="ij")
    counts = np.zeros((24, 32), np.int32)
    for i in range(24):
        for j in range(32):
            a = b = 0.0
            for n in range(60):
                a, b = a * a - b * b + x[i, j], 2 * a * b + y[i, j]
                if a * a + b * b > 4:
                    break
                counts[i, j] = n + 1
    return {"counts": counts}


@program("threads of a warp leave a loop at different times: the Mandelbrot set", expect=_mandelbrot)
def mandelbrot():
    kernel = cp.RawKernel(
        r"""
        extern "C" __global__ void k(const double* xs, const double* ys, int* counts) {
            int j = threadIdx.x, i = blockIdx.x * blockDim.y + threadIdx.y;
            double x = xs[j], y = ys[i], a = 0, b = 0;
            int n = 0;
            for (; n < 60; ++n) {
                double t = a * a - b * b + x;
                b = 2 * a * b + y; a = t;
                if (a * a + b * b > 4) break;
            }
            counts[i * 32 + j] = n;
        }""",
        "k",
        options=("--fmad=false",),
    )
    counts = cp.zeros((24, 32), cp.int32)
    x, y = cp.asarray(np.linspace(-2, 0.5, 32)), cp.asarray(np.linspace(-1.25, 1.25, 24))
    kernel((6,), (32, 4), (x, y, counts))
    return {"counts": counts}


@program(
    "several kernels of a module share device functions and launch in turn",
    expect=lambda v: {"out": (np.arange(10) * 2 + 1) ** 2},
)
def several_kernels():
    module = cp.RawModule(
        code=r"""
        __device__ long long apply(long long x, int what) { return what == 0 ? 2 * x + 1 : x * x; }
        extern "C" {
        __global__ void first(long long* x) { x[threadIdx.x] = apply(x[threadIdx.x], 0); }
        __global__ void second(long long* x) { x[threadIdx.x] = apply(x[threadIdx.x], 1); }
        }"""
    )
    x = cp.arange(10, dtype=cp.int64)
    for name in ("first", "second"):
        module.get_function(name)((1,), (10,), (x,))
    return {"out": x}


@program("__launch_bounds__ and the attributes of a kernel that do not depend on the compiler's choices")
def kernel_attributes():
    module = cp.RawModule(
        code=r"""
        __constant__ int numbers[20] = {1};
        extern "C" __global__ void __launch_bounds__(256) bounded(int* out) {
            __shared__ int tile[300];
            tile[threadIdx.x] = numbers[threadIdx.x % 20];
            __syncthreads();
            out[threadIdx.x] = tile[255 - threadIdx.x];
        }
        extern "C" __global__ void plain(int* out) { *out = 1; }"""
    )
    bounded, plain = module.get_function("bounded"), module.get_function("plain")
    out = cp.zeros(512, cp.int32)
    return {
        "max threads": [bounded.max_threads_per_block, plain.max_threads_per_block],
        "shared": [bounded.shared_size_bytes, plain.shared_size_bytes],
        "local": plain.local_size_bytes,
        "dynamic": bounded.max_dynamic_shared_size_bytes,
        "names": [bounded.name, plain.name],
        "keys": sorted(bounded.attributes),
        "too many threads": raised(lambda: bounded((1,), (257,), (out,))),
    }


@program(
    "macros given as options, conditional compilation, and the architecture",
    expect=lambda v: {"out": np.array([6, 1, 900], np.int32)},
)
def options_and_macros():
    kernel = cp.RawKernel(
        r"""
        #if defined(FLAG) && WIDTH > 4
        #define CHOSEN 1
        #else
        #define CHOSEN 2
        #endif
        extern "C" __global__ void k(int* out) { out[0] = WIDTH; out[1] = CHOSEN; out[2] = __CUDA_ARCH__; }""",
        "k",
        options=("-DWIDTH=6", "-DFLAG"),
    )
    out = cp.zeros(3, cp.int32)
    kernel((1,), (1,), (out,))
    return {"out": out}


@program(
    "unrolled and partly unrolled loops, constexpr tables, range-for and structured bindings",
    expect=lambda v: {"out": np.array([sum(i * i for i in range(10)) + n for n in range(8)], np.int32)},
)
def modern_cpp():
    kernel = cp.RawKernel(
        r"""
        struct Table { int v[10]; };
        constexpr __device__ Table squares() { Table t{}; for (int i = 0; i < 10; ++i) t.v[i] = i * i; return t; }
        struct Pair { int a; int b; };
        __device__ Pair split(int n) { return {n / 2, n - n / 2}; }
        extern "C" __global__ void k(int* out, int n) {
            static constexpr Table table = squares();
            int sum = 0;
            #pragma unroll
            for (int i = 0; i < 5; ++i) sum += table.v[i];
            #pragma unroll 2
            for (int i = 5; i < n; ++i) sum += table.v[i];
            int extra[2] = {0, 0};
            auto [a, b] = split(threadIdx.x);
            extra[0] = a; extra[1] = b;
            for (int e : extra) sum += e;
            out[threadIdx.x] = sum;
        }""",
        "k",
        options=("--std=c++17",),
    )
    out = cp.zeros(8, cp.int32)
    kernel((1,), (8,), (out, np.int32(10)))
    return {"out": out}
