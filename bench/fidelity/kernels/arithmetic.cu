extern "C" {
#define LOOP(T, BODY) \
    T x = (T)(threadIdx.x + 1); \
    for (int i = 0; i < rounds; i++) { BODY; } \
    out[blockIdx.x * blockDim.x + threadIdx.x] = x;
__global__ void fma_float(float *out, int rounds) { LOOP(float, x = x * 1.0001f + 0.5f) }
__global__ void fma_double(double *out, int rounds) { LOOP(double, x = x * 1.0001 + 0.5) }
__global__ void mad_int(int *out, int rounds) { LOOP(int, x = x * 7 + i) }
__global__ void xor_int(int *out, int rounds) { LOOP(int, x = (x ^ i) + 3) }
__global__ void mad_long(long long *out, int rounds) { LOOP(long long, x = x * 7 + i) }
__global__ void divide_int(int *out, int rounds) { LOOP(int, x = 1000000007 / (x | 1) + i) }
__global__ void divide_float(float *out, int rounds) { LOOP(float, x = 1.5f / x + 0.5f) }
__global__ void sqrt_float(float *out, int rounds) { LOOP(float, x = sqrtf(x) + 0.5f) }
__global__ void fast_sin(float *out, int rounds) { LOOP(float, x = __sinf(x) + 0.5f) }
__global__ void full_sin(float *out, int rounds) { LOOP(float, x = sinf(x) + 0.5f) }
__global__ void full_exp(float *out, int rounds) { LOOP(float, x = expf(-x)) }
__global__ void divide_double(double *out, int rounds) { LOOP(double, x = 1.5 / x + 0.5) }
__global__ void chains1(float *out, int rounds) {
    float a = threadIdx.x;
    for (int i = 0; i < rounds; i++) { a = a * 1.0001f + 0.5f; }
    out[blockIdx.x * blockDim.x + threadIdx.x] = a;
}
__global__ void chains2(float *out, int rounds) {
    float a = threadIdx.x, b = a + 1;
    for (int i = 0; i < rounds / 2; i++) { a = a * 1.0001f + 0.5f; b = b * 1.0001f + 0.5f; }
    out[blockIdx.x * blockDim.x + threadIdx.x] = a + b;
}
__global__ void chains4(float *out, int rounds) {
    float a = threadIdx.x, b = a + 1, c = a + 2, d = a + 3;
    for (int i = 0; i < rounds / 4; i++) {
        a = a * 1.0001f + 0.5f; b = b * 1.0001f + 0.5f; c = c * 1.0001f + 0.5f; d = d * 1.0001f + 0.5f;
    }
    out[blockIdx.x * blockDim.x + threadIdx.x] = a + b + c + d;
}
__global__ void diverge(float *out, int rounds, int ways) {
    int way = (threadIdx.x & 31) % ways;
    float x = threadIdx.x;
    for (int w = 0; w < ways; w++)
        if (way == w) for (int i = 0; i < rounds; i++) x = x * (1.0f + w) + 0.5f;
    out[blockIdx.x * blockDim.x + threadIdx.x] = x;
}
__global__ void branch_lane(float *out, int rounds) {
    float x = threadIdx.x;
    if (threadIdx.x & 1) { for (int i = 0; i < rounds; i++) x = x * 1.0001f + 0.5f; }
    else { for (int i = 0; i < rounds; i++) x = x * 0.9999f - 0.5f; }
    out[blockIdx.x * blockDim.x + threadIdx.x] = x;
}
__global__ void branch_warp(float *out, int rounds) {
    float x = threadIdx.x;
    if (threadIdx.x / 32 & 1) { for (int i = 0; i < rounds; i++) x = x * 1.0001f + 0.5f; }
    else { for (int i = 0; i < rounds; i++) x = x * 0.9999f - 0.5f; }
    out[blockIdx.x * blockDim.x + threadIdx.x] = x;
}
__global__ void branch_data(const int *flags, float *out, int rounds) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float x = threadIdx.x;
    if (flags[i]) for (int k = 0; k < rounds; k++) x = x * 1.0001f + 0.5f;
    out[i] = x;
}
__global__ void uneven(float *out, int rounds) {
    float x = threadIdx.x;
    int mine = rounds * (threadIdx.x & 31) / 31;
    for (int i = 0; i < mine; i++) x = x * 1.0001f + 0.5f;
    out[blockIdx.x * blockDim.x + threadIdx.x] = x;
}
__global__ void banks(float *out, int rounds, int stride) {
    __shared__ float t[4096];
    for (int k = threadIdx.x; k < 4096; k += blockDim.x) t[k] = 0;
    __syncthreads();
    float sum = 0;
    int j = threadIdx.x * stride & 4095;
    for (int i = 0; i < rounds; i++) { sum += t[j]; j = (j + 32 + (int)sum) & 4095; }
    out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
__global__ void bank_stores(float *out, int rounds, int stride) {
    __shared__ float t[4096];
    int j = threadIdx.x * stride & 4095;
    for (int i = 0; i < rounds; i++) { ((volatile float *)t)[j] = i; }
    __syncthreads();
    out[blockIdx.x * blockDim.x + threadIdx.x] = t[j];
}
__global__ void shared_wide1(float *out, int rounds) {
    __shared__ float t[8192];
    for (int k = threadIdx.x; k < 8192; k += blockDim.x) t[k] = 1;
    __syncthreads();
    float sum = 0;
    for (int i = 0; i < rounds; i++) for (int q = 0; q < 4; q++) sum += ((volatile float *)t)[(threadIdx.x + 256 * q + i) & 8191];
    out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
__global__ void shared_wide4(float *out, int rounds) {
    __shared__ float4 t[2048];
    for (int k = threadIdx.x; k < 2048; k += blockDim.x) t[k] = make_float4(1, 1, 1, 1);
    __syncthreads();
    float sum = 0;
    for (int i = 0; i < rounds; i++) {
        float4 v = t[(threadIdx.x + i) & 2047];
        sum += v.x + v.y + v.z + v.w;
    }
    out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
__global__ void barriers(float *out, int rounds) {
    for (int i = 0; i < rounds; i++) __syncthreads();
    out[blockIdx.x * blockDim.x + threadIdx.x] = 1;
}
__global__ void shuffles(float *out, int rounds) {
    float x = threadIdx.x;
    for (int i = 0; i < rounds; i++) x += __shfl_xor_sync(0xffffffffu, x, 1 + (i & 15));
    out[blockIdx.x * blockDim.x + threadIdx.x] = x;
}
__global__ void polynomial_float(const float *x, float *y, int n, int degree) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float v = x[i], p = 1;
    for (int k = 0; k < degree; k++) p = p * v + 0.5f;
    y[i] = p;
}
__global__ void polynomial_double(const double *x, double *y, int n, int degree) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    double v = x[i], p = 1;
    for (int k = 0; k < degree; k++) p = p * v + 0.5;
    y[i] = p;
}
__global__ void mandelbrot(int *out, int width, int height, float x0, float y0, float step, int limit) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, j = blockIdx.y * blockDim.y + threadIdx.y;
    if (i >= width || j >= height) return;
    float cx = x0 + i * step, cy = y0 + j * step, x = 0, y = 0;
    int k = 0;
    for (; k < limit && x * x + y * y < 4.0f; k++) { float t = x * x - y * y + cx; y = 2 * x * y + cy; x = t; }
    out[j * width + i] = k;
}
}
