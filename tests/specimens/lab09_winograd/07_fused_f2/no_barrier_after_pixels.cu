// no_barrier_after_pixels.cu: transforms pixels that other warps have not loaded yet.
// Entry:   fused_f2(const float x[BATCH,C,H,W] in, const float w[F,C,3,3] in,
//                   float y[BATCH,F,H+2*PAD-2,W+2*PAD-2] out, int BATCH, int C, int H, int W, int F, int PAD)
// Sizes:   OH = H + 2*PAD - 2, OW = W + 2*PAD - 2
// Needs:   H + 2*PAD >= 3, W + 2*PAD >= 3, BATCH <= 65535
// Launch:  fused_f2 block=(THREADS) grid=(cdiv(OW, 2*TILES_X) * cdiv(OH, 2*TILES_Y), cdiv(F, TSF), BATCH)

constexpr int TILES_Y = 4;
constexpr int TILES_X = 8;
constexpr int TILES = TILES_Y * TILES_X;
constexpr int TSF = 64;
constexpr int TSC = 4;
constexpr int THREADS = 256;
constexpr int POSITIONS = 16;
constexpr int OWN = 2;
constexpr int WPT = 8;
constexpr int ROWS = 2 * TILES_Y + 2;
constexpr int COLS = 2 * TILES_X + 2;
constexpr int PITCH = 24;
constexpr int ROUND = 8;
constexpr int SPREAD = TILES + 16;

__device__ void transform_filter(float (&u)[4], float g0, float g1, float g2)
{
    const float outer = 0.5f * (g0 + g2);
    u[0] = g0;
    u[1] = outer + 0.5f * g1;
    u[2] = outer - 0.5f * g1;
    u[3] = g2;
}

__device__ void transform_input(float (&d)[4])
{
    const float first = d[0] - d[2];
    const float last = d[1] - d[3];
    const float plus = d[1] + d[2];
    d[2] = d[2] - d[1];
    d[0] = first;
    d[1] = plus;
    d[3] = last;
}

__device__ void get_quad(float* to, const float* from)
{
    const float4 quad = *reinterpret_cast<const float4*>(from);
    to[0] = quad.x;
    to[1] = quad.y;
    to[2] = quad.z;
    to[3] = quad.w;
}

