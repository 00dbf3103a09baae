// 03_transpose_tiled.cu: At = A transposed, TILE x TILE elements at a time through shared memory.
// Idea:    a block reads its tile row by row and writes it row by row too, only the rows of the other matrix:
//          the turn from one to the other happens in shared memory, which has no sectors to waste.
// From:    02_transpose_naive.cu
// Limits:  a warp reads a column of the tile: 32 rows apart by 32 floats, all in one bank (lab04).
// Entry:   transpose(const float A[M,N] in, float At[N,M] out, int M, int N)
// Launch:  transpose block=(TILE, ROWS) grid=(cdiv(N, TILE), cdiv(M, TILE))

constexpr int TILE = 32;  // a block turns TILE x TILE elements
constexpr int ROWS = 8;   // rows of the tile that the block moves at a time

static_assert(TILE * ROWS <= 1024, "a block has at most 1024 threads");

extern "C" __global__ void transpose(const float* __restrict__ A, float* __restrict__ At, int M, int N)
{
    __shared__ float tile[TILE][TILE];
    const int row0 = blockIdx.y * TILE;  // the tile's first row and column in A
    const int col0 = blockIdx.x * TILE;
    const int x = threadIdx.x;

    // BEGIN SOLUTION: rows of A into the tile; a barrier; columns of the tile into rows of At (about 11 lines)
    // END SOLUTION
}
