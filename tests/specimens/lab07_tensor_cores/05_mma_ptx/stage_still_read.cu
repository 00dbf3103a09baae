// stage_still_read.cu: copies into a stage before all warps have fetched the last of it.
// Entry:   matmul(const half A[M,K] in, const half B[K,N] in, float C[M,N] out, int M, int N, int K)
// Launch:  matmul block=(THREADS) grid=(cdiv(M, TSM) * cdiv(N, TSN)) shared=SHARED

#include <cuda_fp16.h>
#include <cuda_pipeline.h>

constexpr int TSM = 128;
constexpr int TSN = 256;
constexpr int TSK = 32;
constexpr int STAGES = 6;
constexpr int WSM = 64;
constexpr int WSN = 64;
constexpr int FRAGS_M = WSM / 16;
constexpr int FRAGS_N = WSN / 8;
constexpr int GROUP = 16;
constexpr int STEPS = TSK / 16;
constexpr int WARPS_N = TSN / WSN;
constexpr int THREADS = TSM / WSM * WARPS_N * 32;
constexpr int CHUNK = 8;
constexpr int CHUNKS_A = TSK / CHUNK;
constexpr int CHUNKS_B = TSN / CHUNK;
constexpr int ROWS_A = THREADS / CHUNKS_A;
constexpr int ROWS_B = THREADS / CHUNKS_B;
constexpr int STAGE = TSM * TSK + TSK * TSN;
constexpr int SHARED = 2 * STAGES * STAGE;

__device__ int place_in_A(int row, int chunk)
{
    return (row * CHUNKS_A + (chunk ^ row * CHUNKS_A / 8 % CHUNKS_A)) * CHUNK;
}
__device__ int place_in_B(int row, int chunk) { return (row * CHUNKS_B + (chunk ^ row % 8)) * CHUNK; }

__device__ void copy_chunk(half* to, const half* matrix, int rows, int cols, int row, int col)
{
    const bool inside = row < rows && col < cols;
    const half* from = matrix + (inside ? row * cols + col : 0);
    if (cols % CHUNK == 0) {
        __pipeline_memcpy_async(to, from, 16, inside ? 0 : 16);
    } else {
        __align__(16) half each[CHUNK];
        #pragma unroll
        for (int i = 0; i < CHUNK; ++i) {
            each[i] = inside && col + i < cols ? from[i] : __float2half(0.0f);
        }
        *reinterpret_cast<uint4*>(to) = *reinterpret_cast<const uint4*>(each);
    }
}

__device__ void load_matrices(unsigned (&matrices)[4], const half* row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(matrices[0]), "=r"(matrices[1]), "=r"(matrices[2]), "=r"(matrices[3])
                 : "r"(static_cast<unsigned>(__cvta_generic_to_shared(row))) : "memory");
}

__device__ void load_matrices_transposed(unsigned (&matrices)[4], const half* row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(matrices[0]), "=r"(matrices[1]), "=r"(matrices[2]), "=r"(matrices[3])
                 : "r"(static_cast<unsigned>(__cvta_generic_to_shared(row))) : "memory");
}

__device__ void multiply(float (&sum)[4], const unsigned (&a)[4], const unsigned* b)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

