// 02_matrix_add.cu: C = A + B for matrices of M rows and N columns, one thread per element.
// Idea:    blocks and grids have two dimensions. x runs along the columns, because neighbours in a row are
//          neighbours in memory, and the 32 lanes of a warp then share sectors.
// Limits:  one operation for twelve bytes moved.
// Entry:   matrix_add(const float A[M,N] in, const float B[M,N] in, float C[M,N] out, int M, int N)
// Launch:  matrix_add block=(BLOCK_X, BLOCK_Y) grid=(cdiv(N, BLOCK_X), cdiv(M, BLOCK_Y))

constexpr int BLOCK_X = 32;  // columns of a block: one warp reads 32 neighbours
constexpr int BLOCK_Y = 8;   // rows of a block

static_assert(BLOCK_X * BLOCK_Y <= 1024, "a block has at most 1024 threads");

extern "C" __global__ void matrix_add(const float* __restrict__ A, const float* __restrict__ B,
                                      float* __restrict__ C, int M, int N)
{
    // BEGIN SOLUTION: find row and column, guard both, add (about 5 lines)
    const int row = blockIdx.y * blockDim.y + threadIdx.y;
    const int col = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < M && col < N) {
        C[row * N + col] = A[row * N + col] + B[row * N + col];
    }
    // END SOLUTION
}
