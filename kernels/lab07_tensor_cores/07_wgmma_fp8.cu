// 07_wgmma_fp8.cu: C = alpha * A * Bt^T for floats of 8 bits (e4m3) by wgmma and the TMA.
// Idea:    a byte for a number: the tensor cores multiply twice as many of them at a time, and a tile of as many bytes
//          holds 128 steps of k. wgmma takes bytes along k only, so B is stored transposed; e4m3 ends at 448, and alpha
//          brings the product back to where its numbers were. Tensor cores keep 13 bits behind the point of such sums.
// From:    06_wgmma.cu
// Limits:  accuracy: each of K / 32 additions cuts to 2^-13 of the largest term. And power, as before.
// Target:  sm_90a
// Needs:   K % 16 == 0, N % 8 == 0
// Entry:   matmul_bt(const unsigned char A[M,K] in map=(TSM, TSK), const unsigned char Bt[N,K] in map=(SHARE, TSK),
//                    half C[M,N] out map=(64, 64), float alpha, int M, int N, int K)
// Launch:  matmul_bt block=(THREADS) grid=(BLOCKS) shared=SHARED
// Usual:   alpha = 1

#include <cuda_fp16.h>

constexpr int TSM = 128;            // a block computes TSM x TSN elements of C at a time
constexpr int TSN = 256;
constexpr int TSK = 128;            // steps of k in one tile: rows of 128 bytes, the widest swizzle
constexpr int STAGES = 4;           // tiles in shared memory
constexpr int CLUSTER = 2;          // blocks that share tiles of B
constexpr int GROUP = 8;            // rows of tile pairs that are computed together, column by column: they share L2
constexpr int BLOCKS = 128;         // of 132 multiprocessors: 4096 x 4096 are four tiles for each, and four rest, which
                                    // leaves power to the others
constexpr int CONSUMERS = TSM / 64; // warpgroups that multiply; one more sends for tiles
constexpr int THREADS = 128 * (CONSUMERS + 1);
constexpr int SHARE = TSN / CLUSTER;    // rows of Bt that a block brings for its cluster
constexpr int BYTES_A = TSM * TSK;      // of a tile
constexpr int BYTES_B = TSN * TSK;
constexpr int BOX = 2 * 64 * 64;        // 64 columns of what a warpgroup computes, as halves
constexpr int BOXES = 2;                // places for them: one is filled while the other is stored
constexpr int BYTES_C = BOX * BOXES;
constexpr int SHARED = STAGES * (BYTES_A + BYTES_B) + CONSUMERS * BYTES_C + 16 * STAGES;

static_assert(CONSUMERS == 2 && TSN == 256 && TSK == 128, "registers are shared out for this shape");
static_assert(SHARED <= 227 * 1024, "a block of an H100 has 227 KB of shared memory");
static_assert(BLOCKS % CLUSTER == 0 && SHARE % 8 == 0, "every block of a cluster brings as many rows of Bt");

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

// Sends for the box of an array whose first element is (row, col).
__device__ void copy_box(void* to, const CUtensorMap& map, int row, int col, unsigned long long* barrier)
{
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];"
        :: "r"(shared_address(to)), "l"(&map), "r"(shared_address(barrier)), "r"(col), "r"(row) : "memory");
}

// The same for all blocks of the cluster: it lands at the same place in each, and at each one's barrier.
__device__ void copy_box_to_all(void* to, const CUtensorMap& map, int row, int col, unsigned long long* barrier)
{
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster"
        " [%0], [%1, {%3, %4}], [%2], %5;"
        :: "r"(shared_address(to)), "l"(&map), "r"(shared_address(barrier)), "r"(col), "r"(row),
           "h"(static_cast<short>((1 << CLUSTER) - 1)) : "memory");
}

// Sends a box from shared memory to an array; what sticks out is left out.
__device__ void store_box(const CUtensorMap& map, int row, int col, const void* from)
{
    asm volatile(
        "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%2, %3}], [%1];"
        :: "l"(&map), "r"(shared_address(from)), "r"(col), "r"(row) : "memory");
}

// Waits for the four warps of a warpgroup.
__device__ void sync_warpgroup(int warpgroup)
{
    asm volatile("barrier.sync.aligned %0, 128;" :: "r"(warpgroup + 1) : "memory");
}

// Writes 16 x 16 sums of a warp as halves, times alpha: ldmatrix backwards. Lane l names the 16 bytes that are row
// l % 16 of the left (l < 16) or right 8 columns, and holds two neighbours of rows l / 4 and l / 4 + 8 of either side.
__device__ void put_sums(const void* row, const float* sums, float alpha)
{
    unsigned pairs[4];
    #pragma unroll
    for (int i = 0; i < 4; ++i) {
        const half2 pair = __floats2half2_rn(alpha * sums[2 * i], alpha * sums[2 * i + 1]);
        pairs[i] = *reinterpret_cast<const unsigned*>(&pair);
    }
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};"
                 :: "r"(shared_address(row)), "r"(pairs[0]), "r"(pairs[1]), "r"(pairs[2]), "r"(pairs[3]) : "memory");
}

