// no_tiles.cu: right, but the product reads global memory for every multiply-add.
// Entry:   im2col(const float x[BATCH,C,H,W] in, float cols[BATCH,C*R*S,OH*OW] out,
//                 int BATCH, int C, int H, int W, int R, int S, int STRIDE, int PAD)
// Entry:   matmul(const float w[F,C,R,S] in, const float cols[BATCH,C*R*S,OH*OW] in, float y[BATCH,F,OH,OW] out,
//                 int F, int P, int K)
// Sizes:   OH = (H + 2 * PAD - R) / STRIDE + 1, OW = (W + 2 * PAD - S) / STRIDE + 1, P = OH * OW, K = C * R * S
// Needs:   H + 2 * PAD >= R, W + 2 * PAD >= S, C <= 65535, BATCH <= 65535
// Scratch: cols
// Launch:  im2col block=(THREADS) grid=(cdiv(OH * OW, THREADS), C, BATCH)
// Launch:  matmul block=(THREADS) grid=(cdiv(P, TSN), cdiv(F, TSM), BATCH)

// expect: PERF

constexpr int TSM = 16;
constexpr int TSN = 16;
constexpr int TSK = 16;
constexpr int WPTM = 1;
constexpr int WPTN = 1;
constexpr int RTSM = TSM / WPTM;
constexpr int RTSN = TSN / WPTN;
constexpr int THREADS = RTSM * RTSN;

extern "C" __global__ void im2col(const float* __restrict__ x, float* __restrict__ cols,
                                  int BATCH, int C, int H, int W, int R, int S, int STRIDE, int PAD)
{
    const int OH = (H + 2 * PAD - R) / STRIDE + 1;
    const int OW = (W + 2 * PAD - S) / STRIDE + 1;
    const int place = blockIdx.x * THREADS + threadIdx.x;
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
    const int row0 = blockIdx.y * TSM;
    const int col0 = blockIdx.x * TSN;
    const int n = blockIdx.z;
    float sum[WPTM][WPTN] = {};

    for (int k0 = 0; k0 < K; k0 += TSK) {
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
        __syncthreads();
        #pragma unroll 4
        for (int k = 0; k < TSK; ++k) {
            float a[WPTM];
            float b[WPTN];
            for (int i = 0; i < WPTM; ++i) {
                {
                    const int f = row0 + ty + i * RTSM;
                    a[i] = f < F && k0 + k < K ? w[f * K + k0 + k] : 0.0f;
                }
            }
            for (int j = 0; j < WPTN; ++j) {
                {
                    const int place = col0 + tx + j * RTSN;
                    b[j] = k0 + k < K && place < P ? cols[(n * K + k0 + k) * P + place] : 0.0f;
                }
            }
            for (int i = 0; i < WPTM; ++i) {
                for (int j = 0; j < WPTN; ++j) {
                    sum[i][j] += a[i] * b[j];
                }
            }
        }
        __syncthreads();
    }

    for (int i = 0; i < WPTM; ++i) {
        for (int j = 0; j < WPTN; ++j) {
            const int f = row0 + ty + i * RTSM;
            const int place = col0 + tx + j * RTSN;
            if (f < F && place < P) {
                y[(n * F + f) * P + place] = sum[i][j];
            }
        }
    }
}
