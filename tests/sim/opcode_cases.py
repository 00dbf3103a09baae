"""One PTX instruction per case, with seeded inputs: run by the oracle, and recorded once on silicon.

A case's kernel loads one value per source from arrays, executes the instruction in every thread and stores its
results. Sources and results travel as raw bits: 64 bits per value, whatever the type.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass

import numpy as np

THREADS = 384
WARPS = THREADS // 32

WIDTHS = {"pred": 1} | {f"{k}{w}": w for k in "bus" for w in (8, 16, 32, 64)} | {
    "f16": 16, "bf16": 16, "f32": 32, "f64": 64, "f16x2": 32, "bf16x2": 32, "u16x2": 32, "s16x2": 32, "amount": 32,
    "lane": 32, "clamp": 32, "small": 32, "near32": 32, "position": 32,
}  # fmt: skip
_INTEGERS = {
    8: [0, 1, 2, 0x7F, 0x80, 0xFF],
    16: [0, 1, 2, 7, 0x7FFF, 0x8000, 0xFFFF, 0x1234],
    32: [0, 1, 2, 5, 31, 32, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0x12345678, 0xFFFFFFF0],
    64: [0, 1, 3, 63, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 1 << 63, (1 << 63) - 1, (1 << 64) - 1, 0x0123456789ABCDEF],
}
_FLOATS = {
    "f16": [0, 0x8000, 0x3C00, 0xBC00, 0x7C00, 0xFC00, 0x7E00, 0x7D01, 1, 0x3FF, 0x400, 0x7BFF, 0x8001, 0x3800, 0x4248],
    "bf16": [0, 0x8000, 0x3F80, 0xBF80, 0x7F80, 0xFF80, 0x7FC0, 0x7F81, 1, 0x7F, 0x80, 0x7F7F, 0x8001, 0x3F00, 0x4049],
    "f32": [
        0, 0x80000000, 0x3F800000, 0xBF800000, 0x7F800000, 0xFF800000, 0x7FC00000, 0x7F800001, 0xFFC12345, 1, 0x7FFFFF,
        0x800000, 0x7F7FFFFF, 0x80000001, 0x3F000000, 0x40490FDB, 0x3F800001, 0x4B7FFFFF, 0x3FC00000, 0x40200000,
        0x4F000000, 0xCF000000, 0x4F800000, 0x5F000000, 0x00C00000, 0x43800000, 0x477FE000, 0x477FF000, 0x33000000,
    ],
    "f64": [
        0, 1 << 63, 0x3FF0000000000000, 0xBFF0000000000000, 0x7FF0000000000000, 0xFFF0000000000000, 0x7FF8000000000000,
        0x7FF0000000000001, 0xFFF8123456789ABC, 1, 0x000FFFFFFFFFFFFF, 0x0010000000000000, 0x7FEFFFFFFFFFFFFF,
        0x3FE0000000000000, 0x4004000000000000, 0x3FF8000000000000, 0x41E0000000000000, 0xC1E0000000000000,
        0x41EFFFFFFFF00000, 0x43E0000000000000, 0x47EFFFFFE0000000, 0x47EFFFFFF0000000, 0x36A0000000000000,
        0x3FF0000010000000, 0x3FF0000030000000, 0x400921FB54442D18,
    ],
}  # fmt: skip


@dataclass(frozen=True)
class Case:
    """`name` is the instruction; `text` its PTX with {d}, {p} for results and {0}, {1}... for sources."""

    name: str
    text: str
    results: tuple[str, ...]
    sources: tuple[str, ...]
    ulp: float = 0.0
    """largest difference from silicon in units in the last place; 0 means equal bits"""


def _case(instruction: str, result: str, *sources: str, text: str = "", ulp: float = 0.0) -> Case:
    operands = ", ".join(f"{{{k}}}" for k in range(len(sources)))
    return Case(instruction, text or f"{instruction} {{d}}, {operands};", (result,), sources, ulp)


def inputs(case: Case) -> list[np.ndarray]:
    """The case's sources: uint64 arrays of shape (THREADS,) with raw bits, the same on every machine."""
    rng = np.random.default_rng(zlib.crc32(case.name.encode()))
    return [_values(rng, kind, k, len(case.sources)) for k, kind in enumerate(case.sources)]


