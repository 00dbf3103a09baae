// filter_gradient.cu: the gradient of a convolution's filters from slopes and images in half precision.
// Idea:    filters x slopes' places times places x channels under each element of the window: a product whose rows all
//          run along places, so wgmma takes both operands turned, and the TMA's im2col map brings, for an element, the
//          channels under it at 64 places. A tile of results is 64 or 128 filters and BOXES times 64 (for few channels:
//          32) channels of an element. Tiles are few and sums are long, up to 1.6 million places: all steps of all
//          tiles stand in one row that is cut into equal parts, one for each cluster, and where a cluster's part of a
//          tile ends, it adds its sums to memory.
// From:    lab08_convolution/13_wgmma_implicit_gemm.cu
// Limits:  who adds first is left to chance: two runs differ in the last digits. Windows keep the image's size.
// Target:  sm_90a
// Entry:   gradient(const half dy[BATCH,H,W,F] in map=(PLACES, 64),
//                   const half x[BATCH,H,W,C] in map=im2col(PLACES, BOX, R, S, 1, PAD),
//                   float dw[F,R,S,C] inout, int BATCH, int C, int H, int W, int F, int R, int S)
// Sizes:   PAD = (R - 1) / 2
// Needs:   R == S, R % 2 == 1, C % BOX == 0, F % (TSF * CLUSTER_F) == 0, R * S * C % (BOX * BOXES * CLUSTER_B) == 0
// Launch:  gradient block=(THREADS) grid=(BLOCKS) shared=SHARED

#include <cuda_fp16.h>

constexpr int TSF = 128;            // a block computes TSF filters
constexpr int BOXES = 4;            // for BOXES boxes of BOX channels, each for one element of the window
constexpr int BOX = 64;
constexpr int PLACES = 64;          // in one tile
constexpr int STAGES = 4;           // tiles in shared memory
constexpr int CLUSTER = 2;          // blocks that share tiles:
constexpr int CLUSTER_F = 2;        // CLUSTER_F: with the same channels, other filters; else the same filters
constexpr int CLUSTER_B = CLUSTER / CLUSTER_F;
constexpr int BLOCKS = 132;         // one for each multiprocessor of an H100 or H200
constexpr int CONSUMERS = 2;        // warpgroups that multiply; one more sends for tiles
constexpr int KEPT = 232;           // registers of a thread that multiplies
constexpr int GROUPS_F = TSF / 64;  // of them one below the other: each computes 64 filters
constexpr int WARP_BOXES = BOXES * GROUPS_F / CONSUMERS;  // for so many boxes
constexpr int COLS = WARP_BOXES * BOX;
constexpr int THREADS = 128 * (CONSUMERS + 1);
constexpr int BYTES_DY = 2 * PLACES * 64;  // of 64 filters' slopes
constexpr int BYTES_X = 2 * PLACES * BOX;  // of a box
constexpr int STAGE = GROUPS_F * BYTES_DY + BOXES * BYTES_X;
constexpr int SHARED = STAGES * STAGE + 16 * STAGES;
constexpr int SHARE_DY = GROUPS_F / CLUSTER_B;  // what a block sends for, for all that share it
constexpr int SHARE_X = BOXES / CLUSTER_F;

static_assert(BOX == 64 || BOX == 32, "rows of a width that can be swizzled");
static_assert(PLACES % 16 == 0 && BYTES_X % 1024 == 0, "whole products, whole patterns");
static_assert(TSF % 64 == 0 && CONSUMERS % GROUPS_F == 0, "the warpgroups' tiles cover the block's exactly");
static_assert(COLS == 32 || COLS == 192 || COLS == 256, "what one wgmma computes here");
static_assert(SHARE_DY * CLUSTER_B == GROUPS_F && SHARE_X * CLUSTER_F == BOXES, "shares are equal");
static_assert(CLUSTER_B * CLUSTER_F == CLUSTER && BLOCKS % CLUSTER == 0, "clusters are whole");
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

// Sends for element (r, s) of the windows that begin here and behind, channels from c on, for these blocks.
__device__ void copy_windows(void* to, const CUtensorMap& x, Corner at, int r, int s, int c, int blocks,
                             unsigned long long* barrier)
{
    asm volatile(
        "cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes.multicast::cluster"
        " [%0], [%1, {%3, %4, %5, %6}], [%2], {%7, %8}, %9;"
        :: "r"(shared_address(to)), "l"(&x), "r"(shared_address(barrier)), "r"(c), "r"(at.col), "r"(at.row),
           "r"(at.image), "h"(static_cast<short>(s)), "h"(static_cast<short>(r)), "h"(static_cast<short>(blocks))
        : "memory");
}

