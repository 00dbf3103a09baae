// scattered.cu: right, but the lanes of a warp touch elements far apart.
// Entry:   scale(const float x[n] in, float y[n] out, float a, int n)
// Launch:  scale block=(256) grid=(cdiv(n, 256))
extern "C" __global__ void scale(const float* __restrict__ x, float* __restrict__ y, float a, int n)
{
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int i = blockIdx.x * 256 + lane * 8 + warp;
    if (i < n) {
        y[i] = a * x[i];  // expect: PERF
    }
}
