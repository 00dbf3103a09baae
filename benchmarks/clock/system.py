"""Microbenchmarks of what is no single instruction: register banks, queues, instruction fetch, branches, bandwidths.

Those that need more than one launch and one number stand in `whole.py`.
"""

from __future__ import annotations

from micro import Kernel, Row, body_kernel

GIB, MIB = 1 << 30, 1 << 20
QUEUE_DEPTHS = (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 16, 20, 24, 32)
ICACHE = (128, 512, 1024, 1536, 2048, 3072, 4096, 6144, 7168, 8192, 9216, 12288, 16384, 32768)
"""instructions of 16 bytes in a loop"""
APART = (512, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288)
"""of those, in which warps are also sent off one after the other"""
BANK_SHORT, BANK_LONG = 32, 96
_FMA = 'asm volatile("fma.rn.f32 %0, %1, %2, %0;" : "+f"({}) : "f"({}), "f"({}));'


# ---------------------------------------------------------------- register banks


def _bank_kernel(count: int) -> Kernel:
    """32 accumulators, 32 factors: registers enough of every bank, which `cubins.patch_ffma` then chooses from."""
    declared = [f"float x{i} = data[{i}], s{i} = data[{i + 32} + threadIdx.x];" for i in range(32)]
    body = [_FMA.format(f"x{n % 32}", f"s{n * 7 % 32}", f"s{(n * 7 + 11) % 32}") for n in range(count)]
    used = [f"x{i}" for i in range(32)] + [f"s{i}" for i in range(32)]
    return body_kernel(f"banks_{count}", declared, body, used, expected={"FFMA": count})


BANKS = {
    "as_compiled": "as ptxas chose registers and reuse",
    "three_of_one_bank": "three sources, all even registers, none reused",
    "three_of_four_banks": "three sources, all registers = 0 mod 4, none reused",
    "two_and_one": "the two factors even, the sum odd, none reused",
    "factor_and_sum": "a factor and the sum even, the other factor odd, none reused",
    "alternating": "all even, then all odd, in turns, none reused",
    "alternating_by_two": "two of all even, then two of all odd",
    "one_factor": "both factors the same even register, the sum even",
    "all_one": "factors and sum the same register",
    "reused_first": "all even; the first factor stays for 8 instructions and is reused",
    "reused_both": "all even; both factors stay for 8 instructions and are reused",
    "reused_in_pairs": "all even; the first factor is reused by every second instruction",
    "two_and_one_alternating": "two even and one odd, then two odd and one even, in turns",
}


GIVES_WAY = "gives_way"
"""As "all_one", but behind each instruction the scheduler is to turn to another warp."""


