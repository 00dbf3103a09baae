// lanes_apart.cu: neighbouring lanes finish outputs that lie apart.
// Entry:   fc_sums(const float x[BATCH,IN] in, const float w[IN,OUT] in, float sums[PARTS,BATCH,OUT] out,
//                  int BATCH, int IN, int OUT)
// Entry:   fc_finish(const float sums[PARTS,BATCH,OUT] in, const float bias[OUT] in, float y[BATCH,OUT] out,
//                    int BATCH, int IN, int OUT, int RELU)
// Sizes:   PARTS = max(1, min(cdiv(IN, SHORTEST), WAVE / cdiv(OUT, TSN)))
// Needs:   BATCH <= 65535
// Scratch: sums
// Launch:  fc_sums block=(THREADS) grid=(cdiv(OUT, TSN), cdiv(BATCH, TSM), PARTS)
// Launch:  fc_finish block=(FINISHERS) grid=(cdiv(OUT, FINISHERS), BATCH)

constexpr int TSM = 32;
constexpr int TSN = 128;
constexpr int TSK = 8;
constexpr int WSM = 32;
constexpr int WSN = 64;
constexpr int WPTM = 8;
constexpr int WPTN = 8;
constexpr int BLOCKS = 6;
constexpr int SHORTEST = 128;
constexpr int WAVE = 792;
constexpr int FINISHERS = 128;
constexpr int RTSM = WSM / WPTM;
constexpr int RTSN = WSN / WPTN;
constexpr int THREADS = (TSM / WSM) * (TSN / WSN) * 32;
constexpr int PAD = 4;
constexpr int LOAD_AT = 1;
constexpr int STORE_AT = TSK - 3;

static_assert(TSM % WSM == 0 && TSN % WSN == 0, "the warps' tiles cover the block's exactly");
static_assert(RTSM * RTSN == 32 && RTSM % 2 == 0 && RTSN % 2 == 0, "a warp has 32 lanes, in patches of 2 x 2");
static_assert(RTSM * WPTM == WSM && RTSN * WPTN == WSN, "the lanes' elements cover the warp's tile exactly");
static_assert(WPTM % 4 == 0 && WPTN % 4 == 0, "a thread's elements come in groups of four");
static_assert(TSK % 8 == 0, "two lanes load 32 neighbouring bytes of a row along k: a whole sector");
static_assert(TSM * TSK / 4 % THREADS == 0 && TSN * TSK / 4 % THREADS == 0, "all threads load equally much");
static_assert(0 <= LOAD_AT && LOAD_AT <= STORE_AT && STORE_AT < TSK, "a tile is loaded, stored, then multiplied");

__device__ float4 load_quad(const float* matrix, int cols, int row, int col, int end_row, int end_col)
{
    float4 quad = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    if (row < end_row && col < end_col) {
        const float* from = matrix + static_cast<size_t>(row) * cols + col;
        if (cols % 4 == 0 && col + 3 < end_col) {
            quad = *reinterpret_cast<const float4*>(from);
        } else {
            quad.x = from[0];
            if (col + 1 < end_col) quad.y = from[1];
            if (col + 2 < end_col) quad.z = from[2];
            if (col + 3 < end_col) quad.w = from[3];
        }
    }
    return quad;
}

__device__ void store_quad(float* matrix, int rows, int cols, int row, int col, float4 quad)
{
    if (row < rows && col < cols) {
        float* to = matrix + static_cast<size_t>(row) * cols + col;
        if (cols % 4 == 0) {
            *reinterpret_cast<float4*>(to) = quad;
        } else {
            to[0] = quad.x;
            if (col + 1 < cols) to[1] = quad.y;
            if (col + 2 < cols) to[2] = quad.z;
            if (col + 3 < cols) to[3] = quad.w;
        }
    }
}

__device__ void get_quad(float* to, const float* from)
{
    const float4 quad = *reinterpret_cast<const float4*>(from);
    to[0] = quad.x;
    to[1] = quad.y;
    to[2] = quad.z;
    to[3] = quad.w;
}

template <bool ALONG_K, int SIZE>
struct Tile {
    static constexpr int LOADS = SIZE * TSK / 4 / THREADS;
    const float* matrix;
    int rows;
    int cols;
    int start;
    int end;
    bool whole;
    const float* from[LOADS];
    float4 next[LOADS];

    __device__ static int at(int i)
    {
        const int index = threadIdx.x + i * THREADS;
        return ALONG_K ? index / 2 % SIZE : index % (SIZE / 4) * 4;
    }

    __device__ static int k_of(int i)
    {
        const int index = threadIdx.x + i * THREADS;
        return ALONG_K ? (index / 2 / SIZE * 2 + index % 2) * 4 : index / (SIZE / 4);
    }

    __device__ Tile(const float* matrix, int rows, int cols, int start, int first, int end)
        : matrix(matrix), rows(rows), cols(cols), start(start), end(end),
          whole(cols % 4 == 0 && start + SIZE <= (ALONG_K ? rows : cols))
    {
        #pragma unroll
        for (int i = 0; i < LOADS; ++i) {
            from[i] = ALONG_K ? matrix + static_cast<size_t>(start + at(i)) * cols + first + k_of(i)
                              : matrix + static_cast<size_t>(first + k_of(i)) * cols + start + at(i);
        }
    }

    __device__ void load(int k0)
    {
        if (whole && k0 + TSK <= end) {
            #pragma unroll
            for (int i = 0; i < LOADS; ++i) {
                next[i] = *reinterpret_cast<const float4*>(from[i]);
                from[i] += ALONG_K ? TSK : static_cast<size_t>(TSK) * cols;
            }
        } else {
            #pragma unroll
            for (int i = 0; i < LOADS; ++i) {
                next[i] = ALONG_K ? load_quad(matrix, cols, start + at(i), k0 + k_of(i), rows, end)
                                  : load_quad(matrix, cols, k0 + k_of(i), start + at(i), end, cols);
            }
        }
    }