def _values(rng: np.random.Generator, kind: str, index: int, count: int) -> np.ndarray:
    """Special values (for two sources, the important ones in all pairs), then random bits and ordinary numbers."""
    if kind in ("amount", "position"):
        pool = [0, 1, 5, 8, 15, 16, 17, 30, 31, 32, 33, 40, 63, 64, 65, 200, 255, 256, 0x7FFFFFFF, 0xFFFFFFFF]
        return rng.choice(np.array(pool, np.uint64), THREADS)
    if kind == "near32":
        return rng.integers(0, 40, THREADS).astype(np.uint64)
    if kind in ("lane", "clamp"):
        pool = [0, 1, 2, 3, 7, 16, 31, 32] if kind == "lane" else [0, 31, 0x1F00, 0x181F, 0x1C1F, 0x101F, 0x0F, 0x1C03]
        return np.repeat(rng.choice(np.array(pool, np.uint64), WARPS), 32)
    if kind == "small":
        return rng.integers(0, 4, THREADS).astype(np.uint64)
    if kind == "pred":
        return rng.integers(0, 2, THREADS).astype(np.uint64)
    width = WIDTHS[kind]
    if kind in ("f16x2", "bf16x2", "u16x2", "s16x2"):
        halves = [_values(rng, kind[:-2], index, count) for _ in range(2)]
        return halves[0] | halves[1][::-1] << np.uint64(16)
    special = np.array(_FLOATS[kind] if kind in _FLOATS else _INTEGERS[width], np.uint64)
    combined = THREADS // 2
    first = rng.choice(special, combined)
    if count == 1:
        first[: len(special)] = special
    elif count == 2:  # the first ten with each other
        core = special[:10]
        first[: len(core) ** 2] = np.tile(core, len(core)) if index else np.repeat(core, len(core))
    quarter = (THREADS - combined) // 2
    anything = rng.integers(0, 1 << 64, quarter, np.uint64, endpoint=False) & np.uint64((1 << width) - 1)
    return np.concatenate([first, anything, _ordinary(rng, kind, width, THREADS - combined - quarter)])


def _ordinary(rng: np.random.Generator, kind: str, width: int, n: int) -> np.ndarray:
    """Numbers of everyday size."""
    x = rng.standard_normal(n) * 10.0 ** rng.integers(-2, 3, n)
    if kind == "bf16":
        return (x.astype(np.float32).view(np.uint32) >> 16).astype(np.uint64)
    if kind in _FLOATS:
        return x.astype(f"f{width // 8}").view(f"u{width // 8}").astype(np.uint64)
    return rng.integers(-100, 100, n).astype(np.int64).view(np.uint64) & np.uint64((1 << width) - 1)


# ---------------------------------------------------------------- the cases


