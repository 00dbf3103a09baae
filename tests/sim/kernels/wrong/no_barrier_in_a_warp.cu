// A warp is no longer in lockstep: __syncwarp is missing.
// launch: grid=1 block=32
extern "C" __global__ void k(const float* x, float* y, int* state, int n)
{
    const int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    __shared__ float s[32];
    s[t] = x[i];  // expect: RACE
    y[i] = s[31 - t];  // expect: RACE
}
