// 03_rectangular.cu: C = A * Bt^T with a tile size of its own for each dimension, and WPTM results per thread.
// Idea:    shared memory has room for more than two square tiles of 32. TSM and TSN decide how often an element
//          is used again, TSK only how often the block waits at a barrier: three sizes, chosen one by one.
// From:    lab04_bank_conflicts/03_gemm_padded.cu
// Limits:  work is shared in one dimension only: tileA is still read once for every FMA. A branch, not a step
//          of the ladder: it takes the transposed B.
// Entry:   matmul_bt(const float A[M,K] in, const float Bt[N,K] in, float C[M,N] out, int M, int N, int K)
// Launch:  matmul_bt block=(TSN, RTSM) grid=(cdiv(N, TSN), cdiv(M, TSM))

constexpr int TSM = 64;           // a block computes TSM x TSN elements of C
constexpr int TSN = 64;
constexpr int TSK = 32;           // steps of k in one tile; a warp loads one row of a tile
constexpr int WPTM = 8;           // work per thread: rows of C
constexpr int RTSM = TSM / WPTM;  // reduced tile size: rows of threads in a block
constexpr int PAD = 2;            // floats that separate the banks of neighbouring rows and keep pairs aligned

static_assert(TSM % WPTM == 0, "the threads' elements cover the tile exactly");
static_assert(TSN % 32 == 0, "a warp lies in one row of threads: its lanes read the same pair of tileA");
static_assert(TSK % 32 == 0, "a warp loads 32 neighbours of one row");
static_assert(TSN * RTSM <= 1024, "a block has at most 1024 threads");

extern "C" __global__ void matmul_bt(const float* __restrict__ A, const float* __restrict__ Bt,
                                     float* __restrict__ C, int M, int N, int K)
{
    __shared__ __align__(8) float tileA[TSM][TSK];        // rows of C along k
    __shared__ __align__(8) float tileB[TSN][TSK + PAD];  // columns of C along k
    const int x = threadIdx.x;
    const int y = threadIdx.y;
    const int row0 = blockIdx.y * TSM;
    const int col0 = blockIdx.x * TSN;
    float sum[WPTM] = {};

    for (int k0 = 0; k0 < K; k0 += TSK) {
        // BEGIN SOLUTION: all threads load all of both tiles; add TSK products to each sum (about 20 lines)
        // END SOLUTION
    }

    for (int w = 0; w < WPTM; ++w) {
        const int row = row0 + y + w * RTSM;
        if (row < M && col0 + x < N) {
            C[row * N + col0 + x] = sum[w];
        }
    }
}
