// One warp copies for all, 72 copies to a tile, and waits for the first tile only.
// launch: grid=1 block=64
#include <cuda_pipeline.h>

extern "C" __global__ void k(const float* x, float* y, int* state, int n)
{
    __shared__ float tile[2][72][32];
    const int t = threadIdx.x;
    if (t < 32) {
        for (int k = 0; k < 2; ++k) {
            for (int row = 0; row < 72; ++row) {
                __pipeline_memcpy_async(&tile[k][row][t], &x[(row + t) % 128], 4);  // expect: RACE
            }
            __pipeline_commit();
        }
        __pipeline_wait_prior(1);
    }
    __syncthreads();
    float sum = tile[0][71][31 - t % 32];
    sum += tile[1][71][31 - t % 32];  // expect: RACE
    y[t] = sum;
    if (t < 32) __pipeline_wait_prior(0);
}
