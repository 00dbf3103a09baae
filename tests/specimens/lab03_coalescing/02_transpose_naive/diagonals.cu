// diagonals.cu: a warp moves a diagonal: neither a row of A nor a row of At.
// Entry:   transpose(const float A[M,N] in, float At[N,M] out, int M, int N)
// Launch:  transpose block=(TILE, ROWS) grid=(cdiv(N, TILE), cdiv(M, TILE))

constexpr int TILE = 32;
constexpr int ROWS = 8;

extern "C" __global__ void transpose(const float* __restrict__ A, float* __restrict__ At, int M, int N)
{
    const int row = blockIdx.y * TILE + threadIdx.x;
    for (int d = threadIdx.y; d < TILE; d += ROWS) {
        const int col = blockIdx.x * TILE + (threadIdx.x + d) % TILE;
        if (row < M && col < N) {
            At[col * M + row] = A[row * N + col];  // expect: PERF
        }
    }
}
