// sums_in_parts.cu: M[i] = U[i]^T * V[i] as lab 09's 03_batched_gemm.cu, of sums that err less.
// Idea:    a float32 sum of C products errs by about the root of C last places: each addition rounds what has been
//          summed up so far. Here PART channels are summed at a time, and the parts' sums added: with 512 channels and
//          parts of 64 the error is a quarter to a half. Large tiles of Winograd's method enlarge the product's errors
//          most of all, and need it. What is put by stands in shared memory, each thread's in places of its own: nobody
//          waits for anybody, and all registers stay with the sums that grow.
// From:    solutions/lab09_winograd/03_batched_gemm.cu
// Limits:  32 KB of shared memory more for a block, and 5 to 10 % more time.
// Entry:   batched_gemm(const float U[POSITIONS,C,F] in, const float V[POSITIONS,C,P] in,
//                       float M[POSITIONS,F,P] out, int POSITIONS, int C, int F, int P)
// Needs:   POSITIONS <= 65535
// Launch:  batched_gemm block=(THREADS) grid=(cdiv(P, TSP), cdiv(F, TSF), POSITIONS) shared=4 * TSF * TSP

constexpr int TSF = 64;           // a block computes TSF x TSP elements of a product
constexpr int TSP = 128;
constexpr int TSC = 16;           // channels in one tile
constexpr int WSF = 32;           // a warp computes WSF x WSP of them
constexpr int WSP = 64;
constexpr int WPTF = 8;           // work per thread: WPTF x WPTP elements
constexpr int WPTP = 8;
constexpr int BLOCKS = 3;         // blocks that share a multiprocessor, at least
constexpr int RTSF = WSF / WPTF;  // reduced tile sizes: lanes along the rows and columns of a warp
constexpr int RTSP = WSP / WPTP;
constexpr int THREADS = (TSF / WSF) * (TSP / WSP) * 32;
constexpr int LOADS_U = TSC * TSF / 4 / THREADS;  // float4s of a tile that one thread loads
constexpr int LOADS_V = TSC * TSP / 4 / THREADS;
constexpr int STEP_U = THREADS / (TSF / 4);       // rows of a tile that all threads load at a time
constexpr int STEP_V = THREADS / (TSP / 4);
constexpr int LOAD_AT = 1;        // the next tile sets out before this channel, early,
constexpr int STORE_AT = TSC - 3;  // and goes to shared memory before this one, late: as in lab 05
constexpr int PART = 64;          // channels that are summed at a time

static_assert(TSF % WSF == 0 && TSP % WSP == 0, "the warps' tiles cover the block's exactly");
static_assert(RTSF * RTSP == 32 && RTSF % 2 == 0 && RTSP % 2 == 0, "a warp has 32 lanes, in patches of 2 x 2");
static_assert(RTSF * WPTF == WSF && RTSP * WPTP == WSP, "the lanes' elements cover the warp's tile exactly");
static_assert(WPTF % 4 == 0 && WPTP % 4 == 0, "a thread's elements come in groups of four");
static_assert(THREADS % 32 == 0 && THREADS <= 1024, "a block has whole warps and at most 1024 threads");
static_assert(LOADS_U * THREADS * 4 == TSC * TSF, "all threads load equally much of tileU");
static_assert(LOADS_V * THREADS * 4 == TSC * TSP, "all threads load equally much of tileV");
static_assert(THREADS % (TSF / 4) == 0 && THREADS % (TSP / 4) == 0, "they load whole rows");
static_assert(PART % (2 * TSC) == 0, "a part ends where the loop begins anew");
static_assert(0 <= LOAD_AT && LOAD_AT <= STORE_AT && STORE_AT < TSC, "a tile is loaded, stored, then multiplied");

// The four elements from (row, col) on; those outside the matrix are zero.
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

// Writes the four elements from (row, col) on, except those outside the matrix.
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

// Reads four neighbouring floats of shared memory by one instruction.
__device__ void get_quad(float* to, const float* from)
{
    const float4 quad = *reinterpret_cast<const float4*>(from);
    to[0] = quad.x;
    to[1] = quad.y;
    to[2] = quad.z;
    to[3] = quad.w;
}

