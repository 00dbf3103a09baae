// 07_fused_f2.cu: all of F(2x2,3x3) in one kernel.
// Idea:    U, V and M need not exist in memory. A block computes TILES_Y x TILES_X tiles of TSF filters: for a few
//          channels at a time it transforms pixels and filters into shared memory and multiplies there, all 16
//          positions at once, with the sums in registers. At the end the positions of a tile, which lie in eight
//          warps, meet in shared memory once more and leave it as results. F(4x4) has 36 positions: more than twice
//          the registers and shared memory for a block of the same tiles and filters.
// From:    05_fused_epilogue.cu
// Limits:  2.25 times fewer products than direct convolution, not four times; each block transforms the filters anew.
// Entry:   fused_f2(const float x[BATCH,C,H,W] in, const float w[F,C,3,3] in,
//                   float y[BATCH,F,H+2*PAD-2,W+2*PAD-2] out, int BATCH, int C, int H, int W, int F, int PAD)
// Sizes:   OH = H + 2*PAD - 2, OW = W + 2*PAD - 2
// Needs:   H + 2*PAD >= 3, W + 2*PAD >= 3, BATCH <= 65535
// Launch:  fused_f2 block=(THREADS) grid=(cdiv(OW, 2*TILES_X) * cdiv(OH, 2*TILES_Y), cdiv(F, TSF), BATCH)

constexpr int TILES_Y = 4;   // tiles of 2 x 2 results that a block computes, down
constexpr int TILES_X = 8;   // and across
constexpr int TILES = TILES_Y * TILES_X;
constexpr int TSF = 64;      // filters of a block
constexpr int TSC = 4;       // channels in shared memory at a time
constexpr int THREADS = 256;
constexpr int POSITIONS = 16;
constexpr int OWN = 2;       // positions of a warp
constexpr int WPT = 8;       // a thread has WPT x WPT sums of each of them
constexpr int ROWS = 2 * TILES_Y + 2;  // pixels that the tiles need
constexpr int COLS = 2 * TILES_X + 2;
constexpr int PITCH = 24;    // floats of a row of pixels: two rows further is 16 banks further
constexpr int ROUND = 8;     // filters whose sums meet in shared memory at a time: one for each warp
constexpr int SPREAD = TILES + 16;     // floats from one of them to the next: 16 banks further

static_assert(TILES == 32 && TILES_X == 8, "one lane for each tile; half a warp reads two rows of pixels");
static_assert(THREADS / 32 * OWN == POSITIONS, "the warps share the positions");
static_assert(COLS <= 32, "a warp loads a row of pixels");
static_assert(THREADS == TSF * TSC, "one thread transforms one channel of one filter");
static_assert(PITCH >= COLS && PITCH % 16 == 8, "a float2 of each of 16 lanes: all banks, once");
static_assert(POSITIONS * ROUND * SPREAD <= POSITIONS * TSC * (TSF + TILES), "the sums fit where U and V were");

// u = G g for three weights.
__device__ void transform_filter(float (&u)[4], float g0, float g1, float g2)
{
    const float outer = 0.5f * (g0 + g2);
    u[0] = g0;
    u[1] = outer + 0.5f * g1;
    u[2] = outer - 0.5f * g1;
    u[3] = g2;
}

// d = B^T d for four pixels.
__device__ void transform_input(float (&d)[4])
{
    const float first = d[0] - d[2];
    const float last = d[1] - d[3];
    const float plus = d[1] + d[2];
    d[2] = d[2] - d[1];
    d[0] = first;
    d[1] = plus;
    d[3] = last;
}

// Reads four neighbouring floats of shared memory by one instruction.
__device__ void get_quad(float* to, const float* from)
{
    const float4 quad = *reinterpret_cast<const float4*>(from);
    to[0] = quad.x;
    to[1] = quad.y;
    to[2] = quad.z;
    to[3] = quad.w;
}

