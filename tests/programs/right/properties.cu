// What programs print of a device.
#include <cstdio>

int main()
{
    int count, device, value, least, greatest;
    cudaGetDeviceCount(&count);
    cudaGetDevice(&device);
    cudaDeviceProp p;
    cudaGetDeviceProperties(&p, device);
    printf("%d %d %s %d.%d %d SMs\n", count, device, p.name, p.major, p.minor, p.multiProcessorCount);
    printf("%zu %d %d %d %d %d\n", p.sharedMemPerBlock, p.warpSize, p.maxThreadsPerBlock, p.maxThreadsDim[2], p.maxGridSize[1], p.l2CacheSize);
    printf("%zu %d %d\n", p.sharedMemPerBlockOptin, p.maxThreadsPerMultiProcessor, p.regsPerBlock);
    cudaDeviceGetAttribute(&value, cudaDevAttrMultiProcessorCount, 0);
    printf("%d", value);
    cudaDeviceGetAttribute(&value, cudaDevAttrComputeCapabilityMajor, 0);
    printf(" %d", value);
    cudaDeviceGetAttribute(&value, cudaDevAttrClockRate, 0);
    printf(" %d\n", value);
    int driver, runtime;
    cudaDriverGetVersion(&driver);
    cudaRuntimeGetVersion(&runtime);
    printf("%d %d\n", driver == runtime, runtime >= 12000);
    cudaDeviceGetStreamPriorityRange(&least, &greatest);
    printf("%d %d\n", least, greatest < 0);
    size_t available, total;
    cudaMemGetInfo(&available, &total);
    printf("%d %d\n", available <= total, total == p.totalGlobalMem);
    int peer;
    cudaDeviceCanAccessPeer(&peer, 0, 0);
    printf("%d %s\n", peer, cudaGetErrorName(cudaDeviceEnablePeerAccess(1, 0)));
    return 0;
}
/* prints
1 0 A100-SXM4-40GB (simulated) 8.0 108 SMs
49152 32 1024 64 65535 41943040
166912 2048 65536
108 8 1410000
1 1
0 1
1 1
0 cudaErrorInvalidDevice
*/
