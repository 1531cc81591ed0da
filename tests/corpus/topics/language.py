"""C++ on the device: templates, classes, function pointers, recursion, memory spaces, number types."""

from math import comb

from ..kernel import Blank, Global, Launch, f32, f64, i32, i64, kernel, normal, np, u8, u32, u64, whole

kernel(
    "template_operations",
    "A reduction template: the type of the elements and the operation are parameters, partial "
    "specialisation gives the start.",
    r"""
template <typename T> struct Sum { __device__ static T start() { return T(0); } __device__ T operator()(T a,
    T b) const { return a + b; } };
template <typename T> struct Highest;
template <> struct Highest<int> {
    __device__ static int start() { return -2147483647 - 1; }
    __device__ int operator()(int a, int b) const { return a > b ? a : b; }
};
template <typename T, template <typename> class Operation, int BLOCK>
__global__ void __launch_bounds__(BLOCK) fold(const T* in, T* out, int n) {
    __shared__ T part[BLOCK];
    Operation<T> op;
    T mine = Operation<T>::start();
    for (int i = threadIdx.x; i < n; i += BLOCK) mine = op(mine, in[i]);
    part[threadIdx.x] = mine;
    __syncthreads();
    for (int k = BLOCK / 2; k > 0; k /= 2) {
        if (threadIdx.x < k) part[threadIdx.x] = op(part[threadIdx.x], part[threadIdx.x + k]);
        __syncthreads();
    }
    if (threadIdx.x == 0) *out = part[0];
}
""",
    data=lambda rng: {
        "x": rng.integers(-999, 999, 333, dtype=i32),
        "y": whole(rng, -99, 99, 333, dtype=f64),
        "highest": Blank(1, i32),
        "sum": Blank(1, f64),
        "n": i32(333),
    },
    launch=[
        Launch("fold<int, Highest, 64>", 1, 64, "x highest n"),
        Launch("fold<double, Sum, 128>", 1, 128, "y sum n"),
    ],
    expect=lambda d: {"highest": d["x"].max(keepdims=True), "sum": d["y"].sum(keepdims=True)},
    names=("fold<int, Highest, 64>", "fold<double, Sum, 128>"),
    features="templates shared launch_bounds multi_launch",
)

kernel(
    "variadic_fold",
    "A pack of pointers: as many arrays as are given are added, element by element, by a fold expression.",
    r"""
template <typename... Arrays>
__global__ void add_all(long long* out, int n, const Arrays*... arrays) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = (static_cast<long long>(arrays[i]) + ...);  // guard
}
""",
    data=lambda rng: {
        "a": rng.integers(-100, 100, 150, dtype=i32),
        "b": rng.integers(0, 200, 150, dtype=u8),
        "c": rng.integers(-(2**40), 2**40, 150, dtype=i64),
        "out": Blank(150, i64),
        "n": i32(150),
    },
    launch=Launch("add_all<int, unsigned char, long long>", 2, 96, "out n a b c"),
    expect=lambda d: {"out": d["a"] + d["b"].astype(i64) + d["c"]},
    names=("add_all<int, unsigned char, long long>",),
    features="templates",
)

