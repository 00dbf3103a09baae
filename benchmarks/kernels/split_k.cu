// split_k.cu: lab 05's 07_warp_tiled with K divided over blocks, for products whose C has fewer tiles than a GPU has SMs.
// Idea:    blocks of one tile share its K. Each leaves its sums in memory, as they lie in its registers, so that they are
//          stored and loaded in whole lines; the last one to arrive adds them in the order of k: the result does not
//          depend on who came when. It sets the counter back to zero, for the next launch.
//          Where rows do not begin at multiples of four floats (RAGGED), elements are loaded one by one, neighbouring
//          lanes neighbouring ones: in fours, each load of a warp would touch 16 lines of A, four times over.
// Entry:   matmul(const float A[M,K] in, const float B[K,N] in, float C[M,N] out,
//                 float part[splits,cdiv(M,TSM)*TSM,cdiv(N,TSN)*TSN] out, int arrived[cdiv(M,TSM)*cdiv(N,TSN)] out,
//                 int splits, int M, int N, int K)
// Needs:   splits >= 1, RAGGED + (K % 4 + N % 4 == 0) >= 1
// Scratch: part
// Zeroed:  arrived
// Launch:  matmul block=(THREADS) grid=(cdiv(N, TSN), cdiv(M, TSM), splits)

constexpr int TSM = 128;          // a block computes TSM x TSN elements of C
constexpr int TSN = 256;
constexpr int TSK = 8;            // steps of k in one tile
constexpr int WSM = 64;           // a warp computes WSM x WSN of them
constexpr int WSN = 64;
constexpr int WPTM = 16;          // work per thread: WPTM x WPTN elements of C
constexpr int WPTN = 8;
constexpr int RTSM = WSM / WPTM;  // reduced tile sizes: lanes along the rows and columns of a warp
constexpr int RTSN = WSN / WPTN;
constexpr int THREADS = (TSM / WSM) * (TSN / WSN) * 32;
constexpr int RAGGED = 0;         // 1: for any K and N
constexpr int PAD = 4;            // moves the two groups of floats that a warp stores in tileA 16 banks apart
constexpr int LOADS_A = TSM * TSK / 4 / THREADS;  // float4s of a tile that one thread loads
constexpr int LOADS_B = TSK * TSN / 4 / THREADS;
constexpr int LOAD_AT = 2;        // the next tile sets out before this step of k, early,
constexpr int STORE_AT = TSK - 2;  // and goes to shared memory before this one, late: both found by measuring

static_assert(TSM % WSM == 0 && TSN % WSN == 0, "the warps' tiles cover the block's exactly");
static_assert(RTSM * RTSN == 32 && RTSM % 2 == 0 && RTSN % 2 == 0, "a warp has 32 lanes, in patches of 2 x 2");
static_assert(RTSM * WPTM == WSM && RTSN * WPTN == WSN, "the lanes' elements cover the warp's tile exactly");
static_assert(WPTM % 4 == 0 && WPTN % 4 == 0, "a thread's elements come in groups of four");
static_assert(TSK % 8 == 0, "two lanes load 32 neighbouring bytes of a row of A: a whole sector");
static_assert(THREADS % 32 == 0 && THREADS <= 1024, "a block has whole warps and at most 1024 threads");
static_assert(LOADS_A * THREADS * 4 == TSM * TSK, "all threads load equally much of tileA");
static_assert(LOADS_B * THREADS * 4 == TSK * TSN, "all threads load equally much of tileB");
static_assert(TSM % (THREADS / 8) == 0 && THREADS % TSN == 0, "single elements of a thread lie below each other");
static_assert(0 <= LOAD_AT && LOAD_AT <= STORE_AT && STORE_AT < TSK, "a tile is loaded, stored, then multiplied");

// The four elements from (row, col) on; all are zero outside the matrix.
__device__ void load_quad(float* to, const float* matrix, int rows, int cols, int row, int col)
{
    float4 quad = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    if (row < rows && col < cols) {
        quad = *reinterpret_cast<const float4*>(matrix + row * cols + col);
    }
    to[0] = quad.x;
    to[1] = quad.y;
    to[2] = quad.z;
    to[3] = quad.w;
}

// Writes the four elements from (row, col) on, except those outside the matrix.
__device__ void store_quad(float* matrix, int rows, int cols, int row, int col, float4 quad)
{
    if (row < rows && col < cols) {
        float* to = matrix + row * cols + col;
        if (!RAGGED) {
            *reinterpret_cast<float4*>(to) = quad;
        } else {
            to[0] = quad.x;
            if (col + 1 < cols) to[1] = quad.y;
            if (col + 2 < cols) to[2] = quad.z;
            if (col + 3 < cols) to[3] = quad.w;
        }
    }
}

