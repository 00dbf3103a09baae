// output_transform.cu: Y = A^T M A for @NAME@, written from the exact matrices.
// Entry:   output_transform(const float M[SIDE*SIDE,F,BATCH*TY*TX] in, float y[BATCH,F,OH,OW] out,
//                           int BATCH, int F, int OH, int OW)
// Sizes:   TY = cdiv(OH, TILE), TX = cdiv(OW, TILE)
// Needs:   F <= 65535
// Launch:  output_transform block=(THREADS) grid=(cdiv(BATCH*TY*TX, THREADS), F)

@COMMON@

// Writes a warp's rows by way of shared memory: neighbouring lanes write neighbouring floats, in whole sectors, where each
// lane by itself would write six here and six there. `to` is where the lane's tile begins, `columns` and `rows` how many
// of its results lie in the image.
__device__ void store_rows(const float (&middle)[TILE][SIDE], float* to, int columns, int rows, int lanes, int OW)
{
    __shared__ float staged[THREADS / 32][32 * TILE];
    float* const own = staged[threadIdx.x / 32];
    const int lane = threadIdx.x % 32;
    const unsigned mask = 0xffffffffu >> (32 - lanes);
    float* place[TILE];  // of the floats that this lane writes of each row
    int until[TILE];     // rows that have them
    #pragma unroll
    for (int k = 0; k < TILE; ++k) {
        const int tile = (lane + k * lanes) / TILE;
        const int j = (lane + k * lanes) % TILE;
        place[k] = reinterpret_cast<float*>(__shfl_sync(mask, reinterpret_cast<unsigned long long>(to), tile)) + j;
        const int its_columns = __shfl_sync(mask, columns, tile);
        const int its_rows = __shfl_sync(mask, rows, tile);
        until[k] = j < its_columns ? its_rows : 0;
    }
    #pragma unroll
    for (int i = 0; i < TILE; ++i) {
        float numbers[TILE];
        transform(numbers, middle[i]);
        #pragma unroll
        for (int j = 0; j < TILE; ++j) own[lane * TILE + j] = numbers[j];
        __syncwarp(mask);
        #pragma unroll
        for (int k = 0; k < TILE; ++k) {
            if (i < until[k]) place[k][i * OW] = own[lane + k * lanes];
        }
        __syncwarp(mask);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
output_transform(const float* __restrict__ M, float* __restrict__ y, int BATCH, int F, int OH, int OW)
{
@COLUMNS@
    const int row0 = p / TX % TY * TILE;
    const int col0 = p % TX * TILE;
    float* to = y + ((static_cast<size_t>(p / (TY * TX)) * F + f) * OH + row0) * OW + col0;
    if (TILE % 4 != 0 || OW % 4 != 0) {
        store_rows(middle, to, OW - col0, OH - row0, min(32, P - p + static_cast<int>(threadIdx.x) % 32), OW);
        return;
    }
    #pragma unroll
    for (int i = 0; i < TILE; ++i) {  // rows begin at multiples of four floats, and so do the tiles' rows
        float numbers[TILE];
        transform(numbers, middle[i]);
        #pragma unroll
        for (int j = 0; j < TILE; j += 4) {
            const float4 quad = make_float4(numbers[j], numbers[(j + 1) % TILE], numbers[(j + 2) % TILE],
                                            numbers[(j + 3) % TILE]);
            if (row0 + i < OH && col0 + j < OW) *reinterpret_cast<float4*>(to + i * OW + j) = quad;
        }
    }
}
