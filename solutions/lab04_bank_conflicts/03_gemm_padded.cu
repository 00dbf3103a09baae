// 03_gemm_padded.cu: C = A * Bt^T with two unused floats at the end of each row of tileB.
// Idea:    the lanes of a warp read a column of tileB. Rows of TILE + 2 floats put its elements into different
//          banks, and, unlike TILE + 1, keep every pair of floats aligned: two steps of k in one 64-bit load.
//          Such a load takes 16 lanes at a time, whose 16 pairs fill the 32 banks exactly.
// From:    lab03_coalescing/04_gemm_bt.cu
// Limits:  still three loads from shared memory for four FMAs; of tileA the compiler takes two pairs at once.
// Entry:   matmul_bt(const float A[M,K] in, const float Bt[N,K] in, float C[M,N] out, int M, int N, int K)
// Launch:  matmul_bt block=(TILE, TILE) grid=(cdiv(N, TILE), cdiv(M, TILE))

constexpr int TILE = 32;  // a block computes TILE x TILE elements of C; a warp loads one row of a tile
// BEGIN SOLUTION: floats that separate the banks of neighbouring rows and keep pairs aligned (about 1 line)
constexpr int PAD = 2;
// END SOLUTION
// BEGIN STARTER
//| constexpr int PAD = 0;
// END STARTER

static_assert(TILE * TILE <= 1024, "one thread per element of the tile, and a block has at most 1024");
static_assert((TILE + PAD) % 2 == 0, "a 64-bit load needs an address that is a multiple of 8 bytes");

extern "C" __global__ void matmul_bt(const float* __restrict__ A, const float* __restrict__ Bt,
                                     float* __restrict__ C, int M, int N, int K)
{
    __shared__ __align__(8) float tileA[TILE][TILE];        // rows of C along k
    __shared__ __align__(8) float tileB[TILE][TILE + PAD];  // columns of C along k
    const int x = threadIdx.x;
    const int y = threadIdx.y;
    const int row = blockIdx.y * TILE + y;
    const int col = blockIdx.x * TILE + x;
    float sum = 0.0f;

    for (int k0 = 0; k0 < K; k0 += TILE) {
        const int k1 = k0 + x;
        const int colB = blockIdx.x * TILE + y;  // the row of Bt that this thread helps to load
        tileA[y][x] = row < M && k1 < K ? A[row * K + k1] : 0.0f;
        tileB[y][x] = colB < N && k1 < K ? Bt[colB * K + k1] : 0.0f;
        __syncthreads();  // the tiles are complete
        // BEGIN SOLUTION: add TILE products, two at a time, from float2 loads (about 7 lines)
        #pragma unroll 4  // unrolled as a whole, the compiler takes some of the pairs apart again
        for (int k = 0; k < TILE; k += 2) {
            const float2 a = *reinterpret_cast<const float2*>(&tileA[y][k]);
            const float2 b = *reinterpret_cast<const float2*>(&tileB[x][k]);
            sum += a.x * b.x;
            sum += a.y * b.y;
        }
        // END SOLUTION
        __syncthreads();  // nobody reads them any more
    }

    if (row < M && col < N) {
        C[row * N + col] = sum;
    }
}
