// Kernels on tensor cores: a pipeline of asynchronous copies, products from ldmatrix, and wrong uses of fragments.
#include <cuda_fp16.h>
#include <cuda_pipeline.h>
#include <mma.h>
using namespace nvcuda;
constexpr int BM = 32, BN = 32, BK = 32, PAD = 8, STAGES = 3;
using FragmentA = wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major>;
using FragmentB = wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major>;
using Transposed = wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major>;
using Sum = wmma::fragment<wmma::accumulator, 16, 16, 16, float>;

extern "C" __global__ void __launch_bounds__(128)
pipelined(const half *A, const half *B, float *C, int M, int N, int K, float alpha)
{
    __shared__ __align__(32) half As[STAGES][BM][BK + PAD], Bs[STAGES][BK][BN + PAD];
    int warp = threadIdx.x / 32, row = warp / 2 * 16, col = warp % 2 * 16;
    int row0 = blockIdx.y * BM, col0 = blockIdx.x * BN;
    Sum sum;
    wmma::fill_fragment(sum, 0.0f);
    auto load = [&](int stage, int k0) {
        int r = threadIdx.x / 4, q = threadIdx.x % 4 * 8;
        bool inA = k0 < K && row0 + r < M, inB = k0 < K;
        __pipeline_memcpy_async(&As[stage][r][q], inA ? &A[(row0 + r) * K + k0 + q] : A, 16, inA ? 0 : 16);
        __pipeline_memcpy_async(&Bs[stage][r][q], inB ? &B[(k0 + r) * N + col0 + q] : B, 16, inB ? 0 : 16);
        __pipeline_commit();
    };
    for (int stage = 0; stage < STAGES - 1; stage++)
        load(stage, stage * BK);
    for (int k0 = 0, stage = 0; k0 < K; k0 += BK, stage = (stage + 1) % STAGES) {
        __pipeline_wait_prior(STAGES - 2);
        __syncthreads();
        load((stage + STAGES - 1) % STAGES, k0 + (STAGES - 1) * BK);
        for (int k = 0; k < BK; k += 16) {
            FragmentA a;
            FragmentB b;
            wmma::load_matrix_sync(a, &As[stage][row][k], BK + PAD);
            wmma::load_matrix_sync(b, &Bs[stage][k][col], BN + PAD);
            wmma::mma_sync(sum, a, b, sum);
        }
    }
    __pipeline_wait_prior(0);
    for (int i = 0; i < sum.num_elements; i++)
        sum.x[i] *= alpha;
    if (row0 + row < M)
        wmma::store_matrix_sync(&C[(row0 + row) * N + col0 + col], sum, N, wmma::mem_row_major);
}

// One warp, 16 x 8 x 16, from registers that ldmatrix fills; every lane stores its own elements.
extern "C" __global__ void from_ldmatrix(const half *A, const half *B, float *C, int K, int lanes_apart)
{
    __shared__ __align__(16) half As[16][24], Bs[16][8];
    int lane = threadIdx.x, group = lane / 4, pair = lane % 4 * 2;
    float d[4] = {0, 0, 0, 0};
    for (int k0 = 0; k0 < K; k0 += 16) {
        for (int n = lane; n < 256; n += 32)
            As[n / 16][n % 16] = A[n / 16 * K + k0 + n % 16];
        for (int n = lane; n < 128; n += 32)
            Bs[n / 8][n % 8] = B[(k0 + n / 8) * 8 + n % 8];
        __syncwarp();
        unsigned a[4], b[2];
        unsigned atA = __cvta_generic_to_shared(&As[lane % 16][lane / 16 * 8]);
        unsigned atB = __cvta_generic_to_shared(&Bs[lane % 16][0]);
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                     : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3]) : "r"(atA));
        asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];"
                     : "=r"(b[0]), "=r"(b[1]) : "r"(atB));
        if (lane < lanes_apart) // parts the warp now and then, so that registers go to and fro
            d[0] += 0.0f * K;
        asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
            : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
        __syncwarp();
    }
    for (int i = 0; i < 4; i++)
        C[(group + i / 2 * 8) * 8 + pair + i % 2] = d[i];
}

