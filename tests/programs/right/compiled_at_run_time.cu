// A kernel that the program compiles itself by NVRTC and launches by the driver API, by an array of arguments and by one buffer.
// options: -lnvrtc -lcuda
#include <cstdio>
#include <cuda.h>
#include <nvrtc.h>
#include <string>
#include <vector>

const char* kSource = R"(
#include <cooperative_groups.h>
template <typename T> __device__ T twice(T x) { return 2 * x; }
extern "C" __global__ void scale(float* x, float by, int n)
{
    int i = cooperative_groups::this_grid().thread_rank();
    if (i < n) x[i] = twice(x[i]) * by;
}
)";

int main()
{
    nvrtcProgram program;
    nvrtcCreateProgram(&program, kSource, "scale.cu", 0, nullptr, nullptr);
    const char* options[] = {"--gpu-architecture=sm_90", "--std=c++17"};
    nvrtcResult made = nvrtcCompileProgram(program, 2, options);
    size_t size;
    nvrtcGetProgramLogSize(program, &size);
    printf("%s, a log of %d characters\n", nvrtcGetErrorString(made), (int)size - 1);
    nvrtcGetCUBINSize(program, &size);
    std::vector<char> image(size);
    nvrtcGetCUBIN(program, image.data());
    nvrtcDestroyProgram(&program);

    CUdevice device;
    CUcontext context;
    CUmodule module;
    CUfunction scale;
    cuInit(0);
    cuDeviceGet(&device, 0);
    cuCtxCreate(&context, 0, device);  // as it was until CUDA 12
    cuModuleLoadDataEx(&module, image.data(), 0, nullptr, nullptr);
    cuModuleGetFunction(&scale, module, "scale");
    int n = 100, most, blocks;
    float by = 3, host[100];
    CUdeviceptr x;
    cuMemAlloc(&x, sizeof host);
    cuMemsetD32(x, 0x3f800000, n);  // 1.0f
    void* arguments[] = {&x, &by, &n};
    CUevent before, after;
    cuEventCreate(&before, CU_EVENT_DEFAULT);
    cuEventCreate(&after, CU_EVENT_DEFAULT);
    cuEventRecord(before, nullptr);
    cuLaunchKernel(scale, 4, 1, 1, 32, 1, 1, 0, nullptr, arguments, nullptr);
    cuEventRecord(after, nullptr);
    struct { CUdeviceptr x; float by; int n; } packed = {x, 0.5f, 50};
    size_t bytes = sizeof packed;
    void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &packed, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes, CU_LAUNCH_PARAM_END};
    cuLaunchKernel(scale, 4, 1, 1, 32, 1, 1, 0, nullptr, nullptr, extra);
    cuCtxSynchronize();
    float ms;
    cuEventElapsedTime(&ms, before, after);
    cuMemcpyDtoH(host, x, sizeof host);
    cuFuncGetAttribute(&most, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, scale);
    cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, scale, 1024, 0);
    printf("%g %g %d %d %d\n", host[0], host[99], most, blocks, ms > 0);
    cuEventDestroy(before);
    cuEventDestroy(after);
    cuMemFree(x);
    cuModuleUnload(module);
    cuCtxDestroy(context);
    return 0;
}
/* prints
NVRTC_SUCCESS, a log of 0 characters
6 6 1024 2 1
*/
