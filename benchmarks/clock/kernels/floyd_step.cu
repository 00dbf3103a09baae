// floyd_step.cu: one round of all shortest paths
// Entry:   relax(const float d[N,N] in, float e[N,N] out, int N, int via)
// Launch:  relax block=(64, 4) grid=(cdiv(N, 64), cdiv(N, 4))

extern "C" __global__ void relax(const float* __restrict__ d, float* __restrict__ e, int N, int via)
{
    const int j = blockIdx.x * 64 + threadIdx.x, i = blockIdx.y * 4 + threadIdx.y;
    if (i < N && j < N) e[i * N + j] = fminf(d[i * N + j], d[i * N + via] + d[via * N + j]);
}
