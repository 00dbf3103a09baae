// attention_backward_atomics.cu: step 07 of lab 16 in one walk instead of two: gradients of queries are added up in memory.
// Idea:    step 07 computes every score twice, once where sums go over queries and once where they go over keys: seven
//          products. Here each score is computed once, and what it adds to its query's gradient goes to memory by an
//          atomic addition: five products. Nobody knows in which order blocks add, so two runs differ in the last
//          digits, and a training that was interrupted would not go on to the same bits: the step has the other way.
//          Blocks begin at different queries, so that few meet at the same address.
// From:    lab16_attention/07_backward.cu
// Limits:  N atomic additions for each 64 keys and number of a query.
// Entry:   sum_rows(const float O[HEADS,N,D] in, const float dO[HEADS,N,D] in, float delta[HEADS,N] out, int HEADS,
//                   int N)
// Entry:   backward(const float Q[HEADS,N,D] in, const float K[HEADS,N,D] in, const float V[HEADS,N,D] in,
//                   const float dO[HEADS,N,D] in, const float L[HEADS,N] in, const float delta[HEADS,N] in,
//                   float dQ[HEADS,N,D] out, float dK[HEADS,N,D] out, float dV[HEADS,N,D] out, int causal, int HEADS,
//                   int N)
// Needs:   causal >= 0, causal <= 1, HEADS <= 65535, HEADS * N * D <= 2147483647
// Scratch: delta
// Zeroed:  dQ
// Launch:  sum_rows block=(THREADS) grid=(cdiv(HEADS * N, THREADS / 16))
// Launch:  backward block=(THREADS) grid=(cdiv(N, TS), HEADS) shared=SHARED
// Usual:   causal = 0

constexpr int D = 64;           // numbers of a query, a key, a value
constexpr int TS = 64;          // rows of a block, and of the tiles that it goes through
constexpr int ACROSS = 16;      // threads that share a row: half of a warp
constexpr int DOWN = 16;
constexpr int THREADS = ACROSS * DOWN;
constexpr int BLOCKS = 2;       // blocks that share a multiprocessor, at least
constexpr int WPT = TS / DOWN;  // a thread has WPT x WPT scores: rows DOWN apart, columns ACROSS apart,
constexpr int QUADS = D / (4 * ACROSS);  // and of as many rows QUADS float4s of a gradient
constexpr int PITCH = D + 4;    // floats of a row: float4s of eight neighbouring rows lie in different banks
constexpr int PITCH_P = TS + 16;  // two neighbouring rows of probabilities lie 16 banks apart
constexpr int SHARED = 4 * (4 * TS * PITCH + TS * PITCH_P);
constexpr unsigned ALL = 0xffffffffu;

static_assert(SHARED <= 99 * 1024, "a block fits into what a GeForce has");
static_assert(WPT == 4, "a thread has four neighbouring queries");
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
    if (row < HEADS * N) {
        for (int quad = 0; quad < QUADS; ++quad) {
            const int place = row * D + (quad * ACROSS + x) * 4;
            sum = dot(*reinterpret_cast<const float4*>(O + place), *reinterpret_cast<const float4*>(dO + place), sum);
        }
    }
    for (int distance = ACROSS / 2; distance > 0; distance /= 2) {
        sum += __shfl_xor_sync(ALL, sum, distance);
    }
    if (row < HEADS * N && x == 0) {
        delta[row] = sum;
    }
}

// Adds four numbers to four in memory.
__device__ void add_quad(float* to, float4 quad)
{
#if __CUDA_ARCH__ >= 900
    asm volatile("red.global.add.v4.f32 [%0], {%1, %2, %3, %4};"
                 :: "l"(to), "f"(quad.x), "f"(quad.y), "f"(quad.z), "f"(quad.w) : "memory");
#else
    atomicAdd(to, quad.x);
    atomicAdd(to + 1, quad.y);
    atomicAdd(to + 2, quad.z);
    atomicAdd(to + 3, quad.w);
#endif
}

// gradient of queries += dS K, where dS stands with a key in each row: this thread's WPT neighbouring queries.
__device__ void add_to_queries(float* dQ, const float* dS, const float* K, int row0, int rows, int x, int y)
{
    for (int quad = 0; quad < QUADS; ++quad) {
        float4 sum[WPT] = {};
        const int col = (quad * ACROSS + x) * 4;
        #pragma unroll 4
        for (int k = 0; k < TS; ++k) {
            const float4 s = *reinterpret_cast<const float4*>(dS + k * PITCH_P + y * WPT);
            const float4 key = *reinterpret_cast<const float4*>(K + k * PITCH + col);
            sum[0] = add(sum[0], s.x, key);
            sum[1] = add(sum[1], s.y, key);
            sum[2] = add(sum[2], s.z, key);
            sum[3] = add(sum[3], s.w, key);
        }
        for (int i = 0; i < WPT; ++i) {
            const int row = row0 + y * WPT + i;
            if (row < rows) {
                add_quad(dQ + row * D + col, sum[i]);
            }
        }
    }
}

// Rows of a tile are keys here, its columns queries: scores stand transposed.
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
backward(const float* __restrict__ Q, const float* __restrict__ K, const float* __restrict__ V,
         const float* __restrict__ dO, const float* __restrict__ L, const float* __restrict__ delta,
         float* __restrict__ dQ, float* __restrict__ dK, float* __restrict__ dV, int causal, int HEADS, int N)
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
    const int first = causal ? blockIdx.x : 0;  // tile of queries that look at any key of this block
    const int turns = gridDim.x - first;
    for (int turn = 0; turn < turns; ++turn) {
        const int row0 = (first + (blockIdx.x - first + turn) % turns) * TS;
        __syncthreads();  // the tile before has been used
        load_rows(tileQ, Q + rows * D, row0, N);
        load_rows(tileO, dO + rows * D, row0, N);
        __syncthreads();
        float p[WPT][WPT];
        multiply(p, tileK, tileQ, x, y);
        for (int j = 0; j < WPT; ++j) {
            const int row = row0 + x + j * ACROSS;
            const float known = row < N ? L[rows + row] : 0.0f;
            for (int i = 0; i < WPT; ++i) {
                const int key = key0 + y + i * DOWN;
                const bool hidden = row >= N || key >= N || (causal && key > row);
                p[i][j] = hidden ? 0.0f : expf(p[i][j] * scale - known);
            }
        }
        leave(tileP, p, x, y);
        __syncwarp();
        add_product(of_v, tileP, tileO, x, y);
        float ds[WPT][WPT];
        multiply(ds, tileV, tileO, x, y);
        for (int j = 0; j < WPT; ++j) {
            const int row = row0 + x + j * ACROSS;
            const float mean = row < N ? delta[rows + row] : 0.0f;
            for (int i = 0; i < WPT; ++i) {
                ds[i][j] = p[i][j] * (ds[i][j] - mean) * scale;
            }
        }
        __syncwarp();  // P has been used
        leave(tileP, ds, x, y);
        __syncthreads();  // other warps' keys, too, for the queries
        add_product(of_k, tileP, tileQ, x, y);
        add_to_queries(dQ + rows * D, tileP, tileK, row0, N, x, y);
    }
    store_rows(dK + rows * D, of_k, key0, N, x, y);
    store_rows(dV + rows * D, of_v, key0, N, x, y);
}
