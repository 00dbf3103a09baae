// atomic_sums.cu: right, but blocks add to the sums as they come: another order on every run.
// Entry:   conv_backward_filter(const float x[BATCH,C,H,W] in, const float dy[BATCH,F,OH,OW] in,
//                               float parts[SPLITS,F,TERMS] out, int BATCH, int C, int H, int W, int F, int R, int S,
//                               int STRIDE, int PAD, int SPLITS)
// Entry:   add_parts(const float parts[SPLITS,F,TERMS] in, float dw[F,C,R,S] out, float db[F] out, int C, int F, int R,
//                    int S, int SPLITS)
// Sizes:   OH = (H + 2 * PAD - R) / STRIDE + 1, OW = (W + 2 * PAD - S) / STRIDE + 1, TERMS = C * R * S + 1,
//          SPLITS = min(MOST, cdiv(BATCH * OH * OW, SHARE))
// Needs:   H + 2 * PAD >= R, W + 2 * PAD >= S
// Scratch: parts
// Entry:   clear(float parts[SPLITS,F,TERMS] out, int C, int F, int R, int S, int SPLITS)
// Launch:  clear block=(256) grid=(cdiv(SPLITS * F * TERMS, 256))
// Launch:  conv_backward_filter block=(THREADS) grid=(cdiv(TERMS, TS), cdiv(F, TS), SPLITS)
// Launch:  add_parts block=(THREADS) grid=(cdiv(F * TERMS, THREADS))


constexpr int TS = 32;
constexpr int TSK = 32;
constexpr int WPT = 4;
constexpr int THREADS = (TS / WPT) * (TS / WPT);
constexpr int WARPS = THREADS / 32;
constexpr int ROWS = TS / WARPS;
constexpr int PITCH = TSK + 4;
constexpr int SHARE = 256;
constexpr int MOST = 256;

extern "C" __global__ void __launch_bounds__(THREADS)
conv_backward_filter(const float* __restrict__ x, const float* __restrict__ dy, float* __restrict__ parts,
                     int BATCH, int C, int H, int W, int F, int R, int S, int STRIDE, int PAD, int SPLITS)
{
    __shared__ __align__(16) float tileY[TS][PITCH];
    __shared__ __align__(16) float tileX[TS][PITCH];
    __shared__ int4 terms[TS];
    const int OH = (H + 2 * PAD - R) / STRIDE + 1;
    const int OW = (W + 2 * PAD - S) / STRIDE + 1;
    const int places = BATCH * OH * OW;
    const int share = (places + SPLITS - 1) / SPLITS;
    const int first = blockIdx.z * share;
    const int last = min(places, first + share);
    const int thread = threadIdx.x;
    const int lane = thread % 32;
    const int warp = thread / 32;
    const int tx = thread % (TS / WPT);
    const int ty = thread / (TS / WPT);
    const int row0 = blockIdx.y * TS;
    const int col0 = blockIdx.x * TS;
    const int filters = F - row0;
    float sum[WPT][WPT] = {};

    if (thread < TS) {
        const int term = col0 + thread;
        const int c = term / (R * S);
        const int r = term / S % R;
        const int s = term % S;
        terms[thread] = make_int4((c * H + r) * W + s, c < C ? r : H + 2 * PAD, s, term == C * R * S);
    }
    __syncthreads();

    float nextY[ROWS];
    float nextX[ROWS];
    const auto load = [&](int place) {
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
            const int4 term = terms[row];
            const int h = top + term.y;
            const int v = left + term.z;
            const bool is_inside = exists && 0 <= h && h < H && 0 <= v && v < W;
            nextY[i] = exists && row < filters ? slopes[row * (OH * OW)] : 0.0f;
            nextX[i] = is_inside ? x[corner + term.x] : exists && term.w ? 1.0f : 0.0f;
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
        load(k0 + TSK + lane);
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
                atomicAdd(&parts[static_cast<size_t>(f) * count + term], sum[i][j]);  // expect: PERF
            }
        }
    }
}

extern "C" __global__ void clear(float* parts, int C, int F, int R, int S, int SPLITS)
{
    const int i = blockIdx.x * 256 + threadIdx.x;
    if (i < SPLITS * F * (C * R * S + 1)) parts[i] = 0.0f;
}

extern "C" __global__ void __launch_bounds__(THREADS)
add_parts(const float* __restrict__ parts, float* __restrict__ dw, float* __restrict__ db, int C, int F, int R, int S,
          int SPLITS)
{
    const int count = C * R * S + 1;
    const int at = blockIdx.x * THREADS + threadIdx.x;
    if (at >= F * count) return;

    float sum = 0.0f;
    for (int split = 0; split < SPLITS; ++split) {
        sum += parts[static_cast<size_t>(split) * F * count + at];
    }
    const int f = at / count;
    const int term = at % count;
    if (term < count - 1) {
        dw[f * (count - 1) + term] = sum;
    } else {
        db[f] = sum;
    }
}
