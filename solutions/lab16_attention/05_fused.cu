// 05_fused.cu: attention in one kernel, which never stores a score.
// Idea:    a block keeps TSQ queries and goes through all keys and values, a tile at a time. Of a row it keeps the pair
//          of step 01, and the sum of p * V so far with p = exp(score - largest so far). Where a tile brings a larger
//          score, all that was summed shrinks by exp(old - new); at the end the row is divided by its sum. Memory
//          moves Q and O once, K and V once for each TSQ queries; nothing has N x N elements any more.
// From:    04_three_kernels.cu
// Limits:  float32 on ordinary pipes; 68 KB of shared memory for a block.
// Entry:   attention(const float Q[HEADS,N,D] in, const float K[HEADS,N,D] in, const float V[HEADS,N,D] in,
//                    float O[HEADS,N,D] out, float L[HEADS,N] out, int causal, int HEADS, int N)
// Needs:   causal >= 0, causal <= 1, HEADS <= 65535, HEADS * N * D <= 2147483647
// Launch:  attention block=(THREADS) grid=(cdiv(N, TSQ), HEADS) shared=SHARED
// Usual:   causal = 0

constexpr int D = 64;              // numbers of a query, a key, a value
constexpr int TSQ = 64;            // queries of a block
constexpr int TSK = 64;            // keys and values of a tile
constexpr int ACROSS = 16;         // threads that share a row of scores: half of a warp
constexpr int DOWN = 16;
constexpr int THREADS = ACROSS * DOWN;
constexpr int WPTQ = TSQ / DOWN;   // a thread has WPTQ x WPTK scores: rows DOWN apart, columns ACROSS apart,
constexpr int WPTK = TSK / ACROSS;
constexpr int QUADS = D / (4 * ACROSS);  // and of as many rows QUADS float4s of O
constexpr int PITCH = D + 4;       // floats of a row: float4s of eight neighbouring rows lie in different banks
constexpr int PITCH_P = TSK + 16;  // two neighbouring rows of probabilities lie 16 banks apart
constexpr int SHARED = 4 * (TSQ * PITCH + TSK * PITCH + TSK * D + TSQ * PITCH_P);
constexpr unsigned ALL = 0xffffffffu;

static_assert(SHARED <= 227 * 1024, "a block of an H100 has 227 KB of shared memory");
static_assert(D % (4 * ACROSS) == 0, "a row of O is shared out by float4s");
static_assert(TSQ % DOWN == 0 && TSK % ACROSS == 0 && TSK % 4 == 0, "the threads' scores cover the tile exactly");

