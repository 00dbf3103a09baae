// The next turn writes where others may still read: a second phase is missing.
// launch: grid=1 block=64
#include <cuda/barrier>

extern "C" __global__ void k(const float* x, float* y, int* state, int n)
{
    const int t = threadIdx.x;
    __shared__ cuda::barrier<cuda::thread_scope_block> gate;
    __shared__ float s[64];
    if (t == 0) init(&gate, 64);
    __syncthreads();
    float sum = 0;
    for (int turn = 0; turn < 3; ++turn) {
        s[t] = x[turn * 64 + t];  // expect: RACE
        gate.arrive_and_wait();
        sum += s[63 - t];  // expect: RACE
    }
    y[t] = sum;
}
