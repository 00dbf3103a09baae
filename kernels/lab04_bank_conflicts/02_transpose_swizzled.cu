// 02_transpose_swizzled.cu: At = A transposed, through a tile whose rows are each shuffled in another way.
// Idea:    element (y, x) lives at column x ^ y of row y. Along a row, y is fixed and x ^ y takes 32 different
//          values; along a column, x is fixed and it does too: 32 banks both ways, and not one float of padding.
// From:    01_transpose_padded.cu
// Limits:  TILE has to be a power of two, and one more instruction finds each place.
// Entry:   transpose(const float A[M,N] in, float At[N,M] out, int M, int N)
// Launch:  transpose block=(TILE, ROWS) grid=(cdiv(N, TILE), cdiv(M, TILE))

constexpr int TILE = 32;  // a block turns TILE x TILE elements
constexpr int ROWS = 8;   // rows of the tile that the block moves at a time

static_assert((TILE & (TILE - 1)) == 0, "x ^ y stays below TILE only if TILE is a power of two");
static_assert(TILE * ROWS <= 1024, "a block has at most 1024 threads");

extern "C" __global__ void transpose(const float* __restrict__ A, float* __restrict__ At, int M, int N)
{
    __shared__ float tile[TILE][TILE];
    const int row0 = blockIdx.y * TILE;  // the tile's first row and column in A
    const int col0 = blockIdx.x * TILE;
    const int x = threadIdx.x;

    // BEGIN SOLUTION: 03_transpose_tiled.cu with every column of the tile replaced by column ^ row (about 11 lines)
    // END SOLUTION
}
