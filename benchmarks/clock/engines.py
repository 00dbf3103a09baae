"""Microbenchmarks of Hopper's asynchronous engines: mbarriers, bulk copies, copies by tensor maps, clusters.

A time stands in a warp's own number, by one thread that sends and waits, as a kernel's producer does.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from gpu import Launchable, summary
from micro import SLOTS, Kernel, Row

if TYPE_CHECKING:
    from driver import Bench

MIB = 1 << 20
BULK_BYTES = (16, 128, 1024, 4096, 16384)
DEPTHS = (1, 2, 4, 8)
"""copies that are on their way together"""
BOXES = ((64, 8), (64, 64), (32, 64), (16, 64), (64, 256))
"""of halves: columns and rows; 64 columns are 128 bytes, the widest swizzle"""
WIDE = 4096
"""columns of the matrix that boxes are fetched from"""

_TOOLS = r"""
#ifndef TOOLS
#define TOOLS
__device__ __forceinline__ void init(unsigned at, int n)
{ asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(at), "r"(n) : "memory"); }
__device__ __forceinline__ void expect(unsigned at, int n)
{ asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(at), "r"(n) : "memory"); }
__device__ __forceinline__ void arrive(unsigned at)
{ asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(at) : "memory"); }
__device__ __forceinline__ void wait(unsigned at, int parity)
{ asm volatile("{ .reg .pred p; again: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1; @!p bra again; }"
               :: "r"(at), "r"(parity) : "memory"); }
__device__ __forceinline__ void bulk(unsigned to, const void* from, int n, unsigned bar)
{ asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
               :: "r"(to), "l"(from), "r"(n), "r"(bar) : "memory"); }
#endif
"""


def _kernel(name: str, body: str, *, before: str = "", bounds: str = "", params: str = "SIGNATURE") -> Kernel:
    return Kernel(name, f"""{_TOOLS}
extern "C" __global__ void {bounds} {name}({params})
{{
    extern __shared__ __align__(1024) unsigned char tiles[];
    __shared__ __align__(8) u64 bars[16];
    const unsigned bar = shared_at(bars), at = shared_at(tiles);
    u64 t0 = 0, t1 = 0, g0 = 0, g1 = 0;
    if (threadIdx.x == 0) {{
        for (int k = 0; k < 16; ++k) init(bar + 8 * k, 1);
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }}
    {before}
    __syncthreads();
    {body}
    leave(times, t0, t1, g0, g1, t1 - t0);
}}
""")  # fmt: skip


_CLUSTERED = """
    asm volatile("barrier.cluster.arrive.aligned;\\nbarrier.cluster.wait.aligned;" ::: "memory");
