// 07_backward.cu: the gradients of attention: of queries, keys and values, with every score computed anew.
// Idea:    P = exp(S - L) can be had again from Q, K and one number a row, so no matrix of N x N waits for the way back.
//          dV = P' dO; dP = dO V'; and through the softmax dS = P * (dP - delta), where delta, the sum of a row of
//          P * dP, is the sum of dO * O of that row: D products in place of N. Then dQ = dS K and dK = dS' Q. Sums
//          over keys (dQ) and sums over queries (dK, dV) want blocks of two kinds; each computes the scores anew, and
//          no two blocks add to the same number.
// From:    05_fused.cu
// Limits:  seven products where five would do, if blocks added to dQ by atomics, in an order that nobody knows.
// Entry:   sum_rows(const float O[HEADS,N,D] in, const float dO[HEADS,N,D] in, float delta[HEADS,N] out, int HEADS,
//                   int N)
// Entry:   backward_keys(const float Q[HEADS,N,D] in, const float K[HEADS,N,D] in, const float V[HEADS,N,D] in,
//                        const float dO[HEADS,N,D] in, const float L[HEADS,N] in, const float delta[HEADS,N] in,
//                        float dK[HEADS,N,D] out, float dV[HEADS,N,D] out, int causal, int HEADS, int N)
// Entry:   backward_queries(const float Q[HEADS,N,D] in, const float K[HEADS,N,D] in, const float V[HEADS,N,D] in,
//                           const float dO[HEADS,N,D] in, const float L[HEADS,N] in, const float delta[HEADS,N] in,
//                           float dQ[HEADS,N,D] out, int causal, int HEADS, int N)
// Needs:   causal >= 0, causal <= 1, HEADS <= 65535, HEADS * N * D <= 2147483647
// Scratch: delta
// Launch:  sum_rows block=(THREADS) grid=(cdiv(HEADS * N, THREADS / 16))
// Launch:  backward_keys block=(THREADS) grid=(cdiv(N, TS), HEADS) shared=SHARED
// Launch:  backward_queries block=(THREADS) grid=(cdiv(N, TS), HEADS) shared=SHARED
// Usual:   causal = 0

constexpr int D = 64;           // numbers of a query, a key, a value
constexpr int TS = 64;          // rows of a block, and of the tiles that it goes through
constexpr int ACROSS = 16;      // threads that share a row: half of a warp
constexpr int DOWN = 16;
constexpr int THREADS = ACROSS * DOWN;
constexpr int WPT = TS / DOWN;  // a thread has WPT x WPT scores: rows DOWN apart, columns ACROSS apart,
constexpr int QUADS = D / (4 * ACROSS);  // and of as many rows QUADS float4s of a gradient
constexpr int PITCH = D + 4;    // floats of a row: float4s of eight neighbouring rows lie in different banks
constexpr int PITCH_P = TS + 16;  // two neighbouring rows of probabilities lie 16 banks apart
constexpr int SHARED = 4 * (4 * TS * PITCH + TS * PITCH_P);
constexpr unsigned ALL = 0xffffffffu;

static_assert(SHARED <= 99 * 1024, "a block fits into what a GeForce has");
static_assert(D % (4 * ACROSS) == 0 && TS % DOWN == 0 && ACROSS == DOWN, "the threads' scores cover the tile exactly");

// Copies TS rows from row `first` on; rows past the end become zero.
__device__ void load_rows(float* to, const float* from, int first, int rows)
{
    for (int i = threadIdx.x; i < TS * (D / 4); i += THREADS) {
        const int row = i / (D / 4);
        const int col = i % (D / 4) * 4;
        const float4* quad = reinterpret_cast<const float4*>(from + (first + row) * D + col);
        *reinterpret_cast<float4*>(to + row * PITCH + col) =
            first + row < rows ? *quad : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    }
}

__device__ float dot(float4 a, float4 b, float sum)
{
    return fmaf(a.w, b.w, fmaf(a.z, b.z, fmaf(a.y, b.y, fmaf(a.x, b.x, sum))));
}

