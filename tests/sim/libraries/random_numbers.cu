// cuRAND's device functions. Every thread has a generator of its own: seed 1234, its number as the subsequence.
#include <curand_kernel.h>
constexpr int DRAWS = 8, STATE = 6;
__device__ unsigned bits(curandStateXORWOW_t& s, int k) { return k < 5 ? s.v[k] : s.d; }
__device__ unsigned bits(curandStateMRG32k3a_t& s, int k) { return k < 3 ? s.s1[k] : s.s2[k - 3]; }

// The state, what it gives next, and what it gives behind `skipped` numbers that are left out.
template <class State> __device__ void drawn(unsigned long long skipped, unsigned long long subsequence, unsigned* out)
{
    State s;
    curand_init(1234ULL, subsequence, 0ULL, &s);
    out += threadIdx.x * (STATE + 2 * DRAWS);
    for (int k = 0; k < STATE; k++) out[k] = bits(s, k);
    for (int k = 0; k < DRAWS; k++) out[STATE + k] = curand(&s);
    skipahead(skipped, &s);
    for (int k = 0; k < DRAWS; k++) out[STATE + DRAWS + k] = curand(&s);
}
extern "C" __global__ void xorwow(unsigned long long skipped, unsigned long long stride, unsigned* out)
{
    drawn<curandStateXORWOW_t>(skipped, threadIdx.x * stride, out);
}
extern "C" __global__ void mrg32k3a(unsigned long long skipped, unsigned long long stride, unsigned* out)
{
    drawn<curandStateMRG32k3a_t>(skipped, threadIdx.x * stride, out);
}
extern "C" __global__ void philox(unsigned long long offset, unsigned long long stride, unsigned* out)
{
    curandStatePhilox4_32_10_t s;
    curand_init(1234ULL, threadIdx.x * stride, offset, &s);
    for (int k = 0; k < DRAWS; k++) out[threadIdx.x * DRAWS + k] = curand(&s);
}
template <class State> __device__ void distributed(float* uniform, float* normal, unsigned* poisson, double mean)
{
    const int t = blockIdx.x * blockDim.x + threadIdx.x, n = gridDim.x * blockDim.x;
    State s;
    curand_init(99ULL, t, 0ULL, &s);
    for (int k = 0; k < 4; k++) uniform[t + k * n] = curand_uniform(&s);
    for (int k = 0; k < 4; k++) normal[t + k * n] = curand_normal(&s);
    for (int k = 0; k < 4; k++) poisson[t + k * n] = curand_poisson(&s, mean);
}
extern "C" __global__ void of_xorwow(float* u, float* n, unsigned* p, double mean) { distributed<curandStateXORWOW_t>(u, n, p, mean); }
extern "C" __global__ void of_mrg32k3a(float* u, float* n, unsigned* p, double mean) { distributed<curandStateMRG32k3a_t>(u, n, p, mean); }
extern "C" __global__ void of_philox(float* u, float* n, unsigned* p, double mean) { distributed<curandStatePhilox4_32_10_t>(u, n, p, mean); }
extern "C" __global__ void doubles(double* uniform, double* normal, float* log_normal)
{
    const int t = blockIdx.x * blockDim.x + threadIdx.x;
    curandStateXORWOW_t s;
    curand_init(7ULL, t, 0ULL, &s);
    uniform[t] = curand_uniform_double(&s);
    const double2 pair = curand_normal2_double(&s);
    normal[2 * t] = pair.x, normal[2 * t + 1] = pair.y;
    log_normal[t] = curand_log_normal(&s, 0.5f, 0.25f);
}
