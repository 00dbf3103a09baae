// 02_wide_loads.cu: C = A * B with float4: four neighbouring columns per thread.
// Idea:    one instruction can move 16 bytes per lane. A thread's column becomes four columns, so that it loads
//          and stores B and C as float4, and reads four steps of k of tileA at once: 12 shared loads for 128 FMAs.
// From:    01_coarsened.cu
// Limits:  wide accesses need 16-byte alignment: where a row is no multiple of four floats, load_quad and
//          store_quad fall back on single floats. The tile is WPT rows by only 4 columns per thread.
// Entry:   matmul(const float A[M,K] in, const float B[K,N] in, float C[M,N] out, int M, int N, int K)
// Launch:  matmul block=(TILE, RTS) grid=(cdiv(N, 4 * TILE), cdiv(M, TILE))

constexpr int TILE = 32;         // a block computes TILE rows x 4 * TILE columns of C
constexpr int WPT = 8;           // work per thread: rows of C, each of four columns
constexpr int RTS = TILE / WPT;  // reduced tile size: rows of threads in a block

static_assert(TILE % WPT == 0, "the threads' elements cover the tile exactly");
static_assert(TILE % 32 == 0, "a warp lies in one row of threads: its lanes read the same float4 of tileA");
static_assert(TILE * RTS <= 1024, "a block has at most 1024 threads");

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

// sum += a * b for each of the four columns.
__device__ void add_product(float4& sum, float a, float4 b)
{
    sum.x += a * b.x;
    sum.y += a * b.y;
    sum.z += a * b.z;
    sum.w += a * b.w;
}

extern "C" __global__ void matmul(const float* __restrict__ A, const float* __restrict__ B,
                                  float* __restrict__ C, int M, int N, int K)
{
    __shared__ float4 tileA[TILE][TILE / 4];  // four steps of k in each element
    __shared__ float4 tileB[TILE][TILE];      // four columns in each element
    const int x = threadIdx.x;
    const int y = threadIdx.y;
    const int row0 = blockIdx.y * TILE;
    const int col = (blockIdx.x * TILE + x) * 4;
    float4 sum[WPT] = {};

    for (int k0 = 0; k0 < K; k0 += TILE) {
        // BEGIN SOLUTION: load both tiles by load_quad; add the products, four steps of k at a time (about 23 lines)
        // END SOLUTION
    }

    for (int w = 0; w < WPT; ++w) {
        store_quad(C, M, N, row0 + y + w * RTS, col, sum[w]);
    }
}
