"""Microbenchmarks of memory: shared, L1, L2 and DRAM, by width, pattern and footprint.

Latencies are those of a chain of loads, each of which reads the address of the next. Rates are of many warps whose
addresses are chosen by `a`, or come from a table of 32 offsets in bytes at the beginning of `data`.
"""

from __future__ import annotations

from typing import Any

from micro import Kernel, Row

VECTOR = {4: "u32", 8: "v2.u32", 16: "v4.u32"}
ROUNDS = 8
"""accesses in the body of a rate's loop"""
LOOPS = 64
KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
TABLE_BYTES = 256
"""of offsets, before the data of patterns begin"""


def _parts(width: int, name: str) -> str:
    return name if width == 4 else "{" + ",".join(f"{name}{j}" for j in range(width // 4)) + "}"


def _registers(width: int, prefix: str) -> list[str]:
    return [f"{prefix}{j}" for j in range(width // 4)]


def _load(space: str, width: int, into: list[str], address: str, offset: int) -> str:
    """A volatile load; `address` is a C expression of an address in that space."""
    outs = ", ".join(f'"=r"({name})' for name in into)
    places = "{" + ",".join(f"%{j}" for j in range(len(into))) + "}" if len(into) > 1 else "%0"
    letter = "r" if "shared" in space else "l"
    return (f'asm volatile("ld.{space}.{VECTOR[width]} {places}, [%{len(into)}+{offset}];" : {outs} : '
            f'"{letter}"({address}) : "memory");')  # fmt: skip


def _store(space: str, width: int, address: str, offset: int) -> str:
    count = width // 4
    places = "{" + ",".join(f"%{j + 1}" for j in range(count)) + "}" if count > 1 else "%1"
    ins = ", ".join(f'"r"(v{j})' for j in range(count))
    letter = "r" if "shared" in space else "l"
    return (f'asm volatile("st.{space}.{VECTOR[width]} [%0+{offset}], {places};" : : "{letter}"({address}), {ins} '
            ': "memory");')  # fmt: skip


def _kernel(name: str, before: str, inside: str, after: str = "", *, expected: dict[str, float] | None = None,
            passes: int = 2) -> Kernel:  # fmt: skip
    """A kernel that times the last of `passes` runs of a loop."""
    source = f"""
extern "C" __global__ void {name}(SIGNATURE)
{{
    extern __shared__ unsigned words[];
    u64 came = 0, t0 = 0, t1 = 0, g0 = 0, g1 = 0, own = 0;
    {before}
    #pragma unroll 1
    for (int pass = 0; pass < {passes}; ++pass) {{
        CLOCK(came);
        __syncthreads();
        TIMER(g0);
        CLOCK(t0);
        #pragma unroll 1
        for (int i = 0; i < loops; ++i) {{
            {inside}
        }}
        CLOCK(t1);
        TIMER(g1);
    }}
    {after}
    leave(times, t0, t1, g0, g1, own, came);
}}
"""
    return Kernel(name, source, expected or {})


def _values(width: int) -> str:
    """What stores write: loaded, so that it lies in neighbouring registers."""
    names = _registers(width, "v")
    return f"unsigned {', '.join(names)}; " + _load("global.cg", width, names, "(u64)data + threadIdx.x * 16", 0)


# ---------------------------------------------------------------- shared memory

_RING = "for (int k = threadIdx.x; k < 4096; k += blockDim.x) words[k] = shared_at(words) + (k * 4 + 256) % 16384;"
_ZEROS = "for (int k = threadIdx.x; k < 12288; k += blockDim.x) words[k] = 0;"


def shared_memory() -> tuple[list[Kernel], list[Row]]:
    kernels: list[Kernel] = []
    rows: list[Row] = []
    for width in VECTOR:
        regs = _registers(width, "r")
        declared = f"unsigned {', '.join(regs)};"
        chase = _load("volatile.shared", width, regs, "r0", 0)
        kernels.append(_kernel(
            f"lds_chase_{width}", f"{_RING} {declared} r0 = shared_at(words); __syncthreads();", chase * 32,
            "own = r0;", expected={"LDS": 32},
        ))  # fmt: skip
        rows.append(Row(
            name=f"lds_{8 * width}/latency", what=f"LDS of {8 * width} bits, address from the load before",
            unit="cycles", kernel=f"lds_chase_{width}", threads=32, loops=LOOPS, per=32 * LOOPS, shared=16384,
        ))  # fmt: skip
        many = [_registers(width, f"r{k}_") for k in range(ROUNDS)]
        declared = "unsigned " + ", ".join(name + " = 0" for names in many for name in names) + ";"
        inside = " ".join(_load("volatile.shared", width, many[k], "at", k * 1024) for k in range(ROUNDS))
        add = "own = " + " + ".join(name for names in many for name in names) + ";"
        place = f"const unsigned at = shared_at(words) + (threadIdx.x % 32) * a * {width};"
        kernels.append(_kernel(
            f"lds_rate_{width}", f"{_ZEROS} {place} {declared}", inside, add, expected={"LDS": ROUNDS}
        ))  # fmt: skip
        values = _values(width)
        inside = " ".join(_store("volatile.shared", width, "at", k * 1024) for k in range(ROUNDS))
        kernels.append(_kernel(f"sts_rate_{width}", f"{place} {values}", inside, expected={"STS": ROUNDS}))
        strides = (0, 1, 2, 4, 8, 16, 32) if width == 4 else (0, 1, 2, 4, 8)
        for op in ("lds", "sts"):
            for stride in strides:
                for warps in (1, 4, 16) if stride == 1 else (16,):
                    label = f"stride_{stride}" + (f"_{warps}_warps" if warps != 16 else "")
                    rows.append(Row(
                        name=f"{op}_{8 * width}/{label}",
                        what=f"{op.upper()} of {8 * width} bits, lanes {stride} elements apart, {warps} warps",
                        unit="cycles per instruction and multiprocessor", kernel=f"{op}_rate_{width}",
                        threads=32 * warps, loops=LOOPS, per=ROUNDS * LOOPS * warps, args=(stride, 0, 0),
                        shared=48 << 10,
                    ))  # fmt: skip
    for more in (_matrix_loads(), _shared_atomics()):
        kernels += more[0]
        rows += more[1]
    return kernels, rows


def _matrix_loads() -> tuple[list[Kernel], list[Row]]:
    kernels, rows = [], []
    for count in (1, 2, 4):
        for turned in ("", ".trans"):
            tag = f"{count}{'t' if turned else ''}"
            places = "{" + ",".join(f"%{j}" for j in range(count)) + "}"
            form = f"ldmatrix.sync.aligned.m8n8.x{count}{turned}.shared.b16"
            outs = ", ".join(f'"=r"(r{j})' for j in range(count))
            one = f'asm volatile("{form} {places}, [%{count}+{{}}];" : {outs} : "r"(at) : "memory");'
            regs = "unsigned " + ", ".join(f"r{j} = 0" for j in range(count)) + ";"
            place = f"unsigned at = shared_at(words) + (threadIdx.x % 32) * a; {regs}"
            kernels.append(_kernel(
                f"ldsm_chase_{tag}", f"{_ZEROS} {place} __syncthreads();", (one.replace("{}", "0") + " at += r0;") * 32, "own = at;",
                expected={"LDSM": 32},
            ))  # fmt: skip
            rows.append(Row(
                name=f"ldsm_x{tag}/latency_with_iadd", what=f"{form} and one IADD of its result", unit="cycles",
                kernel=f"ldsm_chase_{tag}", threads=32, loops=LOOPS, per=32 * LOOPS, args=(16, 0, 0), shared=48 << 10,
            ))  # fmt: skip
            kernels.append(_kernel(
                f"ldsm_rate_{tag}", f"{_ZEROS} {place} __syncthreads();",
                "".join(one.replace("{}", str(k * 1024)) + f" own ^= r{count - 1};" for k in range(ROUNDS)) + "at += c;",
                expected={"LDSM": ROUNDS},
            ))  # fmt: skip
            for stride, told in ((16, "adjacent"), (80, "without_conflicts"), (128, "in_one_bank_group"),
                                 (32, "two_way"), (64, "four_way")):  # fmt: skip
                rows.append(Row(
                    name=f"ldsm_x{tag}/rows_{told}", what=f"{form}, rows {stride} bytes apart, 16 warps",
                    unit="cycles per instruction and multiprocessor", kernel=f"ldsm_rate_{tag}", threads=512,
                    loops=LOOPS, per=ROUNDS * LOOPS * 16, args=(stride, 0, 0), shared=48 << 10,
                ))  # fmt: skip
    return kernels, rows


_ATOMS = {
    "atoms_add": 'asm volatile("atom.shared.add.u32 %0, [%1], %2;" : "=r"(r) : "r"(at), "r"(v) : "memory");',
    "atoms_red": 'asm volatile("red.shared.add.u32 [%0], %1;" : : "r"(at), "r"(v) : "memory");',
    "atoms_cas": 'asm volatile("atom.shared.cas.b32 %0, [%1], %2, %3;" : "=r"(r) : "r"(at), "r"(v), "r"(w) : "memory"); ',
    "atoms_exch": 'asm volatile("atom.shared.exch.b32 %0, [%1], %2;" : "=r"(r) : "r"(at), "r"(v) : "memory");',
    "atoms_add_f32": "atomicAdd((float*)words + (at - shared_at(words)) / 4, 1.0f);",
    "atoms_max": 'asm volatile("red.shared.max.u32 [%0], %1;" : : "r"(at), "r"(v) : "memory");',
}


def _shared_atomics() -> tuple[list[Kernel], list[Row]]:
    kernels, rows = [], []
    patterns = ((0, "same_address"), (1, "distinct"), (2, "two_way"), (32, "one_bank"))
    for name, text in _ATOMS.items():
        place = "unsigned at = shared_at(words) + (threadIdx.x % 32) * a * 4, r = 0, v = data[1], w = data[2];"
        rounds = 2 if name.endswith("f32") else ROUNDS
        kernels.append(_kernel(
            name, f"{_ZEROS} {place} __syncthreads();", (text + (" own += r;" if "=r" in text else "")) * rounds
        ))  # fmt: skip
        for stride, told in patterns:
            for warps in (1, 16):
                rows.append(Row(
                    name=f"{name}/{told}_{warps}_warps", what=f"{name}, lanes {stride} words apart, {warps} warps",
                    unit="cycles per instruction and multiprocessor", kernel=name, threads=32 * warps, loops=16,
                    per=rounds * 16 * warps, args=(stride, 0, 0), shared=48 << 10,
                ))  # fmt: skip
    chain = 'asm volatile("atom.shared.add.u32 %0, [%1], 0;" : "=r"(r) : "r"(at) : "memory"); at += r;'
    kernels.append(_kernel(
        "atoms_chase", f"{_ZEROS} unsigned at = shared_at(words) + threadIdx.x % 32 * 4, r = 0; __syncthreads();",
        chain * 16, "own = at;",
    ))  # fmt: skip
    rows.append(Row(
        name="atoms_add/latency_with_iadd", what="atom.shared.add and one IADD of its result", unit="cycles",
        kernel="atoms_chase", threads=32, loops=LOOPS, per=16 * LOOPS, shared=48 << 10,
    ))  # fmt: skip
    return kernels, rows


# ---------------------------------------------------------------- latencies of global memory

_CHASE = {
    "ca": 'asm volatile("ld.global.u64 %0, [%0];" : "+l"(p) : : "memory");',
    "cg": 'asm volatile("ld.global.cg.u64 %0, [%0];" : "+l"(p) : : "memory");',
}
_START = "u64 p = (u64)data + (u64)b * 128;"
L1_FOOTPRINTS = (8, 16, 32, 64, 96, 112, 128, 160, 176, 192, 200, 208, 216, 220, 224, 228, 232, 240, 248, 256, 272, 320)
L2_FOOTPRINTS = (1, 4, 8, 16, 20, 24, 26, 28, 30, 32, 36, 40, 44, 48, 50, 56, 60, 64, 80, 128)


def latencies() -> tuple[list[Kernel], list[Row]]:
    """Chains of loads through L1, L2 and DRAM; how much L1 and L2 hold, and by which part of an address."""
    kernels = [
        _kernel(f"chase_{kind}_{passes}", _START, text * 8, "own = p;", passes=passes)
        for kind, text in _CHASE.items() for passes in (1, 2)
    ]  # fmt: skip
    kernels.append(Kernel("link", """
extern "C" __global__ void link(SIGNATURE)  // data: a ring of `loops` nodes, node k at place times[k] (bytes)
{
    const u64 base = (u64)data;
    for (int k = blockIdx.x * blockDim.x + threadIdx.x; k < loops; k += gridDim.x * blockDim.x)
        *(u64*)(base + times[k]) = base + times[k + 1 < loops ? k + 1 : 0];
}
"""))  # fmt: skip
    kernels.append(Kernel("touch", """
extern "C" __global__ void touch(SIGNATURE)  // reads 8 bytes of every 32, past L1
{
    u64 sum = 0;
    const long long n = (long long)loops * 4;
    for (long long k = blockIdx.x * blockDim.x + threadIdx.x; k < n; k += gridDim.x * blockDim.x)
        sum += __ldcg((const u64*)data + k * 4);
    if (sum == 1) data[0] = 0;
}
"""))  # fmt: skip
    rows = []

    def ring(name: str, what: str, kernel: str, footprint: int, stride: int, **more: Any) -> None:
        steps = min(max(footprint // stride, 64), 8192)
        rows.append(Row(
            name=name, what=what, unit="cycles per load", kernel=kernel, threads=1, loops=steps // 8,
            per=steps // 8 * 8, data="ring", setup=(footprint, stride, *more.pop("extra", ())), **more,
        ))  # fmt: skip

    ring("ldg/latency_l1", "a chain of 64-bit loads that hit L1", "chase_ca_2", 16 * KIB, 128)
    ring("ldg/latency_l2", "the same past L1, 2 MiB that L2 holds", "chase_cg_2", 2 * MIB, 128)
    for kib in L1_FOOTPRINTS:
        for carveout in (0, 100) if kib % 32 == 0 else (0,):
            ring(f"l1_holds/{kib}_kib_carveout_{carveout}",
                 f"a ring of {kib} KiB, 128 bytes apart in order, second time; {carveout} % of L1 for shared memory",
                 "chase_ca_2", kib * KIB, 128, carveout=carveout)  # fmt: skip
    for kib in (8, 16, 20, 24, 28, 32, 40, 48, 64):
        ring(f"l1_holds/{kib}_kib_shared_full",
             f"a ring of {kib} KiB beside a block that asks for 200 KiB of shared memory", "chase_ca_2", kib * KIB, 128,
             carveout=100, shared=200 * KIB)  # fmt: skip
    for stride in (256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536):
        for lines in (4, 8, 16, 32, 48, 64, 96, 128, 192, 256, 512):
            if stride * lines <= 32 * MIB:
                ring(f"l1_ways/{stride}_apart_{lines}_lines",
                     f"a ring of {lines} lines, {stride} bytes apart, second time", "chase_ca_2", stride * lines,
                     stride, carveout=0, repeats=3)  # fmt: skip
    for kib in (160, 192, 208, 224, 256):
        ring(f"l1_order/{kib}_kib_random", f"a ring of {kib} KiB in random order, second time", "chase_ca_2",
             kib * KIB, 128, extra=("random",), carveout=0)  # fmt: skip
    for mib in L2_FOOTPRINTS:
        ring(f"l2_holds/{mib}_mib", f"{mib} MiB read by all, then 8192 steps of a random ring in it", "chase_cg_1",
             mib * MIB, 128, extra=("random", "touched"), repeats=3)  # fmt: skip
    for mib in (32, 128, 512, 2048, 8192):
        ring(f"dram/latency_{mib}_mib", f"8192 lines in random order from {mib} MiB that L2 has lost", "chase_cg_1",
             mib * MIB, 128, extra=("random", "flushed"), repeats=3)  # fmt: skip
    ring("dram/latency_in_order", "8192 lines in order that L2 has lost", "chase_cg_1", MIB, 128, extra=("flushed",))
    ring("dram/latency_sectors", "sectors in order that L2 has lost: two come for one", "chase_cg_1", 256 * KIB, 32,
         extra=("flushed",))  # fmt: skip
    ring("dram/latency_pairs_of_sectors", "every second sector that L2 has lost", "chase_cg_1", 512 * KIB, 64,
         extra=("flushed",))  # fmt: skip
    ring("l1_sectors/32_apart", "sectors in order, first time by this SM, L2 has them: is a line filled by sectors?",
         "chase_ca_1", 64 * KIB, 32, extra=("touched",))  # fmt: skip
    return kernels, rows


# ---------------------------------------------------------------- rates of L1


def offsets(name: str) -> list[int]:
    """The table of a pattern, bytes for each lane: "lines_N_sectors_S_apart_B", "stride_B", "same", "from_B", …"""
    kind, *rest = name.split("_")
    if kind == "lines":
        lines, sectors, apart = int(rest[0]), int(rest[2]), int(rest[4])
        each = 32 // lines
        return [lane // each * apart + lane % each * sectors // each * 32 + lane % each * 4 % 32 for lane in range(32)]
    if kind == "stride":
        return [int(rest[0]) * lane for lane in range(32)]
    if kind == "from":  # a coalesced access that begins at a byte
        return [int(rest[0]) + int(rest[1]) * lane for lane in range(32)]
    if kind == "reversed":
        return [int(rest[0]) * (31 - lane) for lane in range(32)]
    return [0] * 32


def _patterns() -> list[tuple[int, str, str]]:
    found = []
    for lines in (1, 2, 4, 8, 16, 32):
        for sectors in (1, 2, 3, 4):
            if lines * sectors <= 32:
                found.append((4, f"lines_{lines}_sectors_{sectors}_apart_128", "neighbouring lines"))
    for lines in (2, 4, 8, 16, 32):
        for apart in (256, 512, 1024):
            found.append((4, f"lines_{lines}_sectors_1_apart_{apart}", "lines apart"))
    found += [(4, f"stride_{s}", "") for s in (0, 4, 8, 12, 16, 20, 24, 32, 36, 64, 132)]
    found += [(4, f"from_{s}_4", "") for s in (4, 32, 64, 96)] + [(4, "reversed_4", "")]
    found += [(8, f"stride_{s}", "") for s in (0, 8, 16, 32, 64, 128, 136)] + [(8, "from_32_8", "")]
    found += [(16, f"stride_{s}", "") for s in (0, 16, 32, 64, 128, 144, 256)] + [(16, "from_32_16", "")]
    return found


def first_level() -> tuple[list[Kernel], list[Row]]:
    """Rates of loads that hit L1, and of stores, one multiprocessor."""
    kernels, rows = [], []
    place = f"u64 at = (u64)data + {TABLE_BYTES} + data[threadIdx.x % 32];"
    for width in VECTOR:
        many = [_registers(width, f"r{k}_") for k in range(ROUNDS)]
        declared = "unsigned " + ", ".join(name + " = 0" for names in many for name in names) + ";"
        for kind in ("ca", "cg"):
            space = "global" if kind == "ca" else "global.cg"
            inside = " ".join(_load(space, width, many[k], "at", k * 128) for k in range(ROUNDS))
            inside += " ".join(f" own ^= {name};" for names in many for name in names) + " at += c;"
            kernels.append(_kernel(
                f"ldg_{kind}_{width}", f"{place} {declared}", inside, expected={"LDG": ROUNDS}
            ))  # fmt: skip
        values = _values(width)
        inside = " ".join(_store("global", width, "at + (threadIdx.x / 32) * (u64)b", k * 128) for k in range(ROUNDS))
        kernels.append(_kernel(f"stg_{width}", f"{place} {values}", inside, expected={"STG": ROUNDS}))
    for width, pattern, _ in _patterns():
        for warps in (4, 16):
            rows.append(Row(
                name=f"l1_{8 * width}/{pattern}" + ("_4_warps" if warps == 4 else ""),
                what=f"loads of {8 * width} bits that hit L1, lanes as told, {warps} warps",
                unit="cycles per instruction and multiprocessor", kernel=f"ldg_ca_{width}", threads=32 * warps,
                loops=LOOPS, per=ROUNDS * LOOPS * warps, data=pattern, carveout=0, repeats=3,
            ))  # fmt: skip
    for width, pattern in ((4, "stride_4"), (4, "stride_32"), (4, "stride_128"), (4, "lines_4_sectors_1_apart_128"),
                           (8, "stride_8"), (16, "stride_16"), (16, "stride_32"), (16, "stride_128")):  # fmt: skip
        rows.append(Row(
            name=f"l2_one_sm_{8 * width}/{pattern}", what=f"loads of {8 * width} bits past L1, 16 warps, L2 has them",
            unit="cycles per instruction and multiprocessor", kernel=f"ldg_cg_{width}", threads=512, loops=LOOPS,
            per=ROUNDS * LOOPS * 16, data=pattern, repeats=3,
        ))  # fmt: skip
        for apart, told in ((0, "same"), (32768, "own")):
            rows.append(Row(
                name=f"stg_{8 * width}/{pattern}_{told}",
                what=f"stores of {8 * width} bits, 16 warps, each to {'its own' if apart else 'the same'} place",
                unit="cycles per instruction and multiprocessor", kernel=f"stg_{width}", threads=512, loops=LOOPS,
                per=ROUNDS * LOOPS * 16, data=pattern, args=(0, apart, 0), repeats=3,
            ))  # fmt: skip
    return kernels, rows


# ---------------------------------------------------------------- asynchronous copies, atomics, barriers, fences


def others() -> tuple[list[Kernel], list[Row]]:
    kernels, rows = [], []
    for width in (4, 8, 16):
        level = "cg" if width == 16 else "ca"
        copy = (f'asm volatile("cp.async.{level}.shared.global [%0+{{}}], [%1+{{}}], {width};" : : "r"(to), "l"(at) '
                ': "memory");')  # fmt: skip
        done = 'asm volatile("cp.async.commit_group;\\n cp.async.wait_group {};" ::: "memory");'
        place = (f"const u64 at = (u64)data + {TABLE_BYTES} + (threadIdx.x % 32) * {width}; "
                 f"const unsigned to = shared_at(words) + threadIdx.x * {width};")  # fmt: skip
        kernels.append(_kernel(f"ldgsts_one_{width}", place, copy.format(0, 0) + done.format(0)))
        rows.append(Row(
            name=f"ldgsts_{8 * width}/latency", what=f"cp.async.{level} of {width} bytes, commit and wait, one warp",
            unit="cycles", kernel=f"ldgsts_one_{width}", threads=32, loops=LOOPS, per=LOOPS, shared=48 << 10,
        ))  # fmt: skip
        inside = " ".join(copy.format(0, k * 512) for k in range(ROUNDS)) + done.format(1)
        kernels.append(_kernel(f"ldgsts_rate_{width}", place, inside, expected={"LDGSTS": ROUNDS}))
        for warps in (4, 16):
            rows.append(Row(
                name=f"ldgsts_{8 * width}/rate_{warps}_warps",
                what=f"cp.async.{level} of {width} bytes, {ROUNDS} to a group, {warps} warps, 4 KiB that caches have",
                unit="cycles per instruction and multiprocessor", kernel=f"ldgsts_rate_{width}", threads=32 * warps,
                loops=LOOPS, per=ROUNDS * LOOPS * warps, shared=48 << 10,
            ))  # fmt: skip
    for name, text in {
        "atomg_add": 'asm volatile("atom.global.add.u32 %0, [%1], 1;" : "=r"(r) : "l"(at) : "memory");',
        "red_add": 'asm volatile("red.global.add.u32 [%0], 1;" : : "l"(at) : "memory");',
        "red_add_f32": 'asm volatile("red.global.add.f32 [%0], 0f3f800000;" : : "l"(at) : "memory");',
        "atomg_cas": 'asm volatile("atom.global.cas.b32 %0, [%1], 0, 1;" : "=r"(r) : "l"(at) : "memory");',
    }.items():
        place = (f"unsigned r = 0; const u64 at = (u64)data + {TABLE_BYTES} + (threadIdx.x % 32) * (u64)a + "
                 "(blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32) * (u64)b;")  # fmt: skip
        kernels.append(_kernel(name, place, (text + (" own += r;" if "=r" in text else "")) * 4))
        for label, args, blocks, warps in (
            ("one_warp_same_address", (0, 0, 0), 1, 1), ("one_warp_distinct", (4, 0, 0), 1, 1),
            ("one_sm_same_address", (0, 0, 0), 1, 16), ("one_sm_distinct", (4, 128, 0), 1, 16),
            ("one_sm_32_lines", (128, 4096, 0), 1, 16), ("all_same_address", (0, 0, 0), 0, 8),
            ("all_distinct", (4, 128, 0), 0, 8), ("all_same_line", (4, 0, 0), 0, 8),
        ):  # fmt: skip
            rows.append(Row(
                name=f"{name}/{label}", what=f"{name}: {label.replace('_', ' ')}, {warps} warps in a block",
                unit="cycles per warp instruction, of one multiprocessor", kernel=name, threads=32 * warps,
                blocks=blocks, loops=8, per=4 * 8 * warps, args=args, repeats=3,
            ))  # fmt: skip
    kernels.append(_kernel(
        "atomg_chase", f"unsigned r = 0; u64 at = (u64)data + {TABLE_BYTES * 4} + threadIdx.x % 32 * 4;",
        'asm volatile("atom.global.add.u32 %0, [%1], 0;" : "=r"(r) : "l"(at) : "memory"); at += r;' * 4, "own = at;",
    ))  # fmt: skip
    rows.append(Row(
        name="atomg_add/latency_with_iadd", what="atom.global.add and the addition of its result to the address",
        unit="cycles", kernel="atomg_chase", threads=32, loops=LOOPS, per=4 * LOOPS, data="zeros",
    ))  # fmt: skip
    for name, text in (("bar", "__syncthreads();"), ("fence_block", "__threadfence_block();"),
                       ("fence_gpu", "__threadfence();"), ("warp_sync", "__syncwarp();")):  # fmt: skip
        kernels.append(_kernel(f"{name}_loop", "", text * 16))
        for warps in (1, 2, 4, 8, 16, 32) if name == "bar" else (1, 16):
            rows.append(Row(
                name=f"{name}/{warps}_warps", what=f"{text} one after the other, a block of {warps} warps",
                unit="cycles", kernel=f"{name}_loop", threads=32 * warps, loops=LOOPS, per=16 * LOOPS,
            ))  # fmt: skip
    kernels.append(_kernel(
        "fence_after_store", "", "*(volatile unsigned*)(data + 64 + threadIdx.x) = i; __threadfence();"
    ))  # fmt: skip
    rows.append(Row(
        name="fence_gpu/after_a_store", what="a store and __threadfence(), one warp", unit="cycles",
        kernel="fence_after_store", threads=32, loops=LOOPS, per=LOOPS,
    ))  # fmt: skip
    for place_bytes in (256, 1024, 2048, 4096, 8192, 16384, 32768, 65536):
        rows.append(Row(
            name=f"ldc/latency_{place_bytes}_bytes",
            what=f"a chain of constant loads through {place_bytes} bytes, second time", unit="cycles per load",
            kernel="ldc_chase", threads=1, loops=max(place_bytes // 64 // 8, 1) * 4,
            per=max(place_bytes // 64 // 8, 1) * 4 * 8, args=(place_bytes, 0, 0),
        ))  # fmt: skip
    kernels.append(Kernel("ldc_chase", """
__constant__ unsigned constants[16384];
extern "C" __global__ void ldc_chase(SIGNATURE)  // zeros: the place moves on by 64 bytes and what was read
{
    u64 t0 = 0, t1 = 0;
    unsigned k;
    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(k));
    k = k / 1024 * 16;
    for (int pass = 0; pass < 2; ++pass) {
        __syncthreads();
        CLOCK(t0);
        #pragma unroll 1
        for (int i = 0; i < loops; ++i) {
            #pragma unroll
            for (int j = 0; j < 8; ++j) k = (k + 16 + constants[k]) & (a / 4 - 1);
        }
        CLOCK(t1);
    }
    leave(times, t0, t1, 0, 0, k);
}
"""))  # fmt: skip
    return kernels, rows
