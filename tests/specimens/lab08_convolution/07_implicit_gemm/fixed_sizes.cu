// fixed_sizes.cu: compiled for filters of 3 x 3 only.
// Entry:   conv(const float x[BATCH,C,H,W] in, const float w[F,C,R,S] in, float y[BATCH,F,OH,OW] out,
//               int BATCH, int C, int H, int W, int F, int R, int S, int STRIDE, int PAD)
// Sizes:   OH = (H + 2 * PAD - R) / STRIDE + 1, OW = (W + 2 * PAD - S) / STRIDE + 1
// Needs:   H + 2 * PAD >= R, W + 2 * PAD >= S, R <= 32, S <= 32, FIXED_R * (R - FIXED_R) == 0,
//          FIXED_S * (S - FIXED_S) == 0, FIXED_STRIDE * (STRIDE - FIXED_STRIDE) == 0,
//          (FIXED_PAD + 1) * (PAD - FIXED_PAD) == 0
// Launch:  conv block=(THREADS) grid=(cdiv(BATCH * OH * OW, TSN), cdiv(F, TSM))

// expect: LE line 5

constexpr int FIXED_R = 3;
constexpr int FIXED_S = 3;
constexpr int FIXED_STRIDE = 0;
constexpr int FIXED_PAD = -1;
constexpr int TSM = 64;
constexpr int TSN = 128;
constexpr int TSK = 8;
constexpr int WSM = 32;
constexpr int WSN = 64;
constexpr int WPTM = 8;
constexpr int WPTN = 8;
constexpr int RTSM = WSM / WPTM;
constexpr int RTSN = WSN / WPTN;
constexpr int THREADS = (TSM / WSM) * (TSN / WSN) * 32;
constexpr int PAD_M = 4;
constexpr int LOADS_W = (TSM * TSK / 4 + THREADS - 1) / THREADS;
constexpr int COLUMNS = TSN / THREADS;
constexpr int LOAD_AT = 1;
constexpr int STORE_AT = TSK - 2;

__device__ float4 load_quad(const float* matrix, int rows, int cols, int row, int col)
{
    float4 quad = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    if (row < rows && col < cols) {
        const float* from = matrix + row * cols + col;
        if (cols % 4 == 0) {
            quad = *reinterpret_cast<const float4*>(from);
        } else {
            quad.x = from[0];
            if (col + 1 < cols) quad.y = from[1];
            if (col + 2 < cols) quad.z = from[2];
            if (col + 3 < cols) quad.w = from[3];
        }
    }
    return quad;
}

__device__ void get_quad(float* to, const float* from)
{
    const float4 quad = *reinterpret_cast<const float4*>(from);
    to[0] = quad.x;
    to[1] = quad.y;
    to[2] = quad.z;
    to[3] = quad.w;
}

__device__ unsigned inside(int first, int count, int size)
{
    unsigned bits = 0;
    for (int i = 0; i < count; ++i) {
        bits |= (0 <= first + i && first + i < size ? 1u : 0u) << i;
    }
    return bits;
}

__device__ int row_of_W(int thread, int i) { return (thread + i * THREADS) / 2; }
__device__ int k_of_W(int thread, int i) { return (thread + i * THREADS) % 2 * 4; }

