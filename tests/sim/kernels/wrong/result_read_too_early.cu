// No barrier between counting and reading.
// launch: grid=1 block=64
extern "C" __global__ void k(const float* x, float* y, int* state, int n)
{
    const int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    __shared__ int count;
    if (t == 0) count = 0;
    __syncthreads();
    atomicAdd(&count, 1);  // expect: RACE
    if (t == 0) state[0] = count;  // expect: RACE
}
