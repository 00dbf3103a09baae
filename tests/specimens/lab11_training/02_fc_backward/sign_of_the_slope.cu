// sign_of_the_slope.cu: asks the slope instead of the input whether the ReLU was open.
// Entry:   fc_backward_weights(const float x[BATCH,IN] in, const float dy[BATCH,OUT] in, float dw[IN,OUT] out,
//                              float db[OUT] out, int BATCH, int IN, int OUT)
// Entry:   fc_backward_data(const float x[BATCH,IN] in, const float w[IN,OUT] in, const float dy[BATCH,OUT] in,
//                           float dx[BATCH,IN] out, int BATCH, int IN, int OUT, int RELU)
// Launch:  fc_backward_weights block=(THREADS) grid=(cdiv(OUT, TS), cdiv(IN, TS))
// Launch:  fc_backward_data block=(THREADS) grid=(cdiv(IN, TS), cdiv(BATCH, TS))

// expect: WA

constexpr int TS = 32;
constexpr int TSK = 32;
constexpr int WPT = 4;
constexpr int THREADS = (TS / WPT) * (TS / WPT);
constexpr int WARPS = THREADS / 32;
constexpr int ROWS = TS / WARPS;
constexpr int PITCH = TSK + 4;

extern "C" __global__ void __launch_bounds__(THREADS)
fc_backward_weights(const float* __restrict__ x, const float* __restrict__ dy, float* __restrict__ dw,
                    float* __restrict__ db, int BATCH, int IN, int OUT)
{
    __shared__ __align__(16) float tileX[TSK][TS];
    __shared__ __align__(16) float tileY[TSK][TS];
    const int thread = threadIdx.x;
    const int lane = thread % 32;
    const int tx = thread % (TS / WPT) * WPT;
    const int ty = thread / (TS / WPT) * WPT;
    const int row0 = blockIdx.y * TS;
    const int col0 = blockIdx.x * TS;
    float sum[WPT][WPT] = {};
    float bias = 0.0f;

    for (int n0 = 0; n0 < BATCH; n0 += TSK) {
        #pragma unroll
        for (int i = 0; i < ROWS; ++i) {
            const int k = i * WARPS + thread / 32;
            const int n = n0 + k;
            tileX[k][lane] = n < BATCH && row0 + lane < IN ? x[static_cast<size_t>(n) * IN + row0 + lane] : 0.0f;
            tileY[k][lane] = n < BATCH && col0 + lane < OUT ? dy[static_cast<size_t>(n) * OUT + col0 + lane] : 0.0f;
        }
        __syncthreads();
        #pragma unroll
        for (int k = 0; k < TSK; ++k) {
            const float4 a = *reinterpret_cast<const float4*>(&tileX[k][ty]);
            const float4 b = *reinterpret_cast<const float4*>(&tileY[k][tx]);
            const float inputs[WPT] = {a.x, a.y, a.z, a.w};
            const float slopes[WPT] = {b.x, b.y, b.z, b.w};
            #pragma unroll
            for (int i = 0; i < WPT * WPT; ++i) {
                sum[i / WPT][i % WPT] += inputs[i / WPT] * slopes[i % WPT];
            }
        }
        if (blockIdx.y == 0 && thread < TS) {
            for (int k = 0; k < TSK; ++k) bias += tileY[k][thread];
        }
        __syncthreads();
    }
    if (blockIdx.y == 0 && thread < TS && col0 + thread < OUT) {
        db[col0 + thread] = bias;
    }
    #pragma unroll
    for (int i = 0; i < WPT; ++i) {
        float* to = dw + static_cast<size_t>(row0 + ty + i) * OUT + col0 + tx;
        if (row0 + ty + i < IN && OUT % 4 == 0 && col0 + tx < OUT) {
            *reinterpret_cast<float4*>(to) = make_float4(sum[i][0], sum[i][1], sum[i][2], sum[i][3]);
        } else if (row0 + ty + i < IN) {
            #pragma unroll
            for (int j = 0; j < WPT; ++j) {
                if (col0 + tx + j < OUT) to[j] = sum[i][j];
            }
        }
    }
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
                dx[at] = RELU && !(sum[i][j] > 0.0f) ? 0.0f : sum[i][j];
            }
        }
    }
}