__device__ void store_pair(float* C, int M, int N, int row, int col, float left, float right)
{
    if (row < M && col < N) {
        float* to = C + row * N + col;
        if (N % 2 == 0) {
            *reinterpret_cast<float2*>(to) = make_float2(left, right);
        } else {
            to[0] = left;
            if (col + 1 < N) to[1] = right;
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
matmul(const half* __restrict__ A, const half* __restrict__ B, float* __restrict__ C, int M, int N, int K)
{
    extern __shared__ __align__(128) half stages[];
    const int thread = threadIdx.x;
    const int warp = thread / 32;
    const int lane = thread % 32;
    const int y = warp / WARPS_N * WSM;
    const int x = warp % WARPS_N * WSN;
    const int across = (N + TSN - 1) / TSN;
    const int first = blockIdx.x / (GROUP * across) * GROUP;
    const int height = min(GROUP, (M + TSM - 1) / TSM - first);
    const int row0 = (first + blockIdx.x % (GROUP * across) % height) * TSM;
    const int col0 = blockIdx.x % (GROUP * across) / height * TSN;
    const int tiles = (K + TSK - 1) / TSK;

    const int rowA = thread / CHUNKS_A;
    const int colA = thread % CHUNKS_A * CHUNK;
    const int rowB = thread / CHUNKS_B;
    const int colB = thread % CHUNKS_B * CHUNK;
    const half* const fromA = A + (row0 + rowA) * K + colA;
    const half* const fromB = B + rowB * N + col0 + colB;
    const bool whole = K % CHUNK == 0 && N % CHUNK == 0 && row0 + TSM <= M && col0 + TSN <= N;
    const int toA = place_in_A(rowA, colA / CHUNK);
    const int toB = TSM * TSK + place_in_B(rowB, colB / CHUNK);
    const auto copy = [&](int tile, half* stage) {
        const int k0 = tile * TSK;
        if (whole && k0 + TSK <= K) {
            #pragma unroll
            for (int row = 0; row < TSM; row += ROWS_A) {
                __pipeline_memcpy_async(stage + toA + row * TSK, fromA + row * K + k0, 16);  // expect: RACE
            }
            #pragma unroll
            for (int row = 0; row < TSK; row += ROWS_B) {
                __pipeline_memcpy_async(stage + toB + row * TSN, fromB + (k0 + row) * N, 16);
            }
        } else if (k0 < K) {
            for (int row = 0; row < TSM; row += ROWS_A) {
                copy_chunk(stage + toA + row * TSK, A, M, K, row0 + rowA + row, k0 + colA);
            }
            for (int row = 0; row < TSK; row += ROWS_B) {
                copy_chunk(stage + toB + row * TSN, B, K, N, k0 + rowB + row, col0 + colB);
            }
        }
        __pipeline_commit();
    };

    unsigned a[2][FRAGS_M][4];
    unsigned b[2][FRAGS_N / 2][4];
    float sum[FRAGS_M][FRAGS_N][4] = {};
    int beginA[STEPS] = {};
    int beginB[FRAGS_N / 2] = {};
    #pragma unroll
    for (int step = 0; step < STEPS; ++step) {
        beginA[step] = place_in_A(y + lane % 16, step * 2 + lane / 16);
    }
    #pragma unroll
    for (int j = 0; j < FRAGS_N / 2; ++j) {
        beginB[j] = place_in_B(lane % 16, x / CHUNK + j * 2 + lane / 16);
    }
    const auto fetch = [&](const half* tileA, int step) {
        const half* tileB = tileA + TSM * TSK;
        #pragma unroll
        for (int i = 0; i < FRAGS_M; ++i) {
            load_matrices(a[step % 2][i], tileA + beginA[step] + i * 16 * TSK);
        }
        #pragma unroll
        for (int j = 0; j < FRAGS_N / 2; ++j) {
            load_matrices_transposed(b[step % 2][j], tileB + beginB[j] + step * 16 * TSN);
        }
    };

    for (int tile = 0; tile < STAGES; ++tile) {
        copy(tile, stages + tile * STAGE);
    }
    half* stage = stages;
    __pipeline_wait_prior(STAGES - 1);
    __syncthreads();
    fetch(stage, 0);
    for (int tile = 0; tile < tiles; ++tile) {
        #pragma unroll
        for (int step = 0; step < STEPS; ++step) {
            if (step + 1 < STEPS) {
                fetch(stage, step + 1);
            } else {
                copy(tile + STAGES, stage);
                stage = stage == stages + (STAGES - 1) * STAGE ? stages : stage + STAGE;
                __pipeline_wait_prior(STAGES - 1);
                __syncthreads();
                if (tile + 1 < tiles) fetch(stage, 0);
            }
            #pragma unroll
            for (int i = 0; i < FRAGS_M; ++i) {
                #pragma unroll
                for (int turn = 0; turn < FRAGS_N; ++turn) {
                    const int j = i % 2 == 0 ? turn : FRAGS_N - 1 - turn;
                    multiply(sum[i][j], a[step % 2][i], &b[step % 2][j / 2][j % 2 * 2]);
                }
            }
        }
    }

    #pragma unroll
    for (int i = 0; i < FRAGS_M; ++i) {
        #pragma unroll
        for (int j = 0; j < FRAGS_N; ++j) {
            const int row = row0 + y + i * 16 + lane / 4;
            const int col = col0 + x + j * 8 + lane % 4 * 2;
            store_pair(C, M, N, row, col, sum[i][j][0], sum[i][j][1]);
            store_pair(C, M, N, row + 8, col, sum[i][j][2], sum[i][j][3]);
        }
    }
}
