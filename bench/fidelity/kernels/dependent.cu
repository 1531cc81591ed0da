// Kernels of programmatic dependent launch: trigger, a preamble that needs nothing from before, the wait.
#define TRIGGER() asm volatile("griddepcontrol.launch_dependents;" ::: "memory")
#define WAIT() asm volatile("griddepcontrol.wait;" ::: "memory")

extern "C" {
__global__ void nothing() {}
__global__ void passes() { TRIGGER(); WAIT(); }
__device__ float chain(float x, int rounds) {
    for (int i = 0; i < rounds; i++) x = x * 1.0001f + 0.5f;
    return x;
}
__global__ void halves(float *out, int rounds) {  // only the second half needs the kernel before
    TRIGGER();
    float x = chain(threadIdx.x, rounds);
    WAIT();
    out[blockIdx.x * blockDim.x + threadIdx.x] += chain(x, rounds);
}
__global__ void saxpy(float a, const float *x, float *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] += a * x[i];
}
__global__ void saxpy_waits(float a, const float *x, float *y, int n) {
    TRIGGER();
    WAIT();
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] += a * x[i];
}
}
