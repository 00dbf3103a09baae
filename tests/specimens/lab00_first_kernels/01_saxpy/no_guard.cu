// no_guard.cu: the threads past the end load and store as well.
// Entry:   saxpy(const float x[n] in, const float y[n] in, float z[n] out, float a, int n)
// Launch:  saxpy block=(BLOCK) grid=(cdiv(n, BLOCK))

constexpr int BLOCK = 256;

extern "C" __global__ void saxpy(const float* __restrict__ x, const float* __restrict__ y,
                                 float* __restrict__ z, float a, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    z[i] = a * x[i] + y[i];  // expect: OOB
}
