// 01_winograd_backward_data.cu: the gradient of a layer's input by Winograd's method, from the saved U.
// Idea:    forward, a tile of pixels goes through linear maps only: V = B^T d B, M = U^T V for each position, and
//          Y = A^T M A. So its gradient goes back through their transposes: dM = A dY A^T, dV = U dM for each position,
//          and B dV B^T is what a tile adds to its pixels. U stays as it was saved. The product is the forward one with
//          filters for channels: the same 36 multiply-adds where the direct method takes 144.
//          ReLU and pooling are undone while dY is loaded: for each result that was kept, a byte says which of its
//          window it was, 1 to POOL * POOL, or 0 where ReLU let nothing pass.
//          Tiles overlap by two pixels. Instead of adding tiles up with atomics, a thread computes the 4 x 4 pixels in
//          the middle of its tile and adds what the tiles around it give: in one dimension the transform's first and
//          last numbers are 4 v[0] and v[5], so a neighbour's share costs one row or column of its dV.
// From:    lab09_winograd/05_fused_epilogue.cu
// Limits:  F(4x4,3x3) and one pixel of padding only, as all layers of VGG16.
// Entry:   result_gradient(const float dy[BATCH,F,H / POOL,W / POOL] in,
//                          const unsigned char choice[BATCH,F,H / POOL,W / POOL] in,
//                          float dM[SIDE*SIDE,F,BATCH*TY*TX] out, int BATCH, int F, int H, int W)
// Entry:   product_gradient(const float U[SIDE*SIDE,C,F] in, const float dM[SIDE*SIDE,F,BATCH*TY*TX] in,
//                           float dV[SIDE*SIDE,C,BATCH*TY*TX] out, int BATCH, int C, int F, int H, int W)
// Entry:   image_gradient(const float dV[SIDE*SIDE,C,BATCH*TY*TX] in, float dx[BATCH,C,H,W] out,
//                         int BATCH, int C, int H, int W)
// Sizes:   TY = cdiv(H, TILE), TX = cdiv(W, TILE)
// Needs:   C <= 65535, F <= 65535, H >= POOL, W >= POOL
// Launch:  result_gradient block=(THREADS) grid=(cdiv(BATCH*TY*TX, THREADS), F)
// Launch:  product_gradient block=(LANES) grid=(cdiv(BATCH*TY*TX, TSP), cdiv(C, TSC), SIDE*SIDE)
// Launch:  image_gradient block=(THREADS) grid=(cdiv(BATCH*TY*TX, THREADS), C)

constexpr int TILE = 4;           // results of a tile along each axis
constexpr int SIDE = TILE + 2;    // pixels of a tile along each axis, and its numbers after a transform
constexpr int POOL = 1;           // results of a window along each axis: 2 after 2 x 2 max pooling, 1 without
constexpr int THREADS = 128;      // of the transforms: one for each tile
constexpr int TSC = 64;           // a block of the product computes TSC x TSP elements of dV at one position
constexpr int TSP = 128;
constexpr int TSF = 8;            // filters in one tile
constexpr int WSC = 32;           // a warp computes WSC x WSP of them
constexpr int WSP = 64;
constexpr int WPTC = 8;           // work per thread: WPTC x WPTP elements
constexpr int WPTP = 8;
constexpr int BLOCKS = 4;         // blocks that share a multiprocessor, at least
constexpr int RTSC = WSC / WPTC;  // reduced tile sizes: lanes along the rows and columns of a warp
constexpr int RTSP = WSP / WPTP;
constexpr int LANES = (TSC / WSC) * (TSP / WSP) * 32;
constexpr int PAD = 4;            // moves the two groups of floats that a warp stores in tileU 16 banks apart
constexpr int LOADS_U = TSC * TSF / 4 / LANES;  // float4s of a tile that one thread loads
constexpr int LOADS_M = TSP * TSF / 4 / LANES;
constexpr int LOAD_AT = 1;        // the next tile sets out before this filter, early,
constexpr int STORE_AT = TSF - 3;  // and goes to shared memory before this one, late: as in lab 05

