"""Microbenchmarks of instructions: latency, rate, and how pipes share the issue slots.

Every instruction gets kernels of two lengths; the difference of their times is that of the instructions alone, without
loop and clock. A chain is a series of instructions each of which needs the one before.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from micro import Kernel, Row, body_kernel

CHAINS = 8
SHORT, LONG = 32, 96
"""instructions in the loop's body of the two kernels"""
LOOPS = 64
RATE_WARPS = 16

_C_TYPES = {"f": "float", "r": "unsigned", "d": "double", "l": "unsigned long long"}


@dataclass(frozen=True)
class Op:
    """An instruction: PTX with {x} the chain's register, {n} its neighbour's, {y} and {z} constants, all of `kind`.

    `opcode` and `times`: what it is in machine code, how often for one statement; `pre`: declarations of its own.
    """

    name: str
    ptx: str
    kind: str = "f"
    opcode: str = ""
    times: float = 1
    what: str = ""
    pairs: int = 1
    """instructions that one statement stands for, in the latency that is reported"""
    tile: str = ""
    """of matrix instructions: kinds and numbers of registers, "f4 r4 r2" for sums, A and B"""


def _mma(name: str, shape: str, tile: str, opcode: str, times: int = 1) -> Op:
    return Op(name, f"mma.sync.aligned.{shape}", opcode=opcode, tile=tile, times=times, what=shape)