"""


def _fixed() -> Iterator[tuple[Kernel, Row]]:
    """Latencies: of a barrier, of an answer by another warp, of a barrier of a cluster."""
    cycles: dict[str, Any] = {"unit": "cycles", "loops": 256, "per": 256.0, "data": "zeros", "shared": 1024}
    yield _kernel("mbarrier_alone", """
    CLOCK(t0);
    #pragma unroll 1
    for (int i = 0; i < loops; ++i) { arrive(bar); wait(bar, i & 1); }
    CLOCK(t1);"""), Row(name="mbarrier/arrive_and_wait", what="one thread arrives at a barrier for one and waits",
                        kernel="mbarrier_alone", threads=1, **cycles)  # fmt: skip
    yield _kernel("mbarrier_over", """
    if (threadIdx.x == 0) arrive(bar);
    __syncthreads();
    CLOCK(t0);
    #pragma unroll 1
    for (int i = 0; i < loops; ++i) wait(bar, 0);
    CLOCK(t1);"""), Row(name="mbarrier/wait_for_what_is_over", what="a phase that is over, asked for",
                        kernel="mbarrier_over", threads=32, **cycles)  # fmt: skip
    yield _kernel("mbarrier_turns", """
    CLOCK(t0);
    #pragma unroll 1
    for (int i = 0; i < loops; ++i) {
        if (threadIdx.x == 0) { arrive(bar); wait(bar + 8, i & 1); }
        if (threadIdx.x == 32) { wait(bar, i & 1); arrive(bar + 8); }
    }
    CLOCK(t1);"""), Row(name="mbarrier/there_and_back", what="a warp arrives, another answers at a second barrier",
                        kernel="mbarrier_turns", threads=64, **cycles)  # fmt: skip
    for size in (2, 4, 8):
        yield _kernel(f"cluster_sync_{size}", f"""
    CLOCK(t0);
    #pragma unroll 1
    for (int i = 0; i < loops; ++i) {{ {_CLUSTERED} }}
    CLOCK(t1);""", bounds=f"__cluster_dims__({size}, 1, 1)"), Row(
            name=f"cluster/barrier_{size}_blocks", what=f"barrier of a cluster of {size} blocks of 128 threads",
            kernel=f"cluster_sync_{size}", threads=128, blocks=size, **cycles)  # fmt: skip
    yield _kernel("cluster_turns", f"""
    {_CLUSTERED}
    unsigned rank, there;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(bar), "r"(rank ^ 1));
    CLOCK(t0);
    #pragma unroll 1
    for (int i = 0; i < loops; ++i) {{
        if (threadIdx.x == 0 && rank == 0)
            asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" :: "r"(there) : "memory");
        if (threadIdx.x == 0) wait(bar, i & 1);
        if (threadIdx.x == 0 && rank == 1)
            asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" :: "r"(there) : "memory");
    }}
    CLOCK(t1);
    {_CLUSTERED}""", bounds="__cluster_dims__(2, 1, 1)"), Row(
        name="cluster/arrive_there_and_back", what="a thread arrives at the other block's barrier, which answers",
        kernel="cluster_turns", threads=32, blocks=2, **cycles)  # fmt: skip
    yield _kernel("cluster_load", f"""
    for (int k = threadIdx.x; k < 256; k += blockDim.x) ((unsigned*)tiles)[k] = 0;
    {_CLUSTERED}
    unsigned rank, there, v = 0;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(at), "r"(rank ^ 1));
    CLOCK(t0);
    #pragma unroll 1
    for (int i = 0; i < loops; ++i)
        asm volatile("ld.volatile.shared::cluster.u32 %0, [%1];" : "=r"(v) : "r"(there + v) : "memory");
    CLOCK(t1);
    if (v == 12345) data[0] = v;
    {_CLUSTERED}""", bounds="__cluster_dims__(2, 1, 1)"), Row(
        name="cluster/load_latency", what="a load from the other block's shared memory, each after the one before",
        kernel="cluster_load", threads=32, blocks=2, **cycles)  # fmt: skip


def _bulk() -> Iterator[tuple[Kernel, Row | None]]:
    """Bulk copies into shared memory: a buffer of `c` bytes for each of `b` that are on their way; `a` bytes of source
    in turns."""
    for depth in DEPTHS:
        yield _kernel(f"bulk_{depth}", f"""
    if (threadIdx.x == 0) {{
        const char* from = (const char*)data + (u64)blockIdx.x * a;
        u64 place = 0;
        #pragma unroll 1
        for (int pass = 0; pass < 2; ++pass) {{
            CLOCK(t0);
            #pragma unroll 1
            for (int i = 0; i < loops + {depth}; ++i) {{
                const int k = i % {depth};
                const int turn = i / {depth} + pass * (loops / {depth} + 1);
                if (i >= {depth}) wait(bar + 8 * k, (turn - 1) & 1);
                if (i < loops) {{
                    expect(bar + 8 * k, c);
                    bulk(at + k * c, from + place, c, bar + 8 * k);
                    place = place + c < (u64)a ? place + c : 0;
                }}
            }}
            CLOCK(t1);
            if (loops % {depth} == 0) for (int k = 0; k < {depth}; ++k) {{ arrive(bar + 8 * k); }}
        }}
    }}"""), None  # fmt: skip
    yield _kernel("bulk_out", """
    if (threadIdx.x == 0) {
        char* to = (char*)data + (u64)blockIdx.x * a;
        u64 place = 0;
        CLOCK(t0);
        #pragma unroll 1
        for (int i = 0; i < loops; ++i) {
            asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;\\ncp.async.bulk.commit_group;"
                         :: "l"(to + place), "r"(at), "r"(c) : "memory");
            asm volatile("cp.async.bulk.wait_group.read 3;" ::: "memory");
            place = place + c < (u64)a ? place + c : 0;
        }
        asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
        CLOCK(t1);
    }"""), None  # fmt: skip


_BOX = """
    if (threadIdx.x == 0) {{
        CLOCK(t0);
        #pragma unroll 1
        for (int i = 0; i < loops + {depth}; ++i) {{
            const int k = i % {depth}, turn = i / {depth};
            if (i >= {depth}) wait(bar + 8 * k, (turn - 1) & 1);
            if (i < loops) {{
                const int x = (i * a) % {wide}, y = (i * a) / {wide} * b + blockIdx.x % 16 * c;
                expect(bar + 8 * k, a * b * 2);
                asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
                             " [%0], [%1, {{%3, %4}}], [%2];"
                             :: "r"(at + k * a * b * 2), "l"(&map), "r"(bar + 8 * k), "r"(x), "r"(y) : "memory");
            }}
        }}
        CLOCK(t1);
    }}"""


def asynchronous() -> tuple[list[Kernel], list[Row]]:
    """All kernels, with the rows that are one launch and one number."""
    kernels, rows = [], []
    for kernel, row in (*_fixed(), *_bulk()):
        kernels.append(kernel)
        if row is not None:
            rows.append(row)
    for depth in DEPTHS:
        kernels.append(_kernel(
            f"box_{depth}", _BOX.format(depth=depth, wide=WIDE),
            params="u64* times, const __grid_constant__ Map map, int loops, int a, int b, int c",
        ))  # fmt: skip
    kernels[0] = Kernel(kernels[0].name, "struct alignas(64) Map { u64 opaque[16]; };\n" + kernels[0].source)
    return kernels, rows


def _span(bench: Bench, blocks: int) -> float:
    """Cycles of the slowest block's sender."""
    found = bench.fetch(blocks).reshape(-1, SLOTS)
    return float((found[:, 1] - found[:, 0]).max())


