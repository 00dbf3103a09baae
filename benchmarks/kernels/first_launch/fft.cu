// Fourier transforms of 512 complex numbers, one a block: three stages of eight, by shared memory between them.
constexpr int POINTS = 512, OWN = 8, THREADS = POINTS / OWN;

__device__ float2 times(float2 a, float2 b)
{
    return make_float2(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x);
}

// exp(-2 pi i k / n)
__device__ float2 root(int k, int n)
{
    float2 w;
    sincospif(-2.0f * k / n, &w.y, &w.x);
    return w;
}

// The transform of eight numbers in place: even and odd halves, three times.
__device__ void eight(float2 (&v)[OWN])
{
    constexpr int turned[OWN] = {0, 4, 2, 6, 1, 5, 3, 7};
    float2 x[OWN];
#pragma unroll
    for (int i = 0; i < OWN; ++i)
        x[i] = v[turned[i]];
#pragma unroll
    for (int half = 1; half < OWN; half *= 2)
#pragma unroll
        for (int i = 0; i < OWN; ++i)
            if (!(i & half)) {
                const float2 b = times(x[i + half], root(i % half, 2 * half));
                x[i + half] = make_float2(x[i].x - b.x, x[i].y - b.y);
                x[i] = make_float2(x[i].x + b.x, x[i].y + b.y);
            }
#pragma unroll
    for (int i = 0; i < OWN; ++i)
        v[i] = x[i];
}

extern "C" __global__ void fft(const float2* x, float2* y)
{
    __shared__ float2 line[POINTS];
    const int t = threadIdx.x;
    const size_t start = size_t(blockIdx.x) * POINTS;
    float2 v[OWN];
#pragma unroll
    for (int i = 0; i < OWN; ++i)
        v[i] = x[start + t + i * THREADS];
#pragma unroll
    for (int done = 1; done < POINTS; done *= OWN) { // Stockham: transforms of `done` numbers become some of 8 * done
        const int within = t % done, group = t / done;
#pragma unroll
        for (int i = 1; i < OWN; ++i)
            v[i] = times(v[i], root(within * i, OWN * done));
        eight(v);
#pragma unroll
        for (int i = 0; i < OWN; ++i)
            line[group * OWN * done + within + i * done] = v[i];
        __syncthreads();
#pragma unroll
        for (int i = 0; i < OWN; ++i)
            v[i] = line[t + i * THREADS];
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < OWN; ++i)
        y[start + t + i * THREADS] = v[i];
}
