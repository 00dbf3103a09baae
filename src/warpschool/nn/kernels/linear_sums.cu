// linear_sums.cu: what is left of a linear layer's gradients when the products of parts of the batch are known.
// Idea:    dw = x' dy is a sum over all rows of a batch, thousands of them, and has few tiles. So the rows are shared
//          out and there is a product for each share; here these are added, always in the same order. db is the sum of
//          dy's rows: blocks add some rows each, and then the blocks' sums are added.
// Entry:   sum_columns(const float dy[ROWS,OUT] in, float columns[GROUPS,OUT] out, int ROWS, int SHARES, int IN, int OUT)
// Entry:   add_parts(const float parts[SHARES,IN,OUT] in, float dw[IN,OUT] out, int ROWS, int SHARES, int IN, int OUT)
// Entry:   add_columns(const float columns[GROUPS,OUT] in, float db[OUT] out, int ROWS, int SHARES, int IN, int OUT)
// Sizes:   GROUPS = cdiv(ROWS, GROUP)
// Needs:   IN * OUT <= 2147483647, cdiv(ROWS, GROUP) <= 65535
// Scratch: columns
// Launch:  sum_columns block=(WARP, DOWN) grid=(cdiv(OUT, WARP), GROUPS)
// Launch:  add_parts block=(THREADS) grid=(cdiv(IN * OUT, THREADS))
// Launch:  add_columns block=(THREADS) grid=(cdiv(OUT, THREADS))

constexpr int WARP = 32;
constexpr int DOWN = 8;
constexpr int GROUP = 128;  // rows that a block adds
constexpr int THREADS = 128;

static_assert(GROUP % DOWN == 0, "all rows of a block have as many threads");

extern "C" __global__ void __launch_bounds__(WARP * DOWN)
sum_columns(const float* __restrict__ dy, float* __restrict__ columns, int ROWS, int SHARES, int IN, int OUT)
{
    __shared__ float of_rows[DOWN][WARP];
    const int x = threadIdx.x;
    const int y = threadIdx.y;
    const int col = blockIdx.x * WARP + x;
    float sum = 0.0f;
    #pragma unroll 4
    for (int i = y; i < GROUP; i += DOWN) {
        const int row = blockIdx.y * GROUP + i;
        if (row < ROWS && col < OUT) {
            sum += dy[static_cast<size_t>(row) * OUT + col];
        }
    }
    of_rows[y][x] = sum;
    __syncthreads();
    if (y == 0 && col < OUT) {
        for (int i = 1; i < DOWN; ++i) {
            sum += of_rows[i][x];
        }
        columns[static_cast<size_t>(blockIdx.y) * OUT + col] = sum;
    }
}

// The sum of element i of `count` tables of `size` numbers.
__device__ float sum_of_tables(const float* tables, int count, size_t size, int i)
{
    float sum = 0.0f;
    #pragma unroll 8
    for (int table = 0; table < count; ++table) {
        sum += tables[table * size + i];
    }
    return sum;
}

extern "C" __global__ void __launch_bounds__(THREADS)
add_parts(const float* __restrict__ parts, float* __restrict__ dw, int ROWS, int SHARES, int IN, int OUT)
{
    const int i = blockIdx.x * THREADS + threadIdx.x;
    if (i < IN * OUT) {
        dw[i] = sum_of_tables(parts, SHARES, static_cast<size_t>(IN) * OUT, i);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
add_columns(const float* __restrict__ columns, float* __restrict__ db, int ROWS, int SHARES, int IN, int OUT)
{
    const int i = blockIdx.x * THREADS + threadIdx.x;
    if (i < OUT) {
        db[i] = sum_of_tables(columns, (ROWS + GROUP - 1) / GROUP, OUT, i);
    }
}
