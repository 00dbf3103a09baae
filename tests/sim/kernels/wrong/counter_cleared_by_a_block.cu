// Block 0 clears the counter; its barrier orders no other block.
// launch: grid=3 block=64
extern "C" __global__ void k(const float* x, float* y, int* state, int n)
{
    const int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    if (blockIdx.x == 0) {
        if (t == 0) state[0] = 0;  // expect: RACE
        __syncthreads();
    }
    if (x[i] > 0.5f) atomicAdd(state, 1);  // expect: RACE
}
