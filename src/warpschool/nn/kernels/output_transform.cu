// output_transform.cu: Y = A^T M A for @NAME@, written from the exact matrices.
// Entry:   output_transform(const float M[SIDE*SIDE,F,BATCH*TY*TX] in, float y[BATCH,F,OH,OW] out,
//                           int BATCH, int F, int OH, int OW)
// Sizes:   TY = cdiv(OH, TILE), TX = cdiv(OW, TILE)
// Needs:   F <= 65535
// Launch:  output_transform block=(THREADS) grid=(cdiv(BATCH*TY*TX, THREADS), F)

@COMMON@

extern "C" __global__ void __launch_bounds__(THREADS)
output_transform(const float* __restrict__ M, float* __restrict__ y, int BATCH, int F, int OH, int OW)
{
@COLUMNS@
    const int row0 = p / TX % TY * TILE;
    const int col0 = p % TX * TILE;
    float* to = y + ((static_cast<size_t>(p / (TY * TX)) * F + f) * OH + row0) * OW + col0;
    #pragma unroll
    for (int i = 0; i < TILE; ++i) {
        float numbers[TILE];
        transform(numbers, middle[i]);
        if (TILE % 4 == 0 && OW % 4 == 0) {  // rows begin at multiples of four floats, and so do the tiles' rows
            #pragma unroll
            for (int j = 0; j < TILE; j += 4) {
                const float4 quad = make_float4(numbers[j], numbers[(j + 1) % TILE], numbers[(j + 2) % TILE],
                                                numbers[(j + 3) % TILE]);
                if (row0 + i < OH && col0 + j < OW) *reinterpret_cast<float4*>(to + i * OW + j) = quad;
            }
        } else {
            #pragma unroll
            for (int j = 0; j < TILE; ++j) {
                if (row0 + i < OH && col0 + j < OW) to[i * OW + j] = numbers[j];
            }
        }
    }
}
