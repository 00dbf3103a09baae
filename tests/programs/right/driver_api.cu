// The driver API: a module of PTX text, its function and its variable.
// options: -lcuda
#include <cstdio>
#include <cuda.h>

const char* const kPtx = R"(
.version 8.0
.target sm_80
.address_size 64
.visible .global .align 4 .u32 factor = 3;
.visible .entry scale(.param .u64 x, .param .u32 n)
{
    .reg .pred %p; .reg .b32 %r<5>; .reg .b64 %rd<5>;
    ld.param.u64 %rd1, [x];
    ld.param.u32 %r1, [n];
    mov.u32 %r2, %tid.x;
    setp.ge.u32 %p, %r2, %r1;
    @%p bra DONE;
    mul.wide.u32 %rd2, %r2, 4;
    add.s64 %rd3, %rd1, %rd2;
    ld.global.u32 %r3, [%rd3];
    ld.global.u32 %r4, [factor];
    mul.lo.u32 %r3, %r3, %r4;
    st.global.u32 [%rd3], %r3;
DONE:
    ret;
}
)";

int main()
{
    CUdevice device;
    CUcontext context;
    CUmodule module;
    CUfunction function, none;
    CUdeviceptr x, factor;
    cuInit(0);
    cuDeviceGet(&device, 0);
    cuDevicePrimaryCtxRetain(&context, device);
    cuCtxSetCurrent(context);
    char name[100];
    cuDeviceGetName(name, sizeof name, device);
    printf("%s %d\n", name, cuModuleLoadData(&module, kPtx));
    const char* text;
    cuGetErrorName(cuModuleGetFunction(&none, module, "none"), &text);
    printf("%s %d\n", text, cuModuleGetFunction(&function, module, "scale"));
    unsigned host[10], n = 10, five = 5;
    for (unsigned i = 0; i < n; i++) host[i] = i;
    cuMemAlloc(&x, sizeof host);
    cuMemcpyHtoD(x, host, sizeof host);
    void* arguments[] = {&x, &n};
    cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, nullptr, arguments, nullptr);
    size_t bytes;
    cuModuleGetGlobal(&factor, &bytes, module, "factor");
    cuMemcpyHtoD(factor, &five, sizeof five);
    cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, nullptr, arguments, nullptr);
    cuMemcpyDtoH(host, x, sizeof host);
    printf("%d %u %zu\n", cuCtxSynchronize(), host[9], bytes);
    cuMemFree(x);
    cuModuleUnload(module);
    cuDevicePrimaryCtxRelease(device);
    return 0;
}
/* prints
A100-SXM4-40GB (simulated) 0
CUDA_ERROR_NOT_FOUND 0
0 135 4
*/
