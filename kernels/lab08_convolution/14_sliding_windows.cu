// 14_sliding_windows.cu: an implicit product by wgmma whose windows slide over one tile.
// Idea:    the elements (r, 0), (r, 1), (r, 2) of neighbouring windows are the same elements of the image, shifted by
//          one. So a tile holds TSP elements of an image's row r, and S - 1 more; wgmma starts one row of the tile
//          further on for each column of the window. A swizzle is a matter of addresses, not of tiles: any row may be
//          the first. What comes from the L2 cache is a third, for S = 3: 13 must wait for it where there are 64
//          filters. For that, places run through the padded image: S - 1 columns of it are computed in vain and
//          not stored. The TMA cannot leave them out, so threads store the results.
// From:    13_wgmma_implicit_gemm.cu
// Limits:  stride 1; S - 1 of W + 2 * PAD columns are computed in vain, which costs more than it saves in small images.
// Target:  sm_90a
// Entry:   conv(const half x[BATCH,H,W,C] in map=im2col(ROWS / CLUSTER_F, TSK, R, 1, 1, PAD),
//               const half w[F,R,S,C] in map=(TSF * CLUSTER_F / CLUSTER, 1, 1, TSK),
//               half y[BATCH,OH,OW,F] out,
//               int BATCH, int C, int H, int W, int F, int R, int S, int STRIDE, int PAD)
// Sizes:   OH = (H + 2 * PAD - R) / STRIDE + 1, OW = (W + 2 * PAD - S) / STRIDE + 1
// Needs:   H + 2 * PAD >= R, W + 2 * PAD >= S, C % 8 == 0, F % 8 == 0, STRIDE == 1, S <= MOST_S
// Launch:  conv block=(THREADS) grid=(BLOCKS) shared=SHARED

#include <cuda_fp16.h>

constexpr int TSF = 64;             // a block computes TSF filters at TSP places at a time
constexpr int TSP = 256;
constexpr int TSK = 64;             // channels in one tile
constexpr int MOST_S = 3;           // columns of a window, at most
constexpr int ROWS = TSP + (MOST_S + 14) / 16 * 16;  // of the tile that windows slide over
constexpr int STAGES = 3;           // tiles in shared memory
constexpr int CLUSTER = 2;          // blocks that share tiles: the places of CLUSTER_F blocks, and the filters of the
constexpr int CLUSTER_F = 1;        // others; CLUSTER_F = 1: all compute the same filters, at places of their own
constexpr int BLOCKS = 132;         // one for each multiprocessor of an H100 or H200
constexpr int CONSUMERS = 2;        // warpgroups that multiply; one more sends for tiles
constexpr int GROUPS_F = TSF / 64;  // of them one below the other: each computes 64 filters
constexpr int WSP = TSP * GROUPS_F / CONSUMERS;  // at WSP places
constexpr int THREADS = 128 * (CONSUMERS + 1);
constexpr int BYTES_X = 2 * ROWS * TSK;  // of a tile
constexpr int BYTES_W = 2 * TSF * TSK;   // of one column of filters
constexpr int BYTES_Y = 2 * 64 * WSP;  // of a warpgroup's results
constexpr int STAGE = BYTES_X + MOST_S * BYTES_W;
constexpr int SHARED = STAGES * STAGE + CONSUMERS * BYTES_Y + 16 * STAGES;
constexpr int SWIZZLE = TSK == 64 ? 1 : TSK == 32 ? 2 : 3;  // how wgmma calls rows of 128, 64 and 32 bytes: 1, 2, 3

static_assert(TSK == 64 || TSK == 32 || TSK == 16, "rows of a width that can be swizzled");
static_assert(TSF % 64 == 0 && CONSUMERS % GROUPS_F == 0, "the warpgroups' tiles cover the block's exactly");
static_assert(WSP == 128 || WSP == 256, "what one wgmma computes here");
static_assert(SHARED <= 227 * 1024, "a block of an H100 has 227 KB of shared memory");
static_assert(BLOCKS % CLUSTER == 0 && CLUSTER % CLUSTER_F == 0, "clusters are whole, and rectangles");

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

// Arrives at the barrier of this name in a block of the cluster.
__device__ void arrive(unsigned long long* barrier, int block)
{
    asm volatile(
        "{\n"
        ".reg .b32 there;\n"
        "mapa.shared::cluster.u32 there, %0, %1;\n"
        "mbarrier.arrive.shared::cluster.b64 _, [there];\n"
        "}\n"
        :: "r"(shared_address(barrier)), "r"(block) : "memory");
}

// Waits until the phase of this parity is over.
__device__ void wait(unsigned long long* barrier, int parity)
{
    asm volatile(
        "{\n"
        ".reg .pred over;\n"
        "again:\n"
        "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 over, [%0], %1;\n"
        "@!over bra again;\n"
        "}\n"
        :: "r"(shared_address(barrier)), "r"(parity) : "memory");
}

// Where a window begins: an image, a row and a column of it. The last two may be negative.
struct Corner {
    int image, row, col;
};

