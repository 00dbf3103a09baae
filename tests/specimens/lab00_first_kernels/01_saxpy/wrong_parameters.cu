// wrong_parameters.cu: the length comes before the factor.
// Entry:   saxpy(const float x[n] in, const float y[n] in, float z[n] out, int n, float a)
// Launch:  saxpy block=(BLOCK) grid=(cdiv(n, BLOCK))

// expect: NE line 2

constexpr int BLOCK = 256;

extern "C" __global__ void saxpy(const float* __restrict__ x, const float* __restrict__ y,
                                 float* __restrict__ z, int n, float a)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        z[i] = a * x[i] + y[i];
    }
}