extern "C" __global__ void __launch_bounds__(THREADS)
fused_f2(const float* __restrict__ x, const float* __restrict__ w, float* __restrict__ y,
         int BATCH, int C, int H, int W, int F, int PAD)
{
    __shared__ __align__(16) float memory[POSITIONS * TSC * (TSF + TILES)];
    __shared__ __align__(16) float pixels[TSC][ROWS][PITCH];
    __shared__ float weights[TSF][TSC * 9 + 1];
    float* const tileU = memory;
    float* const tileV = memory + POSITIONS * TSC * TSF;
    const int OH = H + 2 * PAD - 2;
    const int OW = W + 2 * PAD - 2;
    const int across = (OW + 2 * TILES_X - 1) / (2 * TILES_X);
    const int row0 = blockIdx.x / across * 2 * TILES_Y;
    const int col0 = blockIdx.x % across * 2 * TILES_X;
    const int f0 = blockIdx.y * TSF;
    const int thread = threadIdx.x;
    const int warp = thread / 32;
    const int lane = thread % 32;
    const int fy = lane / 4 * 4;
    const int px = lane % 4 * 4;
    const float* image = x + static_cast<size_t>(blockIdx.z) * C * H * W;
    float sum[OWN][WPT][WPT] = {};

    for (int c0 = 0; c0 < C; c0 += TSC) {
        for (int i = warp; i < TSC * ROWS; i += THREADS / 32) {
            const int c = i / ROWS;
            const int row = row0 - PAD + i % ROWS;
            const int col = col0 - PAD + lane;
            const bool inside = c0 + c < C && row >= 0 && row < H && col >= 0 && col < W;
            const float* from = image + (static_cast<size_t>(c0 + c) * H + row) * W + col;
            if (lane < COLS) pixels[c][i % ROWS][lane] = inside ? *from : 0.0f;
        }
        for (int f = warp; f < TSF; f += THREADS / 32) {
            for (int i = lane; i < TSC * 9; i += 32) {
                const bool exists = f0 + f < F && c0 + i / 9 < C;
                weights[f][i] = exists ? w[(static_cast<size_t>(f0 + f) * C + c0) * 9 + i] : 0.0f;
            }
        }
        {
            const int f = thread % TSF;
            const int c = thread / TSF;
            const float* g = &weights[f][c * 9];
            float middle[3][4];
            #pragma unroll
            for (int s = 0; s < 3; ++s) transform_filter(middle[s], g[s], g[3 + s], g[6 + s]);  // expect: RACE
            #pragma unroll
            for (int i = 0; i < 4; ++i) {
                float u[4];
                transform_filter(u, middle[0][i], middle[1][i], middle[2][i]);
                #pragma unroll
                for (int j = 0; j < 4; ++j) tileU[((i * 4 + j) * TSC + c) * TSF + f] = u[j];
            }
        }
        if (warp < TSC) {
            float d[4][4];
            #pragma unroll
            for (int i = 0; i < 4; ++i) {
                const float* from = &pixels[warp][lane / TILES_X * 2 + i][lane % TILES_X * 2];
                const float2 left = *reinterpret_cast<const float2*>(from);
                const float2 right = *reinterpret_cast<const float2*>(from + 2);
                d[i][0] = left.x;
                d[i][1] = left.y;
                d[i][2] = right.x;
                d[i][3] = right.y;
            }
            #pragma unroll
            for (int j = 0; j < 4; ++j) {
                float column[4] = {d[0][j], d[1][j], d[2][j], d[3][j]};
                transform_input(column);
                #pragma unroll
                for (int i = 0; i < 4; ++i) d[i][j] = column[i];
            }
            #pragma unroll
            for (int i = 0; i < 4; ++i) {
                transform_input(d[i]);
                #pragma unroll
                for (int j = 0; j < 4; ++j) tileV[((i * 4 + j) * TSC + warp) * TILES + lane] = d[i][j];
            }
        }
        __syncthreads();
        #pragma unroll
        for (int c = 0; c < TSC; ++c) {
            #pragma unroll
            for (int own = 0; own < OWN; ++own) {
                const int row = (warp * OWN + own) * TSC + c;
                float u[WPT];
                float v[WPT];
                get_quad(u, tileU + row * TSF + fy);
                get_quad(u + 4, tileU + row * TSF + TSF / 2 + fy);
                get_quad(v, tileV + row * TILES + px);
                get_quad(v + 4, tileV + row * TILES + TILES / 2 + px);
                #pragma unroll
                for (int i = 0; i < WPT; ++i) {
                    #pragma unroll
                    for (int j = 0; j < WPT; ++j) {
                        sum[own][i][j] += u[i] * v[j];
                    }
                }
            }
        }
        __syncthreads();
    }

    #pragma unroll
    for (int i = 0; i < WPT; ++i) {
        #pragma unroll
        for (int own = 0; own < OWN; ++own) {
            #pragma unroll
            for (int j = 0; j < WPT; j += 4) {
                const int row = (warp * OWN + own) * ROUND + lane / 4;
                reinterpret_cast<float4*>(memory)[row * (SPREAD / 4) + j / 4 * (TILES / 8) + lane % 4] =
                    make_float4(sum[own][i][j], sum[own][i][j + 1], sum[own][i][j + 2], sum[own][i][j + 3]);
            }
        }
        __syncthreads();
        const int f = f0 + i / 4 * (TSF / 2) + warp * 4 + i % 4;
        const int row = row0 + lane / TILES_X * 2;
        const int col = col0 + lane % TILES_X * 2;
        const float* from = memory + warp * SPREAD + lane;
        const int position = ROUND * SPREAD;
        float middle[2][4];
        #pragma unroll
        for (int j = 0; j < 4; ++j) {
            const float m1 = from[(4 + j) * position];
            const float m2 = from[(8 + j) * position];
            middle[0][j] = from[j * position] + m1 + m2;
            middle[1][j] = m1 - m2 - from[(12 + j) * position];
        }
        #pragma unroll
        for (int k = 0; k < 2; ++k) {
            const float first = middle[k][0] + middle[k][1] + middle[k][2];
            const float second = middle[k][1] - middle[k][2] - middle[k][3];
            if (f < F && row + k < OH) {
                float* to = y + ((static_cast<size_t>(blockIdx.z) * F + f) * OH + row + k) * OW + col;
                if (col < OW) to[0] = first;
                if (col + 1 < OW) to[1] = second;
            }
        }
        __syncthreads();
    }
}
