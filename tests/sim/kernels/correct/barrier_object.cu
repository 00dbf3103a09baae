// Arrive early, do something else, wait late: cuda::barrier, one phase after the other.
// launch: grid=2 block=96
#include <cuda/barrier>

extern "C" __global__ void k(const float* x, float* y, int* state, int n)
{
    using barrier = cuda::barrier<cuda::thread_scope_block>;
    const int t = threadIdx.x, i = blockIdx.x * 96 + t;
    __shared__ barrier gate;
    __shared__ float s[96];
    if (t == 0) init(&gate, 96);
    __syncthreads();
    float sum = 0;
    for (int turn = 0; turn < 3; ++turn) {
        s[t] = x[i + turn];
        auto token = gate.arrive();
        const float own = x[i] * turn;
        gate.wait(cuda::std::move(token));
        sum += own + s[95 - t];
        gate.arrive_and_wait();
    }
    y[i] = sum;
}
