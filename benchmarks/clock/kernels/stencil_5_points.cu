// stencil_5_points.cu: one step of the heat equation, five points from global memory
// Entry:   step(const float u[M,N] in, float v[M,N] out, int M, int N)
// Launch:  step block=(32, 8) grid=(cdiv(N, 32), cdiv(M, 8))

extern "C" __global__ void step(const float* __restrict__ u, float* __restrict__ v, int M, int N)
{
    const int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y;
    if (x >= N || y >= M) return;
    const int i = y * N + x;
    float value = u[i];
    if (x > 0 && x < N - 1 && y > 0 && y < M - 1)
        value += 0.2f * (u[i - 1] + u[i + 1] + u[i - N] + u[i + N] - 4.0f * value);
    v[i] = value;
}
