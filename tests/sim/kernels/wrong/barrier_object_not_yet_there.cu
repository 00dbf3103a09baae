// Nothing orders setting the object up before the arrivals.
// launch: grid=1 block=64
#include <cuda/barrier>

extern "C" __global__ void k(const float* x, float* y, int* state, int n)
{
    const int t = threadIdx.x;
    __shared__ cuda::barrier<cuda::thread_scope_block> gate;
    __shared__ float s[64];
    if (t == 0) init(&gate, 64);  // expect: RACE
    s[t] = x[t];
    gate.arrive_and_wait();  // expect: RACE
    y[t] = s[63 - t];
}
