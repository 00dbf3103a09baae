// not_transposed.cu: copies A as it is.
// Entry:   transpose(const float A[M,N] in, float At[N,M] out, int M, int N)
// Launch:  transpose block=(TILE, ROWS) grid=(cdiv(N, TILE), cdiv(M, ROWS))

// expect: WA

constexpr int TILE = 32;
constexpr int ROWS = 8;

extern "C" __global__ void transpose(const float* __restrict__ A, float* __restrict__ At, int M, int N)
{
    const int row = blockIdx.y * ROWS + threadIdx.y;
    const int col = blockIdx.x * TILE + threadIdx.x;
    if (row < M && col < N) {
        At[row * N + col] = A[row * N + col];
    }
}