kernel(
    "virtual_shapes",
    "Objects made on the device, called through a base class: virtual functions need objects that "
    "the device constructed.",
    r"""
struct Shape {
    __device__ virtual int area() const = 0;
    __device__ virtual int border() const { return -1; }
};
struct Square : Shape {
    int side;
    __device__ Square(int s) : side(s) {}
    __device__ int area() const override { return side * side; }
    __device__ int border() const override { return 4 * side; }
};
struct Strip : Shape {
    int length, width;
    __device__ Strip(int l, int w) : length(l), width(w) {}
    __device__ int area() const override { return length * width; }
};
__device__ int measure(const Shape& s) { return s.area() * 1000 + s.border(); }
extern "C" __global__ void measure_all(const int* kinds, const int* sizes, int* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;  // guard
    Square square(sizes[i]);
    Strip strip(sizes[i], 3);
    const Shape* shape = kinds[i] ? static_cast<const Shape*>(&square) : &strip;
    out[i] = measure(*shape);
}
""",
    data=lambda rng: {
        "kinds": rng.integers(0, 2, 100, dtype=i32),
        "sizes": rng.integers(1, 40, 100, dtype=i32),
        "out": Blank(100, i32),
        "n": i32(100),
    },
    launch=Launch("measure_all", 2, 64, "kinds sizes out n"),
    expect=lambda d: {
        "out": np.where(d["kinds"] == 1, d["sizes"] ** 2 * 1000 + 4 * d["sizes"], d["sizes"] * 3000 - 1).astype(i32)
    },
    features="virtual_functions",
)

kernel(
    "function_pointer_table",
    "A table of functions in device memory; each element chooses its own.",
    r"""
typedef double (*Function)(double);
__device__ double half_of(double x) { return 0.5 * x; }
__device__ double square_of(double x) { return x * x; }
__device__ double opposite(double x) { return -x; }
__device__ double root_of(double x) { return sqrt(fabs(x)); }
__device__ Function choose(int k) {
    const Function table[4] = {half_of, square_of, opposite, root_of};
    return table[k & 3];
}
extern "C" __global__ void apply(const int* which, double* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] = choose(which[i])(x[i]);  // guard
}
""",
    data=lambda rng: {"which": rng.integers(0, 4, 90, dtype=i32), "x": rng.standard_normal(90), "n": i32(90)},
    launch=Launch("apply", 3, 32, "which x n"),
    expect=lambda d: {"x": np.choose(d["which"], [d["x"] / 2, d["x"] ** 2, -d["x"], np.sqrt(abs(d["x"]))])},
    features="function_pointers",
)

kernel(
    "lambda_transform",
    "A device lambda goes to a template function that applies it along a grid-stride loop; captures are by value.",
    r"""
template <typename F>
__device__ void for_each(int n, F f) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) f(i);
}
extern "C" __global__ void with_lambdas(int* a, const int* b, int offset, int n) {
    auto shifted = [=](int i) { return b[i] + offset; };
    for_each(n, [=](int i) { a[i] = shifted(i) * shifted(n - 1 - i); });
}
""",
    data=lambda rng: {
        "a": Blank(250, i32),
        "b": rng.integers(-99, 99, 250, dtype=i32),
        "offset": i32(7),
        "n": i32(250),
    },
    launch=Launch("with_lambdas", 2, 64, "a b offset n"),
    expect=lambda d: {"a": (d["b"] + 7) * (d["b"][::-1] + 7)},
    features="lambdas templates",
)

kernel(
    "recursion_queens",
    "A recursive search: solutions of the queens' problem, a thread a first row; the stack is local memory.",
    r"""
__device__ int place(int n, int row, unsigned columns, unsigned left, unsigned right) {
    if (row == n) return 1;
    int found = 0;
    for (unsigned open = ~(columns | left | right) & ((1u << n) - 1); open; open &= open - 1) {
        unsigned bit = open & -open;
        found += place(n, row + 1, columns | bit, (left | bit) << 1, (right | bit) >> 1);
    }
    return found;
}
extern "C" __global__ void queens(int* solutions, int n) {
    int first = threadIdx.x;
    if (first >= n) return;  // guard
    unsigned bit = 1u << first;
    solutions[first] = place(n, 1, bit, bit << 1, bit >> 1);
}
""",
    data=lambda rng: {"solutions": Blank(7, i32), "n": i32(7)},
    launch=Launch("queens", 1, 32, "solutions n"),
    expect=lambda d: {"solutions": queens(7)},
    features="recursion",
)


