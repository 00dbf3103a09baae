// Two texts that the program compiles by NVRTC and links by the driver: a function of one is called by the other's kernel.
// options: -lnvrtc -lcuda
#include <cstdio>
#include <cuda.h>
#include <nvrtc.h>
#include <vector>

std::vector<char> compiled(const char* text)
{
    nvrtcProgram program;
    nvrtcCreateProgram(&program, text, "part.cu", 0, nullptr, nullptr);
    const char* options[] = {"--gpu-architecture=compute_80", "--relocatable-device-code=true"};
    nvrtcCompileProgram(program, 2, options);
    size_t size;
    nvrtcGetPTXSize(program, &size);
    std::vector<char> ptx(size);
    nvrtcGetPTX(program, ptx.data());
    nvrtcDestroyProgram(&program);
    return ptx;
}

int main()
{
    std::vector<char> library = compiled("__constant__ int step = 5; __device__ int next(int x) { return x + step; }");
    std::vector<char> kernel = compiled(
        "__device__ int next(int x); extern \"C\" __global__ void walk(int* x) { *x = next(next(*x)); }");
    cuInit(0);
    CUcontext context;
    cuCtxCreate(&context, 0, 0);
    CUlinkState state;
    cuLinkCreate(0, nullptr, nullptr, &state);
    cuLinkAddData(state, CU_JIT_INPUT_PTX, library.data(), library.size(), "library", 0, nullptr, nullptr);
    cuLinkAddData(state, CU_JIT_INPUT_PTX, kernel.data(), kernel.size(), "kernel", 0, nullptr, nullptr);
    void* image;
    size_t size;
    cuLinkComplete(state, &image, &size);
    CUmodule module;
    CUfunction walk;
    cuModuleLoadData(&module, image);
    cuLinkDestroy(state);
    cuModuleGetFunction(&walk, module, "walk");
    CUdeviceptr x;
    int value = 1;
    cuMemAlloc(&x, sizeof value);
    cuMemcpyHtoD(x, &value, sizeof value);
    void* arguments[] = {&x};
    cuLaunchKernel(walk, 1, 1, 1, 1, 1, 1, 0, nullptr, arguments, nullptr);
    cuMemcpyDtoH(&value, x, sizeof value);
    printf("%d\n", value);
    cuMemFree(x);
    cuCtxDestroy(context);
    return 0;
}
/* prints
11
*/
