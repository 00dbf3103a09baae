/* earlier_cuda_host.c: C knows the earlier calls, too. */
#include <cuda_runtime.h>

int waits_in_c(void) { return cudaThreadSynchronize(); }
