// quarter_loaded.cu: each thread loads one element of the tile, not four.
// Entry:   transpose(const float A[M,N] in, float At[N,M] out, int M, int N)
// Launch:  transpose block=(TILE, ROWS) grid=(cdiv(N, TILE), cdiv(M, TILE))

constexpr int TILE = 32;
constexpr int ROWS = 8;

extern "C" __global__ void transpose(const float* __restrict__ A, float* __restrict__ At, int M, int N)
{
    __shared__ float tile[TILE][TILE];
    const int row0 = blockIdx.y * TILE;
    const int col0 = blockIdx.x * TILE;
    const int x = threadIdx.x;

    if (row0 + threadIdx.y < M && col0 + x < N) {
        tile[threadIdx.y][x] = A[(row0 + threadIdx.y) * N + col0 + x];
    }
    __syncthreads();
    for (int y = threadIdx.y; y < TILE; y += ROWS) {
        if (col0 + y < N && row0 + x < M) {
            At[(col0 + y) * M + row0 + x] = tile[x][y];  // expect: UNINIT
        }
    }
}
