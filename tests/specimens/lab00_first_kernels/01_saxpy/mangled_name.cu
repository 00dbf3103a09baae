// mangled_name.cu: extern "C" is missing, so no entry has the name of the header.
// Entry:   saxpy(const float x[n] in, const float y[n] in, float z[n] out, float a, int n)
// Launch:  saxpy block=(BLOCK) grid=(cdiv(n, BLOCK))

constexpr int BLOCK = 256;

__global__ void saxpy(const float* __restrict__ x, const float* __restrict__ y,  // expect: NE
                                 float* __restrict__ z, float a, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        z[i] = a * x[i] + y[i];
    }
}
