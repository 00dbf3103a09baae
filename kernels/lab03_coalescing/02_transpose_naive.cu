// 02_transpose_naive.cu: At = A transposed, one thread per element.
// Idea:    nothing to compute: every element is read once and written once, in another place. A warp reads a
//          row, 4 full sectors, and writes a column, 32 sectors that it fills by an eighth.
// Limits:  turned round, with the reads along a column, it is the reads that waste sectors.
// Entry:   transpose(const float A[M,N] in, float At[N,M] out, int M, int N)
// Launch:  transpose block=(TILE, ROWS) grid=(cdiv(N, TILE), cdiv(M, ROWS))

constexpr int TILE = 32;  // columns of a block: one warp reads 32 neighbours
constexpr int ROWS = 8;   // rows of a block

static_assert(TILE * ROWS <= 1024, "a block has at most 1024 threads");

extern "C" __global__ void transpose(const float* __restrict__ A, float* __restrict__ At, int M, int N)
{
    // BEGIN SOLUTION: find row and column, guard both, copy one element (about 5 lines)
    // END SOLUTION
}