def _integer() -> list[Case]:
    cases = []
    for t in ("s16", "u16", "s32", "u32", "s64", "u64"):
        cases += [_case(f"{op}.{t}", t, t, t) for op in ("add", "sub", "mul.lo", "mul.hi", "min", "max")]
        cases += [_case(f"mad.{m}.{t}", t, t, t, t) for m in ("lo", "hi")]
        cases += [_case(f"{op}.{t}", t, t, t) for op in ("div", "rem")]
        cases += [_case(f"sad.{t}", t, t, t, t)]
        cases += [_case(f"shr.{t}", t, t, "amount")]
    cases += [_case(f"{op}.{t}", t, t) for op in ("abs", "neg") for t in ("s16", "s32", "s64")]
    for t in ("s16", "u16", "s32", "u32"):
        wide = f"{t[0]}{2 * WIDTHS[t]}"
        cases += [_case(f"mul.wide.{t}", wide, t, t), _case(f"mad.wide.{t}", wide, t, t, wide)]
    for t in ("s32", "u32"):
        cases += [_case(f"mul24.{m}.{t}", t, t, t) for m in ("lo", "hi")]
        cases += [_case(f"mad24.{m}.{t}", t, t, t, t) for m in ("lo", "hi")]
    cases += [_case(f"{op}.sat.s32", "s32", "s32", "s32") for op in ("add", "sub")]
    cases += [
        _case("mad.hi.sat.s32", "s32", "s32", "s32", "s32"),
        _case("mad24.hi.sat.s32", "s32", "s32", "s32", "s32"),
    ]
    cases += [_case(f"{op}.u16x2", "b32", "u16x2", "u16x2") for op in ("add", "min", "max")]
    cases += [_case(f"{op}.s16x2", "b32", "s16x2", "s16x2") for op in ("add", "min", "max")]
    for t in ("b16", "b32", "b64"):
        cases += [_case(f"{op}.{t}", t, t, t) for op in ("and", "or", "xor")]
        cases += [_case(f"{op}.{t}", t, t) for op in ("not", "cnot")]
        cases += [_case(f"shl.{t}", t, t, "amount")]
    cases += [_case(f"{op}.pred", "pred", "pred", "pred") for op in ("and", "or", "xor")]
    cases += [_case("not.pred", "pred", "pred")]
    for w in (32, 64):
        cases += [_case(f"{op}.b{w}", "b32", f"b{w}") for op in ("popc", "clz")]
        cases += [_case(f"brev.b{w}", f"b{w}", f"b{w}")]
        for t in (f"u{w}", f"s{w}"):
            cases += [_case(f"bfind.{t}", "b32", t), _case(f"bfind.shiftamt.{t}", "b32", t)]
            cases += [_case(f"bfe.{t}", t, t, "position", "position")]
        cases += [_case(f"bfi.b{w}", f"b{w}", f"b{w}", f"b{w}", "position", "position")]
    cases += [
        _case(
            "fns.b32",
            "b32",
            "b32",
            "near32",
            "s32",
            text="and.b32 {1}, {1}, 31;\n shr.s32 {2}, {2}, 27;\n fns.b32 {d}, {0}, {1}, {2};",
        )
    ]
    cases += [_case(f"bmsk.{m}.b32", "b32", "position", "position") for m in ("clamp", "wrap")]
    cases += [_case(f"szext.{m}.{t}", t, t, "position") for m in ("clamp", "wrap") for t in ("s32", "u32")]
    cases += [_case(f"shf.{d}.{m}.b32", "b32", "b32", "b32", "amount") for d in "lr" for m in ("clamp", "wrap")]
    cases += [
        _case(f"lop3.b32 {lut}", "b32", "b32", "b32", "b32", text=f"lop3.b32 {{d}}, {{0}}, {{1}}, {{2}}, {lut};")
        for lut in (0x96, 0xE8, 0x1B)
    ]
    for b in ("and", "or"):
        text = f"lop3.{b}.b32 {{d}}|{{p}}, {{0}}, {{1}}, {{2}}, 0x96, {{3}};"
        cases.append(Case(f"lop3.{b}.b32", text, ("b32", "pred"), ("b32", "b32", "b32", "pred")))
    cases += [_case("prmt.b32", "b32", "b32", "b32", "b32")]
    cases += [_case(f"prmt.b32.{m}", "b32", "b32", "b32", "b32") for m in ("f4e", "b4e", "rc8", "ecl", "ecr", "rc16")]
    for p in ("u32", "s32"):
        for q in ("u32", "s32"):
            r = "s32" if "s32" in (p, q) else "u32"
            cases += [_case(f"dp4a.{p}.{q}", r, "b32", "b32", "b32")]
            cases += [_case(f"dp2a.{m}.{p}.{q}", r, "b32", "b32", "b32") for m in ("lo", "hi")]
    carry = "{first}.cc.u{w} %t{w}, {{0}}, {{1}};\n {second}.u{w} {{d}}, {{2}}, {{1}};"
    for w in (32, 64):
        for first, second in (("add", "addc"), ("sub", "subc"), ("add", "subc")):
            text = carry.format(first=first, second=second, w=w)
            cases += [_case(f"{first}.cc {second}.u{w}", f"u{w}", f"u{w}", f"u{w}", f"u{w}", text=text)]
        for m in ("lo", "hi"):
            text = f"mad.{m}.cc.u{w} %t{w}, {{0}}, {{1}}, {{2}};\n madc.{m}.u{w} {{d}}, {{2}}, {{1}}, {{0}};"
            cases += [_case(f"mad.{m}.cc madc.u{w}", f"u{w}", f"u{w}", f"u{w}", f"u{w}", text=text)]
    return cases


