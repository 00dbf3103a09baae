// 01_row_per_thread.cu: C = A * B, one thread per element of C, and x on the wrong or on the right axis.
// Idea:    the 32 lanes of a warp are neighbours along x. Where x runs along the columns they read neighbours
//          of B, write neighbours of C and share one element of A: as few sectors as there can be. Where x
//          runs along the rows every lane needs a sector of its own, of which it uses 4 of 32 bytes.
// From:    lab01_naive_gemm/01_naive.cu
// Limits:  still two loads for every FMA; only their cost has changed.
// Entry:   matmul(const float A[M,K] in, const float B[K,N] in, float C[M,N] out, int M, int N, int K)
// Launch:  matmul block=(BLOCK_X, BLOCK_Y) grid=(cdiv(max(M, N), BLOCK_X), cdiv(max(M, N), BLOCK_Y))

constexpr int BLOCK_X = 32;  // one warp is one row of a block
constexpr int BLOCK_Y = 8;

static_assert(BLOCK_X * BLOCK_Y <= 1024, "a block has at most 1024 threads");

// The grid covers C whichever of M and N belongs to x: threads outside C do nothing.
extern "C" __global__ void matmul(const float* __restrict__ A, const float* __restrict__ B,
                                  float* __restrict__ C, int M, int N, int K)
{
    // BEGIN SOLUTION: x walks along the columns, y along the rows (about 2 lines)
    const int row = blockIdx.y * BLOCK_Y + threadIdx.y;
    const int col = blockIdx.x * BLOCK_X + threadIdx.x;
    // END SOLUTION
    // BEGIN STARTER
    //| const int row = blockIdx.x * BLOCK_X + threadIdx.x;
    //| const int col = blockIdx.y * BLOCK_Y + threadIdx.y;
    // END STARTER
    float sum = 0.0f;

    if (row < M && col < N) {
        for (int k = 0; k < K; ++k) {
            sum += A[row * K + k] * B[k * N + col];
        }
        C[row * N + col] = sum;
    }
}
