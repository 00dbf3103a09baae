// Latches, semaphores, barriers with a completion and pipelines of stages; clocks and the registers that name a place.
#include <cooperative_groups.h>
#include <cuda/barrier>
#include <cuda/latch>
#include <cuda/pipeline>
#include <cuda/semaphore>
namespace cg = cooperative_groups;

extern "C" __global__ void latches(const unsigned* in, unsigned* out)
{
    using Latch = cuda::latch<cuda::thread_scope_block>;
    __shared__ alignas(Latch) unsigned char room[sizeof(Latch)];
    __shared__ unsigned s[128];
    Latch& ready = reinterpret_cast<Latch&>(room);
    if (threadIdx.x == 0) new (&ready) Latch(4);
    __syncthreads();
    s[threadIdx.x] = in[threadIdx.x] * 3;
    __syncwarp();
    if (threadIdx.x % 32 == 0) ready.count_down();
    ready.wait();
    out[threadIdx.x] = s[127 - threadIdx.x] + ready.try_wait();
}
extern "C" __global__ void semaphores(const unsigned* in, unsigned* out)
{
    using One = cuda::binary_semaphore<cuda::thread_scope_block>;
    using Three = cuda::counting_semaphore<cuda::thread_scope_block, 3>;
    __shared__ alignas(One) unsigned char room_of_one[sizeof(One)];
    __shared__ alignas(Three) unsigned char room_of_three[sizeof(Three)];
    __shared__ unsigned sum, most;
    One& free = reinterpret_cast<One&>(room_of_one);
    Three& three = reinterpret_cast<Three&>(room_of_three);
    if (threadIdx.x == 0) new (&free) One(1), sum = 0;
    __syncthreads();
    free.acquire();
    sum += in[threadIdx.x];
    free.release();
    __syncthreads();
    if (threadIdx.x == 0) out[0] = sum;
    __shared__ cuda::atomic<unsigned, cuda::thread_scope_block> inside;
    if (threadIdx.x == 0) new (&three) Three(3), inside = 0, most = 0;
    __syncthreads();
    if (threadIdx.x % 8 == 0) {
        three.acquire();
        atomicMax(&most, inside.fetch_add(1) + 1);
        inside.fetch_sub(1);
        three.release();
    }
    __syncthreads();
    if (threadIdx.x == 0) out[1] = most <= 3 && most > 0, out[2] = three.try_acquire() + three.try_acquire() + three.try_acquire() + three.try_acquire();
}
struct Adds { unsigned* to; __device__ void operator()() const { *to += 1; } };
extern "C" __global__ void completions(const unsigned* in, unsigned* out)
{
    using Barrier = cuda::barrier<cuda::thread_scope_block, Adds>;
    __shared__ alignas(Barrier) unsigned char room[sizeof(Barrier)];
    __shared__ unsigned phases;
    Barrier& whole = reinterpret_cast<Barrier&>(room);
    if (threadIdx.x == 0) phases = 0, new (&whole) Barrier(128, Adds{&phases});
    __syncthreads();
    for (unsigned k = 0; k < 5; k++) {
        whole.arrive_and_wait();
        out[128 * k + threadIdx.x] = phases * 1000 + in[threadIdx.x];
    }
}
extern "C" __global__ void stages(const unsigned* in, unsigned* out)
{
    constexpr unsigned STAGES = 3, TILES = 7;
    __shared__ unsigned tiles[STAGES][128];
    __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, STAGES> state;
    const auto block = cg::this_thread_block();
    auto pipe = cuda::make_pipeline(block, &state);
    unsigned sum = 0;
    for (unsigned k = 0, ahead = 0; k < TILES; k++) {
        for (; ahead < TILES && ahead < k + STAGES; ahead++) {
            pipe.producer_acquire();
            cuda::memcpy_async(block, tiles[ahead % STAGES], in + 128 * ahead, sizeof tiles[0], pipe);
            pipe.producer_commit();
        }
        pipe.consumer_wait();
        sum = sum * 5 + tiles[k % STAGES][127 - threadIdx.x];
        pipe.consumer_release();
    }
    out[threadIdx.x] = sum;
}
extern "C" __global__ void clocks(const unsigned* in, unsigned long long* out)
{
    unsigned long long timer;
    unsigned sm, sms, warp, low, high;
    const long long first = clock64();
    __nanosleep(1000);
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(timer));
    asm volatile("mov.u32 %0, %smid; mov.u32 %1, %nsmid; mov.u32 %2, %warpid;" : "=r"(sm), "=r"(sms), "=r"(warp));
    const unsigned short_one = clock();
    asm volatile("mov.u32 %0, %globaltimer_lo; mov.u32 %1, %globaltimer_hi;" : "=r"(low), "=r"(high));
    const long long last = clock64();
    out += 6 * (blockIdx.x * blockDim.x + threadIdx.x);
    out[0] = first, out[1] = timer, out[2] = short_one, out[3] = last;
    out[4] = (sm < sms) + 2 * (warp == threadIdx.x / 32) + 4 * ((timer >> 32) == high), out[5] = low;
}
