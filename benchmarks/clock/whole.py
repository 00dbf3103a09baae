"""Microbenchmarks of the whole chip that take more than one launch and one number: launches, blocks, L2's halves, clock.

Each function gets the `Bench` of `driver.py` and yields rows as they stand in the record.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from gpu import summary
from micro import SLOTS, Kernel

if TYPE_CHECKING:
    from driver import Bench

MIB = 1 << 20
LINES = 2048
"""of L2 whose latency is measured from every multiprocessor"""
THREADS = (32, 64, 128, 256, 512, 1024)
LOAD_SECONDS = 1.2
SET, SET_SHARED = 4, 50 << 10
"""blocks of a full set on a multiprocessor, and the shared memory that makes them so many"""
SETS = {"ffma": 4000, "staged": 400}
"""kernels whose blocks are counted by multiprocessor, and their loops"""

_LOADED = """
extern "C" __global__ void {name}(SIGNATURE)
{{
    {declared}
    u64 t0, t1, g0, g1;
    TIMER(g0);
    CLOCK(t0);
    #pragma unroll 1
    for (int i = 0; i < loops; ++i) {{ {body} }}
    CLOCK(t1);
    TIMER(g1);
    if (b == 12345) *(double*)data = {total};
    leave(times, t0, t1, g0, g1, 0);
}}
"""


def _load_ffma() -> Kernel:
    declared = ["const float y = 0.999f;"]
    declared += [f"float x{i} = data[{i} + threadIdx.x] * 1e-9f, z{i} = data[{i + 9}] * 1e-9f;" for i in range(8)]
    body = " ".join(f'asm volatile("fma.rn.f32 %0, %0, %1, %2;" : "+f"(x{n % 8}) : "f"(y), "f"(z{n % 8}));'
                    for n in range(64))  # fmt: skip
    total = " + ".join(f"x{i}" for i in range(8))
    return Kernel("load_ffma", _LOADED.format(name="load_ffma", declared=" ".join(declared), body=body, total=total))


def _load_hmma() -> Kernel:
    declared = "unsigned " + ", ".join(f"a{j} = data[threadIdx.x + {j} + 97 * blockIdx.x]" for j in range(6)) + ";"
    declared += " float " + ", ".join(f"x{j} = 0" for j in range(32)) + ";"
    one = ('asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {{%0,%1,%2,%3}}, {{%4,%5,%6,%7}}, '
           '{{%8,%9}}, {{%0,%1,%2,%3}};" : {outs} : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(a4), "r"(a5));')  # fmt: skip
    body = " ".join(
        one.format(outs=", ".join(f'"+f"(x{4 * (n % 8) + j})' for j in range(4))) for n in range(16)
    ).replace("{{", "{").replace("}}", "}")  # fmt: skip
    total = " + ".join(f"x{j}" for j in range(32))
    return Kernel("load_hmma", _LOADED.format(name="load_hmma", declared=declared, body=body, total=total))


def _load_staged() -> Kernel:
    """Goes by way of L2, shared memory, barriers and FFMAs, so that multiprocessors come apart."""
    declared = ["extern __shared__ unsigned words[];", "const float y = 0.999f;", "float z = data[threadIdx.x] * 1e-9f;"]
    declared += [f"float x{i} = data[{i} + threadIdx.x] * 1e-9f;" for i in range(8)]
    body = """
        const unsigned at = ((blockIdx.x * 7 + i) * blockDim.x + threadIdx.x) & 0x7fffff;
        unsigned got;
        asm volatile("ld.global.cg.u32 %0, [%1];" : "=r"(got) : "l"(data + at) : "memory");
        words[threadIdx.x] = got;
        __syncthreads();
        z += __uint_as_float(words[threadIdx.x ^ 32] & 0xffff);
    """
    body += " ".join(f'asm volatile("fma.rn.f32 %0, %0, %1, %2;" : "+f"(x{n % 8}) : "f"(y), "f"(z));' for n in range(64))
    body += " __syncthreads();"
    total = "z + " + " + ".join(f"x{i}" for i in range(8))
    return Kernel(
        "load_staged", _LOADED.format(name="load_staged", declared=" ".join(declared), body=body, total=total)
    )


def kernels() -> list[Kernel]:
    """What the measurements of this module launch."""
    found = [_load_ffma(), _load_hmma(), _load_staged()]
    found.append(Kernel("empty", 'extern "C" __global__ void empty(SIGNATURE) {}\n'))
    found.append(Kernel("empty_shared", """
