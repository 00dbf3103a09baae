"""Microbenchmarks of what stands between a warp and L1: how many accesses have room there, and who waits for whom.

An access has been handed over when its warp may issue the next instruction. All that is handed over is served in turn:
where `s` cycles after the last of them was handed over all are through, and each takes `c`, there was room for `s / c`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from gpu import Launchable, summary
from memory import _load, _registers, _store
from micro import Kernel, Row

if TYPE_CHECKING:
    from driver import Bench

WARPS = 16
_TABLE_BYTES = 256
_WITHIN = {4: (8, 16, 32, 64), 8: (16, 32), 16: (8, 16, 24)}
"""accesses in a row, by width: as many as there are registers for"""
_KINDS: dict[str, tuple[str, int, tuple[str, ...]]] = {
    "ldg": ("global", 4, ("stride_0", "stride_8", "stride_16", "stride_32", "stride_132", "stride_516",
                          "lines_8_sectors_1_apart_128", "lines_32_sectors_1_apart_128",
                          "lines_32_sectors_1_apart_1024")),
    "ldg_cg": ("global.cg", 4, ("stride_4", "stride_32", "stride_132", "lines_32_sectors_1_apart_1024")),
    "ldg64": ("global", 8, ("stride_8", "stride_32", "stride_264")),
    "ldg128": ("global", 16, ("stride_16", "stride_32", "stride_144", "stride_1040")),
    "lds": ("volatile.shared", 4, ("stride_8", "stride_32", "stride_128")),
    "lds128": ("volatile.shared", 16, ("stride_16", "stride_32")),
}  # fmt: skip


def _handed_over(kind: str, depth: int) -> Kernel:
    space, width, _ = _KINDS[kind]
    many = [_registers(width, f"r{k}_") for k in range(depth)]
    step = 128 if kind.startswith("ldg") else 16
    place = "shared_at(words) + data[threadIdx.x % 32]" if kind.startswith("lds") else (
        f"(u64)data + {_TABLE_BYTES} + data[threadIdx.x % 32]")  # fmt: skip
    loads = " ".join(_load(space, width, many[k], "at", k * step) for k in range(depth))
    total = " + ".join(name for names in many for name in names)
    name = f"handed_{kind}_{depth}"
    return Kernel(name, f"""
extern "C" __global__ void __launch_bounds__({32 * WARPS}) {name}(SIGNATURE)  // b: until the data are there
{{
    extern __shared__ unsigned words[];
    u64 t0, t1, t2, all = 0;
    unsigned {", ".join(name for names in many for name in names)};
    const {"unsigned" if kind.startswith("lds") else "u64"} at = {place};
    #pragma unroll 1
    for (int pass = 0; pass < 4; ++pass) {{
        __syncthreads();
        CLOCK(t0);
        {loads}
        CLOCK(t1);
        const unsigned sum = {total};
        if (sum == 0x12345678) times[0] = sum;
        CLOCK(t2);
        all += sum;
    }}
    leave(times, t0, b ? t2 : t1, 0, 0, all);
}}
""")


def room() -> tuple[list[Kernel], list[Row]]:
    """How long 16 warps need to hand over so many accesses of a kind, and until all data are there."""
    kernels, rows = [], []
    for kind, (_, width, patterns) in _KINDS.items():
        for depth in _WITHIN[width]:
            kernels.append(_handed_over(kind, depth))
            for pattern in patterns:
                for until, told in enumerate(("handed_over", "there")):
                    rows.append(Row(
                        name=f"stage/{kind}_{pattern}/{depth}_{told}",
                        what=f"{WARPS} warps, {depth} accesses each, until the last is {told.replace('_', ' ')}",
                        unit="cycles", kernel=f"handed_{kind}_{depth}", threads=32 * WARPS, args=(0, until, 0),
                        shared=48 << 10, repeats=3, data=pattern, carveout=50,
                    ))  # fmt: skip
    return kernels, rows


# ---------------------------------------------------------------- who waits for whom

_FIRST: dict[str, tuple[str, str, str]] = {
    "ldg_32_lines_one_bank": ("global", "load", "lines_32_sectors_1_apart_1024"),
    "ldg_tags_alone": ("global", "load", "stride_132"),
    "ldg_l2": ("global.cg", "load", "lines_32_sectors_1_apart_1024"),
    "stg_32_lines": ("global", "store", "lines_32_sectors_1_apart_1024"),
    "lds_one_bank": ("volatile.shared", "load", "stride_128"),
    "sts_one_bank": ("volatile.shared", "store", "stride_128"),
    "mufu": ("", "mufu", "stride_4"),
}  # fmt: skip
"""What goes first: space, way, places of lanes."""
_THEN = {
    "lds": 'asm volatile("ld.volatile.shared.u32 %0, [%1];" : "=r"(y) : "r"(near) : "memory");',
    "ldg": 'asm volatile("ld.global.u32 %0, [%1];" : "=r"(y) : "l"(far) : "memory");',
    "shfl": 'asm volatile("shfl.sync.bfly.b32 %0, %0, 1, 31, -1;" : "+r"(y));',
    "s2r": 'asm volatile("mov.u32 %0, %%smid;" : "=r"(y));',
    "mufu": 'asm volatile("ex2.approx.ftz.f32 %0, %0;" : "+r"(y));',
}  # fmt: skip
AHEAD = (0, 4, 8)
_FEWEST_WARPS = 8
_PLACES = ((0, "same_warp"), (4, "same_sub_core"), (1, "other_sub_core"))


def _one_of(first: str, k: int) -> str:
    space, way, _ = _FIRST[first]
    at = "shared_at(words) + place" if "shared" in space else "base"
    if way == "mufu":
        return f'asm volatile("ex2.approx.ftz.f32 %0, %0;" : "+f"(f{k}));'
    if way == "store":
        return f"{{ const unsigned v0 = place; {_store(space, 4, at, k * 128)} }}"
    return _load(space, 4, [f"x{k}"], at, k * 128)


def _behind(first: str, then: str) -> Kernel:
    name = f"behind_{first}_{then}"
    names = range(max(AHEAD))
    before = " ".join(
        f"if (c >= {until}) {{ {' '.join(_one_of(first, k) for k in range(since, until))} }}"
        for since, until in pairwise(AHEAD)
    ).replace("(base)", "(base + place)")
    return Kernel(name, f"""
