// 09_hopper.cu: the fused attention of 06 as Hopper wants it: wgmma, fed by the tensor memory accelerator.
// Idea:    one thread asks the TMA for tiles; two warpgroups of 64 queries each compute: scores by wgmma straight from
//          shared memory, weighed values by a wgmma that takes its left side, the probabilities, from registers. Both
//          are asynchronous. So a warpgroup begins the next tile's scores and this tile's values together, and computes
//          powers of the former while tensor cores are busy with the latter, and with what the other warpgroup has
//          begun. Blocks stay, and take a long row of tiles and a short one by turns: all have as much to do if causal.
// From:    06_tensor_cores.cu
// Limits:  with D = 64 a tile's powers take the special function units as long as its products take the tensor cores.
// Target:  sm_90a
// Entry:   attention(const half Q[HEADS,N,D] in map=(1, TSQ, 64), const half K[HEADS,N,D] in map=(1, TSK, 64),
//                    const half V[HEADS,N,D] in map=(1, TSK, 64), half O[HEADS,N,D] out, float L[HEADS,N] out,
//                    int causal, int HEADS, int N)
// Needs:   causal >= 0, causal <= 1, HEADS <= 65535, HEADS * N * D <= 2147483647
// Launch:  attention block=(THREADS) grid=(BLOCKS) shared=SHARED
// Usual:   causal = 0

#include <cuda_fp16.h>

constexpr int D = 64;               // numbers of a query, a key, a value: 64 or 128
constexpr int CONSUMERS = 2;        // warpgroups that compute, 64 queries each; one more sends for tiles
constexpr int TSQ = 64 * CONSUMERS; // queries of a block
constexpr int TSK = 128;            // keys and values of a tile
constexpr int STAGES = 2;           // tiles of keys, and of values, in shared memory
constexpr int BLOCKS = 132;         // one for each multiprocessor of an H100 or H200
constexpr int THREADS = 128 * (CONSUMERS + 1);
constexpr int PANELS = D / 64;      // a row of a tile lies in panels whose rows are 128 bytes, the widest swizzle
constexpr int PANEL_Q = 2 * TSQ * 64;
constexpr int PANEL_K = 2 * TSK * 64;
constexpr int BYTES_Q = PANELS * PANEL_Q;
constexpr int BYTES_K = PANELS * PANEL_K;  // of a tile of keys, or of values
constexpr int SHARED = BYTES_Q + 2 * STAGES * BYTES_K + 8 * (2 + 4 * STAGES);
constexpr float LOG2E = 1.44269504f;
constexpr float LN2 = 0.69314718f;
constexpr unsigned ALL = 0xffffffffu;

static_assert((D == 64 || D == 128) && TSK == 128, "what one wgmma computes here");
static_assert(TSQ == TSK, "only a row's last tile has keys to hide, and leaves each query one");
static_assert(CONSUMERS == 2, "registers are shared out for this shape");
static_assert(SHARED <= 227 * 1024, "a block of an H100 has 227 KB of shared memory");

// A tensor map: the shape of an array and of its tiles, in a form that the TMA reads. The launcher makes it.
struct alignas(64) CUtensorMap {
    unsigned long long opaque[16];
};

__device__ unsigned shared_address(const void* pointer)
{
    return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}

__device__ void init_barrier(unsigned long long* barrier, int arrivals)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(shared_address(barrier)), "r"(arrivals) : "memory");
}

// Arrives, and announces that so many bytes will.
__device__ void expect_bytes(unsigned long long* barrier, int bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                 :: "r"(shared_address(barrier)), "r"(bytes) : "memory");
}

__device__ void arrive(unsigned long long* barrier)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(shared_address(barrier)) : "memory");
}

// Waits until the phase of this parity is over.
__device__ void wait(unsigned long long* barrier, int parity)
{
    asm volatile(
        "{\n"
        ".reg .pred over;\n"
        "again:\n"
        "mbarrier.try_wait.parity.shared::cta.b64 over, [%0], %1;\n"
        "@!over bra again;\n"
        "}\n"
        :: "r"(shared_address(barrier)), "r"(parity) : "memory");
}

