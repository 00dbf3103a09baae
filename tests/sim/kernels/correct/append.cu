// Slots of an output by atomicAdd on a counter.
// launch: grid=3 block=64
extern "C" __global__ void k(const float* x, float* y, int* state, int n)
{
    const int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    if (x[i] > 0.5f) y[atomicAdd(state, 1)] = x[i];
}
