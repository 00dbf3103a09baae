"""What a microbenchmark is: a kernel that reads the clock, and a row of the record that says what the time is of.

All kernels have one signature, so that one driver launches them: `(times, data, loops, a, b, c)`. Each warp leaves seven
numbers in `times`: clock before and after, multiprocessor, global timer before and after (ns), one of its own, and the
clock when it came to the barrier behind which all begin (0 for kernels without).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

SLOTS = 7
"""numbers of 64 bits that a warp leaves"""

PRELUDE = f"#define SLOTS {SLOTS}ull\n" + r"""
typedef unsigned long long u64;
#define CLOCK(t) asm volatile("mov.u64 %0, %%clock64;" : "=l"(t) :: "memory")
#define TIMER(t) asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t) :: "memory")
__device__ __forceinline__ unsigned sm_number() { unsigned s; asm volatile("mov.u32 %0, %%smid;" : "=r"(s)); return s; }
__device__ __forceinline__ unsigned shared_at(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
__device__ __forceinline__ void leave(u64* times, u64 t0, u64 t1, u64 g0, u64 g1, u64 own, u64 came = 0)
{
    if (threadIdx.x % 32 == 0) {
        u64* at = times + SLOTS * (blockIdx.x * ((blockDim.x + 31) / 32) + threadIdx.x / 32);
        at[0] = t0; at[1] = t1; at[2] = sm_number(); at[3] = g0; at[4] = g1; at[5] = own; at[6] = came;
    }
}
#define SIGNATURE u64* times, unsigned* data, int loops, int a, int b, int c
"""


@dataclass(frozen=True)
class Kernel:
    """Source of one kernel; `expected`: opcodes in its largest loop, by which the machine code is checked.

    `arch_specific`: it needs sm_90a. `patch`: registers for its FFMAs, see `cubins.patch_ffma`.
    """

    name: str
    source: str
    expected: Mapping[str, float] = field(default_factory=dict)
    arch_specific: bool = False
    alone: bool = False
    """in a source of its own: it is large"""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One figure: the time of `kernel`, less that of `minus`, over `per`.

    `reduce` is how the warps' clocks become one number: "span" (from when the last warp came to the barrier to the last
    end; behind the barrier one warp may read the clock early, or late while others are issued), "each" (the median of
    the warps' own times), "first" (the first end as a part of the last one), "event" (microseconds between events).
    `args` are a, b and c; `data` names how the data start (`driver.py`). `scale` is multiplied at the end; with
    `invert` the value is `per` over the time.
    """

    name: str
    what: str
    unit: str
    kernel: str
    threads: int
    per: float = 1.0
    minus: str = ""
    blocks: int = 1
    """0: one for each multiprocessor, -n: n for each"""
    loops: int = 1
    args: tuple[int, int, int] = (0, 0, 0)
    data: str = "mixed"
    shared: int = 0
    reduce: str = "span"
    invert: bool = False
    scale: float = 1.0
    carveout: int = -1
    repeats: int = 5
    setup: tuple = ()
    variant: str = ""
    """of patched kernels: which registers"""


def body_kernel(
    name: str, declared: Sequence[str], body: Sequence[str], used: Sequence[str], *, expected: Mapping[str, float]
) -> Kernel:
    """A kernel that runs `loops` times over the statements of `body`, twice, and times the second."""
    inside = "\n            ".join(body)
    total = " + ".join(f"(double){name}" for name in used)
    source = f"""
extern "C" __global__ void {name}(SIGNATURE)
{{
    {" ".join(declared)}
    u64 came = 0, t0 = 0, t1 = 0;
    #pragma unroll 1
    for (int pass = 0; pass < 2; ++pass) {{
        CLOCK(came);
        __syncthreads();
        CLOCK(t0);
        #pragma unroll 1
        for (int i = 0; i < loops; ++i) {{
            {inside}
        }}
        CLOCK(t1);
    }}
    if (b == 12345) *(double*)data = {total};
    leave(times, t0, t1, 0, 0, 0, came);
}}
"""
    return Kernel(name, source, expected)