static_assert(TILE == 4, "the matrices are those of F(4,3)");
static_assert(TILE % POOL == 0, "a tile holds whole windows");
static_assert(TSC % WSC == 0 && TSP % WSP == 0, "the warps' tiles cover the block's exactly");
static_assert(RTSC * RTSP == 32 && RTSC % 2 == 0 && RTSP % 2 == 0, "a warp has 32 lanes, in patches of 2 x 2");
static_assert(RTSC * WPTC == WSC && RTSP * WPTP == WSP, "the lanes' elements cover the warp's tile exactly");
static_assert(WPTC % 4 == 0 && WPTP % 4 == 0, "a thread's elements come in groups of four");
static_assert(TSF % 8 == 0, "two lanes load 32 neighbouring bytes of a row of U: a whole sector");
static_assert(LOADS_U * LANES * 4 == TSC * TSF, "all threads load equally much of tileU");
static_assert(LOADS_M * LANES * 4 == TSP * TSF, "all threads load equally much of tileM");
static_assert(0 <= LOAD_AT && LOAD_AT <= STORE_AT && STORE_AT < TSF, "a tile is loaded, stored, then multiplied");

// ---------------------------------------------------------------- dM = A dY A^T

// m = A y: the transpose of y = A^T m, four numbers to six.
__device__ void transform_result(float (&m)[SIDE], const float (&y)[TILE])
{
    // BEGIN SOLUTION: m[0] to m[5], columns 0 to 5 of A^T times y, in at most 8 operations (about 8 lines)
    // END SOLUTION
}

