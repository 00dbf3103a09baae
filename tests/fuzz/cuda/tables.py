"""What random expressions are made of: kinds of values, and templates of operations without undefined behaviour.

In a template `{u}` stands for an expression of the kind with that letter, `{a}` for one of the template's own kind,
`{c}` for a condition, `{T}` and `{U}` for the own kind and the unsigned one in which it wraps. Whatever shift, divisor
or index could be out of range is masked here. No operation's result is left open by PTX: a NaN's bits are never looked
at (`bits_of` and its like give 7 for each).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Kind:
    """A type of values; `letter` names it in templates."""

    letter: str
    name: str
    bits: int
    family: str
    """signed, unsigned, floating or half"""

    @property
    def wraps(self) -> str:
        """The unsigned type in which arithmetic of this kind wraps."""
        return "unsigned long long" if self.bits == 64 else "unsigned"


KINDS = {
    kind.letter: kind
    for kind in (
        Kind("u", "unsigned", 32, "unsigned"), Kind("i", "int", 32, "signed"),
        Kind("q", "unsigned long long", 64, "unsigned"), Kind("l", "long long", 64, "signed"),
        Kind("w", "unsigned short", 16, "unsigned"), Kind("s", "short", 16, "signed"),
        Kind("y", "unsigned char", 8, "unsigned"), Kind("g", "signed char", 8, "signed"),
        Kind("f", "float", 32, "floating"), Kind("d", "double", 64, "floating"),
        Kind("h", "__half", 16, "half"), Kind("b", "__nv_bfloat16", 16, "half"),
    )
}  # fmt: skip
PLAIN, HALVES = "uiqlwsygfd", "hb"

INTEGER = (
    "({T})(({U}){a} + ({U}){a})", "({T})(({U}){a} - ({U}){a})", "({T})(({U}){a} * ({U}){a})",
    "({T})({a} & {a})", "({T})({a} | {a})", "({T})({a} ^ {a})", "({T})~{a}", "({T})(({U})0 - ({U}){a})",
    "({T})(({U}){a} << ({u} & {mask}))", "({T})({a} >> ({u} & {mask}))", "({T})(({U}){a} << {places})",
    "({T})({a} >> {places})", "({T})({a} / (({a} & 15) + 1))", "({T})({a} % (({a} & 7) + 3))",
    "({T})divided<{T}>({a}, {a})", "({T})remainder_of<{T}>({a}, {a})", "({T}){c}",
    "({T})min({a}, {a})", "({T})max({a}, {a})",
)  # fmt: skip
FLOATING = (
    "({a} + {a})", "({a} - {a})", "({a} * {a})", "(- {a})", "({a} + {a})", "({a} * {a})", "({a} / {a})",
)  # fmt: skip
OWN = {
    "u": (
        "(unsigned)__popc({u})", "(unsigned)__clz({i})", "__brev({u})", "(unsigned)__ffs({i})",
        "(unsigned)__popcll({q})", "__byte_perm({u}, {u}, {u})", "__funnelshift_l({u}, {u}, {u})",
        "__funnelshift_r({u}, {u}, {u})", "__funnelshift_lc({u}, {u}, {u})", "__funnelshift_rc({u}, {u}, {u})",
        "__umulhi({u}, {u})", "__umul24({u}, {u})", "__usad({u}, {u}, {u})", "__uhadd({u}, {u})",
        "__urhadd({u}, {u})", "__vadd4({u}, {u})", "__vsub2({u}, {u})", "__vabsdiffu4({u}, {u})",
        "__vavgu2({u}, {u})", "__vmaxs2({u}, {u})", "__vminu4({u}, {u})", "__vcmpgts4({u}, {u})",
        "__vseteq2({u}, {u})", "__vsadu4({u}, {u})", "__float2uint_rz({f})", "__float2uint_rn({f})",
        "__double2uint_rd({d})", "__float2uint_ru({f})", "bits_of({f})", "(unsigned)({q} >> 32)",
        "(unsigned)bits_of({d})", "__vaddus4({u}, {u})", "__vimax3_u32({u}, {u}, {u})",
        "__viaddmin_u32({u}, {u}, {u})", "__vimin3_s16x2({u}, {u}, {u})", "__viaddmax_s16x2_relu({u}, {u}, {u})",
        "x[{u} % 256u]", "p.words[{u} % 5u]", "constants[{u} & 15u]", "table[{u} % 9u]",
    ),
    "i": (
        "__mulhi({i}, {i})", "__mul24({i}, {i})", "(int)__sad({i}, {i}, {u})", "__hadd({i}, {i})",
        "__rhadd({i}, {i})", "__float2int_rn({f})", "__float2int_rz({f})", "__float2int_ru({f})",
        "__float2int_rd({f})", "__double2int_rn({d})", "__double2int_rz({d})", "__vimax3_s32({i}, {i}, {i})",
        "__viaddmin_s32({i}, {i}, {i})", "__vimin3_s32_relu({i}, {i}, {i})", "(isnan({f}) ? -1 : (int)({f} < {f}))",
        "__clzll({l})", "__ffsll({l})", "((const int*)x)[{u} % 256u]", "p.offset",
    ),
    "q": (
        "__brevll({q})", "__umul64hi({q}, {q})", "(unsigned long long){u} * {u}", "__float2ull_rz({f})",
        "__double2ull_rn({d})", "bits_of({d})", "((unsigned long long){u} << 32 | {u})",
        "((const unsigned long long*)x)[{u} % 128u]", "p.wide",
    ),
    "l": (
        "__mul64hi({l}, {l})", "__float2ll_rn({f})", "__double2ll_rd({d})", "__double2ll_rz({d})",
        "(long long){i} * {i}", "((const long long*)x)[{u} % 128u]",
    ),
    "w": ("((const unsigned short*)x)[{u} % 512u]", "(unsigned short)({u} >> 16)"),
    "s": ("((const short*)x)[{u} % 512u]", "p.shorts[{u} & 3u]"),
    "y": ("((const unsigned char*)x)[{u} % 1024u]", "(unsigned char)({u} >> 24)"),
    "g": ("((const signed char*)x)[{u} % 1024u]",),
    "f": (
        "fminf({f}, {f})", "fmaxf({f}, {f})", "fabsf({f})", "fmaf({f}, {f}, {f})", "sqrtf({f})", "truncf({f})",
        "floorf({f})", "ceilf({f})", "rintf({f})", "roundf({f})", "__saturatef({f})", "__fadd_rz({f}, {f})",
        "__fadd_ru({f}, {f})", "__fmul_rd({f}, {f})", "__fmul_rz({f}, {f})", "__fmaf_rz({f}, {f}, {f})",
        "__fmaf_ru({f}, {f}, {f})", "__fdiv_rn({f}, {f})", "__fdiv_rz({f}, {f})", "__fsqrt_rd({f})", "__frcp_rn({f})",
        "__frcp_ru({f})", "fdimf({f}, {f})", "__int2float_rz({i})", "__uint2float_ru({u})", "__ll2float_rd({l})",
        "__ull2float_rn({q})", "__double2float_rz({d})", "__double2float_ru({d})", "fy[{u} % 256u]", "p.scale",
        "weights[{u} & 7u]", "ldexpf({f}, {i} % 40)", "fmodf({f}, {f})", "(float){d}", "(float){l}",
        "nextafterf({f}, {f})", "__ldg(fy + {u} % 256u)",
    ),
    "d": (
        "fmin({d}, {d})", "fmax({d}, {d})", "fabs({d})", "fma({d}, {d}, {d})", "sqrt({d})", "trunc({d})",
        "floor({d})", "rint({d})", "__dadd_rz({d}, {d})", "__dmul_ru({d}, {d})", "__fma_rd({d}, {d}, {d})",
        "__ddiv_rn({d}, {d})", "__ddiv_ru({d}, {d})", "__dsqrt_rz({d})", "__drcp_rn({d})", "__ll2double_rz({l})",
        "__ull2double_ru({q})", "dy[{u} % 128u]", "(double){f}", "(double){l}", "(double){u}",
        "__ldcg(dy + {u} % 128u)",
    ),
    "h": (
        "__hadd_rn({h}, {h})", "__hsub_rn({h}, {h})", "__hmul_rn({h}, {h})", "__hfma({h}, {h}, {h})",
        "__hfma_sat({h}, {h}, {h})", "__hadd_sat({h}, {h})", "__hmul_sat({h}, {h})", "__hmin({h}, {h})",
        "__hmax({h}, {h})", "__habs({h})", "__hneg({h})", "htrunc({h})", "hfloor({h})", "hceil({h})", "hrint({h})",
        "__float2half_rn({f})", "__float2half_rz({f})", "__float2half_ru({f})", "__double2half({d})",
        "__int2half_rn({i})", "__uint2half_rz({u})", "__ushort2half_rn({w})", "__ll2half_rn({l})",
        "__low2half(__hfma2(__halves2half2({h}, {h}), __halves2half2({h}, {h}), __halves2half2({h}, {h})))",
        "__high2half(__hadd2_rn(__halves2half2({h}, {h}), __float2half2_rn({f})))", "__hfma_relu({h}, {h}, {h})",
        "__hmax_nan({h}, {h})", "({c} ? {h} : {h})",
    ),
    "b": (
        "__hadd_rn({b}, {b})", "__hsub_rn({b}, {b})", "__hmul_rn({b}, {b})", "__hfma({b}, {b}, {b})",
        "__hmin({b}, {b})", "__hmax({b}, {b})", "__habs({b})", "__hneg({b})", "__float2bfloat16_rn({f})",
        "__float2bfloat16_rz({f})", "__float2bfloat16_rd({f})", "__int2bfloat16_rn({i})", "__ushort2bfloat16_rn({w})",
        "__high2bfloat16(__hmul2_rn(__halves2bfloat162({b}, {b}), __float2bfloat162_rn({f})))", "({c} ? {b} : {b})",
    ),
}  # fmt: skip
FROM_HALVES = {
    "u": ("__half2uint_rz({h})", "bits_of({h})", "bits_of({b})", "__bfloat162uint_rn({b})"),
    "i": ("__half2int_rn({h})", "__half2int_rd({h})", "(int)__hlt({h}, {h})", "__bfloat162int_rz({b})"),
    "f": ("__half2float({h})", "__bfloat162float({b})"),
    "l": ("__half2ll_rn({h})",),
    "s": ("__half2short_rz({h})",),
}
"""What programs with halves also do."""
ROUGH = {
    "f": (
        "expf({f})", "logf({f})", "sinf({f})", "cosf({f})", "exp2f({f})", "log2f({f})", "tanhf({f})", "rsqrtf({f})",
        "__expf({f})", "__sinf({f})", "__fdividef({f}, {f})", "erff({f})", "cbrtf({f})", "atan2f({f}, {f})",
    ),
    "d": ("exp({d})", "log({d})", "sin({d})", "rsqrt({d})", "tanh({d})"),
    "h": ("hsqrt({h})", "hexp2({h})", "__hdiv({h}, {h})", "hrcp({h})"),
}  # fmt: skip
"""Functions of which only an error is documented: engine and oracle agree on their bits, a GPU need not."""
ASM = {
    "bfe_u32": ("bfe.u32 %0, %1, %2, %3;", "uuuu"), "bfe_s32": ("bfe.s32 %0, %1, %2, %3;", "iiuu"),
    "bfe_s64": ("bfe.s64 %0, %1, %2, %3;", "lluu"), "bfi_b32": ("bfi.b32 %0, %1, %2, %3, 11;", "uuuu"),
    "bfi_b64": ("bfi.b64 %0, %1, %2, %3, 40;", "qqqu"), "lop3_2d": ("lop3.b32 %0, %1, %2, %3, 0x2d;", "uuuu"),
    "lop3_e8": ("lop3.b32 %0, %1, %2, %3, 0xe8;", "uuuu"), "prmt_f4e": ("prmt.b32.f4e %0, %1, %2, %3;", "uuuu"),
    "prmt_rc16": ("prmt.b32.rc16 %0, %1, %2, %3;", "uuuu"), "prmt": ("prmt.b32 %0, %1, %2, %3;", "uuuu"),
    "szext": ("szext.wrap.s32 %0, %1, %2;", "iiu"), "szext_clamp": ("szext.clamp.u32 %0, %1, %2;", "uuu"),
    "bmsk": ("bmsk.clamp.b32 %0, %1, %2;", "uuu"), "bfind": ("bfind.u32 %0, %1;", "uu"),
    "bfind_shift": ("bfind.shiftamt.s32 %0, %1;", "ui"), "bfind_s64": ("bfind.s64 %0, %1;", "ul"),
    "cnot": ("cnot.b32 %0, %1;", "uu"), "slct": ("slct.u32.s32 %0, %1, %2, %3;", "uuui"),
    "slct_f": ("slct.s32.f32 %0, %1, %2, %3;", "iiif"), "mad_hi": ("mad.hi.u32 %0, %1, %2, %3;", "uuuu"),
    "mad_hi_sat": ("mad.hi.sat.s32 %0, %1, %2, %3;", "iiii"), "add_sat": ("add.sat.s32 %0, %1, %2;", "iii"),
    "sub_sat": ("sub.sat.s32 %0, %1, %2;", "iii"), "mad_wide": ("mad.wide.s32 %0, %1, %2, %3;", "liil"),
    "mul_wide_u16": ("mul.wide.u16 %0, %1, %2;", "uww"), "mad_lo_s64": ("mad.lo.s64 %0, %1, %2, %3;", "llll"),
    "mad24_hi": ("mad24.hi.u32 %0, %1, %2, %3;", "uuuu"), "mul24_hi": ("mul24.hi.s32 %0, %1, %2;", "iii"),
    "carry": ("{add.cc.u32 %0, %1, %2; addc.u32 %0, %0, %3;}", "uuuu"),
    "borrow": ("{.reg .u32 t; sub.cc.u32 t, %1, %2; subc.u32 %0, %3, t;}", "uuuu"),
    "carry_64": ("{.reg .u64 t; add.cc.u64 t, %1, %2; addc.u64 %0, t, %3;}", "qqqq"),
    "madc": ("{.reg .u32 t; mad.lo.cc.u32 t, %1, %2, %3; madc.hi.u32 %0, %1, %2, t;}", "uuuu"),
    "set_lt": ("set.lt.u32.s32 %0, %1, %2;", "uii"),
    "set_and": ("{.reg .pred p; setp.gt.u32 p, %1, %2; set.ne.and.u32.u32 %0, %2, %3, p;}", "uuuu"),
    "setp_xor": (
        "{.reg .pred p, q, r; setp.lt.s32 p, %1, %2; setp.ge.xor.s32 q|r, %2, %3, p; selp.s32 %0, %1, %3, r;}", "iiii",
    ),
    "dp4a": ("dp4a.u32.u32 %0, %1, %2, %3;", "uuuu"), "dp4a_s32": ("dp4a.s32.s32 %0, %1, %2, %3;", "iiii"),
    "dp4a_mixed": ("dp4a.u32.s32 %0, %1, %2, %3;", "iuii"), "dp2a_lo": ("dp2a.lo.u32.u32 %0, %1, %2, %3;", "uuuu"),
    "dp2a_hi": ("dp2a.hi.s32.u32 %0, %1, %2, %3;", "iiui"), "vadd": ("vadd.s32.u32.s32.sat %0, %1, %2;", "iui"),
    "vshl": ("vshl.u32.u32.u32.wrap %0, %1, %2;", "uuu"), "vset": ("vset.s32.u32.gt %0, %1, %2;", "uiu"),
    "add_ftz": ("add.rn.ftz.f32 %0, %1, %2;", "fff"), "mul_sat": ("mul.rn.sat.f32 %0, %1, %2;", "fff"),
    "fma_ftz": ("fma.rn.ftz.f32 %0, %1, %2, %3;", "ffff"), "min_nan": ("min.NaN.f32 %0, %1, %2;", "fff"),
    "max_ftz": ("max.ftz.f32 %0, %1, %2;", "fff"), "sqrt_ftz": ("sqrt.rn.ftz.f32 %0, %1;", "ff"),
    "testp": ("{.reg .pred p; testp.subnormal.f32 p, %1; selp.u32 %0, 5, 6, p;}", "uf"),
    "testp_d": ("{.reg .pred p; testp.finite.f64 p, %1; selp.u32 %0, 5, 6, p;}", "ud"),
    "setp_nan": ("{.reg .pred p; setp.geu.f32 p, %1, %2; selp.u32 %0, 3, 9, p;}", "uff"),
    "cvt_sat": ("cvt.sat.s8.s32 %0, %1;", "ii"), "cvt_sat_u8": ("cvt.sat.u8.s32 %0, %1;", "ii"),
    "cvt_sat_u16": ("cvt.sat.u32.s64 %0, %1;", "ul"), "cvt_rni": ("cvt.rni.ftz.f32.f32 %0, %1;", "ff"),
    "cvt_sat_f": ("cvt.rn.sat.f32.s32 %0, %1;", "fi"), "cvt_f64_u8": ("cvt.rzi.u8.f32 %0, %1;", "uf"),
    "popc_b64": ("popc.b64 %0, %1;", "uq"), "clz_b64": ("clz.b64 %0, %1;", "uq"),
    "shf": ("shf.l.clamp.b32 %0, %1, %2, %3;", "uuuu"),
    "abs_s64": ("{.reg .s64 t; or.b64 t, %1, 1; abs.s64 %0, t;}", "ll"),
    "neg_s16": ("{.reg .s16 t; or.b16 t, %1, 1; neg.s16 %0, t;}", "ss"), "min_s16": ("min.s16 %0, %1, %2;", "sss"),
    "rem_u64": ("{.reg .u64 t; or.b64 t, %2, 1; rem.u64 %0, %1, t;}", "qqq"),
}  # fmt: skip
"""name -> instructions, then the letters of the result and of the operands."""
CONSTRAINTS = {"u": "r", "i": "r", "q": "l", "l": "l", "w": "h", "s": "h", "f": "f", "d": "d"}
ATOMICS = (
    "atomicAdd(sums + ({u} & 7u), {u});",
    "atomicMin(sums + 8 + ({u} & 3u), {u});",
    "atomicMax(sums + 12 + ({u} & 3u), {u});",
    "atomicAnd(sums + 16 + ({u} & 1u), {u});",
    "atomicOr(sums + 18 + ({u} & 1u), {u});",
    "atomicXor(sums + 20 + ({u} & 3u), {u});",
    "atomicSub(sums + ({u} & 7u), {u});",
    "atomicInc(sums + 24, 6u);",
    "atomicDec(sums + 25, 9u);",
    "atomicMin((int*)sums + 26, (int){u});",
    "atomicMax((int*)sums + 27, (int){u});",
    "atomicAdd((float*)sums + 28 + ({u} & 1u), (float)({u} & 63u));",
    "atomicAdd(sums + 31, atomicAdd(sums + 30, 1u));",
    "atomicAdd(reinterpret_cast<unsigned long long*>(sums + 32) + ({u} & 1u), {q});",
    "atomicMax((long long*)(reinterpret_cast<unsigned long long*>(sums + 32) + 2), {l});",
    "atomicMin(reinterpret_cast<unsigned long long*>(sums + 32) + 3, {q});",
    "atomicXor(reinterpret_cast<unsigned long long*>(sums + 32) + 4, {q});",
    "atomicAdd(reinterpret_cast<double*>(sums + 42), (double)({u} & 1023u));",
    "add_by_cas(sums + 44 + ({u} & 3u), {u});",
    "atomicAnd(reinterpret_cast<unsigned long long*>(sums + 32) + 8, {q});",
)
"""Atomics on global memory: each word has one operation, so that their order does not matter."""