extern "C" __global__ void empty_shared(SIGNATURE)
{
    extern __shared__ unsigned words[];
    if (a == 12345) words[threadIdx.x] = b, data[0] = words[c];
}
"""))  # fmt: skip
    for registers in (64, 128, 255):
        values = "; ".join(f"float x{i} = data[{i}]" for i in range(registers - 24))
        use = " ".join(f"x{i} = x{i} * x{(i + 7) % (registers - 24)};" for i in range(registers - 24))
        keep = " ".join(f"data[{i}] = x{i};" for i in range(registers - 24))
        found.append(Kernel(f"empty_registers_{registers}", f"""
extern "C" __global__ void __launch_bounds__(256) empty_registers_{registers}(SIGNATURE)
{{
    if (a != 12345) return;
    {values};
    for (int i = 0; i < b; ++i) {{ __syncthreads(); {use} }}
    {keep}
}}
"""))  # fmt: skip
    for count in (512, 2048, 8192):
        text = "".join(f"fma.rn.f32 %{n % 8}, %{n % 8}, %{n % 8 + 8}, %{n % 8 + 8};\\n" for n in range(count))
        outs, ins = (", ".join(f'"{sort}"({name}{i})' for i in range(8)) for sort, name in (("+f", "x"), ("f", "y")))
        values = " ".join(f"float x{i} = data[{i} + threadIdx.x], y{i} = data[{i + 8}];" for i in range(8))
        total = " + ".join(f"x{i}" for i in range(8))
        found.append(Kernel(f"cold_{count}", _LOADED.replace("for (int i = 0; i < loops; ++i)", "").format(
            name=f"cold_{count}", declared=values, body=f'asm volatile("{text}" : {outs} : {ins});', total=total
        ).replace("#pragma unroll 1", "")))  # fmt: skip
    found.append(Kernel("spin", """
extern "C" __global__ void spin(SIGNATURE)  // each block stays for `a` cycles
{
    u64 t0, t1, g0, g1;
    CLOCK(t0);
    TIMER(g0);
    do { CLOCK(t1); } while (t1 - t0 < a);
    TIMER(g1);
    if (threadIdx.x == 0) {
        u64* at = times + SLOTS * blockIdx.x;
        at[0] = t0; at[1] = t1; at[2] = sm_number(); at[3] = g0; at[4] = g1; at[5] = 0;
    }
}
"""))  # fmt: skip
    found.append(Kernel("l2_map", """
