// Each thread reads what it has copied itself, but before the phase is over.
// launch: grid=1 block=64
#include <cuda/barrier>

extern "C" __global__ void k(const float* x, float* y, int* state, int n)
{
    const int t = threadIdx.x;
    __shared__ cuda::barrier<cuda::thread_scope_block> gate;
    __shared__ __align__(16) float s[64];
    if (t == 0) init(&gate, 64);
    __syncthreads();
    cuda::memcpy_async(&s[t], &x[t], sizeof(float), gate);  // expect: RACE
    y[t] = s[t];  // expect: RACE
    gate.arrive_and_wait();
}
