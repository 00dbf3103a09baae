// same_buffer.cu: the next tile goes into the buffer that is being multiplied.
// Entry:   result_gradient(const float dy[BATCH,F,H / POOL,W / POOL] in,
//                          const unsigned char choice[BATCH,F,H / POOL,W / POOL] in,
//                          float dM[SIDE*SIDE,F,BATCH*TY*TX] out, int BATCH, int F, int H, int W)
// Entry:   product_gradient(const float U[SIDE*SIDE,C,F] in, const float dM[SIDE*SIDE,F,BATCH*TY*TX] in,
//                           float dV[SIDE*SIDE,C,BATCH*TY*TX] out, int BATCH, int C, int F, int H, int W)
// Entry:   image_gradient(const float dV[SIDE*SIDE,C,BATCH*TY*TX] in, float dx[BATCH,C,H,W] out,
//                         int BATCH, int C, int H, int W)
// Sizes:   TY = cdiv(H, TILE), TX = cdiv(W, TILE)
// Needs:   C <= 65535, F <= 65535, H >= POOL, W >= POOL
// Launch:  result_gradient block=(THREADS) grid=(cdiv(BATCH*TY*TX, THREADS), F)
// Launch:  product_gradient block=(LANES) grid=(cdiv(BATCH*TY*TX, TSP), cdiv(C, TSC), SIDE*SIDE)
// Launch:  image_gradient block=(THREADS) grid=(cdiv(BATCH*TY*TX, THREADS), C)

constexpr int TILE = 4;
constexpr int SIDE = TILE + 2;
constexpr int POOL = 1;
constexpr int THREADS = 128;
constexpr int TSC = 64;
constexpr int TSP = 128;
constexpr int TSF = 8;
constexpr int WSC = 32;
constexpr int WSP = 64;
constexpr int WPTC = 8;
constexpr int WPTP = 8;
constexpr int BLOCKS = 4;
constexpr int RTSC = WSC / WPTC;
constexpr int RTSP = WSP / WPTP;
constexpr int LANES = (TSC / WSC) * (TSP / WSP) * 32;
constexpr int PAD = 4;
constexpr int LOADS_U = TSC * TSF / 4 / LANES;
constexpr int LOADS_M = TSP * TSF / 4 / LANES;
constexpr int LOAD_AT = 1;
constexpr int STORE_AT = TSF - 3;

static_assert(TILE == 4, "the matrices are those of F(4,3)");
static_assert(TILE % POOL == 0, "a tile holds whole windows");
static_assert(TSC % WSC == 0 && TSP % WSP == 0, "the warps' tiles cover the block's exactly");
static_assert(RTSC * RTSP == 32 && RTSC % 2 == 0 && RTSP % 2 == 0, "a warp has 32 lanes, in patches of 2 x 2");
static_assert(RTSC * WPTC == WSC && RTSP * WPTP == WSP, "the lanes' elements cover the warp's tile exactly");
static_assert(WPTC % 4 == 0 && WPTP % 4 == 0, "a thread's elements come in groups of four");
static_assert(TSF % 8 == 0, "two lanes load 32 neighbouring bytes of a row of U: a whole sector");
static_assert(LOADS_U * LANES * 4 == TSC * TSF, "all threads load equally much of tileU");
static_assert(LOADS_M * LANES * 4 == TSP * TSF, "all threads load equally much of tileM");
static_assert(0 <= LOAD_AT && LOAD_AT <= STORE_AT && STORE_AT < TSF, "a tile is loaded, stored, then multiplied");

__device__ void transform_result(float (&m)[SIDE], const float (&y)[TILE])
{
    const float even_ones = y[0] + y[2];
    const float odd_ones = y[1] + y[3];
    const float even_twos = fmaf(4.0f, y[2], y[0]);
    const float odd_twos = fmaf(4.0f, y[3], y[1]);
    m[0] = y[0];
    m[1] = even_ones + odd_ones;
    m[2] = even_ones - odd_ones;
    m[3] = fmaf(2.0f, odd_twos, even_twos);
    m[4] = fmaf(-2.0f, odd_twos, even_twos);
    m[5] = y[3];
}

