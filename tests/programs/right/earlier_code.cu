// Device code of CUDA 7 to 12: shuffles and votes without masks, function objects that CUB and Thrust dropped.
#include <cstdio>
#include <cub/cub.cuh>
#include <thrust/device_vector.h>
#include <thrust/transform_reduce.h>

__global__ void warps(const int* x, int* out)
{
    int lane = threadIdx.x, value = x[lane];
    for (int offset = 16; offset > 0; offset /= 2) value += __shfl_down(value, offset);
    value = __shfl(value, 0);
    double last = __shfl_xor((double)lane, 31);
    unsigned above = __ballot(lane > 15);
    if (lane == 0) out[0] = value, out[1] = (int)last, out[2] = above >> 16, out[3] = __any(0) + 2 * __all(1);
}

__global__ void blocks(const int* x, int* out)
{
    typedef cub::BlockReduce<int, 64> Reduce;
    __shared__ Reduce::TempStorage space;
    int most = Reduce(space).Reduce(x[threadIdx.x], cub::Max());
    __syncthreads();
    int sum = Reduce(space).Reduce(x[threadIdx.x], cub::Sum());
    if (threadIdx.x == 0) out[0] = most, out[1] = sum;
}

struct square : public thrust::unary_function<int, int> {
    __host__ __device__ int operator()(int x) const { return x * x; }
};

int main()
{
    int host[64], *x, *out;
    for (int i = 0; i < 64; i++) host[i] = i;
    cudaMalloc(&x, sizeof host);
    cudaMalloc(&out, 4 * sizeof(int));
    cudaMemcpy(x, host, sizeof host, cudaMemcpyHostToDevice);
    warps<<<1, 32>>>(x, out);
    cudaMemcpy(host, out, 4 * sizeof(int), cudaMemcpyDeviceToHost);
    cudaThreadSynchronize();
    printf("%d %d %x %d\n", host[0], host[1], host[2], host[3]);
    blocks<<<1, 64>>>(x, out);
    cudaMemcpy(host, out, 2 * sizeof(int), cudaMemcpyDeviceToHost);
    printf("%d %d\n", host[0], host[1]);
    thrust::device_ptr<int> begin(x);
    printf("%d\n", thrust::transform_reduce(begin, begin + 64, square(), 0, thrust::plus<int>()));
    cudaFree(x);
    cudaFree(out);
    return 0;
}
/* prints
496 31 ffff 2
63 2016
85344
*/