extern "C" __global__ void __launch_bounds__(THREADS)
conv(const float* __restrict__ x, const float* __restrict__ w, float* __restrict__ y,
     int BATCH, int C, int H, int W, int F, int R, int S, int STRIDE, int PAD)
{
    __shared__ __align__(16) float tileW[2][TSK][TSM + PAD_M];
    __shared__ __align__(16) float tileX[2][TSK][TSN];
    if (FIXED_R > 0) R = FIXED_R;
    if (FIXED_S > 0) S = FIXED_S;
    if (FIXED_STRIDE > 0) STRIDE = FIXED_STRIDE;
    if (FIXED_PAD >= 0) PAD = FIXED_PAD;
    const int OH = (H + 2 * PAD - R) / STRIDE + 1;
    const int OW = (W + 2 * PAD - S) / STRIDE + 1;
    const int N = BATCH * OH * OW;
    const int K = C * R * S;
    const int thread = threadIdx.x;
    const int warp = thread / 32;
    const int lane = thread % 32;
    const int tx = warp % (TSN / WSN) * WSN + (lane / 4 % (RTSN / 2) * 2 + lane % 2) * 4;
    const int ty = warp / (TSN / WSN) * WSM + (lane / 4 / (RTSN / 2) * 2 + lane / 2 % 2) * 4;
    const int row0 = blockIdx.y * TSM;
    const int col0 = blockIdx.x * TSN;
    float4 nextW[LOADS_W];
    float nextX[COLUMNS][TSK];
    float a[2][WPTM];
    float b[2][WPTN];
    float sum[WPTM][WPTN] = {};

    int corner[COLUMNS] = {};
    unsigned rows[COLUMNS] = {};
    unsigned cols[COLUMNS] = {};
    for (int i = 0; i < COLUMNS; ++i) {
        const int place = col0 + thread + i * THREADS;
        if (place < N) {
            const int n = place / (OH * OW);
            const int top = place / OW % OH * STRIDE - PAD;
            const int left = place % OW * STRIDE - PAD;
            corner[i] = (n * C * H + top) * W + left;
            rows[i] = inside(top, R, H);
            cols[i] = inside(left, S, W);
        }
    }

    int k = 0;
    int r = 0;
    int s = 0;
    int offset = 0;
    const auto load = [&]() {
        #pragma unroll
        for (int i = 0; i < LOADS_W; ++i) {
            if ((i + 1) * THREADS <= TSM * TSK / 4 || thread + i * THREADS < TSM * TSK / 4) {
                nextW[i] = load_quad(w, F, K, row0 + row_of_W(thread, i), k + k_of_W(thread, i));
            }
        }
        #pragma unroll
        for (int j = 0; j < TSK; ++j) {
            #pragma unroll
            for (int i = 0; i < COLUMNS; ++i) {
                const bool is_inside = k < K && (rows[i] >> r & cols[i] >> s & 1);
                nextX[i][j] = is_inside ? x[corner[i] + offset] : 0.0f;
            }
            ++k;
            ++s;
            ++offset;
            if (s == S) {
                s = 0;
                ++r;
                offset += W - S;
            }
            if (r == R) {
                r = 0;
                offset += (H - R) * W;
            }
        }
    };
    const auto store = [&](int buffer) {
        #pragma unroll
        for (int i = 0; i < LOADS_W; ++i) {
            if ((i + 1) * THREADS <= TSM * TSK / 4 || thread + i * THREADS < TSM * TSK / 4) {
                float* to = &tileW[buffer][k_of_W(thread, i)][row_of_W(thread, i)];
                to[0] = nextW[i].x;
                to[TSM + PAD_M] = nextW[i].y;
                to[2 * (TSM + PAD_M)] = nextW[i].z;
                to[3 * (TSM + PAD_M)] = nextW[i].w;
            }
        }
        #pragma unroll
        for (int i = 0; i < COLUMNS; ++i) {
            #pragma unroll
            for (int j = 0; j < TSK; ++j) {
                tileX[buffer][j][thread + i * THREADS] = nextX[i][j];
            }
        }
    };
    const auto fetch = [&](int buffer, int j) {
        #pragma unroll
        for (int i = 0; i < WPTM; i += 4) {
            get_quad(&a[j % 2][i], &tileW[buffer][j][ty + i * RTSM]);
        }
        #pragma unroll
        for (int i = 0; i < WPTN; i += 4) {
            get_quad(&b[j % 2][i], &tileX[buffer][j][tx + i * RTSN]);
        }
    };

    load();
    store(0);
    __syncthreads();
    fetch(0, 0);
    for (int k0 = 0; k0 < K; k0 += 2 * TSK) {
        #pragma unroll
        for (int buffer = 0; buffer < 2; ++buffer) {
            #pragma unroll
            for (int j = 0; j < TSK; ++j) {
                if (j == LOAD_AT) {
                    load();
                }
                if (j == STORE_AT) {
                    store(1 - buffer);
                }
                if (j + 1 < TSK) {
                    fetch(buffer, j + 1);
                } else {
                    __syncthreads();
                    fetch(1 - buffer, 0);
                }
                #pragma unroll
                for (int i = 0; i < WPTM; ++i) {
                    #pragma unroll
                    for (int turn = 0; turn < WPTN; ++turn) {
                        const int l = i % 2 == 0 ? turn : WPTN - 1 - turn;
                        sum[i][l] += a[j % 2][i] * b[j % 2][l];
                    }
                }
            }
        }
    }

    #pragma unroll
    for (int j = 0; j < WPTN; j += 4) {
        const int place = col0 + tx + j * RTSN;
        #pragma unroll
        for (int i = 0; i < WPTM; ++i) {
            const int f = row0 + ty + i / 4 * 4 * RTSM + i % 4;
            if (f < F && OH * OW % 4 == 0 && place < N) {
                float* to = y + (place / (OH * OW) * F + f) * (OH * OW) + place % (OH * OW);
                *reinterpret_cast<float4*>(to) =
                    make_float4(sum[i][j], sum[i][j + 1], sum[i][j + 2], sum[i][j + 3]);
            } else if (f < F) {
                #pragma unroll
                for (int e = 0; e < 4; ++e) {
                    const int p = place + e;
                    if (p < N) {
                        y[(p / (OH * OW) * F + f) * (OH * OW) + p % (OH * OW)] = sum[i][j + e];
                    }
                }
            }
        }
    }
}
