// input_transform.cu: V = B^T d B for @NAME@, written from the exact matrices.
// Entry:   input_transform(const float x[BATCH,C,H,W] in, float V[SIDE*SIDE,C,BATCH*TY*TX] out,
//                          int BATCH, int C, int H, int W, int PAD)
// Sizes:   TY = cdiv(H + 2*PAD - FILTER + 1, TILE), TX = cdiv(W + 2*PAD - FILTER + 1, TILE)
// Needs:   H + 2*PAD >= FILTER, W + 2*PAD >= FILTER, C <= 65535
// Launch:  input_transform block=(THREADS) grid=(cdiv(BATCH*TY*TX, THREADS), C)

@COMMON@

extern "C" __global__ void __launch_bounds__(THREADS)
input_transform(const float* __restrict__ x, float* __restrict__ V, int BATCH, int C, int H, int W, int PAD)
{
    const int TY = (H + 2 * PAD - FILTER + TILE) / TILE;
    const int TX = (W + 2 * PAD - FILTER + TILE) / TILE;
    const int P = BATCH * TY * TX;
    const int p = blockIdx.x * THREADS + threadIdx.x;
    const int c = blockIdx.y;
    if (p >= P) return;
    const int row0 = p / TX % TY * TILE - PAD;
    const int col0 = p % TX * TILE - PAD;
    const float* from = x + (static_cast<size_t>(p / (TY * TX)) * C + c) * H * W;
    // Where tiles and rows begin at multiples of four floats, four pixels lie inside the image together or none does.
    const int wide = TILE % 4 == 0 && (PAD | W) % 4 == 0 ? SIDE / 4 * 4 : 0;
    float d[SIDE][SIDE];
    #pragma unroll
    for (int i = 0; i < SIDE; ++i) {
        const int row = row0 + i;
        const bool valid = row >= 0 && row < H;
        #pragma unroll
        for (int j = 0; j < SIDE; j += 4) {
            if (j < wide) {
                float4 quad = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
                if (valid && col0 + j >= 0 && col0 + j < W) {
                    quad = *reinterpret_cast<const float4*>(from + row * W + col0 + j);
                }
                d[i][j] = quad.x;
                if (j + 1 < SIDE) d[i][j + 1] = quad.y;
                if (j + 2 < SIDE) d[i][j + 2] = quad.z;
                if (j + 3 < SIDE) d[i][j + 3] = quad.w;
            } else {
                #pragma unroll
                for (int k = j; k < j + 4 && k < SIDE; ++k) {
                    const int col = col0 + k;
                    d[i][k] = valid && col >= 0 && col < W ? from[row * W + col] : 0.0f;
                }
            }
        }
    }
    #pragma unroll
    for (int j = 0; j < SIDE; ++j) {
        float column[SIDE];
        float numbers[SIDE];
        #pragma unroll
        for (int i = 0; i < SIDE; ++i) column[i] = d[i][j];
        transform(numbers, column);
        #pragma unroll
        for (int i = 0; i < SIDE; ++i) d[i][j] = numbers[i];
    }
    float* to = V + static_cast<size_t>(c) * P + p;
    const size_t position = static_cast<size_t>(C) * P;
    #pragma unroll
    for (int i = 0; i < SIDE; ++i) {
        float numbers[SIDE];
        transform(numbers, d[i]);
        #pragma unroll
        for (int j = 0; j < SIDE; ++j) to[(i * SIDE + j) * position] = numbers[j];
    }
}