OPS = (
    Op("ffma", "fma.rn.f32 {x}, {x}, {y}, {z};", "f", "FFMA"),
    Op("fadd", "add.rn.f32 {x}, {x}, {y};", "f", "FADD"),
    Op("fmul", "mul.rn.f32 {x}, {x}, {y};", "f", "FMUL"),
    Op("fmnmx", "min.f32 {x}, {x}, {n};", "f", "FMNMX"),
    Op("imad", "mad.lo.u32 {x}, {x}, {y}, {z};", "r", "IMAD"),
    Op("imad_hi", "mad.hi.u32 {x}, {x}, {y}, {z};", "r", "IMAD"),
    Op("imad_wide", "{{ .reg .u32 t; cvt.u32.u64 t, {x}; mad.wide.u32 {x}, t, t, {z}; }}", "l", "IMAD"),
    Op("dp4a", "dp4a.s32.s32 {x}, {x}, {y}, {z};", "r", "IDP"),
    Op("iadd3", "{{ .reg .u32 t; add.u32 t, {x}, {n}; add.u32 {x}, t, {y}; }}", "r", "IADD3"),
    Op("lop3", "lop3.b32 {x}, {x}, {n}, {y}, 0x6a;", "r", "LOP3"),
    Op("shf", "shf.l.wrap.b32 {x}, {x}, {n}, {y};", "r", "SHF"),
    Op("prmt", "prmt.b32 {x}, {x}, {n}, {y};", "r", "PRMT"),
    Op("vimnmx_lop3", "{{ .reg .u32 t; min.u32 t, {x}, {n}; xor.b32 {x}, t, {y}; }}", "r", "VIMNMX", pairs=2),
    Op("isetp_sel", "{{ .reg .pred p; setp.lt.u32 p, {x}, {n}; selp.u32 {x}, {y}, {x}, p; }}", "r", "SEL", pairs=2),
    Op("fsetp_fsel", "{{ .reg .pred p; setp.lt.f32 p, {x}, {n}; selp.f32 {x}, {y}, {x}, p; }}", "f", "FSEL", pairs=2),
    Op("popc", "popc.b32 {x}, {x};", "r", "POPC"),
    Op("flo", "bfind.u32 {x}, {x};", "r", "FLO"),
    Op("brev", "brev.b32 {x}, {x};", "r", "BREV"),
    Op("hfma2", "fma.rn.f16x2 {x}, {x}, {y}, {z};", "r", "HFMA2"),
    Op("hadd2", "add.rn.f16x2 {x}, {x}, {y};", "r", what="half of them as HADD2, half as HFMA2"),
    Op("hmul2", "mul.rn.f16x2 {x}, {x}, {y};", "r", what="half of them as HMUL2, half as HFMA2"),
    Op("hfma2_bf16", "fma.rn.bf16x2 {x}, {x}, {y}, {z};", "r", "HFMA2"),
    Op("dfma", "fma.rn.f64 {x}, {x}, {y}, {z};", "d", "DFMA"),
    Op("dadd", "add.rn.f64 {x}, {x}, {y};", "d", "DADD"),
    Op("dmul", "mul.rn.f64 {x}, {x}, {y};", "d", "DMUL"),
    Op("mufu_ex2", "ex2.approx.ftz.f32 {x}, {x};", "f", "MUFU"),
    Op("mufu_rcp_fadd", "{{ .reg .f32 t; rcp.approx.ftz.f32 t, {x}; add.rn.f32 {x}, t, {y}; }}", "f", "MUFU", pairs=2),
    Op("mufu_rsq", "rsqrt.approx.ftz.f32 {x}, {x};", "f", "MUFU"),
    Op("mufu_lg2", "lg2.approx.ftz.f32 {x}, {x};", "f", "MUFU"),
    Op("mufu_tanh", "tanh.approx.f32 {x}, {x};", "f", "MUFU"),
    Op("mufu_sin", "sin.approx.ftz.f32 {x}, {x};", "f", "MUFU", what="with the FMUL by 1/2pi before it"),
    Op("i2f_f2i", "{{ .reg .f32 t; cvt.rn.f32.s32 t, {x}; cvt.rzi.s32.f32 {x}, t; }}", "r", "F2I", pairs=2),
    Op("i2fp", "{{ .reg .f32 t; cvt.rn.f32.s32 t, {x}; mov.b32 {x}, t; }}", "r", "I2FP"),
    Op(
        "i2f_s64",
        "{{ .reg .f32 t; .reg .u32 u; cvt.rn.f32.s64 t, {x}; mov.b32 u, t; mov.b64 {x}, {{u, u}}; }}",
        "l",
        "I2F",
    ),
    Op("f2i", "{{ .reg .s32 t; cvt.rzi.s32.f32 t, {x}; mov.b32 {x}, t; }}", "f", "F2I"),
    Op("frnd", "cvt.rni.f32.f32 {x}, {x};", "f", "FRND"),
    Op("f2f_16", "{{ .reg .b16 t; cvt.rn.f16.f32 t, {x}; cvt.f32.f16 {x}, t; }}", "f", "HADD2", pairs=2),
    Op("f2fp_pack", "cvt.rn.f16x2.f32 {xr}, {y}, {z};", "f", "F2FP"),
    Op("f2f_64", "{{ .reg .f32 t; cvt.rn.f32.f64 t, {x}; cvt.f64.f32 {x}, t; }}", "d", "F2F", times=2, pairs=2),
    Op("shfl", "shfl.sync.bfly.b32 {x}, {x}, 1, 31, -1;", "r", "SHFL"),
    Op("vote", "{{ .reg .pred p; setp.ne.u32 p, {x}, {y}; vote.sync.ballot.b32 {x}, p, -1; }}", "r", "VOTE", pairs=2),
    Op("match_any", "match.any.sync.b32 {x}, {x}, -1;", "r", "MATCH"),
    Op("redux_add", "redux.sync.add.s32 {x}, {x}, -1;", "r", "REDUX", what="with the move out of the uniform register"),
    _mma("hmma_16816_f32", "m16n8k16.row.col.f32.f16.f16.f32", "f4 r4 r2", "HMMA"),
    _mma("hmma_1688_f32", "m16n8k8.row.col.f32.f16.f16.f32", "f4 r2 r1", "HMMA"),
    _mma("hmma_16816_f16", "m16n8k16.row.col.f16.f16.f16.f16", "r2 r4 r2", "HMMA"),
    _mma("hmma_16816_bf16", "m16n8k16.row.col.f32.bf16.bf16.f32", "f4 r4 r2", "HMMA"),
    _mma("hmma_1684_tf32", "m16n8k4.row.col.f32.tf32.tf32.f32", "f4 r2 r1", "HMMA"),
    _mma("hmma_1688_tf32", "m16n8k8.row.col.f32.tf32.tf32.f32", "f4 r4 r2", "HMMA"),
    _mma("imma_16816_s8", "m16n8k16.row.col.s32.s8.s8.s32", "r4 r2 r1", "IMMA"),
    _mma("imma_16832_s8", "m16n8k32.row.col.s32.s8.s8.s32", "r4 r4 r2", "IMMA"),
    _mma("imma_8816_s8", "m8n8k16.row.col.s32.s8.s8.s32", "r2 r1 r1", "IMMA"),
    _mma("dmma_884", "m8n8k4.row.col.f64.f64.f64.f64", "d2 d1 d1", "DMMA"),
)
BY_NAME = {op.name: op for op in OPS}

