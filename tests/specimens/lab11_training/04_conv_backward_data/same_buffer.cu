// same_buffer.cu: stores the next tile where this one is still read.
// Entry:   turn(const float w[F,C,R,S] in, float turned[KP,CP] out, int C, int F, int R, int S)
// Entry:   conv_backward_data(const float dy[BATCH,F,OH,OW] in, const float turned[KP,CP] in,
//                             float dx[BATCH,C,H,W] out, int BATCH, int C, int H, int W, int F, int R, int S,
//                             int STRIDE, int PAD)
// Sizes:   OH = (H + 2 * PAD - R) / STRIDE + 1, OW = (W + 2 * PAD - S) / STRIDE + 1,
//          CP = cdiv(C, TSM) * TSM, KP = cdiv(F * R * S, TSK) * TSK
// Needs:   H + 2 * PAD >= R, W + 2 * PAD >= S, R <= 32, S <= 32
// Scratch: turned
// Launch:  turn block=(256) grid=(cdiv(KP * CP, 256))
// Launch:  conv_backward_data block=(THREADS) grid=(cdiv(BATCH * H * W, TSN), cdiv(C, TSM))

constexpr int TSM = 32;
constexpr int TSN = 128;
constexpr int TSK = 8;
constexpr int WSM = 32;
constexpr int WSN = 32;
constexpr int WPTM = 8;
constexpr int WPTN = 4;
constexpr int RTSM = WSM / WPTM;
constexpr int RTSN = WSN / WPTN;
constexpr int THREADS = (TSM / WSM) * (TSN / WSN) * 32;
constexpr int LOADS_W = (TSM * TSK / 4 + THREADS - 1) / THREADS;
constexpr int COLUMNS = TSN / THREADS;
constexpr int LOAD_AT = 1;
constexpr int STORE_AT = TSK - 2;

__device__ void get_quad(float* to, const float* from)
{
    const float4 quad = *reinterpret_cast<const float4*>(from);
    to[0] = quad.x;
    to[1] = quad.y;
    to[2] = quad.z;
    to[3] = quad.w;
}

__device__ unsigned windows(int first, int count, int stride, int size)
{
    unsigned bits = 0;
    for (int i = 0; i < count; ++i) {
        const int corner = first - i;
        const bool exists = corner >= 0 && corner % stride == 0 && corner / stride < size;
        bits |= (exists ? 1u : 0u) << i;
    }
    return bits;
}

extern "C" __global__ void turn(const float* __restrict__ w, float* __restrict__ turned, int C, int F, int R, int S)
{
    const int CP = (C + TSM - 1) / TSM * TSM;
    const int KP = (F * R * S + TSK - 1) / TSK * TSK;
    const int i = blockIdx.x * 256 + threadIdx.x;
    if (i >= KP * CP) return;
    const int c = i % CP;
    const int f = i / CP / (R * S);
    turned[i] = c < C && f < F ? w[(f * C + c) * (R * S) + i / CP % (R * S)] : 0.0f;
}

