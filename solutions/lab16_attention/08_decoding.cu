// 08_decoding.cu: attention of one new query for each head over all keys and values that are kept.
// Idea:    a text is written a token at a time, and each new query looks at all that came before it: keys and values
//          stay in memory (the KV cache) and each is read once for one query. That is a matter of bytes, so: halves;
//          GROUP heads share keys and values, and a block that has loaded them serves all GROUP; and as one text has
//          too few heads to fill a GPU, the sequence is split. Each part leaves a pair, as in step 01, and a sum of
//          values that belongs to it; a second kernel joins the parts.
// Limits:  parts of SPLIT keys whatever the number of texts: with many of them fewer parts would do.
// Entry:   attend(const half Q[TEXTS,GROUPS,GROUP,D] in, const half K[TEXTS,GROUPS,N,D] in,
//                 const half V[TEXTS,GROUPS,N,D] in, float sums[TEXTS,GROUPS,PARTS,GROUP,D] out,
//                 float pairs[TEXTS,GROUPS,PARTS,GROUP,2] out, int TEXTS, int GROUPS, int N)
// Entry:   join(const float sums[TEXTS,GROUPS,PARTS,GROUP,D] in, const float pairs[TEXTS,GROUPS,PARTS,GROUP,2] in,
//               float O[TEXTS,GROUPS,GROUP,D] out, int TEXTS, int GROUPS, int N)
// Sizes:   PARTS = cdiv(N, SPLIT)
// Needs:   TEXTS * GROUPS <= 65535
// Scratch: sums, pairs
// Launch:  attend block=(THREADS) grid=(PARTS, TEXTS * GROUPS)
// Launch:  join block=(D) grid=(TEXTS * GROUPS * GROUP)
// Usual:   TEXTS = 4, GROUPS = 4, N = 1024

#include <cuda_fp16.h>

constexpr int D = 128;       // numbers of a query, a key, a value
constexpr int GROUP = 4;     // heads that share keys and values
constexpr int SPLIT = 512;   // keys of a block
constexpr int WARP = 32;
constexpr int WARPS = 4;
constexpr int THREADS = WARPS * WARP;
constexpr int CHUNK = 8;     // halves that a lane loads at a time, and numbers of each query that it has
constexpr int LANES = D / CHUNK;      // share a key
constexpr int KEYS = WARP / LANES;    // that a warp looks at side by side,
constexpr int TURN = 4;               // and so many one after the other before anything shrinks
constexpr int STEP = WARPS * KEYS * TURN;
constexpr int TEAMS = WARPS * KEYS;   // groups of lanes with a pair of their own
constexpr unsigned ALL = 0xffffffffu;

static_assert(CHUNK == 8 && D % WARP == 0, "a lane has two float4s of a sum");
static_assert(LANES * KEYS == WARP && (LANES & (LANES - 1)) == 0, "lanes share keys equally");