__device__ float4 add(float4 sum, float p, float4 v)
{
    return make_float4(fmaf(p, v.x, sum.x), fmaf(p, v.y, sum.y), fmaf(p, v.z, sum.z), fmaf(p, v.w, sum.w));
}

// result = A B' for two tiles of rows: this thread's WPT x WPT elements.
__device__ void multiply(float (&result)[WPT][WPT], const float* A, const float* B, int x, int y)
{
    for (int i = 0; i < WPT; ++i) {
        for (int j = 0; j < WPT; ++j) {
            result[i][j] = 0.0f;
        }
    }
    #pragma unroll 2
    for (int d = 0; d < D; d += 4) {
        float4 a[WPT];
        for (int i = 0; i < WPT; ++i) {
            a[i] = *reinterpret_cast<const float4*>(A + (y + i * DOWN) * PITCH + d);
        }
        for (int j = 0; j < WPT; ++j) {
            const float4 b = *reinterpret_cast<const float4*>(B + (x + j * ACROSS) * PITCH + d);
            for (int i = 0; i < WPT; ++i) {
                result[i][j] = dot(a[i], b, result[i][j]);
            }
        }
    }
}

// Leaves this thread's elements of a tile for the rest of its half warp.
__device__ void leave(float* tileP, const float (&p)[WPT][WPT], int x, int y)
{
    for (int i = 0; i < WPT; ++i) {
        for (int j = 0; j < WPT; ++j) {
            tileP[(y + i * DOWN) * PITCH_P + x + j * ACROSS] = p[i][j];
        }
    }
}

// gradient += P B: this thread's rows of it.
__device__ void add_product(float4 (&gradient)[WPT][QUADS], const float* P, const float* B, int x, int y)
{
    #pragma unroll 2
    for (int k = 0; k < TS; k += 4) {
        float4 p[WPT];
        for (int i = 0; i < WPT; ++i) {
            p[i] = *reinterpret_cast<const float4*>(P + (y + i * DOWN) * PITCH_P + k);
        }
        for (int quad = 0; quad < QUADS; ++quad) {
            const float* from = B + k * PITCH + (quad * ACROSS + x) * 4;
            const float4 b0 = *reinterpret_cast<const float4*>(from);
            const float4 b1 = *reinterpret_cast<const float4*>(from + PITCH);
            const float4 b2 = *reinterpret_cast<const float4*>(from + 2 * PITCH);
            const float4 b3 = *reinterpret_cast<const float4*>(from + 3 * PITCH);
            for (int i = 0; i < WPT; ++i) {
                gradient[i][quad] = add(add(add(add(gradient[i][quad], p[i].x, b0), p[i].y, b1), p[i].z, b2), p[i].w, b3);
            }
        }
    }
}

__device__ void store_quad(float* to, float4 quad) { *reinterpret_cast<float4*>(to) = quad; }

// Stores this thread's rows of a gradient.
__device__ void store_rows(float* to, const float4 (&gradient)[WPT][QUADS], int first, int rows, int x, int y)
{
    for (int i = 0; i < WPT; ++i) {
        const int row = first + y + i * DOWN;
        for (int quad = 0; quad < QUADS; ++quad) {
            if (row < rows) {
                store_quad(to + row * D + (quad * ACROSS + x) * 4, gradient[i][quad]);
            }
        }
    }
}

// delta: for each row the sum of dO * O, by half a warp.
extern "C" __global__ void __launch_bounds__(THREADS)
sum_rows(const float* __restrict__ O, const float* __restrict__ dO, float* __restrict__ delta, int HEADS, int N)
{
    const int row = blockIdx.x * (THREADS / ACROSS) + threadIdx.x / ACROSS;
    const int x = threadIdx.x % ACROSS;
    float sum = 0.0f;
    // BEGIN SOLUTION: this lane's float4s, then all 16 lanes together (about 9 lines)
    // END SOLUTION
    if (row < HEADS * N && x == 0) {
        delta[row] = sum;
    }
}