// Reads four neighbouring floats by one instruction.
__device__ void get_quad(float* to, const float* from)
{
    const float4 quad = *reinterpret_cast<const float4*>(from);
    to[0] = quad.x;
    to[1] = quad.y;
    to[2] = quad.z;
    to[3] = quad.w;
}

// Which float4 of a tile is a thread's i-th? Of A: two neighbours in a row, then the next row. Of B: row by row.
__device__ int row_of_A(int thread, int i) { return (thread + i * THREADS) / 2 % TSM; }
__device__ int k_of_A(int thread, int i) { return ((thread + i * THREADS) / 2 / TSM * 2 + thread % 2) * 4; }
__device__ int k_of_B(int thread, int i) { return (thread + i * THREADS) / (TSN / 4); }
__device__ int col_of_B(int thread, int i) { return (thread + i * THREADS) % (TSN / 4) * 4; }

extern "C" __global__ void __launch_bounds__(THREADS)
matmul(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C, float* __restrict__ part,
       int* arrived, int splits, int M, int N, int K)
{
    const int share = (K + splits * 2 * TSK - 1) / (splits * 2 * TSK) * 2 * TSK;  // steps of k for each block
    const int from = blockIdx.z * share;
    const int until = min(K, from + share);
    // A warp stores float4s of 16 rows of A, 4 steps of k apart: two groups of 16 neighbours, 4 rows of tileA apart.
    // Rows of TSM + 4 floats put the second group 16 banks further on, and leave every float4 aligned.
    __shared__ __align__(16) float tileA[2][TSK][TSM + PAD];
    __shared__ __align__(16) float tileB[2][TSK][TSN];
    const int thread = threadIdx.x;
    // Lanes 0 to 3 form a patch of 2 x 2, and so on: neighbours in a row read the same float4 of tileA, neighbours
    // in a column the same of tileB, and shared memory serves such a pair at once, in half the wavefronts.
    const int warp = thread / 32;
    const int lane = thread % 32;
    const int x = warp % (TSN / WSN) * WSN + (lane / 4 % (RTSN / 2) * 2 + lane % 2) * 4;  // its first column and row
    const int y = warp / (TSN / WSN) * WSM + (lane / 4 / (RTSN / 2) * 2 + lane / 2 % 2) * 4;
    const int row0 = blockIdx.y * TSM;
    const int col0 = blockIdx.x * TSN;
    float nextA[LOADS_A * 4];  // the tile in flight
    float nextB[LOADS_B * 4];
    float a[2][WPTM];       // elements for two steps of k: one being multiplied, one in flight
    float b[2][WPTN];
    float sum[WPTM][WPTN] = {};

    // Tiles that lie inside the matrices, all float4s aligned, are read through pointers that move along k.
    const bool whole = !RAGGED && row0 + TSM <= M && col0 + TSN <= N;
    const float* fromA[LOADS_A];
    const float* fromB[LOADS_B];
    #pragma unroll
    for (int i = 0; i < LOADS_A; ++i) {
        fromA[i] = A + (row0 + row_of_A(thread, i)) * K + from + k_of_A(thread, i);
    }
    #pragma unroll
    for (int i = 0; i < LOADS_B; ++i) {
        fromB[i] = B + (from + k_of_B(thread, i)) * N + col0 + col_of_B(thread, i);
    }
    // Single elements: a warp loads 8 steps of k of 4 rows of A, which tileA has in 32 banks, and 32 columns of B.
    constexpr int STEP_A = THREADS / 8;
    constexpr int STEP_B = THREADS / TSN;
    const auto row_of_one = [&](int i) { return thread / 8 + i * STEP_A % TSM; };
    const auto k_of_one = [&](int i) { return thread % 8 + i * STEP_A / TSM * 8; };

    const auto load = [&](int k0) {  // from global memory to registers: starts the loads, waits for none
        if (RAGGED) {
            #pragma unroll
            for (int i = 0; i < LOADS_A * 4; ++i) {
                const int row = row0 + row_of_one(i);
                const int k = k0 + k_of_one(i);
                nextA[i] = row < M && k < K ? A[row * K + k] : 0.0f;
            }
            const int col = col0 + thread % TSN;
            #pragma unroll
            for (int i = 0; i < LOADS_B * 4; ++i) {
                const int k = k0 + thread / TSN + i * STEP_B;
                nextB[i] = col < N && k < K ? B[k * N + col] : 0.0f;
            }
        } else if (whole && k0 + TSK <= K) {
            #pragma unroll
            for (int i = 0; i < LOADS_A; ++i) {
                get_quad(&nextA[4 * i], fromA[i]);
                fromA[i] += TSK;
            }
            #pragma unroll
            for (int i = 0; i < LOADS_B; ++i) {
                get_quad(&nextB[4 * i], fromB[i]);
                fromB[i] += TSK * N;
            }
        } else {
            #pragma unroll
            for (int i = 0; i < LOADS_A; ++i) {
                load_quad(&nextA[4 * i], A, M, K, row0 + row_of_A(thread, i), k0 + k_of_A(thread, i));
            }
            #pragma unroll
            for (int i = 0; i < LOADS_B; ++i) {
                load_quad(&nextB[4 * i], B, K, N, k0 + k_of_B(thread, i), col0 + col_of_B(thread, i));
            }
        }
    };
    const auto store = [&](int buffer) {  // from registers to shared memory, A transposed
        if (RAGGED) {
            #pragma unroll
            for (int i = 0; i < LOADS_A * 4; ++i) {
                tileA[buffer][k_of_one(i)][row_of_one(i)] = nextA[i];
            }
            #pragma unroll
            for (int i = 0; i < LOADS_B * 4; ++i) {
                tileB[buffer][thread / TSN + i * STEP_B][thread % TSN] = nextB[i];
            }
        } else {
            #pragma unroll
            for (int i = 0; i < LOADS_A * 4; ++i) {
                tileA[buffer][k_of_A(thread, i / 4) + i % 4][row_of_A(thread, i / 4)] = nextA[i];
            }
            #pragma unroll
            for (int i = 0; i < LOADS_B; ++i) {
                const float* own = &nextB[4 * i];
                float* to = &tileB[buffer][k_of_B(thread, i)][col_of_B(thread, i)];
                *reinterpret_cast<float4*>(to) = make_float4(own[0], own[1], own[2], own[3]);
            }
        }
    };
    const auto fetch = [&](int buffer, int k) {  // from shared memory to registers
        #pragma unroll
        for (int i = 0; i < WPTM; i += 4) {
            get_quad(&a[k % 2][i], &tileA[buffer][k][y + i * RTSM]);
        }
        #pragma unroll
        for (int j = 0; j < WPTN; j += 4) {
            get_quad(&b[k % 2][j], &tileB[buffer][k][x + j * RTSN]);
        }
    };

    load(from);
    store(0);
    __syncthreads();
    fetch(0, 0);
    for (int k0 = from; k0 < until; k0 += 2 * TSK) {
        #pragma unroll
        for (int buffer = 0; buffer < 2; ++buffer) {  // two tiles a turn, so that `buffer` is a constant
            #pragma unroll
            for (int k = 0; k < TSK; ++k) {
                if (k == LOAD_AT) {
                    load(k0 + (buffer + 1) * TSK);  // past K this is a tile of zeros
                }
                if (k == STORE_AT) {
                    store(1 - buffer);
                }
                if (k + 1 < TSK) {
                    fetch(buffer, k + 1);
                } else {
                    __syncthreads();  // the next tile is complete, and nobody reads this one any more
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

    if (splits > 1) {
        __shared__ int before;
        constexpr int QUADS = WPTM * WPTN / 4;
        const int tile = blockIdx.y * gridDim.x + blockIdx.x;
        float4* const of_tile = reinterpret_cast<float4*>(part) + tile * splits * QUADS * THREADS + thread;
        #pragma unroll
        for (int quad = 0; quad < QUADS; ++quad) {
            const float* own = &sum[quad / (WPTN / 4)][quad % (WPTN / 4) * 4];
            of_tile[(blockIdx.z * QUADS + quad) * THREADS] = make_float4(own[0], own[1], own[2], own[3]);
        }
        __threadfence();
        __syncthreads();
        if (thread == 0) {
            before = atomicAdd(&arrived[tile], 1);
        }
        __syncthreads();
        if (before < splits - 1) {
            return;
        }
        __threadfence();
        if (thread == 0) {
            arrived[tile] = 0;
        }
        for (int i = 0; i < WPTM; ++i) {
            for (int j = 0; j < WPTN; ++j) {
                sum[i][j] = 0.0f;
            }
        }
        #pragma unroll 4
        for (int z = 0; z < splits; ++z) {  // the loads of one part, and of the next ones, wait for nobody
            #pragma unroll
            for (int quad = 0; quad < QUADS; ++quad) {
                const float4 its = of_tile[(z * QUADS + quad) * THREADS];
                float* own = &sum[quad / (WPTN / 4)][quad % (WPTN / 4) * 4];
                own[0] += its.x;
                own[1] += its.y;
                own[2] += its.z;
                own[3] += its.w;
            }
        }
    }
    #pragma unroll
    for (int i = 0; i < WPTM; ++i) {
        #pragma unroll
        for (int j = 0; j < WPTN; j += 4) {
            const float4 quad = make_float4(sum[i][j], sum[i][j + 1], sum[i][j + 2], sum[i][j + 3]);
            store_quad(C, M, N, row0 + y + i / 4 * 4 * RTSM + i % 4, col0 + x + j * RTSN, quad);
        }
    }
}