extern "C" __global__ void {name}(SIGNATURE)  // warp 0 does c of the first thing, warp b the second one
{{
    extern __shared__ unsigned words[];
    const unsigned warp = threadIdx.x / 32, place = data[threadIdx.x % 32];
    const u64 base = (u64)data + {_TABLE_BYTES}, far = base + threadIdx.x % 32 * 4 + 65536;
    const unsigned near = shared_at(words) + threadIdx.x % 32 * 4;
    u64 start, t0 = 0, t1 = 0, all = 0;
    unsigned y = place, {", ".join(f"x{k} = 0" for k in names)};
    float {", ".join(f"f{k} = place + {k}" for k in names)};
    #pragma unroll 1
    for (int pass = 0; pass < 4; ++pass) {{
        __syncthreads();
        CLOCK(start);
        if (warp == 0) {{ {before} }}
        if (b != 0) do {{ CLOCK(t1); }} while (t1 - start < 80);
        if (warp == b) {{
            CLOCK(t0);
            {_THEN[then]}
            if (y == 0x12345678) times[0] = y;
            CLOCK(t1);
        }}
        __syncthreads();
        all += y + {" + ".join(f"x{k} + __float_as_uint(f{k})" for k in names)};
    }}
    if (warp == b && threadIdx.x % 32 == 0) {{
        ((volatile u64*)words)[2048] = t0;
        ((volatile u64*)words)[2049] = t1;
    }}
    __syncthreads();
    leave(times, ((volatile u64*)words)[2048], ((volatile u64*)words)[2049], 0, 0, all);
}}
""")


def order() -> tuple[list[Kernel], list[Row]]:
    """How long one instruction takes behind others of its warp, of its sub-core, of the multiprocessor."""
    kernels, rows = [], []
    for first in _FIRST:
        for then in _THEN:
            kernels.append(_behind(first, then))
            for ahead in AHEAD:
                for warp, told in _PLACES:
                    rows.append(Row(
                        name=f"behind/{first}/{then}/{ahead}_{told}",
                        what=f"{then} and the use of its result, behind {ahead} of {first} of the {told}",
                        unit="cycles", kernel=f"behind_{first}_{then}", threads=32 * _FEWEST_WARPS,
                        args=(0, warp, ahead), shared=48 << 10, repeats=3, data=_FIRST[first][2], carveout=50,
                    ))  # fmt: skip
    return kernels, rows


# ---------------------------------------------------------------- shared and global memory together

_NEAR_MANY, _FAR_MANY = 8, 2
"""accesses to shared and to global memory in a loop"""
_NEAR: dict[str, str] = {
    "lds": _load("volatile.shared", 4, ["n0"], "near", 0),
    "lds128": _load("volatile.shared", 16, _registers(16, "n"), "near4", 0),
    "sts128": _store("volatile.shared", 16, "near4", 0),
}
_FAR: dict[str, tuple[str, int, str]] = {
    "ldg128_l1": (_load("global", 16, _registers(16, "f"), "far", 0), 0, "lane * 16"),
    "ldg128_l2": (_load("global", 16, _registers(16, "f"), "far", 0), 512, "lane * 16"),
    "ldg128_l2_rows": (_load("global", 16, _registers(16, "f"), "far", 0), 32, "lane / 2 * 16384 + lane % 2 * 16"),
    "ldg_l2": (_load("global", 4, ["f0"], "far", 0), 128, "lane * 4"),
    "ldgsts128_l2": ('asm volatile("cp.async.cg.shared.global [%0], [%1], 16; cp.async.commit_group;" : : '
                     '"r"(near4 + 16384), "l"(far) : "memory");', 512, "lane * 16"),
    "stg128": (_store("global", 16, "far", 0), 512, "lane * 16"),
}  # fmt: skip
"""What is done, how far on the next one is, and places of lanes."""
_APART = 1 << 18
"""Bytes from one warp's places to the next one's: all together more than L1 has, and less than L2."""


def _both(near: str, far: str) -> Kernel:
    what, step, places = _FAR[far]
    results = [name for kind in "nfg" for name in _registers(16, kind)]
    names = ", ".join(f"{name} = 0" for name in results)
    on = f" far += {step};" if step else ""
    another = what.replace('"=r"(f', '"=r"(g').replace("+0]", f"+{0 if step else 512}]")  # each has results of its own: else only the last one would be left
    return Kernel(f"both_{near}_{far}", f"""