def queens(n):
    from itertools import permutations

    counts = np.zeros(n, i32)
    for p in permutations(range(n)):
        if len({p[k] + k for k in range(n)}) == n == len({p[k] - k for k in range(n)}):
            counts[p[0]] += 1
    return counts


kernel(
    "device_global_state",
    "Variables that live as long as the module: one launch leaves them, the next finds them; a "
    "pointer to one is passed on.",
    r"""
__device__ int table[40];
__device__ int filled = 0;
namespace storage {
__device__ int* cell(int k) { return &table[k % 40]; }
}
extern "C" __global__ void fill_table(int step) {
    if (threadIdx.x < 40) *storage::cell(threadIdx.x) = threadIdx.x * step;  // guard
    if (threadIdx.x % 32 == 0) atomicAdd(&filled, 1);
}
extern "C" __global__ void read_table(int* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = *storage::cell(i) + filled;  // guard
}
""",
    data=lambda rng: {
        "out": Blank(100, i32),
        "table": Global(np.zeros(40, i32)),
        "filled": Global(i32([5])),
        "n": i32(100),
    },
    launch=[Launch("fill_table", 1, 64, (i32(11),)), Launch("read_table", 2, 64, "out n")],
    expect=lambda d: {
        "out": (np.arange(100) % 40 * 11 + 7).astype(i32),
        "table": np.arange(40, dtype=i32) * 11,
        "filled": i32([7]),
    },
    features="device_globals multi_launch",
)

kernel(
    "union_and_bit_fields",
    "The bits of a float by a union, packed fields in a word: sign, exponent and mantissa are taken apart.",
    r"""
union Bits {
    float value;
    struct { unsigned mantissa : 23, exponent : 8, sign : 1; } part;
};
struct Packed { unsigned short kind : 3, level : 9, flags : 4; };
extern "C" __global__ void take_apart(const float* in, int* exponent, unsigned* mantissa, Packed* packed, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;  // guard
    Bits b;
    b.value = in[i];
    exponent[i] = (int)b.part.exponent - 127;
    mantissa[i] = b.part.mantissa;
    Packed p;
    p.kind = i;
    p.level = b.part.exponent * 2;
    p.flags = b.part.sign ? 9 : 6;
    packed[i] = p;
}
""",
    data=lambda rng: {
        "in": normal(rng, 100) * f32(1000),
        "exponent": Blank(100, i32),
        "mantissa": Blank(100, u32),
        "packed": Blank(100, np.uint16),
        "n": i32(100),
    },
    launch=Launch("take_apart", 2, 64, "in exponent mantissa packed n"),
    expect=lambda d: taken_apart(d["in"].view(u32)),
    features="unions bit_fields structs",
)


def taken_apart(bits):
    exponent = bits >> 23 & 255
    packed = np.arange(100) % 8 | (exponent * 2 % 512) << 3 | np.where(bits >> 31, 9, 6) << 12
    return {
        "exponent": exponent.astype(i32) - 127,
        "mantissa": bits & u32(2**23 - 1),
        "packed": packed.astype(np.uint16),
    }


kernel(
    "printf_from_threads",
    "Printing from the device: lines of different threads come in no order that is promised.",
    r"""
extern "C" __global__ void report(const int* values, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && values[i] > 90)  // guard
        printf("block %d thread %d: value %d is %.2f%% of %s\n", blockIdx.x, threadIdx.x, values[i],
            values[i] / 2.0, "200");
}
""",
    data=lambda rng: {"values": rng.integers(0, 100, 150, dtype=i32), "n": i32(150)},
    launch=Launch("report", 3, 64, "values n"),
    expect=lambda d: {},
    prints=lambda d: "\n".join(
        sorted(
            f"block {i // 64} thread {i % 64}: value {v} is {v / 2:.2f}% of 200"
            for i, v in enumerate(d["values"])
            if v > 90
        )
    ),
    features="printf",
)

