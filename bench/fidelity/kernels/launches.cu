extern "C" {
__global__ void empty() {}
__global__ void one(int a) {}
__global__ void four(const float *a, const float *b, float *c, int n) {}
__global__ void eight(const float *a, const float *b, float *c, int n, int m, int k, float x, float y) {}
// One warp's chain of dependent multiply-adds: about 4 cycles each, on as many SMs as there are blocks.
__global__ void busy(float *out, int rounds) {
    float x = threadIdx.x;
    for (int i = 0; i < rounds; i++) x = x * 1.0001f + 0.5f;
    out[blockIdx.x * blockDim.x + threadIdx.x] = x;
}
__global__ void spin(long long cycles) {
    long long start = clock64();
    while (clock64() - start < cycles) { }
}
__global__ void increment(float *x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] += 1.0f;
}
}
