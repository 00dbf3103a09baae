// cuda::pipeline for a block: two stages of copies ahead of the sum.
// launch: grid=2 block=64
#include <cooperative_groups.h>
#include <cuda/pipeline>

extern "C" __global__ void k(const float* x, float* y, int* state, int n)
{
    constexpr int STAGES = 2, TILES = 6;
    __shared__ __align__(16) float tile[STAGES][64];
    __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, STAGES> shared;
    const auto block = cooperative_groups::this_thread_block();
    auto pipe = cuda::make_pipeline(block, &shared);
    const int t = threadIdx.x;
    float sum = 0;
    for (int ahead = 0, k = 0; k < TILES; ++k) {
        for (; ahead < TILES && ahead < k + STAGES; ++ahead) {
            pipe.producer_acquire();
            cuda::memcpy_async(block, tile[ahead % STAGES], x + ahead * 64, cuda::aligned_size_t<16>(256), pipe);
            pipe.producer_commit();
        }
        pipe.consumer_wait();
        sum = sum * 3 + tile[k % STAGES][63 - t];
        pipe.consumer_release();
    }
    y[blockIdx.x * 64 + t] = sum;
}
