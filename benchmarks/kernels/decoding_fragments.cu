// decoding_fragments.cu: step 08 of lab 16 with its products on tensor cores, straight from memory.
// Idea:    step 08 issues some 230 instructions for each KiB, as many as an SM of an H200 can while a KiB arrives:
//          arithmetic stands in memory's way. mma.sync takes the GROUP queries as rows, eight keys as columns,
//          and what loads and shuffles did is gone. A fragment need not come by way of shared memory: which number of a
//          key is called the first is anybody's choice as long as queries agree, so a lane loads 16 bytes of a key and
//          calls them the fragment's. Of values a lane loads 16 bytes of two neighbouring keys; permuting bytes
//          pairs them as a fragment wants them. The next keys set out when the scores are done, the next values when
//          these have been weighed. Probabilities go in as two halves, one for what the other has lost.
// From:    lab16_attention/08_decoding.cu
// Limits:  heads of 128 numbers, of which at most 8 share keys and values.
// Entry:   attend(const half Q[TEXTS,GROUPS,GROUP,D] in, const half K[TEXTS,GROUPS,N,D] in,
//                 const half V[TEXTS,GROUPS,N,D] in, float sums[TEXTS,GROUPS,PARTS,GROUP,D] out,
//                 float pairs[TEXTS,GROUPS,PARTS,GROUP,2] out, float O[TEXTS,GROUPS,GROUP,D] out,
//                 int arrived[TEXTS,GROUPS] out, int TEXTS, int GROUPS, int N)
// Sizes:   PARTS = cdiv(N, SPLIT)
// Needs:   TEXTS * GROUPS <= 65535
// Scratch: sums, pairs
// Zeroed:  arrived
// Launch:  attend block=(THREADS) grid=(PARTS, TEXTS * GROUPS)

#include <cuda_fp16.h>

constexpr int D = 128;       // numbers of a query, a key, a value
constexpr int GROUP = 4;     // heads that share keys and values
constexpr int SPLIT = 512;   // keys of a block
constexpr int WARP = 32;
constexpr int WARPS = 4;
constexpr int THREADS = WARPS * WARP;
constexpr int BLOCKS = 3;    // blocks that share a multiprocessor, at least
constexpr int TILE = 16;     // keys that a warp looks at together: 16 or 32,
constexpr int EIGHTS = TILE / 8;  // in fragments of eight
constexpr int JOIN = 1;      // 0: parts stay apart, and O unwritten, to see what joining them costs
constexpr int CHUNK = 8;     // halves that a lane loads at a time
constexpr int CHUNKS = D / (4 * CHUNK);  // of a key, for each of four lanes
constexpr unsigned ALL = 0xffffffffu;
constexpr float LOG2E = 1.44269504f;

static_assert(D == 128, "eight lanes load one half of a value, and a fragment's other eight rows are the other half");
static_assert(GROUP <= 8, "queries are the columns of a fragment");
static_assert(TILE % 16 == 0, "a fragment of values has 16 keys");

// sum (16 x 8) += a (16 x 16) * b (16 x 8)
__device__ void multiply(float (&sum)[4], unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0, unsigned b1)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
                 : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