def copies(bench: Bench) -> Iterator[dict[str, Any]]:
    """Bulk copies: from L2 by one multiprocessor and by all, from DRAM by all; out of shared memory."""
    sms = bench.gpu.facts["sms"]
    for depth in DEPTHS:
        for size in BULK_BYTES:
            for blocks, source, told in ((1, 64 << 10, "L2"), (sms, 64 << 10, "L2"), (sms, 4 * MIB, "DRAM")):
                loops = min(256, source // size) // 8 * 8 if told == "DRAM" else 64
                values = []
                for _ in range(5):
                    work = bench.work(f"bulk_{depth}", blocks=blocks, threads=32, loops=loops,
                                      args=(source, 0, size), shared=depth * size + 1024, data="stream")  # fmt: skip
                    if told == "DRAM":
                        bench.flush()
                    work()
                    bench.gpu.wait()
                    values.append(_span(bench, blocks) / loops)
                value, spread = summary(values)
                yield {"name": f"bulk/{size}_bytes_{depth}_deep_{told}_{blocks}_blocks",
                       "what": f"a bulk copy of {size} bytes from {told}, {depth} on their way, {blocks} blocks",
                       "value": value, "unit": "cycles per copy", "spread": spread,
                       "how": "clock of the sending thread, second pass (L2: the source was read before)"}  # fmt: skip
    for size in BULK_BYTES:
        for blocks in (1, sms):
            work = bench.work("bulk_out", blocks=blocks, threads=32, loops=64, args=(64 << 10, 0, size),
                              shared=size + 1024, data="stream")  # fmt: skip
            values = []
            for _ in range(5):
                work()
                bench.gpu.wait()
                values.append(_span(bench, blocks) / 64)
            value, spread = summary(values)
            yield {"name": f"bulk_out/{size}_bytes_{blocks}_blocks", "what": f"a bulk copy of {size} bytes to L2, "
                   f"4 on their way, {blocks} blocks", "value": value, "unit": "cycles per copy", "spread": spread,
                   "how": "clock of the sending thread, all written at the end"}  # fmt: skip


def boxes(bench: Bench) -> Iterator[dict[str, Any]]:
    """Boxes of a matrix of halves by a tensor map: latency, and how many are done with more on their way."""
    from ptxsim.tensormap import TensorMap

    sms = bench.gpu.facts["sms"]
    for cols, rows in BOXES:
        address = bench.places["stream"].value
        tiles = TensorMap(address, "f16", (WIDE, 32768), (2 * WIDE,), (cols, rows), swizzle=128 if cols == 64 else 0)
        raw = bench.gpu.tensor_map(tiles)
        for depth in DEPTHS:
            if depth * cols * rows * 2 > 200 << 10:
                continue
            for blocks in (1, sms):
                function = bench.gpu.kernel_of(bench.code(f"box_{depth}"), f"box_{depth}")
                params = [bytes(bench.times), raw, *(struct.pack("<i", n) for n in (64, cols, rows, rows))]
                shared = depth * cols * rows * 2 + 1024
                work = Launchable(bench.gpu, function, (blocks,), (32,), params, shared)
                values = []
                for _ in range(6):
                    work()
                    bench.gpu.wait()
                    values.append(_span(bench, blocks) / 64)
                value, spread = summary(values[1:])
                yield {"name": f"box/{cols}x{rows}_{depth}_deep_{blocks}_blocks",
                       "what": f"a box of {cols} x {rows} halves from L2, {depth} on their way, {blocks} blocks",
                       "value": value, "unit": "cycles per box", "spread": spread,
                       "how": "clock of the sending thread; the launch before read the same"}  # fmt: skip
