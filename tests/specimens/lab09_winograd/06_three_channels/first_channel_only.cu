// first_channel_only.cu: leaves two channels out.
// Entry:   three_channels(const float x[BATCH,CHANNELS,H,W] in, const float U[SIDE*SIDE,CHANNELS,F] in,
//                         const float bias[F] in, float y[BATCH,F,H+2*PAD-2,W+2*PAD-2] out,
//                         int BATCH, int H, int W, int F, int PAD)
// Sizes:   TY = cdiv(H + 2*PAD - 2, TILE), TX = cdiv(W + 2*PAD - 2, TILE)
// Needs:   H + 2*PAD >= 3, W + 2*PAD >= 3
// Launch:  three_channels block=(THREADS) grid=(cdiv(BATCH*TY*TX, THREADS))

// expect: WA

constexpr int TILE = 4;
constexpr int SIDE = TILE + 2;
constexpr int POSITIONS = SIDE * SIDE;
constexpr int CHANNELS = 3;
constexpr int THREADS = 128;
constexpr int BLOCKS = 2;
constexpr int TSF = 32;

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

__device__ void transform_input(float (&d)[6])
{
    const float first = fmaf(4.0f, d[0], fmaf(-5.0f, d[2], d[4]));
    const float last = fmaf(4.0f, d[1], fmaf(-5.0f, d[3], d[5]));
    const float even_ones = fmaf(-4.0f, d[2], d[4]);
    const float odd_ones = fmaf(-4.0f, d[1], d[3]);
    const float even_twos = d[4] - d[2];
    const float half_odd_twos = d[3] - d[1];
    d[0] = first;
    d[1] = even_ones + odd_ones;
    d[2] = even_ones - odd_ones;
    d[3] = fmaf(2.0f, half_odd_twos, even_twos);
    d[4] = fmaf(-2.0f, half_odd_twos, even_twos);
    d[5] = last;
}

__device__ void transform_output(float (&y)[2], const float (&m)[4])
{
    y[0] = m[0] + m[1] + m[2];
    y[1] = m[1] - m[2] - m[3];
}

__device__ void transform_output(float (&y)[4], const float (&m)[6])
{
    const float even_ones = m[1] + m[2];
    const float odd_ones = m[1] - m[2];
    const float even_twos = m[3] + m[4];
    const float odd_twos = m[3] - m[4];
    y[0] = m[0] + even_ones + even_twos;
    y[1] = fmaf(2.0f, odd_twos, odd_ones);
    y[2] = fmaf(4.0f, even_twos, even_ones);
    y[3] = fmaf(8.0f, odd_twos, odd_ones) + m[5];
}

__device__ void store_row(float* to, const float (&y)[TILE], int space, int OW)
{
    if (OW % 4 == 0 && TILE == 4) {
        *reinterpret_cast<float4*>(to) = make_float4(y[0], y[1], y[TILE - 2], y[TILE - 1]);
    } else if (OW % 2 == 0) {
        #pragma unroll
        for (int j = 0; j < TILE; j += 2) {
            if (j < space) *reinterpret_cast<float2*>(to + j) = make_float2(y[j], y[j + 1]);
        }
    } else {
        #pragma unroll
        for (int j = 0; j < TILE; ++j) {
            if (j < space) to[j] = y[j];
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
three_channels(const float* __restrict__ x, const float* __restrict__ U, const float* __restrict__ bias,
               float* __restrict__ y, int BATCH, int H, int W, int F, int PAD)
{
    __shared__ __align__(16) float filters[TSF][CHANNELS][POSITIONS];
    const int OH = H + 2 * PAD - 2;
    const int OW = W + 2 * PAD - 2;
    const int TY = (OH + TILE - 1) / TILE;
    const int TX = (OW + TILE - 1) / TILE;
    const int p = blockIdx.x * THREADS + threadIdx.x;
    const bool valid = p < BATCH * TY * TX;
    const int image = p / (TY * TX);
    const int ty = p / TX % TY;
    const int tx = p % TX;

    float v[CHANNELS][SIDE][SIDE];
    #pragma unroll
    for (int c = 0; c < CHANNELS; ++c) {
        const float* from = x + (static_cast<size_t>(image) * CHANNELS + c) * H * W;
        #pragma unroll
        for (int i = 0; i < SIDE; ++i) {
            #pragma unroll
            for (int j = 0; j < SIDE; ++j) {
                const int row = ty * TILE - PAD + i;
                const int col = tx * TILE - PAD + j;
                const bool inside = valid && row >= 0 && row < H && col >= 0 && col < W;
                v[c][i][j] = inside ? from[row * W + col] : 0.0f;
            }
        }
        #pragma unroll
        for (int j = 0; j < SIDE; ++j) {
            float column[SIDE];
            #pragma unroll
            for (int i = 0; i < SIDE; ++i) column[i] = v[c][i][j];
            transform_input(column);
            #pragma unroll
            for (int i = 0; i < SIDE; ++i) v[c][i][j] = column[i];
        }
        #pragma unroll
        for (int i = 0; i < SIDE; ++i) transform_input(v[c][i]);
    }

    for (int f0 = 0; f0 < F; f0 += TSF) {
        __syncthreads();
        for (int i = threadIdx.x; i < TSF * CHANNELS * POSITIONS / 4; i += THREADS) {
            const int f = i % TSF;
            const int c = i / TSF % CHANNELS;
            const int quad = i / TSF / CHANNELS;
            const size_t position = static_cast<size_t>(CHANNELS) * F;
            const float* from = U + 4 * quad * position + static_cast<size_t>(c) * F + f0 + f;
            if (f0 + f < F) {
                const float4 numbers = make_float4(from[0], from[position], from[2 * position], from[3 * position]);
                *reinterpret_cast<float4*>(&filters[f][c][4 * quad]) = numbers;
            }
        }
        __syncthreads();
        for (int f = 0; f < TSF && f0 + f < F; ++f) {
            float middle[TILE][SIDE];
            #pragma unroll
            for (int j = 0; j < SIDE; ++j) {
                float column[SIDE] = {};
                float results[TILE];
                #pragma unroll
                for (int c = 0; c < 1; ++c) {
                    #pragma unroll
                    for (int i = 0; i < SIDE; ++i) column[i] += filters[f][c][i * SIDE + j] * v[c][i][j];
                }
                transform_output(results, column);
                #pragma unroll
                for (int i = 0; i < TILE; ++i) middle[i][j] = results[i];
            }
            float* to = y + ((static_cast<size_t>(image) * F + f0 + f) * OH + ty * TILE) * OW + tx * TILE;
            #pragma unroll
            for (int i = 0; i < TILE; ++i) {
                float results[TILE];
                transform_output(results, middle[i]);
                #pragma unroll
                for (int j = 0; j < TILE; ++j) results[j] = fmaxf(results[j] + bias[f0 + f], 0.0f);
                if (valid && ty * TILE + i < OH) {
                    store_row(to + i * OW, results, OW - tx * TILE, OW);
                }
            }
        }
    }
}
