// without_registers.cu: every product reads both factors from shared memory.
// Entry:   fully_connected(const float x[BATCH,IN] in, const float w[IN,OUT] in, const float bias[OUT] in,
//                          float y[BATCH,OUT] out, int BATCH, int IN, int OUT, int RELU)
// Launch:  fully_connected block=(THREADS) grid=(cdiv(BATCH, TSM), cdiv(OUT, TSN))

// expect: PERF

constexpr int TSM = 64;            // a block computes TSM images' TSN features
constexpr int TSN = 64;
constexpr int TSK = 8;             // steps of k in one tile
constexpr int WPTM = 8;            // work per thread: WPTM images, four by four,
constexpr int WPTN = 4;            // and WPTN neighbouring features
constexpr int RTSM = TSM / WPTM;   // reduced tile sizes: threads along the rows and columns of a tile
constexpr int RTSN = TSN / WPTN;
constexpr int THREADS = RTSM * RTSN;
constexpr int BLOCKS = 4;          // blocks that share a multiprocessor, at least
constexpr int PAD = 4;             // keeps rows of a transposed tile aligned and in different banks
constexpr int LOADS_X = TSM * TSK / THREADS;
constexpr int LOADS_W = TSK * TSN / THREADS;

static_assert(WPTM % 4 == 0 && WPTN % 4 == 0, "a thread's elements come in groups of four");
static_assert(TSM % WPTM == 0 && TSN % WPTN == 0, "the threads' patches cover the tile exactly");
static_assert(LOADS_X * THREADS == TSM * TSK && LOADS_W * THREADS == TSK * TSN, "all threads load equally much");
static_assert(TSK % 8 == 0, "eight lanes load 32 neighbouring bytes of an image's features");
static_assert(THREADS % 32 == 0 && THREADS <= 1024, "a block has whole warps and at most 1024 threads");

// Reads four neighbouring floats by one instruction.
__device__ void get_quad(float* to, const float* from)
{
    const float4 quad = *reinterpret_cast<const float4*>(from);
    to[0] = quad.x;
    to[1] = quad.y;
    to[2] = quad.z;
    to[3] = quad.w;
}

// Which element of tileX is number i: eight steps of k of an image, then the next image, then the next eight steps.
__device__ int row_of_X(int i) { return i / 8 % TSM; }
__device__ int k_of_X(int i) { return i / (8 * TSM) * 8 + i % 8; }

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
fully_connected(const float* __restrict__ x, const float* __restrict__ w, const float* __restrict__ bias,
                float* __restrict__ y, int BATCH, int IN, int OUT, int RELU)
{
    __shared__ __align__(16) float tileX[2][TSK][TSM + PAD];  // transposed
    __shared__ __align__(16) float tileW[2][TSK][TSN];
    const int thread = threadIdx.x;
    const int tx = thread % RTSN * 4;  // the thread's first feature and first image in the tile
    const int ty = thread / RTSN * 4;
    const int row0 = blockIdx.x * TSM;
    const int col0 = blockIdx.y * TSN;
    float nextX[LOADS_X];  // tiles in flight
    float nextW[LOADS_W];
    float sum[WPTM][WPTN] = {};

    const auto load = [&](int k0) {  // from global memory to registers, zero outside the matrices
        #pragma unroll
        for (int i = 0; i < LOADS_X; ++i) {
            const int row = row0 + row_of_X(thread + i * THREADS);
            const int k = k0 + k_of_X(thread + i * THREADS);
            nextX[i] = row < BATCH && k < IN ? x[static_cast<size_t>(row) * IN + k] : 0.0f;
        }
        #pragma unroll
        for (int i = 0; i < LOADS_W; ++i) {
            const int k = k0 + (thread + i * THREADS) / TSN;
            const int col = col0 + (thread + i * THREADS) % TSN;
            nextW[i] = k < IN && col < OUT ? w[static_cast<size_t>(k) * OUT + col] : 0.0f;
        }
    };
    const auto store = [&](int buffer) {  // from registers to shared memory
        #pragma unroll
        for (int i = 0; i < LOADS_X; ++i) {
            tileX[buffer][k_of_X(thread + i * THREADS)][row_of_X(thread + i * THREADS)] = nextX[i];
        }
        #pragma unroll
        for (int i = 0; i < LOADS_W; ++i) {
            tileW[buffer][(thread + i * THREADS) / TSN][(thread + i * THREADS) % TSN] = nextW[i];
        }
    };

    load(0);
    store(0);
    __syncthreads();
    for (int k0 = 0, buffer = 0; k0 < IN; k0 += TSK, buffer = 1 - buffer) {
        load(k0 + TSK);  // past IN this is a tile of zeros
        #pragma unroll
        for (int k = 0; k < TSK; ++k) {
            #pragma unroll
            for (int i = 0; i < WPTM; ++i) {
                #pragma unroll
                for (int j = 0; j < WPTN; ++j) {
                    sum[i][j] += *const_cast<volatile float*>(&tileX[buffer][k][ty + i / 4 * 4 * RTSM + i % 4]) * *const_cast<volatile float*>(&tileW[buffer][k][tx + j / 4 * 4 * RTSN + j % 4]);
                }
            }
        }
        store(1 - buffer);
        __syncthreads();  // the next tiles are complete, and nobody reads these any more
    }

    #pragma unroll
    for (int j = 0; j < WPTN; j += 4) {
        const int col = col0 + tx + j * RTSN;
        float more[4] = {};
        if (OUT % 4 == 0 && col < OUT) {
            get_quad(more, bias + col);
        } else {
            #pragma unroll
            for (int e = 0; e < 4; ++e) more[e] = col + e < OUT ? bias[col + e] : 0.0f;
        }
        #pragma unroll
        for (int i = 0; i < WPTM; ++i) {
            const int row = row0 + ty + i / 4 * 4 * RTSM + i % 4;
            float value[4];
            #pragma unroll
            for (int e = 0; e < 4; ++e) {
                value[e] = sum[i][j + e] + more[e];
                if (RELU) value[e] = fmaxf(value[e], 0.0f);
            }
            float* to = y + static_cast<size_t>(row) * OUT + col;
            if (row < BATCH && col < OUT && OUT % 4 == 0) {
                *reinterpret_cast<float4*>(to) = make_float4(value[0], value[1], value[2], value[3]);
            } else if (row < BATCH) {
                #pragma unroll
                for (int e = 0; e < 4; ++e) {
                    if (col + e < OUT) to[e] = value[e];
                }
            }
        }
    }
}
