// launch: grid=2 block=64 words=4
// Barrier objects in shared memory: cuda::barrier, cuda::pipeline, memcpy_async.
// needs: 80
#include <cooperative_groups.h>
#include <cuda/barrier>
#include <cuda/pipeline>
namespace cg = cooperative_groups;
extern "C" __global__ void k(const unsigned* in, unsigned* out)
{
    using barrier = cuda::barrier<cuda::thread_scope_block>;
    __shared__ barrier gate;
    __shared__ __align__(16) unsigned s[2][64];
    const auto block = cg::this_thread_block();
    const int t = threadIdx.x, i = blockIdx.x * 64 + t;
    if (t == 0) init(&gate, 64);
    block.sync();
    s[0][t] = in[i];
    auto token = gate.arrive();
    unsigned other = in[i + 1] * 3;
    gate.wait(cuda::std::move(token));
    other += s[0][63 - t];
    gate.arrive_and_wait();
    cuda::memcpy_async(&s[1][t], in + i + 8, sizeof(unsigned), gate);
    gate.arrive_and_wait();
    other ^= s[1][(t + 9) & 63];
    block.sync();
    __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> state;
    auto pipe = cuda::make_pipeline(block, &state);
    for (int n = 0; n < 3; ++n) {
        pipe.producer_acquire(); cuda::memcpy_async(block, s[n & 1], in + n * 16 + blockIdx.x * 64, cuda::aligned_size_t<16>(256), pipe); pipe.producer_commit();
        pipe.consumer_wait(); other = other * 7 + s[n & 1][63 - t]; pipe.consumer_release();
    }
    unsigned* o = out + i * 4;
    o[0] = other; o[1] = t; o[2] = 2; o[3] = 3;
}
