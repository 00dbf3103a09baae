// A flag that many threads raise with atomicOr.
// launch: grid=3 block=64
extern "C" __global__ void k(const float* x, float* y, int* state, int n)
{
    const int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    __shared__ int found;
    if (t == 0) found = 0;
    __syncthreads();
    if (x[i] > 0.5f) atomicOr(&found, 1);
    __syncthreads();
    if (t == 0) state[blockIdx.x] = found;
}