def _floating() -> list[Case]:
    cases = []
    for t in ("f32", "f64"):
        for mode in ("rn", "rz", "rm", "rp"):
            cases += [_case(f"{op}.{mode}.{t}", t, t, t) for op in ("add", "sub", "mul", "div")]
            cases += [_case(f"fma.{mode}.{t}", t, t, t, t)]
            cases += [_case(f"{op}.{mode}.{t}", t, t) for op in ("rcp", "sqrt")]
        cases += [_case(f"{op}.{t}", t, t, t) for op in ("min", "max", "copysign")]
        cases += [_case(f"{op}.{t}", t, t) for op in ("abs", "neg")]
        for test in ("finite", "infinite", "number", "notanumber", "normal", "subnormal"):
            cases += [_case(f"testp.{test}.{t}", "pred", t)]
    for mode in ("rn", "rz", "rm", "rp"):
        cases += [_case(f"{op}.{mode}.ftz.f32", "f32", "f32", "f32") for op in ("add", "mul", "div")]
        cases += [_case(f"fma.{mode}.ftz.sat.f32", "f32", "f32", "f32", "f32")]
    cases += [_case(f"{op}.ftz.sat.f32", "f32", "f32", "f32") for op in ("add", "sub", "mul")]
    cases += [_case(f"{op}.sat.f32", "f32", "f32", "f32") for op in ("add", "mul")]
    cases += [_case(f"{op}.ftz.f32", "f32", "f32", "f32") for op in ("min", "max")]
    cases += [_case(f"{op}.NaN.f32", "f32", "f32", "f32") for op in ("min", "max")]
    cases += [_case(f"{op}.xorsign.abs.f32", "f32", "f32", "f32") for op in ("min", "max")]
    cases += [_case(f"{op}.ftz.f32", "f32", "f32") for op in ("abs", "neg", "rcp.rn", "sqrt.rn")]
    for t, lanes in (("f16", "f16"), ("bf16", "bf16"), ("f16x2", "b32"), ("bf16x2", "b32")):
        rn = ".rn" if t[0] == "b" else ""
        cases += [_case(f"{op}{rn}.{t}", lanes, t, t) for op in ("add", "sub", "mul")]
        cases += [_case(f"fma.rn.{t}", lanes, t, t, t), _case(f"fma.rn.relu.{t}", lanes, t, t, t)]
        cases += [_case(f"{op}.{t}", lanes, t, t) for op in ("min", "max", "min.NaN", "max.NaN")]
        cases += [_case(f"{op}.{t}", lanes, t) for op in ("abs", "neg")]
    cases += [_case(f"{op}.f16", "f16", "f16", "f16") for op in ("add.ftz", "mul.sat", "add.rn.ftz.sat")]
    cases += [_case("fma.rn.ftz.f16", "f16", "f16", "f16", "f16"), _case("fma.rn.sat.f16", "f16", "f16", "f16", "f16")]
    cases += [
        _case("div.approx.f32", "f32", "f32", "f32", ulp=2), _case("div.full.f32", "f32", "f32", "f32", ulp=2),
        _case("div.approx.ftz.f32", "f32", "f32", "f32", ulp=2), _case("div.full.ftz.f32", "f32", "f32", "f32", ulp=2),
        _case("rcp.approx.f32", "f32", "f32", ulp=1), _case("rcp.approx.ftz.f32", "f32", "f32", ulp=1),
        _case("sqrt.approx.f32", "f32", "f32", ulp=1), _case("sqrt.approx.ftz.f32", "f32", "f32", ulp=1),
        _case("rsqrt.approx.f32", "f32", "f32", ulp=2), _case("rsqrt.approx.ftz.f32", "f32", "f32", ulp=2),
        _case("rcp.approx.ftz.f64", "f64", "f64", ulp=2**33), _case("rsqrt.approx.ftz.f64", "f64", "f64", ulp=2**33),
        _case("ex2.approx.f32", "f32", "f32", ulp=2), _case("ex2.approx.ftz.f32", "f32", "f32", ulp=2),
        _case("lg2.approx.f32", "f32", "f32", ulp=4), _case("lg2.approx.ftz.f32", "f32", "f32", ulp=4),
        _case("sin.approx.f32", "f32", "f32", ulp=1e9), _case("cos.approx.f32", "f32", "f32", ulp=1e9),
        _case("tanh.approx.f32", "f32", "f32", ulp=2**13), _case("ex2.approx.f16", "f16", "f16", ulp=1),
        _case("tanh.approx.f16", "f16", "f16", ulp=2), _case("ex2.approx.ftz.bf16", "bf16", "bf16", ulp=1),
        _case("tanh.approx.bf16", "bf16", "bf16", ulp=1), _case("ex2.approx.f16x2", "b32", "f16x2", ulp=1 << 17),
    ]  # fmt: skip
    return cases


