// gather.cu: elements from everywhere
// Entry:   gather(const int from[n] in, const float x[n] in, float y[n] out, int n)
// Launch:  gather block=(256) grid=(cdiv(n, 256))

extern "C" __global__ void gather(const int* __restrict__ from, const float* __restrict__ x, float* __restrict__ y, int n)
{
    const int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n) y[i] = x[from[i]];
}
