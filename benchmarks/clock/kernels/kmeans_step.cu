// kmeans_step.cu: each point to its nearest of 16 centres, and the sums that make the new ones
// Entry:   step(const float px[n] in, const float py[n] in, const float centre[32] in, int nearest[n] out, float sum[48] out, int n)
// Launch:  step block=(256) grid=(min(cdiv(n, 1024), 528))
// Zeroed:  sum
// Constant: centres <- centre

constexpr int K = 16;
__constant__ float centres[2 * K];

extern "C" __global__ void step(const float* px, const float* py, const float* centre, int* nearest, float* sum, int n)
{
    __shared__ float part[3][K];    // x, y, and how many
    for (int t = threadIdx.x; t < 3 * K; t += blockDim.x) (&part[0][0])[t] = 0.0f;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        const float x = px[i], y = py[i];
        int best = 0;
        float least = 3.4e38f;
        for (int k = 0; k < K; ++k) {
            const float dx = x - centres[2 * k], dy = y - centres[2 * k + 1];
            const float away = dx * dx + dy * dy;
            best = away < least ? k : best;
            least = fminf(away, least);
        }
        nearest[i] = best;
        atomicAdd(&part[0][best], x);
        atomicAdd(&part[1][best], y);
        atomicAdd(&part[2][best], 1.0f);
    }
    __syncthreads();
    if (threadIdx.x < 3 * K) atomicAdd(sum + threadIdx.x, part[threadIdx.x / K][threadIdx.x % K]);
}
