// Atomics of libcu++ in every scope and order, and what of cooperative groups needs a name of its own.
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cooperative_groups/reduce.h>
#include <cuda/atomic>
#include <cuda/barrier>
#include <cuda/pipeline>
namespace cg = cooperative_groups;

template <cuda::thread_scope Scope> __device__ void counted(unsigned* at, unsigned x)
{
    cuda::atomic_ref<unsigned, Scope> a(*at);
    a.fetch_add(1, cuda::memory_order_relaxed);
    a.fetch_add(2, cuda::memory_order_acquire);
    a.fetch_add(3, cuda::memory_order_release);
    a.fetch_add(4, cuda::memory_order_acq_rel);
    a.fetch_add(5, cuda::memory_order_seq_cst);
    cuda::atomic_ref<unsigned, Scope> most(at[1]), bits(at[2]), chain(at[3]), real(at[4]);
    most.fetch_max(x, cuda::memory_order_relaxed);
    bits.fetch_xor(x);
    unsigned seen = chain.load(cuda::memory_order_acquire);
    while (!chain.compare_exchange_weak(seen, seen + x, cuda::memory_order_acq_rel, cuda::memory_order_relaxed)) { }
    if (threadIdx.x + blockIdx.x == 0) cuda::atomic_ref<unsigned, Scope>(at[6]).store(1, cuda::memory_order_release);
    cuda::atomic_ref<float, Scope>(*reinterpret_cast<float*>(at + 5)).fetch_add(float(x % 8), cuda::memory_order_relaxed);
    cuda::atomic_thread_fence(cuda::memory_order_seq_cst, Scope);
    real.exchange(7, cuda::memory_order_acq_rel);
}
extern "C" __global__ void scopes(const unsigned* in, unsigned* out)
{
    __shared__ unsigned s[8];
    const int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (threadIdx.x < 8) s[threadIdx.x] = 0;
    __syncthreads();
    counted<cuda::thread_scope_block>(s, in[t]);
    counted<cuda::thread_scope_device>(out, in[t]);
    counted<cuda::thread_scope_system>(out + 8, in[t]);
    __syncthreads();
    if (threadIdx.x < 8) out[16 + 8 * blockIdx.x + threadIdx.x] = s[threadIdx.x];
}
extern "C" __global__ void groups(const unsigned* in, unsigned* out)
{
    __shared__ alignas(16) unsigned s[128];
    __shared__ cuda::barrier<cuda::thread_scope_block> whole;
    const auto block = cg::this_thread_block();
    const auto warp = cg::tiled_partition<32>(block);
    const int t = block.thread_rank();
    cg::memcpy_async(block, s, in, sizeof s);
    cg::wait(block);
    out[t] = s[127 - t];
    block.sync();
    if (t == 0) init(&whole, 128);
    block.sync();
    cuda::memcpy_async(block, s, in + 128, sizeof s, whole);
    whole.arrive_and_wait();
    out[128 + t] = s[t] + cg::invoke_one_broadcast(warp, [&] { return in[warp.meta_group_rank()]; });
    cg::invoke_one(warp, [&] { out[256 + warp.meta_group_rank()] = warp.num_threads(); });
    auto pipe = cuda::make_pipeline();
    block.sync();
    pipe.producer_acquire();
    cuda::memcpy_async(s + t, in + 256 + t, sizeof(unsigned), pipe);
    pipe.producer_commit();
    pipe.consumer_wait();
    block.sync();
    out[384 + t] = s[t ^ 1];
    pipe.consumer_release();
}
extern "C" __global__ void clocks(const unsigned* in, unsigned* out)
{
    unsigned long long now;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
    const long long before = clock64();
    __nanosleep(100);
    const long long after = clock64();
    unsigned long long later;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(later));
    out[threadIdx.x] = (after > before) + 2 * (later >= now) + 4 * (in[0] != ~0u || clock() != 0);
}
