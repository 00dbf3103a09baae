// The last block resets the counter: nothing orders that behind the other blocks' atomics.
// launch: grid=4 block=64
extern "C" __global__ void k(const float* x, float* y, int* state, int n)
{
    __shared__ int ticket;
    if (threadIdx.x == 0) ticket = atomicAdd(state, 1);  // expect: RACE
    __syncthreads();
    if (ticket == gridDim.x - 1 && threadIdx.x == 0) state[0] = 0;  // expect: RACE
}
