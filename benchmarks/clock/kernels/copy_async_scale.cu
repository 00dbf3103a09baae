// copy_async_scale.cu: tiles by cp.async, two in flight, scaled
// Entry:   scale(const float x[n] in, float y[n] out, int n)
// Launch:  scale block=(128) grid=(min(cdiv(n, 512), 1056))

#include <cuda_pipeline.h>
extern "C" __global__ void scale(const float* __restrict__ x, float* __restrict__ y, int n)
{
    __shared__ float4 tile[2][128];
    const int quads = n / 4, step = gridDim.x * 128;
    int at = blockIdx.x * 128 + threadIdx.x, now = 0;
    if (at < quads) __pipeline_memcpy_async(&tile[0][threadIdx.x], reinterpret_cast<const float4*>(x) + at, 16);
    __pipeline_commit();
    for (; at < quads; at += step, now = 1 - now) {
        if (at + step < quads)
            __pipeline_memcpy_async(&tile[1 - now][threadIdx.x], reinterpret_cast<const float4*>(x) + at + step, 16);
        __pipeline_commit();
        __pipeline_wait_prior(1);
        const float4 v = tile[now][threadIdx.x];
        reinterpret_cast<float4*>(y)[at] = make_float4(2.0f * v.x, 2.0f * v.y, 2.0f * v.z, 2.0f * v.w);
    }
    if (blockIdx.x == 0 && threadIdx.x < n % 4) y[n - 1 - threadIdx.x] = 2.0f * x[n - 1 - threadIdx.x];
}
