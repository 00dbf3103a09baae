// right_other_side.cu: the stores go along rows and the loads along columns.
// Entry:   transpose(const float A[M,N] in, float At[N,M] out, int M, int N)
// Launch:  transpose block=(TILE, ROWS) grid=(cdiv(M, TILE), cdiv(N, ROWS))

// expect: AC

constexpr int TILE = 32;
constexpr int ROWS = 8;

extern "C" __global__ void transpose(const float* __restrict__ A, float* __restrict__ At, int M, int N)
{
    const int row = blockIdx.x * TILE + threadIdx.x;
    const int col = blockIdx.y * ROWS + threadIdx.y;
    if (row < M && col < N) {
        At[col * M + row] = A[row * N + col];
    }
}
