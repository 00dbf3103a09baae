// 05_conv_backward_filter.cu: the gradients of a convolution's filters, the same numbers on every run.
// Idea:    a weight takes part in every result of its filter: dw[f,c,r,s] is the sum over all images and places of dy
//          times the pixel that the weight met there. As a product that is dy times the transposed cols of lab 08:
//          few rows, few columns, and a very long k, every place of every image. So blocks share k: each adds up one
//          part of it for its tile, and a second kernel adds the parts in a fixed order. Atomic additions would need
//          no second kernel, but they arrive in any order, and float sums depend on the order.
//          The bias is a weight that meets 1 everywhere: one more column, TERMS = C * R * S + 1.
// From:    04_conv_backward_data.cu
// Limits:  tiles of 32 x 32; the parts take memory: at most MOST times the filters'.
// Entry:   conv_backward_filter(const float x[BATCH,C,H,W] in, const float dy[BATCH,F,OH,OW] in,
//                               float parts[SPLITS,F,TERMS] out, int BATCH, int C, int H, int W, int F, int R, int S,
//                               int STRIDE, int PAD, int SPLITS)
// Entry:   add_parts(const float parts[SPLITS,F,TERMS] in, float dw[F,C,R,S] out, float db[F] out, int C, int F, int R,
//                    int S, int SPLITS)
// Sizes:   OH = (H + 2 * PAD - R) / STRIDE + 1, OW = (W + 2 * PAD - S) / STRIDE + 1, TERMS = C * R * S + 1,
//          SPLITS = min(MOST, cdiv(BATCH * OH * OW, SHARE))
// Needs:   H + 2 * PAD >= R, W + 2 * PAD >= S
// Scratch: parts
// Launch:  conv_backward_filter block=(THREADS) grid=(cdiv(TERMS, TS), cdiv(F, TS), SPLITS)
// Launch:  add_parts block=(THREADS) grid=(cdiv(F * TERMS, THREADS))

constexpr int TS = 32;           // a block computes TS filters by TS terms
constexpr int TSK = 32;          // places in one tile: the lanes of a warp
constexpr int WPT = 4;           // a thread computes WPT x WPT of them, TS / WPT apart
constexpr int THREADS = (TS / WPT) * (TS / WPT);
constexpr int WARPS = THREADS / 32;
constexpr int ROWS = TS / WARPS;  // rows of each tile that one thread loads
constexpr int PITCH = TSK + 4;   // float4s of eight neighbouring rows lie in different banks
constexpr int SHARE = 256;       // places of a block, if that makes no more than
constexpr int MOST = 256;        // blocks that share the places

static_assert(TS == 32 && TSK == 32, "a warp loads one row of a tile");

