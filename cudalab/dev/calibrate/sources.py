"""Kernels that each ask for one resource of the device and little else.

Operations stand in inline PTX, sixteen dependent ones in a row, so that no compiler turns them into something else and
the loop around them hardly counts. Every kernel writes something that depends on its work, or it would be removed.
"""

OPERATIONS: dict[str, tuple[str, tuple[str, ...]]] = {
    "fma_f32": ("float", ("fma.rn.f32 X, X, P, Q",)),
    "add_f32": ("float", ("add.rn.f32 X, X, P",)),
    "fma_f64": ("double", ("fma.rn.f64 X, X, P, Q",)),
    "mad_s32": ("int", ("mad.lo.s32 X, X, P, Q",)),
    "mix_s32": ("int", ("xor.b32 T, X, P", "add.s32 X, T, Q")),
    "shift_s32": ("int", ("shl.b32 T, X, 3", "xor.b32 X, T, P")),
    "popc_s32": ("int", ("popc.b32 T, X", "add.s32 X, T, P")),
    "mix_s64": ("long long", ("xor.b64 T, X, P", "add.s64 X, T, Q")),
    "mad_s64": ("long long", ("mad.lo.s64 X, X, P, Q",)),
    "exp2_f32": ("float", ("ex2.approx.ftz.f32 X, X",)),
    "sqrt_f32": ("float", ("sqrt.rn.f32 X, X",)),
    "div_f32": ("float", ("div.rn.f32 X, P, X",)),
    "div_s32": ("int", ("div.s32 T, P, X", "or.b32 X, T, 1")),
    "div_u32": ("unsigned", ("div.u32 T, P, X", "or.b32 X, T, 1")),
    "div_f64": ("double", ("div.rn.f64 X, P, X",)),
    "sqrt_f64": ("double", ("sqrt.rn.f64 X, X",)),
    "convert": ("float", ("cvt.rzi.s32.f32 I, X", "cvt.rn.f32.s32 X, I")),
    "convert_f64": ("double", ("cvt.rn.f32.f64 F, X", "cvt.f64.f32 X, F")),
    "shuffle": ("int", ("shfl.sync.bfly.b32 X, X, 1, 31, -1",)),
}
"""Type, and PTX of one operation on X with P and Q; T, I and F are a register of that type, an int and a float."""

_OPERATION = """
__global__ void op_{name}({type} *out, int rounds, {type} p, {type} q) {{
    {type} x = ({type})(threadIdx.x + 3), t; int whole; float single;
    for (int i = 0; i < rounds; i++) {{
{body}
    }}
    out[blockIdx.x * blockDim.x + threadIdx.x] = x;
}}
"""

