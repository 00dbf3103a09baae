#pragma once
extern __constant__ float table[4];
extern __device__ int counter;
extern __managed__ int shared_by_all[2];
__device__ float tripled(float x);
void add_to_all(float* x, int n);
