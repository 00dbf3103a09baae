// 09_int8_wmma.cu: an implicit product of matrices on tensor cores, for 8-bit images and filters.
// Idea:    quantised to 8 bits, images and filters are a quarter of the memory, and tensor cores multiply them exactly:
//          a warp's 16 x 16 x 16 products take one instruction and add up in 32 bits. A thread gathers 16 elements of
//          one window, neighbours down a column of cols, and stores them as 16 bytes; so the tile is cols transposed,
//          which a fragment of B calls column-major.
// From:    07_implicit_gemm.cu
// Limits:  images are gathered byte by byte; no tile is in flight while one is multiplied.
// Entry:   conv(const signed char x[BATCH,C,H,W] in, const signed char w[F,C,R,S] in, int y[BATCH,F,OH,OW] out,
//               int BATCH, int C, int H, int W, int F, int R, int S, int STRIDE, int PAD)
// Sizes:   OH = (H + 2 * PAD - R) / STRIDE + 1, OW = (W + 2 * PAD - S) / STRIDE + 1
// Needs:   H + 2 * PAD >= R, W + 2 * PAD >= S
// Launch:  conv block=(THREADS) grid=(cdiv(BATCH * OH * OW, TSN), cdiv(F, TSM))

#include <mma.h>

constexpr int TSM = 64;       // a block computes TSM filters at TSN places
constexpr int TSN = 64;
constexpr int TSK = 32;       // steps of k in one tile
constexpr int WS = 32;        // a warp computes WS x WS of them,
constexpr int EDGE = 16;      // in fragments of EDGE x EDGE
constexpr int PARTS = WS / EDGE;
constexpr int THREADS = (TSM / WS) * (TSN / WS) * 32;
constexpr int PITCH = TSK + 16;  // bytes: rows stay aligned to 16, and eight of them lie in different banks
constexpr int PITCH_Y = TSN + 8;  // rows of results, stored by pairs, lie in different banks

static_assert(TSM == TSN && THREADS == 2 * TSN, "two threads load a row of each tile, 16 bytes each");
static_assert(TSK == 32, "that is what two threads load");

using namespace nvcuda;

// Sixteen bytes that are stored at once.
struct __align__(16) Sixteen {
    signed char at[16];
};

extern "C" __global__ void __launch_bounds__(THREADS)
conv(const signed char* __restrict__ x, const signed char* __restrict__ w, int* __restrict__ y,
     int BATCH, int C, int H, int W, int F, int R, int S, int STRIDE, int PAD)
{
    __shared__ __align__(32) signed char tileW[TSM * PITCH];  // [filter][k]
    __shared__ __align__(32) signed char tileX[TSN * PITCH];  // [place][k]
    __shared__ __align__(32) int tileY[TSM * PITCH_Y];        // [filter][place]
    const int OH = (H + 2 * PAD - R) / STRIDE + 1;
    const int OW = (W + 2 * PAD - S) / STRIDE + 1;
    const int N = BATCH * OH * OW;
    const int K = C * R * S;
    const int thread = threadIdx.x;
    const int warp_row = thread / 32 / (TSN / WS) * WS;  // the warp's part of the block's tile
    const int warp_col = thread / 32 % (TSN / WS) * WS;
    const int row0 = blockIdx.y * TSM;
    const int col0 = blockIdx.x * TSN;
    const int mine = thread % TSN;         // the row of each tile that the thread loads,
    const int first = thread / TSN * 16;   // from this k on
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
        // BEGIN SOLUTION: 16 elements of a filter and of a window from k0 + first on; those outside stay 0 (about 14 lines)
        #pragma unroll
        for (int i = 0; i < 16; ++i) {
            const int k = k0 + first + i;
            const int c = k / (R * S);
            const int h = top + k / S % R;
            const int v = left + k % S;
            if (k < K && row0 + mine < F) {
                a.at[i] = w[(row0 + mine) * K + k];
            }
            if (k < K && place < N && 0 <= h && h < H && 0 <= v && v < W) {
                b.at[i] = x[((n * C + c) * H + h) * W + v];
            }
        }
        // END SOLUTION
        *reinterpret_cast<Sixteen*>(&tileW[mine * PITCH + first]) = a;
        *reinterpret_cast<Sixteen*>(&tileX[mine * PITCH + first]) = b;
        __syncthreads();  // the tiles are complete
        // BEGIN SOLUTION: for each 16 steps of k, fragments of both tiles and PARTS x PARTS products (about 13 lines)
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
        // END SOLUTION
        __syncthreads();  // nobody reads them any more
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
