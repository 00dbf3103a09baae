"""Kernels that cheat or fail in labs 07, 15 and 16: each is a step's reference with something else in a place."""

from __future__ import annotations

from .hostile_kernels import kind
from .hostile_steps import edit

SCAN, LOOK_BACK, COMPACT = "lab15_patterns/02_kogge_stone", "lab15_patterns/04_look_back", "lab15_patterns/06_compaction"
SOFTMAX, NORM = "lab16_attention/01_online_softmax", "lab16_attention/02_layer_norm"
BACKWARD, TENSOR = "lab16_attention/03_norm_backward", "lab07_tensor_cores/01_wmma_naive"
TICKET = "drawn = atomicAdd(ticket, 1);"

kind("order")
edit("a look-back whose tiles are the blocks' numbers", "TLE WA RACE", LOOK_BACK,
     (TICKET, "drawn = blockIdx.x; if (n < 0) atomicAdd(ticket, 1);"))
edit("a look-back that tells before it has stored", "RACE WA UNINIT", LOOK_BACK, ("memory_order_release", "memory_order_relaxed"))
edit("a look-back that hears too early", "RACE WA UNINIT", LOOK_BACK, ("memory_order_acquire", "memory_order_relaxed"))
edit("a compaction whose warps take places as they come", "WA RACE PERF", COMPACT,
     ("__shared__ int of_warps[WARPS];\n    const int lane = threadIdx.x % WARP;\n    const int warp = threadIdx.x / WARP;\n"
      "    const int i = blockIdx.x * BLOCK + threadIdx.x;\n    const float own",
      "__shared__ int of_warps[WARPS]; __shared__ int next;\n    const int lane = threadIdx.x % WARP;\n"
      "    const int warp = threadIdx.x / WARP;\n    const int i = blockIdx.x * BLOCK + threadIdx.x;\n"
      "    if (threadIdx.x == 0) next = 0;\n    __syncthreads();\n    const float own"),
     ("        place += of_warps[w];\n    }", "        place += 0;\n    }\n    int mine = 0;\n"
      "    if (lane == 0) mine = atomicAdd(&next, of_warps[warp]);\n    place += __shfl_sync(ALL, mine, 0);"))

kind("right without the work")
edit("a compaction that knows the usual limit", "WA OOB", COMPACT, ("own > limit", "own > 0.0f"), ("x[i] > limit", "x[i] > 0.0f"))
edit("a softmax that cuts large scores off", "WA", SOFTMAX,
     ("expf(scores[i] - row.largest) / row.sum", "expf(fminf(scores[i], 80.0f)) / row.sum"),
     ("{scores[i], scores[i] > -INFINITY ? 1.0f : 0.0f}",
      "{0.0f, scores[i] > -INFINITY ? expf(fminf(scores[i], 80.0f)) : 0.0f}"))

kind("past the counters")
edit("a softmax with its output as scratch", "PERF", SOFTMAX,
     ("    const Pair nothing =", "    for (int i = t; i < COLS; i += THREADS) quotients[i] = scores[i];\n    const Pair nothing ="),
     ("const Pair one = {scores[i], scores[i] >", "const Pair one = {quotients[i], quotients[i] >"))
edit("a norm that reads its row again past the first cache", "PERF", NORM,
     ("const float deviation = row[i] - middle;", "const float deviation = __ldcg(&x[begin + i]) - middle;"))
edit("a norm that copies its row once more, asynchronously", "PERF", NORM,
     ("    float squares = 0.0f;", "    for (int i = t; i < COLS; i += THREADS) asm volatile("
      '"cp.async.ca.shared.global [%0], [%1], 4;" :: "r"((unsigned)__cvta_generic_to_shared(&row[i])), "l"(x + begin + i) : "memory");\n'
      '    asm volatile("cp.async.wait_all;" ::: "memory");\n    float squares = 0.0f;'))
edit("gradients that copy x once more, asynchronously", "PERF", BACKWARD,
     ("        sums = sums_of_block(sums, room);", "        for (int i = t; i < COLS; i += THREADS) asm volatile("
      '"cp.async.ca.shared.global [%0], [%1], 4;" :: "r"((unsigned)__cvta_generic_to_shared(&h[i])), "l"(x + begin + i) : "memory");\n'
      '        asm volatile("cp.async.wait_all;" ::: "memory");\n        sums = sums_of_block(sums, room);'),
     ("h[i] * of_deviation", "(h[i] - middle) * scale * of_deviation"))
edit("gradients that read x again, but in the first block alone not", "PERF", BACKWARD,
     ("dx[begin + i] = scale * (g[i] - of_mean - h[i] * of_deviation);",
      "const float again = blockIdx.x ? (x[begin + i] - middle) * scale : h[i];\n"
      "            dx[begin + i] = scale * (g[i] - of_mean - again * of_deviation);"))
edit("a scan with sixteen arrivals more a round, that nobody waits for", "PERF", SCAN,
     ("full = 1 - full;", 'full = 1 - full; for (int k = 0; k < 16; ++k) asm volatile("bar.arrive 5, 1024;" ::: "memory");'))
edit("products that two blocks compute, with the same results", "PERF RACE", TENSOR,
     ("grid=(cdiv(N, 16), cdiv(M, 16 * WARPS))", "grid=(cdiv(N, 16), cdiv(M, 16 * WARPS), 2)"))

kind("instructions by hand")
edit("a row on a stack that is as long as it must be", "AC RJ CE LE CLE RTE", SCAN,
     ("float sum = i < n ? x[i] : 0.0f;", "float sum = i < n ? x[i] : 0.0f; unsigned long long own;\n"
      '    asm volatile("alloca.u64 %0, %1;" : "=l"(own) : "l"(4ull << n % 8));\n    if (!own) sum = -1;'))
edit("a function with any number of arguments", "AC RJ CE CLE", SCAN,
     ('extern "C" __global__', "__device__ __noinline__ float first_of(float first, ...) { return first; }\n\nextern \"C\" __global__"),
     ("float sum = i < n ? x[i] : 0.0f;", "float sum = first_of(i < n ? x[i] : 0.0f, n, 2.0, x);"))
edit("a sum whose carry goes through a chain of additions", "AC RJ", SCAN,
     ("float sum = i < n ? x[i] : 0.0f;", "float sum = i < n ? x[i] : 0.0f; unsigned low, high;\n"
      '    asm volatile("{ add.cc.u32 %0, %2, %2; addc.u32 %1, 0, 0; }" : "=r"(low), "=r"(high) : "r"(0x80000001u));\n'
      "    if (low != 2 || high != 1) sum = -1;"))
edit("a name that inline assembly declares twice", "AC RJ CE CLE", SCAN,
     ("float sum = i < n ? x[i] : 0.0f;", "float sum = i < n ? x[i] : 0.0f;\n"
      '    for (int k = 0; k < 2; ++k) asm volatile(".reg .f32 own; mov.f32 own, %0; mov.f32 %0, own;" : "+f"(sum));'))
