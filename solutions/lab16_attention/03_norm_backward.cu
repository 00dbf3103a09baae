// 03_norm_backward.cu: the gradients of 02: of x, of gamma and of beta.
// Idea:    with g = dy * gamma and h = (x - mean) * rstd, an element of dx is rstd * (g - mean of g - h * mean of
//          g * h): two sums over the row, and what they take away is what moving mean and deviation would undo.
//          Without centring the mean of g stays. The gradients of gamma and beta are sums over all rows: a block goes
//          through many rows with a sum for each column in shared memory, and a second kernel adds the blocks' sums
//          in one order, so that every run gives the same numbers.
// From:    02_layer_norm.cu
// Limits:  four numbers for each column in shared memory.
// Entry:   norm_backward(const float x[ROWS,COLS] in, const float gamma[COLS] in, const float dy[ROWS,COLS] in,
//                        const float mean[ROWS] in, const float rstd[ROWS] in, float dx[ROWS,COLS] out,
//                        float parts[PARTS,2,COLS] out, int centred, int ROWS, int COLS)
// Entry:   add_parts(const float parts[PARTS,2,COLS] in, float dgamma[COLS] out, float dbeta[COLS] out, int ROWS,
//                    int COLS)
// Sizes:   PARTS = min(ROWS, PARTS_ALL)
// Needs:   centred >= 0, centred <= 1, COLS <= 3000
// Scratch: parts
// Launch:  norm_backward block=(THREADS) grid=(PARTS) shared=16 * COLS
// Launch:  add_parts block=(WARP, ROWS_ADD) grid=(cdiv(COLS, WARP))
// Usual:   centred = 1

constexpr int THREADS = 256;
constexpr int WARP = 32;
constexpr int WARPS = THREADS / WARP;
constexpr unsigned ALL = 0xffffffffu;
constexpr int PARTS_ALL = 528;  // blocks, at most: four for each of an H200's multiprocessors
constexpr int ROWS_ADD = 8;     // threads that share the parts of one column

// Two sums over all threads, in every thread.
__device__ float2 sums_of_block(float2 value, float2 (&room)[WARPS])
{
    const int lane = threadIdx.x % WARP;
    for (int distance = WARP / 2; distance > 0; distance /= 2) {
        value.x += __shfl_xor_sync(ALL, value.x, distance);
        value.y += __shfl_xor_sync(ALL, value.y, distance);
    }
    if (lane == 0) {
        room[threadIdx.x / WARP] = value;
    }
    __syncthreads();
    value = lane < WARPS ? room[lane] : make_float2(0.0f, 0.0f);
    for (int distance = WARPS / 2; distance > 0; distance /= 2) {
        value.x += __shfl_xor_sync(ALL, value.x, distance);
        value.y += __shfl_xor_sync(ALL, value.y, distance);
    }
    value.x = __shfl_sync(ALL, value.x, 0);
    value.y = __shfl_sync(ALL, value.y, 0);
    __syncthreads();  // room may be written again
    return value;
}

extern "C" __global__ void __launch_bounds__(THREADS)
norm_backward(const float* __restrict__ x, const float* __restrict__ gamma, const float* __restrict__ dy,
              const float* __restrict__ mean, const float* __restrict__ rstd, float* __restrict__ dx,
              float* __restrict__ parts, int centred, int ROWS, int COLS)
{
    extern __shared__ float columns[];  // a thread's columns are t, t + THREADS, ... in each of the four rows:
    float* g = columns;                 // dy * gamma,
    float* h = columns + COLS;          // (x - mean) * rstd,
    float* sum_gamma = columns + 2 * COLS;  // sums over this block's rows
    float* sum_beta = columns + 3 * COLS;
    __shared__ float2 room[WARPS];
    const int t = threadIdx.x;
    for (int i = t; i < COLS; i += THREADS) {
        sum_gamma[i] = 0.0f;
        sum_beta[i] = 0.0f;
    }
    for (int r = blockIdx.x; r < ROWS; r += gridDim.x) {
        const size_t begin = static_cast<size_t>(r) * COLS;
        const float middle = mean[r];
        const float scale = rstd[r];
        // BEGIN SOLUTION: keep g and h, add to the columns' sums, and to the two sums over the row (about 12 lines)
        float2 sums = make_float2(0.0f, 0.0f);
        for (int i = t; i < COLS; i += THREADS) {
            const float change = dy[begin + i];
            h[i] = (x[begin + i] - middle) * scale;
            g[i] = change * gamma[i];
            sum_gamma[i] += change * h[i];
            sum_beta[i] += change;
            sums.x += g[i];
            sums.y += g[i] * h[i];
        }
        sums = sums_of_block(sums, room);
        // END SOLUTION
        // BEGIN SOLUTION: dx of the row (about 5 lines)
        const float of_mean = centred ? sums.x / COLS : 0.0f;
        const float of_deviation = sums.y / COLS;
        for (int i = t; i < COLS; i += THREADS) {
            dx[begin + i] = scale * (g[i] - of_mean - h[i] * of_deviation);
        }
        // END SOLUTION
    }
    float* own = parts + static_cast<size_t>(blockIdx.x) * 2 * COLS;
    for (int i = t; i < COLS; i += THREADS) {
        own[i] = sum_gamma[i];
        own[COLS + i] = sum_beta[i];
    }
}

extern "C" __global__ void __launch_bounds__(WARP * ROWS_ADD)
add_parts(const float* __restrict__ parts, float* __restrict__ dgamma, float* __restrict__ dbeta, int ROWS, int COLS)
{
    __shared__ float of_gamma[ROWS_ADD][WARP];
    __shared__ float of_beta[ROWS_ADD][WARP];
    const int x = threadIdx.x;
    const int y = threadIdx.y;
    const int col = blockIdx.x * WARP + x;
    const int count = min(ROWS, PARTS_ALL);
    float gamma = 0.0f;
    float beta = 0.0f;
    for (int part = y; part < count && col < COLS; part += ROWS_ADD) {
        const float* sums = parts + static_cast<size_t>(part) * 2 * COLS;
        gamma += sums[col];
        beta += sums[COLS + col];
    }
    of_gamma[y][x] = gamma;
    of_beta[y][x] = beta;
    __syncthreads();
    if (y == 0 && col < COLS) {
        for (int i = 1; i < ROWS_ADD; ++i) {
            gamma += of_gamma[i][x];
            beta += of_beta[i][x];
        }
        dgamma[col] = gamma;
        dbeta[col] = beta;
    }
}
