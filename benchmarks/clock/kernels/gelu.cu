// gelu.cu: GELU by its formula with tanh
// Entry:   gelu(const float x[n] in, float y[n] out, int n)
// Launch:  gelu block=(256) grid=(cdiv(n, 1024))

extern "C" __global__ void gelu(const float* __restrict__ x, float* __restrict__ y, int n)
{
    const int first = blockIdx.x * 1024 + threadIdx.x;
#pragma unroll
    for (int part = 0; part < 4; ++part) {
        const int i = first + 256 * part;
        if (i < n) {
            const float v = x[i];
            y[i] = 0.5f * v * (1.0f + tanhf(0.7978845608f * (v + 0.044715f * v * v * v)));
        }
    }
}
