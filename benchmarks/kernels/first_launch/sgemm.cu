// C = A B, 8 x 8 sums in the registers of a thread, tiles of 64 x 64 and 8 steps of k, all unrolled; any sizes.
constexpr int TILE = 64, STEP = 8, OWN = 8, SIDE = TILE / OWN, THREADS = SIDE * SIDE;

extern "C" __global__ void sgemm(const float* a, const float* b, float* c, int m, int n, int k)
{
    __shared__ float tile_a[STEP][TILE + 4], tile_b[STEP][TILE];
    const int tx = threadIdx.x % SIDE, ty = threadIdx.x / SIDE;
    const int row = blockIdx.y * TILE, col = blockIdx.x * TILE;
    float sums[OWN][OWN] = {};
    for (int first = 0; first < k; first += STEP) {
#pragma unroll
        for (int i = threadIdx.x; i < TILE * STEP; i += THREADS) {
            const int y = i / STEP, x = i % STEP;
            tile_a[x][y] = row + y < m && first + x < k ? a[size_t(row + y) * k + first + x] : 0.0f;
        }
#pragma unroll
        for (int i = threadIdx.x; i < TILE * STEP; i += THREADS) {
            const int y = i / TILE, x = i % TILE;
            tile_b[y][x] = first + y < k && col + x < n ? b[size_t(first + y) * n + col + x] : 0.0f;
        }
        __syncthreads();
#pragma unroll
        for (int s = 0; s < STEP; ++s) {
            float left[OWN], right[OWN];
#pragma unroll
            for (int i = 0; i < OWN; ++i) {
                left[i] = tile_a[s][ty * OWN + i];
                right[i] = tile_b[s][tx + i * SIDE];
            }
#pragma unroll
            for (int i = 0; i < OWN; ++i)
#pragma unroll
                for (int j = 0; j < OWN; ++j)
                    sums[i][j] += left[i] * right[j];
        }
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < OWN; ++i)
#pragma unroll
        for (int j = 0; j < OWN; ++j) {
            const int y = row + ty * OWN + i, x = col + tx + j * SIDE;
            if (y < m && x < n)
                c[size_t(y) * n + x] = sums[i][j];
        }
}
