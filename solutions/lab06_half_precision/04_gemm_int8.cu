// 04_gemm_int8.cu: C = A * Bt^T for 8-bit integers, four products for each instruction.
// Idea:    __dp4a multiplies the four bytes of one word by the four of another and adds all of it to an int. A word
//          is four steps of k, so 05_vectorized's kernel needs only words for floats. Nothing is ever rounded.
// From:    lab05_work_per_thread/05_vectorized.cu
// Limits:  a sum of 127 * 127 fits an int up to K = 133144, of 128 * 128 up to K = 131071. Rows of both matrices run
//          along k: B comes transposed, as weights are stored.
// Entry:   matmul_bt(const signed char A[M,K] in, const signed char Bt[N,K] in, int C[M,N] out, int M, int N, int K)
// Needs:   K <= 131071
// Launch:  matmul_bt block=(THREADS) grid=(cdiv(N, TSN), cdiv(M, TSM))

constexpr int TSM = 128;          // a block computes TSM x TSN elements of C
constexpr int TSN = 128;
constexpr int TSK = 32;           // steps of k in one tile
constexpr int WORDS = TSK / 4;    // words in a row of a tile: four steps of k each
constexpr int WPTM = 8;           // work per thread: WPTM x WPTN elements of C
constexpr int WPTN = 8;
constexpr int RTSM = TSM / WPTM;  // reduced tile sizes: threads along the rows and columns of a block
constexpr int RTSN = TSN / WPTN;
constexpr int THREADS = RTSM * RTSN;
constexpr int BLOCKS = 2;         // blocks that share a multiprocessor: each thread has 128 of its 65536 registers
constexpr int PAD = 4;            // moves the two groups of words that a warp stores 16 banks apart

static_assert(RTSM * WPTM == TSM && RTSN * WPTN == TSN, "the threads' elements cover the tile exactly");
static_assert(WPTM % 4 == 0 && WPTN % 4 == 0, "a thread's elements come in groups of four");
static_assert(TSK % 32 == 0, "two lanes load 32 neighbouring bytes of a row: a whole sector");
static_assert(THREADS % 32 == 0 && THREADS <= 1024, "a block has whole warps and at most 1024 threads");

// The 16 bytes from (row, col) on, as four words; those outside the matrix are zero.
__device__ int4 load_words(const signed char* matrix, int rows, int cols, int row, int col)
{
    int words[4] = {};
    if (row < rows && col < cols) {
        const signed char* from = matrix + static_cast<size_t>(row) * cols + col;
        if (cols % 16 == 0) {
            return *reinterpret_cast<const int4*>(from);
        }
        // BEGIN SOLUTION: put the bytes that are inside one by one into words, the first lowest (about 6 lines)
        #pragma unroll
        for (int byte = 0; byte < 16; ++byte) {
            if (col + byte < cols) {
                words[byte / 4] |= (from[byte] & 0xff) << byte % 4 * 8;
            }
        }
        // END SOLUTION
    }
    return make_int4(words[0], words[1], words[2], words[3]);
}

// Writes the four elements from (row, col) on, except those outside the matrix.
__device__ void store_quad(int* matrix, int rows, int cols, int row, int col, int4 quad)
{
    if (row < rows && col < cols) {
        int* to = matrix + static_cast<size_t>(row) * cols + col;
        if (cols % 4 == 0) {
            *reinterpret_cast<int4*>(to) = quad;
        } else {
            to[0] = quad.x;
            if (col + 1 < cols) to[1] = quad.y;
            if (col + 2 < cols) to[2] = quad.z;
            if (col + 3 < cols) to[3] = quad.w;
        }
    }
}

// Reads four neighbouring words of shared memory by one instruction.
__device__ void get_quad(int* to, const int* from)
{
    const int4 quad = *reinterpret_cast<const int4*>(from);
    to[0] = quad.x;
    to[1] = quad.y;
    to[2] = quad.z;
    to[3] = quad.w;
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
matmul_bt(const signed char* __restrict__ A, const signed char* __restrict__ Bt, int* __restrict__ C,
          int M, int N, int K)
{
    // A warp stores the words of 16 rows, two int4s of each: rows of TSM + 4 words put the second 16 banks further on.
    __shared__ __align__(16) int tileA[WORDS][TSM + PAD];
    __shared__ __align__(16) int tileB[WORDS][TSN + PAD];
    const int thread = threadIdx.x;
    const int x = thread % RTSN * 4;
    const int y = thread / RTSN * 4;
    const int row0 = blockIdx.y * TSM;
    const int col0 = blockIdx.x * TSN;
    int sum[WPTM][WPTN] = {};

    for (int k0 = 0; k0 < K; k0 += TSK) {
        for (int i = thread; i < TSM * WORDS / 4; i += THREADS) {
            const int m = i / 2 % TSM;  // two neighbours in a row of A, then the next row
            const int w = (i / 2 / TSM * 2 + i % 2) * 4;
            const int4 words = load_words(A, M, K, row0 + m, k0 + w * 4);
            tileA[w][m] = words.x;
            tileA[w + 1][m] = words.y;
            tileA[w + 2][m] = words.z;
            tileA[w + 3][m] = words.w;
        }
        for (int i = thread; i < TSN * WORDS / 4; i += THREADS) {
            const int n = i / 2 % TSN;
            const int w = (i / 2 / TSN * 2 + i % 2) * 4;
            const int4 words = load_words(Bt, N, K, col0 + n, k0 + w * 4);
            tileB[w][n] = words.x;
            tileB[w + 1][n] = words.y;
            tileB[w + 2][n] = words.z;
            tileB[w + 3][n] = words.w;
        }
        __syncthreads();  // the tiles are complete
        // BEGIN SOLUTION: per word, elements into registers, then all their dot products (about 15 lines)
        #pragma unroll
        for (int w = 0; w < WORDS; ++w) {
            int a[WPTM];
            int b[WPTN];
            for (int i = 0; i < WPTM; i += 4) {
                get_quad(&a[i], &tileA[w][y + i * RTSM]);
            }
            for (int j = 0; j < WPTN; j += 4) {
                get_quad(&b[j], &tileB[w][x + j * RTSN]);
            }
            for (int i = 0; i < WPTM; ++i) {
                for (int j = 0; j < WPTN; ++j) {
                    sum[i][j] = __dp4a(a[i], b[j], sum[i][j]);
                }
            }
        }
        // END SOLUTION
        __syncthreads();  // nobody reads them any more
    }

    for (int i = 0; i < WPTM; ++i) {
        for (int j = 0; j < WPTN; j += 4) {
            const int4 quad = make_int4(sum[i][j], sum[i][j + 1], sum[i][j + 2], sum[i][j + 3]);
            store_quad(C, M, N, row0 + y + i / 4 * 4 * RTSM + i % 4, col0 + x + j * RTSN, quad);
        }
    }
}