// Sends for the first element of row r of the windows that begin here and behind, channels from c on, for these blocks.
__device__ void copy_windows(void* to, const CUtensorMap& x, Corner at, int r, int c, int blocks,
                             unsigned long long* barrier)
{
    asm volatile(
        "cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes.multicast::cluster"
        " [%0], [%1, {%3, %4, %5, %6}], [%2], {%7, %8}, %9;"
        :: "r"(shared_address(to)), "l"(&x), "r"(shared_address(barrier)), "r"(c), "r"(at.col), "r"(at.row),
           "r"(at.image), "h"(static_cast<short>(0)), "h"(static_cast<short>(r)), "h"(static_cast<short>(blocks))
        : "memory");
}

// Sends for element (r, s) of filters, from filter f and channel c on, for these blocks.
__device__ void copy_filters(void* to, const CUtensorMap& w, int f, int r, int s, int c, int blocks,
                             unsigned long long* barrier)
{
    asm volatile(
        "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster"
        " [%0], [%1, {%3, %4, %5, %6}], [%2], %7;"
        :: "r"(shared_address(to)), "l"(&w), "r"(shared_address(barrier)), "r"(c), "r"(s), "r"(r), "r"(f),
           "h"(static_cast<short>(blocks)) : "memory");
}

// Waits for the four warps of a warpgroup.
__device__ void sync_warpgroup(int warpgroup)
{
    asm volatile("barrier.sync.aligned %0, 128;" :: "r"(warpgroup + 1) : "memory");
}

// Rounds two neighbours to half.
__device__ unsigned pair(float left, float right)
{
    const half2 both = __floats2half2_rn(left, right);
    return *reinterpret_cast<const unsigned*>(&both);
}

// Stores four 8 x 8 matrices turned: lane l gives two neighbours of row l / 4 of each, and the address of a column.
__device__ void store_turned(void* column, unsigned m0, unsigned m1, unsigned m2, unsigned m3)
{
    asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};"
                 :: "r"(shared_address(column)), "r"(m0), "r"(m1), "r"(m2), "r"(m3) : "memory");
}

// Says where an operand lies: rows of TSK halfs, swizzled, one behind the other.
__device__ unsigned long long describe(const void* operand)
{
    const unsigned long long start = (shared_address(operand) & 0x3ffff) >> 4;
    const unsigned long long eight_rows = 8 * 2 * TSK >> 4;
    return start | 1ull << 16 | eight_rows << 32 | static_cast<unsigned long long>(SWIZZLE) << 62;
}

// d (64 x 256) = a (64 x 16) * b (16 x 256) + (adds ? d : 0), begun, not finished
__device__ void multiply(float (&d)[128], unsigned long long a, unsigned long long b, int adds)
{
    asm volatile(
        "{\n"
        ".reg .pred adds;\n"
        "setp.ne.b32 adds, %130, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
        "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "
        "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "
        "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "
        "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, "
        "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127}, "
        "%128, %129, adds, 1, 1, 0, 0;\n"
        "}\n"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
          "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
          "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
          "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]),
          "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]),
          "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]),
          "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]),
          "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63]),
          "+f"(d[64]), "+f"(d[65]), "+f"(d[66]), "+f"(d[67]), "+f"(d[68]), "+f"(d[69]), "+f"(d[70]), "+f"(d[71]),
          "+f"(d[72]), "+f"(d[73]), "+f"(d[74]), "+f"(d[75]), "+f"(d[76]), "+f"(d[77]), "+f"(d[78]), "+f"(d[79]),
          "+f"(d[80]), "+f"(d[81]), "+f"(d[82]), "+f"(d[83]), "+f"(d[84]), "+f"(d[85]), "+f"(d[86]), "+f"(d[87]),
          "+f"(d[88]), "+f"(d[89]), "+f"(d[90]), "+f"(d[91]), "+f"(d[92]), "+f"(d[93]), "+f"(d[94]), "+f"(d[95]),
          "+f"(d[96]), "+f"(d[97]), "+f"(d[98]), "+f"(d[99]), "+f"(d[100]), "+f"(d[101]), "+f"(d[102]), "+f"(d[103]),
          "+f"(d[104]), "+f"(d[105]), "+f"(d[106]), "+f"(d[107]),
          "+f"(d[108]), "+f"(d[109]), "+f"(d[110]), "+f"(d[111]),
          "+f"(d[112]), "+f"(d[113]), "+f"(d[114]), "+f"(d[115]),
          "+f"(d[116]), "+f"(d[117]), "+f"(d[118]), "+f"(d[119]),
          "+f"(d[120]), "+f"(d[121]), "+f"(d[122]), "+f"(d[123]), "+f"(d[124]), "+f"(d[125]), "+f"(d[126]), "+f"(d[127])
        : "l"(a), "l"(b), "r"(adds));
}

// d (64 x 128) = a (64 x 16) * b (16 x 128) + (adds ? d : 0), begun, not finished
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

