// convolution.cu: step 13 of lab 08 for training in half precision, forward and back to the layer's input.
// Idea:    step 13 ends where the sums are known. Here they get a bias and pass ReLU before they are rounded, forward;
//          backward (TURNED) the same product goes over slopes with filters that are turned round: their last element
//          meets the window's first, and what was summed over is now computed. Neither needs the filters anew: the
//          producer counts elements down, and wgmma takes an operand whose rows run along M. A slope passes the ReLU
//          in front of it where its activation is positive: the TMA fetches these activations to where results will
//          lie while products run, ldmatrix reads them as fragments, and stmatrix puts slopes in their place. Sums
//          over all places, which are the gradient of that layer's bias, cost a few additions more.
// From:    lab08_convolution/13_wgmma_implicit_gemm.cu
// Limits:  windows move by one place and keep the image's size; TURNED, channels and filters are multiples of 64.
// Target:  sm_90a
// Entry:   conv(const half x[BATCH,H,W,C] in map=im2col(TSP / CLUSTER_F, TSK, R, S, 1, PAD),
//               const half w[WF,R,S,WC] in map=(BOX_ROWS, 1, 1, BOX_COLS),
//               const half kept[BATCH,H,W,F] in map=(WSP, 64), const float bias[F] in,
//               half y[BATCH,H,W,F] out map=(WSP, 64), float sums[F] inout,
//               int BATCH, int C, int H, int W, int F, int R, int S)
// Sizes:   PAD = (R - 1) / 2, WF = TURNED * C + (1 - TURNED) * F, WC = TURNED * F + (1 - TURNED) * C
// Needs:   R == S, R % 2 == 1, C % 8 == 0, F % 64 == 0, C % 64 * TURNED == 0, BATCH * H * W <= 1073741824
// Launch:  conv block=(THREADS) grid=(BLOCKS) shared=SHARED

#include <cuda_fp16.h>

constexpr int TURNED = 0;           // 1: back to the input, with filters turned round
constexpr int END = 1;              // what happens to sums: 0: nothing, 1: bias and ReLU, 2: ReLU's slope, and their sums
constexpr int TSF = 128;            // a block computes TSF filters at TSP places at a time
constexpr int TSP = 256;
constexpr int TSK = 64;             // channels in one tile
constexpr int STAGES = 3;           // tiles in shared memory
constexpr int CLUSTER = 2;          // blocks that share tiles: the places of CLUSTER_F blocks, and the filters of the
constexpr int CLUSTER_F = 2;        // others; CLUSTER_F = 1: all compute the same filters, at places of their own
constexpr int BLOCKS = 132;         // one for each multiprocessor of an H100 or H200
constexpr int CONSUMERS = 2;        // warpgroups that multiply; one more sends for tiles
constexpr int GROUPS_F = TSF / 64;  // of them one below the other: each computes 64 filters
constexpr int WSP = TSP * GROUPS_F / CONSUMERS;  // at WSP places
constexpr int THREADS = 128 * (CONSUMERS + 1);
constexpr int BYTES_X = 2 * TSP * TSK;  // of a tile
constexpr int BYTES_W = 2 * TSF * TSK;
constexpr int BYTES_Y = 2 * 64 * WSP;  // of a warpgroup's results
constexpr int SHARED = STAGES * (BYTES_X + BYTES_W) + CONSUMERS * BYTES_Y + 16 * STAGES + 8 * CONSUMERS;
constexpr int SWIZZLE = TSK == 64 ? 1 : TSK == 32 ? 2 : 3;  // how wgmma calls rows of 128, 64 and 32 bytes: 1, 2, 3
constexpr int SHARE_F = TSF * CLUSTER_F / CLUSTER;  // filters that a block sends for, for all that share them
constexpr int PIECES = SHARE_F / 32;  // TURNED, in pieces of 32 rows (what is summed over) and 64 columns
constexpr int BOX_ROWS = TURNED * 32 + (1 - TURNED) * SHARE_F;
constexpr int BOX_COLS = TURNED * 64 + (1 - TURNED) * TSK;

static_assert(TSK == 64 || (!TURNED && (TSK == 32 || TSK == 16)), "rows of a width that can be swizzled");
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

// Sends a box from shared memory to an array; what sticks out is left out.
__device__ void store_box(const CUtensorMap& map, int row, int col, const void* from)
{
    asm volatile(
        "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%2, %3}], [%1];"
        :: "l"(&map), "r"(shared_address(from)), "r"(col), "r"(row) : "memory");
}

// Sends for a box of an array, to the block's own shared memory; what sticks out is zero.
__device__ void copy_box(void* to, const CUtensorMap& map, int row, int col, unsigned long long* barrier)
{
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];"
        :: "r"(shared_address(to)), "l"(&map), "r"(shared_address(barrier)), "r"(col), "r"(row) : "memory");
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

// Loads what store_turned stores.
__device__ void load_turned(const void* column, unsigned (&m)[4])
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3]) : "r"(shared_address(column)) : "memory");
}