    __device__ void store(float (&tile)[TSK][SIZE + PAD]) const
    {
        #pragma unroll
        for (int i = 0; i < LOADS; ++i) {
            float* to = &tile[k_of(i)][at(i)];
            if (ALONG_K) {
                to[0] = next[i].x;
                to[SIZE + PAD] = next[i].y;
                to[2 * (SIZE + PAD)] = next[i].z;
                to[3 * (SIZE + PAD)] = next[i].w;
            } else {
                *reinterpret_cast<float4*>(to) = next[i];
            }
        }
    }
};

template <bool ALONG_A, bool ALONG_B>
__device__ void multiply(const float* A, const float* B, float* C, int M, int N, int K, int row0, int col0,
                         int first, int end)
{
    __shared__ __align__(16) float tileA[2][TSK][TSM + PAD];
    __shared__ __align__(16) float tileB[2][TSK][TSN + PAD];
    const int warp = threadIdx.x / 32;
    const int lane = threadIdx.x % 32;
    const int x = warp % (TSN / WSN) * WSN + (lane / 4 % (RTSN / 2) * 2 + lane % 2) * 4;
    const int y = warp / (TSN / WSN) * WSM + (lane / 4 / (RTSN / 2) * 2 + lane / 2 % 2) * 4;
    float a[2][WPTM];
    float b[2][WPTN];
    float sum[WPTM][WPTN] = {};
    Tile<ALONG_A, TSM> partA(A, ALONG_A ? M : K, ALONG_A ? K : M, row0, first, end);
    Tile<ALONG_B, TSN> partB(B, ALONG_B ? N : K, ALONG_B ? K : N, col0, first, end);

    const auto fetch = [&](int buffer, int k) {
        #pragma unroll
        for (int i = 0; i < WPTM; i += 4) {
            get_quad(&a[k % 2][i], &tileA[buffer][k][y + i * RTSM]);
        }
        #pragma unroll
        for (int j = 0; j < WPTN; j += 4) {
            get_quad(&b[k % 2][j], &tileB[buffer][k][x + j * RTSN]);
        }
    };

    partA.load(first);
    partB.load(first);
    partA.store(tileA[0]);
    partB.store(tileB[0]);
    __syncthreads();
    fetch(0, 0);
    for (int k0 = first; k0 < end; k0 += 2 * TSK) {
        #pragma unroll
        for (int buffer = 0; buffer < 2; ++buffer) {
            #pragma unroll
            for (int k = 0; k < TSK; ++k) {
                if (k == LOAD_AT && (buffer == 0 || k0 + 2 * TSK < end)) {
                    partA.load(k0 + (buffer + 1) * TSK);
                    partB.load(k0 + (buffer + 1) * TSK);
                }
                if (k == STORE_AT) {
                    partA.store(tileA[1 - buffer]);
                    partB.store(tileB[1 - buffer]);
                }
                if (k + 1 < TSK) {
                    fetch(buffer, k + 1);
                } else {
                    __syncthreads();
                    fetch(1 - buffer, 0);
                }
                #pragma unroll
                for (int i = 0; i < WPTM; ++i) {
                    #pragma unroll
                    for (int turn = 0; turn < WPTN; ++turn) {
                        const int j = i % 2 == 0 ? turn : WPTN - 1 - turn;
                        sum[i][j] += a[k % 2][i] * b[k % 2][j];
                    }
                }
            }
        }
    }
    for (int i = 0; i < WPTM; ++i) {
        for (int j = 0; j < WPTN; j += 4) {
            const float4 quad = make_float4(sum[i][j], sum[i][j + 1], sum[i][j + 2], sum[i][j + 3]);
            store_quad(C, M, N, row0 + y + i / 4 * 4 * RTSM + i % 4, col0 + x + j * RTSN, quad);
        }
    }
}

__device__ int length_of(int K, int parts) { return ((K + parts - 1) / parts + 2 * TSK - 1) / (2 * TSK) * (2 * TSK); }

__device__ int parts_of(int K, int N)
{
    return max(1, min((K + SHORTEST - 1) / SHORTEST, WAVE / ((N + TSN - 1) / TSN)));
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
fc_sums(const float* __restrict__ x, const float* __restrict__ w, float* __restrict__ sums, int BATCH, int IN, int OUT)
{
    const int length = length_of(IN, gridDim.z);
    sums += static_cast<size_t>(blockIdx.z) * BATCH * OUT;
    const int first = min(static_cast<int>(blockIdx.z) * length, IN);
    const int end = min(first + length, IN);
    multiply<true, false>(x, w, sums, BATCH, OUT, IN, blockIdx.y * TSM, blockIdx.x * TSN, first, end);
}

extern "C" __global__ void __launch_bounds__(FINISHERS)
fc_finish(const float* __restrict__ sums, const float* __restrict__ bias, float* __restrict__ y,
          int BATCH, int IN, int OUT, int RELU)
{
    const int out = threadIdx.x * gridDim.x + blockIdx.x;
    if (out >= OUT) return;
    const int parts = parts_of(IN, OUT);
    const size_t at = static_cast<size_t>(blockIdx.y) * OUT + out;
    float sum = bias[out];
    for (int part = 0; part < parts; ++part) {
        sum += sums[static_cast<size_t>(part) * BATCH * OUT + at];  // expect: PERF
    }
    y[at] = RELU ? fmaxf(sum, 0.0f) : sum;
}
