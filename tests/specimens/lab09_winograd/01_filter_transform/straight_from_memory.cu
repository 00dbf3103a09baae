// straight_from_memory.cu: each lane reads the nine weights of its own filter: rows of C * 9 floats apart.
// Entry:   filter_transform(const float w[F,C,3,3] in, float U[SIDE*SIDE,C,F] out, int F, int C)
// Launch:  filter_transform block=(TSF, TSC) grid=(cdiv(F, TSF), cdiv(C, TSC))

constexpr int TILE = 4;
constexpr int SIDE = TILE + 2;
constexpr int TSF = 32;
constexpr int TSC = 8;
constexpr int ROW = TSC * 9;

__device__ void transform_filter(float (&u)[4], float g0, float g1, float g2)
{
    const float outer = 0.5f * (g0 + g2);
    u[0] = g0;
    u[1] = outer + 0.5f * g1;
    u[2] = outer - 0.5f * g1;
    u[3] = g2;
}

__device__ void transform_filter(float (&u)[6], float g0, float g1, float g2)
{
    const float sixth = g2 * (1.0f / 6.0f);
    const float ones = fmaf(g0, 1.0f / 6.0f, sixth);
    const float twos = fmaf(g0, 1.0f / 24.0f, sixth);
    u[0] = g0 * 0.25f;
    u[1] = fmaf(g1, -1.0f / 6.0f, -ones);
    u[2] = fmaf(g1, 1.0f / 6.0f, -ones);
    u[3] = fmaf(g1, 1.0f / 12.0f, twos);
    u[4] = fmaf(g1, -1.0f / 12.0f, twos);
    u[5] = g2;
}

extern "C" __global__ void __launch_bounds__(TSF * TSC)
filter_transform(const float* __restrict__ w, float* __restrict__ U, int F, int C)
{
    __shared__ float rows[TSF][ROW + 1];
    const int lane = threadIdx.x;
    const int warp = threadIdx.y;
    const int f0 = blockIdx.x * TSF;
    const int c0 = blockIdx.y * TSC;
    const int f = f0 + lane;
    const int c = c0 + warp;
    const int valid = min(TSC, C - c0) * 9;

    for (int row = warp; row < TSF && f0 + row < F; row += TSC) {
        for (int i = lane; i < valid; i += TSF) {
            rows[row][i] = w[(static_cast<size_t>(f0 + row) * C + c0) * 9 + i];
        }
    }
    __syncthreads();
    if (f < F && c < C) {
        const float* g = w + (static_cast<size_t>(f) * C + c) * 9;
        float middle[3][SIDE];
        #pragma unroll
        for (int s = 0; s < 3; ++s) {
            transform_filter(middle[s], g[s], g[3 + s], g[6 + s]);  // expect: PERF
        }
        float* to = U + static_cast<size_t>(c) * F + f;
        const size_t position = static_cast<size_t>(C) * F;
        #pragma unroll
        for (int i = 0; i < SIDE; ++i) {
            float u[SIDE];
            transform_filter(u, middle[0][i], middle[1][i], middle[2][i]);
            #pragma unroll
            for (int j = 0; j < SIDE; ++j) {
                to[(i * SIDE + j) * position] = u[j];
            }
        }
    }
}
