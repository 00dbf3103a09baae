// 04_gemm_bt.cu: C = A * Bt^T, where Bt is B transposed beforehand: its rows are the columns of B.
// Idea:    both factors of an inner product now lie along k. Read straight from memory, the lanes of a warp
//          would each walk along a row of Bt of their own; through tiles, a warp reads 32 neighbours of one row.
// From:    lab02_tiling/01_tiled.cu
// Limits:  the lanes read a column of tileB, 32 floats apart, all in one bank (lab04). A branch, not a step of
//          the ladder: it takes another operand, and transposing B costs a pass over it.
// Entry:   matmul_bt(const float A[M,K] in, const float Bt[N,K] in, float C[M,N] out, int M, int N, int K)
// Launch:  matmul_bt block=(TILE, TILE) grid=(cdiv(N, TILE), cdiv(M, TILE))

constexpr int TILE = 32;  // a block computes TILE x TILE elements of C; a warp loads one row of a tile

static_assert(TILE * TILE <= 1024, "one thread per element of the tile, and a block has at most 1024");

extern "C" __global__ void matmul_bt(const float* __restrict__ A, const float* __restrict__ Bt,
                                     float* __restrict__ C, int M, int N, int K)
{
    __shared__ float tileA[TILE][TILE];  // rows of C along k
    __shared__ float tileB[TILE][TILE];  // columns of C along k
    const int x = threadIdx.x;
    const int y = threadIdx.y;
    const int row = blockIdx.y * TILE + y;
    const int col = blockIdx.x * TILE + x;
    float sum = 0.0f;

    for (int k0 = 0; k0 < K; k0 += TILE) {
        // BEGIN SOLUTION: load a tile of each, x along k, zero past the edge; add TILE products (about 9 lines)
        // END SOLUTION
    }

    if (row < M && col < N) {
        C[row * N + col] = sum;
    }
}
