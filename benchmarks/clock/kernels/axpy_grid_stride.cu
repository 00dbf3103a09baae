// axpy_grid_stride.cu: y = a x + y, each thread several elements apart
// Entry:   axpy(float a, const float x[n] in, float y[n] inout, int n)
// Launch:  axpy block=(256) grid=(min(cdiv(n, 256), 1056))

extern "C" __global__ void axpy(float a, const float* __restrict__ x, float* __restrict__ y, int n)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) y[i] = a * x[i] + y[i];
}