extern "C" __global__ void __launch_bounds__(THREADS)
conv_backward_filter(const float* __restrict__ x, const float* __restrict__ dy, float* __restrict__ parts,
                     int BATCH, int C, int H, int W, int F, int R, int S, int STRIDE, int PAD, int SPLITS)
{
    __shared__ __align__(16) float tileY[TS][PITCH];  // rows: filters
    __shared__ __align__(16) float tileX[TS][PITCH];  // rows: terms
    __shared__ int4 terms[TS];                        // offset in a window, row, column, whether it is the bias
    const int OH = (H + 2 * PAD - R) / STRIDE + 1;
    const int OW = (W + 2 * PAD - S) / STRIDE + 1;
    const int places = BATCH * OH * OW;
    const int share = (places + SPLITS - 1) / SPLITS;
    const int first = blockIdx.z * share;             // the block's part of all places
    const int last = min(places, first + share);
    const int thread = threadIdx.x;
    const int lane = thread % 32;
    const int warp = thread / 32;
    const int tx = thread % (TS / WPT);
    const int ty = thread / (TS / WPT);
    const int row0 = blockIdx.y * TS;
    const int col0 = blockIdx.x * TS;
    const int filters = F - row0;                     // that exist, from the block's first on
    float sum[WPT][WPT] = {};

    if (thread < TS) {
        const int term = col0 + thread;
        const int c = term / (R * S);
        const int r = term / S % R;
        const int s = term % S;
        terms[thread] = make_int4((c * H + r) * W + s, c < C ? r : H + 2 * PAD, s, term == C * R * S);
    }
    __syncthreads();

    float nextY[ROWS];  // the tiles in flight
    float nextX[ROWS];
    const auto load = [&](int place) {                // a lane has a place, a warp a filter or a term
        const bool exists = place < last;
        const int n = place / (OH * OW);
        const int at = place % (OH * OW);
        const int top = at / OW * STRIDE - PAD;
        const int left = at % OW * STRIDE - PAD;
        const float* slopes = dy + (static_cast<size_t>(n) * F + row0) * (OH * OW) + at;
        const int corner = (n * C * H + top) * W + left;
        #pragma unroll
        for (int i = 0; i < ROWS; ++i) {
            const int row = i * WARPS + warp;
            // BEGIN SOLUTION: row of both tiles, zero for what does not exist, one for the bias (about 6 lines)
            const int4 term = terms[row];
            const int h = top + term.y;
            const int v = left + term.z;
            const bool is_inside = exists && 0 <= h && h < H && 0 <= v && v < W;
            nextY[i] = exists && row < filters ? slopes[row * (OH * OW)] : 0.0f;
            nextX[i] = is_inside ? x[corner + term.x] : exists && term.w ? 1.0f : 0.0f;
            // END SOLUTION
        }
    };
    load(first + lane);
    for (int k0 = first; k0 < last; k0 += TSK) {
        #pragma unroll
        for (int i = 0; i < ROWS; ++i) {
            tileY[i * WARPS + warp][lane] = nextY[i];
            tileX[i * WARPS + warp][lane] = nextX[i];
        }
        __syncthreads();
        load(k0 + TSK + lane);  // on its way while this tile is multiplied; zeros past the block's part
        #pragma unroll
        for (int step = 0; step < TSK; step += 4) {
            float4 a[WPT];
            float4 b[WPT];
            #pragma unroll
            for (int i = 0; i < WPT; ++i) {
                a[i] = *reinterpret_cast<const float4*>(&tileY[ty + i * (TS / WPT)][step]);
                b[i] = *reinterpret_cast<const float4*>(&tileX[tx + i * (TS / WPT)][step]);
            }
            #pragma unroll
            for (int i = 0; i < WPT; ++i) {
                #pragma unroll
                for (int j = 0; j < WPT; ++j) {
                    sum[i][j] += a[i].x * b[j].x;
                    sum[i][j] += a[i].y * b[j].y;
                    sum[i][j] += a[i].z * b[j].z;
                    sum[i][j] += a[i].w * b[j].w;
                }
            }
        }
        __syncthreads();
    }
    const int count = C * R * S + 1;
    #pragma unroll
    for (int i = 0; i < WPT; ++i) {
        const int f = row0 + ty + i * (TS / WPT);
        #pragma unroll
        for (int j = 0; j < WPT; ++j) {
            const int term = col0 + tx + j * (TS / WPT);
            if (f < F && term < count) {
                parts[(static_cast<size_t>(blockIdx.z) * F + f) * count + term] = sum[i][j];
            }
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
add_parts(const float* __restrict__ parts, float* __restrict__ dw, float* __restrict__ db, int C, int F, int R, int S,
          int SPLITS)
{
    const int count = C * R * S + 1;
    const int at = blockIdx.x * THREADS + threadIdx.x;
    if (at >= F * count) return;

    float sum = 0.0f;
    // BEGIN SOLUTION: all parts, always in the same order (about 3 lines)
    for (int split = 0; split < SPLITS; ++split) {
        sum += parts[static_cast<size_t>(split) * F * count + at];
    }
    // END SOLUTION
    const int f = at / count;
    const int term = at % count;
    if (term < count - 1) {
        dw[f * (count - 1) + term] = sum;
    } else {
        db[f] = sum;
    }
}
