// __syncthreads_count, _and and _or order like __syncthreads.
// launch: grid=2 block=96
extern "C" __global__ void k(const float* x, float* y, int* state, int n)
{
    const int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    __shared__ float s[96];
    s[t] = x[i];
    const int count = __syncthreads_count(x[i] > 0.5f);
    float v = s[95 - t] + count;
    const int all = __syncthreads_and(v > 0);
    s[t] = v;
    const int any = __syncthreads_or(v > 50);
    y[i] = s[(t + 1) % 96] + all + any;
}