__device__ float power_of_two(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

__device__ unsigned bits(half2 pair) { return reinterpret_cast<const unsigned&>(pair); }

// What a lane has of a tile's keys: of key lane / 4 of each eight the chunks lane % 4, lane % 4 + 4, ...
__device__ void load_keys(uint4 (&keys)[EIGHTS][CHUNKS], const half* cache, int key0, int end)
{
    const int lane = threadIdx.x % WARP;
    #pragma unroll
    for (int n = 0; n < EIGHTS; ++n) {
        const int key = min(key0 + n * 8 + lane / 4, end - 1);  // behind the end the last one again, for no share
        const half* from = cache + static_cast<size_t>(key) * D + lane % 4 * CHUNK;
        #pragma unroll
        for (int c = 0; c < CHUNKS; ++c) {
            keys[n][c] = *reinterpret_cast<const uint4*>(from + c * 4 * CHUNK);
        }
    }
}

// Of its values: of keys 2 (lane % 4) and the next one of each eight, chunk lane / 4 of both halves.
__device__ void load_values(uint4 (&values)[EIGHTS][2][2], const half* cache, int key0, int end)
{
    const int lane = threadIdx.x % WARP;
    #pragma unroll
    for (int n = 0; n < EIGHTS; ++n) {
        #pragma unroll
        for (int e = 0; e < 2; ++e) {
            const int key = min(key0 + n * 8 + lane % 4 * 2 + e, end - 1);
            const half* from = cache + static_cast<size_t>(key) * D + lane / 4 * CHUNK;
            values[n][e][0] = *reinterpret_cast<const uint4*>(from);
            values[n][e][1] = *reinterpret_cast<const uint4*>(from + D / 2);
        }
    }
}

// Number j of two chunks, side by side.
__device__ unsigned pair_of(const uint4& low, const uint4& high, int j)
{
    const unsigned* a = reinterpret_cast<const unsigned*>(&low);
    const unsigned* b = reinterpret_cast<const unsigned*>(&high);
    return __byte_perm(a[j / 2], b[j / 2], j % 2 ? 0x7632 : 0x5410);
}

// Whether all other of `count` blocks have stored before this one asks, whose own results are then theirs to read, too.
// One thread releases what its block has stored, and acquires for it what the others have: barriers do the rest.
__device__ bool is_last(int* arrived, int count)
{
    __shared__ int before;
    __syncthreads();
    if (threadIdx.x == 0) {
        asm volatile("atom.acq_rel.gpu.global.add.s32 %0, [%1], 1;" : "=r"(before) : "l"(arrived) : "memory");
        if (before == count - 1) {
            *arrived = 0;  // for the next launch
        }
    }
    __syncthreads();
    return before == count - 1;
}

// The parts' pairs and sums together, by one warp: a lane has a part's pair, and of a sum four neighbouring numbers.
__device__ void join(float* out, const float* sums, const float* pairs, size_t begin, int parts, int g)
{
    const int lane = threadIdx.x % WARP;
    float largest = -INFINITY;
    float total = 0.0f;
    float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    for (int part0 = 0; part0 < parts; part0 += WARP) {
        const bool there = part0 + lane < parts;
        const size_t own = (begin + part0 + (there ? lane : 0)) * GROUP + g;
        const float2 pair = *reinterpret_cast<const float2*>(pairs + 2 * own);
        const int count = min(WARP, parts - part0);
        float4 its[WARP];
        #pragma unroll
        for (int i = 0; i < WARP; ++i) {  // all loads first: nobody waits for a pair before the sums set out
            const size_t part = (begin + part0 + min(i, count - 1)) * GROUP + g;
            its[i] = *reinterpret_cast<const float4*>(sums + part * D + lane * 4);
        }
        float larger = fmaxf(largest, pair.x);
        for (int distance = WARP / 2; distance > 0; distance /= 2) {
            larger = fmaxf(larger, __shfl_xor_sync(ALL, larger, distance));
        }
        const float before = power_of_two(largest - larger);
        const float shrink = there ? power_of_two(pair.x - larger) : 0.0f;
        total = total * before + pair.y * shrink;
        sum = make_float4(sum.x * before, sum.y * before, sum.z * before, sum.w * before);
        largest = larger;
        #pragma unroll
        for (int i = 0; i < WARP; ++i) {
            const float by = __shfl_sync(ALL, shrink, i);  // 0 behind the last part
            sum.x += by * its[i].x;
            sum.y += by * its[i].y;
            sum.z += by * its[i].z;
            sum.w += by * its[i].w;
        }
    }
    for (int distance = WARP / 2; distance > 0; distance /= 2) {
        total += __shfl_xor_sync(ALL, total, distance);
    }
    *reinterpret_cast<float4*>(out + lane * 4) =
        make_float4(sum.x / total, sum.y / total, sum.z / total, sum.w / total);
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
attend(const half* __restrict__ Q, const half* __restrict__ K, const half* __restrict__ V, float* __restrict__ sums,
       float* __restrict__ pairs, float* __restrict__ O, int* arrived, int TEXTS, int GROUPS, int N)
{
    __shared__ __align__(16) float warp_sums[WARPS][GROUP][D];
    __shared__ float warp_largest[WARPS][GROUP];
    __shared__ float warp_total[WARPS][GROUP];
    const int warp = threadIdx.x / WARP;
    const int lane = threadIdx.x % WARP;
    const int row = lane / 4;  // of a fragment: a query of scores, an eighth of a value
    const int col = lane % 4;
    const int first = blockIdx.x * SPLIT;
    const int end = min(N, first + SPLIT);
    const half* keys_of = K + static_cast<size_t>(blockIdx.y) * N * D;
    const half* values_of = V + static_cast<size_t>(blockIdx.y) * N * D;
    const float scale = rsqrtf(static_cast<float>(D)) * LOG2E;

    uint4 query[CHUNKS];  // of query `row` the chunks that this lane loads of keys
    #pragma unroll
    for (int c = 0; c < CHUNKS; ++c) {
        const half* from = Q + (static_cast<size_t>(blockIdx.y) * GROUP + row) * D + (c * 4 + col) * CHUNK;
        query[c] = row < GROUP ? *reinterpret_cast<const uint4*>(from) : make_uint4(0, 0, 0, 0);
    }
    float out[CHUNK][4] = {};  // number 8 row + j and that half a value on, of queries 2 col and 2 col + 1
    float largest = -INFINITY;  // of query `row`'s scores, times scale
    float total = 0.0f;         // of its powers, of this lane's keys

    uint4 keys[EIGHTS][CHUNKS];
    uint4 values[EIGHTS][2][2];
    int key0 = first + warp * TILE;
    if (key0 < end) {
        load_keys(keys, keys_of, key0, end);
        load_values(values, values_of, key0, end);
    }
    for (; key0 < end; key0 += WARPS * TILE) {
        const int next = key0 + WARPS * TILE;
        float score[EIGHTS][4] = {};
        #pragma unroll
        for (int c = 0; c < CHUNKS; ++c) {
            #pragma unroll
            for (int n = 0; n < EIGHTS; ++n) {
                multiply(score[n], query[c].x, 0, query[c].y, 0, keys[n][c].x, keys[n][c].y);
                multiply(score[n], query[c].z, 0, query[c].w, 0, keys[n][c].z, keys[n][c].w);
            }
        }
        if (next < end) {
            load_keys(keys, keys_of, next, end);
        }

        float larger = largest;
        #pragma unroll
        for (int n = 0; n < EIGHTS; ++n) {
            #pragma unroll
            for (int e = 0; e < 2; ++e) {
                score[n][e] = key0 + n * 8 + col * 2 + e < end ? score[n][e] * scale : -INFINITY;
                larger = fmaxf(larger, score[n][e]);
            }
        }
        larger = fmaxf(larger, __shfl_xor_sync(ALL, larger, 1));
        larger = fmaxf(larger, __shfl_xor_sync(ALL, larger, 2));
        const float shrink = power_of_two(largest - larger);
        largest = larger;
        total *= shrink;
        unsigned power[EIGHTS];
        unsigned rest[EIGHTS];
        #pragma unroll
        for (int n = 0; n < EIGHTS; ++n) {
            const float2 p = make_float2(power_of_two(score[n][0] - larger), power_of_two(score[n][1] - larger));
            total += p.x + p.y;
            const half2 rounded = __float22half2_rn(p);
            const float2 back = __half22float2(rounded);
            power[n] = bits(rounded);
            rest[n] = bits(__float22half2_rn(make_float2(p.x - back.x, p.y - back.y)));
        }
        const float shrinks[2] = {__shfl_sync(ALL, shrink, 8 * col), __shfl_sync(ALL, shrink, 8 * col + 4)};
        #pragma unroll
        for (int j = 0; j < CHUNK; ++j) {
            #pragma unroll
            for (int i = 0; i < 4; ++i) {
                out[j][i] *= shrinks[i % 2];
            }
            #pragma unroll
            for (int n = 0; n < EIGHTS; n += 2) {
                unsigned a[4];
                #pragma unroll
                for (int i = 0; i < 4; ++i) {
                    const uint4 (&two)[2][2] = values[n + i / 2];
                    a[i] = pair_of(two[0][i % 2], two[1][i % 2], j);
                }
                multiply(out[j], a[0], a[1], a[2], a[3], power[n], power[n + 1]);
                multiply(out[j], a[0], a[1], a[2], a[3], rest[n], rest[n + 1]);
            }
        }
        if (next < end) {
            load_values(values, values_of, next, end);
        }
    }

    total += __shfl_xor_sync(ALL, total, 1);
    total += __shfl_xor_sync(ALL, total, 2);
    if (col == 0 && row < GROUP) {
        warp_largest[warp][row] = largest;
        warp_total[warp][row] = total;
    }
    #pragma unroll
    for (int i = 0; i < 4; ++i) {
        const int g = col * 2 + i % 2;
        if (g < GROUP) {
            float4* to = reinterpret_cast<float4*>(&warp_sums[warp][g][i / 2 * (D / 2) + row * CHUNK]);
            to[0] = make_float4(out[0][i], out[1][i], out[2][i], out[3][i]);
            to[1] = make_float4(out[4][i], out[5][i], out[6][i], out[7][i]);
        }
    }
    __syncthreads();
    for (int g = warp; g < GROUP; g += WARPS) {
        float larger = -INFINITY;
        for (int i = 0; i < WARPS; ++i) {
            larger = fmaxf(larger, warp_largest[i][g]);
        }
        float all = 0.0f;
        float sum[D / WARP] = {};
        for (int i = 0; i < WARPS; ++i) {
            const float shrink = power_of_two(warp_largest[i][g] - larger);  // 0 for a warp without keys
            all += warp_total[i][g] * shrink;
            #pragma unroll
            for (int n = 0; n < D / WARP; ++n) {
                sum[n] += warp_sums[i][g][n * WARP + lane] * shrink;
            }
        }
        const size_t part = (static_cast<size_t>(blockIdx.y) * gridDim.x + blockIdx.x) * GROUP + g;
        #pragma unroll
        for (int n = 0; n < D / WARP; ++n) {
            sums[part * D + n * WARP + lane] = sum[n];
        }
        if (lane == 0) {
            pairs[2 * part] = larger;
            pairs[2 * part + 1] = all;
        }
    }
    if (JOIN && is_last(&arrived[blockIdx.y], gridDim.x)) {
        const size_t begin = static_cast<size_t>(blockIdx.y) * gridDim.x;
        for (int g = warp; g < GROUP; g += WARPS) {
            join(O + (static_cast<size_t>(blockIdx.y) * GROUP + g) * D, sums, pairs, begin, gridDim.x, g);
        }
    }
}
