// The same with st.release and ld.acquire.
// launch: grid=2 block=32
extern "C" __global__ void k(const float* x, float* y, int* state, int n)
{
    const int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    if (blockIdx.x == 0) {
        y[t] = x[t];
        __syncthreads();
        if (t == 0) asm volatile("st.release.gpu.global.s32 [%0], 1;" :: "l"(state) : "memory");
    } else {
        int seen = 0;
        if (t == 0) while (!seen) asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(seen) : "l"(state) : "memory");
        __syncthreads();
        y[64 + t] = y[31 - t];
    }
}
