// C = A B by tiles that cuda::memcpy_async brings, two stages with a barrier each; any sizes.
#include <cuda/barrier>

constexpr int TILE = 32, ROWS = 4, THREADS = TILE * TILE / ROWS; // a thread owns ROWS rows of a column

using Barrier = cuda::barrier<cuda::thread_scope_block>;

__device__ void fetch(float* to, const float* from, bool inside, Barrier& arrived)
{
    if (inside)
        cuda::memcpy_async(to, from, sizeof(float), arrived);
    else
        *to = 0.0f;
}

extern "C" __global__ void pipeline(const float* a, const float* b, float* c, int m, int n, int k)
{
    __shared__ float tiles_a[2][TILE][TILE], tiles_b[2][TILE][TILE];
#pragma nv_diag_suppress static_var_with_dynamic_init
    __shared__ Barrier arrived[2];
    const int x = threadIdx.x % TILE, y = threadIdx.x / TILE * ROWS;
    const int row = blockIdx.y * TILE + y, col = blockIdx.x * TILE + x;
    if (threadIdx.x < 2)
        init(&arrived[threadIdx.x], THREADS);
    __syncthreads();

    const int steps = (k + TILE - 1) / TILE;
    const auto bring = [&](int step) {
        const int stage = step % 2, first = step * TILE;
#pragma unroll
        for (int i = 0; i < ROWS; ++i) {
            fetch(&tiles_a[stage][y + i][x], a + size_t(row + i) * k + first + x, row + i < m && first + x < k,
                  arrived[stage]);
            fetch(&tiles_b[stage][y + i][x], b + size_t(first + y + i) * n + col, first + y + i < k && col < n,
                  arrived[stage]);
        }
    };
    float sums[ROWS] = {};
    bring(0);
    for (int step = 0; step < steps; ++step) {
        if (step + 1 < steps)
            bring(step + 1);
        arrived[step % 2].arrive_and_wait();
#pragma unroll
        for (int i = 0; i < TILE; ++i)
#pragma unroll
            for (int r = 0; r < ROWS; ++r)
                sums[r] += tiles_a[step % 2][y + r][i] * tiles_b[step % 2][i][x];
        __syncthreads(); // before the next but one tile comes to this stage
    }
#pragma unroll
    for (int r = 0; r < ROWS; ++r)
        if (row + r < m && col < n)
            c[size_t(row + r) * n + col] = sums[r];
}
