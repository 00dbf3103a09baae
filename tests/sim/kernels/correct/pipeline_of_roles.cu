// cuda::pipeline with roles: the first warp produces, the others consume.
// launch: grid=2 block=128
#include <cooperative_groups.h>
#include <cuda/pipeline>

extern "C" __global__ void k(const float* x, float* y, int* state, int n)
{
    constexpr int STAGES = 3, TILES = 7;
    __shared__ float tile[STAGES][96];
    __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, STAGES> shared;
    const int t = threadIdx.x;
    const auto role = t < 32 ? cuda::pipeline_role::producer : cuda::pipeline_role::consumer;
    auto pipe = cuda::make_pipeline(cooperative_groups::this_thread_block(), &shared, role);
    if (role == cuda::pipeline_role::producer) {
        for (int k = 0; k < TILES; ++k) {
            pipe.producer_acquire();
            for (int c = t; c < 96; c += 32) cuda::memcpy_async(&tile[k % STAGES][c], &x[k * 96 + c], 4, pipe);
            pipe.producer_commit();
        }
        return;
    }
    float sum = 0;
    for (int k = 0; k < TILES; ++k) {
        pipe.consumer_wait();
        sum = sum * 3 + tile[k % STAGES][127 - t];
        pipe.consumer_release();
    }
    y[blockIdx.x * 96 + t - 32] = sum;
}
