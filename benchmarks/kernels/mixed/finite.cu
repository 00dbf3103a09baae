// finite.cu: whether all gradients are finite numbers: else the step must not count.
// Idea:    the gradients of convolutions and of all biases are looked at, as they are what will be used. Those of dense
//          weights are never stored: they are finite if the activations and slopes that they are made of are, and a
//          bias's gradient is a sum of these slopes. (A sum of 32 products of halfs is far below float32's largest.)
// Entry:   look(const float gradients[N] in, const half activations[M] in, float state[8] inout, int N, int M)
// Needs:   N % 4 == 0, M % 8 == 0
// Launch:  look block=(THREADS) grid=(BLOCKS)

#include <cuda_fp16.h>

constexpr int THREADS = 512;
constexpr int BLOCKS = 528;
constexpr int FOUND = 1;  // number of the state: 1 if one is not finite

extern "C" __global__ void look(const float* gradients, const half* activations, float* state, int N, int M)
{
    bool fine = true;
    const int start = blockIdx.x * THREADS + threadIdx.x;
    #pragma unroll 4
    for (int n = start; n < N / 4; n += BLOCKS * THREADS) {
        const float4 four = reinterpret_cast<const float4*>(gradients)[n];
        fine = fine && isfinite(four.x) && isfinite(four.y) && isfinite(four.z) && isfinite(four.w);
    }
    for (int m = start; m < M / 8; m += BLOCKS * THREADS) {
        const uint4 eight = reinterpret_cast<const uint4*>(activations)[m];
        for (const unsigned both : {eight.x, eight.y, eight.z, eight.w}) {
            fine = fine && (both & 0x7c00u) != 0x7c00u && (both & 0x7c000000u) != 0x7c000000u;
        }
    }
    if (!fine) atomicExch(&state[FOUND], 1.0f);
}
