// Each thread has waited for its own copy only.
// launch: grid=1 block=64
#include <cuda_pipeline.h>

extern "C" __global__ void k(const float* x, float* y, int* state, int n)
{
    const int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    __shared__ __align__(16) float s[64];
    __pipeline_memcpy_async(&s[t], &x[i], 4);  // expect: RACE
    __pipeline_commit();
    __pipeline_wait_prior(0);
    y[i] = s[63 - t];  // expect: RACE
}