_REST = r"""
__global__ void empty() {}
__global__ void numbers(int a, int b, int c, int d) {}
__global__ void store1(float *y) { y[blockIdx.x * blockDim.x + threadIdx.x] = 1; }
__global__ void copy1(const float *x, float *y, long long n) {
    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; if (i < n) y[i] = x[i]; }
__global__ void copy2(const float2 *x, float2 *y, long long n) {
    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; if (i < n) y[i] = x[i]; }
__global__ void copy4(const float4 *x, float4 *y, long long n) {
    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; if (i < n) y[i] = x[i]; }
__global__ void loop1(const float *x, float *y, long long n) {
    for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < n; i += gridDim.x * (long long)blockDim.x)
        y[i] = x[i]; }
__global__ void loop4(const float4 *x, float4 *y, long long n) {
    for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < n; i += gridDim.x * (long long)blockDim.x)
        y[i] = x[i]; }
__global__ void read1(const float *x, float *y, long long n) {
    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i < n) { float v = x[i]; if (v == 12345.f) y[0] = v; } }
__global__ void read4(const float4 *x, float *y, long long n) {
    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i < n) { float4 v = x[i]; if (v.x + v.y + v.z + v.w == 12345.f) y[0] = v.x; } }
__global__ void sweep4(const float4 *x, float *y, long long n) {
    float sum = 0; long long step = gridDim.x * (long long)blockDim.x;
    for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < n; i += step) {
        float4 v = x[i]; sum += v.x + v.y + v.z + v.w; }
    if (sum == 12345.f) y[0] = sum; }
__global__ void sweep1(const float *x, float *y, long long n) {
    float sum = 0;
    for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < n; i += gridDim.x * (long long)blockDim.x)
        sum += x[i];
    if (sum == 12345.f) y[0] = sum; }
__global__ void write1(const float *x, float *y, long long n) {
    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; if (i < n) y[i] = 1.f; }
__global__ void write4(const float *x, float4 *y, long long n) {
    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; if (i < n) y[i] = make_float4(1, 2, 3, 4); }
__global__ void apart_read(const float *x, float *y, long long n, int stride) {
    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i < n) { float v = x[i * stride]; if (v == 12345.f) y[0] = v; } }
__global__ void apart_write(float *x, long long n, int stride) {
    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; if (i < n) x[i * stride] = 1.f; }
__global__ void hashed_read(const float *x, float *y, int n, unsigned mask) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) { float v = x[(i * 2654435761u >> 3 ^ i * 40503u) & mask]; if (v == 12345.f) y[0] = v; } }
__global__ void hashed_write(float *y, int n, unsigned mask) {
    int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) y[(i * 2654435761u >> 3 ^ i * 40503u) & mask] = 1.f; }
__global__ void columns(float *y, int n) {  // a tile of 32 x 32 words, written down its columns
    int tiles = n / 32, i0 = blockIdx.x % tiles * 32, j0 = blockIdx.x / tiles * 32;
    for (int r = threadIdx.x / 32; r < 32; r += blockDim.x / 32) y[(i0 + (threadIdx.x & 31)) * n + j0 + r] = 1.f; }
__global__ void chain(const int *x, int *y, int steps, int step, int mask) {
    int j = 0; for (int i = 0; i < steps; i++) j = (x[j] + j + step) & mask; y[0] = j; }
__global__ void chain_all(const int *x, int *y, int lines) {  // every line, in an order that hides none
    int k = 0; for (int i = 0; i < lines; i++) { k += 40507 + x[k * 32]; if (k >= lines) k -= lines; } y[0] = k; }
__global__ void near(const float *x, float *y, int rounds, int stride, int window) {
    // loads that hit the L1: `window` floats for all blocks of an SM
    float sum = 0; int j = threadIdx.x * stride & window - 1;
    for (int i = 0; i < rounds; i++) {
#pragma unroll
        for (int q = 0; q < 8; q++) sum += x[j + q * 32 & window - 1];
        j = j + 64 & window - 1; }
    y[blockIdx.x * blockDim.x + threadIdx.x] = sum; }
__global__ void near4(const float4 *x, float *y, int rounds, int window) {
    float sum = 0; int j = threadIdx.x & window - 1;
    for (int i = 0; i < rounds; i++) {
#pragma unroll
        for (int q = 0; q < 8; q++) { float4 v = x[j + q * 32 & window - 1]; sum += v.x + v.y + v.z + v.w; }
        j = j + 64 & window - 1; }
    y[blockIdx.x * blockDim.x + threadIdx.x] = sum; }
__global__ void same(const float *x, float *y, int rounds, int window) {  // one address for a warp
    float sum = 0; int j = 0;
    for (int i = 0; i < rounds; i++) {
#pragma unroll
        for (int q = 0; q < 8; q++) sum += x[j + q * 32 & window - 1];
        j = j + 1 & window - 1; }
    y[blockIdx.x * blockDim.x + threadIdx.x] = sum; }
__global__ void shared_read(float *y, int rounds, int stride) {
    __shared__ float t[2048];
    for (int k = threadIdx.x; k < 2048; k += blockDim.x) t[k] = k;
    __syncthreads();
    float sum = 0; int j = threadIdx.x * stride & 2047;
    for (int i = 0; i < rounds; i++) sum += ((volatile float *)t)[j];
    y[blockIdx.x * blockDim.x + threadIdx.x] = sum; }
__global__ void shared_write(float *y, int rounds, int stride) {
    __shared__ float t[2048];
    int j = threadIdx.x * stride & 2047;
    for (int i = 0; i < rounds; i++) ((volatile float *)t)[j] = i;
    __syncthreads();
    y[blockIdx.x * blockDim.x + threadIdx.x] = t[j]; }
__global__ void shared_chain(int *y, int rounds, int step) {
    __shared__ int t[1024];
    for (int k = threadIdx.x; k < 1024; k += blockDim.x) t[k] = 0;
    __syncthreads();
    int j = threadIdx.x & 1023;
    for (int i = 0; i < rounds; i++) j = (t[j] + j + step) & 1023;
    y[blockIdx.x * blockDim.x + threadIdx.x] = j; }
__global__ void barrier(float *y, int rounds) { for (int i = 0; i < rounds; i++) __syncthreads(); y[0] = 1; }
__global__ void pile(unsigned *x, int spread, unsigned value) {
    atomicAdd(&x[(blockIdx.x * blockDim.x + threadIdx.x) % spread], value); }
__global__ void pile_float(float *x, int spread) {
    atomicAdd(&x[(blockIdx.x * blockDim.x + threadIdx.x) % spread], 1.5f); }
__global__ void fetch(unsigned *x, unsigned *y, int rounds) {  // each waits for the one before
    unsigned v = 0; for (int i = 0; i < rounds; i++) v = atomicAdd(&x[v & 31], 1u) & 1; y[threadIdx.x] = v; }
__global__ void shared_pile(unsigned *y, int rounds, int spread, unsigned value) {
    __shared__ unsigned t[1024];
    for (int k = threadIdx.x; k < 1024; k += blockDim.x) t[k] = 0;
    __syncthreads();
    for (int i = 0; i < rounds; i++) atomicAdd(&t[(threadIdx.x + i) % spread], value);
    __syncthreads();
    y[blockIdx.x * blockDim.x + threadIdx.x] = t[threadIdx.x & 1023]; }
__global__ void shared_pile_float(float *y, int rounds, int spread) {
    __shared__ float t[1024];
    for (int k = threadIdx.x; k < 1024; k += blockDim.x) t[k] = 0;
    __syncthreads();
    for (int i = 0; i < rounds; i++) atomicAdd(&t[(threadIdx.x + i) % spread], 1.5f);
    __syncthreads();
    y[blockIdx.x * blockDim.x + threadIdx.x] = t[threadIdx.x & 1023]; }
__constant__ float table[4096];
__global__ void constants(float *y, int rounds, int spread) {
    float sum = 0; int j = (threadIdx.x & 31) % spread;
    for (int i = 0; i < rounds; i++) { sum += table[j & 4095]; j += 3; }
    y[blockIdx.x * blockDim.x + threadIdx.x] = sum; }
__global__ void branching(float *y, int rounds, int ways) {  // short ways: what parting and meeting costs
    float x = threadIdx.x; int way = (threadIdx.x & 31) % ways;
    for (int i = 0; i < rounds; i++) {
        if (way == 0) asm volatile("fma.rn.f32 %0, %0, %0, %0;" : "+f"(x));
        else if (way == 1) asm volatile("fma.rn.f32 %0, %0, %0, 0f3F800000;" : "+f"(x));
        else if (way == 2) asm volatile("fma.rn.f32 %0, %0, %0, 0f40000000;" : "+f"(x));
        else asm volatile("fma.rn.f32 %0, %0, %0, 0f40400000;" : "+f"(x)); }
    y[blockIdx.x * blockDim.x + threadIdx.x] = x; }
__global__ void plain_loop(float *y, int rounds) {  // as a learner writes it: the compilers unroll it
    float x = threadIdx.x; for (int i = 0; i < rounds; i++) x = x * 1.0001f + 0.5f;
    y[blockIdx.x * blockDim.x + threadIdx.x] = x; }
__global__ void plain_int_loop(int *y, int rounds) {
    int x = threadIdx.x; for (int i = 0; i < rounds; i++) x = (x * 3) ^ i;
    y[blockIdx.x * blockDim.x + threadIdx.x] = x; }
__global__ void add_one(const float *a, const float *b, float *c, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) c[i] = a[i] + b[i]; }
__global__ void spin(unsigned long long nanoseconds) {
    unsigned long long start, now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
    do { asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now)); } while (now - start < nanoseconds); }
"""


