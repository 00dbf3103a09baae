// part of separate.cu
#include "separate.h"
#include <cstdio>

__constant__ float table[4];
__managed__ int shared_by_all[2] = {7, 8};
static __device__ float factor = 3;

__device__ float tripled(float x) { return factor * x; }

__global__ void add(float* x)
{
    x[threadIdx.x] += counter;
    if (threadIdx.x == 0) printf("the other file sees %d\n", counter);
}

void add_to_all(float* x, int n) { add<<<1, n>>>(x); }