// Says where an operand lies: groups of 8 rows of 128 bytes, swizzled, follow each other.
__device__ unsigned long long describe(const void* operand)
{
    const unsigned long long start = (shared_address(operand) & 0x3ffff) >> 4;
    return start | 1024ull >> 4 << 32 | 1ull << 62;
}

// d (64 x 256) = a (64 x 32) * b (256 x 32)^T + (adds ? d : 0), begun, not finished
__device__ void multiply(float (&d)[128], unsigned long long a, unsigned long long b, int adds)
{
    asm volatile(
        "{\n"
        ".reg .pred adds;\n"
        "setp.ne.b32 adds, %130, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n256k32.f32.e4m3.e4m3 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
        "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "
        "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "
        "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "
        "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, "
        "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127}, "
        "%128, %129, adds, 1, 1;\n"
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

extern "C" __global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(THREADS, 1)
matmul_bt(const __grid_constant__ CUtensorMap A, const __grid_constant__ CUtensorMap Bt,
          const __grid_constant__ CUtensorMap C, float alpha, int M, int N, int K)
{
    extern __shared__ __align__(1024) unsigned char shared[];
    unsigned char* const tilesA = shared;
    unsigned char* const tilesB = shared + STAGES * BYTES_A;
    unsigned long long* const full = reinterpret_cast<unsigned long long*>(shared + SHARED - 16 * STAGES);
    unsigned long long* const empty = full + STAGES;
    const int warpgroup = threadIdx.x / 128;
    const int rank = blockIdx.x % CLUSTER;
    const int rows = (M + CLUSTER * TSM - 1) / (CLUSTER * TSM);  // of cluster tiles
    const int cols = (N + TSN - 1) / TSN;
    const int tiles = (K + TSK - 1) / TSK;

    if (threadIdx.x == 0) {
        for (const CUtensorMap* map : {&A, &Bt, &C}) {
            asm volatile("prefetch.tensormap [%0];" :: "l"(map) : "memory");
        }
        for (int stage = 0; stage < STAGES; ++stage) {
            init_barrier(&full[stage], 1);                     // the thread that sends for a tile
            init_barrier(&empty[stage], CONSUMERS * CLUSTER);  // everybody whose tile is written to
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");

    // Which tile of C is a cluster's i-th? GROUP rows of tiles are worked through column by column.
    const auto place = [&](int i, int& row, int& col) {
        const int first = i / (GROUP * cols) * GROUP;
        const int height = min(GROUP, rows - first);
        row = (first + i % (GROUP * cols) % height) * CLUSTER * TSM + rank * TSM;
        col = i % (GROUP * cols) / height * TSN;
    };

    if (warpgroup == CONSUMERS) {  // sends for tiles
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        if (threadIdx.x % 128 == 0) {
            int stage = 0;
            int parity = 1;  // nothing has been used yet: the first wait passes
            for (int i = blockIdx.x / CLUSTER; i < rows * cols; i += gridDim.x / CLUSTER) {
                int row, col;
                place(i, row, col);
                for (int tile = 0; tile < tiles; ++tile) {
                    // BEGIN SOLUTION: wait until it is free, announce bytes, send for A, a share of Bt (about 5 lines)
                    // END SOLUTION
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
        int stage = 0;
        int parity = 0;
        float d[128];
        unsigned char* const results = shared + STAGES * (BYTES_A + BYTES_B) + warpgroup * BYTES_C;
        const auto vacate = [&] {  // waits until the box stored two boxes ago has left `results`
            if (threadIdx.x % 128 == 0) asm volatile("cp.async.bulk.wait_group.read %0;" :: "n"(BOXES - 1) : "memory");
            sync_warpgroup(warpgroup);
        };
        for (int i = blockIdx.x / CLUSTER; i < rows * cols; i += gridDim.x / CLUSTER) {
            int before = -1;  // the stage that is still being multiplied
            for (int tile = 0; tile < tiles; ++tile) {
                // BEGIN SOLUTION: wait for it, describe operands, multiply, leave one group open (about 10 lines)
                // END SOLUTION
                if (before >= 0 && threadIdx.x % 128 < CLUSTER) arrive(&empty[before], threadIdx.x % 128);
                before = stage;
                if (++stage == STAGES) {
                    stage = 0;
                    parity ^= 1;
                }
            }
            int row, col;
            place(i, row, col);
            asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
            if (threadIdx.x % 128 < CLUSTER) arrive(&empty[before], threadIdx.x % 128);

            #pragma unroll
            for (int box = 0; box < TSN / 64; ++box) {
                unsigned char* const result = results + box % BOXES * BOX;
                vacate();
                #pragma unroll
                for (int chunk = 0; chunk < 8; chunk += 2) {  // swizzled as the TMA expects it
                    const int y = warp * 16 + lane % 16;
                    put_sums(result + y * 128 + ((chunk + lane / 16) ^ y % 8) * 16, d + box * 32 + chunk * 4, alpha);
                }
                asm volatile("fence.proxy.async.shared::cta;" ::: "memory");  // the TMA sees what threads have written
                sync_warpgroup(warpgroup);
                if (threadIdx.x % 128 == 0) {
                    store_box(C, row + warpgroup * 64, col + box * 64, result);
                    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
                }
            }
        }
        if (threadIdx.x % 128 == 0) asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
    }
    // No copy lands in a block that left.
    asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}
