// The ticket may overtake the partial sum.
// launch: grid=4 block=64
extern "C" __global__ void k(const float* x, float* y, int* state, int n)
{
    const int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    __shared__ bool last;
    if (t == 0) {
        y[blockIdx.x] = x[i];  // expect: RACE
        last = atomicAdd(state, 1) == gridDim.x - 1;
    }
    __syncthreads();
    if (last && t == 0) {
        float sum = 0;
        for (int b = 0; b < gridDim.x; ++b) sum += y[b];  // expect: RACE
        y[100] = sum;
    }
}