kernel(
    "assert_that_holds",
    "Assertions say what a kernel relies on; these hold.",
    r"""
#include <cassert>
extern "C" __global__ void checked_divide(const int* a, const int* b, int* quotient, int* remainder, int n) {
    assert(blockDim.y == 1 && blockDim.x % warpSize == 0);
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;  // guard
    assert(b[i] != 0);
    quotient[i] = a[i] / b[i];
    remainder[i] = a[i] % b[i];
    assert(quotient[i] * b[i] + remainder[i] == a[i]);
}
""".replace("#include <cassert>\n", ""),
    data=lambda rng: {
        "a": rng.integers(-(10**6), 10**6, 130, dtype=i32),
        "b": rng.integers(1, 99, 130, dtype=i32) * rng.choice([-1, 1], 130).astype(i32),
        "quotient": Blank(130, i32),
        "remainder": Blank(130, i32),
        "n": i32(130),
    },
    launch=Launch("checked_divide", 2, 96, "a b quotient remainder n"),
    expect=lambda d: {
        "quotient": np.trunc(d["a"] / d["b"]).astype(i32),
        "remainder": np.fmod(d["a"], d["b"]),
    },
    features="assert",
)

kernel(
    "constexpr_table",
    "A table the compiler computes: constexpr functions fill constant memory before the program starts.",
    r"""
struct Table { unsigned long long value[21]; };
constexpr Table factorials() {
    Table t{};
    t.value[0] = 1;
    for (int k = 1; k <= 20; k++) t.value[k] = t.value[k - 1] * k;
    return t;
}
__constant__ Table factorial = factorials();
static_assert(factorials().value[5] == 120, "five factorial");
extern "C" __global__ void binomials(const int* n, const int* k, unsigned long long* out, int count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count)  // guard
        out[i] = k[i] > n[i] ? 0 : factorial.value[n[i]] / factorial.value[k[i]] / factorial.value[n[i] - k[i]];
}
""",
    data=lambda rng: {
        "n": rng.integers(0, 21, 200, dtype=i32),
        "k": rng.integers(0, 21, 200, dtype=i32),
        "out": Blank(200, u64),
        "count": i32(200),
    },
    launch=Launch("binomials", 2, 128, "n k out count"),
    expect=lambda d: {
        "out": np.array([comb(n, k) for n, k in zip(d["n"].tolist(), d["k"].tolist(), strict=True)], u64)
    },
    features="constexpr constant",
)

kernel(
    "goto_state_machine",
    "A parser with goto and a fall-through switch: irregular control flow that must not confuse the warp.",
    r"""
extern "C" __global__ void strip_comments(const char* in, char* out, int* lengths, int width, int rows) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;  // guard
    const char* p = in + row * width;
    const char* end = p + width;
    char* to = out + row * width;
code:
    if (p == end) goto done;
    switch (*p) {
        case '#': ++p; goto comment;
        case '\t': *to++ = ' ';
        case ' ': *to++ = ' '; break;
        default: *to++ = *p;
    }
    ++p;
    goto code;
comment:
    if (p == end) goto done;
    if (*p++ == '\n') goto code;
    goto comment;
done:
    lengths[row] = (int)(to - (out + row * width));
}
""",
    data=lambda rng: {
        "in": rng.choice(np.frombuffer(b"ab #\n ", np.int8), (45, 30)),
        "out": np.zeros((45, 30), np.int8),
        "lengths": Blank(45, i32),
        "width": i32(30),
        "rows": i32(45),
    },
    launch=Launch("strip_comments", 2, 32, "in out lengths width rows"),
    expect=lambda d: stripped(d["in"]),
    features="goto switch",
)


def stripped(rows):
    import re

    texts = [re.sub(rb"#[^\n]*(\n|$)", b"", r.tobytes()) for r in rows]
    return {
        "out": np.array([np.frombuffer(t.ljust(30, b"\0"), np.int8) for t in texts]),
        "lengths": i32([len(t) for t in texts]),
    }
