// same_buffer.cu: the next tile goes into the buffer that is being multiplied.
// Entry:   filter_product(const float V[SIDE*SIDE,C,P] in, const float dM[SIDE*SIDE,F,P] in,
//                         float dU[PARTS,SIDE*SIDE,C,F] out, int C, int F, int P)
// Entry:   add_parts(float dU[PARTS,SIDE*SIDE,C,F] inout, int C, int F, int P)
// Entry:   filter_gradient(const float dU[PARTS,SIDE*SIDE,C,F] in, float dw[F,C,3,3] out, int C, int F, int P)
// Entry:   bias_gradient(const float dM[SIDE*SIDE,F,P] in, float db[F] out, int F, int P)
// Sizes:   BLOCKS_U = cdiv(C, TSC) * cdiv(F, TSF) * SIDE*SIDE,
//          PARTS = max(1, min(min(cdiv(P, SHORTEST), BLOCKS_ALL / BLOCKS_U), 65535 / (SIDE*SIDE)))
// Scratch: dU
// Launch:  filter_product block=(LANES) grid=(cdiv(F, TSF), cdiv(C, TSC), SIDE*SIDE*PARTS)
// Launch:  add_parts block=(THREADS) grid=(cdiv(SIDE*SIDE*C*F, THREADS))
// Launch:  filter_gradient block=(LANES_F, LANES_C) grid=(cdiv(F, LANES_F), cdiv(C, LANES_C))
// Launch:  bias_gradient block=(THREADS) grid=(F)

constexpr int TILE = 4;
constexpr int SIDE = TILE + 2;
constexpr int SHORTEST = 512;
constexpr int BLOCKS_ALL = 4096;
constexpr int TSC = 64;
constexpr int TSF = 64;
constexpr int TSP = 8;
constexpr int WSC = 32;
constexpr int WSF = 64;
constexpr int WPTC = 8;
constexpr int WPTF = 8;
constexpr int BLOCKS = 6;
constexpr int RTSC = WSC / WPTC;
constexpr int RTSF = WSF / WPTF;
constexpr int LANES = (TSC / WSC) * (TSF / WSF) * 32;
constexpr int PAD = 4;
constexpr int LOADS_V = TSC * TSP / 4 / LANES;
constexpr int LOADS_M = TSF * TSP / 4 / LANES;
constexpr int LOAD_AT = 1;
constexpr int STORE_AT = TSP - 3;
constexpr int LANES_F = 32;
constexpr int LANES_C = 8;
constexpr int ROW = LANES_C * 9;
constexpr int THREADS = 256;

static_assert(TSC % WSC == 0 && TSF % WSF == 0, "the warps' tiles cover the block's exactly");
static_assert(RTSC * RTSF == 32 && RTSC % 2 == 0 && RTSF % 2 == 0, "a warp has 32 lanes, in patches of 2 x 2");
static_assert(RTSC * WPTC == WSC && RTSF * WPTF == WSF, "the lanes' elements cover the warp's tile exactly");
static_assert(WPTC % 4 == 0 && WPTF % 4 == 0, "a thread's elements come in groups of four");
static_assert(TSP % 8 == 0, "two lanes load 32 neighbouring bytes of a row: a whole sector");
static_assert(LOADS_V * LANES * 4 == TSC * TSP, "all threads load equally much of tileV");
static_assert(LOADS_M * LANES * 4 == TSF * TSP, "all threads load equally much of tileM");
static_assert(0 <= LOAD_AT && LOAD_AT <= STORE_AT && STORE_AT < TSP, "a tile is loaded, stored, then multiplied");
static_assert(LANES_F == 32 && ROW % 8 == 0, "filter_gradient reads and writes whole sectors");