extern "C" __global__ void both_{near}_{far}(SIGNATURE)  // a: of shared memory, b: of global memory
{{
    extern __shared__ unsigned words[];
    const unsigned lane = threadIdx.x % 32, near = shared_at(words) + lane * 4, near4 = shared_at(words) + lane * 16;
    const u64 begin = (u64)data + threadIdx.x / 32 * {_APART} + {places};
    unsigned {names}, {", ".join(f"v{k} = data[{k}]" for k in range(4))};
    u64 came = 0, t0 = 0, t1 = 0;
    #pragma unroll 1
    for (int pass = 0; pass < 2; ++pass) {{
        u64 far = begin;
        CLOCK(came);
        __syncthreads();
        CLOCK(t0);
        #pragma unroll 1
        for (int i = 0; i < loops; ++i) {{
            if (a) {{ {_NEAR[near] * _NEAR_MANY} }}
            if (b) {{ {what}{on} {another}{on} }}
        }}
        asm volatile("cp.async.wait_all;" : : : "memory");
        CLOCK(t1);
    }}
    const unsigned all = {" + ".join(results)};
    leave(times, t0, t1, 0, 0, all, came);
}}
""")


def together() -> tuple[list[Kernel], list[Row]]:
    """How long accesses to shared and to global memory take, alone and both at once."""
    kernels, rows = [], []
    for far in _FAR:
        for near in _NEAR:
            kernels.append(_both(near, far))
            for told, args in (("both", (1, 1, 0)), (f"{near}_alone", (1, 0, 0)), (f"{far}_alone", (0, 1, 0))):
                rows.append(Row(
                    name=f"together/{near}_and_{far}/{told}",
                    what=f"{_NEAR_MANY} {near} and {_FAR_MANY} {far} of one of {WARPS} warps: {told.replace('_', ' ')}",
                    unit="cycles of a multiprocessor", kernel=f"both_{near}_{far}", threads=32 * WARPS, loops=200,
                    per=200 * WARPS, args=args, shared=48 << 10, repeats=3, data="zeros", carveout=50,
                ))  # fmt: skip
    return kernels, rows


# ---------------------------------------------------------------- the first touch of code and constants

LINES = 60
"""of 64 bytes of constants"""
JUMPS, APART = 31, 256
"""jumps in a row, and instructions from each to the next"""


def first_touches() -> list[Kernel]:
    """Kernels that read one word of each 64 bytes of constants, and that jump from one line of code to a far one."""
    def reads(of: str) -> str:
        return " ".join(
            f'CLOCK(t[{k}]); asm volatile("xor.b32 %0, %0, %1;" : "+r"(y) : "r"({of}[{16 * k}])); CLOCK(u[{k}]);'
            for k in range(LINES)
        )  # fmt: skip

    body = """
{{
    u64 t[{n}], u[{n}];
    unsigned y = threadIdx.x;
    {reads}
    if (threadIdx.x == 0) for (int k = 0; k < {n}; ++k) times[k] = u[k] - t[k];
    if (y == 0x12345678) times[0] = y;
}}
"""
    found = [
        Kernel("first_parameters", "struct Many { unsigned w[960]; };\n"
               'extern "C" __global__ void first_parameters(u64* times, Many many)'
               + body.format(n=LINES, reads=reads("many.w"))),
        Kernel("first_constants", "__constant__ unsigned table[16 * 64];\n"
               'extern "C" __global__ void first_constants(u64* times)'
               + body.format(n=LINES, reads=reads("table"))),
    ]  # fmt: skip
    fill = "".join(f"fma.rn.f32 %{n % 4}, %{n % 4}, %{n % 4}, %4;\\n" for n in range(APART - 2))
    jump = "@p bra JUMP_{k};\\n{fill}JUMP_{k}:\\nadd.f32 %0, %0, %4;\\n"
    text = "setp.ne.s32 p, %5, 12345;\\n" + "".join(jump.format(k=k, fill=fill) for k in range(JUMPS))
    outs = ", ".join(f'"+f"(x{i})' for i in range(4))
    found.append(Kernel("jumps", f"""