extern "C" __global__ void __launch_bounds__(THREADS)
fused_f2(const float* __restrict__ x, const float* __restrict__ w, float* __restrict__ y,
         int BATCH, int C, int H, int W, int F, int PAD)
{
    __shared__ __align__(16) float memory[POSITIONS * TSC * (TSF + TILES)];
    __shared__ __align__(16) float pixels[TSC][ROWS][PITCH];
    __shared__ float weights[TSF][TSC * 9 + 1];           // an odd number: lanes read different banks
    float* const tileU = memory;                          // [position][channel][filter]
    float* const tileV = memory + POSITIONS * TSC * TSF;  // [position][channel][tile]
    const int OH = H + 2 * PAD - 2;
    const int OW = W + 2 * PAD - 2;
    const int across = (OW + 2 * TILES_X - 1) / (2 * TILES_X);  // blocks in a row of the image
    const int row0 = blockIdx.x / across * 2 * TILES_Y;         // the block's first result
    const int col0 = blockIdx.x % across * 2 * TILES_X;
    const int f0 = blockIdx.y * TSF;
    const int thread = threadIdx.x;
    const int warp = thread / 32;
    const int lane = thread % 32;
    const int fy = lane / 4 * 4;  // the thread's first filter and tile; four more of each are half a tile away
    const int px = lane % 4 * 4;
    const float* image = x + static_cast<size_t>(blockIdx.z) * C * H * W;
    float sum[OWN][WPT][WPT] = {};

    for (int c0 = 0; c0 < C; c0 += TSC) {
        // Pixels of TSC channels, zero outside the image, and beyond the last channel.
        for (int i = warp; i < TSC * ROWS; i += THREADS / 32) {  // a row for each warp, a pixel for each lane
            const int c = i / ROWS;
            const int row = row0 - PAD + i % ROWS;
            const int col = col0 - PAD + lane;
            const bool inside = c0 + c < C && row >= 0 && row < H && col >= 0 && col < W;
            const float* from = image + (static_cast<size_t>(c0 + c) * H + row) * W + col;
            if (lane < COLS) pixels[c][i % ROWS][lane] = inside ? *from : 0.0f;
        }
        // The weights of these channels, neighbours in w: a row for each filter, a weight for each lane.
        for (int f = warp; f < TSF; f += THREADS / 32) {
            for (int i = lane; i < TSC * 9; i += 32) {
                const bool exists = f0 + f < F && c0 + i / 9 < C;
                weights[f][i] = exists ? w[(static_cast<size_t>(f0 + f) * C + c0) * 9 + i] : 0.0f;
            }
        }
        __syncthreads();
        {
            const int f = thread % TSF;
            const int c = thread / TSF;
            const float* g = &weights[f][c * 9];
            // BEGIN SOLUTION: U = G g G^T; number i of it to tileU[(i * TSC + c) * TSF + f] (about 11 lines)
            // END SOLUTION
        }
        if (warp < TSC) {  // one channel for each warp, one tile for each lane
            float d[4][4];
            #pragma unroll
            for (int i = 0; i < 4; ++i) {
                const float* from = &pixels[warp][lane / TILES_X * 2 + i][lane % TILES_X * 2];
                const float2 left = *reinterpret_cast<const float2*>(from);
                const float2 right = *reinterpret_cast<const float2*>(from + 2);
                d[i][0] = left.x;
                d[i][1] = left.y;
                d[i][2] = right.x;
                d[i][3] = right.y;
            }
            // BEGIN SOLUTION: V = B^T d B; number i of it to tileV[(i * TSC + warp) * TILES + lane] (about 14 lines)
            // END SOLUTION
        }
        __syncthreads();
        #pragma unroll
        for (int c = 0; c < TSC; ++c) {
            #pragma unroll
            for (int own = 0; own < OWN; ++own) {
                // BEGIN SOLUTION: products of 8 numbers of U and of V, position warp * OWN + own (about 14 lines)
                // END SOLUTION
            }
        }
        __syncthreads();  // U, V, pixels and weights are free again
    }

    // Sums of ROUND filters at a time, [position][filter][tile]: warp k takes the filter of lanes 4 k to 4 k + 3.
    #pragma unroll
    for (int i = 0; i < WPT; ++i) {
        #pragma unroll
        for (int own = 0; own < OWN; ++own) {
            #pragma unroll
            for (int j = 0; j < WPT; j += 4) {
                const int row = (warp * OWN + own) * ROUND + lane / 4;
                reinterpret_cast<float4*>(memory)[row * (SPREAD / 4) + j / 4 * (TILES / 8) + lane % 4] =
                    make_float4(sum[own][i][j], sum[own][i][j + 1], sum[own][i][j + 2], sum[own][i][j + 3]);
            }
        }
        __syncthreads();
        const int f = f0 + i / 4 * (TSF / 2) + warp * 4 + i % 4;
        const int row = row0 + lane / TILES_X * 2;
        const int col = col0 + lane % TILES_X * 2;
        const float* from = memory + warp * SPREAD + lane;
        const int position = ROUND * SPREAD;
        float middle[2][4];  // A^T M
        #pragma unroll
        for (int j = 0; j < 4; ++j) {
            const float m1 = from[(4 + j) * position];
            const float m2 = from[(8 + j) * position];
            middle[0][j] = from[j * position] + m1 + m2;
            middle[1][j] = m1 - m2 - from[(12 + j) * position];
        }
        #pragma unroll
        for (int k = 0; k < 2; ++k) {
            const float first = middle[k][0] + middle[k][1] + middle[k][2];
            const float second = middle[k][1] - middle[k][2] - middle[k][3];
            if (f < F && row + k < OH) {
                float* to = y + ((static_cast<size_t>(blockIdx.z) * F + f) * OH + row + k) * OW + col;
                if (col < OW) to[0] = first;
                if (col + 1 < OW) to[1] = second;
            }
        }
        __syncthreads();  // the next filters' sums take this place
    }
}
