// 01_filter_transform.cu: U = G g G^T for every 3 x 3 filter g.
// Idea:    F(4,3) computes 4 neighbouring results of a filter of 3 weights with 6 multiplications instead of 12, and
//          in two dimensions 4 x 4 results with 6 x 6 = 36 instead of 144. For that each filter becomes a tile of
//          6 x 6 numbers, once. The same numbers of all filters stand together, U[position][c][f]: position by
//          position the convolution will be a matrix product.
//          A thread's nine weights lie apart from its neighbour's, so whole rows of w go through shared memory.
// Limits:  36 numbers are written for nine that are read: it pays where a filter serves many tiles of an image.
// Entry:   filter_transform(const float w[F,C,3,3] in, float U[SIDE*SIDE,C,F] out, int F, int C)
// Launch:  filter_transform block=(TSF, TSC) grid=(cdiv(F, TSF), cdiv(C, TSC))

constexpr int TILE = 4;         // results of a tile along each axis: 4, or 2 for F(2x2,3x3)
constexpr int SIDE = TILE + 2;  // numbers of a transformed tile along each axis
constexpr int TSF = 32;         // filters of a block: the lanes of a warp, neighbours in U
constexpr int TSC = 8;          // channels of a block: one for each warp
constexpr int ROW = TSC * 9;    // weights of one filter that a block needs: neighbours in w

static_assert(TSF == 32, "a warp writes one position and channel of 32 filters: whole sectors");
static_assert(ROW % 8 == 0, "a row begins and ends with a sector of 32 bytes");

// u = G g for one filter of three weights: F(2,3), four multiplications for two results.
__device__ void transform_filter(float (&u)[4], float g0, float g1, float g2)
{
    const float outer = 0.5f * (g0 + g2);
    u[0] = g0;
    u[1] = outer + 0.5f * g1;
    u[2] = outer - 0.5f * g1;
    u[3] = g2;
}

// The same for F(4,3): the filter's polynomial at 0, 1, -1, 2, -2 and infinity, divided by the rows' factors.
__device__ void transform_filter(float (&u)[6], float g0, float g1, float g2)
{
    // BEGIN SOLUTION: u[0] to u[5], rows 0 to 5 of G times (g0, g1, g2), in 8 operations (about 8 lines)
    // END SOLUTION
}

extern "C" __global__ void __launch_bounds__(TSF * TSC)
filter_transform(const float* __restrict__ w, float* __restrict__ U, int F, int C)
{
    // A lane reads its weights ROW + 1 floats from its neighbour's: an odd number, so in another bank.
    __shared__ float rows[TSF][ROW + 1];
    const int lane = threadIdx.x;
    const int warp = threadIdx.y;
    const int f0 = blockIdx.x * TSF;
    const int c0 = blockIdx.y * TSC;
    const int f = f0 + lane;
    const int c = c0 + warp;
    const int valid = min(TSC, C - c0) * 9;

    for (int row = warp; row < TSF && f0 + row < F; row += TSC) {
        for (int i = lane; i < valid; i += TSF) {
            rows[row][i] = w[(static_cast<size_t>(f0 + row) * C + c0) * 9 + i];
        }
    }
    __syncthreads();
    if (f < F && c < C) {
        const float* g = &rows[lane][warp * 9];
        float middle[3][SIDE];  // G g: each column of the filter becomes SIDE numbers
        #pragma unroll
        for (int s = 0; s < 3; ++s) {
            transform_filter(middle[s], g[s], g[3 + s], g[6 + s]);
        }
        float* to = U + static_cast<size_t>(c) * F + f;
        const size_t position = static_cast<size_t>(C) * F;  // floats from one position to the next
        // BEGIN SOLUTION: then each row of G g; write number (i, j) to position i * SIDE + j (about 9 lines)
        // END SOLUTION
    }
}