def _comparing() -> list[Case]:
    cases = []
    for t in ("s16", "u16", "s32", "u32", "s64", "u64"):
        cases += [_case(f"setp.{c}.{t}", "pred", t, t) for c in ("eq", "ne", "lt", "le", "gt", "ge")]
    cases += [_case(f"setp.{c}.u32", "pred", "u32", "u32") for c in ("lo", "ls", "hi", "hs")]
    ordered = ("eq", "ne", "lt", "le", "gt", "ge")
    for t in ("f32", "f64", "f16", "bf16"):
        cases += [_case(f"setp.{c}.{t}", "pred", t, t) for c in (*ordered, *(c + "u" for c in ordered), "num", "nan")]
    cases += [_case("setp.lt.ftz.f32", "pred", "f32", "f32")]
    for b in ("and", "or", "xor"):
        cases += [_case(f"setp.lt.{b}.s32", "pred", "s32", "s32", "pred")]
        text = f"setp.ge.{b}.f32 {{d}}|{{p}}, {{0}}, {{1}}, {{2}};"
        cases.append(Case(f"setp.ge.{b}.f32 pair", text, ("pred", "pred"), ("f32", "f32", "pred")))
        text = f"setp.ge.{b}.f32 {{d}}, {{0}}, {{1}}, !{{2}};"
        cases.append(Case(f"setp.ge.{b}.f32 not", text, ("pred",), ("f32", "f32", "pred")))
    for t in ("f16x2", "bf16x2"):
        cases.append(Case(f"setp.lt.{t}", f"setp.lt.{t} {{d}}|{{p}}, {{0}}, {{1}};", ("pred", "pred"), (t, t)))
    cases += [
        _case(f"set.{c}.{d}.{t}", d, t, t) for c in ("lt", "ne") for d in ("u32", "s32", "f32") for t in ("s32", "f32")
    ]
    cases += [_case("set.gt.f16.f16", "f16", "f16", "f16"), _case("set.gt.f16x2.f16x2", "b32", "f16x2", "f16x2")]
    cases += [_case("set.le.u32.f16x2", "b32", "f16x2", "f16x2")]
    cases += [_case(f"selp.{t}", t, t, t, "pred") for t in ("b16", "b32", "b64", "f32", "f64")]
    cases += [_case(f"slct.{t}.{s}", t, t, t, s) for t in ("b32", "u64", "f32") for s in ("s32", "f32")]
    cases += [_case("slct.ftz.f32.f32", "f32", "f32", "f32", "f32")]
    return cases


