// One warp copies, the others add: a stage is full when its copies have landed, and empty when all have read it.
// launch: grid=2 block=128
#include <cuda/barrier>

extern "C" __global__ void k(const float* x, float* y, int* state, int n)
{
    using barrier = cuda::barrier<cuda::thread_scope_block>;
    constexpr int STAGES = 2, TILES = 5;
    const int t = threadIdx.x;
    __shared__ barrier full[STAGES], empty[STAGES];
    __shared__ __align__(16) float tile[STAGES][96];
    if (t == 0)
        for (int s = 0; s < STAGES; ++s) {
            init(&full[s], 128);
            init(&empty[s], 128);
        }
    __syncthreads();
    if (t < 32) {
        for (int k = 0; k < TILES; ++k) {
            const int s = k % STAGES;
            empty[s].arrive_and_wait();
            for (int c = t; c < 96; c += 32) cuda::memcpy_async(&tile[s][c], &x[k * 96 + c], sizeof(float), full[s]);
            (void)full[s].arrive();
        }
        for (int s = 0; s < STAGES; ++s) (void)empty[(TILES + s) % STAGES].arrive();
        return;
    }
    for (int s = 0; s < STAGES; ++s) (void)empty[s].arrive();
    float sum = 0;
    for (int k = 0; k < TILES; ++k) {
        const int s = k % STAGES;
        full[s].arrive_and_wait();
        sum = sum * 3 + tile[s][127 - t];
        (void)empty[s].arrive();
    }
    y[blockIdx.x * 96 + t - 32] = sum;
}