_LETTERS = {"float": "f", "double": "d", "int": "r", "unsigned": "r", "long long": "l"}


def _operation(name: str) -> str:
    kind, statements = OPERATIONS[name]
    letters = {"X": _LETTERS[kind], "P": _LETTERS[kind], "Q": _LETTERS[kind], "T": _LETTERS[kind], "I": "r", "F": "f"}
    line = "".join(_statement(text, letters) for text in statements)
    return _OPERATION.format(name=name, type=kind, body="\n".join([line] * 16))


def _variable(name: str) -> str:
    return {"I": "whole", "F": "single"}.get(name, name.lower())


def _statement(text: str, letters: dict[str, str]) -> str:
    """One instruction as inline PTX: the register that it writes, then those that it reads."""
    opcode, _, rest = text.partition(" ")
    target, *operands = rest.split(", ")
    inputs = [name for name in operands if name in letters]
    places = {name: f"%{index + 1}" for index, name in enumerate(inputs)}
    written = ", ".join(["%0", *(places.get(name, name) for name in operands)])
    given = ", ".join(f'"{letters[name]}"({_variable(name)})' for name in inputs)
    return f'        asm volatile("{opcode} {written};" : "={letters[target]}"({_variable(target)}) : {given});'


def source() -> str:
    """All kernels, as one module of CUDA C++."""
    return 'extern "C" {\n' + "".join(map(_operation, OPERATIONS)) + _REST + "}\n"
