// The counter is reset while others count.
// launch: grid=1 block=64
extern "C" __global__ void k(const float* x, float* y, int* state, int n)
{
    const int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    __shared__ int count;
    count = 0;  // expect: RACE
    atomicAdd(&count, 1);  // expect: RACE
    __syncthreads();
    if (t == 0) state[0] = count;
}
