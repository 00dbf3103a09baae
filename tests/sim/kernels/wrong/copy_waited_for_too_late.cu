// One stage too many may still be on its way.
// launch: grid=1 block=64
#include <cuda_pipeline.h>

extern "C" __global__ void k(const float* x, float* y, int* state, int n)
{
    const int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    __shared__ __align__(16) float s[2][64];
    for (int k = 0; k < 2; ++k) {
        __pipeline_memcpy_async(&s[k][t], &x[i + k * 64], 4);  // expect: RACE
        __pipeline_commit();
    }
    __pipeline_wait_prior(1);
    __syncthreads();
    y[i] = s[1][63 - t];  // expect: RACE
    __pipeline_wait_prior(0);
}
