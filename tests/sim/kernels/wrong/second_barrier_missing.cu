// The tile is overwritten while others still read it.
// launch: grid=1 block=64
extern "C" __global__ void k(const float* x, float* y, int* state, int n)
{
    const int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    __shared__ float s[64];
    float sum = 0;
    for (int k = 0; k < 4; ++k) {
        s[t] = x[(i + k * 64) % n];  // expect: RACE
        __syncthreads();
        sum += s[63 - t];  // expect: RACE
    }
    y[i] = sum;
}
