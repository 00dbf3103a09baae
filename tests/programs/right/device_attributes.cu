// Every attribute of the device has an answer, by either API; the part of L2 that may be set aside. Quick.
// options: -lcuda
#include <cuda.h>
#include <cstdio>

int main()
{
    cuInit(0);
    int wrong = 0, value, same;
    for (int k = 1; k <= 145; k++) {
        bool fails = cudaDeviceGetAttribute(&value, (cudaDeviceAttr)k, 0) || cuDeviceGetAttribute(&same, (CUdevice_attribute)k, 0);
        wrong += fails || value != same;
    }
    printf("%d\n", wrong);
    printf("%d\n", cudaDeviceGetAttribute(&value, (cudaDeviceAttr)100000, 0) == cudaErrorInvalidValue);
    cudaGetLastError();
    cudaDeviceGetAttribute(&value, cudaDevAttrMaxTexture2DLayeredLayers, 0);
    printf("%d\n", value);

    cudaDeviceProp p;
    cudaGetDeviceProperties(&p, 0);
    printf("%d %d\n", p.persistingL2CacheMaxSize, p.accessPolicyMaxWindowSize);
    size_t kept;
    cudaDeviceSetLimit(cudaLimitPersistingL2CacheSize, 1 << 20);
    cudaDeviceGetLimit(&kept, cudaLimitPersistingL2CacheSize);
    cudaStream_t stream;
    cudaStreamCreate(&stream);
    cudaStreamAttrValue window = {};
    window.accessPolicyWindow = {nullptr, 1 << 16, 0.5f, cudaAccessPropertyPersisting, cudaAccessPropertyStreaming};
    printf("%zu %d\n", kept, cudaStreamSetAttribute(stream, cudaStreamAttributeAccessPolicyWindow, &window));
    printf("%d\n", cudaCtxResetPersistingL2Cache());
    cudaStreamDestroy(stream);
    return 0;
}
/* prints
0
1
2048
31457280 134217728
1048576 0
0
*/
