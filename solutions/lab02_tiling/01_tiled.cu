// 01_tiled.cu: C = A * B through TILE x TILE tiles in shared memory.
// Idea:    a block loads a tile of A and a tile of B together, once, and each element then serves TILE threads.
// From:    lab01_naive_gemm/01_naive.cu
// Limits:  every FMA now reads two floats from shared memory: more instructions load than multiply.
// Entry:   matmul(const float A[M,K] in, const float B[K,N] in, float C[M,N] out, int M, int N, int K)
// Launch:  matmul block=(TILE, TILE) grid=(cdiv(N, TILE), cdiv(M, TILE))

constexpr int TILE = 16;  // a block computes TILE x TILE elements of C

static_assert(TILE * TILE <= 1024, "one thread per element of the tile, and a block has at most 1024");

extern "C" __global__ void matmul(const float* __restrict__ A, const float* __restrict__ B,
                                  float* __restrict__ C, int M, int N, int K)
{
    __shared__ float tileA[TILE][TILE];
    __shared__ float tileB[TILE][TILE];
    const int row = blockIdx.y * TILE + threadIdx.y;
    const int col = blockIdx.x * TILE + threadIdx.x;
    float sum = 0.0f;

    for (int k0 = 0; k0 < K; k0 += TILE) {
        // BEGIN SOLUTION: load one element of each tile, zero past the edge; add TILE products (about 9 lines)
        const int ka = k0 + threadIdx.x;
        const int kb = k0 + threadIdx.y;
        tileA[threadIdx.y][threadIdx.x] = row < M && ka < K ? A[row * K + ka] : 0.0f;
        tileB[threadIdx.y][threadIdx.x] = kb < K && col < N ? B[kb * N + col] : 0.0f;
        __syncthreads();  // the tiles are complete
        for (int k = 0; k < TILE; ++k) {
            sum += tileA[threadIdx.y][k] * tileB[k][threadIdx.x];
        }
        __syncthreads();  // nobody reads them any more
        // END SOLUTION
    }

    if (row < M && col < N) {
        C[row * N + col] = sum;
    }
}