def _fits(a: str, d: str) -> bool:
    """Whether every number of integer type a is one of type d, so that .sat is not allowed."""
    if a[0] == d[0]:
        return WIDTHS[d] >= WIDTHS[a]
    return d[0] == "s" and WIDTHS[d] > WIDTHS[a]


def _converting() -> list[Case]:
    cases = []
    integers = ("s8", "u8", "s16", "u16", "s32", "u32", "s64", "u64")
    carrier = {"s8": "s32", "u8": "u32"}
    for a in integers:
        for d in integers:
            source, result = carrier.get(a, a), carrier.get(d, d)
            if a != d:
                cases.append(_case(f"cvt.{d}.{a}", result, source))
            if not _fits(a, d):
                cases.append(_case(f"cvt.sat.{d}.{a}", result, source))
    for t in ("f16", "f32", "f64", "bf16"):
        for d in integers:
            if t == "bf16" and d != "s32":
                continue
            modes = ("rni", "rzi", "rmi", "rpi") if t != "bf16" else ("rzi",)
            cases += [_case(f"cvt.{m}.{d}.{t}", carrier.get(d, d), t) for m in modes]
        for a in integers:
            if t == "bf16" and a != "s32":
                continue
            modes = ("rn", "rz", "rm", "rp") if t != "bf16" else ("rn",)
            cases += [_case(f"cvt.{m}.{t}.{a}", t, carrier.get(a, a)) for m in modes]
    cases += [_case("cvt.rzi.ftz.s32.f32", "s32", "f32")]
    cases += [_case(f"cvt.{m}.{t}.{t}", t, t) for m in ("rni", "rzi", "rmi", "rpi") for t in ("f16", "f32", "f64")]
    for a, d in (("f64", "f32"), ("f32", "f16"), ("f64", "f16")):
        cases += [_case(f"cvt.{m}.{d}.{a}", d, a) for m in ("rn", "rz", "rm", "rp")]
        cases += [_case(f"cvt.rn.sat.{d}.{a}", d, a), _case(f"cvt.{a}.{d}", a, d)]
    cases += [
        _case("cvt.rn.ftz.f32.f64", "f32", "f64"),
        _case("cvt.ftz.f32.f16", "f32", "f16"),
        _case("cvt.f32.bf16", "f32", "bf16"),
    ]
    cases += [
        _case("cvt.sat.f32.f32", "f32", "f32"),
        _case("cvt.ftz.f64.f32", "f64", "f32"),
        _case("cvt.rn.ftz.f16.f32", "f16", "f32"),
    ]
    cases += [_case(f"cvt.{m}.bf16.f32", "bf16", "f32") for m in ("rn", "rz", "rn.relu")]
    cases += [_case("cvt.rn.relu.f16.f32", "f16", "f32")]
    cases += [
        _case(f"cvt.{m}.{d}.f32", "b32", "f32", "f32") for m in ("rn", "rz", "rn.relu") for d in ("f16x2", "bf16x2")
    ]
    cases += [_case(f"cvt.{m}.tf32.f32", "b32", "f32") for m in ("rna", "rn", "rz")]
    return cases


