// straight_from_memory.cu: right, but every product loads both its factors.
// Entry:   fc_backward_weights(const float x[BATCH,IN] in, const float dy[BATCH,OUT] in, float dw[IN,OUT] out,
//                              float db[OUT] out, int BATCH, int IN, int OUT)
// Entry:   fc_backward_data(const float x[BATCH,IN] in, const float w[IN,OUT] in, const float dy[BATCH,OUT] in,
//                           float dx[BATCH,IN] out, int BATCH, int IN, int OUT, int RELU)
// Launch:  fc_backward_weights block=(32, 8) grid=(cdiv(OUT, 32), cdiv(IN, 8))
// Launch:  fc_backward_data block=(THREADS) grid=(cdiv(IN, TS), cdiv(BATCH, TS))

// expect: PERF

constexpr int TS = 32;
constexpr int TSK = 32;
constexpr int WPT = 4;
constexpr int THREADS = (TS / WPT) * (TS / WPT);
constexpr int WARPS = THREADS / 32;
constexpr int ROWS = TS / WARPS;
constexpr int PITCH = TSK + 4;

extern "C" __global__ void fc_backward_weights(const float* x, const float* dy, float* dw, float* db, int BATCH, int IN, int OUT)
{
    const int o = blockIdx.x * 32 + threadIdx.x;
    const int i = blockIdx.y * 8 + threadIdx.y;
    if (o >= OUT || i >= IN) return;
    float sum = 0.0f;
    float bias = 0.0f;
    for (int n = 0; n < BATCH; ++n) {
        sum += x[n * IN + i] * dy[n * OUT + o];
        bias += dy[n * OUT + o];
    }
    dw[i * OUT + o] = sum;
    if (i == 0) db[o] = bias;
}

extern "C" __global__ void __launch_bounds__(THREADS)
fc_backward_data(const float* __restrict__ x, const float* __restrict__ w, const float* __restrict__ dy,
                 float* __restrict__ dx, int BATCH, int IN, int OUT, int RELU)
{
    __shared__ __align__(16) float tileY[TS][PITCH];
    __shared__ __align__(16) float tileW[TS][PITCH];
    const int thread = threadIdx.x;
    const int lane = thread % 32;
    const int tx = thread % (TS / WPT);
    const int ty = thread / (TS / WPT);
    const int row0 = blockIdx.y * TS;
    const int col0 = blockIdx.x * TS;
    float sum[WPT][WPT] = {};

    for (int k0 = 0; k0 < OUT; k0 += TSK) {
        const int k = k0 + lane;
        #pragma unroll
        for (int i = 0; i < ROWS; ++i) {
            const int row = i * WARPS + thread / 32;
            const int n = row0 + row;
            const int input = col0 + row;
            tileY[row][lane] = n < BATCH && k < OUT ? dy[static_cast<size_t>(n) * OUT + k] : 0.0f;
            tileW[row][lane] = input < IN && k < OUT ? w[static_cast<size_t>(input) * OUT + k] : 0.0f;
        }
        __syncthreads();
        #pragma unroll
        for (int step = 0; step < TSK; step += 4) {
            float4 a[WPT];
            float4 b[WPT];
            #pragma unroll
            for (int i = 0; i < WPT; ++i) {
                a[i] = *reinterpret_cast<const float4*>(&tileY[ty + i * (TS / WPT)][step]);
                b[i] = *reinterpret_cast<const float4*>(&tileW[tx + i * (TS / WPT)][step]);
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
    #pragma unroll
    for (int i = 0; i < WPT; ++i) {
        const int n = row0 + ty + i * (TS / WPT);
        #pragma unroll
        for (int j = 0; j < WPT; ++j) {
            const int input = col0 + tx + j * (TS / WPT);
            if (n < BATCH && input < IN) {
                const size_t at = static_cast<size_t>(n) * IN + input;
                dx[at] = RELU && !(x[at] > 0.0f) ? 0.0f : sum[i][j];
            }
        }
    }
}