// Sends for 64 filters' slopes at PLACES places, for these blocks; places past the end are zero.
__device__ void copy_slopes(void* to, const CUtensorMap& dy, int place, int f, int blocks, unsigned long long* barrier)
{
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster"
        " [%0], [%1, {%3, %4}], [%2], %5;"
        :: "r"(shared_address(to)), "l"(&dy), "r"(shared_address(barrier)), "r"(f), "r"(place),
           "h"(static_cast<short>(blocks)) : "memory");
}

// Says where an operand lies whose rows run along M or N: WIDTH halfs of a row, swizzled, of one place behind the other;
// the next WIDTH halfs begin `apart` bytes further on.
template <int WIDTH>
__device__ unsigned long long describe(const void* operand, int apart)
{
    const unsigned long long start = (shared_address(operand) & 0x3ffff) >> 4;
    const unsigned long long eight_places = 8 * 2 * WIDTH >> 4;
    const unsigned long long swizzle = WIDTH == 64 ? 1 : 2;  // so wgmma calls rows of 128 and 64 bytes
    return start | static_cast<unsigned long long>(apart >> 4) << 16 | eight_places << 32 | swizzle << 62;
}

// d (64 x 256) += a (64 x 16) * b (16 x 256), rows of both along 64 and 256, begun, not finished
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
        "%128, %129, adds, 1, 1, 1, 1;\n"
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
          "+f"(d[120]), "+f"(d[121]), "+f"(d[122]), "+f"(d[123]),
          "+f"(d[124]), "+f"(d[125]), "+f"(d[126]), "+f"(d[127])
        : "l"(a), "l"(b), "r"(adds));
}

// d (64 x 192) += a (64 x 16) * b (16 x 192), rows of both along 64 and 192, begun, not finished
__device__ void multiply(float (&d)[96], unsigned long long a, unsigned long long b, int adds)
{
    asm volatile(
        "{\n"
        ".reg .pred adds;\n"
        "setp.ne.b32 adds, %98, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n192k16.f32.f16.f16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
        "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "
        "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "
        "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95}, "
        "%96, %97, adds, 1, 1, 1, 1;\n"
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
          "+f"(d[88]), "+f"(d[89]), "+f"(d[90]), "+f"(d[91]), "+f"(d[92]), "+f"(d[93]), "+f"(d[94]), "+f"(d[95])
        : "l"(a), "l"(b), "r"(adds));
}

// d (64 x 32) += a (64 x 16) * b (16 x 32), rows of both along 64 and 32, begun, not finished
__device__ void multiply(float (&d)[16], unsigned long long a, unsigned long long b, int adds)
{
    asm volatile(
        "{\n"
        ".reg .pred adds;\n"
        "setp.ne.b32 adds, %18, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n32k16.f32.f16.f16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}, "
        "%16, %17, adds, 1, 1, 1, 1;\n"
        "}\n"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
          "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15])
        : "l"(a), "l"(b), "r"(adds));
}

// Adds two neighbours to memory.
__device__ void add_pair(float* to, float left, float right)
{
    asm volatile("red.global.add.v2.f32 [%0], {%1, %2};" :: "l"(to), "f"(left), "f"(right) : "memory");
}

// The part of the row of all steps that a cluster takes.
struct Part {
    long long begin, end;
};

