// 11_fp16_implicit_gemm.cu: an implicit product of matrices on tensor cores, for half precision in NHWC.
// Idea:    if channels are the innermost axis, eight of them are 16 bytes of one window's element: a chunk that one
//          copy brings from global to shared memory, or fills with zeros where the element lies outside the image.
//          The results are places x filters, so y is NHWC too. The chunks of a row of 128 bytes are stored in an
//          order that depends on the row (a swizzle): eight rows' chunks, which ldmatrix reads at once, lie in all 32
//          banks. STAGES - 1 tiles are on their way while one is multiplied. Where channels come in whole tiles, all
//          elements of the window follow each other for the same channels: neighbouring windows share most of what
//          they read, and find it in the L1 cache. (The L2 cache cannot deliver two tiles as fast as they are
//          multiplied.)
// From:    09_int8_wmma.cu
// Limits:  mma.sync leaves Hopper's tensor cores waiting: they are made for wgmma.
// Entry:   conv(const half x[BATCH,H,W,C] in, const half w[F,R,S,C] in, half y[BATCH,OH,OW,F] out,
//               int BATCH, int C, int H, int W, int F, int R, int S, int STRIDE, int PAD)
// Sizes:   OH = (H + 2 * PAD - R) / STRIDE + 1, OW = (W + 2 * PAD - S) / STRIDE + 1
// Needs:   H + 2 * PAD >= R, W + 2 * PAD >= S, R <= 16, S <= 16, C % 8 == 0, F % 8 == 0
// Launch:  conv block=(THREADS) grid=(cdiv(BATCH * OH * OW, TSM) * cdiv(F, TSN)) shared=STAGES * STAGE_BYTES

#include <cuda_fp16.h>
#include <cuda_pipeline.h>

constexpr int TSM = 128;    // a block computes TSN filters at TSM places
constexpr int TSN = 64;
constexpr int TSK = 64;     // steps of k in one tile: eight chunks, 128 bytes
constexpr int WSM = 64;     // a warp computes WSM x WSN of them
constexpr int WSN = 32;
constexpr int STAGES = 3;
constexpr int BLOCKS = 2;   // blocks that share a multiprocessor
constexpr int CHUNK = 8;    // halfs
constexpr int THREADS = (TSM / WSM) * (TSN / WSN) * 32;
constexpr int ROWS = THREADS / 8;           // rows of a tile that all threads load at once
constexpr int STAGE_BYTES = (TSM + TSN) * TSK * 2;
constexpr int PITCH = TSN + CHUNK;          // of the results in shared memory: keeps 8 rows in different banks

static_assert(TSM % WSM == 0 && TSN % WSN == 0, "the warps' tiles cover the block's exactly");
static_assert(WSM % 16 == 0 && WSN % 16 == 0, "a warp multiplies 16 x 8 at a time and loads 16 x 16");
static_assert(TSM % ROWS == 0 && TSN % ROWS == 0, "all threads load equally many chunks");
static_assert(TSM * PITCH * 2 <= STAGES * STAGE_BYTES, "the results fit where the tiles were");
static_assert(TSK == 64 && STAGES >= 2, "rows of eight chunks; one stage to read and one to fill");

// Where chunk `chunk` of row `row` of a tile is stored, in halfs.
__device__ int swizzled(int row, int chunk) { return row * TSK + (chunk ^ row % 8) * CHUNK; }

// Loads four matrices of 8 x 8 halfs; each lane gives the address of one row.
__device__ void load_matrices(unsigned (&to)[4], const half* row)
{
    const unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(row));
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(address));
}

// Starts to copy 16 bytes, or 16 zeros, to shared memory; keeps what it reads in the L1 cache.
__device__ void copy_cached(half* to, const half* from, bool exists)
{
    const unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(to));
    asm volatile("cp.async.ca.shared.global [%0], [%1], 16, %2;" :: "r"(address), "l"(from), "r"(exists ? 16 : 0));
}

