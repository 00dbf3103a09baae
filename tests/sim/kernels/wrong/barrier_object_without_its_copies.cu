// The copies are not tied to the object: its phase ends before they land.
// launch: grid=1 block=64
#include <cuda/barrier>
#include <cuda_pipeline.h>

extern "C" __global__ void k(const float* x, float* y, int* state, int n)
{
    const int t = threadIdx.x;
    __shared__ cuda::barrier<cuda::thread_scope_block> gate;
    __shared__ __align__(16) float s[64];
    if (t == 0) init(&gate, 64);
    __syncthreads();
    __pipeline_memcpy_async(&s[t], &x[t], 4);  // expect: RACE
    gate.arrive_and_wait();
    y[t] = s[63 - t];  // expect: RACE
}
