// no_guard.cu: the threads past the end store too.
// Entry:   scale(const float x[n] in, float y[n] out, float a, int n)
// Launch:  scale block=(256) grid=(cdiv(n, 256))
extern "C" __global__ void scale(const float* __restrict__ x, float* __restrict__ y, float a, int n)
{
    const int i = blockIdx.x * 256 + threadIdx.x;
    y[i] = a * x[i];  // expect: OOB
}