def _moving() -> list[Case]:
    two = "mov.b64 {d}, {{{0}, {1}}};"
    cases = [_case("mov.b64 pack", "b64", "b32", "b32", text=two)]
    cases.append(Case("mov.b64 unpack", "mov.b64 {{{d}, {p}}}, {0};", ("b32", "b32"), ("b64",)))
    cases.append(Case("mov.b32 unpack", "mov.b32 {{{d}, {p}}}, {0};", ("b16", "b16"), ("b32",)))
    cases.append(_case("mov.b32 pack", "b32", "b16", "b16", text="mov.b32 {d}, {{{0}, {1}}};"))
    for t in ("s8", "u8", "s16", "u16", "s32", "u32"):
        for to in (32, 64):
            text = f"st.global.b64 [{{m}}], {{0}};\n ld.global.{t} {{d}}, [{{m}}];"
            if WIDTHS[t] < to:
                cases.append(Case(f"ld.global.{t} into b{to}", text, (f"b{to}",), ("b64",)))
    text = "st.global.v2.b32 [{m}], {{{0}, {1}}};\n ld.global.v2.u16 {{{d}, {p}}}, [{m}+2];"
    cases.append(Case("ld.global.v2.u16", text.replace("+2", "+4"), ("b16", "b16"), ("b32", "b32")))
    for op, result in (("popc.u32", "b32"), ("and.pred", "pred"), ("or.pred", "pred")):
        cases.append(_case(f"bar.red.{op}", result, "pred", text=f"bar.red.{op} {{d}}, 0, {{0}};"))
        text = f"setp.ge.s32 %tp, {{1}}, 0;\n bar.red.{op} {{d}}, 1, {THREADS}, !%tp;"
        cases.append(Case(f"bar.red.{op} counted", text, (result,), ("pred", "s32")))
    for mode in ("up", "down", "bfly", "idx"):
        text = f"shfl.sync.{mode}.b32 {{d}}|{{p}}, {{0}}, {{1}}, {{2}}, -1;"
        cases.append(Case(f"shfl.sync.{mode}.b32", text, ("b32", "pred"), ("b32", "lane", "clamp")))
    for mode, result in (("all", "pred"), ("any", "pred"), ("uni", "pred"), ("ballot", "b32")):
        cases.append(
            _case(f"vote.sync.{mode}.{result}", result, "pred", text=f"vote.sync.{mode}.{result} {{d}}, {{0}}, -1;")
        )
        name = f"vote.sync.{mode}.{result} sparse"
        text = f"setp.ge.s32 %tp, {{1}}, 0;\n and.pred {{0}}, {{0}}, %tp;\n vote.sync.{mode}.{result} {{d}}, {{0}}, -1;"
        cases.append(Case(name, text, (result,), ("pred", "s32")))
    cases.append(_case("match.any.sync.b32", "b32", "small", text="match.any.sync.b32 {d}, {0}, -1;"))
    cases.append(Case("match.all.sync.b32", "match.all.sync.b32 {d}|{p}, {0}, -1;", ("b32", "pred"), ("lane",)))
    cases.append(Case("match.any.sync.b64", "match.any.sync.b64 {d}, {0}, -1;", ("b32",), ("b64",)))
    for op in ("add", "min", "max"):
        cases += [
            _case(f"redux.sync.{op}.{t}", t, t, text=f"redux.sync.{op}.{t} {{d}}, {{0}}, -1;") for t in ("s32", "u32")
        ]
    cases += [
        _case(f"redux.sync.{op}.b32", "b32", "b32", text=f"redux.sync.{op}.b32 {{d}}, {{0}}, -1;")
        for op in ("and", "or", "xor")
    ]
    return cases


