// rows_g_only.cu: averages two of a window's four results.
// Entry:   conv_relu_pool(const half x[BATCH,H,W,C] in, const half w[F,R,S,C] in, const float bias[F] in,
//                         half y[BATCH,PH,PW,F] out, int BATCH, int C, int H, int W, int F, int R, int S, int PAD)
// Sizes:   PH = (H + 2 * PAD - R + 1) / POOL, PW = (W + 2 * PAD - S + 1) / POOL
// Needs:   PH >= 1, PW >= 1, R <= 16, S <= 16, C % 8 == 0, H + 2 * PAD >= R, W + 2 * PAD >= S
// Launch:  conv_relu_pool block=(THREADS) grid=(cdiv(BATCH * PH * PW * POOL * POOL, TSM) * cdiv(F, TSN)) shared=STAGES * STAGE_BYTES

// expect: WA

#include <cuda_fp16.h>
#include <cuda_pipeline.h>

constexpr int POOL = 2;     // rows and columns of a window; 1: no pooling
constexpr int RELU = 1;     // 0: no ReLU
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
static_assert(POOL == 1 || (POOL == 2 && WSM % 32 == 0), "windows of 2 x 2 lie in two pieces of 16 rows");
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

// Which window a row of the tile belongs to, and which of its results it is.
__device__ int window_of(int row) { return POOL == 1 ? row : row / 32 * 8 + row % 8; }
__device__ int element_of(int row) { return POOL == 1 ? 0 : row / 8 % 4; }

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
conv_relu_pool(const half* __restrict__ x, const half* __restrict__ w, const float* __restrict__ bias,
               half* __restrict__ y, int BATCH, int C, int H, int W, int F, int R, int S, int PAD)
{
    extern __shared__ __align__(128) half shared[];  // STAGES times TSM rows of windows, then TSN rows of filters
    const int PH = (H + 2 * PAD - R + 1) / POOL;
    const int PW = (W + 2 * PAD - S + 1) / POOL;
    const int windows = BATCH * PH * PW;
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
        const int row = thread / 8 + i * ROWS;
        const int window = row0 / (POOL * POOL) + window_of(row);
        const int top = window / PW % PH * POOL + element_of(row) / POOL - PAD;
        const int left = window % PW * POOL + element_of(row) % POOL - PAD;
        corner[i] = (window / (PH * PW) * H + top) * W * C + left * C;
        valid[i] = window < windows ? inside(top, R, H) | inside(left, S, W) << 16 : 0;
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
        }
        stage = (stage + 1) % STAGES;
    }

    __pipeline_wait_prior(0);
    __syncthreads();  // the tiles are no longer needed: their memory takes the results, so that they leave in chunks
    constexpr int PIECES = POOL * POOL / 2 > 0 ? POOL * POOL / 2 : 1;  // pieces of 16 rows that hold 8 (16) windows
    #pragma unroll
    for (int j = 0; j < WSN / 8; ++j) {
        const int f = warp_col + j * 8 + lane % 4 * 2;  // the thread's two filters in the block's tile
        const float2 more = make_float2(col0 + f < F ? bias[col0 + f] : 0.0f, col0 + f + 1 < F ? bias[col0 + f + 1] : 0.0f);
        #pragma unroll
        for (int i = 0; i < WSM / 16; i += PIECES) {
            float2 value[2] = {};  // of one window; without pooling of two rows
            #pragma unroll
            for (int e = 0; e < PIECES; ++e) {
                float2 result;
                result.x = sum[i + e / 2][j][e % 2 * 2] + more.x;
                result.y = sum[i + e / 2][j][e % 2 * 2 + 1] + more.y;
                if (RELU) {
                    result.x = fmaxf(result.x, 0.0f);
                    result.y = fmaxf(result.y, 0.0f);
                }
                const int to = POOL == 1 ? e : 0;
                value[to].x += result.x / (POOL * POOL);
                value[to].y += result.y / (POOL * POOL);
            }
            half* to = shared + (window_of(warp_row + i * 16) + lane / 4) * PITCH + f;
            *reinterpret_cast<half2*>(to) = __floats2half2_rn(value[0].x, value[0].y);
            if (POOL == 1) *reinterpret_cast<half2*>(to + 8 * PITCH) = __floats2half2_rn(value[1].x, value[1].y);
        }
    }
    __syncthreads();
    for (int i = thread; i < TSM / (POOL * POOL) * (TSN / CHUNK); i += THREADS) {
        const int window = row0 / (POOL * POOL) + i / (TSN / CHUNK);
        const int f = col0 + i % (TSN / CHUNK) * CHUNK;
        const half* from = shared + i / (TSN / CHUNK) * PITCH + f - col0;
        half* to = y + static_cast<size_t>(window) * F + f;
        if (window < windows && f < F && F % CHUNK == 0) {
            *reinterpret_cast<float4*>(to) = *reinterpret_cast<const float4*>(from);
        } else if (window < windows) {
            for (int k = 0; k < CHUNK && f + k < F; ++k) to[k] = from[k];
        }
    }
}