MIXES = (
    ("ffma", "imad"), ("ffma", "iadd3"), ("ffma", "lop3"), ("ffma", "fadd"), ("ffma", "fmul"), ("ffma", "hfma2"),
    ("ffma", "dp4a"), ("imad", "iadd3"), ("imad", "hfma2"), ("imad", "dp4a"), ("iadd3", "lop3"), ("iadd3", "shf"),
    ("iadd3", "hfma2"), ("ffma", "dfma"), ("ffma", "mufu_ex2"), ("iadd3", "mufu_ex2"), ("mufu_ex2", "popc"),
    ("mufu_ex2", "f2i"), ("ffma", "i2fp"), ("ffma", "shfl"), ("ffma", "fmnmx"), ("imad", "isetp_sel"), ("ffma", "hmma_16816_f32"),
    ("iadd3", "hmma_16816_f32"), ("imad", "imad_wide"), ("ffma", "imad_wide"), ("ffma", "f2fp_pack"),
    ("dfma", "hmma_16816_f32"), ("mufu_ex2", "shfl"), ("ffma", "ffma", "ffma", "mufu_ex2"),
    ("ffma", "ffma", "ffma", "iadd3"), ("ffma", "iadd3", "imad", "lop3"), ("ffma", "iadd3", "hfma2", "lop3"),
)  # fmt: skip


def _registers(op: Op, tag: str, chains: int) -> tuple[list[str], list[str]]:
    """Declarations, and what adds all chains up at the end."""
    if op.tile:
        sums, *factors = [(part[0], int(part[1:])) for part in op.tile.split()]
        lines = [
            f"{_C_TYPES[sums[0]]} x{tag}{i}_{j} = data[{i * 4 + j}];" for i in range(chains) for j in range(sums[1])
        ]
        for name, (kind, count) in zip("yz", factors, strict=True):
            lines += [f"{_C_TYPES[kind]} {name}{tag}_{j} = data[{j} + threadIdx.x];" for j in range(count)]
        return lines, [f"x{tag}{i}_{j}" for i in range(chains) for j in range(sums[1])]
    kind = _C_TYPES[op.kind]
    lines = [f"{kind} x{tag}{i} = ({kind})data[{i} + threadIdx.x];" for i in range(chains)]
    lines += [
        f"{kind} {name}{tag}{i} = ({kind})data[{i + at} + a];" for name, at in (("y", 64), ("z", 96)) for i in range(4)
    ]
    return lines, [f"x{tag}{i}" for i in range(chains)]