// sum += a * b for 16 places x 16 steps of k x 8 filters.
__device__ void multiply(float (&sum)[4], const unsigned (&a)[4], unsigned b0, unsigned b1)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Bits 0 to count - 1: whether first + bit lies in 0 to size - 1.
__device__ unsigned inside(int first, int count, int size)
{
    unsigned bits = 0;
    for (int i = 0; i < count; ++i) {
        bits |= (0 <= first + i && first + i < size ? 1u : 0u) << i;
    }
    return bits;
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
conv(const half* __restrict__ x, const half* __restrict__ w, half* __restrict__ y,
     int BATCH, int C, int H, int W, int F, int R, int S, int STRIDE, int PAD)
{
    extern __shared__ __align__(128) half shared[];  // STAGES times TSM rows of windows, then TSN rows of filters
    const int OH = (H + 2 * PAD - R) / STRIDE + 1;
    const int OW = (W + 2 * PAD - S) / STRIDE + 1;
    const int M = BATCH * OH * OW;
    const int K = R * S * C;
    const int thread = threadIdx.x;
    const int lane = thread % 32;
    const int warp_row = thread / 32 / (TSN / WSN) * WSM;
    const int warp_col = thread / 32 % (TSN / WSN) * WSN;
    const int across = (F + TSN - 1) / TSN;      // neighbouring blocks share their windows
    const int row0 = blockIdx.x / across * TSM;  // the block's first place
    const int col0 = blockIdx.x % across * TSN;  // and first filter

    // A thread copies the same chunk of rows thread / 8, thread / 8 + ROWS, ... of both tiles.
    const int chunk = thread % 8;
    int corner[TSM / ROWS];     // where the window of a place begins
    unsigned valid[TSM / ROWS];  // bits 0 to 15: rows of the window that lie inside the image; bits 16 to 31: columns
    #pragma unroll
    for (int i = 0; i < TSM / ROWS; ++i) {
        const int place = row0 + thread / 8 + i * ROWS;
        const int top = place / OW % OH * STRIDE - PAD;
        const int left = place % OW * STRIDE - PAD;
        corner[i] = (place / (OH * OW) * H + top) * W * C + left * C;
        valid[i] = place < M ? inside(top, R, H) | inside(left, S, W) << 16 : 0;
    }
    // What the thread copies next: of element (r, s) of a window, eight channels from c on.
    int c = chunk * CHUNK;
    int r = 0;
    int s = 0;
    const bool whole = C % TSK == 0;  // a tile holds one element of the window, TSK channels of it
    const int tiles = whole ? R * S * (C / TSK) : (K + TSK - 1) / TSK;
    const auto next_element = [&]() {
        if (++s == S) {
            s = 0;
            ++r;
        }
    };
    while (!whole && c >= C) {
        c -= C;
        next_element();
    }

    const auto load = [&](int stage) {  // starts the copies of a tile, of zeros past K
        half* windows = shared + stage * (TSM + TSN) * TSK;
        half* filters = windows + TSM * TSK;
        // BEGIN SOLUTION: chunk by chunk; what is not there is filled with 16 zeros; then walk on (about 27 lines)
        const int from = (r * W + s) * C + c;
        #pragma unroll
        for (int i = 0; i < TSM / ROWS; ++i) {
            const int row = thread / 8 + i * ROWS;
            const bool exists = valid[i] >> r & valid[i] >> (16 + s) & (r < R && c < C);
            copy_cached(windows + swizzled(row, chunk), exists ? x + corner[i] + from : x, exists);
        }
        #pragma unroll
        for (int i = 0; i < TSN / ROWS; ++i) {
            const int row = thread / 8 + i * ROWS;
            const bool exists = r < R && c < C && col0 + row < F;
            const half* filter = exists ? w + (col0 + row) * K + (r * S + s) * C + c : w;
            __pipeline_memcpy_async(filters + swizzled(row, chunk), filter, 16, exists ? 0 : 16);
        }
        if (whole) {
            next_element();
            if (r == R) {  // the next channels
                r = 0;
                c += TSK;
            }
        } else {
            c += TSK;
            while (c >= C) {
                c -= C;
                next_element();
            }
        }
        // END SOLUTION
    };

    float sum[WSM / 16][WSN / 8][4] = {};
    #pragma unroll
    for (int stage = 0; stage < STAGES - 1; ++stage) {
        load(stage);
        __pipeline_commit();
    }
    int stage = 0;
    for (int tile = 0; tile < tiles; ++tile) {
        __pipeline_wait_prior(STAGES - 2);
        __syncthreads();  // this stage is complete, and nobody reads the one before it any more
        load((stage + STAGES - 1) % STAGES);
        __pipeline_commit();
        const half* windows = shared + stage * (TSM + TSN) * TSK;
        const half* filters = windows + TSM * TSK;
        #pragma unroll
        for (int step = 0; step < TSK / 16; ++step) {
            unsigned a[WSM / 16][4];
            unsigned b[WSN / 16][4];  // two neighbours of 8 filters each
            // BEGIN SOLUTION: fragments by ldmatrix, then a product for each 16 places and 8 filters (about 16 lines)
            #pragma unroll
            for (int i = 0; i < WSM / 16; ++i) {
                load_matrices(a[i], windows + swizzled(warp_row + i * 16 + lane % 16, step * 2 + lane / 16));
            }
            #pragma unroll
            for (int j = 0; j < WSN / 16; ++j) {
                const int row = warp_col + j * 16 + lane / 16 * 8 + lane % 8;
                load_matrices(b[j], filters + swizzled(row, step * 2 + lane / 8 % 2));
            }
            #pragma unroll
            for (int i = 0; i < WSM / 16; ++i) {
                #pragma unroll
                for (int j = 0; j < WSN / 8; ++j) {
                    multiply(sum[i][j], a[i], b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1]);
                }
            }
            // END SOLUTION
        }
        stage = (stage + 1) % STAGES;
    }

    __pipeline_wait_prior(0);
    __syncthreads();  // the tiles are no longer needed: their memory takes the results, so that they leave in chunks
    #pragma unroll
    for (int i = 0; i < WSM / 16; ++i) {
        #pragma unroll
        for (int j = 0; j < WSN / 8; ++j) {
            half* to = shared + (warp_row + i * 16 + lane / 4) * PITCH + warp_col + j * 8 + lane % 4 * 2;
            *reinterpret_cast<half2*>(to) = __floats2half2_rn(sum[i][j][0], sum[i][j][1]);
            *reinterpret_cast<half2*>(to + 8 * PITCH) = __floats2half2_rn(sum[i][j][2], sum[i][j][3]);
        }
    }
    __syncthreads();
    for (int i = thread; i < TSM * (TSN / CHUNK); i += THREADS) {
        const int place = row0 + i / (TSN / CHUNK);
        const int f = col0 + i % (TSN / CHUNK) * CHUNK;
        if (place < M && f < F) {
            const float4 eight = *reinterpret_cast<const float4*>(shared + i / (TSN / CHUNK) * PITCH + f - col0);
            *reinterpret_cast<float4*>(y + place * F + f) = eight;
        }
    }
}