// Rows of a tile are keys here, its columns queries: scores stand transposed.
extern "C" __global__ void __launch_bounds__(THREADS)
backward_keys(const float* __restrict__ Q, const float* __restrict__ K, const float* __restrict__ V,
              const float* __restrict__ dO, const float* __restrict__ L, const float* __restrict__ delta,
              float* __restrict__ dK, float* __restrict__ dV, int causal, int HEADS, int N)
{
    extern __shared__ __align__(16) float tiles[];
    float* tileK = tiles;
    float* tileV = tileK + TS * PITCH;
    float* tileQ = tileV + TS * PITCH;
    float* tileO = tileQ + TS * PITCH;  // dO
    float* tileP = tileO + TS * PITCH;
    const int x = threadIdx.x % ACROSS;
    const int y = threadIdx.x / ACROSS;
    const int key0 = blockIdx.x * TS;
    const int rows = blockIdx.y * N;
    const float scale = rsqrtf(static_cast<float>(D));
    load_rows(tileK, K + rows * D, key0, N);
    load_rows(tileV, V + rows * D, key0, N);
    float4 of_k[WPT][QUADS] = {};
    float4 of_v[WPT][QUADS] = {};
    int first = 0;  // query that looks at any key of this block
    // BEGIN SOLUTION: none before the block's first key, if causal (about 1 line)
    // END SOLUTION
    for (int row0 = first; row0 < N; row0 += TS) {
        __syncthreads();  // the tile before has been used
        load_rows(tileQ, Q + rows * D, row0, N);
        load_rows(tileO, dO + rows * D, row0, N);
        __syncthreads();
        float p[WPT][WPT];
        multiply(p, tileK, tileQ, x, y);
        // BEGIN SOLUTION: P = exp(S - L) of the queries that look at the key; dV += P' dO (about 11 lines)
        // END SOLUTION
        // BEGIN SOLUTION: dS = P * (dP - delta) * scale; dK += dS' Q (about 11 lines)
        // END SOLUTION
    }
    store_rows(dK + rows * D, of_k, key0, N, x, y);
    store_rows(dV + rows * D, of_v, key0, N, x, y);
}

// Rows of a tile are queries here, its columns keys.
extern "C" __global__ void __launch_bounds__(THREADS)
backward_queries(const float* __restrict__ Q, const float* __restrict__ K, const float* __restrict__ V,
                 const float* __restrict__ dO, const float* __restrict__ L, const float* __restrict__ delta,
                 float* __restrict__ dQ, int causal, int HEADS, int N)
{
    extern __shared__ __align__(16) float tiles[];
    float* tileQ = tiles;
    float* tileO = tileQ + TS * PITCH;  // dO
    float* tileK = tileO + TS * PITCH;
    float* tileV = tileK + TS * PITCH;
    float* tileP = tileV + TS * PITCH;
    const int x = threadIdx.x % ACROSS;
    const int y = threadIdx.x / ACROSS;
    const int row0 = blockIdx.x * TS;
    const int rows = blockIdx.y * N;
    const float scale = rsqrtf(static_cast<float>(D));
    load_rows(tileQ, Q + rows * D, row0, N);
    load_rows(tileO, dO + rows * D, row0, N);
    float4 of_q[WPT][QUADS] = {};
    const int end = causal ? min(N, row0 + TS) : N;
    for (int key0 = 0; key0 < end; key0 += TS) {
        __syncthreads();  // the tile before has been used
        load_rows(tileK, K + rows * D, key0, N);
        load_rows(tileV, V + rows * D, key0, N);
        __syncthreads();
        // BEGIN SOLUTION: P and dS as in backward_keys, not transposed; dQ += dS K (about 18 lines)
        // END SOLUTION
    }
    store_rows(dQ + rows * D, of_q, row0, N, x, y);
}
