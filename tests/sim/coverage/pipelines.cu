// launch: grid=2 block=64 words=4
// cp.async through <cuda_pipeline.h> with several stages.
// needs: 80
#include <cuda_pipeline.h>
extern "C" __global__ void k(const unsigned* in, unsigned* out)
{
    __shared__ __align__(16) unsigned s[3][64];
    const int t = threadIdx.x, i = blockIdx.x * 64 + t;
    unsigned sum = 0;
    for (int stage = 0; stage < 2; ++stage) { __pipeline_memcpy_async(&s[stage][t], in + stage * 32 + i, 4); __pipeline_commit(); }
    for (int n = 0; n < 6; ++n) {
        __pipeline_wait_prior(1); __syncthreads();
        sum = sum * 5 + s[n % 3][(t + n) & 63];
        if (n + 2 < 6) __pipeline_memcpy_async(&s[(n + 2) % 3][t], in + (n + 2) * 32 + i, 4, n == 1 ? 2 : 0);
        __pipeline_commit();
    }
    __pipeline_wait_prior(0); __syncthreads();
    if (t < 16) __pipeline_memcpy_async(&s[0][t * 4], in + t * 4 + 64 * blockIdx.x, 16);
    __pipeline_commit(); __pipeline_wait_prior(0); __syncthreads();
    unsigned* o = out + i * 4;
    o[0] = sum; o[1] = s[0][t]; o[2] = t; o[3] = 1;
}
