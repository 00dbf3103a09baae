"""Kernels that cheat or fail at other steps than the first: most are a step's reference with something else in a place."""

from __future__ import annotations

from warpschool.course import Course

from .hostile_kernels import BLOCK_SUM, add, body, kind

TURNED, COUNTED = "lab03_coalescing/03_transpose_tiled", "lab15_patterns/05_histogram"
BARRIER = "__syncthreads();"


def edit(name: str, verdict: str, step: str, *changes: tuple[str, str]) -> None:
    """The reference of a step with texts exchanged, each wherever it stands."""

    def build() -> str:
        solution = Course.find().step(step).solution
        assert solution is not None
        text = solution.read_text("utf-8")
        for old, new in changes:
            assert old in text, old
            text = text.replace(old, new)
        return text

    add(name, verdict, build, step=step)


# ---------------------------------------------------------------- a transpose that seems to be coalesced
STORE = "At[(col0 + y) * M + row0 + x] = tile[x][y];"
LOAD = "tile[y][x] = A[(row0 + y) * N + col0 + x];"
DIRECT = "At[(col0 + x) * M + row0 + y] = {0};"


def straight(name: str, verdict: str, load: str, *more: tuple[str, str]) -> None:
    """A transpose without a tile: each thread stores what it has loaded."""
    edit(name, verdict, TURNED, (LOAD, load), (STORE, ";"), *more)


kind("past the counters")
FROM_A = "A[(row0 + y) * N + col0 + x]"
straight("a transpose's stores one lane at a time", "PERF",
         f"for (int l = 0; l < 32; ++l) if (x == l) {DIRECT.format(FROM_A)}")
straight("a transpose's stores by exchange", "PERF",
         f"atomicExch(&At[(col0 + x) * M + row0 + y], {FROM_A});")
straight("a transpose's stores past the first cache", "PERF",
         f"__stcg(&At[(col0 + x) * M + row0 + y], {FROM_A});")
straight("a transpose's stores by hand", "PERF",
         f'asm volatile("st.global.wt.f32 [%0], %1;" :: "l"(&At[(col0 + x) * M + row0 + y]), "f"({FROM_A}) : "memory");')
straight("a transpose's stores byte by byte", "PERF",
         f"{{ const float v = {FROM_A}; for (int b = 0; b < 4; ++b)"
         " ((volatile char*)&At[(col0 + x) * M + row0 + y])[b] = ((const char*)&v)[b]; }")
straight("a transpose's stores behind a guard of one lane each", "PERF",
         f"{{ unsigned left = __activemask(); while (left) {{ const int l = __ffs(left) - 1; if (x == l) {DIRECT.format(FROM_A)}"
         " left &= left - 1; } }")

# ---------------------------------------------------------------- a sum without its barriers
HALVE = "partial[t] += partial[t + half];"
kind("order")
edit("a sum with barriers of warps for those of blocks", "RACE", BLOCK_SUM, (BARRIER, "__syncwarp();"))
edit("a sum over volatile words without barriers", "RACE", BLOCK_SUM, (BARRIER, ""),
     ("__shared__ float partial", "__shared__ volatile float partial"))
edit("a sum with fences for barriers", "RACE", BLOCK_SUM, (BARRIER, "__threadfence_block();"))
edit("a sum whose barrier half of the threads reach", "SYNC RACE", BLOCK_SUM,
     (HALVE, HALVE + " " + BARRIER))
edit("a sum whose warps wait at barriers of their own", "RACE SYNC", BLOCK_SUM,
     (BARRIER, 'asm volatile("bar.sync %0, 32;" :: "r"(t / 32 + 1) : "memory");'))
edit("a histogram that reads before it is cleared", "RACE", COUNTED,
     ("own[bin] = 0;\n    }\n    __syncthreads();", "own[bin] = 0;\n    }"))
edit("a histogram that adds without atomics", "RACE WA", COUNTED, ("atomicAdd(&own[bin], __popc(same));", "own[bin] += __popc(same);"))
edit("a histogram that adds to volatile words", "RACE WA", COUNTED,
     ("atomicAdd(&own[bin], __popc(same));", "{ volatile int* const v = own; v[bin] = v[bin] + __popc(same); }"))
edit("a histogram whose last addition is a store", "WA RACE", COUNTED,
     ("atomicAdd(&count[bin], own[bin]);", "count[bin] += own[bin];"))

kind("past the counters")
edit("a sum by atomics on shared memory", "PERF", BLOCK_SUM,
     (HALVE, "atomicAdd(&partial[t], partial[t + half]);"))
