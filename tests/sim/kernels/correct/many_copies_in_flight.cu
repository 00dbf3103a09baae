// One warp copies for all: 672 copies before it waits, more than the simulator keeps apart.
// launch: grid=2 block=64
#include <cuda_pipeline.h>

extern "C" __global__ void k(const float* x, float* y, int* state, int n)
{
    constexpr int WIDE = 72, NARROW = 600;
    __shared__ float4 wide[WIDE][32];
    __shared__ float narrow[NARROW];
    const int t = threadIdx.x;
    if (t < 32) {
        const float4* quads = reinterpret_cast<const float4*>(x);
        for (int k = 0; k < WIDE; ++k) __pipeline_memcpy_async(&wide[k][t], &quads[(k + t) % 128], 16);
        for (int k = 0; k < NARROW; ++k) {
            if (t == k % 32) __pipeline_memcpy_async(&narrow[k], &x[k % 512], 4);
        }
        __pipeline_commit();
        __pipeline_wait_prior(0);
    }
    __syncthreads();
    float sum = narrow[t] + narrow[NARROW - 1 - t];
    for (int k = 0; k < WIDE; ++k) sum += wide[k][31 - t % 32].x;
    y[blockIdx.x * 64 + t] = sum;
}
