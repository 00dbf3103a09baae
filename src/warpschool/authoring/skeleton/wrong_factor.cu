// wrong_factor.cu: adds where it should multiply.
// expect: WA
// Entry:   scale(const float x[n] in, float y[n] out, float a, int n)
// Launch:  scale block=(256) grid=(cdiv(n, 256))
extern "C" __global__ void scale(const float* __restrict__ x, float* __restrict__ y, float a, int n)
{
    const int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n) {
        y[i] = a + x[i];
    }
}
