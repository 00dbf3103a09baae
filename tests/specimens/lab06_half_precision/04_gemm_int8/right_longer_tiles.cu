// right_longer_tiles.cu: tiles of 64 steps of k: half of the barriers.
// Entry:   matmul_bt(const signed char A[M,K] in, const signed char Bt[N,K] in, int C[M,N] out, int M, int N, int K)
// Needs:   K <= 131071
// Launch:  matmul_bt block=(THREADS) grid=(cdiv(N, TSN), cdiv(M, TSM))
//
// expect: AC

constexpr int TSM = 128;
constexpr int TSN = 128;
constexpr int TSK = 64;
constexpr int WORDS = TSK / 4;
constexpr int WPTM = 8;
constexpr int WPTN = 8;
constexpr int RTSM = TSM / WPTM;
constexpr int RTSN = TSN / WPTN;
constexpr int THREADS = RTSM * RTSN;
constexpr int BLOCKS = 2;
constexpr int PAD = 4;

__device__ int4 load_words(const signed char* matrix, int rows, int cols, int row, int col)
{
    int words[4] = {};
    if (row < rows && col < cols) {
        const signed char* from = matrix + static_cast<size_t>(row) * cols + col;
        if (cols % 16 == 0) {
            return *reinterpret_cast<const int4*>(from);
        }
        #pragma unroll
        for (int byte = 0; byte < 16; ++byte) {
            if (col + byte < cols) {
                words[byte / 4] |= (from[byte] & 0xff) << byte % 4 * 8;
            }
        }
    }
    return make_int4(words[0], words[1], words[2], words[3]);
}

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
            const int m = i / 2 % TSM;
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
        __syncthreads();
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
        __syncthreads();
    }

    for (int i = 0; i < WPTM; ++i) {
        for (int j = 0; j < WPTN; j += 4) {
            const int4 quad = make_int4(sum[i][j], sum[i][j + 1], sum[i][j + 2], sum[i][j + 3]);
            store_quad(C, M, N, row0 + y + i / 4 * 4 * RTSM + i % 4, col0 + x + j * RTSN, quad);
        }
    }
}
