// 01_transpose_padded.cu: At = A transposed, through a tile with columns that nobody uses.
// Idea:    rows with floats that nobody uses move each row some banks on, so that a column spreads over the banks.
//          Nothing else changes.
// From:    lab03_coalescing/03_transpose_tiled.cu
// Limits:  pays shared memory for each row, and rows of an odd length are not aligned for wide accesses.
// Entry:   transpose(const float A[M,N] in, float At[N,M] out, int M, int N)
// Launch:  transpose block=(TILE, ROWS) grid=(cdiv(N, TILE), cdiv(M, TILE))

constexpr int TILE = 32;  // a block turns TILE x TILE elements
constexpr int ROWS = 8;   // rows of the tile that the block moves at a time
// BEGIN SOLUTION: columns that separate the rows' banks (about 1 line)
constexpr int PAD = 0;
// END SOLUTION

static_assert(TILE * ROWS <= 1024, "a block has at most 1024 threads");

extern "C" __global__ void transpose(const float* __restrict__ A, float* __restrict__ At, int M, int N)
{
    __shared__ float tile[TILE][TILE + PAD];
    const int row0 = blockIdx.y * TILE;  // the tile's first row and column in A
    const int col0 = blockIdx.x * TILE;
    const int x = threadIdx.x;

    for (int y = threadIdx.y; y < TILE; y += ROWS) {
        if (row0 + y < M && col0 + x < N) {
            tile[y][x] = A[(row0 + y) * N + col0 + x];
        }
    }
    __syncthreads();  // other threads wrote what this one reads
    for (int y = threadIdx.y; y < TILE; y += ROWS) {
        if (col0 + y < N && row0 + x < M) {
            At[(col0 + y) * M + row0 + x] = tile[x][y];
        }
    }
}