def choose_registers(variant: str, sums: list[int], factors: list[int]) -> list[tuple[int, int, int, int, int]]:
    """Target, three sources and reuse mask for the FFMAs in turns; [] for what the compiler chose."""
    if variant == "as_compiled":
        return []
    even, odd = ([r for r in factors if r % 2 == k] for k in (0, 1))
    s_even, s_odd = ([r for r in sums if r % 2 == k] for k in (0, 1))
    found = []
    for n in range(96):
        e, o = even[n % len(even)], odd[n % len(odd)]
        e2, o2 = even[(n + 3) % len(even)], odd[(n + 3) % len(odd)]
        se, so = s_even[n % len(s_even)], s_odd[n % len(s_odd)]
        fours, s_fours = [r for r in even if r % 4 == 0], [r for r in s_even if r % 4 == 0]
        held, held2 = even[n // 8 % len(even)], even[(n // 8 + 3) % len(even)]
        last = n % 8 == 7
        match variant:
            case "three_of_one_bank":
                one = (se, e, e2, se, 0)
            case "three_of_four_banks":
                s4 = s_fours[n % len(s_fours)]
                one = (s4, fours[n % len(fours)], fours[(n + 1) % len(fours)], s4, 0)
            case "two_and_one":
                one = (so, e, e2, so, 0)
            case "factor_and_sum":
                one = (se, e, o, se, 0)
            case "alternating":
                one = (se, e, e2, se, 0) if n % 2 == 0 else (so, o, o2, so, 0)
            case "alternating_by_two":
                one = (se, e, e2, se, 0) if n // 2 % 2 == 0 else (so, o, o2, so, 0)
            case "one_factor":
                one = (se, e, e, se, 0)
            case "all_one":
                one = (se, se, se, se, 0)
            case "reused_first":
                one = (se, held, e2, se, 0 if last else 1)
            case "reused_both":
                one = (se, held, held2, se, 0 if last else 3)
            case "reused_in_pairs":
                one = (se, even[n // 2 % len(even)], e2, se, 1 - n % 2)
            case _:
                one = (so, e, e2, so, 0) if n % 2 == 0 else (se, o, o2, se, 0)
        found.append(one)
    return found


def banks() -> tuple[list[Kernel], list[Row]]:
    rows = [
        Row(
            name=f"banks/{variant}_{warps // 4}_per_sub_core", what=f"FFMA, {told}; {warps} warps",
            unit="cycles per instruction and sub-core", kernel=f"banks_{BANK_LONG}", minus=f"banks_{BANK_SHORT}",
            threads=32 * warps, loops=64, per=(BANK_LONG - BANK_SHORT) * 64 * warps / 4, variant=variant,
        )
        for variant, told in BANKS.items() for warps in (4, 8, 12, 16)
    ]  # fmt: skip
    rows += [
        Row(
            name="_".join((f"scheduler/{told}", str(warps // 4), "per sub core")).replace(" ", "_"), unit="of when the last one ends",
            what=f"when the first of {warps} warps ends; behind each FFMA the compiler says that the warp {told}",
            kernel=f"banks_{BANK_LONG}", threads=32 * warps, loops=64, variant=variant, reduce="first",
        )
        for variant, told in (("all_one", "stays"), (GIVES_WAY, "gives way")) for warps in (8, 12, 16)
    ]  # fmt: skip
    return [_bank_kernel(BANK_SHORT), _bank_kernel(BANK_LONG)], rows


# ---------------------------------------------------------------- queues, fetching, branches

_QUEUED = {
    "lds": ('asm volatile("ld.volatile.shared.u32 %0, [%1+{o}];" : "=r"(r{k}) : "r"(at) : "memory");', 4),
    "lds128": (
        'asm volatile("ld.volatile.shared.v4.u32 {{%0,%1,%2,%3}}, [%4+{o}];" : "=r"(r{k}), "=r"(s{k}), "=r"(m{k}), '
        '"=r"(n{k}) : "r"(at) : "memory");',
        16,
    ),
    "ldg": ('asm volatile("ld.global.u32 %0, [%1+{o}];" : "=r"(r{k}) : "l"(g) : "memory");', 4),
    "ldg128": (
        'asm volatile("ld.global.v4.u32 {{%0,%1,%2,%3}}, [%4+{o}];" : "=r"(r{k}), "=r"(s{k}), "=r"(m{k}), "=r"(n{k}) '
        ': "l"(g) : "memory");',
        16,
    ),
    "ldg_l2": ('asm volatile("ld.global.cg.u32 %0, [%1+{o}];" : "=r"(r{k}) : "l"(g) : "memory");', 4),
    "sts": ('asm volatile("st.volatile.shared.u32 [%0+{o}], %1;" : : "r"(at), "r"(r{k}) : "memory");', 4),
    "stg": ('asm volatile("st.global.u32 [%0+{o}], %1;" : : "l"(g), "r"(r{k}) : "memory");', 4),
    "mufu": ('asm volatile("ex2.approx.ftz.f32 %0, %0;" : "+f"(f{k}));', 0),
    "shfl": ('asm volatile("shfl.sync.bfly.b32 %0, %0, 1, 31, -1;" : "+r"(r{k}));', 0),
    "f2i": ('asm volatile("{{ .reg .s32 t; cvt.rzi.s32.f32 t, %0; mov.b32 %0, t; }}" : "+f"(f{k}));', 0),
    "dfma": ('asm volatile("fma.rn.f64 %0, %1, %1, %0;" : "+d"(d{k}) : "d"(y));', 0),
    "popc": ('asm volatile("popc.b32 %0, %0;" : "+r"(r{k}));', 0),
}


def queues() -> tuple[list[Kernel], list[Row]]:
    """How long a warp needs to hand over so many instructions, whose results nobody waits for."""
    kernels, rows = [], []
    for kind, (text, _) in _QUEUED.items():
        for depth in QUEUE_DEPTHS:
            inside = " ".join(text.format(k=k, o=k * 512 if "128" in kind or "l" in kind else k * 128)
                              for k in range(depth))  # fmt: skip
            names = range(max(QUEUE_DEPTHS))
            declared = (
                "unsigned v = data[threadIdx.x];"
                "const unsigned at = shared_at(words) + threadIdx.x % 32 * " + ("16;" if "128" in kind else "4;")
                + "const u64 g = (u64)data + 4096 + threadIdx.x % 32 * " + ("16;" if "128" in kind else "4;")
                + "const float x = v; const double y = v; "
                + " ".join(f"unsigned r{k} = v + {k}, s{k} = 0, m{k} = 0, n{k} = 0; float f{k} = v * {k}; double d{k} = v * {k};" for k in names)
            )  # fmt: skip
            use = "own = v; " + " ".join(
                f"own += r{k} + s{k} + m{k} + n{k} + __float_as_uint(f{k}) + (u64)d{k};" for k in range(depth)
            )
            kernels.append(Kernel(f"queue_{kind}_{depth}", f"""
extern "C" __global__ void queue_{kind}_{depth}(SIGNATURE)
{{
    extern __shared__ unsigned words[];
    u64 t0, t1, own = 0;
    {declared}
    u64 all = 0;
    #pragma unroll 1
    for (int pass = 0; pass < 4; ++pass) {{
        __syncthreads();
        CLOCK(t0);
        {inside}
        CLOCK(t1);
        {use}
        all += own;
    }}
    leave(times, t0, t1, 0, 0, all);
}}
"""))  # fmt: skip
            for warps in (1, 16):
                rows.append(Row(
                    name=f"queue_{kind}/{depth}_{warps}_warps",
                    what=f"clock, {depth} times {kind} that nobody waits for, clock; {warps} warps; the median warp",
                    unit="cycles", kernel=f"queue_{kind}_{depth}", threads=32 * warps, reduce="each",
                    shared=48 << 10, repeats=3, carveout=50,
                ))  # fmt: skip
    return kernels, rows


def fetching() -> tuple[list[Kernel], list[Row]]:
    """Loops that are larger than the caches of instructions."""
    kernels, rows = [], []
    for count in ICACHE:
        declared = [f"float x{i} = data[{i} + threadIdx.x], y{i} = data[{i + 8}];" for i in range(8)]
        body = [f'asm volatile("{"fma.rn.f32 %0, %0, %1, %1;" * 1}" : "+f"(x{n % 8}) : "f"(y{n % 8}));'
                for n in range(count)]  # fmt: skip
        if count > 512:  # many in one statement: the compiler is quicker
            text = "".join(f"fma.rn.f32 %{n % 8}, %{n % 8}, %{n % 8 + 8}, %{n % 8 + 8};\\n" for n in range(count))
            outs = ", ".join(f'"+f"(x{i})' for i in range(8))
            ins = ", ".join(f'"f"(y{i})' for i in range(8))
            body = [f'asm volatile("{text}" : {outs} : {ins});']
        kernel = body_kernel(
            f"fetch_{count}", declared, body, [f"x{i}" for i in range(8)], expected={"FFMA": count}
        )  # fmt: skip
        kernels.append(Kernel(kernel.name, kernel.source, kernel.expected, alone=count > 4096))
        loops = max(4, 4096 // count)
        for warps in (1, 4, 16):
            rows.append(Row(
                name=f"fetch/{count}_instructions_{warps}_warps",
                what=f"a loop of {count} FFMAs ({count * 16 >> 10} KiB), {warps} warps, second time",
                unit="cycles per instruction and sub-core", kernel=kernel.name, threads=32 * warps, loops=loops,
                per=count * loops * max(1, warps / 4), repeats=3,
            ))  # fmt: skip
    for count in APART:
        kernel = next(k for k in kernels if k.name == f"fetch_{count}")
        delay = "CLOCK(t0); do { CLOCK(t1); } while (t1 - t0 < (u64)a * (threadIdx.x / 128));"
        source = kernel.source.replace(kernel.name, f"apart_{count}").replace("CLOCK(t0);", f"{delay} CLOCK(t0);", 1)
        kernels.append(Kernel(f"apart_{count}", source, kernel.expected, alone=kernel.alone))
        loops = max(4, 16384 // count)
        for warps in (8, 16):
            rows.append(Row(
                name=f"fetch/{count}_instructions_{warps}_warps_apart",
                what=f"a loop of {count} FFMAs, {warps // 4} warps in each sub-core that began {count} cycles apart",
                unit="cycles per instruction and sub-core", kernel=f"apart_{count}", threads=32 * warps, loops=loops,
                args=(count, 0, 0), per=count * loops * warps / 4, repeats=3, reduce="each",
            ))  # fmt: skip
    return kernels, rows


def branches() -> tuple[list[Kernel], list[Row]]:
    """Loops, uniform and divergent branches."""
    work = 'asm volatile("fma.rn.f32 %0, %0, %1, %1;" : "+f"(x) : "f"(y));'
    other = 'asm volatile("fma.rn.f32 %0, %1, %1, %0;" : "+f"(x) : "f"(y));'
    lane = "const int lane = threadIdx.x % 32;"
    bodies = {
        "loop_of_1": work, "loop_of_8": work * 8, "loop_of_16": work * 16,
        "if_uniform": f"if (a > i) {{ {work * 16} }} else {{ {other * 16} }}",
        "if_divergent": f"if (lane < b) {{ {work * 16} }} else {{ {other * 16} }}",
        "if_one_side": f"if (lane < b) {{ {work * 16} }}",
        "if_nested": f"if (lane < b) {{ if (lane < b / 2) {{ {work * 16} }} else {{ {other * 16} }} }} {work}",
        "loop_divergent": f"_Pragma(\"unroll 1\") for (int j = lane % c; j >= 0; --j) {{ {work * 8} }}",
    }  # fmt: skip
    arguments = {"if_divergent": (0, 16, 0), "if_one_side": (0, 16, 0), "if_nested": (0, 16, 0),
                 "if_uniform": (1 << 20, 0, 0), "loop_divergent": (0, 0, 4)}  # fmt: skip
    kernels, rows = [], []
    for name, text in bodies.items():
        kernels.append(body_kernel(
            f"branch_{name}", [lane, "float x = data[lane], y = data[lane + 32];"],
            [text], ["x"], expected={},
        ))  # fmt: skip
        for warps in (1, 4, 16):
            rows.append(Row(
                name=f"branch/{name}_{warps}_warps",
                what=f"one pass of a loop: {name.replace('_', ' ')}, {warps} warps; a chain of FFMAs in each branch",
                unit="cycles", kernel=f"branch_{name}", threads=32 * warps, loops=256, per=256,
                args=arguments.get(name, (0, 0, 0)),
            ))  # fmt: skip
    return kernels, rows


# ---------------------------------------------------------------- bandwidths

_STREAM = """
extern "C" __global__ void {name}(SIGNATURE)  // a: bits of the index that count; b: bytes between two accesses
{{
    u64 t0, t1, g0, g1;
    const u64 all = (u64)gridDim.x * blockDim.x, mine = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    const u64 mask = (1ull << a) - 1, half = (u64)c << 20;
    unsigned sum = 0;
    TIMER(g0);
    CLOCK(t0);
    #pragma unroll 1
    for (int i = 0; i < loops; ++i) {{
        {body}
    }}
    CLOCK(t1);
    TIMER(g1);
    if (sum == 0x12345677) data[0] = sum;
    leave(times, t0, t1, g0, g1, sum);
}}
"""
_AT = "(({i} * all + mine) & mask) * b"


def _stream(kind: str, unroll: int) -> Kernel:
    """`unroll` independent accesses of 16 bytes (sectors: of 4) in each pass of the loop."""
    lines = []
    for u in range(unroll):
        at = _AT.format(i=f"((u64)i * {unroll} + {u})")
        if kind == "random":
            at = at.replace("& mask", "* 0x9E3779B97F4A7C15ull >> 20 & mask")
        place = f"((char*)data + {at})"
        wide, narrow = f"const uint4 v{u} = __ldcg((const uint4*){place});", f"sum ^= __ldcg((const unsigned*){place});"
        take = f"sum ^= v{u}.x ^ v{u}.y ^ v{u}.z ^ v{u}.w;"
        store = f"*(uint4*)({place} + half)"
        match kind:
            case "read":
                lines.append((wide, take))
            case "write":
                lines.append(("", f"{store} = make_uint4(i, i, i, i);"))
            case "copy":
                lines.append((wide, f"{store} = v{u};"))
            case "change":
                lines.append((wide, f"*(uint4*){place} = make_uint4(v{u}.x + 1, v{u}.y, v{u}.z, v{u}.w);"))
            case "write_sector":
                lines.append(("", f"*(unsigned*){place} = i;"))
            case _:
                lines.append((narrow, ""))
    body = " ".join(first for first, _ in lines) + " " + " ".join(second for _, second in lines)
    name = f"stream_{kind}_{unroll}"
    return Kernel(name, _STREAM.format(name=name, body=body))


def _bandwidth(name: str, what: str, kind: str, unroll: int, threads: int, blocks: int, total: int, *, sms: int = 132,
               bits: int = 40, apart: int = 16, half: int = 0, counted: int | None = None, data: str = "stream",
               repeats: int = 5) -> Row:  # fmt: skip
    count = blocks if blocks > 0 else -blocks * sms
    loops = max(1, total // (count * threads * unroll * apart))
    moved = (counted or apart) * count * threads * unroll * loops
    return Row(
        name=name, what=what, unit="GB/s", kernel=f"stream_{kind}_{unroll}", threads=threads, blocks=blocks,
        loops=loops, args=(bits, apart, half), reduce="event", invert=True, per=moved / 1e3, data=data, repeats=repeats,
        setup=(2 * GIB if bits == 40 else apart << bits,),
    )  # fmt: skip


_SHAPES = (
    (1, 32, 1),
    (1, 64, 1),
    (1, 128, 1),
    (1, 256, 1),
    (1, 512, 1),
    (1, 1024, 1),
    (2, 1024, 1),
    (1, 1024, 2),
    (2, 512, 2),
    (1, 512, 4),
    (1, 256, 4),
    (1, 128, 4),
    (2, 1024, 2),
    (2, 1024, 4),
    (8, 256, 1),
    (8, 256, 4),
)


def bandwidths() -> tuple[list[Kernel], list[Row]]:
    """DRAM and L2 by bytes in flight, number of multiprocessors, footprint, distance, and direction."""
    kernels = [_stream(kind, unroll) for kind in ("read", "write", "copy", "change") for unroll in (1, 2, 4)]
    kernels += [_stream(kind, 4) for kind in ("sectors", "random", "write_sector")]
    rows = []
    for per_sm, threads, unroll in _SHAPES:
        flying = per_sm * threads * unroll * 16
        total = GIB if flying >= 8192 else GIB // 8
        for kind in ("read", "write", "copy", "change"):
            if kind != "read" and (per_sm, threads, unroll) not in (
                (1, 128, 1), (1, 512, 1), (2, 1024, 1), (2, 1024, 4), (8, 256, 1), (8, 256, 4)
            ):  # fmt: skip
                continue
            size = total // 2 if kind in ("copy", "change") else total
            rows.append(_bandwidth(
                f"dram_{kind}/{per_sm}x{threads}_threads_{unroll}_each",
                f"{kind} {size >> 20} MiB, {per_sm} blocks of {threads} threads on each SM, {unroll} accesses of 16 "
                f"bytes in flight for each: {flying} bytes for an SM; bytes both ways count", kind, unroll, threads,
                -per_sm, size, half=1024 if kind == "copy" else 0, counted=32 if kind in ("copy", "change") else None,
            ))  # fmt: skip
    for blocks in (1, 2, 4, 8, 16, 33, 66, 99):
        rows.append(_bandwidth(
            f"dram_read/{blocks}_blocks", f"read from DRAM by {blocks} blocks of 1024 threads, 4 accesses each", "read",
            4, 1024, blocks, min(GIB, blocks * 64 * MIB),
        ))  # fmt: skip
        rows.append(_bandwidth(
            f"l2_read/{blocks}_blocks", f"read 16 MiB again and again by {blocks} blocks of 1024 threads", "read", 4,
            1024, blocks, blocks * 64 * MIB, bits=20,
        ))  # fmt: skip
    for bits in (16, 18, 19, 20, 21, 22, 23):
        for kind in ("read", "write"):
            rows.append(_bandwidth(
                f"l2_{kind}/{(16 << bits) >> 20}_mib", f"{kind} {(16 << bits) >> 20} MiB again and again, all SMs",
                kind, 4, 1024, -2, 2 * GIB, bits=bits,
            ))  # fmt: skip
    for apart in (4, 8, 16, 32, 64, 96, 128, 256, 512, 1024, 4096):
        for kind in ("sectors", "write_sector"):
            rows.append(_bandwidth(
                f"dram_{kind}/{apart}_apart", f"4 bytes, every {apart} bytes from {'DRAM' if kind == 'sectors' else ''}"
                ": sectors of 32 bytes that are touched, in GB/s", kind, 4, 1024, -2, min(GIB, apart * 32 * MIB),
                apart=apart, counted=min(32, apart),
            ))  # fmt: skip
    for bits, told in ((19, "16_mib"), (25, "1_gib")):
        rows.append(_bandwidth(
            f"random_sectors/{told}", "random sectors of 32 bytes, in GB/s of sectors", "random", 4, 1024, -2,
            GIB, bits=bits, apart=32,
        ))  # fmt: skip
    return kernels, rows


# ---------------------------------------------------------------- matrix instructions of warpgroups


def _wgmma(n: int, source: str, kind: str, count: int) -> Kernel:
    """`count` products of 64 x n x 16 (32 bytes of k), one sum, then one wait."""
    sums = "r" if kind == "s8" else "f"
    width = n // 2 if kind != "f16f16" else n // 4
    sums = "r" if kind in ("s8", "f16f16") else "f"
    form = {"f16": f"m64n{n}k16.f32.f16.f16", "bf16": f"m64n{n}k16.f32.bf16.bf16", "tf32": f"m64n{n}k8.f32.tf32.tf32",
            "s8": f"m64n{n}k32.s32.s8.s8", "e4m3": f"m64n{n}k32.f32.e4m3.e4m3",
            "f16f16": f"m64n{n}k16.f16.f16.f16"}[kind]  # fmt: skip
    tail = {"f16": "p, 1, 1, {t}0", "bf16": "p, 1, 1, {t}0", "f16f16": "p, 1, 1, {t}0", "tf32": "p, 1, 1",
            "e4m3": "p, 1, 1", "s8": "p"}[kind].format(t="0, " if source == "shared" else "")  # fmt: skip
    places = "{" + ",".join(f"%{j}" for j in range(width)) + "}"
    a_text = f"%{width}" if source == "shared" else "{" + ",".join(f"%{width + j}" for j in range(4)) + "}"
    b_at = width + (1 if source == "shared" else 4)
    one = f"wgmma.mma_async.sync.aligned.{form} {places}, {a_text}, %{b_at}, {tail};\\n"
    outs = ", ".join(f'"+{sums}"(x{j})' for j in range(width))
    ins = '"l"(da)' if source == "shared" else ", ".join(f'"r"(a{j})' for j in range(4))
    text = ("{ .reg .pred p; setp.ne.b32 p, %" + str(b_at + 1) + ", 0;\\nwgmma.fence.sync.aligned;\\n" + one * count
            + "wgmma.commit_group.sync.aligned;\\nwgmma.wait_group.sync.aligned 0; }")  # fmt: skip
    kind_of_sum = "unsigned" if sums == "r" else "float"
    declared = (f"{kind_of_sum} " + ", ".join(f"x{j} = 0" for j in range(width)) + "; unsigned "
                + ", ".join(f"a{j} = data[threadIdx.x + {j}]" for j in range(4)) + ";")  # fmt: skip
    name = f"wgmma_{kind}_n{n}_{source}_{count}"
    return Kernel(name, f"""
extern "C" __global__ void __launch_bounds__(256) {name}(SIGNATURE)
{{
    extern __shared__ __align__(1024) unsigned words[];
    for (int k = threadIdx.x; k < 12288; k += blockDim.x) words[k] = data[k];
    {declared}
    const u64 da = (u64)((shared_at(words) & 0x3ffff) >> 4) | 8ull << 16 | 16ull << 32;
    const u64 db = da + 1024;
    asm volatile("fence.proxy.async;" ::: "memory");
    u64 came = 0, t0 = 0, t1 = 0;
    #pragma unroll 1
    for (int pass = 0; pass < 2; ++pass) {{
        CLOCK(came);
        __syncthreads();
        CLOCK(t0);
        #pragma unroll 1
        for (int i = 0; i < loops; ++i)
            asm volatile("{text}" : {outs} : {ins}, "l"(db), "r"(1) : "memory");
        CLOCK(t1);
    }}
    if (b == 12345) *(double*)data = {" + ".join(f"(double)x{j}" for j in range(width))};
    leave(times, t0, t1, 0, 0, 0, came);
}}
""", arch_specific=True)  # fmt: skip


def warpgroups() -> tuple[list[Kernel], list[Row]]:
    kernels, rows = [], []
    shapes = [(n, source, "f16") for n in (8, 16, 32, 64, 96, 128, 192, 256) for source in ("shared", "registers")]
    shapes += [(n, "shared", kind) for kind in ("bf16", "tf32", "s8", "e4m3", "f16f16") for n in (64, 256)]
    for n, source, kind in shapes:
        for count in (1, 4, 12):
            kernels.append(_wgmma(n, source, kind, count))
        name = f"wgmma_{kind}_n{n}_{source}"
        for groups in (1, 2):
            rows.append(Row(
                name=f"{name}/rate_{groups}_groups",
                what=f"wgmma m64n{n}, {kind}, A in {source}, {groups} warpgroups, one sum each",
                unit="cycles per wgmma and multiprocessor", kernel=f"{name}_12", minus=f"{name}_4",
                threads=128 * groups, loops=64, per=8 * 64 * groups, shared=48 << 10, data="half",
            ))  # fmt: skip
        rows.append(Row(
            name=f"{name}/latency", what=f"fence, one wgmma m64n{n} {kind}, A in {source}, commit and wait",
            unit="cycles", kernel=f"{name}_1", threads=128, loops=64, per=64, shared=48 << 10, data="half",
        ))  # fmt: skip
    return kernels, rows
