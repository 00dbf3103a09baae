// 01_coarsened.cu: C = A * B with WPT results per thread.
// Idea:    a thread computes WPT elements of a column of C. An element of tileB, once in a register, serves all
//          of them: WPT + 1 floats from shared memory for WPT FMAs instead of two for each.
// From:    lab02_tiling/01_tiled.cu
// Limits:  every element of tileA is still read once for every FMA.
// Entry:   matmul(const float A[M,K] in, const float B[K,N] in, float C[M,N] out, int M, int N, int K)
// Launch:  matmul block=(TILE, RTS) grid=(cdiv(N, TILE), cdiv(M, TILE))

constexpr int TILE = 32;         // a block computes TILE x TILE elements of C
constexpr int WPT = 8;           // work per thread: elements of C
constexpr int RTS = TILE / WPT;  // reduced tile size: rows of threads in a block

static_assert(TILE % WPT == 0, "the threads' elements cover the tile exactly");
static_assert(TILE * RTS <= 1024, "a block has at most 1024 threads");

extern "C" __global__ void matmul(const float* __restrict__ A, const float* __restrict__ B,
                                  float* __restrict__ C, int M, int N, int K)
{
    __shared__ float tileA[TILE][TILE];
    __shared__ float tileB[TILE][TILE];
    const int x = threadIdx.x;
    const int y = threadIdx.y;
    const int row0 = blockIdx.y * TILE;
    const int col = blockIdx.x * TILE + x;
    float sum[WPT] = {};

    for (int k0 = 0; k0 < K; k0 += TILE) {
        // BEGIN SOLUTION: load rows y, y + RTS, ... of both tiles; add TILE products to each sum (about 14 lines)
        for (int i = y; i < TILE; i += RTS) {
            const int ka = k0 + x;
            const int kb = k0 + i;
            tileA[i][x] = row0 + i < M && ka < K ? A[(row0 + i) * K + ka] : 0.0f;
            tileB[i][x] = kb < K && col < N ? B[kb * N + col] : 0.0f;
        }
        __syncthreads();  // the tiles are complete
        for (int k = 0; k < TILE; ++k) {
            const float b = tileB[k][x];
            for (int w = 0; w < WPT; ++w) {
                sum[w] += tileA[y + w * RTS][k] * b;
            }
        }
        __syncthreads();  // nobody reads them any more
        // END SOLUTION
    }

    for (int w = 0; w < WPT; ++w) {
        const int row = row0 + y + w * RTS;
        if (row < M && col < N) {
            C[row * N + col] = sum[w];
        }
    }
}