template <int COUNT>
__device__ void load_row(float (&dy)[COUNT], int (&chosen)[COUNT], const float* row, const unsigned char* choices,
                         int col, int width)
{
    if (COUNT == 4 && width % 4 == 0) {
        const float4 quad = *reinterpret_cast<const float4*>(row + col);
        const uchar4 bytes = *reinterpret_cast<const uchar4*>(choices + col);
        dy[0] = quad.x, dy[1 % COUNT] = quad.y, dy[2 % COUNT] = quad.z, dy[3 % COUNT] = quad.w;
        chosen[0] = bytes.x, chosen[1 % COUNT] = bytes.y, chosen[2 % COUNT] = bytes.z, chosen[3 % COUNT] = bytes.w;
    } else if (COUNT == 2 && width % 2 == 0) {
        const float2 pair = *reinterpret_cast<const float2*>(row + col);
        const uchar2 bytes = *reinterpret_cast<const uchar2*>(choices + col);
        dy[0] = pair.x, dy[1 % COUNT] = pair.y;
        chosen[0] = bytes.x, chosen[1 % COUNT] = bytes.y;
    } else {
        #pragma unroll
        for (int j = 0; j < COUNT; ++j) {
            dy[j] = col + j < width ? row[col + j] : 0.0f;
            chosen[j] = col + j < width ? choices[col + j] : 0;
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
result_gradient(const float* __restrict__ dy, const unsigned char* __restrict__ choice, float* __restrict__ dM,
                int BATCH, int F, int H, int W)
{
    constexpr int COUNT = TILE / POOL;
    const int TY = (H + TILE - 1) / TILE;
    const int TX = (W + TILE - 1) / TILE;
    const int P = BATCH * TY * TX;
    const int p = blockIdx.x * THREADS + threadIdx.x;
    const int f = blockIdx.y;
    if (p >= P) return;

    const int PH = H / POOL;
    const int PW = W / POOL;
    const int row0 = p / TX % TY * COUNT;
    const int col0 = p % TX * COUNT;
    const size_t plane = (static_cast<size_t>(p / (TY * TX)) * F + f) * PH * PW;
    float results[TILE][TILE] = {};
    #pragma unroll
    for (int i = 0; i < COUNT; ++i) {
        float row[COUNT] = {};
        int chosen[COUNT] = {};
        if (row0 + i < PH && col0 < PW) {
            const size_t first = plane + (row0 + i) * PW;
            load_row(row, chosen, dy + first, choice + first, col0, PW);
        }
        #pragma unroll
        for (int j = 0; j < COUNT; ++j) {
            #pragma unroll
            for (int k = 0; k < POOL * POOL; ++k) {
                results[i * POOL + k / POOL][j * POOL + k % POOL] = chosen[j] == k + 1 ? row[j] : 0.0f;
            }
        }
    }
    float middle[SIDE][TILE];
    #pragma unroll
    for (int j = 0; j < TILE; ++j) {
        float column[TILE];
        float numbers[SIDE];
        #pragma unroll
        for (int i = 0; i < TILE; ++i) column[i] = results[i][j];
        transform_result(numbers, column);
        #pragma unroll
        for (int i = 0; i < SIDE; ++i) middle[i][j] = numbers[i];
    }
    float* to = dM + static_cast<size_t>(f) * P + p;
    const size_t position = static_cast<size_t>(F) * P;
    #pragma unroll
    for (int i = 0; i < SIDE; ++i) {
        float numbers[SIDE];
        transform_result(numbers, middle[i]);
        #pragma unroll
        for (int j = 0; j < SIDE; ++j) to[(i * SIDE + j) * position] = numbers[j];
    }
}

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

__device__ void store_quad(float* matrix, int rows, int cols, int row, int col, float4 quad)
{
    if (row < rows && col < cols) {
        float* to = matrix + row * cols + col;
        if (cols % 4 == 0) {
            *reinterpret_cast<float4*>(to) = quad;
        } else {
            to[0] = quad.x;
            if (col + 1 < cols) to[1] = quad.y;
            if (col + 2 < cols) to[2] = quad.z;
            if (col + 3 < cols) to[3] = quad.w;
        }
    }
}

__device__ void get_quad(float* to, const float* from)
{
    const float4 quad = *reinterpret_cast<const float4*>(from);
    to[0] = quad.x;
    to[1] = quad.y;
    to[2] = quad.z;
    to[3] = quad.w;
}

__device__ int filter_of(int thread, int i) { return (thread + i * LANES) / (TSP / 4); }
__device__ int tile_of(int thread, int i) { return (thread + i * LANES) % (TSP / 4) * 4; }

__device__ int channel_of(int thread, int i) { return (thread + i * LANES) / 2 % TSC; }
__device__ int quad_of(int thread, int i) { return ((thread + i * LANES) / 2 / TSC * 2 + thread % 2) * 4; }

extern "C" __global__ void __launch_bounds__(LANES, BLOCKS)
product_gradient(const float* __restrict__ U, const float* __restrict__ dM, float* __restrict__ dV,
                 int BATCH, int C, int F, int H, int W)
{
    const int P = BATCH * ((H + TILE - 1) / TILE) * ((W + TILE - 1) / TILE);
    U += static_cast<size_t>(blockIdx.z) * C * F;
    dM += static_cast<size_t>(blockIdx.z) * F * P;
    dV += static_cast<size_t>(blockIdx.z) * C * P;
    __shared__ __align__(16) float tileU[2][TSF][TSC + PAD];
    __shared__ __align__(16) float tileM[2][TSF][TSP];
    const int thread = threadIdx.x;
    const int warp = thread / 32;
    const int lane = thread % 32;
    const int x = warp % (TSP / WSP) * WSP + (lane / 4 % (RTSP / 2) * 2 + lane % 2) * 4;
    const int y = warp / (TSP / WSP) * WSC + (lane / 4 / (RTSP / 2) * 2 + lane / 2 % 2) * 4;
    const int c0 = blockIdx.y * TSC;
    const int p0 = blockIdx.x * TSP;
    float4 nextU[LOADS_U];
    float4 nextM[LOADS_M];
    float u[2][WPTC];
    float m[2][WPTP];
    float sum[WPTC][WPTP] = {};

    const bool whole = F % 4 == 0 && P % 4 == 0 && c0 + TSC <= C && p0 + TSP <= P;
    const float* fromU = U + (c0 + channel_of(thread, 0)) * F + quad_of(thread, 0);
    const float* fromM = dM + filter_of(thread, 0) * P + p0 + tile_of(thread, 0);

    const auto load = [&](int f0) {
        if (whole && f0 + TSF <= F) {
            #pragma unroll
            for (int i = 0; i < LOADS_U; ++i) {
                const int rows = channel_of(thread, i) - channel_of(thread, 0);
                nextU[i] = *reinterpret_cast<const float4*>(fromU + rows * F + quad_of(thread, i) - quad_of(thread, 0));
            }
            #pragma unroll
            for (int i = 0; i < LOADS_M; ++i) {
                nextM[i] = *reinterpret_cast<const float4*>(fromM + i * (LANES / (TSP / 4)) * P);
            }
            fromU += TSF;
            fromM += TSF * P;
        } else {
            #pragma unroll
            for (int i = 0; i < LOADS_U; ++i) {
                nextU[i] = load_quad(U, C, F, c0 + channel_of(thread, i), f0 + quad_of(thread, i));
            }
            #pragma unroll
            for (int i = 0; i < LOADS_M; ++i) {
                nextM[i] = load_quad(dM, F, P, f0 + filter_of(thread, i), p0 + tile_of(thread, i));
            }
        }
    };
    const auto store = [&](int buffer) {
        #pragma unroll
        for (int i = 0; i < LOADS_U; ++i) {
            const int c = channel_of(thread, i);
            const int f = quad_of(thread, i);
            tileU[buffer][f][c] = nextU[i].x;  // expect: RACE
            tileU[buffer][f + 1][c] = nextU[i].y;
            tileU[buffer][f + 2][c] = nextU[i].z;
            tileU[buffer][f + 3][c] = nextU[i].w;
        }
        #pragma unroll
        for (int i = 0; i < LOADS_M; ++i) {
            *reinterpret_cast<float4*>(&tileM[buffer][filter_of(thread, i)][tile_of(thread, i)]) = nextM[i];
        }
    };
    const auto fetch = [&](int buffer, int f) {
        #pragma unroll
        for (int i = 0; i < WPTC; i += 4) {
            get_quad(&u[f % 2][i], &tileU[buffer][f][y + i * RTSC]);
        }
        #pragma unroll
        for (int j = 0; j < WPTP; j += 4) {
            get_quad(&m[f % 2][j], &tileM[buffer][f][x + j * RTSP]);
        }
    };

    load(0);
    store(0);
    __syncthreads();
    fetch(0, 0);
    for (int f0 = 0; f0 < F; f0 += 2 * TSF) {
        #pragma unroll
        for (int buffer = 0; buffer < 2; ++buffer) {
            #pragma unroll
            for (int f = 0; f < TSF; ++f) {
                if (f == LOAD_AT && (buffer == 0 || f0 + 2 * TSF < F)) {
                    load(f0 + (buffer + 1) * TSF);
                }
                if (f == STORE_AT) {
                    store(buffer);
                }
                if (f + 1 < TSF) {
                    fetch(buffer, f + 1);
                } else {
                    __syncthreads();
                    fetch(1 - buffer, 0);
                }
                #pragma unroll
                for (int i = 0; i < WPTC; ++i) {
                    #pragma unroll
                    for (int turn = 0; turn < WPTP; ++turn) {
                        const int j = i % 2 == 0 ? turn : WPTP - 1 - turn;
                        sum[i][j] += u[f % 2][i] * m[f % 2][j];
                    }
                }
            }
        }
    }

    for (int i = 0; i < WPTC; ++i) {
        for (int j = 0; j < WPTP; j += 4) {
            const float4 quad = make_float4(sum[i][j], sum[i][j + 1], sum[i][j + 2], sum[i][j + 3]);
            store_quad(dV, C, P, c0 + y + i / 4 * 4 * RTSC + i % 4, p0 + x + j * RTSP, quad);
        }
    }
}

__device__ void transform_middle(float (&d)[TILE], const float (&v)[SIDE], float before, float after)
{
    const float ones = v[1] + v[2];
    const float less_ones = v[1] - v[2];
    const float twos = v[3] + v[4];
    const float less_twos = v[3] - v[4];
    d[0] = fmaf(-4.0f, less_ones, fmaf(-2.0f, less_twos, fmaf(4.0f, v[5], before)));
    d[1] = fmaf(-4.0f, ones, fmaf(-5.0f, v[0], -twos));
    d[2] = fmaf(2.0f, less_twos, fmaf(-5.0f, v[5], less_ones));
    d[3] = fmaf(4.0f, after, v[0] + ones + twos);
}

extern "C" __global__ void __launch_bounds__(THREADS)
image_gradient(const float* __restrict__ dV, float* __restrict__ dx, int BATCH, int C, int H, int W)
{
    const int TY = (H + TILE - 1) / TILE;
    const int TX = (W + TILE - 1) / TILE;
    const int P = BATCH * TY * TX;
    const int p = blockIdx.x * THREADS + threadIdx.x;
    const int c = blockIdx.y;
    if (p >= P) return;

    const int ty = p / TX % TY;
    const int tx = p % TX;
    const float* from = dV + static_cast<size_t>(c) * P + p;
    const size_t position = static_cast<size_t>(C) * P;
    const auto number = [&](int down, int right, int i, int j) {
        const bool exists = ty + down >= 0 && ty + down < TY && tx + right >= 0 && tx + right < TX;
        return exists ? from[(i * SIDE + j) * position + down * TX + right] : 0.0f;
    };
    float middle[TILE][SIDE + 2];
    #pragma unroll
    for (int k = 0; k < SIDE + 2; ++k) {
        const int right = k == 0 ? -1 : k == SIDE + 1;
        const int j = k == 0 ? SIDE - 1 : k == SIDE + 1 ? 0 : k - 1;
        float column[SIDE];
        float pixels[TILE];
        #pragma unroll
        for (int i = 0; i < SIDE; ++i) {
            column[i] = number(0, right, i, j);
        }
        transform_middle(pixels, column, number(-1, right, SIDE - 1, j), number(1, right, 0, j));
        #pragma unroll
        for (int i = 0; i < TILE; ++i) middle[i][k] = pixels[i];
    }
    const int col0 = tx * TILE;
    float* to = dx + ((static_cast<size_t>(p / (TY * TX)) * C + c) * H + ty * TILE) * W + col0;
    #pragma unroll
    for (int i = 0; i < TILE; ++i) {
        float own[SIDE];
        float pixels[TILE];
        #pragma unroll
        for (int j = 0; j < SIDE; ++j) own[j] = middle[i][j + 1];
        transform_middle(pixels, own, middle[i][0], middle[i][SIDE + 1]);
        if (ty * TILE + i < H) {
            if (W % 4 == 0) {
                const float4 quad = make_float4(pixels[0], pixels[1], pixels[2], pixels[3]);
                *reinterpret_cast<float4*>(to + i * W) = quad;
            } else if (W % 2 == 0) {
                *reinterpret_cast<float2*>(to + i * W) = make_float2(pixels[0], pixels[1]);
                if (col0 + 2 < W) *reinterpret_cast<float2*>(to + i * W + 2) = make_float2(pixels[2], pixels[3]);
            } else {
                #pragma unroll
                for (int j = 0; j < TILE; ++j) {
                    if (col0 + j < W) to[i * W + j] = pixels[j];
                }
            }
        }
    }
}