// Which float4 of a tile of `width` columns is a thread's i-th? Row by row.
__device__ int row_of(int thread, int i, int width) { return (thread + i * THREADS) / (width / 4); }
__device__ int col_of(int thread, int i, int width) { return (thread + i * THREADS) % (width / 4) * 4; }

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
batched_gemm(const float* __restrict__ U, const float* __restrict__ V, float* __restrict__ M,
             int POSITIONS, int C, int F, int P)
{
    U += static_cast<size_t>(blockIdx.z) * C * F;
    V += static_cast<size_t>(blockIdx.z) * C * P;
    M += static_cast<size_t>(blockIdx.z) * F * P;
    extern __shared__ float4 totals[];  // of the parts that are done: a thread's lie THREADS apart
    __shared__ __align__(16) float tileU[2][TSC][TSF];
    __shared__ __align__(16) float tileV[2][TSC][TSP];
    const int thread = threadIdx.x;
    // Lanes 0 to 3 form a patch of 2 x 2, and so on: neighbours share float4s of tileU and of tileV (lab 05).
    const int warp = thread / 32;
    const int lane = thread % 32;
    const int x = warp % (TSP / WSP) * WSP + (lane / 4 % (RTSP / 2) * 2 + lane % 2) * 4;
    const int y = warp / (TSP / WSP) * WSF + (lane / 4 / (RTSP / 2) * 2 + lane / 2 % 2) * 4;
    const int f0 = blockIdx.y * TSF;
    const int p0 = blockIdx.x * TSP;
    float4 nextU[LOADS_U];  // the tile in flight
    float4 nextV[LOADS_V];
    float u[2][WPTF];       // elements for two channels: one being multiplied, one in flight
    float v[2][WPTP];
    float sum[WPTF][WPTP] = {};

    // Tiles that lie inside the matrices, all float4s aligned, are read through pointers that move along the channels.
    const bool whole = F % 4 == 0 && P % 4 == 0 && f0 + TSF <= F && p0 + TSP <= P;
    const float* fromU = U + row_of(thread, 0, TSF) * F + f0 + col_of(thread, 0, TSF);
    const float* fromV = V + row_of(thread, 0, TSP) * P + p0 + col_of(thread, 0, TSP);

    const auto load = [&](int c0) {  // from global memory to registers: starts the loads, waits for none
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
    const auto store = [&](int buffer) {  // from registers to shared memory
        #pragma unroll
        for (int i = 0; i < LOADS_U; ++i) {
            *reinterpret_cast<float4*>(&tileU[buffer][row_of(thread, i, TSF)][col_of(thread, i, TSF)]) = nextU[i];
        }
        #pragma unroll
        for (int i = 0; i < LOADS_V; ++i) {
            *reinterpret_cast<float4*>(&tileV[buffer][row_of(thread, i, TSP)][col_of(thread, i, TSP)]) = nextV[i];
        }
    };
    const auto fetch = [&](int buffer, int c) {  // from shared memory to registers
        #pragma unroll
        for (int i = 0; i < WPTF; i += 4) {
            get_quad(&u[c % 2][i], &tileU[buffer][c][y + i * RTSF]);
        }
        #pragma unroll
        for (int j = 0; j < WPTP; j += 4) {
            get_quad(&v[c % 2][j], &tileV[buffer][c][x + j * RTSP]);
        }
    };

    const auto total = [&](int i, int j, bool first) {  // of four neighbouring sums and what was put by of them
        const float4 old = first ? make_float4(0.0f, 0.0f, 0.0f, 0.0f) : totals[(i * WPTP + j) / 4 * THREADS + thread];
        return make_float4(old.x + sum[i][j], old.y + sum[i][j + 1], old.z + sum[i][j + 2], old.w + sum[i][j + 3]);
    };
    const auto put_by = [&](bool first) {
        #pragma unroll
        for (int i = 0; i < WPTF; ++i) {
            #pragma unroll
            for (int j = 0; j < WPTP; j += 4) {
                totals[(i * WPTP + j) / 4 * THREADS + thread] = total(i, j, first);
                sum[i][j] = sum[i][j + 1] = sum[i][j + 2] = sum[i][j + 3] = 0.0f;
            }
        }
    };

    load(0);
    store(0);
    __syncthreads();
    fetch(0, 0);
    for (int c0 = 0; c0 < C; c0 += 2 * TSC) {
        if (c0 > 0 && c0 % PART == 0) put_by(c0 == PART);
        #pragma unroll
        for (int buffer = 0; buffer < 2; ++buffer) {  // two tiles a turn, so that `buffer` is a constant
            #pragma unroll
            for (int c = 0; c < TSC; ++c) {
                if (c == LOAD_AT && (buffer == 0 || c0 + 2 * TSC < C)) {
                    load(c0 + (buffer + 1) * TSC);  // past the last channel zeros; nothing for a turn that never comes
                }
                if (c == STORE_AT) {
                    store(1 - buffer);
                }
                if (c + 1 < TSC) {
                    fetch(buffer, c + 1);
                } else {
                    __syncthreads();  // the next tile is complete, and nobody reads this one any more
                    fetch(1 - buffer, 0);
                }
                #pragma unroll
                for (int i = 0; i < WPTF; ++i) {
                    #pragma unroll
                    for (int turn = 0; turn < WPTP; ++turn) {
                        const int j = i % 2 == 0 ? turn : WPTP - 1 - turn;  // to and fro, as in lab 05
                        sum[i][j] += u[c % 2][i] * v[c % 2][j];
                    }
                }
            }
        }
    }

    #pragma unroll
    for (int i = 0; i < WPTF; ++i) {
        #pragma unroll
        for (int j = 0; j < WPTP; j += 4) {
            store_quad(M, F, P, f0 + y + i / 4 * 4 * RTSF + i % 4, p0 + x + j * RTSP, total(i, j, C <= PART));
        }
    }
}
