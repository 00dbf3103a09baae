// nbody_tiles.cu: accelerations of bodies by all others, tiles in shared memory
// Entry:   pull(const float x[n] in, const float y[n] in, const float z[n] in, float ax[n] out, int n)
// Launch:  pull block=(128) grid=(cdiv(n, 128))

extern "C" __global__ void pull(const float* __restrict__ x, const float* __restrict__ y, const float* __restrict__ z, float* __restrict__ ax, int n)
{
    __shared__ float3 tile[128];
    const int i = blockIdx.x * 128 + threadIdx.x;
    const float px = i < n ? x[i] : 0.0f, py = i < n ? y[i] : 0.0f, pz = i < n ? z[i] : 0.0f;
    float sum = 0.0f;
    for (int first = 0; first < n; first += 128) {
        const int j = first + threadIdx.x;
        tile[threadIdx.x] = j < n ? make_float3(x[j], y[j], z[j]) : make_float3(1e18f, 1e18f, 1e18f);
        __syncthreads();
#pragma unroll 8
        for (int k = 0; k < 128; ++k) {
            const float dx = tile[k].x - px, dy = tile[k].y - py, dz = tile[k].z - pz;
            const float inverse = rsqrtf(dx * dx + dy * dy + dz * dz + 1e-3f);
            sum += dx * inverse * inverse * inverse;
        }
        __syncthreads();
    }
    if (i < n) ax[i] = sum;
}
