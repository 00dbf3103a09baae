// The halo comes from an array that the neighbour writes.
// launch: grid=3 block=64
extern "C" __global__ void k(const float* x, float* y, int* state, int n)
{
    const int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    y[i] = x[i];  // expect: RACE
    __syncthreads();
    state[i] = (int)y[(i + 1) % 192];  // expect: RACE
}
