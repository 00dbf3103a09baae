// one_stage_early.cu: multiplies a stage whose copies may still be on their way.
// Entry:   conv(const half x[BATCH,H,W,C] in, const half w[F,R,S,C] in, half y[BATCH,OH,OW,F] out,
//               int BATCH, int C, int H, int W, int F, int R, int S, int STRIDE, int PAD)
// Sizes:   OH = (H + 2 * PAD - R) / STRIDE + 1, OW = (W + 2 * PAD - S) / STRIDE + 1
// Needs:   H + 2 * PAD >= R, W + 2 * PAD >= S, R <= 32, S <= 32, C % 8 == 0, F % 8 == 0
// Launch:  conv block=(THREADS) grid=(cdiv(BATCH * OH * OW, TSM) * cdiv(F, TSN)) shared=STAGES * STAGE_BYTES

#include <cuda_fp16.h>
#include <cuda_pipeline.h>

constexpr int TSM = 128;
constexpr int TSN = 64;
constexpr int TSK = 64;
constexpr int WSM = 64;
constexpr int WSN = 32;
constexpr int STAGES = 3;
constexpr int BLOCKS = 2;
constexpr int CHUNK = 8;
constexpr int THREADS = (TSM / WSM) * (TSN / WSN) * 32;
constexpr int ROWS = THREADS / 8;
constexpr int STAGE_BYTES = (TSM + TSN) * TSK * 2;
constexpr int PITCH = TSN + CHUNK;

__device__ int swizzled(int row, int chunk) { return row * TSK + (chunk ^ row % 8) * CHUNK; }

__device__ void load_matrices(unsigned (&to)[4], const half* row)
{
    const unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(row));
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"  // expect: RACE
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(address));
}

__device__ void multiply(float (&sum)[4], const unsigned (&a)[4], unsigned b0, unsigned b1)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

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
    extern __shared__ __align__(128) half shared[];
    const int OH = (H + 2 * PAD - R) / STRIDE + 1;
    const int OW = (W + 2 * PAD - S) / STRIDE + 1;
    const int M = BATCH * OH * OW;
    const int K = R * S * C;
    const int thread = threadIdx.x;
    const int lane = thread % 32;
    const int warp_row = thread / 32 / (TSN / WSN) * WSM;
    const int warp_col = thread / 32 % (TSN / WSN) * WSN;
    const int across = (F + TSN - 1) / TSN;
    const int row0 = blockIdx.x / across * TSM;
    const int col0 = blockIdx.x % across * TSN;

    const int chunk = thread % 8;
    int corner[TSM / ROWS];
    unsigned rows[TSM / ROWS] = {};
    unsigned cols[TSM / ROWS] = {};
    #pragma unroll
    for (int i = 0; i < TSM / ROWS; ++i) {
        const int place = row0 + thread / 8 + i * ROWS;
        const int top = place / OW % OH * STRIDE - PAD;
        const int left = place % OW * STRIDE - PAD;
        corner[i] = (place / (OH * OW) * H + top) * W * C + left * C;
        rows[i] = place < M ? inside(top, R, H) : 0;
        cols[i] = inside(left, S, W);
    }
    int k = chunk * CHUNK;
    int c = k;
    int r = 0;
    int s = 0;
    const auto carry = [&]() {
        while (c >= C) {
            c -= C;
            if (++s == S) {
                s = 0;
                ++r;
            }
        }
    };
    carry();

    const auto load = [&](int stage) {
        half* windows = shared + stage * (TSM + TSN) * TSK;
        half* filters = windows + TSM * TSK;
        #pragma unroll
        for (int i = 0; i < TSM / ROWS; ++i) {
            const int row = thread / 8 + i * ROWS;
            const bool exists = k < K && (rows[i] >> r & cols[i] >> s & 1);
            const half* from = exists ? x + corner[i] + (r * W + s) * C + c : x;
            __pipeline_memcpy_async(windows + swizzled(row, chunk), from, 16, exists ? 0 : 16);
        }
        #pragma unroll
        for (int i = 0; i < TSN / ROWS; ++i) {
            const int row = thread / 8 + i * ROWS;
            const bool exists = k < K && col0 + row < F;
            const half* from = exists ? w + (col0 + row) * K + k : w;
            __pipeline_memcpy_async(filters + swizzled(row, chunk), from, 16, exists ? 0 : 16);
        }
        k += TSK;
        c += TSK;
        carry();
    };

    float sum[WSM / 16][WSN / 8][4] = {};
    #pragma unroll
    for (int stage = 0; stage < STAGES - 1; ++stage) {
        load(stage);
        __pipeline_commit();
    }
    int stage = 0;
    for (int k0 = 0; k0 < K; k0 += TSK) {
        __pipeline_wait_prior(STAGES - 1);
        __syncthreads();
        load((stage + STAGES - 1) % STAGES);
        __pipeline_commit();
        const half* windows = shared + stage * (TSM + TSN) * TSK;
        const half* filters = windows + TSM * TSK;
        #pragma unroll
        for (int step = 0; step < TSK / 16; ++step) {
            unsigned a[WSM / 16][4];
            unsigned b[WSN / 16][4];
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
    __syncthreads();
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