def _statement(op: Op, tag: str, n: int, chains: int) -> str:
    """The n-th instruction: chains take turns, and so do the constants."""
    i = n % chains
    if op.tile:
        sums, *factors = [(part[0], int(part[1:])) for part in op.tile.split()]
        places, at = [], 0
        for _, count in (sums, *factors):
            places.append("{" + ",".join(f"%{at + j}" for j in range(count)) + "}")
            at += count
        outs = ", ".join(f'"+{sums[0]}"(x{tag}{i}_{j})' for j in range(sums[1]))
        ins = ", ".join(
            f'"{kind}"({name}{tag}_{j})'
            for name, (kind, count) in zip("yz", factors, strict=True)
            for j in range(count)
        )
        return f'asm volatile("{op.ptx} {places[0]}, {places[1]}, {places[2]}, {places[0]};" : {outs} : {ins});'
    k = n // chains % 4
    text = op.ptx.format(x="%0", n="%3", y="%1", z="%2", xr="%0")
    neighbour = f"x{tag}{(i + 1) % chains}" if chains > 1 else f"z{tag}{(k + 1) % 4}"
    out = f'"+{op.kind}"(x{tag}{i})'
    if "{xr}" in op.ptx:
        return (f'{{ unsigned r; asm volatile("{text}" : "=r"(r) : "f"(x{tag}{i}), "f"(y{tag}{k})); '
                f"x{tag}{i} = __uint_as_float(r); }}")  # fmt: skip
    letter = op.kind
    return (f'asm volatile("{text}" : {out} : "{letter}"(y{tag}{k}), "{letter}"(z{tag}{k}), '
            f'"{letter}"({neighbour}));')  # fmt: skip


def kernel_of(ops: tuple[Op, ...], name: str, *, chains: int, count: int) -> Kernel:
    """A loop of `count` statements, operations in turns."""
    lines: list[str] = []
    used: list[str] = []
    tags = [chr(ord("a") + k) for k in range(len(ops))]
    for op, tag in zip(ops, tags, strict=True):
        declared, names = _registers(op, tag, chains)
        lines += declared
        used += names
    body = [
        _statement(ops[n % len(ops)], tags[n % len(ops)], n // len(ops), chains) for n in range(count)
    ]  # fmt: skip
    expected: dict[str, float] = {}
    for n in range(count):
        op = ops[n % len(ops)]
        if op.opcode:
            expected[op.opcode] = expected.get(op.opcode, 0) + op.times
    return body_kernel(name, lines, body, used, expected=expected)


@dataclass(frozen=True)
class Arithmetic:
    """The rows of this module with the kernels that they time."""

    kernels: list[Kernel] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)


def arithmetic() -> Arithmetic:
    """All instructions, and mixes of them."""
    found = Arithmetic()
    for op in OPS:
        for chains, sort in ((1, "lat"), (CHAINS, "rate")):
            for count in (SHORT, LONG):
                found.kernels.append(kernel_of((op,), f"{op.name}_{sort}_{count}", chains=chains, count=count))
        found.rows.extend(_rows(op))
    for mix in MIXES:
        ops = tuple(BY_NAME[name] for name in mix)
        label = "_and_".join(mix)
        chains = 4 if len(mix) == 2 else 2
        for count in (SHORT, LONG):
            found.kernels.append(kernel_of(ops, f"mix_{label}_{count}", chains=chains, count=count))
        found.rows.append(Row(
            name=f"mix/{label}", what=f"{' + '.join(mix)} in turns, {chains} chains each, {RATE_WARPS} warps",
            unit="cycles per instruction and sub-core", kernel=f"mix_{label}_{LONG}", minus=f"mix_{label}_{SHORT}",
            threads=32 * RATE_WARPS, loops=LOOPS, per=(LONG - SHORT) * LOOPS * RATE_WARPS / 4,
        ))  # fmt: skip
    return found


def _rows(op: Op) -> Iterator[Row]:
    told = op.what or op.ptx.format(x="x", n="n", y="y", z="z", xr="x").strip("{} ")
    yield Row(
        name=f"{op.name}/latency", what=f"{told}: one warp, one chain", unit="cycles",
        kernel=f"{op.name}_lat_{LONG}", minus=f"{op.name}_lat_{SHORT}", threads=32, loops=LOOPS,
        per=(LONG - SHORT) * LOOPS,
    )  # fmt: skip
    for warps, name in ((4, "rate_one_warp"), (RATE_WARPS, "rate")):
        yield Row(
            name=f"{op.name}/{name}", what=f"{told}: {warps // 4} warps in each sub-core, {CHAINS} chains",
            unit="cycles per statement and sub-core", kernel=f"{op.name}_rate_{LONG}",
            minus=f"{op.name}_rate_{SHORT}", threads=32 * warps, loops=LOOPS,
            per=(LONG - SHORT) * LOOPS * warps / 4,
        )  # fmt: skip
