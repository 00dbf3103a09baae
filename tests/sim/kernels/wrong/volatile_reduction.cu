// The unrolled last warp of old: volatile instead of __syncwarp.
// launch: grid=1 block=64
extern "C" __global__ void k(const float* x, float* y, int* state, int n)
{
    const int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    __shared__ volatile float s[64];
    s[t] = x[i];
    __syncthreads();
    if (t < 32) {
        s[t] += s[t + 32];  // expect: LOCKSTEP
        s[t] += s[t + 16];  // expect: LOCKSTEP
        s[t] += s[t + 8];  // expect: LOCKSTEP
        s[t] += s[t + 4];  // expect: LOCKSTEP
        s[t] += s[t + 2];  // expect: LOCKSTEP
        s[t] += s[t + 1];  // expect: LOCKSTEP
    }
    if (t == 0) y[0] = s[0];
}