def _atomics() -> list[Case]:
    """Each thread has a memory cell of its own, {m}: what the operation leaves there and what it returned."""
    cases = []
    kinds = {
        "add": ("u32", "u64", "f32", "f64", "f16x2", "bf16x2", "f16", "bf16"),
        "min": ("s32", "u32", "s64", "u64"), "max": ("s32", "u32", "s64", "u64"),
        "inc": ("u32",), "dec": ("u32",), "exch": ("b32", "b64"),
        "and": ("b32", "b64"), "or": ("b32", "b64"), "xor": ("b32", "b64"),
    }  # fmt: skip
    for space in ("global", "shared"):
        for op, types in kinds.items():
            for t in types:
                noftz = ".noftz" if t[:2] in ("f1", "bf") else ""
                w = WIDTHS[t]
                text = (
                    f"st.{space}.b{w} [{{m}}], {{0}};\n atom.{space}.{op}{noftz}.{t} {{d}}, [{{m}}], {{1}};\n"
                    f" ld.{space}.b{w} {{p}}, [{{m}}];"
                )
                result = t if t in _FLOATS else f"b{w}"
                cases.append(Case(f"atom.{space}.{op}{noftz}.{t}", text, (result, result), (t, t)))
        for w in (16, 32, 64):
            text = (
                f"st.{space}.b{w} [{{m}}], {{0}};\n atom.{space}.cas.b{w} {{d}}, [{{m}}], {{1}}, {{2}};\n"
                f" ld.{space}.b{w} {{p}}, [{{m}}];"
            )
            cases.append(Case(f"atom.{space}.cas.b{w}", text, (f"b{w}", f"b{w}"), (f"b{w}", f"b{w}", f"b{w}")))
    return cases


CASES: tuple[Case, ...] = tuple(
    case for family in (_integer, _floating, _comparing, _converting, _moving, _atomics) for case in family()
)


# ---------------------------------------------------------------- PTX


def _register_type(kind: str) -> str:
    return "pred" if kind == "pred" else f"b{max(16, WIDTHS[kind])}"


def entry(case: Case, name: str) -> str:
    """The case's kernel: parameters are the sources' array, the results' array and a scratch array."""
    lines = [
        f".visible .entry {name}(.param .u64 in, .param .u64 out, .param .u64 scratch)",
        "{",
        " .reg .b32 %i; .reg .b64 %in, %out, %m, %off; .reg .b32 %t32, %w; .reg .b64 %t64; .reg .pred %tp;",
        f" .shared .align 8 .b8 cells[{8 * THREADS}];",
        " mov.u32 %i, %tid.x;",
        " ld.param.u64 %in, [in]; ld.param.u64 %out, [out]; ld.param.u64 %m, [scratch];",
        " mul.wide.u32 %off, %i, 8; add.u64 %in, %in, %off; add.u64 %out, %out, %off; add.u64 %m, %m, %off;",
    ]
    if ".shared." in case.text:
        lines.append(" mov.u64 %m, cells; add.u64 %m, %m, %off;")
    names = []
    for k, kind in enumerate(case.sources):
        register = _register_type(kind)
        names.append(f"%s{k}")
        lines.append(f" .reg .{register} %s{k};")
        at = f"[%in+{8 * THREADS * k}]"
        if kind == "pred":
            lines.append(f" ld.global.u32 %t32, {at}; setp.ne.u32 %s{k}, %t32, 0;")
        else:
            lines.append(f" ld.global.{register} %s{k}, {at};")
    results = {"d": "%d", "p": "%p"}
    for name_of, kind in zip("dp", case.results, strict=False):
        lines.append(f" .reg .{_register_type(kind)} %{name_of};")
    lines.append(" " + case.text.format(*names, m="%m", **results))
    for k, (name_of, kind) in enumerate(zip("dp", case.results, strict=False)):
        at = f"[%out+{8 * THREADS * k}]"
        if kind == "pred":
            lines.append(f" selp.u32 %w, 1, 0, %{name_of}; st.global.u32 {at}, %w;")
        else:
            lines.append(f" st.global.{_register_type(kind)} {at}, %{name_of};")
    return "\n".join([*lines, " ret;", "}"])


def module(cases: tuple[Case, ...] = CASES, target: str = "sm_90") -> str:
    """All cases as one PTX module; the k-th is the entry `case_k`."""
    head = f".version 8.2\n.target {target}\n.address_size 64\n"
    return head + "\n".join(entry(case, f"case_{k}") for k, case in enumerate(cases))