edit("a sum with sixteen more votes a round", "PERF", BLOCK_SUM,
     ("__syncthreads();  //", "for (int k = 0; k < 16; ++k) __syncthreads_or(t == k);  //"))
edit("a sum with barriers of another number besides", "PERF", BLOCK_SUM,
     ("__syncthreads();  //", '__syncthreads(); for (int k = 0; k < 16; ++k) asm volatile("bar.sync 7;" ::: "memory");  //'))
edit("a sum whose barrier is another one by hand", "AC", BLOCK_SUM, (BARRIER, 'asm volatile("bar.sync 3;" ::: "memory");'))
edit("a histogram of bytes", "WA", COUNTED, ("__shared__ int own[BINS];", "__shared__ int own[BINS]; __shared__ unsigned char few[BINS];"),
     ("if (own[bin] > 0) {", "few[bin] = own[bin]; if (few[bin] > 0) {"), ("atomicAdd(&count[bin], own[bin])", "atomicAdd(&count[bin], few[bin])"))
edit("a histogram in global memory alone", "PERF", COUNTED,
     ("atomicAdd(&own[bin], __popc(same));", "atomicAdd(&count[bin], __popc(same));"))

# ---------------------------------------------------------------- ways out, by addresses
RIGHT = "    if (i < n) z[i] = a * x[i] + y[i];"
kind("spying")
body("a parameter that is not there", "RJ OOB CE RTE", '    unsigned long long v; asm volatile("ld.param.u64 %0, [saxpy_param_0+4096];" : "=l"(v));\n'
     "    if (i < n) z[i] = (float)v;")
body("the stack below its beginning", "OOB", "    float own[4] = {a, a, a, a};\n    volatile float* p = own;\n    if (i < n) z[i] = p[-(1 << 18) - i];")
body("constants behind the last one", "OOB", "    if (i < n) z[i] = few[i + (1 << 14)];", before="__constant__ float few[4];\n")
body("shared memory through a generic address of another window", "OOB",
     "    __shared__ float own[32]; own[threadIdx.x % 32] = a;\n    __syncthreads();\n"
     "    const float* p = own; p += 1 << 22; if (i < n) z[i] = *p;")
body("a text without an end", "AC",  # it is told as a bad one
     '    __shared__ char text[64]; text[threadIdx.x % 64] = 65;\n    __syncthreads();\n    if (i == 0) printf("%s", text);\n' + RIGHT)
body("a forged text", "AC",  # nothing is read there
     '    if (i == 0) printf("%s", (const char*)0x7f0000001000ull);\n' + RIGHT)
body("a forged texture", "RTE RJ OOB CE", "    if (i < n) z[i] = tex1Dfetch<float>((cudaTextureObject_t)0x7f0000001000ull, i);")
body("a bulk copy from anywhere", "OOB RJ RTE CE",
     '    __shared__ alignas(16) float own[64]; __shared__ alignas(8) unsigned long long bar;\n'
     '    const unsigned s = (unsigned)__cvta_generic_to_shared(own), b = (unsigned)__cvta_generic_to_shared(&bar);\n'
     '    if (threadIdx.x == 0) { asm volatile("mbarrier.init.shared.b64 [%0], 1;" :: "r"(b));\n'
     '        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 256, [%2];"'
     ' :: "r"(s), "l"(0x7f0000001000ull), "r"(b) : "memory"); }\n' + RIGHT)

kind("budgets")
body("a function that calls itself by its address", "RJ TLE RTE CLE OOB",
     "    step_t f = again; if (i < n) z[i] = f(a, f);",
     before="typedef float (*step_t)(float, void*);\n"
     "__device__ __noinline__ float again(float v, void* f) { return v > 1e30f ? v : ((step_t)f)(v + 1, f) + 1; }\n")
body("local memory set without end", "TLE", "    volatile float own[512];\n    for (unsigned k = 0; n; ++k) own[(k * 7 + i) % 512] = a;\n" + RIGHT)
body("a switch of many cases, without end", "TLE CLE",
     "    unsigned k = i; float s = 0;\n    while (n) switch (k++ % 64) {" + "".join(
         f" case {c}: s = s * {c}.5f + x[(k * {c}) % n]; break;" for c in range(64)) + " }\n    if (i < n) z[i] = s;")
body("divisions without end", "TLE", "    double s = a; while (n) s = 1.0 / (s + 1.0) + sqrt(s);\n    if (i < n) z[i] = (float)s;")