extern "C" __global__ void __launch_bounds__(THREADS)
conv_backward_data(const float* __restrict__ dy, const float* __restrict__ turned, float* __restrict__ dx,
                   int BATCH, int C, int H, int W, int F, int R, int S, int STRIDE, int PAD)
{
    __shared__ __align__(16) float tileW[2][TSK][TSM];
    __shared__ __align__(16) float tileY[2][TSK][TSN];
    const int OH = (H + 2 * PAD - R) / STRIDE + 1;
    const int OW = (W + 2 * PAD - S) / STRIDE + 1;
    const int N = BATCH * H * W;
    const int K = F * R * S;
    const int CP = (C + TSM - 1) / TSM * TSM;
    const int thread = threadIdx.x;
    const int warp = thread / 32;
    const int lane = thread % 32;
    const int tx = warp % (TSN / WSN) * WSN + (lane / 4 % (RTSN / 2) * 2 + lane % 2) * 4;
    const int ty = warp / (TSN / WSN) * WSM + (lane / 4 / (RTSN / 2) * 2 + lane / 2 % 2) * 4;
    const int row0 = blockIdx.y * TSM;
    const int col0 = blockIdx.x * TSN;
    float4 nextW[LOADS_W];
    float nextY[COLUMNS][TSK];
    float a[2][WPTM];
    float b[2][WPTN];
    float sum[WPTM][WPTN] = {};

    int corner[COLUMNS] = {};
    unsigned rows[COLUMNS] = {};
    unsigned cols[COLUMNS] = {};
    #pragma unroll
    for (int i = 0; i < COLUMNS; ++i) {
        const int place = col0 + thread + i * THREADS;
        if (place < N) {
            const int below = place / W % H + PAD;
            const int right = place % W + PAD;
            corner[i] = (place / (H * W) * F * OH + below / STRIDE) * OW + right / STRIDE;
            rows[i] = windows(below, R, STRIDE, OH);
            cols[i] = windows(right, S, STRIDE, OW);
        }
    }

    int k = 0;
    int r = 0;
    int s = 0;
    int plane = 0;
    int up = 0;
    int over = 0;
    int r_rest = 0;
    int s_rest = 0;
    const auto load = [&]() {
        #pragma unroll
        for (int i = 0; i < LOADS_W; ++i) {
            const int quad = thread + i * THREADS;
            nextW[i] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
            if (k < K && quad < TSM * TSK / 4) {
                const int at = (k + quad / (TSM / 4)) * CP + row0 + quad % (TSM / 4) * 4;
                nextW[i] = *reinterpret_cast<const float4*>(turned + at);
            }
        }
        #pragma unroll
        for (int j = 0; j < TSK; ++j) {
            #pragma unroll
            for (int i = 0; i < COLUMNS; ++i) {
                const bool meets = k < K && (rows[i] >> r & cols[i] >> s & 1);
                const float slope = dy[meets ? corner[i] + plane - up * OW - over : 0];
                nextY[i][j] = meets ? slope : 0.0f;
            }
            ++k;
            ++s;
            if (++s_rest == STRIDE) {
                s_rest = 0;
                ++over;
            }
            if (s == S) {
                s = s_rest = over = 0;
                ++r;
                if (++r_rest == STRIDE) {
                    r_rest = 0;
                    ++up;
                }
            }
            if (r == R) {
                r = r_rest = up = 0;
                plane += OH * OW;
            }
        }
    };
    const auto store = [&](int buffer) {
        #pragma unroll
        for (int i = 0; i < LOADS_W; ++i) {
            const int quad = thread + i * THREADS;
            if (quad < TSM * TSK / 4) {
                *reinterpret_cast<float4*>(&tileW[buffer][quad / (TSM / 4)][quad % (TSM / 4) * 4]) = nextW[i];  // expect: RACE
            }
        }
        #pragma unroll
        for (int i = 0; i < COLUMNS; ++i) {
            #pragma unroll
            for (int j = 0; j < TSK; ++j) {
                tileY[buffer][j][thread + i * THREADS] = nextY[i][j];
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
            get_quad(&b[j % 2][i], &tileY[buffer][j][tx + i * RTSN]);
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
                    store(buffer);
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
            const int c = row0 + ty + i / 4 * 4 * RTSM + i % 4;
            if (c < C && H * W % 4 == 0 && place < N) {
                float* to = dx + (place / (H * W) * C + c) * (H * W) + place % (H * W);
                *reinterpret_cast<float4*>(to) =
                    make_float4(sum[i][j], sum[i][j + 1], sum[i][j + 2], sum[i][j + 3]);
            } else if (c < C) {
                #pragma unroll
                for (int e = 0; e < 4; ++e) {
                    const int p = place + e;
                    if (p < N) {
                        dx[(p / (H * W) * C + c) * (H * W) + p % (H * W)] = sum[i][j + e];
                    }
                }
            }
        }
    }
}