extern "C" __global__ void l2_map(SIGNATURE)  // one warp on each SM: cycles of each of `loops` lines, a bytes apart
{
    unsigned short* out = (unsigned short*)times + (u64)blockIdx.x * loops;
    const char* base = (const char*)data;
    unsigned carry = 0;
    for (int pass = 0; pass < 2; ++pass)
        for (int i = 0; i < loops; ++i) {
            u64 t0, t1;
            unsigned v;
            CLOCK(t0);
            asm volatile("ld.global.cg.u32 %0, [%1];" : "=r"(v) : "l"(base + (u64)i * a + carry) : "memory");
            carry = v & 0;
            asm volatile("" :: "r"(carry), "r"(v) : "memory");
            unsigned w = v + 1;
            asm volatile("mov.u32 %0, %0;" : "+r"(w) :: "memory");
            if (w == 0x7fffffff) out[0] = 1;
            CLOCK(t1);
            if (threadIdx.x == 0) out[i] = (unsigned short)(t1 - t0);
        }
    if (threadIdx.x == 0) ((unsigned*)data)[(u64)c * 64 + blockIdx.x] = sm_number();
}
"""))  # fmt: skip
    return found


def launches(bench: Bench) -> Iterator[dict[str, Any]]:
    """An empty kernel: between two events, in a graph, and by number and size of blocks."""
    gpu = bench.gpu

    def row(name: str, what: str, values: list[float], unit: str, how: str) -> dict[str, Any]:
        value, spread = summary(values)
        return {"name": f"launch/{name}", "what": what, "value": value, "unit": unit, "spread": spread, "how": how}

    def between(work: Any, count: int = 1) -> float:
        gpu.wait()
        bench.hold(20.0 + 4.0 * count)
        start = gpu.mark()
        for _ in range(count):
            work()
        return gpu.between_us(start, gpu.mark())

    one = bench.work("empty", blocks=1, threads=32)
    yield row("events_alone", "two events with nothing between", [between(one, 0) for _ in range(21)], "us", "events")
    for count in (1, 2, 10, 100):
        values = [between(one, count) / count for _ in range(21)]
        yield row(f"empty_{count}", f"{count} empty kernels of one warp, each", values, "us", "events, kernels queued")
    for blocks, threads in ((132, 256), (132, 1024), (1056, 256)):
        work = bench.work("empty", blocks=blocks, threads=threads)
        values = [between(work) for _ in range(21)]
        yield row(f"empty_{blocks}x{threads}", f"an empty kernel of {blocks} blocks of {threads} threads", values,
                  "us", "events, kernel queued")  # fmt: skip
    graph = gpu.captured([one] * 1000)
    gpu.replay(graph)
    values = []
    for _ in range(7):
        start = gpu.mark()
        gpu.replay(graph)
        values.append(gpu.between_us(start, gpu.mark()) / 1000)
    yield row("graph_node", "one of 1000 empty kernels in a graph", values, "us", "events around the graph")
    for name, threads, shared in (
        *(("empty", threads, 0) for threads in THREADS), ("empty_shared", 128, 16 << 10),
        ("empty_shared", 128, 100 << 10), ("empty_shared", 128, 200 << 10), ("empty_registers_64", 256, 0),
        ("empty_registers_128", 256, 0), ("empty_registers_255", 256, 0),
    ):  # fmt: skip
        few, many = (bench.work(name, blocks=n, threads=threads, shared=shared) for n in (13200, 132000))
        values = [(between(many) - between(few)) / 900 * 1e3 for _ in range(9)]
        yield row(f"per_block/{name}_{threads}_threads_{shared >> 10}_kib",
                  f"blocks of {name}, {threads} threads, {shared >> 10} KiB of dynamic shared memory: time of one more "
                  "block on each SM", values, "ns per block and multiprocessor",
                  "events: 132000 blocks less 13200")  # fmt: skip


def turnover(bench: Bench) -> Iterator[dict[str, Any]]:
    """When blocks start: the first ones of a launch on a multiprocessor, and one in another's place."""
    for threads in THREADS:
        for shared, told in ((200 << 10, "one at a time"), (0, "as many as fit")):
            starts, gaps, grids = [], [], []
            for _ in range(3):
                work = bench.work("spin", blocks=132 * 8 * max(1, 1024 // threads), threads=threads, shared=shared,
                                  args=(4000, 0, 0), data="mixed")  # fmt: skip
                work()
                bench.gpu.wait()
                found = bench.fetch(132 * 8 * max(1, 1024 // threads)).reshape(-1, SLOTS)
                grids.append(float(np.ptp(found[:, 3][found[:, 3] < found[:, 3].min() + 2000])))
                for sm in np.unique(found[:, 2]):
                    mine = found[found[:, 2] == sm]
                    mine = mine[np.argsort(mine[:, 0])]
                    first = mine[mine[:, 0] < mine[:, 1].min()]
                    starts += list(np.diff(first[:, 0].astype(np.int64)))
                    if shared:
                        gaps += list((mine[1:, 0] - mine[:-1, 1]).astype(np.int64))
                    else:
                        ends = np.sort(mine[:, 1])[: len(mine) - len(first)]
                        gaps += list(mine[len(first) :, 0].astype(np.int64) - ends.astype(np.int64))
            for name, values, what in (
                ("first", starts, "from the start of one block to that of the next on an SM, first blocks of a launch"),
                ("next", gaps, "from the end of a block to the start of the block in its place"),
            ):  # fmt: skip
                if values:
                    value, spread = summary(values)
                    yield {"name": f"block/{name}_{threads}_threads_{'alone' if shared else 'many'}",
                           "what": f"{what}; {threads} threads, {told}", "value": value, "unit": "cycles",
                           "spread": spread, "how": "clock of each block, median of all"}  # fmt: skip


def last_sets(bench: Bench) -> Iterator[dict[str, Any]]:
    """Who gets the blocks that are left when there are no longer enough for a full set on each multiprocessor."""
    sms = bench.gpu.facts["sms"]
    for name, loops in SETS.items():
        for full in (1, 3):
            for share in (0, 1, 2, 4, 8, 12):
                blocks = sms * SET * full + sms * SET * share // 16
                work = bench.work(f"load_{name}", blocks=blocks, threads=128, loops=loops, shared=SET_SHARED,
                                  data="stream", carveout=100)  # fmt: skip
                most, busy, took = [], [], []
                for _ in range(5):
                    work()
                    bench.gpu.wait()
                    found = bench.fetch(blocks * 4).reshape(blocks, 4, SLOTS).astype(np.int64)
                    got = np.bincount(np.bincount(found[:, 0, 2], minlength=sms))
                    most.append(float(len(got) - 1))
                    busy.append([int(n) for n in got])
                    took.append(float(found[:, :, 4].max() - found[:, :, 3].min()))
                bench.extra[f"sets/{name}_{full}_full_{share}_16ths"] = busy
                for told, values, unit in (("most", most, "blocks"), ("took", took, "ns")):
                    value, spread = summary(values)
                    yield {"name": f"sets/{name}_{full}_full_{share}_16ths_{told}", "value": value, "unit": unit,
                           "what": f"{full} full sets of {SET} blocks on each SM and {share}/16 of one: "
                                   + ("blocks of the fullest SM" if told == "most" else "from first start to last end"),
                           "spread": spread, "how": f"load_{name}, SM and global timer of each block, median of 5; "
                                                    "in extra how many SMs got how many, from 0 on"}  # fmt: skip


def second_level(bench: Bench) -> Iterator[dict[str, Any]]:
    """L2's latency from each multiprocessor to each of many lines: two halves, and how far apart they are."""
    sms = bench.gpu.facts["sms"]
    for apart in (128, 4096 + 128):
        work = bench.work("l2_map", blocks=sms, threads=32, loops=LINES, args=(apart, 0, LINES * apart // 256 + 64),
                          data="zeros")  # fmt: skip
        work()
        work()
        bench.gpu.wait()
        raw = bench.fetch(sms * LINES // 4 // 6 + 1, slots=6)
        cycles = raw.reshape(-1).view(np.uint16)[: sms * LINES].reshape(sms, LINES).astype(float)
        flat = np.sort(cycles.reshape(-1))
        how = f"clock around one load past L1, {LINES} lines {apart} bytes apart, from every SM, second pass"
        for percent in (1, 5, 10, 25, 50, 75, 90, 95, 99):
            yield {"name": f"l2_latency/{apart}_apart_p{percent}", "what": f"percentile {percent} of L2's latency",
                   "value": float(np.percentile(flat, percent)), "unit": "cycles", "spread": 0.0, "how": how}  # fmt: skip
        low, high = _two_means(flat)
        near = flat[flat < (low + high) / 2]
        for name, value in (("near", low), ("far", high), ("near_share", len(near) / len(flat))):
            yield {"name": f"l2_latency/{apart}_apart_{name}", "what": f"two means of all latencies: {name}",
                   "value": float(value), "unit": "cycles" if name != "near_share" else "1", "spread": 0.0,
                   "how": how}  # fmt: skip
        means = cycles.mean(axis=1)
        yield {"name": f"l2_latency/{apart}_apart_sm_spread", "what": "largest less smallest mean of a multiprocessor",
               "value": float(np.ptp(means)), "unit": "cycles", "spread": 0.0, "how": how}  # fmt: skip
        bench.extra[f"l2_latency_by_line_{apart}"] = {
            "sm_means": [round(float(m), 1) for m in means],
            "first_sm": [int(c) for c in cycles[0, :256]], "last_sm": [int(c) for c in cycles[-1, :256]],
            "correlation_of_sms": [[round(float(r), 2) for r in line] for line in np.corrcoef(cycles)[:8]],
        }  # fmt: skip


def _two_means(values: np.ndarray) -> tuple[float, float]:
    low, high = np.percentile(values, [20, 80])
    for _ in range(30):
        below = values < (low + high) / 2
        if below.all() or not below.any():
            break
        low, high = values[below].mean(), values[~below].mean()
    return float(low), float(high)


def clocks(bench: Bench) -> Iterator[dict[str, Any]]:
    """The clock that a long load reaches: cycles over nanoseconds of the global timer, in the last of many launches."""
    sms = bench.gpu.facts["sms"]
    loads = (
        ("idle", "spin", sms, 32, {"args": (2_000_000, 0, 0), "data": "mixed"}),
        ("fp32", "load_ffma", sms * 2, 1024, {"loops": 20_000, "data": "mixed"}),
        ("memory", "stream_copy_4", sms * 2, 1024,
         {"loops": 32, "args": (40, 16, 1024), "data": "stream"}),
        ("hmma_f16", "load_hmma", sms * 2, 512, {"loops": 20_000, "data": "half"}),
        ("wgmma_f16", "wgmma_f16_n256_shared_12", sms, 256, {"loops": 10_000, "shared": 48 << 10, "data": "half"}),
        ("dfma", "dfma_rate_96", sms, 512, {"loops": 2_000, "data": "mixed"}),
        ("after_all", "spin", sms, 32, {"args": (2_000_000, 0, 0), "data": "mixed"}),
    )  # fmt: skip
    for name, kernel, blocks, threads, options in loads:
        work = bench.work(kernel, blocks=blocks, threads=threads, **options)
        timer = bench.work("spin", blocks=sms, threads=32, args=(200_000, 0, 0), data="mixed")
        rates: list[float] = []
        first = 0.0
        started = time.monotonic()
        while time.monotonic() - started < LOAD_SECONDS:
            for _ in range(3):
                work()
            timer()
            bench.gpu.wait()
            found = bench.fetch(sms).reshape(-1, SLOTS)
            cycles = (found[:, 1] - found[:, 0]).astype(float)
            rates.append(float(np.median(cycles / (found[:, 4] - found[:, 3]).astype(float)) * 1e3))
            first = first or rates[0]
        value, spread = summary(rates[len(rates) // 2 :])
        yield {"name": f"clock/{name}", "what": f"clock right after {name} has run for {LOAD_SECONDS} s", "value": value,
               "unit": "MHz", "spread": spread, "how": "clock64 over globaltimer in a short kernel after the load"}  # fmt: skip
        yield {"name": f"clock/{name}_first", "what": f"clock after the first launches of {name}", "value": first,
               "unit": "MHz", "spread": 0.0, "how": "the same"}  # fmt: skip


def cold_fetch(bench: Bench) -> Iterator[dict[str, Any]]:
    """Instructions that no cache has: a long kernel's first pass after another long one has run."""
    other = bench.work("fetch_32768", blocks=132, threads=32, loops=1)
    for count in (512, 2048, 8192):
        values: dict[int, list[float]] = {1: [], 8: []}
        for warps, found in values.items():
            work = bench.work(f"cold_{count}", blocks=1, threads=32 * warps)
            for _ in range(9):
                other()
                bench.flush()
                work()
                bench.gpu.wait()
                times = bench.fetch(warps).reshape(-1, SLOTS)
                found.append(float(times[:, 1].max() - times[:, 0].min()) / count)
            value, spread = summary(found)
            yield {"name": f"fetch/cold_{count}_{warps}_warps",
                   "what": f"{count} FFMAs in line, {warps} warps, after caches and L2 were filled with other things",
                   "value": value, "unit": "cycles per instruction", "spread": spread, "how": "clock, first pass"}  # fmt: skip
