// same_buffer.cu: stores the next tile over the one that is being read.
// Entry:   matmul(const float A[M,K] in, const float B[K,N] in, float C[M,N] out, int M, int N, int K)
// Launch:  matmul block=(THREADS) grid=(cdiv(N, TSN), cdiv(M, TSM))

constexpr int TSM = 128;
constexpr int TSN = 128;
constexpr int TSK = 8;
constexpr int WPTM = 8;
constexpr int WPTN = 8;
constexpr int RTSM = TSM / WPTM;
constexpr int RTSN = TSN / WPTN;
constexpr int THREADS = RTSM * RTSN;
constexpr int BLOCKS = 2;
constexpr int PAD = 4;
constexpr int LOADS_A = TSM * TSK / 4 / THREADS;
constexpr int LOADS_B = TSK * TSN / 4 / THREADS;
constexpr int LOAD_AT = 2;
constexpr int STORE_AT = TSK - 2;

__device__ float4 load_quad(const float* matrix, int rows, int cols, int row, int col)
{
    float4 quad = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    if (row < rows && col < cols) {
        const float* from = matrix + row * cols + col;
        if (cols % 4 == 0) {
            quad = *reinterpret_cast<const float4*>(from);
        } else {
            quad.x = from[0];
            if (col + 1 < cols) quad.y = from[1];
            if (col + 2 < cols) quad.z = from[2];
            if (col + 3 < cols) quad.w = from[3];
        }
    }
    return quad;
}

__device__ void store_quad(float* matrix, int rows, int cols, int row, int col, float4 quad)
{
    if (row < rows && col < cols) {
        float* to = matrix + row * cols + col;
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

__device__ int row_of_A(int thread, int i) { return (thread + i * THREADS) / 2 % TSM; }
__device__ int k_of_A(int thread, int i) { return ((thread + i * THREADS) / 2 / TSM * 2 + thread % 2) * 4; }
__device__ int k_of_B(int thread, int i) { return (thread + i * THREADS) / (TSN / 4); }
__device__ int col_of_B(int thread, int i) { return (thread + i * THREADS) % (TSN / 4) * 4; }

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
matmul(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C, int M, int N, int K)
{
    __shared__ __align__(16) float tileA[2][TSK][TSM + PAD];
    __shared__ __align__(16) float tileB[2][TSK][TSN];
    const int thread = threadIdx.x;
    const int x = thread % RTSN * 4;
    const int y = thread / RTSN * 4;
    const int row0 = blockIdx.y * TSM;
    const int col0 = blockIdx.x * TSN;
    float4 nextA[LOADS_A];
    float4 nextB[LOADS_B];
    float a[2][WPTM];
    float b[2][WPTN];
    float sum[WPTM][WPTN] = {};

    const bool whole = K % 4 == 0 && N % 4 == 0 && row0 + TSM <= M && col0 + TSN <= N;
    const float* fromA[LOADS_A];
    const float* fromB[LOADS_B];
    #pragma unroll
    for (int i = 0; i < LOADS_A; ++i) {
        fromA[i] = A + (row0 + row_of_A(thread, i)) * K + k_of_A(thread, i);
    }
    #pragma unroll
    for (int i = 0; i < LOADS_B; ++i) {
        fromB[i] = B + k_of_B(thread, i) * N + col0 + col_of_B(thread, i);
    }

    const auto load = [&](int k0) {
        if (whole && k0 + TSK <= K) {
            #pragma unroll
            for (int i = 0; i < LOADS_A; ++i) {
                nextA[i] = *reinterpret_cast<const float4*>(fromA[i]);
                fromA[i] += TSK;
            }
            #pragma unroll
            for (int i = 0; i < LOADS_B; ++i) {
                nextB[i] = *reinterpret_cast<const float4*>(fromB[i]);
                fromB[i] += TSK * N;
            }
        } else {
            #pragma unroll
            for (int i = 0; i < LOADS_A; ++i) {
                nextA[i] = load_quad(A, M, K, row0 + row_of_A(thread, i), k0 + k_of_A(thread, i));
            }
            #pragma unroll
            for (int i = 0; i < LOADS_B; ++i) {
                nextB[i] = load_quad(B, K, N, k0 + k_of_B(thread, i), col0 + col_of_B(thread, i));
            }
        }
    };
    const auto store = [&](int buffer) {
        #pragma unroll
        for (int i = 0; i < LOADS_A; ++i) {
            float* to = &tileA[buffer][k_of_A(thread, i)][row_of_A(thread, i)];
            to[0] = nextA[i].x;  // expect: RACE
            to[TSM + PAD] = nextA[i].y;
            to[2 * (TSM + PAD)] = nextA[i].z;
            to[3 * (TSM + PAD)] = nextA[i].w;
        }
        #pragma unroll
        for (int i = 0; i < LOADS_B; ++i) {
            *reinterpret_cast<float4*>(&tileB[buffer][k_of_B(thread, i)][col_of_B(thread, i)]) = nextB[i];
        }
    };
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

    load(0);
    store(0);
    __syncthreads();
    fetch(0, 0);
    for (int k0 = 0; k0 < K; k0 += 2 * TSK) {
        #pragma unroll
        for (int buffer = 0; buffer < 2; ++buffer) {
            #pragma unroll
            for (int k = 0; k < TSK; ++k) {
                if (k == LOAD_AT) {
                    load(k0 + (buffer + 1) * TSK);
                }
                if (k == STORE_AT) {
                    store(buffer);
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
                    for (int j = 0; j < WPTN; ++j) {
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
