// cp.async in three stages: wait, barrier, use.
// launch: grid=2 block=64
#include <cuda_pipeline.h>

extern "C" __global__ void k(const float* x, float* y, int* state, int n)
{
    const int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    __shared__ __align__(16) float s[3][64];
    for (int k = 0; k < 2; ++k) {
        __pipeline_memcpy_async(&s[k][t], &x[(i + k * 64) % n], 4);
        __pipeline_commit();
    }
    float sum = 0;
    for (int k = 0; k < 6; ++k) {
        __pipeline_wait_prior(1);
        __syncthreads();
        sum += s[k % 3][63 - t];
        if (k < 4) __pipeline_memcpy_async(&s[(k + 2) % 3][t], &x[(i + (k + 2) * 64) % n], 4);
        __pipeline_commit();
    }
    y[i] = sum;
}
