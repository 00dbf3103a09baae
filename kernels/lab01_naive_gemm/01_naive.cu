// 01_naive.cu: C = A * B, one thread per element of C.
// Idea:    a thread walks along a row of A and down a column of B and keeps the sum in a register.
// Limits:  every multiply-add loads both its operands anew: the kernel waits for loads, not for arithmetic.
// Entry:   matmul(const float A[M,K] in, const float B[K,N] in, float C[M,N] out, int M, int N, int K)
// Launch:  matmul block=(TILE, TILE) grid=(cdiv(N, TILE), cdiv(M, TILE))

constexpr int TILE = 16;  // a block computes TILE x TILE elements of C

static_assert(TILE * TILE <= 1024, "one thread per element of the tile, and a block has at most 1024");

extern "C" __global__ void matmul(const float* __restrict__ A, const float* __restrict__ B,
                                  float* __restrict__ C, int M, int N, int K)
{
    const int row = blockIdx.y * TILE + threadIdx.y;
    const int col = blockIdx.x * TILE + threadIdx.x;
    float sum = 0.0f;

    // BEGIN SOLUTION: if (row, col) is inside C, sum over k and store (about 6 lines)
    // END SOLUTION
}
