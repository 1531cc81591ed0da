// Kernels that decide what a conditional node does.
extern "C" __device__ __cudart_builtin__ void CUDARTAPI
cudaGraphSetConditional(cudaGraphConditionalHandle handle, unsigned int value);

extern "C" __global__ void count(cudaGraphConditionalHandle handle, int *counter, int limit) {
    if (threadIdx.x == 0) {
        *counter += 1;
        cudaGraphSetConditional(handle, *counter < limit);
    }
}