// Eight halves as floats.
__device__ void widen(float (&to)[CHUNK], uint4 from)
{
    const half2* pairs = reinterpret_cast<const half2*>(&from);
    #pragma unroll
    for (int i = 0; i < CHUNK / 2; ++i) {
        const float2 two = __half22float2(pairs[i]);
        to[2 * i] = two.x;
        to[2 * i + 1] = two.y;
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
attend(const half* __restrict__ Q, const half* __restrict__ K, const half* __restrict__ V, float* __restrict__ sums,
       float* __restrict__ pairs, int TEXTS, int GROUPS, int N)
{
    __shared__ __align__(16) float team_sums[TEAMS][GROUP][D];
    __shared__ float team_largest[TEAMS][GROUP];
    __shared__ float team_total[TEAMS][GROUP];
    const int warp = threadIdx.x / WARP;
    const int lane = threadIdx.x % WARP % LANES;  // in its team
    const int team = threadIdx.x / LANES;
    const int first = blockIdx.x * SPLIT;
    const int end = min(N, first + SPLIT);
    const size_t cache = static_cast<size_t>(blockIdx.y) * N * D + lane * CHUNK;
    const float scale = rsqrtf(static_cast<float>(D));
    float query[GROUP][CHUNK];
    float out[GROUP][CHUNK] = {};
    float largest[GROUP];
    float total[GROUP];
    #pragma unroll
    for (int g = 0; g < GROUP; ++g) {
        const half* from = Q + (static_cast<size_t>(blockIdx.y) * GROUP + g) * D + lane * CHUNK;
        widen(query[g], *reinterpret_cast<const uint4*>(from));
        largest[g] = -INFINITY;
        total[g] = 0.0f;
    }

    // Of each STEP keys a team has TURN, TEAMS apart: all lanes of a block read neighbouring rows at the same time.
    for (int key0 = first; key0 < end; key0 += STEP) {
        float score[TURN][GROUP];
        uint4 keys[TURN];
        uint4 values[TURN];
        #pragma unroll
        for (int turn = 0; turn < TURN; ++turn) {  // all loads first: they are under way together
            const int key = key0 + turn * TEAMS + team;
            const bool there = key < end;
            const size_t place = cache + static_cast<size_t>(there ? key : first) * D;
            keys[turn] = *reinterpret_cast<const uint4*>(K + place);
            values[turn] = *reinterpret_cast<const uint4*>(V + place);
        }
        #pragma unroll
        for (int turn = 0; turn < TURN; ++turn) {
            float key[CHUNK];
            widen(key, keys[turn]);
            const bool there = key0 + turn * TEAMS + team < end;
            // BEGIN SOLUTION: the scores of all GROUP queries with this key, in all lanes of the team (about 12 lines)
            #pragma unroll
            for (int g = 0; g < GROUP; ++g) {
                float part = 0.0f;
                #pragma unroll
                for (int i = 0; i < CHUNK; ++i) {
                    part += query[g][i] * key[i];
                }
                #pragma unroll
                for (int distance = LANES / 2; distance > 0; distance /= 2) {
                    part += __shfl_xor_sync(ALL, part, distance);
                }
                score[turn][g] = there ? part * scale : -INFINITY;
            }
            // END SOLUTION
        }
        #pragma unroll
        for (int g = 0; g < GROUP; ++g) {
            // BEGIN SOLUTION: the pair of these keys and of all before; what was summed shrinks (about 15 lines)
            float larger = largest[g];
            #pragma unroll
            for (int turn = 0; turn < TURN; ++turn) {
                larger = fmaxf(larger, score[turn][g]);
            }
            const float shrink = largest[g] > -INFINITY ? expf(largest[g] - larger) : 0.0f;
            total[g] *= shrink;
            #pragma unroll
            for (int i = 0; i < CHUNK; ++i) {
                out[g][i] *= shrink;
            }
            #pragma unroll
            for (int turn = 0; turn < TURN; ++turn) {
                score[turn][g] = score[turn][g] > -INFINITY ? expf(score[turn][g] - larger) : 0.0f;
                total[g] += score[turn][g];
            }
            largest[g] = larger;
            // END SOLUTION
        }
        #pragma unroll
        for (int turn = 0; turn < TURN; ++turn) {
            float value[CHUNK];
            widen(value, values[turn]);
            #pragma unroll
            for (int g = 0; g < GROUP; ++g) {
                #pragma unroll
                for (int i = 0; i < CHUNK; ++i) {
                    out[g][i] += score[turn][g] * value[i];
                }
            }
        }
    }

    const bool turned = lane / 4 % 2;  // float4s that are 32 bytes apart, of eight lanes, would meet in four banks
    #pragma unroll
    for (int g = 0; g < GROUP; ++g) {
        float4* to = reinterpret_cast<float4*>(&team_sums[team][g][lane * CHUNK]);
        const float4 low = make_float4(out[g][0], out[g][1], out[g][2], out[g][3]);
        const float4 high = make_float4(out[g][4], out[g][5], out[g][6], out[g][7]);
        to[turned] = turned ? high : low;
        to[!turned] = turned ? low : high;
        if (lane == 0) {
            team_largest[team][g] = largest[g];
            team_total[team][g] = total[g];
        }
    }
    __syncthreads();
    // One warp for each query: the teams' pairs joined, and their sums.
    for (int g = warp; g < GROUP; g += WARPS) {
        float larger = -INFINITY;
        for (int i = 0; i < TEAMS; ++i) {
            larger = fmaxf(larger, team_largest[i][g]);
        }
        float all = 0.0f;
        float sum[D / WARP] = {};
        for (int i = 0; i < TEAMS; ++i) {
            const float shrink = expf(team_largest[i][g] - larger);  // 0 for a team without keys
            all += team_total[i][g] * shrink;
            #pragma unroll
            for (int n = 0; n < D / WARP; ++n) {
                sum[n] += team_sums[i][g][n * WARP + threadIdx.x % WARP] * shrink;
            }
        }
        const size_t part = (static_cast<size_t>(blockIdx.y) * gridDim.x + blockIdx.x) * GROUP + g;
        #pragma unroll
        for (int n = 0; n < D / WARP; ++n) {
            sums[part * D + n * WARP + threadIdx.x % WARP] = sum[n];
        }
        if (threadIdx.x % WARP == 0) {
            pairs[2 * part] = larger;
            pairs[2 * part + 1] = all;
        }
    }
}

// One block for each query, a thread for each of its D numbers.
extern "C" __global__ void __launch_bounds__(D)
join(const float* __restrict__ sums, const float* __restrict__ pairs, float* __restrict__ O, int TEXTS, int GROUPS,
     int N)
{
    const int parts = (N + SPLIT - 1) / SPLIT;
    const int d = threadIdx.x;
    // The query's number in its group, and where the group's first part begins.
    const int g = blockIdx.x % GROUP;
    const size_t begin = static_cast<size_t>(blockIdx.x / GROUP) * parts;
    float larger = -INFINITY;
    float all = 0.0f;
    float sum = 0.0f;
    // BEGIN SOLUTION: the largest of all parts; then their totals and sums, each shrunk to it (about 9 lines)
    for (int part = 0; part < parts; ++part) {
        larger = fmaxf(larger, pairs[2 * ((begin + part) * GROUP + g)]);
    }
    for (int part = 0; part < parts; ++part) {
        const size_t place = (begin + part) * GROUP + g;
        const float shrink = expf(pairs[2 * place] - larger);
        all += pairs[2 * place + 1] * shrink;
        sum += sums[place * D + d] * shrink;
    }
    // END SOLUTION
    O[static_cast<size_t>(blockIdx.x) * D + d] = sum / all;
}
