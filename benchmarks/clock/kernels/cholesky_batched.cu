// cholesky_batched.cu: a warp makes A = X X^T + 16 I of a 16 x 16 matrix and factors it, L L^T = A, in shared memory
// Entry:   cholesky(const float X[BATCH,16,16] in, float L[BATCH,16,16] out, int BATCH)
// Launch:  cholesky block=(32, 4) grid=(cdiv(BATCH, 4))

constexpr int N = 16;

extern "C" __global__ void cholesky(const float* __restrict__ X, float* __restrict__ L, int BATCH)
{
    __shared__ float factor[4][N][N + 1], given[4][N][N + 1];
    const int lane = threadIdx.x, which = blockIdx.x * 4 + threadIdx.y;
    if (which >= BATCH) return;
    auto& a = factor[threadIdx.y];
    auto& x = given[threadIdx.y];
    for (int t = lane; t < N * N; t += 32) x[t / N][t % N] = X[which * N * N + t];
    __syncwarp();
    for (int t = lane; t < N * N; t += 32) {
        const int i = t / N, j = t % N;
        float sum = i == j ? 16.0f : 0.0f;
        for (int k = 0; k < N; ++k) sum += x[i][k] * x[j][k];
        a[i][j] = sum;
    }
    __syncwarp();
    for (int j = 0; j < N; ++j) {
        const float root = sqrtf(a[j][j]);
        __syncwarp();
        if (lane >= j && lane < N) a[lane][j] = lane == j ? root : a[lane][j] / root;
        __syncwarp();
        for (int t = lane; t < N * N; t += 32) {
            const int row = t / N, column = t % N;
            if (column > j && row >= column) a[row][column] -= a[row][j] * a[column][j];
        }
        __syncwarp();
    }
    for (int t = lane; t < N * N; t += 32) L[which * N * N + t] = t % N <= t / N ? a[t / N][t % N] : 0.0f;
}
