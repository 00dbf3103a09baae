// one_filter_each.cu: right, but one image and one filter a thread: every number is loaded for every product.
// Entry:   multiply(const float2 X[BATCH,C,POINTS,2] in, const float2 W[F,C,POINTS,2] in,
//                   float2 Y[BATCH,F,POINTS,2] out, int BATCH, int C, int F, int POINTS)
// Needs:   BATCH <= 65535, F <= 65535
// Launch:  multiply block=(THREADS) grid=(cdiv(POINTS, THREADS), cdiv(F, FPT), cdiv(BATCH, NPT))

// expect: PERF

constexpr int THREADS = 64;
constexpr int NPT = 1;
constexpr int FPT = 1;

extern "C" __global__ void __launch_bounds__(THREADS)
multiply(const float2* __restrict__ X, const float2* __restrict__ W, float2* __restrict__ Y,
         int BATCH, int C, int F, int POINTS)
{
    const int point = blockIdx.x * THREADS + threadIdx.x;
    const int f0 = blockIdx.y * FPT;
    const int n0 = blockIdx.z * NPT;
    float2 sum[NPT][FPT] = {};

    if (point < POINTS) {
        for (int c = 0; c < C; ++c) {
            float2 a[NPT];
            float2 b[FPT];
            for (int i = 0; i < NPT; ++i) {
                a[i] = X[(min(n0 + i, BATCH - 1) * C + c) * POINTS + point];
            }
            for (int j = 0; j < FPT; ++j) {
                b[j] = W[(min(f0 + j, F - 1) * C + c) * POINTS + point];
            }
            for (int i = 0; i < NPT; ++i) {
                for (int j = 0; j < FPT; ++j) {
                    sum[i][j].x += a[i].x * b[j].x;
                    sum[i][j].x += a[i].y * b[j].y;
                    sum[i][j].y += a[i].y * b[j].x;
                    sum[i][j].y = fmaf(-a[i].x, b[j].y, sum[i][j].y);
                }
            }
        }
        for (int i = 0; i < NPT; ++i) {
            for (int j = 0; j < FPT; ++j) {
                if (n0 + i < BATCH && f0 + j < F) {
                    Y[((n0 + i) * F + f0 + j) * POINTS + point] = sum[i][j];
                }
            }
        }
    }
}
