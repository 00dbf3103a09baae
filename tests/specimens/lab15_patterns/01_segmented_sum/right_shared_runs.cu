// right_shared_runs.cu: a block scans sums and segments in shared memory, an atomic addition for each of its runs.
// Entry:   segmented_sum(const float x[n] in, const unsigned segment[n] in, float sums[S] out, int n, int S)
// Needs:   n >= 1, S >= 1
// Zeroed:  sums
// Launch:  segmented_sum block=(128) grid=(cdiv(n, 128))
// Usual:   S = 1024

// expect: AC
extern "C" __global__ void segmented_sum(const float* x, const unsigned* segment, float* sums, int n, int S)
{
    __shared__ float part[2][128];
    __shared__ int number[128];
    const int t = threadIdx.x;
    const int i = blockIdx.x * 128 + t;
    float sum = i < n ? x[i] : 0.0f;
    const int own = i < n ? (int)segment[i] : S;
    number[t] = own;
    part[0][t] = sum;
    __syncthreads();
    int full = 0;
    for (int distance = 1; distance < 128; distance *= 2) {
        if (t >= distance && number[t - distance] == own) sum += part[full][t - distance];
        full ^= 1;
        part[full][t] = sum;
        __syncthreads();
    }
    if (i < n && (t == 127 || number[t + 1] != own)) atomicAdd(sums + own, sum);
}