// Two neighbouring slopes where the activations are positive, else zero; adds them to a sum.
__device__ unsigned passed(unsigned slopes, unsigned activations, float& sum)
{
    half2 both = *reinterpret_cast<half2*>(&slopes);
    const half2 kept = *reinterpret_cast<half2*>(&activations);
    const half zero = __float2half(0.0f);
    both = __halves2half2(__hgt(__low2half(kept), zero) ? __low2half(both) : zero,
                          __hgt(__high2half(kept), zero) ? __high2half(both) : zero);
    sum += __low2float(both) + __high2float(both);
    return *reinterpret_cast<unsigned*>(&both);
}

// Says where an operand lies: rows of TSK halfs, swizzled, one behind the other. Eight rows are a pattern, also where
// rows run along M.
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
        "%128, %129, adds, 1, 1, %131, 0;\n"
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
        : "l"(a), "l"(b), "r"(adds), "n"(TURNED));
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
        "%64, %65, adds, 1, 1, %67, 0;\n"
        "}\n"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
          "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
          "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
          "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]),
          "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]),
          "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]),
          "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]),
          "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63])
        : "l"(a), "l"(b), "r"(adds), "n"(TURNED));
}

extern "C" __global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(THREADS, 1)
conv(const __grid_constant__ CUtensorMap x, const __grid_constant__ CUtensorMap w,
     const __grid_constant__ CUtensorMap kept, const float* bias, const __grid_constant__ CUtensorMap y, float* sums,
     int BATCH, int C, int H, int W, int F, int R, int S)
{
    extern __shared__ __align__(1024) unsigned char shared[];
    unsigned char* const windows = shared;
    unsigned char* const filters = shared + STAGES * BYTES_X;
    unsigned long long* const full = reinterpret_cast<unsigned long long*>(shared + SHARED) - CONSUMERS - 2 * STAGES;
    unsigned long long* const empty = full + STAGES;
    unsigned long long* const known = empty + STAGES;  // for each warpgroup: activations are there
    const int PAD = (R - 1) / 2;
    const int warpgroup = threadIdx.x / 128;
    const int rank_f = blockIdx.x % CLUSTER % CLUSTER_F;
    const int rank_p = blockIdx.x % CLUSTER / CLUSTER_F;
    constexpr int PLACES = TSP * (CLUSTER / CLUSTER_F);  // of a cluster
    constexpr int FILTERS = TSF * CLUSTER_F;
    const int across = (F + FILTERS - 1) / FILTERS;      // neighbouring clusters share their windows
    const int tiles = (BATCH * H * W + PLACES - 1) / PLACES * across;
    const int steps = (C + TSK - 1) / TSK * R * S;
    const auto first_filter = [&](int tile) { return tile % across * FILTERS + rank_f * TSF; };
    const auto first_place = [&](int tile) { return tile / across * PLACES + rank_p * TSP; };

    if (threadIdx.x == 0) {
        for (int stage = 0; stage < STAGES; ++stage) {
            init_barrier(&full[stage], 1);                     // the thread that sends for a tile
            init_barrier(&empty[stage], CONSUMERS * CLUSTER);  // everybody whose tile is written to
        }
        for (int consumer = 0; consumer < CONSUMERS; ++consumer) {
            init_barrier(&known[consumer], 1);
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");

    if (warpgroup == CONSUMERS) {  // sends for tiles
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        if (threadIdx.x % 128 == 0) {
            // A block asks for its share of what it has in common with others, for all of them.
            constexpr int SHARE_P = TSP / CLUSTER_F;
            const int same_places = ((1 << CLUSTER_F) - 1) << rank_p * CLUSTER_F;
            int same_filters = 0;
            for (int block = rank_f; block < CLUSTER; block += CLUSTER_F) {
                same_filters |= 1 << block;
            }
            int stage = 0;
            int parity = 1;  // nothing has been used yet: the first wait passes
            for (int tile = blockIdx.x / CLUSTER; tile < tiles; tile += gridDim.x / CLUSTER) {
                const int place = first_place(tile) + rank_f * SHARE_P;
                const int f = first_filter(tile);
                const Corner corner = {place / (H * W), place / W % H - PAD, place % W - PAD};
                int c = 0;
                int r = 0;
                int s = 0;
                for (int step = 0; step < steps; ++step) {
                    wait(&empty[stage], parity);
                    expect_bytes(&full[stage], BYTES_X + BYTES_W);
                    unsigned char* const my_windows = windows + stage * BYTES_X + rank_f * (BYTES_X / CLUSTER_F);
                    unsigned char* const my_filters = filters + stage * BYTES_W + rank_p * (2 * TSK * SHARE_F);
                    copy_windows(my_windows, x, corner, r, s, c, same_places, &full[stage]);
                    if (TURNED) {
                        #pragma unroll
                        for (int piece = 0; piece < PIECES; ++piece) {
                            const int at = rank_p * PIECES + piece;  // two pieces are 64 x 64 elements
                            copy_filters(my_filters + piece * 4096, w, c + at % 2 * 32, R - 1 - r, S - 1 - s,
                                         f + at / 2 * 64, same_filters, &full[stage]);
                        }
                    } else {
                        copy_filters(my_filters, w, f + rank_p * SHARE_F, r, s, c, same_filters, &full[stage]);
                    }
                    if (++s == S) {
                        s = 0;
                        if (++r == R) {
                            r = 0;
                            c += TSK;
                        }
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
        const bool speaks = threadIdx.x % 128 == 0;  // for its warpgroup
        int stage = 0;
        int parity = 0;
        int tile_parity = 0;
        float d[WSP / 2];
        unsigned char* const results = shared + STAGES * (BYTES_X + BYTES_W) + warpgroup * BYTES_Y;
        for (int tile = blockIdx.x / CLUSTER; tile < tiles; tile += gridDim.x / CLUSTER) {
            const int f = first_filter(tile) + my_f;
            const int place = first_place(tile) + my_p;
            int before = -1;  // the stage that is still being multiplied
            for (int step = 0; step < steps; ++step) {
                wait(&full[stage], parity);
                const unsigned long long a = describe(filters + stage * BYTES_W + my_f * TSK * 2);
                const unsigned long long b = describe(windows + stage * BYTES_X + my_p * TSK * 2);
                asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
                #pragma unroll
                for (int k = 0; k < TSK; k += 16) {  // 16 channels on: 32 bytes along the rows, or 16 rows
                    multiply(d, a + ((TURNED ? k * 2 * TSK : 2 * k) >> 4), b + (2 * k >> 4), step + k > 0);
                }
                asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
                if (END == 2 && step == 0 && speaks) {  // activations go to where the results of the last tile were
                    asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
                    expect_bytes(&known[warpgroup], BYTES_Y);
                    copy_box(results, kept, place, f, &known[warpgroup]);
                }
                asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
                if (before >= 0 && threadIdx.x % 128 < CLUSTER) arrive(&empty[before], threadIdx.x % 128);
                before = stage;
                if (++stage == STAGES) {
                    stage = 0;
                    parity ^= 1;
                }
            }
            const int row = f + warp * 16 + lane / 4;  // the lane's filters: this one, and the eighth behind it
            const float bias0 = END == 1 && row < F ? bias[row] : 0.0f;
            const float bias8 = END == 1 && row + 8 < F ? bias[row + 8] : 0.0f;
            asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
            if (threadIdx.x % 128 < CLUSTER) arrive(&empty[before], threadIdx.x % 128);

            if (END == 2) {
                wait(&known[warpgroup], tile_parity);
                tile_parity ^= 1;
            } else {
                if (speaks) asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
                sync_warpgroup(warpgroup);  // the results of the tile before this one have left shared memory
            }
            float sum0 = 0.0f;
            float sum8 = 0.0f;
            #pragma unroll
            for (int j = 0; j < WSP / 16; ++j) {  // 16 places x the warp's 16 filters
                const int column = j * 16 + lane / 16 * 8 + lane % 8;
                const int chunk = warp * 2 + lane / 8 % 2;
                unsigned char* const there = results + column * 128 + (chunk ^ column % 8) * 16;
                unsigned m[4];
                #pragma unroll
                for (int i = 0; i < 4; ++i) {  // rows lane / 4 and, for odd i, the eighth behind it
                    float left = d[8 * j + 2 * i];
                    float right = d[8 * j + 2 * i + 1];
                    if (END == 1) {
                        left = fmaxf(left + (i % 2 ? bias8 : bias0), 0.0f);
                        right = fmaxf(right + (i % 2 ? bias8 : bias0), 0.0f);
                    }
                    m[i] = pair(left, right);
                }
                if (END == 2) {
                    unsigned activations[4];
                    load_turned(there, activations);
                    #pragma unroll
                    for (int i = 0; i < 4; ++i) {
                        m[i] = passed(m[i], activations[i], i % 2 ? sum8 : sum0);
                    }
                }
                store_turned(there, m[0], m[1], m[2], m[3]);
            }
            asm volatile("fence.proxy.async.shared::cta;" ::: "memory");  // the TMA sees what threads have written
            sync_warpgroup(warpgroup);
            if (speaks) {
                store_box(y, place, f, results);
                asm volatile("cp.async.bulk.commit_group;" ::: "memory");
            }
            if (END == 2) {
                #pragma unroll
                for (int apart = 1; apart < 4; apart *= 2) {  // four lanes have the same filters
                    sum0 += __shfl_xor_sync(0xffffffffu, sum0, apart);
                    sum8 += __shfl_xor_sync(0xffffffffu, sum8, apart);
                }
                if (lane % 4 == 0 && row < F) atomicAdd(&sums[row], sum0);
                if (lane % 4 == 0 && row + 8 < F) atomicAdd(&sums[row + 8], sum8);
            }
        }
        if (speaks) asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
    }
    // No copy lands in a block that left.
    asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}
