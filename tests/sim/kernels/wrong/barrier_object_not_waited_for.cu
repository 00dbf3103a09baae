// Each thread arrives, but reads without waiting.
// launch: grid=1 block=64
#include <cuda/barrier>

extern "C" __global__ void k(const float* x, float* y, int* state, int n)
{
    const int t = threadIdx.x;
    __shared__ cuda::barrier<cuda::thread_scope_block> gate;
    __shared__ float s[64];
    if (t == 0) init(&gate, 64);
    __syncthreads();
    s[t] = x[t];  // expect: RACE
    auto token = gate.arrive();
    y[t] = s[63 - t];  // expect: RACE
    gate.wait(cuda::std::move(token));
}