__device__ float4 load_quad(const float* matrix, int rows, int cols, int row, int col, int end)
{
    float4 quad = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    if (row < rows && col < end) {
        const float* from = matrix + static_cast<size_t>(row) * cols + col;
        quad.x = from[0];
        if (col + 1 < end) quad.y = from[1];
        if (col + 2 < end) quad.z = from[2];
        if (col + 3 < end) quad.w = from[3];
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

template <int SIZE>
__device__ int row_of(int thread, int i) { return (thread + i * LANES) / 2 % SIZE; }
template <int SIZE>
__device__ int quad_of(int thread, int i) { return ((thread + i * LANES) / 2 / SIZE * 2 + thread % 2) * 4; }

extern "C" __global__ void __launch_bounds__(LANES, BLOCKS)
filter_product(const float* __restrict__ V, const float* __restrict__ dM, float* __restrict__ dU, int C, int F, int P)
{
    const int position = blockIdx.z % (SIDE * SIDE);
    const int part = blockIdx.z / (SIDE * SIDE);
    const int parts = gridDim.z / (SIDE * SIDE);
    V += static_cast<size_t>(position) * C * P;
    dM += static_cast<size_t>(position) * F * P;
    dU += static_cast<size_t>(blockIdx.z) * C * F;
    int first = 0;
    int end = 0;
    const int length = ((P + parts - 1) / parts + 2 * TSP - 1) / (2 * TSP) * (2 * TSP);
    first = min(part * length, P);
    end = min(first + length, P);

    __shared__ __align__(16) float tileV[2][TSP][TSC + PAD];
    __shared__ __align__(16) float tileM[2][TSP][TSF + PAD];
    const int thread = threadIdx.x;
    const int warp = thread / 32;
    const int lane = thread % 32;
    const int x = warp % (TSF / WSF) * WSF + (lane / 4 % (RTSF / 2) * 2 + lane % 2) * 4;
    const int y = warp / (TSF / WSF) * WSC + (lane / 4 / (RTSF / 2) * 2 + lane / 2 % 2) * 4;
    const int c0 = blockIdx.y * TSC;
    const int f0 = blockIdx.x * TSF;
    float4 nextV[LOADS_V];
    float4 nextM[LOADS_M];
    float v[2][WPTC];
    float m[2][WPTF];
    float sum[WPTC][WPTF] = {};

    const bool whole = P % 4 == 0 && c0 + TSC <= C && f0 + TSF <= F;
    const float* fromV = V + static_cast<size_t>(c0 + row_of<TSC>(thread, 0)) * P + first + quad_of<TSC>(thread, 0);
    const float* fromM = dM + static_cast<size_t>(f0 + row_of<TSF>(thread, 0)) * P + first + quad_of<TSF>(thread, 0);

    const auto load = [&](int p0) {
        if (whole && p0 + TSP <= end) {
            #pragma unroll
            for (int i = 0; i < LOADS_V; ++i) {
                const int rows = row_of<TSC>(thread, i) - row_of<TSC>(thread, 0);
                const int cols = quad_of<TSC>(thread, i) - quad_of<TSC>(thread, 0);
                nextV[i] = *reinterpret_cast<const float4*>(fromV + rows * P + cols);
            }
            #pragma unroll
            for (int i = 0; i < LOADS_M; ++i) {
                const int rows = row_of<TSF>(thread, i) - row_of<TSF>(thread, 0);
                const int cols = quad_of<TSF>(thread, i) - quad_of<TSF>(thread, 0);
                nextM[i] = *reinterpret_cast<const float4*>(fromM + rows * P + cols);
            }
            fromV += TSP;
            fromM += TSP;
        } else {
            #pragma unroll
            for (int i = 0; i < LOADS_V; ++i) {
                nextV[i] = load_quad(V, C, P, c0 + row_of<TSC>(thread, i), p0 + quad_of<TSC>(thread, i), end);
            }
            #pragma unroll
            for (int i = 0; i < LOADS_M; ++i) {
                nextM[i] = load_quad(dM, F, P, f0 + row_of<TSF>(thread, i), p0 + quad_of<TSF>(thread, i), end);
            }
        }
    };
    const auto put = [](float* to, int row, float4 quad) {
        to[0] = quad.x;  // expect: RACE
        to[row] = quad.y;
        to[2 * row] = quad.z;
        to[3 * row] = quad.w;
    };
    const auto store = [&](int buffer) {
        #pragma unroll
        for (int i = 0; i < LOADS_V; ++i) {
            put(&tileV[buffer][quad_of<TSC>(thread, i)][row_of<TSC>(thread, i)], TSC + PAD, nextV[i]);
        }
        #pragma unroll
        for (int i = 0; i < LOADS_M; ++i) {
            put(&tileM[buffer][quad_of<TSF>(thread, i)][row_of<TSF>(thread, i)], TSF + PAD, nextM[i]);
        }
    };
    const auto fetch = [&](int buffer, int p) {
        #pragma unroll
        for (int i = 0; i < WPTC; i += 4) {
            get_quad(&v[p % 2][i], &tileV[buffer][p][y + i * RTSC]);
        }
        #pragma unroll
        for (int j = 0; j < WPTF; j += 4) {
            get_quad(&m[p % 2][j], &tileM[buffer][p][x + j * RTSF]);
        }
    };

    load(first);
    store(0);
    __syncthreads();
    fetch(0, 0);
    for (int p0 = first; p0 < end; p0 += 2 * TSP) {
        #pragma unroll
        for (int buffer = 0; buffer < 2; ++buffer) {
            #pragma unroll
            for (int p = 0; p < TSP; ++p) {
                if (p == LOAD_AT && (buffer == 0 || p0 + 2 * TSP < end)) {
                    load(p0 + (buffer + 1) * TSP);
                }
                if (p == STORE_AT) {
                    store(buffer);
                }
                if (p + 1 < TSP) {
                    fetch(buffer, p + 1);
                } else {
                    __syncthreads();
                    fetch(1 - buffer, 0);
                }
                #pragma unroll
                for (int i = 0; i < WPTC; ++i) {
                    #pragma unroll
                    for (int turn = 0; turn < WPTF; ++turn) {
                        const int j = i % 2 == 0 ? turn : WPTF - 1 - turn;
                        sum[i][j] += v[p % 2][i] * m[p % 2][j];
                    }
                }
            }
        }
    }

    for (int i = 0; i < WPTC; ++i) {
        for (int j = 0; j < WPTF; j += 4) {
            const float4 quad = make_float4(sum[i][j], sum[i][j + 1], sum[i][j + 2], sum[i][j + 3]);
            store_quad(dU, C, F, c0 + y + i / 4 * 4 * RTSC + i % 4, f0 + x + j * RTSF, quad);
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
add_parts(float* __restrict__ dU, int C, int F, int P)
{
    const int blocks = (C + TSC - 1) / TSC * ((F + TSF - 1) / TSF) * SIDE * SIDE;
    const int parts = max(1, min(min((P + SHORTEST - 1) / SHORTEST, BLOCKS_ALL / blocks), 65535 / (SIDE * SIDE)));
    const size_t size = static_cast<size_t>(SIDE) * SIDE * C * F;
    const size_t i = static_cast<size_t>(blockIdx.x) * THREADS + threadIdx.x;
    if (i < size && parts > 1) {
        float sum = dU[i];
        for (int part = 1; part < parts; ++part) {
            sum += dU[part * size + i];
        }
        dU[i] = sum;
    }
}

__device__ void transform_weights(float (&g)[3], const float (&u)[SIDE])
{
    const float ones = (u[1] + u[2]) * (-1.0f / 6.0f);
    const float twos = (u[3] + u[4]) * (1.0f / 6.0f);
    g[0] = fmaf(0.25f, u[0] + twos, ones);
    g[1] = fmaf(u[2] - u[1], 1.0f / 6.0f, (u[3] - u[4]) * (1.0f / 12.0f));
    g[2] = ones + twos + u[5];
}

extern "C" __global__ void __launch_bounds__(LANES_F * LANES_C)
filter_gradient(const float* __restrict__ dU, float* __restrict__ dw, int C, int F, int P)
{
    __shared__ float rows[LANES_F][ROW + 1];
    const int lane = threadIdx.x;
    const int warp = threadIdx.y;
    const int f0 = blockIdx.x * LANES_F;
    const int c0 = blockIdx.y * LANES_C;
    const int f = f0 + lane;
    const int c = c0 + warp;
    if (f < F && c < C) {
        const float* from = dU + static_cast<size_t>(c) * F + f;
        const size_t position = static_cast<size_t>(C) * F;
        float middle[3][SIDE];
        #pragma unroll
        for (int j = 0; j < SIDE; ++j) {
            float column[SIDE];
            float weights[3];
            #pragma unroll
            for (int i = 0; i < SIDE; ++i) column[i] = from[(i * SIDE + j) * position];
            transform_weights(weights, column);
            #pragma unroll
            for (int r = 0; r < 3; ++r) middle[r][j] = weights[r];
        }
        #pragma unroll
        for (int r = 0; r < 3; ++r) {
            float weights[3];
            transform_weights(weights, middle[r]);
            #pragma unroll
            for (int s = 0; s < 3; ++s) rows[lane][warp * 9 + r * 3 + s] = weights[s];
        }
    }
    __syncthreads();
    const int valid = min(LANES_C, C - c0) * 9;
    for (int row = warp; row < LANES_F && f0 + row < F; row += LANES_C) {
        for (int i = lane; i < valid; i += LANES_F) {
            dw[(static_cast<size_t>(f0 + row) * C + c0) * 9 + i] = rows[row][i];
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
bias_gradient(const float* __restrict__ dM, float* __restrict__ db, int F, int P)
{
    __shared__ float sums[THREADS];
    const int thread = threadIdx.x;
    const int f = blockIdx.x;
    float sum = 0.0f;
    const float* from = dM + (static_cast<size_t>(SIDE + 1) * F + f) * P;
    for (int p = thread; p < P; p += THREADS) {
        sum += from[p];
    }
    sums[thread] = sum;
    for (int half = THREADS / 2; half > 0; half /= 2) {
        __syncthreads();
        if (thread < half) sums[thread] += sums[thread + half];
    }
    if (thread == 0) db[f] = sums[0];
}
