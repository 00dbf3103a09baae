// 06_im2col_gemm.cu: a convolution as im2col and one product of matrices for each image.
// Idea:    the filters are a matrix [F, C*R*S] as they stand in memory, and filters times cols is [F, OH*OW]: the
//          results of an image as they must stand in memory. The product is lab 05's, with z for the images: they
//          share the filters and have a matrix of their own each.
// From:    05_im2col.cu
// Limits:  cols goes to memory and comes back: R * S times the image, twice.
// Entry:   im2col(const float x[BATCH,C,H,W] in, float cols[BATCH,C*R*S,OH*OW] out,
//                 int BATCH, int C, int H, int W, int R, int S, int STRIDE, int PAD)
// Entry:   matmul(const float w[F,C,R,S] in, const float cols[BATCH,C*R*S,OH*OW] in, float y[BATCH,F,OH,OW] out,
//                 int F, int P, int K)
// Sizes:   OH = (H + 2 * PAD - R) / STRIDE + 1, OW = (W + 2 * PAD - S) / STRIDE + 1, P = OH * OW, K = C * R * S
// Needs:   H + 2 * PAD >= R, W + 2 * PAD >= S, C <= 65535, BATCH <= 65535
// Scratch: cols
// Launch:  im2col block=(THREADS) grid=(cdiv(OH * OW, THREADS), C, BATCH)
// Launch:  matmul block=(THREADS) grid=(cdiv(P, TSN), cdiv(F, TSM), BATCH)

constexpr int TSM = 64;           // a block computes TSM x TSN elements of an image's product
constexpr int TSN = 64;
constexpr int TSK = 16;           // steps of k in one tile
constexpr int WPTM = 4;           // work per thread: WPTM x WPTN elements
constexpr int WPTN = 4;
constexpr int RTSM = TSM / WPTM;  // reduced tile sizes: threads along the rows and columns of a block
constexpr int RTSN = TSN / WPTN;
constexpr int THREADS = RTSM * RTSN;

static_assert(TSM % WPTM == 0 && TSN % WPTN == 0, "the threads' elements cover the tile exactly");
static_assert(RTSN % 16 == 0, "the lanes of a warp read neighbours of tileX, and few different rows of tileW");
static_assert(THREADS <= 1024, "a block has at most 1024 threads");

extern "C" __global__ void im2col(const float* __restrict__ x, float* __restrict__ cols,
                                  int BATCH, int C, int H, int W, int R, int S, int STRIDE, int PAD)
{
    const int OH = (H + 2 * PAD - R) / STRIDE + 1;
    const int OW = (W + 2 * PAD - S) / STRIDE + 1;
    const int place = blockIdx.x * THREADS + threadIdx.x;  // (i, j), the column of cols
    const int c = blockIdx.y;
    const int n = blockIdx.z;

    if (place < OH * OW) {
        const int top = place / OW * STRIDE - PAD;
        const int left = place % OW * STRIDE - PAD;
        for (int r = 0; r < R; ++r) {
            for (int s = 0; s < S; ++s) {
                const int h = top + r;
                const int v = left + s;
                const bool inside = 0 <= h && h < H && 0 <= v && v < W;
                const int k = (c * R + r) * S + s;
                cols[(n * C * R * S + k) * OH * OW + place] = inside ? x[((n * C + c) * H + h) * W + v] : 0.0f;
            }
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
matmul(const float* __restrict__ w, const float* __restrict__ cols, float* __restrict__ y, int F, int P, int K)
{
    __shared__ float tileW[TSM][TSK];
    __shared__ float tileX[TSK][TSN];
    const int thread = threadIdx.x;
    const int tx = thread % RTSN;
    const int ty = thread / RTSN;
    const int row0 = blockIdx.y * TSM;  // the block's first filter
    const int col0 = blockIdx.x * TSN;  // and first place
    const int n = blockIdx.z;           // and its image
    float sum[WPTM][WPTN] = {};

    for (int k0 = 0; k0 < K; k0 += TSK) {
        // BEGIN SOLUTION: both tiles, zero past the edges: tileW from w, tileX from image n of cols (about 10 lines)
        for (int i = thread; i < TSM * TSK; i += THREADS) {
            const int f = row0 + i / TSK;
            const int k = k0 + i % TSK;
            tileW[i / TSK][i % TSK] = f < F && k < K ? w[f * K + k] : 0.0f;
        }
        for (int i = thread; i < TSK * TSN; i += THREADS) {
            const int k = k0 + i / TSN;
            const int place = col0 + i % TSN;
            tileX[i / TSN][i % TSN] = k < K && place < P ? cols[(n * K + k) * P + place] : 0.0f;
        }
        // END SOLUTION
        __syncthreads();  // the tiles are complete
        #pragma unroll 4
        for (int k = 0; k < TSK; ++k) {
            float a[WPTM];
            float b[WPTN];
            for (int i = 0; i < WPTM; ++i) {
                a[i] = tileW[ty + i * RTSM][k];
            }
            for (int j = 0; j < WPTN; ++j) {
                b[j] = tileX[k][tx + j * RTSN];
            }
            for (int i = 0; i < WPTM; ++i) {
                for (int j = 0; j < WPTN; ++j) {
                    sum[i][j] += a[i] * b[j];
                }
            }
        }
        __syncthreads();  // nobody reads them any more
    }

    // BEGIN SOLUTION: write WPTM x WPTN results of image n, except those outside (about 9 lines)
    for (int i = 0; i < WPTM; ++i) {
        for (int j = 0; j < WPTN; ++j) {
            const int f = row0 + ty + i * RTSM;
            const int place = col0 + tx + j * RTSN;
            if (f < F && place < P) {
                y[(n * F + f) * P + place] = sum[i][j];
            }
        }
    }
    // END SOLUTION
}