// Eight rows of 8 halves through stmatrix and movmatrix: C = transposed input.
extern "C" __global__ void transposed(const half *A, half *C)
{
    __shared__ __align__(16) half tile[8][8];
    int lane = threadIdx.x;
    unsigned value = ((const unsigned *)A)[lane], turned;
    asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(turned) : "r"(value));
    unsigned at = __cvta_generic_to_shared(&tile[lane % 8][0]);
    asm volatile("stmatrix.sync.aligned.m8n8.x1.shared.b16 [%0], {%1};" :: "r"(at), "r"(turned));
    __syncwarp();
    ((unsigned *)C)[lane] = ((unsigned *)tile)[lane];
}

extern "C" __global__ void without_barrier(const half *A, float *C)
{
    __shared__ __align__(32) half As[64][24];
    int t = threadIdx.x, warp = t / 32;
    *(float4 *)&As[t / 2][t % 2 * 8] = *(const float4 *)&A[t * 8];
    FragmentA a;
    wmma::load_matrix_sync(a, &As[(warp * 16 + 16) % 64][0], 24);
    C[t] = a.x[0];
}

extern "C" __global__ void partly_written(const half *A, float *C)
{
    __shared__ __align__(32) half As[16][16];
    if (threadIdx.x < 28)
        *(float4 *)&As[threadIdx.x / 2][threadIdx.x % 2 * 8] = *(const float4 *)&A[threadIdx.x * 8];
    __syncthreads();
    FragmentA a;
    wmma::load_matrix_sync(a, &As[0][0], 16);
    C[threadIdx.x] = a.x[0];
}

extern "C" __global__ void half_a_warp(const half *A, float *C)
{
    FragmentA a;
    if (threadIdx.x < 16)
        wmma::load_matrix_sync(a, A, 16);
    C[threadIdx.x] = a.x[0];
}

extern "C" __global__ void anywhere(const half *A, float *C, int offset, int stride)
{
    FragmentA a;
    wmma::load_matrix_sync(a, A + offset, stride);
    C[threadIdx.x] = a.x[0];
}

extern "C" __global__ void unlike(const half *A, float *C)
{
    FragmentA a;
    wmma::load_matrix_sync(a, A + threadIdx.x / 16 * 16, 16);
    C[threadIdx.x] = a.x[0];
}

extern "C" __global__ void overlapping(float *C)
{
    Sum sum;
    wmma::fill_fragment(sum, 1.0f);
    wmma::store_matrix_sync(C + threadIdx.x / 32 * 128, sum, 16, wmma::mem_row_major);
}

// each hexadecimal digit of `steps` is one: 1 and 2 store by warp 0 and 1, 4 and 5 load by warp 0 and 1, 6 a barrier
extern "C" __global__ void in_turns(float *C, int in_shared, unsigned steps)
{
    __shared__ __align__(32) float tile[256];
    float *at = in_shared ? tile : C;
    int warp = threadIdx.x / 32;
    Sum sum;
    wmma::fill_fragment(sum, 1.0f);
    for (; steps; steps >>= 4) {
        int step = steps & 15;
        if (step == 6)
            __syncthreads();
        else if (step == 1 + warp)
            wmma::store_matrix_sync(at, sum, 16, wmma::mem_row_major);
        else if (step == 4 + warp)
            wmma::load_matrix_sync(sum, at, 16, wmma::mem_row_major);
    }
}

extern "C" __global__ void product_from(const half *A, float *C, int offset, int stride)
{
    FragmentA a;
    Transposed b;
    Sum sum;
    wmma::fill_fragment(sum, 1.0f);
    wmma::load_matrix_sync(a, A + offset, stride);
    wmma::load_matrix_sync(b, A + offset, stride);
    wmma::mma_sync(sum, a, b, sum);
    wmma::store_matrix_sync(C, sum, 16, wmma::mem_row_major);
}
