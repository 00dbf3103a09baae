// rows_only.cu: d B instead of B^T d B: the columns are left as they are.
// Entry:   input_transform(const float x[BATCH,C,H,W] in, float V[SIDE*SIDE,C,BATCH*TY*TX] out,
//                          int BATCH, int C, int H, int W, int PAD)
// Sizes:   TY = cdiv(H + 2*PAD - 2, TILE), TX = cdiv(W + 2*PAD - 2, TILE)
// Needs:   H + 2*PAD >= 3, W + 2*PAD >= 3, C <= 65535
// Launch:  input_transform block=(THREADS) grid=(cdiv(BATCH*TY*TX, THREADS), C)

// expect: WA

constexpr int TILE = 4;
constexpr int SIDE = TILE + 2;
constexpr int THREADS = 128;

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

extern "C" __global__ void __launch_bounds__(THREADS)
input_transform(const float* __restrict__ x, float* __restrict__ V, int BATCH, int C, int H, int W, int PAD)
{
    const int TY = (H + 2 * PAD - 2 + TILE - 1) / TILE;
    const int TX = (W + 2 * PAD - 2 + TILE - 1) / TILE;
    const int P = BATCH * TY * TX;
    const int p = blockIdx.x * THREADS + threadIdx.x;
    const int c = blockIdx.y;
    if (p >= P) return;

    const int image = p / (TY * TX);
    const int row0 = p / TX % TY * TILE - PAD;
    const int col0 = p % TX * TILE - PAD;
    const float* from = x + (static_cast<size_t>(image) * C + c) * H * W;
    float d[SIDE][SIDE];
    #pragma unroll
    for (int i = 0; i < SIDE; ++i) {
        #pragma unroll
        for (int j = 0; j < SIDE; ++j) {
            const int row = row0 + i;
            const int col = col0 + j;
            d[i][j] = row >= 0 && row < H && col >= 0 && col < W ? from[row * W + col] : 0.0f;
        }
    }
    #pragma unroll
    for (int j = 0; j < SIDE; ++j) {
        float column[SIDE];
        #pragma unroll
        for (int i = 0; i < SIDE; ++i) column[i] = d[i][j];
        #pragma unroll
        for (int i = 0; i < SIDE; ++i) d[i][j] = column[i];
    }
    float* to = V + static_cast<size_t>(c) * P + p;
    const size_t position = static_cast<size_t>(C) * P;
    #pragma unroll
    for (int i = 0; i < SIDE; ++i) {
        transform_input(d[i]);
        #pragma unroll
        for (int j = 0; j < SIDE; ++j) {
            to[(i * SIDE + j) * position] = d[i][j];
        }
    }
}
