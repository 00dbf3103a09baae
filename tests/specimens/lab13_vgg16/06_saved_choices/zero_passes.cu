// zero_passes.cu: a result of exactly zero passes.
// Entry:   saved_choices(const float M[SIDE*SIDE,F,BATCH*TY*TX] in, const float bias[F] in,
//                        float y[BATCH,F,OH / POOL,OW / POOL] out,
//                        unsigned char choice[BATCH,F,OH / POOL,OW / POOL] out, int BATCH, int F, int OH, int OW)
// Sizes:   TY = cdiv(OH, TILE), TX = cdiv(OW, TILE)
// Needs:   F <= 65535, OH >= POOL, OW >= POOL
// Launch:  saved_choices block=(THREADS) grid=(cdiv(BATCH*TY*TX, THREADS), F)

// expect: WA
constexpr int TILE = 4;
constexpr int SIDE = TILE + 2;
constexpr int POOL = 2;
constexpr int THREADS = 128;

static_assert(TILE == 4, "the matrices are those of F(4,3)");
static_assert(TILE % POOL == 0, "a tile holds whole windows");

__device__ void transform_output(float (&y)[TILE], const float (&m)[SIDE])
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

template <int COUNT>
__device__ void store_row(float* row, unsigned char* choices, const float (&kept)[COUNT], const int (&chosen)[COUNT],
                          int col, int width)
{
    if (COUNT == 4 && width % 4 == 0) {
        const float4 quad = make_float4(kept[0], kept[1 % COUNT], kept[2 % COUNT], kept[3 % COUNT]);
        *reinterpret_cast<float4*>(row + col) = quad;
        *reinterpret_cast<uchar4*>(choices + col) =
            make_uchar4(chosen[0], chosen[1 % COUNT], chosen[2 % COUNT], chosen[3 % COUNT]);
    } else if (COUNT == 2 && width % 2 == 0) {
        *reinterpret_cast<float2*>(row + col) = make_float2(kept[0], kept[1 % COUNT]);
        *reinterpret_cast<uchar2*>(choices + col) = make_uchar2(chosen[0], chosen[1 % COUNT]);
    } else {
        #pragma unroll
        for (int j = 0; j < COUNT; ++j) {
            if (col + j < width) {
                row[col + j] = kept[j];
                choices[col + j] = static_cast<unsigned char>(chosen[j]);
            }
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
saved_choices(const float* __restrict__ M, const float* __restrict__ bias, float* __restrict__ y,
              unsigned char* __restrict__ choice, int BATCH, int F, int OH, int OW)
{
    constexpr int COUNT = TILE / POOL;
    const int TY = (OH + TILE - 1) / TILE;
    const int TX = (OW + TILE - 1) / TILE;
    const int P = BATCH * TY * TX;
    const int p = blockIdx.x * THREADS + threadIdx.x;
    const int f = blockIdx.y;
    if (p >= P) return;

    const float* from = M + static_cast<size_t>(f) * P + p;
    const size_t position = static_cast<size_t>(F) * P;
    float middle[TILE][SIDE];
    #pragma unroll
    for (int j = 0; j < SIDE; ++j) {
        float column[SIDE];
        float results[TILE];
        #pragma unroll
        for (int i = 0; i < SIDE; ++i) column[i] = from[(i * SIDE + j) * position];
        transform_output(results, column);
        #pragma unroll
        for (int i = 0; i < TILE; ++i) middle[i][j] = results[i];
    }
    float patch[TILE][TILE];
    #pragma unroll
    for (int i = 0; i < TILE; ++i) transform_output(patch[i], middle[i]);

    const int PH = OH / POOL;
    const int PW = OW / POOL;
    const int row0 = p / TX % TY * COUNT;
    const int col0 = p % TX * COUNT;
    const size_t plane = (static_cast<size_t>(p / (TY * TX)) * F + f) * PH * PW;
    #pragma unroll
    for (int i = 0; i < COUNT; ++i) {
        float kept[COUNT];
        int chosen[COUNT];
        #pragma unroll
        for (int j = 0; j < COUNT; ++j) {
            float largest = patch[i * POOL][j * POOL];
            chosen[j] = 1;
            #pragma unroll
            for (int k = 1; k < POOL * POOL; ++k) {
                const float result = patch[i * POOL + k / POOL][j * POOL + k % POOL];
                if (result > largest) {
                    largest = result;
                    chosen[j] = k + 1;
                }
            }
            kept[j] = fmaxf(largest + bias[f], 0.0f);
            if (largest + bias[f] < 0.0f) chosen[j] = 0;
        }
        if (row0 + i < PH && col0 < PW) {
            const size_t first = plane + (row0 + i) * PW;
            store_row(y + first, choice + first, kept, chosen, col0, PW);
        }
    }
}
