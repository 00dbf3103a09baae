// Halving the active threads, a barrier a level.
// launch: grid=2 block=128
extern "C" __global__ void k(const float* x, float* y, int* state, int n)
{
    const int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    __shared__ float s[128];
    s[t] = x[i];
    __syncthreads();
    for (int o = 64; o > 0; o /= 2) {
        if (t < o) s[t] += s[t + o];
        __syncthreads();
    }
    if (t == 0) y[blockIdx.x] = s[0];
}
