// right_grid_stride.cu: a fixed grid whose threads stride through the vectors.
// Entry:   saxpy(const float x[n] in, const float y[n] in, float z[n] out, float a, int n)
// Launch:  saxpy block=(128) grid=(4)

// expect: AC

extern "C" __global__ void saxpy(const float* x, const float* y, float* z, float a, int n)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        z[i] = fmaf(a, x[i], y[i]);
    }
}
