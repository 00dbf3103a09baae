// window_forgotten.cu: takes s from k without its remainder: it grows past the window.
// Entry:   conv(const signed char x[BATCH,C,H,W] in, const signed char w[F,C,R,S] in, int y[BATCH,F,OH,OW] out,
//               int BATCH, int C, int H, int W, int F, int R, int S, int STRIDE, int PAD)
// Sizes:   OH = (H + 2 * PAD - R) / STRIDE + 1, OW = (W + 2 * PAD - S) / STRIDE + 1
// Needs:   H + 2 * PAD >= R, W + 2 * PAD >= S
// Launch:  conv block=(THREADS) grid=(cdiv(BATCH * OH * OW, TSN), cdiv(F, TSM))

// expect: WA

#include <mma.h>

constexpr int TSM = 64;
constexpr int TSN = 64;
constexpr int TSK = 32;
constexpr int WS = 32;
constexpr int EDGE = 16;
constexpr int PARTS = WS / EDGE;
constexpr int THREADS = (TSM / WS) * (TSN / WS) * 32;
constexpr int PITCH = TSK + 16;
constexpr int PITCH_Y = TSN + 8;

using namespace nvcuda;

struct __align__(16) Sixteen {
    signed char at[16];
};

extern "C" __global__ void __launch_bounds__(THREADS)
conv(const signed char* __restrict__ x, const signed char* __restrict__ w, int* __restrict__ y,
     int BATCH, int C, int H, int W, int F, int R, int S, int STRIDE, int PAD)
{
    __shared__ __align__(32) signed char tileW[TSM * PITCH];
    __shared__ __align__(32) signed char tileX[TSN * PITCH];
    __shared__ __align__(32) int tileY[TSM * PITCH_Y];
    const int OH = (H + 2 * PAD - R) / STRIDE + 1;
    const int OW = (W + 2 * PAD - S) / STRIDE + 1;
    const int N = BATCH * OH * OW;
    const int K = C * R * S;
    const int thread = threadIdx.x;
    const int warp_row = thread / 32 / (TSN / WS) * WS;
    const int warp_col = thread / 32 % (TSN / WS) * WS;
    const int row0 = blockIdx.y * TSM;
    const int col0 = blockIdx.x * TSN;
    const int mine = thread % TSN;
    const int first = thread / TSN * 16;
    const int place = col0 + mine;
    const int n = place / (OH * OW);
    const int top = place / OW % OH * STRIDE - PAD;
    const int left = place % OW * STRIDE - PAD;

    wmma::fragment<wmma::accumulator, EDGE, EDGE, 16, int> sum[PARTS][PARTS];
    for (int i = 0; i < PARTS; ++i) {
        for (int j = 0; j < PARTS; ++j) {
            wmma::fill_fragment(sum[i][j], 0);
        }
    }

    for (int k0 = 0; k0 < K; k0 += TSK) {
        Sixteen a = {};
        Sixteen b = {};
        #pragma unroll
        for (int i = 0; i < 16; ++i) {
            const int k = k0 + first + i;
            const int c = k / (R * S);
            const int h = top + k / S % R;
            const int v = left + k % (R * S);
            if (k < K && row0 + mine < F) {
                a.at[i] = w[(row0 + mine) * K + k];
            }
            if (k < K && place < N && 0 <= h && h < H && 0 <= v && v < W) {
                b.at[i] = x[((n * C + c) * H + h) * W + v];
            }
        }
        *reinterpret_cast<Sixteen*>(&tileW[mine * PITCH + first]) = a;
        *reinterpret_cast<Sixteen*>(&tileX[mine * PITCH + first]) = b;
        __syncthreads();
        for (int k = 0; k < TSK; k += 16) {
            wmma::fragment<wmma::matrix_a, EDGE, EDGE, 16, signed char, wmma::row_major> filters[PARTS];
            wmma::fragment<wmma::matrix_b, EDGE, EDGE, 16, signed char, wmma::col_major> windows[PARTS];
            for (int i = 0; i < PARTS; ++i) {
                wmma::load_matrix_sync(filters[i], &tileW[(warp_row + i * EDGE) * PITCH + k], PITCH);
                wmma::load_matrix_sync(windows[i], &tileX[(warp_col + i * EDGE) * PITCH + k], PITCH);
            }
            for (int i = 0; i < PARTS; ++i) {
                for (int j = 0; j < PARTS; ++j) {
                    wmma::mma_sync(sum[i][j], filters[i], windows[j], sum[i][j]);
                }
            }
        }
        __syncthreads();
    }

    for (int i = 0; i < PARTS; ++i) {
        for (int j = 0; j < PARTS; ++j) {
            int* to = &tileY[(warp_row + i * EDGE) * PITCH_Y + warp_col + j * EDGE];
            wmma::store_matrix_sync(to, sum[i][j], PITCH_Y, wmma::mem_row_major);
        }
    }
    __syncthreads();
    if (place < N) {
        for (int f = thread / TSN; f < TSM && row0 + f < F; f += THREADS / TSN) {
            y[(n * F + row0 + f) * OH * OW + place % (OH * OW)] = tileY[f * PITCH_Y + mine];
        }
    }
}
