// cuda_profiler_api.h: where profiling starts and stops; nothing here listens. Found where NVIDIA's is not installed.
#pragma once
#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif
cudaError_t cudaProfilerStart(void);
cudaError_t cudaProfilerStop(void);
#ifdef __cplusplus
}
#endif