extern "C" __global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(THREADS, 1)
gradient(const __grid_constant__ CUtensorMap dy, const __grid_constant__ CUtensorMap x, float* dw,
         int BATCH, int C, int H, int W, int F, int R, int S)
{
    extern __shared__ __align__(1024) unsigned char shared[];
    unsigned long long* const full = reinterpret_cast<unsigned long long*>(shared + STAGES * STAGE);
    unsigned long long* const empty = full + STAGES;
    const int PAD = (R - 1) / 2;
    const int warpgroup = threadIdx.x / 128;
    const int rank_f = blockIdx.x % CLUSTER % CLUSTER_F;
    const int rank_b = blockIdx.x % CLUSTER / CLUSTER_F;
    const int across = R * S * C / (BOX * BOXES * CLUSTER_B);
    const int steps = (BATCH * H * W + PLACES - 1) / PLACES;
    const long long all = static_cast<long long>(F / (TSF * CLUSTER_F)) * across * steps;
    const int clusters = gridDim.x / CLUSTER;
    const int cluster = blockIdx.x / CLUSTER;
    const Part part = {all * cluster / clusters, all * (cluster + 1) / clusters};
    const auto first_filter = [&](int tile) { return (tile / across * CLUSTER_F + rank_f) * TSF; };
    const auto first_box = [&](int tile) { return (tile % across * CLUSTER_B + rank_b) * BOXES; };

    if (threadIdx.x == 0) {
        for (int stage = 0; stage < STAGES; ++stage) {
            init_barrier(&full[stage], 1);                     // the thread that sends for a tile
            init_barrier(&empty[stage], CONSUMERS * CLUSTER);  // everybody whose tile is written to
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");

    if (warpgroup == CONSUMERS) {  // sends for tiles
        if (CONSUMERS > 1) asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        if (threadIdx.x % 128 == 0) {
            const int same_boxes = ((1 << CLUSTER_F) - 1) << rank_b * CLUSTER_F;
            int same_filters = 0;
            for (int block = rank_f; block < CLUSTER; block += CLUSTER_F) {
                same_filters |= 1 << block;
            }
            const int boxes_of_element = C / BOX;
            int stage = 0;
            int parity = 1;  // nothing has been used yet: the first wait passes
            int tile = static_cast<int>(part.begin / steps);
            int step = static_cast<int>(part.begin % steps);
            for (long long at = part.begin; at < part.end; ++at) {
                const int place = step * PLACES;
                const Corner corner = {place / (H * W), place / W % H - PAD, place % W - PAD};
                unsigned char* const slopes = shared + stage * STAGE;
                unsigned char* const images = slopes + GROUPS_F * BYTES_DY;
                wait(&empty[stage], parity);
                expect_bytes(&full[stage], STAGE);
                #pragma unroll
                for (int i = 0; i < SHARE_DY; ++i) {
                    const int group = rank_b * SHARE_DY + i;
                    copy_slopes(slopes + group * BYTES_DY, dy, place, first_filter(tile) + group * 64, same_filters,
                                &full[stage]);
                }
                #pragma unroll
                for (int i = 0; i < SHARE_X; ++i) {
                    const int box = rank_f * SHARE_X + i;
                    const int element = (first_box(tile) + box) / boxes_of_element;
                    const int c = (first_box(tile) + box) % boxes_of_element * BOX;
                    copy_windows(images + box * BYTES_X, x, corner, element / S, element % S, c, same_boxes,
                                 &full[stage]);
                }
                if (++step == steps) {
                    step = 0;
                    ++tile;
                }
                if (++stage == STAGES) {
                    stage = 0;
                    parity ^= 1;
                }
            }
        }
    } else {  // multiplies
        if (CONSUMERS > 1) asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" :: "n"(KEPT));
        const int lane = threadIdx.x % 32;
        const int warp = threadIdx.x % 128 / 32;
        const int group = warpgroup % GROUPS_F;             // the warpgroup's filters and boxes in the block's tile
        const int my_box = warpgroup / GROUPS_F * WARP_BOXES;
        int stage = 0;
        int parity = 0;
        float d[COLS / 2];
        long long at = part.begin;
        while (at < part.end) {
            const int tile = static_cast<int>(at / steps);
            const long long rest = (tile + 1ll) * steps;
            const int count = static_cast<int>((rest < part.end ? rest : part.end) - at);
            at += count;
            int before = -1;  // the stage that is still being multiplied
            for (int step = 0; step < count; ++step) {
                wait(&full[stage], parity);
                unsigned char* const slopes = shared + stage * STAGE;
                const unsigned long long a = describe<64>(slopes + group * BYTES_DY, BYTES_DY);
                const unsigned long long b = describe<BOX>(slopes + GROUPS_F * BYTES_DY + my_box * BYTES_X, BYTES_X);
                asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
                #pragma unroll
                for (int k = 0; k < PLACES; k += 16) {  // 16 places on: so many rows
                    multiply(d, a + (k * 2 * 64 >> 4), b + (k * 2 * BOX >> 4), step + k > 0);
                }
                asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
                asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
                if (before >= 0 && threadIdx.x % 128 < CLUSTER) arrive(&empty[before], threadIdx.x % 128);
                before = stage;
                if (++stage == STAGES) {
                    stage = 0;
                    parity ^= 1;
                }
            }
            asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
            if (threadIdx.x % 128 < CLUSTER) arrive(&empty[before], threadIdx.x % 128);

            const int row = first_filter(tile) + group * 64 + warp * 16 + lane / 4;
            float* const to = dw + static_cast<long long>(row) * R * S * C + (first_box(tile) + my_box) * BOX
                              + lane % 4 * 2;
            #pragma unroll
            for (int j = 0; j < COLS / 8; ++j) {  // two neighbours in this row, and in the eighth below
                add_pair(to + 8 * j, d[4 * j], d[4 * j + 1]);
                add_pair(to + 8 * j + 8ll * R * S * C, d[4 * j + 2], d[4 * j + 3]);
            }
        }
    }
    // No copy lands in a block that left.
    asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}