extern "C" __global__ void jumps(SIGNATURE)
{{
    u64 t0 = 0, t1 = 0;
    float x0 = data[0], x1 = data[1], x2 = data[2], x3 = data[3], y = data[4];
    #pragma unroll 1
    for (int pass = 0; pass <= a; ++pass) {{
        __syncthreads();
        CLOCK(t0);
        asm volatile("{{ .reg .pred p;\\n{text} }}" : {outs} : "f"(y), "r"(b));
        CLOCK(t1);
    }}
    if (b == 12345) *(float*)data = x0 + x1 + x2 + x3;
    leave(times, t0, t1, 0, 0, 0);
}}
""", alone=True))  # fmt: skip
    return found


def touched_first(bench: Bench) -> Iterator[dict[str, Any]]:
    """What the first touch of a line costs: of parameters, of a module's constants, of code that is not the next."""
    for name in ("first_parameters", "first_constants"):
        code = bench.code(name)
        function = bench.gpu.kernel_of(code, name)
        params = [bytes(bench.times)] + ([struct.pack("<960I", *range(960))] if name == "first_parameters" else [])
        work = Launchable(bench.gpu, function, (1,), (32,), params)
        for state in ("flushed", "again"):
            found = []
            for _ in range(9):
                if state == "flushed":
                    bench.work("cold_8192", blocks=132, threads=32)()
                    bench.flush()
                work()
                bench.gpu.wait()
                found.append(bench.gpu.get(bench.times, np.empty(LINES, np.uint64)).astype(float))
            each = np.median(found, axis=0)
            bench.extra[f"{name}/{state}"] = [float(value) for value in each]
            yield {"name": f"{name}/{state}", "value": float(np.median(each)), "unit": "cycles", "spread": 0.0,
                   "what": f"the first touch of each 64 bytes, L2 {state}; the median line, all are in extra",
                   "how": "clock before and behind one XOR with a constant, one warp, median of 9"}  # fmt: skip
    for state, passes in (("flushed", 0), ("second_time", 1)):
        work = bench.work("jumps", blocks=1, threads=32, args=(passes, 0, 0))
        values = []
        for _ in range(9):
            bench.work("cold_8192", blocks=132, threads=32)()
            bench.flush()
            work()
            bench.gpu.wait()
            times = bench.fetch(1)
            values.append(float(times[1] - times[0]) / JUMPS)
        value, spread = summary(values)
        yield {"name": f"fetch/jump_{state}", "value": value, "unit": "cycles for each jump", "spread": spread,
               "what": f"{JUMPS} jumps, each {APART} instructions on, {state.replace('_', ' ')}",
               "how": "clock, one warp, median of 9"}  # fmt: skip
