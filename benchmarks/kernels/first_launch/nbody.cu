// Accelerations of bodies (x, y, z, mass) by all others, tiles of a block in shared memory, unrolled; any count.
constexpr int TILE = 64; // also the threads of a block

extern "C" __global__ void nbody(const float4* bodies, float4* accelerations, int count, float softening)
{
    __shared__ float4 tile[TILE];
    const int t = blockIdx.x * TILE + threadIdx.x;
    const float4 none = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    const float4 own = t < count ? bodies[t] : none;
    float3 sum = make_float3(0.0f, 0.0f, 0.0f);
    for (int first = 0; first < count; first += TILE) {
        const int other = first + threadIdx.x;
        tile[threadIdx.x] = other < count ? bodies[other] : none; // no mass, no pull
        __syncthreads();
#pragma unroll
        for (int i = 0; i < TILE; ++i) {
            const float4 b = tile[i];
            const float x = b.x - own.x, y = b.y - own.y, z = b.z - own.z;
            const float r = rsqrtf(x * x + y * y + z * z + softening);
            const float pull = b.w * r * r * r;
            sum.x += pull * x, sum.y += pull * y, sum.z += pull * z;
        }
        __syncthreads();
    }
    if (t < count)
        accelerations[t] = make_float4(sum.x, sum.y, sum.z, 0.0f);
}
