// dense_update.cu: the gradient of a dense layer's weights for 32 images, used by SGD with momentum where it is made.
// Idea:    a gradient of 103 million weights that is written and read again costs as much as all of their momentum. It
//          need not exist: 32 images are two products deep, so a warp makes a piece of it in registers, and weights and
//          momentum come and go in its place. A gradient from finite halfs is finite, so whether the step counts is
//          known before (finite.cu). A lane's results are eight neighbours of two rows: whole sectors.
// From:    lab13_vgg16/05_fc_small_batch_backward.cu, lab11_training/06_sgd_momentum.cu
// Limits:  32 images; inputs are a multiple of 32.
// Entry:   update(const half dy[32,OUT] in, const half x[32,IN] in, float w[OUT,IN] inout, float velocity[OUT,IN] inout,
//                 half copy[OUT,IN] inout, const float state[8] in, float rate, float momentum, int IN, int OUT)
// Needs:   IN % 32 == 0, OUT % 8 == 0, OUT * IN <= 2147483647
// Launch:  update block=(THREADS) grid=(cdiv(IN, SPAN * WARPS), cdiv(OUT, 16))

#include <cuda_fp16.h>

constexpr int IMAGES = 32;
constexpr int WARPS = 4;
constexpr int THREADS = 32 * WARPS;
constexpr int SPAN = 128;  // inputs of a warp, 32 at a time
constexpr int SCALE = 0, FOUND = 1;  // numbers of the state: what the loss was multiplied by, 1 if a slope is not finite

union Four {
    uint2 whole;
    unsigned pairs[2];
};

union Eight {
    uint4 whole;
    half parts[8];
};

// d (16 x 8) += a (16 x 16) * b (16 x 8)
__device__ void multiply(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Two images' slopes of one output.
__device__ unsigned two(const half* dy, int image, int out, int OUT)
{
    const half2 both = __halves2half2(dy[static_cast<long long>(image) * OUT + out],
                                      dy[static_cast<long long>(image + 1) * OUT + out]);
    return *reinterpret_cast<const unsigned*>(&both);
}

extern "C" __global__ void __launch_bounds__(THREADS) update(const half* dy, const half* x, float* w, float* velocity,
                                                             half* copy, const float* state, float rate, float momentum,
                                                             int IN, int OUT)
{
    const int lane = threadIdx.x % 32;
    const int group = lane / 4;
    const int four = lane % 4 * 4;  // the lane's images: four of each half of them
    const int out = blockIdx.y * 16 + group;
    const int start = (blockIdx.x * WARPS + threadIdx.x / 32) * SPAN;
    if (state[FOUND] != 0.0f) return;
    const float share = 1.0f / state[SCALE];
    const int low = min(out, OUT - 1);
    const int high = min(out + 8, OUT - 1);
    unsigned a[2][4];
    #pragma unroll
    for (int k = 0; k < 2; ++k) {  // sixteen images each
        a[k][0] = two(dy, k * 16 + four, low, OUT);
        a[k][1] = two(dy, k * 16 + four, high, OUT);
        a[k][2] = two(dy, k * 16 + four + 2, low, OUT);
        a[k][3] = two(dy, k * 16 + four + 2, high, OUT);
    }
    for (int first = start; first < min(start + SPAN, IN); first += 32) {
        float d[4][4] = {};
        #pragma unroll
        for (int k = 0; k < 2; ++k) {
            Four b[4];
            #pragma unroll
            for (int i = 0; i < 4; ++i) {
                const long long image = k * 16 + four + i;
                b[i].whole = *reinterpret_cast<const uint2*>(x + image * IN + first + group * 4);
            }
            #pragma unroll
            for (int n = 0; n < 4; ++n) {  // the n-th of each lane's four inputs
                const unsigned which = n % 2 ? 0x7632 : 0x5410;
                multiply(d[n], a[k], __byte_perm(b[0].pairs[n / 2], b[1].pairs[n / 2], which),
                         __byte_perm(b[2].pairs[n / 2], b[3].pairs[n / 2], which));
            }
        }
        #pragma unroll
        for (int below = 0; below < 2; ++below) {
            if (out + below * 8 >= OUT) continue;
            const long long at = static_cast<long long>(out + below * 8) * IN + first + lane % 4 * 8;
            Eight rounded;
            #pragma unroll
            for (int part = 0; part < 2; ++part) {  // inputs 8 t to 8 t + 3 were columns 2 t of the four products
                float4 speed = *reinterpret_cast<const float4*>(velocity + at + part * 4);
                float4 weight = *reinterpret_cast<const float4*>(w + at + part * 4);
                const int e = below * 2 + part;
                speed.x = momentum * speed.x + share * d[0][e];
                speed.y = momentum * speed.y + share * d[1][e];
                speed.z = momentum * speed.z + share * d[2][e];
                speed.w = momentum * speed.w + share * d[3][e];
                weight.x -= rate * speed.x;
                weight.y -= rate * speed.y;
                weight.z -= rate * speed.z;
                weight.w -= rate * speed.w;
                *reinterpret_cast<float4*>(velocity + at + part * 4) = speed;
                *reinterpret_cast<float4*>(w + at + part * 4) = weight;
                rounded.parts[part * 4] = __float2half(weight.x);
                rounded.parts[part * 4 + 1] = __float2half(weight.y);
                rounded.parts[part * 4 + 2] = __float2half(weight.z);
                rounded.parts[part * 4 + 3] = __float2half(weight.w);
            }
            *reinterpret_cast<uint4*>(copy + at) = rounded.whole;
        }
    }
}
