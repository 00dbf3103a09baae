// update.cu: SGD with momentum on float32 weights from scaled gradients, their copies as halfs, and the next scale.
// Idea:    half precision computes, float32 remembers: a weight changes by less than half precision can tell apart. If a
//          gradient was not finite, nothing changes but the scale, which is halved; after `patience` steps without that
//          it is doubled (the rule of PyTorch's GradScaler).
// From:    lab11_training/06_sgd_momentum.cu
// Entry:   update(const float gradients[N] in, float w[N] inout, float velocity[N] inout, half copy[N] inout,
//                 float state[8] in, float rate, float momentum, int N)
// Entry:   adapt(float state[8] inout, int patience)
// Needs:   N % 4 == 0
// Launch:  update block=(THREADS) grid=(cdiv(N / 4, THREADS))
// Launch:  adapt block=(1) grid=(1)

#include <cuda_fp16.h>

constexpr int THREADS = 256;
constexpr int SCALE = 0, FOUND = 1, GOOD = 2, STEPS = 3;  // numbers of the state; GOOD: steps since the scale changed

union Four {
    uint2 whole;
    half parts[4];
};

extern "C" __global__ void update(const float* gradients, float* w, float* velocity, half* copy, const float* state,
                                  float rate, float momentum, int N)
{
    const int n = blockIdx.x * THREADS + threadIdx.x;
    if (n >= N / 4 || state[FOUND] != 0.0f) return;
    const float share = 1.0f / state[SCALE];
    const float4 gradient = reinterpret_cast<const float4*>(gradients)[n];
    float4 speed = reinterpret_cast<const float4*>(velocity)[n];
    float4 weight = reinterpret_cast<const float4*>(w)[n];
    speed.x = momentum * speed.x + share * gradient.x;
    speed.y = momentum * speed.y + share * gradient.y;
    speed.z = momentum * speed.z + share * gradient.z;
    speed.w = momentum * speed.w + share * gradient.w;
    weight.x -= rate * speed.x;
    weight.y -= rate * speed.y;
    weight.z -= rate * speed.z;
    weight.w -= rate * speed.w;
    Four rounded;
    rounded.parts[0] = __float2half(weight.x);
    rounded.parts[1] = __float2half(weight.y);
    rounded.parts[2] = __float2half(weight.z);
    rounded.parts[3] = __float2half(weight.w);
    reinterpret_cast<float4*>(velocity)[n] = speed;
    reinterpret_cast<float4*>(w)[n] = weight;
    reinterpret_cast<uint2*>(copy)[n] = rounded.whole;
}

extern "C" __global__ void adapt(float* state, int patience)
{
    if (state[FOUND] != 0.0f) {
        state[SCALE] *= 0.5f;
        state[GOOD] = 0.0f;
    } else {
        state[STEPS] += 1.0f;
        state[GOOD] += 1.0f;
        if (state[GOOD] >= patience) {
            state[SCALE] *= 2.0f;
            state[GOOD] = 0.0f;
        }
    }
    state[FOUND] = 0.0f;
}