extern "C" __global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(THREADS, 1)
conv(const __grid_constant__ CUtensorMap x, const __grid_constant__ CUtensorMap w,
     half* __restrict__ y,
     int BATCH, int C, int H, int W, int F, int R, int S, int STRIDE, int PAD)
{
    extern __shared__ __align__(1024) unsigned char shared[];
    unsigned char* const windows = shared;
    unsigned char* const filters = shared + STAGES * BYTES_X;
    unsigned long long* const full = reinterpret_cast<unsigned long long*>(shared + SHARED - 16 * STAGES);
    unsigned long long* const empty = full + STAGES;
    const int OH = H + 2 * PAD - R + 1;
    const int OW = W + 2 * PAD - S + 1;
    const int WP = W + 2 * PAD;  // places of a row, those past OW in vain
    const int places = BATCH * OH * WP;
    const int warpgroup = threadIdx.x / 128;
    const int rank_f = blockIdx.x % CLUSTER % CLUSTER_F;
    const int rank_p = blockIdx.x % CLUSTER / CLUSTER_F;
    constexpr int PLACES = TSP * (CLUSTER / CLUSTER_F);  // of a cluster
    constexpr int FILTERS = TSF * CLUSTER_F;
    const int across = (F + FILTERS - 1) / FILTERS;      // neighbouring clusters share their windows
    const int tiles = (places + PLACES - 1) / PLACES * across;
    const int steps = (C + TSK - 1) / TSK * R;
    const auto first_filter = [&](int tile) { return tile % across * FILTERS + rank_f * TSF; };
    const auto first_place = [&](int tile) { return tile / across * PLACES + rank_p * TSP; };

    if (threadIdx.x == 0) {
        for (const CUtensorMap* map : {&x, &w}) {
            asm volatile("prefetch.tensormap [%0];" :: "l"(map) : "memory");
        }
        for (int stage = 0; stage < STAGES; ++stage) {
            init_barrier(&full[stage], 1);                     // the thread that sends for a tile
            init_barrier(&empty[stage], CONSUMERS * CLUSTER);  // everybody whose tile is written to
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");

    if (warpgroup == CONSUMERS) {  // sends for tiles
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        if (threadIdx.x % 128 == 0) {
            // A block asks for its share of what it has in common with others, for all of them.
            constexpr int SHARE_P = ROWS / CLUSTER_F;
            constexpr int SHARE_F = TSF * CLUSTER_F / CLUSTER;
            const int same_places = ((1 << CLUSTER_F) - 1) << rank_p * CLUSTER_F;
            int same_filters = 0;
            for (int block = rank_f; block < CLUSTER; block += CLUSTER_F) {
                same_filters |= 1 << block;
            }
            int stage = 0;
            int parity = 1;  // nothing has been used yet: the first wait passes
            for (int tile = blockIdx.x / CLUSTER; tile < tiles; tile += gridDim.x / CLUSTER) {
                const int place = first_place(tile) + rank_f * SHARE_P;
                const int f = first_filter(tile) + rank_p * SHARE_F;
                const Corner corner = {place / (OH * WP), place / WP % OH - PAD, place % WP - PAD};
                int c = 0;
                int r = 0;
                for (int step = 0; step < steps; ++step) {
                    // BEGIN SOLUTION: wait until it is free, announce bytes, send for tile and filters (about 9 lines)
                    // END SOLUTION
                    if (++r == R) {
                        r = 0;
                        c += TSK;
                    }
                    if (++stage == STAGES) {
                        stage = 0;
                        parity ^= 1;
                    }
                }
            }
        }
    } else {  // multiplies
        asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
        const int lane = threadIdx.x % 32;
        const int warp = threadIdx.x % 128 / 32;
        const int my_f = warpgroup % GROUPS_F * 64;  // the warpgroup's first filter and place in the block's tile
        const int my_p = warpgroup / GROUPS_F * WSP;
        int stage = 0;
        int parity = 0;
        float d[WSP / 2];
        unsigned char* const results = shared + STAGES * STAGE + warpgroup * BYTES_Y;
        for (int tile = blockIdx.x / CLUSTER; tile < tiles; tile += gridDim.x / CLUSTER) {
            int before = -1;  // the stage that is still being multiplied
            for (int step = 0; step < steps; ++step) {
                // BEGIN SOLUTION: wait; slide on for each column, multiply; leave one group open (about 13 lines)
                // END SOLUTION
                if (before >= 0 && threadIdx.x % 128 < CLUSTER) arrive(&empty[before], threadIdx.x % 128);
                before = stage;
                if (++stage == STAGES) {
                    stage = 0;
                    parity ^= 1;
                }
            }
            asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
            if (threadIdx.x % 128 < CLUSTER) arrive(&empty[before], threadIdx.x % 128);

            sync_warpgroup(warpgroup);  // everybody has stored the results of the tile before this one
            #pragma unroll
            for (int j = 0; j < WSP / 16; ++j) {
                // BEGIN SOLUTION: 16 places x the warp's 16 filters, in swizzled rows (about 5 lines)
                // END SOLUTION
            }
            sync_warpgroup(warpgroup);
            // BEGIN SOLUTION: 16 bytes a thread: eight threads store a place's filters (about 10 lines)
            // END SOLUTION
        }
    }
    // No copy lands in a block that left.
    asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}
