// One barrier a step where two are needed.
// launch: grid=1 block=128
extern "C" __global__ void k(const float* x, float* y, int* state, int n)
{
    const int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    __shared__ float s[128];
    s[t] = x[i];
    for (int o = 1; o < 128; o *= 2) {
        __syncthreads();
        if (t >= o) s[t] += s[t - o];  // expect: RACE
    }
    y[i] = s[t];
}