// Sends for all panels of the rows of a head from `row` on; rows past the end come as zeros.
__device__ void copy_rows(unsigned char* to, int panel_bytes, const CUtensorMap& map, int head, int row,
                          unsigned long long* barrier)
{
    #pragma unroll
    for (int panel = 0; panel < PANELS; ++panel) {
        asm volatile(
            "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
            " [%0], [%1, {%3, %4, %5}], [%2];"
            :: "r"(shared_address(to + panel * panel_bytes)), "l"(&map), "r"(shared_address(barrier)),
               "r"(panel * 64), "r"(row), "r"(head) : "memory");
    }
}

// Says where an operand lies: groups of 8 rows of 128 bytes, swizzled, follow each other; `leading`: bytes to the
// next 64 columns, for an operand whose rows run along M or N.
__device__ unsigned long long describe(const void* operand, int leading)
{
    const unsigned long long start = (shared_address(operand) & 0x3ffff) >> 4;
    return start | static_cast<unsigned long long>(leading >> 4) << 16 | 1024ull >> 4 << 32 | 1ull << 62;
}

// d (64 x 128) = a (64 x 16) * b (16 x 128) + (adds ? d : 0), begun, not finished; a and b in shared memory
__device__ void multiply(float (&d)[64], unsigned long long a, unsigned long long b, int adds)
{
    asm volatile(
        "{\n"
        ".reg .pred adds;\n"
        "setp.ne.b32 adds, %66, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
        "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
        "%64, %65, adds, 1, 1, 0, 0;\n"
        "}\n"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
          "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
          "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
          "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]),
          "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]),
          "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]),
          "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]),
          "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63])
        : "l"(a), "l"(b), "r"(adds));
}

