// half2_axpy.cu: y = a x + y in pairs of halves
// Entry:   axpy(const half x[n] in, half y[n] inout, float a, int n)
// Launch:  axpy block=(256) grid=(cdiv(n / 2, 256))

#include <cuda_fp16.h>
extern "C" __global__ void axpy(const half* __restrict__ x, half* __restrict__ y, float a, int n)
{
    const int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n / 2) {
        half2* out = reinterpret_cast<half2*>(y);
        out[i] = __hfma2(__float2half2_rn(a), reinterpret_cast<const half2*>(x)[i], out[i]);
    }
}
