// right_grid_stride.cu: a few blocks walk over all elements.
// expect: AC
// Entry:   scale(const float x[n] in, float y[n] out, float a, int n)
// Launch:  scale block=(128) grid=(4)
extern "C" __global__ void scale(const float* __restrict__ x, float* __restrict__ y, float a, int n)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        y[i] = a * x[i];
    }
}