// d (64 x 128) += a (64 x 16, in registers) * b (16 x 128, its rows in shared memory), begun, not finished
__device__ void multiply(float (&d)[64], const unsigned (&a)[4], unsigned long long b)
{
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
        "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
        "{%64, %65, %66, %67}, %68, 1, 1, 1, 1;\n"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
          "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
          "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
          "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]),
          "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]),
          "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]),
          "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]),
          "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}

// d (64 x 64) += a (64 x 16, in registers) * b (16 x 64, its rows in shared memory), begun, not finished
__device__ void multiply(float (&d)[32], const unsigned (&a)[4], unsigned long long b)
{
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
        "{%32, %33, %34, %35}, %36, 1, 1, 1, 1;\n"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
          "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
          "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
          "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}

// Waits until no more than OPEN groups of products are unfinished.
template <int OPEN>
__device__ void wait_for_products()
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" :: "n"(OPEN) : "memory");
}

// Sums are as products left them: the compiler uses none before this place.
template <int COUNT>
__device__ void hold(float (&sums)[COUNT])
{
    #pragma unroll
    for (int i = 0; i < COUNT; ++i) {
        asm volatile("" : "+f"(sums[i]) :: "memory");
    }
}

// From here on products may read and write registers, these sums among them.
template <int COUNT>
__device__ void hand_over(float (&sums)[COUNT])
{
    hold(sums);
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

__device__ float power_of_two(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

__device__ unsigned pack(float low, float high)
{
    const half2 pair = __floats2half2_rn(low, high);
    return reinterpret_cast<const unsigned&>(pair);
}

// Turns 4 x 4 words of four neighbouring lanes: word w of the group's lane l becomes word l of its lane w.
__device__ void turn(unsigned (&words)[4], int lane)
{
    #pragma unroll
    for (int step = 1; step <= 2; step *= 2) {
        const bool upper = lane & step;
        #pragma unroll
        for (int i = 0; i < 4; ++i) {
            if (i & step) continue;
            unsigned& left = words[i];
            unsigned& right = words[i | step];
            const unsigned got = __shfl_xor_sync(ALL, upper ? left : right, step);
            (upper ? left : right) = got;
        }
    }
}

// What a thread knows of its two rows, lane / 4 and lane / 4 + 8 of its warp's 16.
struct Rows {
    float largest[2] = {-INFINITY, -INFINITY};  // score so far, times scale
    float sum[2] = {};                          // of powers: of this lane's keys
    float shrink[2];                            // what the last tile has left of all before it
};

// Powers take the place of a tile's scores.
__device__ void take_powers(float (&score)[TSK / 2], Rows& rows, float scale)
{
    #pragma unroll
    for (int row = 0; row < 2; ++row) {
        float larger = -INFINITY;
        #pragma unroll
        for (int i = 2 * row; i < TSK / 2; i += 4) {  // the row's two elements of each 8 x 8
            larger = fmaxf(larger, fmaxf(score[i], score[i + 1]));
        }
        larger = fmaxf(larger, __shfl_xor_sync(ALL, larger, 1));
        larger = fmaxf(larger, __shfl_xor_sync(ALL, larger, 2));
        larger = fmaxf(rows.largest[row], larger * scale);
        rows.shrink[row] = power_of_two(rows.largest[row] - larger);
        rows.largest[row] = larger;
        float part[2] = {};
        #pragma unroll
        for (int i = 2 * row; i < TSK / 2; i += 4) {
            score[i] = power_of_two(fmaf(score[i], scale, -larger));
            score[i + 1] = power_of_two(fmaf(score[i + 1], scale, -larger));
            part[0] += score[i];
            part[1] += score[i + 1];
        }
        rows.sum[row] = rows.sum[row] * rows.shrink[row] + (part[0] + part[1]);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
attention(const __grid_constant__ CUtensorMap Q, const __grid_constant__ CUtensorMap K,
          const __grid_constant__ CUtensorMap V, half* __restrict__ O, float* __restrict__ L,
          int causal, int HEADS, int N)
{
    extern __shared__ __align__(1024) unsigned char shared[];
    unsigned char* const tileQ = shared;
    unsigned char* const tilesK = tileQ + BYTES_Q;
    unsigned char* const tilesV = tilesK + STAGES * BYTES_K;
    unsigned long long* const fullQ = reinterpret_cast<unsigned long long*>(tilesV + STAGES * BYTES_K);
    unsigned long long* const emptyQ = fullQ + 1;
    unsigned long long* const fullK = emptyQ + 1;
    unsigned long long* const emptyK = fullK + STAGES;
    unsigned long long* const fullV = emptyK + STAGES;
    unsigned long long* const emptyV = fullV + STAGES;
    const int warpgroup = __shfl_sync(ALL, threadIdx.x / 128, 0);  // the compiler sees: all lanes have the same

    if (threadIdx.x == 0) {
        for (const CUtensorMap* map : {&Q, &K, &V}) {
            asm volatile("prefetch.tensormap [%0];" :: "l"(map) : "memory");
        }
        init_barrier(fullQ, 1);
        init_barrier(emptyQ, CONSUMERS);
        for (int stage = 0; stage < STAGES; ++stage) {
            init_barrier(&fullK[stage], 1);           // the thread that sends for a tile
            init_barrier(&fullV[stage], 1);
            init_barrier(&emptyK[stage], CONSUMERS);  // all that read it
            init_barrier(&emptyV[stage], CONSUMERS);
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();

    // Tiles of queries go in pairs: a head's last with its first, its last but one with its second. Finds the first row
    // of a block's i-th, and returns how many keys it looks at: none if it is its own partner, and was taken before.
    const int across = (N + TSQ - 1) / TSQ;
    const int pairs = (across + 1) / 2;  // of a head
    const int turns = (HEADS * pairs - 1 - static_cast<int>(blockIdx.x) + BLOCKS) / BLOCKS * 2;
    const auto place = [&](int i, int& head, int& row0) {
        const int pair = blockIdx.x + i / 2 * BLOCKS;
        head = pair / pairs;
        const int low = pair % pairs;
        const int high = across - 1 - low;
        row0 = (i % 2 == 0 ? high : low) * TSQ;
        if (i % 2 == 1 && low == high) return 0;
        return causal ? min(N, row0 + TSQ) : N;
    };
    // Tiles are numbered as the block takes them, of keys as of values. Where is one, and which phase is its stage's?
    const auto stage_of = [](int number) { return number % STAGES; };
    const auto parity_of = [](int number) { return number / STAGES % 2; };
    int first = 0;    // number of a row's first tile
    int parityQ = 0;  // of the tile of queries

    if (warpgroup == CONSUMERS) {  // sends for tiles
        asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
        if (threadIdx.x % 128 == 0) {
            for (int i = 0; i < turns; ++i) {
                int head, row0;
                const int tiles = (place(i, head, row0) + TSK - 1) / TSK;
                if (tiles == 0) continue;
                wait(emptyQ, parityQ ^ 1);  // nothing has been used yet: the first wait passes
                parityQ ^= 1;
                expect_bytes(fullQ, BYTES_Q);
                copy_rows(tileQ, PANEL_Q, Q, head, row0, fullQ);
                // The last tile comes first: it alone has keys to hide. Keys go one tile ahead of values.
                for (int tile = 0; tile <= tiles; ++tile) {
                    // BEGIN SOLUTION: wait until it is free, announce bytes, send: keys, then values (about 14 lines)
                    if (tile < tiles) {
                        const int stage = stage_of(first + tile);
                        wait(&emptyK[stage], parity_of(first + tile) ^ 1);
                        expect_bytes(&fullK[stage], BYTES_K);
                        unsigned char* const to = tilesK + stage * BYTES_K;
                        copy_rows(to, PANEL_K, K, head, (tiles - 1 - tile) * TSK, &fullK[stage]);
                    }
                    if (tile > 0) {
                        const int stage = stage_of(first + tile - 1);
                        wait(&emptyV[stage], parity_of(first + tile - 1) ^ 1);
                        expect_bytes(&fullV[stage], BYTES_K);
                        unsigned char* const to = tilesV + stage * BYTES_K;
                        copy_rows(to, PANEL_K, V, head, (tiles - tile) * TSK, &fullV[stage]);
                    }
                    // END SOLUTION
                }
                first += tiles;
            }
        }
    } else {  // computes
        asm volatile("setmaxnreg.inc.sync.aligned.u32 240;");
        const int lane = threadIdx.x % 32;
        const int warp = threadIdx.x % 128 / 32;
        const bool speaks = threadIdx.x % 128 == 0;  // for its warpgroup
        const float scale = rsqrtf(static_cast<float>(D)) * LOG2E;
        const unsigned long long q = describe(tileQ + warpgroup * 64 * 128, 0);
        float score[TSK / 2] = {};
        float out[D / 2];
        unsigned p[TSK / 16][4];  // powers as halves: for each 16 keys a fragment of factors

        const auto begin_scores = [&](int number) {
            const unsigned long long k = describe(tilesK + stage_of(number) * BYTES_K, 0);
            hand_over(score);
            #pragma unroll
            for (int step = 0; step < D / 16; ++step) {
                // BEGIN SOLUTION: 32 bytes further along the rows; four steps are a panel (about 3 lines)
                const int inQ = step / 4 * PANEL_Q + step % 4 * 32;
                const int inK = step / 4 * PANEL_K + step % 4 * 32;
                multiply(score, q + (inQ >> 4), k + (inK >> 4), step > 0);
                // END SOLUTION
            }
            asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
        };
        const auto begin_values = [&](int number) {
            const unsigned long long v = describe(tilesV + stage_of(number) * BYTES_K, PANEL_K);
            hand_over(out);
            #pragma unroll
            for (int step = 0; step < TSK / 16; ++step) {
                // BEGIN SOLUTION: 16 values further down (about 1 line)
                multiply(out, p[step], v + (step * 16 * 128 >> 4));
                // END SOLUTION
            }
            asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
        };

        for (int i = 0; i < turns; ++i) {
            int head, row0;
            const int tiles = (place(i, head, row0) + TSK - 1) / TSK;
            if (tiles == 0) continue;
            const int own = row0 + warpgroup * 64 + warp * 16;  // the warp's first row
            Rows rows;
            #pragma unroll
            for (int n = 0; n < D / 2; ++n) {
                out[n] = 0.0f;
            }
            const auto hide = [&](int key0) {  // keys past the end, and those behind a query, if causal
                #pragma unroll
                for (int n = 0; n < TSK / 2; ++n) {
                    const int row = own + lane / 4 + n % 4 / 2 * 8;
                    const int key = key0 + n / 4 * 8 + lane % 4 * 2 + n % 2;
                    if (key >= N || (causal && key > row)) score[n] = -INFINITY;
                }
            };
            const auto settle = [&] {  // what was weighed shrinks to the new largest; powers become factors
                wait_for_products<0>();
                hold(out);
                #pragma unroll
                for (int n = 0; n < D / 2; ++n) {
                    out[n] *= rows.shrink[n % 4 / 2];
                }
                #pragma unroll
                for (int n = 0; n < TSK / 4; ++n) {
                    // BEGIN SOLUTION: two neighbours are one word (about 1 line)
                    p[n / 4][n % 4] = pack(score[2 * n], score[2 * n + 1]);
                    // END SOLUTION
                }
            };

            wait(fullQ, parityQ);
            parityQ ^= 1;
            // BEGIN SOLUTION: wait for keys, begin scores, wait for products, give the stage back (about 5 lines)
            wait(&fullK[stage_of(first)], parity_of(first));
            begin_scores(first);
            wait_for_products<0>();
            hold(score);
            if (speaks) arrive(&emptyK[stage_of(first)]);
            // END SOLUTION
            hide((tiles - 1) * TSK);
            take_powers(score, rows, scale);
            for (int tile = 1; tile < tiles; ++tile) {
                const int now = first + tile;
                // BEGIN SOLUTION: begin its scores, and values of the tile before; wait for the former (about 9 lines)
                wait(&fullK[stage_of(now)], parity_of(now));
                settle();
                if (speaks && tile > 1) arrive(&emptyV[stage_of(now - 2)]);
                begin_scores(now);
                wait(&fullV[stage_of(now - 1)], parity_of(now - 1));
                begin_values(now - 1);
                wait_for_products<1>();
                hold(score);
                if (speaks) arrive(&emptyK[stage_of(now)]);
                // END SOLUTION
                take_powers(score, rows, scale);
            }
            if (speaks) arrive(emptyQ);
            const int last = first + tiles - 1;
            // BEGIN SOLUTION: weigh the last tile's values, too (about 7 lines)
            wait(&fullV[stage_of(last)], parity_of(last));
            settle();
            if (speaks && tiles > 1) arrive(&emptyV[stage_of(last - 1)]);
            begin_values(last);
            wait_for_products<0>();
            hold(out);
            if (speaks) arrive(&emptyV[stage_of(last)]);
            // END SOLUTION

            // Four lanes have two neighbours each of a row's 8: turned, each has all 8 of every fourth.
            #pragma unroll
            for (int half_of = 0; half_of < 2; ++half_of) {
                const int row = own + lane / 4 + half_of * 8;
                float all = rows.sum[half_of];  // of this lane's keys: four lanes share a row
                all += __shfl_xor_sync(ALL, all, 1);
                all += __shfl_xor_sync(ALL, all, 2);
                const float part = 1.0f / all;
                #pragma unroll
                for (int j = 0; j < D / 8; j += 4) {
                    unsigned words[4];
                    #pragma unroll
                    for (int n = 0; n < 4; ++n) {
                        const float* two = out + (j + n) * 4 + half_of * 2;
                        words[n] = pack(two[0] * part, two[1] * part);
                    }
                    turn(words, lane);
                    if (row < N) {
                        half* to = O + (head * N + row) * D + (j + lane % 4) * 8;
                        *reinterpret_cast<uint4*>(to) = make_uint4(words[0], words[1], words[2], words[3]);
                    }
                }
                if (lane % 4 == 0 && row < N) {
                    L[head * N + row] = (rows.largest[half_of] + log2f(all)) * LN2;
                }
            }
            first += tiles;
        }
    }
}
