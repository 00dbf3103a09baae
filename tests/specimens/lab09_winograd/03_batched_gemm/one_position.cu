// one_position.cu: all positions multiply the first filters' numbers.
// Entry:   batched_gemm(const float U[POSITIONS,C,F] in, const float V[POSITIONS,C,P] in,
//                       float M[POSITIONS,F,P] out, int POSITIONS, int C, int F, int P)
// Needs:   POSITIONS <= 65535
// Launch:  batched_gemm block=(THREADS) grid=(cdiv(P, TSP), cdiv(F, TSF), POSITIONS)

// expect: WA

constexpr int TSF = 64;
constexpr int TSP = 128;
constexpr int TSC = 8;
constexpr int WSF = 32;
constexpr int WSP = 64;
constexpr int WPTF = 8;
constexpr int WPTP = 8;
constexpr int BLOCKS = 4;
constexpr int RTSF = WSF / WPTF;
constexpr int RTSP = WSP / WPTP;
constexpr int THREADS = (TSF / WSF) * (TSP / WSP) * 32;
constexpr int LOADS_U = TSC * TSF / 4 / THREADS;
constexpr int LOADS_V = TSC * TSP / 4 / THREADS;
constexpr int STEP_U = THREADS / (TSF / 4);
constexpr int STEP_V = THREADS / (TSP / 4);
constexpr int LOAD_AT = 1;
constexpr int STORE_AT = TSC - 3;

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

__device__ int row_of(int thread, int i, int width) { return (thread + i * THREADS) / (width / 4); }
__device__ int col_of(int thread, int i, int width) { return (thread + i * THREADS) % (width / 4) * 4; }

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
batched_gemm(const float* __restrict__ U, const float* __restrict__ V, float* __restrict__ M,
             int POSITIONS, int C, int F, int P)
{
    V += static_cast<size_t>(blockIdx.z) * C * P;
    M += static_cast<size_t>(blockIdx.z) * F * P;
    __shared__ __align__(16) float tileU[2][TSC][TSF];
    __shared__ __align__(16) float tileV[2][TSC][TSP];
    const int thread = threadIdx.x;
    const int warp = thread / 32;
    const int lane = thread % 32;
    const int x = warp % (TSP / WSP) * WSP + (lane / 4 % (RTSP / 2) * 2 + lane % 2) * 4;
    const int y = warp / (TSP / WSP) * WSF + (lane / 4 / (RTSP / 2) * 2 + lane / 2 % 2) * 4;
    const int f0 = blockIdx.y * TSF;
    const int p0 = blockIdx.x * TSP;
    float4 nextU[LOADS_U];
    float4 nextV[LOADS_V];
    float u[2][WPTF];
    float v[2][WPTP];
    float sum[WPTF][WPTP] = {};

    const bool whole = F % 4 == 0 && P % 4 == 0 && f0 + TSF <= F && p0 + TSP <= P;
    const float* fromU = U + row_of(thread, 0, TSF) * F + f0 + col_of(thread, 0, TSF);
    const float* fromV = V + row_of(thread, 0, TSP) * P + p0 + col_of(thread, 0, TSP);

    const auto load = [&](int c0) {
        if (whole && c0 + TSC <= C) {
            #pragma unroll
            for (int i = 0; i < LOADS_U; ++i) {
                nextU[i] = *reinterpret_cast<const float4*>(fromU + i * STEP_U * F);
            }
            #pragma unroll
            for (int i = 0; i < LOADS_V; ++i) {
                nextV[i] = *reinterpret_cast<const float4*>(fromV + i * STEP_V * P);
            }
            fromU += TSC * F;
            fromV += TSC * P;
        } else {
            #pragma unroll
            for (int i = 0; i < LOADS_U; ++i) {
                nextU[i] = load_quad(U, C, F, c0 + row_of(thread, i, TSF), f0 + col_of(thread, i, TSF));
            }
            #pragma unroll
            for (int i = 0; i < LOADS_V; ++i) {
                nextV[i] = load_quad(V, C, P, c0 + row_of(thread, i, TSP), p0 + col_of(thread, i, TSP));
            }
        }
    };
    const auto store = [&](int buffer) {
        #pragma unroll
        for (int i = 0; i < LOADS_U; ++i) {
            *reinterpret_cast<float4*>(&tileU[buffer][row_of(thread, i, TSF)][col_of(thread, i, TSF)]) = nextU[i];
        }
        #pragma unroll
        for (int i = 0; i < LOADS_V; ++i) {
            *reinterpret_cast<float4*>(&tileV[buffer][row_of(thread, i, TSP)][col_of(thread, i, TSP)]) = nextV[i];
        }
    };
    const auto fetch = [&](int buffer, int c) {
        #pragma unroll
        for (int i = 0; i < WPTF; i += 4) {
            get_quad(&u[c % 2][i], &tileU[buffer][c][y + i * RTSF]);
        }
        #pragma unroll
        for (int j = 0; j < WPTP; j += 4) {
            get_quad(&v[c % 2][j], &tileV[buffer][c][x + j * RTSP]);
        }
    };

    load(0);
    store(0);
    __syncthreads();
    fetch(0, 0);
    for (int c0 = 0; c0 < C; c0 += 2 * TSC) {
        #pragma unroll
        for (int buffer = 0; buffer < 2; ++buffer) {
            #pragma unroll
            for (int c = 0; c < TSC; ++c) {
                if (c == LOAD_AT && (buffer == 0 || c0 + 2 * TSC < C)) {
                    load(c0 + (buffer + 1) * TSC);
                }
                if (c == STORE_AT) {
                    store(1 - buffer);
                }
                if (c + 1 < TSC) {
                    fetch(buffer, c + 1);
                } else {
                    __syncthreads();
                    fetch(1 - buffer, 0);
                }
                #pragma unroll
                for (int i = 0; i < WPTF; ++i) {
                    #pragma unroll
                    for (int turn = 0; turn < WPTP; ++turn) {
                        const int j = i % 2 == 0 ? turn : WPTP - 1 - turn;
                        sum[i][j] += u[c % 2][i] * v[c % 2][j];
                    }
                }
            }
        }
    }

    for (int i = 0; i < WPTF; ++i) {
        for (int j = 0; j < WPTP; j += 4) {
            const float4 quad = make_float4(sum[i][j], sum[i][j + 1], sum[i][j + 2], sum[i][j + 3]);
            store_quad(M, F, P, f0 + y + i / 4 * 4 * RTSF + i % 4, p0 + x + j * RTSP, quad);
        }
    }
}