// COUNT neighbouring results and their choices; what lies beyond the row's end is zero.
template <int COUNT>
__device__ void load_row(float (&dy)[COUNT], int (&chosen)[COUNT], const float* row, const unsigned char* choices,
                         int col, int width)
{
    if (COUNT == 4 && width % 4 == 0) {
        const float4 quad = *reinterpret_cast<const float4*>(row + col);
        const uchar4 bytes = *reinterpret_cast<const uchar4*>(choices + col);
        dy[0] = quad.x, dy[1 % COUNT] = quad.y, dy[2 % COUNT] = quad.z, dy[3 % COUNT] = quad.w;
        chosen[0] = bytes.x, chosen[1 % COUNT] = bytes.y, chosen[2 % COUNT] = bytes.z, chosen[3 % COUNT] = bytes.w;
    } else if (COUNT == 2 && width % 2 == 0) {
        const float2 pair = *reinterpret_cast<const float2*>(row + col);
        const uchar2 bytes = *reinterpret_cast<const uchar2*>(choices + col);
        dy[0] = pair.x, dy[1 % COUNT] = pair.y;
        chosen[0] = bytes.x, chosen[1 % COUNT] = bytes.y;
    } else {
        #pragma unroll
        for (int j = 0; j < COUNT; ++j) {
            dy[j] = col + j < width ? row[col + j] : 0.0f;
            chosen[j] = col + j < width ? choices[col + j] : 0;
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
result_gradient(const float* __restrict__ dy, const unsigned char* __restrict__ choice, float* __restrict__ dM,
                int BATCH, int F, int H, int W)
{
    constexpr int COUNT = TILE / POOL;  // windows of a tile along each axis
    const int TY = (H + TILE - 1) / TILE;
    const int TX = (W + TILE - 1) / TILE;
    const int P = BATCH * TY * TX;      // tiles of all images
    const int p = blockIdx.x * THREADS + threadIdx.x;
    const int f = blockIdx.y;
    if (p >= P) return;

    const int PH = H / POOL;            // what is left over at an edge belongs to no window
    const int PW = W / POOL;
    const int row0 = p / TX % TY * COUNT;
    const int col0 = p % TX * COUNT;
    const size_t plane = (static_cast<size_t>(p / (TY * TX)) * F + f) * PH * PW;
    float results[TILE][TILE] = {};     // gradients before ReLU and pooling
    #pragma unroll
    for (int i = 0; i < COUNT; ++i) {
        float row[COUNT] = {};
        int chosen[COUNT] = {};
        if (row0 + i < PH && col0 < PW) {
            const size_t first = plane + (row0 + i) * PW;
            load_row(row, chosen, dy + first, choice + first, col0, PW);
        }
        // BEGIN SOLUTION: row[j] goes to the chosen result of window (i, j), zero to all others (about 7 lines)
        // END SOLUTION
    }
    float middle[SIDE][TILE];           // A dY: along the columns
    #pragma unroll
    for (int j = 0; j < TILE; ++j) {
        float column[TILE];
        float numbers[SIDE];
        #pragma unroll
        for (int i = 0; i < TILE; ++i) column[i] = results[i][j];
        transform_result(numbers, column);
        #pragma unroll
        for (int i = 0; i < SIDE; ++i) middle[i][j] = numbers[i];
    }
    float* to = dM + static_cast<size_t>(f) * P + p;
    const size_t position = static_cast<size_t>(F) * P;  // floats from one position to the next
    #pragma unroll
    for (int i = 0; i < SIDE; ++i) {
        float numbers[SIDE];
        transform_result(numbers, middle[i]);
        #pragma unroll
        for (int j = 0; j < SIDE; ++j) to[(i * SIDE + j) * position] = numbers[j];
    }
}

// ---------------------------------------------------------------- dV = U dM, position by position

// The four elements from (row, col) on; those outside the matrix are zero.
__device__ float4 load_quad(const float* matrix, int rows, int cols, int row, int col)
{
    float4 quad = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    if (row < rows && col < cols) {
        const float* from = matrix + row * cols + col;
        if (cols % 4 == 0) {
            quad = *reinterpret_cast<const float4*>(from);
        } else {
            quad.x = from[0];
            if (col + 1 < cols) quad.y = from[1];
            if (col + 2 < cols) quad.z = from[2];
            if (col + 3 < cols) quad.w = from[3];
        }
    }
    return quad;
}

// Writes the four elements from (row, col) on, except those outside the matrix.
__device__ void store_quad(float* matrix, int rows, int cols, int row, int col, float4 quad)
{
    if (row < rows && col < cols) {
        float* to = matrix + row * cols + col;
        if (cols % 4 == 0) {
            *reinterpret_cast<float4*>(to) = quad;
        } else {
            to[0] = quad.x;
            if (col + 1 < cols) to[1] = quad.y;
            if (col + 2 < cols) to[2] = quad.z;
            if (col + 3 < cols) to[3] = quad.w;
        }
    }
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

// Which float4 of a tile of dM is a thread's i-th? Row by row, TSP / 4 to a row.
__device__ int filter_of(int thread, int i) { return (thread + i * LANES) / (TSP / 4); }
__device__ int tile_of(int thread, int i) { return (thread + i * LANES) % (TSP / 4) * 4; }

// The same for U, whose rows run along the filters: two lanes to a row.
__device__ int channel_of(int thread, int i) { return (thread + i * LANES) / 2 % TSC; }
__device__ int quad_of(int thread, int i) { return ((thread + i * LANES) / 2 / TSC * 2 + thread % 2) * 4; }

extern "C" __global__ void __launch_bounds__(LANES, BLOCKS)
product_gradient(const float* __restrict__ U, const float* __restrict__ dM, float* __restrict__ dV,
                 int BATCH, int C, int F, int H, int W)
{
    const int P = BATCH * ((H + TILE - 1) / TILE) * ((W + TILE - 1) / TILE);
    U += static_cast<size_t>(blockIdx.z) * C * F;
    dM += static_cast<size_t>(blockIdx.z) * F * P;
    dV += static_cast<size_t>(blockIdx.z) * C * P;
    // A warp turns float4s of 16 rows of U, four filters apart: two groups of 16 neighbours, 4 rows of tileU apart.
    // Rows of TSC + 4 floats put the second group 16 banks further on, and leave every float4 aligned.
    __shared__ __align__(16) float tileU[2][TSF][TSC + PAD];
    __shared__ __align__(16) float tileM[2][TSF][TSP];
    const int thread = threadIdx.x;
    const int warp = thread / 32;
    const int lane = thread % 32;
    const int x = warp % (TSP / WSP) * WSP + (lane / 4 % (RTSP / 2) * 2 + lane % 2) * 4;
    const int y = warp / (TSP / WSP) * WSC + (lane / 4 / (RTSP / 2) * 2 + lane / 2 % 2) * 4;
    const int c0 = blockIdx.y * TSC;
    const int p0 = blockIdx.x * TSP;
    float4 nextU[LOADS_U];  // the tile in flight
    float4 nextM[LOADS_M];
    float u[2][WPTC];       // elements for two filters: one being multiplied, one in flight
    float m[2][WPTP];
    float sum[WPTC][WPTP] = {};

    // Tiles that lie inside the matrices, all float4s aligned, are read through pointers that move along the filters.
    const bool whole = F % 4 == 0 && P % 4 == 0 && c0 + TSC <= C && p0 + TSP <= P;
    const float* fromU = U + (c0 + channel_of(thread, 0)) * F + quad_of(thread, 0);
    const float* fromM = dM + filter_of(thread, 0) * P + p0 + tile_of(thread, 0);

    const auto load = [&](int f0) {  // from global memory to registers: starts the loads, waits for none
        if (whole && f0 + TSF <= F) {
            #pragma unroll
            for (int i = 0; i < LOADS_U; ++i) {
                const int rows = channel_of(thread, i) - channel_of(thread, 0);
                nextU[i] = *reinterpret_cast<const float4*>(fromU + rows * F + quad_of(thread, i) - quad_of(thread, 0));
            }
            #pragma unroll
            for (int i = 0; i < LOADS_M; ++i) {
                nextM[i] = *reinterpret_cast<const float4*>(fromM + i * (LANES / (TSP / 4)) * P);
            }
            fromU += TSF;
            fromM += TSF * P;
        } else {
            #pragma unroll
            for (int i = 0; i < LOADS_U; ++i) {
                nextU[i] = load_quad(U, C, F, c0 + channel_of(thread, i), f0 + quad_of(thread, i));
            }
            #pragma unroll
            for (int i = 0; i < LOADS_M; ++i) {
                nextM[i] = load_quad(dM, F, P, f0 + filter_of(thread, i), p0 + tile_of(thread, i));
            }
        }
    };
    const auto store = [&](int buffer) {  // from registers to shared memory
        // BEGIN SOLUTION: nextM[i] as it is, nextU[i] turned: its four floats belong to four filters (about 12 lines)
        // END SOLUTION
    };
    const auto fetch = [&](int buffer, int f) {  // from shared memory to registers
        #pragma unroll
        for (int i = 0; i < WPTC; i += 4) {
            get_quad(&u[f % 2][i], &tileU[buffer][f][y + i * RTSC]);
        }
        #pragma unroll
        for (int j = 0; j < WPTP; j += 4) {
            get_quad(&m[f % 2][j], &tileM[buffer][f][x + j * RTSP]);
        }
    };

    load(0);
    store(0);
    __syncthreads();
    fetch(0, 0);
    for (int f0 = 0; f0 < F; f0 += 2 * TSF) {
        #pragma unroll
        for (int buffer = 0; buffer < 2; ++buffer) {  // two tiles a turn, so that `buffer` is a constant
            #pragma unroll
            for (int f = 0; f < TSF; ++f) {
                if (f == LOAD_AT && (buffer == 0 || f0 + 2 * TSF < F)) {
                    load(f0 + (buffer + 1) * TSF);  // past the last filter zeros; nothing for a turn that never comes
                }
                if (f == STORE_AT) {
                    store(1 - buffer);
                }
                if (f + 1 < TSF) {
                    fetch(buffer, f + 1);
                } else {
                    __syncthreads();  // the next tile is complete, and nobody reads this one any more
                    fetch(1 - buffer, 0);
                }
                #pragma unroll
                for (int i = 0; i < WPTC; ++i) {
                    #pragma unroll
                    for (int turn = 0; turn < WPTP; ++turn) {
                        const int j = i % 2 == 0 ? turn : WPTP - 1 - turn;  // to and fro, as in lab 05
                        sum[i][j] += u[f % 2][i] * m[f % 2][j];
                    }
                }
            }
        }
    }

    for (int i = 0; i < WPTC; ++i) {
        for (int j = 0; j < WPTP; j += 4) {
            const float4 quad = make_float4(sum[i][j], sum[i][j + 1], sum[i][j + 2], sum[i][j + 3]);
            store_quad(dV, C, P, c0 + y + i / 4 * 4 * RTSC + i % 4, p0 + x + j * RTSP, quad);
        }
    }
}

// ---------------------------------------------------------------- dx: the sum of all tiles B dV B^T

// The four pixels in the middle of d = B v, which the tile before adds `before` to and the tile after `after`: the
// last number of its d to the first pixel, and the first number to the last pixel.
__device__ void transform_middle(float (&d)[TILE], const float (&v)[SIDE], float before, float after)
{
    // BEGIN SOLUTION: columns 1 to 4 of B^T times v, and before and 4 * after, in at most 14 operations (about 8 lines)
    // END SOLUTION
}

extern "C" __global__ void __launch_bounds__(THREADS)
image_gradient(const float* __restrict__ dV, float* __restrict__ dx, int BATCH, int C, int H, int W)
{
    const int TY = (H + TILE - 1) / TILE;
    const int TX = (W + TILE - 1) / TILE;
    const int P = BATCH * TY * TX;
    const int p = blockIdx.x * THREADS + threadIdx.x;
    const int c = blockIdx.y;
    if (p >= P) return;

    const int ty = p / TX % TY;
    const int tx = p % TX;
    const float* from = dV + static_cast<size_t>(c) * P + p;
    const size_t position = static_cast<size_t>(C) * P;  // floats from one position to the next
    // The number (i, j) of the tile that lies `down` rows of tiles below and `right` tiles beside this one, or zero.
    const auto number = [&](int down, int right, int i, int j) {
        const bool exists = ty + down >= 0 && ty + down < TY && tx + right >= 0 && tx + right < TX;
        return exists ? from[(i * SIDE + j) * position + down * TX + right] : 0.0f;
    };
    // Along the columns: four rows of the middle, for this tile's six columns and one of each neighbour's.
    float middle[TILE][SIDE + 2];  // column 0 is the left neighbour's last, column SIDE + 1 the right one's first
    #pragma unroll
    for (int k = 0; k < SIDE + 2; ++k) {
        const int right = k == 0 ? -1 : k == SIDE + 1;
        const int j = k == 0 ? SIDE - 1 : k == SIDE + 1 ? 0 : k - 1;
        float column[SIDE];
        float pixels[TILE];
        // BEGIN SOLUTION: the column's six numbers; then with those of the tiles above and below (about 7 lines)
        // END SOLUTION
    }
    const int col0 = tx * TILE;
    float* to = dx + ((static_cast<size_t>(p / (TY * TX)) * C + c) * H + ty * TILE) * W + col0;
    #pragma unroll
    for (int i = 0; i < TILE; ++i) {
        float own[SIDE];
        float pixels[TILE];
        #pragma unroll
        for (int j = 0; j < SIDE; ++j) own[j] = middle[i][j + 1];
        transform_middle(pixels, own, middle[i][0], middle[i][SIDE + 1]);
        if (ty * TILE + i < H) {
            if (W % 4 == 0) {
                const float4 quad = make_float4(pixels[0], pixels[1], pixels[2], pixels[3]);
                *reinterpret_cast<float4*>(to + i * W) = quad;
            } else if (W % 2 == 0) {
                *reinterpret_cast<float2*>(to + i * W) = make_float2(pixels[0], pixels[1]);
                if (col0 + 2 < W) *reinterpret_cast<float2*>(to + i * W + 2) = make_float2(pixels[2], pixels[3]);
            } else {
                #pragma unroll
                for (int j = 0; j < TILE; ++j) {
                    if (col0 + j < W) to[i * W + j] = pixels[j];
                }
            }
        }
    }
}
