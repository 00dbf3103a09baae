// One thread zeroes the sum and adds to it at once; nothing orders the zero before the others' additions.
// launch: grid=1 block=64
extern "C" __global__ void k(const float* x, float* y, int* state, int n)
{
    __shared__ int sum;
    if (threadIdx.x == 0) sum = 0;  // expect: RACE
    atomicAdd(&sum, 1);  // expect: RACE
    __syncthreads();
    y[threadIdx.x] = sum;
}