// Copies `count` rows from row `first` on; rows past the end become zero.
__device__ void load_rows(float* to, int pitch, const float* from, int first, int count, int rows)
{
    for (int i = threadIdx.x; i < count * (D / 4); i += THREADS) {
        const int row = i / (D / 4);
        const int col = i % (D / 4) * 4;
        const float4* quad = reinterpret_cast<const float4*>(from + (first + row) * D + col);
        *reinterpret_cast<float4*>(to + row * pitch + col) =
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

__device__ float4 scaled(float4 v, float by) { return make_float4(by * v.x, by * v.y, by * v.z, by * v.w); }

__device__ void store_quad(float* to, float4 quad) { *reinterpret_cast<float4*>(to) = quad; }

extern "C" __global__ void __launch_bounds__(THREADS)
attention(const float* __restrict__ Q, const float* __restrict__ K, const float* __restrict__ V, float* __restrict__ O,
          float* __restrict__ L, int causal, int HEADS, int N)
{
    extern __shared__ __align__(16) float tiles[];
    float* tileQ = tiles;
    float* tileK = tileQ + TSQ * PITCH;
    float* tileV = tileK + TSK * PITCH;
    float* tileP = tileV + TSK * D;
    const int x = threadIdx.x % ACROSS;
    const int y = threadIdx.x / ACROSS;
    const int row0 = blockIdx.x * TSQ;
    const int head = blockIdx.y * N * D;
    const float scale = rsqrtf(static_cast<float>(D));
    load_rows(tileQ, PITCH, Q + head, row0, TSQ, N);

    float largest[WPTQ];  // of each row's scores so far,
    float sum[WPTQ];      // the sum of exp(score - largest),
    float4 out[WPTQ][QUADS] = {};  // and that of exp(score - largest) * V
    for (int i = 0; i < WPTQ; ++i) {
        largest[i] = -INFINITY;
        sum[i] = 0.0f;
    }
    int end = N;  // keys that any query of this block looks at
    // BEGIN SOLUTION: up to the last query of the block, if causal (about 1 line)
    if (causal) end = min(N, row0 + TSQ);
    // END SOLUTION

    for (int key0 = 0; key0 < end; key0 += TSK) {
        __syncthreads();  // the tile before has been used
        load_rows(tileK, PITCH, K + head, key0, TSK, N);
        load_rows(tileV, D, V + head, key0, TSK, N);
        __syncthreads();
        float score[WPTQ][WPTK] = {};
        #pragma unroll 2
        for (int d = 0; d < D; d += 4) {
            float4 q[WPTQ];
            for (int i = 0; i < WPTQ; ++i) {
                q[i] = *reinterpret_cast<const float4*>(tileQ + (y + i * DOWN) * PITCH + d);
            }
            for (int j = 0; j < WPTK; ++j) {
                const float4 k = *reinterpret_cast<const float4*>(tileK + (x + j * ACROSS) * PITCH + d);
                for (int i = 0; i < WPTQ; ++i) {
                    score[i][j] = dot(q[i], k, score[i][j]);
                }
            }
        }
        for (int i = 0; i < WPTQ; ++i) {
            const int row = row0 + y + i * DOWN;
            float larger = largest[i];
            // BEGIN SOLUTION: scale, hide; the row's largest score of this tile and before, in all 16 lanes (about 8 lines)
            for (int j = 0; j < WPTK; ++j) {
                const int key = key0 + x + j * ACROSS;
                const bool hidden = key >= N || (causal && key > row);
                score[i][j] = hidden ? -INFINITY : score[i][j] * scale;
                larger = fmaxf(larger, score[i][j]);
            }
            for (int distance = ACROSS / 2; distance > 0; distance /= 2) {
                larger = fmaxf(larger, __shfl_xor_sync(ALL, larger, distance));
            }
            // END SOLUTION
            // BEGIN SOLUTION: probabilities to tileP and their sum; what was summed before shrinks (about 11 lines)
            const float shrink = expf(largest[i] - larger);
            float part = 0.0f;
            for (int j = 0; j < WPTK; ++j) {
                const float p = expf(score[i][j] - larger);
                tileP[(y + i * DOWN) * PITCH_P + x + j * ACROSS] = p;
                part += p;
            }
            sum[i] = sum[i] * shrink + part;  // of this lane's columns: lanes are added up at the end
            for (int quad = 0; quad < QUADS; ++quad) {
                out[i][quad] = scaled(out[i][quad], shrink);
            }
            largest[i] = larger;
            // END SOLUTION
        }
        __syncwarp();  // a row's probabilities are written and read by one warp
        #pragma unroll 2
        for (int k = 0; k < TSK; k += 4) {
            float4 p[WPTQ];
            for (int i = 0; i < WPTQ; ++i) {
                p[i] = *reinterpret_cast<const float4*>(tileP + (y + i * DOWN) * PITCH_P + k);
            }
            for (int quad = 0; quad < QUADS; ++quad) {
                const float* from = tileV + k * D + (quad * ACROSS + x) * 4;
                const float4 v0 = *reinterpret_cast<const float4*>(from);
                const float4 v1 = *reinterpret_cast<const float4*>(from + D);
                const float4 v2 = *reinterpret_cast<const float4*>(from + 2 * D);
                const float4 v3 = *reinterpret_cast<const float4*>(from + 3 * D);
                for (int i = 0; i < WPTQ; ++i) {
                    out[i][quad] = add(add(add(add(out[i][quad], p[i].x, v0), p[i].y, v1), p[i].z, v2), p[i].w, v3);
                }
            }
        }
    }

    for (int i = 0; i < WPTQ; ++i) {
        const int row = row0 + y + i * DOWN;
        // BEGIN SOLUTION: add up the lanes' sums; divide, store; L is the logarithm of the sum of exp(score) (about 12 lines)
        for (int distance = ACROSS / 2; distance > 0; distance /= 2) {
            sum[i] += __shfl_xor_sync(ALL, sum[i], distance);
        }
        if (row < N) {
            for (int quad = 0; quad < QUADS; ++quad) {
                float* to = O + head + row * D + (quad * ACROSS + x) * 4;
                store_quad(to, scaled(out[i][quad], 1.0f / sum[i]));
            }
            if (x == 0) {
                L[blockIdx.y * N + row] = largest[i] + logf(sum[i]);
            }
        }
        // END SOLUTION
    }
}
