// Votes written as PTX in both orders of their words; registers and occupancy of the kernel are known all the same. Quick.
#include <cstdio>

__global__ void votes(unsigned* out)
{
    unsigned lane = threadIdx.x, first, second;
    asm volatile("{ .reg .pred p; setp.lt.u32 p, %1, 20; vote.sync.ballot.b32 %0, p, 0xffffffff; }" : "=r"(first) : "r"(lane));
    asm volatile("{ .reg .pred p; setp.lt.u32 p, %1, 9; vote.ballot.sync.b32 %0, p, 0xffffffff; }" : "=r"(second) : "r"(lane));
    out[lane] = first ^ second;
}

int main()
{
    cudaFuncAttributes about;
    printf("%s\n", cudaGetErrorName(cudaFuncGetAttributes(&about, votes)));
    int blocks;
    printf("%s\n", cudaGetErrorName(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, votes, 32, 0)));
    printf("%d %d\n", about.numRegs > 0, blocks);
    unsigned *out, host[32];
    cudaMalloc(&out, sizeof host);
    votes<<<1, 32>>>(out);
    cudaMemcpy(host, out, sizeof host, cudaMemcpyDeviceToHost);
    printf("%#x %#x\n", host[0], host[31]);
    cudaFree(out);
}
/* prints
cudaSuccess
cudaSuccess
1 32
0xffe00 0xffe00
*/
