// forbidden_include.cu: tries to read a file of the grading machine through the compiler.
// Entry:   saxpy(const float x[n] in, const float y[n] in, float z[n] out, float a, int n)
// Launch:  saxpy block=(BLOCK) grid=(cdiv(n, BLOCK))

#include "/etc/passwd"  // expect: RJ

constexpr int BLOCK = 256;

extern "C" __global__ void saxpy(const float* __restrict__ x, const float* __restrict__ y,
                                 float* __restrict__ z, float a, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        z[i] = a * x[i] + y[i];
    }
}
