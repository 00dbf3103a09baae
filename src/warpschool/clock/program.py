"""A kernel's machine code, encoded for the interpreter, with the part marked that decides on paths and addresses.

    program = encode(function)
    program.code, program.doubtful

What a branch, a barrier, an address or the guard of an access depends on is needed, and so is all that this depends on,
found backwards through registers and, where a needed load reads it, through memory. Of an instruction that may be
needed
and whose meaning nobody here knows (a tensor core's, a double's) the result is unknown, and a warp whose way really
depends on it ends the run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from warpschool.clock.interpreter import layout as it
from warpschool.clock.sass import Function, Instruction, Operand

PREDICATE_BIT = it.ROWS
"""In sets of places: rows first, then predicates, then memories."""
MEMORY_BIT = {
    it.EVENT_GLOBAL: PREDICATE_BIT + 16,
    it.EVENT_SHARED: PREDICATE_BIT + 17,
    it.EVENT_LOCAL: PREDICATE_BIT + 18,
}
_COMPARE = {"F": 0, "LT": 1, "EQ": 2, "LE": 3, "GT": 4, "NE": 5, "GE": 6, "T": 7, "NUM": 7}
_UNORDERED = 8
_BOOL = {"AND": 0, "OR": 1, "XOR": 2}
_SPECIAL = {
    "SR_TID.X": 0, "SR_TID.Y": 1, "SR_TID.Z": 2, "SR_CTAID.X": 3, "SR_CTAID.Y": 4, "SR_CTAID.Z": 5, "SR_LANEID": 6,
    "SRZ": 7, "SR_EQMASK": 8, "SR_LTMASK": 9, "SR_LEMASK": 10, "SR_GTMASK": 11, "SR_GEMASK": 12, "SR_VIRTID": 13,
    "SR_CgaCtaId": 14, "SR_SWINHI": 15,
}  # fmt: skip
_MUFU = {"RCP": 0, "RSQ": 1, "EX2": 2, "LG2": 3, "SIN": 4, "COS": 5, "SQRT": 6}
_ATOMIC = {"ADD": 0, "MIN": 1, "MAX": 2, "AND": 3, "OR": 4, "XOR": 5, "EXCH": 6, "CAS": 7, "INC": 99, "DEC": 99}
_LOADS = {"LDG": it.EVENT_GLOBAL, "LD": it.EVENT_GLOBAL, "LDS": it.EVENT_SHARED, "LDL": it.EVENT_LOCAL}
_STORES = {"STG": it.EVENT_GLOBAL, "ST": it.EVENT_GLOBAL, "STS": it.EVENT_SHARED, "STL": it.EVENT_LOCAL}
_ATOMICS = {
    "ATOMG": it.EVENT_GLOBAL, "ATOM": it.EVENT_GLOBAL, "RED": it.EVENT_GLOBAL, "REDG": it.EVENT_GLOBAL,
    "ATOMS": it.EVENT_SHARED,
}  # fmt: skip
_NOTHING = frozenset(
    """NOP YIELD DEPBAR LDGDEPBAR MEMBAR ERRBAR CGAERRBAR CCTL CCTLL CCTLT FENCE NANOSLEEP PREEXIT ACQBULK WARPGROUP
    ENDCOLLECTIVE BMOV PMTRIG HGMMA IGMMA QGMMA BGMMA UTMACCTL UTMACMDFLUSH UTMAPF UBLKPF UCGABAR_ARV""".split()
)
"""What changes no register that a way depends on. Products of warpgroups are here: their sums are never addresses."""
_WIDE_RESULT = frozenset("DADD DMUL DFMA DMNMX I2D".split())
_ARRIVING = {"A1T0": (1, 0), "ART0": (2, 0), "A0TR": (0, 2), "A0TX": (0, 3), "A0T1": (0, 1)}
"""Of SYNCS.ARRIVE: arrivals (none, one, as many as a register says), and bytes to come (none, one, a register's, a
register's that have come). Without such a word it is one arrival with a register's bytes."""
_BULK = {
    "UTMALDG": it.BULK_LOAD, "UTMASTG": it.BULK_STORE, "UTMAREDG": it.BULK_STORE, "UBLKCP": it.BULK_LOAD,
    "UBLKRED": it.BULK_STORE,
}  # fmt: skip
CLUSTER_BARRIER = 16
"""The number of a cluster's barrier, behind those of a block."""
UNMODELLED = frozenset("BRX JMX SUATOM STAS".split())
"""What the clock does not know: jumps to computed places, and stores that announce themselves."""


@dataclass
class Program:
    """`code` has a row of `layout.FIELDS` words for each instruction. `pool` says what each constant's row holds:
    ("imm", bits), or ("c", bank, byte offset)."""

    function: Function
    code: np.ndarray
    pool: list[tuple[str, int, int]]
    doubtful: tuple[int, ...] = ()
    """instructions that may decide on paths or addresses, and whose results nobody here computes"""
    unmodelled: str = ""
    reads_memory: bool = False
    """whether paths or addresses depend on values in global memory"""


class _Encoder:
    def __init__(self, function: Function) -> None:
        self.function = function
        self.pool: list[tuple[str, int, int]] = []
        self.rows: dict[tuple[str, int, int], int] = {}
        self.code = np.zeros((len(function.code), it.FIELDS), np.int32)
        self.defs: list[int] = []
        self.uses: list[int] = []
        self.roots: list[int] = []
        self.unknown: list[int] = []
        """of what is defined, the places whose values nobody here computes"""

    def constant(self, kind: str, bank: int, value: int) -> int:
        key = (kind, bank, value)
        if key not in self.rows:
            self.rows[key] = it.POOL_ROW + len(self.pool)
            self.pool.append(key)
        return self.rows[key]

    def row(self, o: Operand, part: int = 0) -> int:
        """The row of a source; `part` 1 is the upper half of a pair."""
        if o.kind in ("R", "UR"):
            base = 0 if o.kind == "R" else it.UNIFORM_ROW
            return (it.ZERO_ROW if o.kind == "R" else it.UNIFORM_ROW + 63) if o.index < 0 else base + o.index + part
        if o.kind == "c" and o.index < 0:
            return self.constant("c", o.bank, o.value + 4 * part)
        if o.kind == "imm":
            return self.constant("imm", 0, 0 if part else o.value)
        return -1


def _predicate_index(o: Operand) -> int:
    base = 8 if o.kind == "UP" else 0
    return base + (7 if o.index < 0 else o.index)


def _is_predicate(o: Operand) -> bool:
    return o.kind in ("P", "UP")


def _width(i: Instruction) -> int:
    """Registers of the result."""
    m = i.modifiers
    if "128" in m:
        return 4
    if i.name in ("HMMA", "IMMA", "DMMA"):
        return 4 if "F16" not in m and "8816" not in m else 2
    if i.name == "LDSM":
        return int(i.opcode.rsplit(".", 1)[-1]) if i.opcode[-1] in "124" else 1
    if i.name == "CS2R":
        return 1 if "32" in m else 2
    if (
        "64" in m
        or "WIDE" in m
        or i.name in _WIDE_RESULT
        or (i.name in ("I2F", "F2F") and "F64" in i.opcode.split(".")[1:2])
    ):
        return 2
    return 1


def encode(function: Function) -> Program:
    """Encode a kernel."""
    e = _Encoder(function)
    for at, instruction in enumerate(function.code):
        _encode_one(e, at, instruction)
    program = Program(function, e.code, e.pool)
    for instruction in function.code:
        if instruction.name in UNMODELLED:
            program.unmodelled = instruction.opcode
            break
    _mark_needed(e, program)
    return program


# ---------------------------------------------------------------- one instruction


def _encode_one(e: _Encoder, at: int, i: Instruction) -> None:
    f = e.code[at]
    f[[it.A, it.A_HI, it.B, it.B_HI, it.C, it.C_HI, it.PD0, it.PD1, it.DST, it.UNIFORM]] = -1
    f[[it.PS0, it.PS1, it.PS2]] = 7
    f[it.GUARD] = 7
    if i.guard:
        f[it.GUARD], f[it.GUARD_NOT] = _predicate_index(i.guard), i.guard.inverted
    f[it.TARGET] = i.target
    defs = uses = roots = doubt = 0
    known = True
    name = i.name
    if name in _LOADS or name in _STORES or name in _ATOMICS or name in ("LDGSTS", "LDSM", "STSM"):
        defs, uses, roots, known = _memory(e, f, i)
    elif name in _BULK or (name in ("SYNCS", "ARRIVES") and "CCTL" not in i.modifiers):
        defs, roots = _bulk(e, f, i) if name in _BULK else _synchronised(e, f, i)
        doubt = 1 << MEMORY_BIT[it.EVENT_SHARED]
    elif name in _CONTROL:
        uses, roots = _CONTROL[name](e, f, i)
    elif name in _NOTHING:
        pass
    else:
        known = _arithmetic(e, f, i)
        defs, uses = _defs_and_uses(e, f, i, known)
    if i.guard and (roots or f[it.EVENT] or name in _CONTROL):
        roots |= 1 << (PREDICATE_BIT + _predicate_index(i.guard))
    elif i.guard:
        uses |= 1 << (PREDICATE_BIT + _predicate_index(i.guard))
    always = ~(
        (1 << it.ZERO_ROW) | (1 << (it.UNIFORM_ROW + 63)) | (1 << (PREDICATE_BIT + 7)) | (1 << (PREDICATE_BIT + 15))
    )
    e.defs.append(defs & always)
    e.uses.append(uses & always)
    e.roots.append(roots & always)
    e.unknown.append(defs & always & (doubt if known else ~0))


def _bits(row: int, width: int = 1) -> int:
    return ((1 << int(width)) - 1) << int(row) if 0 <= row < it.ROWS else 0


def _source_width(i: Instruction, *, last: bool) -> int:
    """Registers of a source; of multiplications with wide sums the last one is a pair."""
    if i.name in ("HMMA", "IMMA", "DMMA"):
        return 4
    if i.name in ("IMAD", "UIMAD"):
        return 2 if last and {"WIDE", "HI"} & i.modifiers else 1
    return 2 if i.name in _WIDE_RESULT or i.name == "DSETP" or {"64", "F64"} & i.modifiers else 1


def _defs_and_uses(e: _Encoder, f: np.ndarray, i: Instruction, known: bool) -> tuple[int, int]:
    defs = uses = 0
    operands = list(i.operands)
    lead = 0
    if operands and operands[0].kind in ("R", "UR") and i.name not in ("R2P",):
        defs |= _bits(e.row(operands[0]), _width(i))
        lead = 1
    for o in operands[lead:]:
        if _is_predicate(o) and lead <= 1 and not uses and not o.inverted:
            defs |= 1 << (PREDICATE_BIT + _predicate_index(o))
        else:
            break
    for place, o in enumerate(operands[lead:]):
        if o.kind in ("R", "UR"):
            uses |= _bits(e.row(o), _source_width(i, last=place == len(operands) - lead - 1))
        elif _is_predicate(o):
            uses |= 1 << (PREDICATE_BIT + _predicate_index(o))
    if known:  # the exact places that the encoding names
        defs = sum(1 << (PREDICATE_BIT + int(f[k])) for k in {it.PD0, it.PD1} if f[k] >= 0)
        if f[it.PD0] == f[it.PD1] >= 0:
            defs = 1 << (PREDICATE_BIT + int(f[it.PD0]))
        if f[it.DST] >= 0:
            defs |= _bits(int(f[it.DST]), _width(i))
    if i.name == "P2R":
        uses |= 127 << PREDICATE_BIT
    if i.name == "R2P":
        defs |= 127 << PREDICATE_BIT
    return defs, uses


def _sources(e: _Encoder, f: np.ndarray, operands: list[Operand], *, floating: bool = False) -> None:
    """Put up to three sources in their places."""
    for place, o in zip((it.A, it.B, it.C), operands, strict=False):
        f[place] = e.row(o)
        f[place + 1] = e.row(o, 1)
        mod = 0
        if floating:
            mod |= it.FABS if o.absolute else 0
            mod |= it.FNEG if o.negative else 0
        else:
            mod |= it.INT_ABS if o.absolute else 0
            mod |= it.NEG if o.negative else 0
            mod |= it.NOT if o.inverted else 0
        f[place + 2] = mod


_PAIRS = {
    it.OP_WIDE: {it.C_HI}, it.OP_HI: {it.C_HI}, it.OP_MOV64: {it.A_HI}, it.OP_ADD64: {it.A_HI, it.B_HI, it.C_HI},
}  # fmt: skip
"""Which sources are pairs of registers."""


def _arithmetic(e: _Encoder, f: np.ndarray, i: Instruction) -> bool:
    """Encode what has no effect but on registers; False for what the interpreter does not know."""
    name = i.name[1:] if i.name.startswith("U") and i.name[1:] in _TABLE else i.name
    rule = _TABLE.get(name)
    operands = list(i.operands)
    if operands and operands[0].kind in ("R", "UR") and name != "R2P":
        f[it.DST] = e.row(operands.pop(0))
    f[it.DST_WIDTH] = _width(i)
    if rule is not None and rule(e, f, i, operands):
        for half in {it.A_HI, it.B_HI, it.C_HI} - _PAIRS.get(int(f[it.OP]), set()):
            f[half] = -1
        return True
    f[it.OP] = it.OP_NONE
    _set_results(f, _take_predicates(operands))
    return False


def _take_predicates(operands: list[Operand], most: int = 2) -> list[Operand]:
    found: list[Operand] = []
    while operands and _is_predicate(operands[0]) and len(found) < most:
        found.append(operands.pop(0))
    return found


def _set_results(f: np.ndarray, found: list[Operand]) -> None:
    for place, o in zip((it.PD0, it.PD1), found, strict=False):
        f[place] = _predicate_index(o)


def _set_inputs(f: np.ndarray, found: list[Operand], default: tuple[int, int] = (7, 1)) -> None:
    for k, place in enumerate((it.PS0, it.PS1, it.PS2)):
        if k < len(found):
            f[place], f[place + 1] = _predicate_index(found[k]), found[k].inverted
        else:
            f[place], f[place + 1] = default


def _imad(e: _Encoder, f: np.ndarray, i: Instruction, operands: list[Operand]) -> bool:
    m = i.modifiers
    pd = _take_predicates(operands)
    if pd:
        return False
    inputs = [o for o in operands if _is_predicate(o)]
    _sources(e, f, [o for o in operands if not _is_predicate(o)])
    f[it.OP] = it.OP_WIDE if "WIDE" in m else it.OP_HI if "HI" in m else it.OP_IMAD
    f[it.FLAGS] = ("U32" not in m) | 8 * ("X" in m)
    _set_inputs(f, inputs)
    return not (f[it.OP] != it.OP_IMAD and f[it.C_MOD])


def _iadd3(e: _Encoder, f: np.ndarray, i: Instruction, operands: list[Operand]) -> bool:
    _set_results(f, _take_predicates(operands))
    inputs = [o for o in operands if _is_predicate(o)]
    operands = [o for o in operands if not _is_predicate(o)]
    f[it.OP] = it.OP_ADD64 if "64" in i.modifiers else it.OP_IADD3
    if "64" in i.modifiers and ("X" in i.modifiers or f[it.PD0] >= 0 or any(o.inverted for o in operands)):
        return False
    _sources(e, f, operands)
    flags = 0
    for bit, place in enumerate((it.A, it.B, it.C)):
        if f[place + 2] == it.NEG:
            flags |= 1 << bit
            f[place + 2] = 0
        if f[place] < 0:
            f[[place, place + 1]] = it.ZERO_ROW
    f[it.FLAGS] = flags | 8 * ("X" in i.modifiers)
    _set_inputs(f, inputs)
    return True


def _viadd(e: _Encoder, f: np.ndarray, i: Instruction, operands: list[Operand]) -> bool:
    f[it.OP] = it.OP_IADD3
    _sources(e, f, operands)
    f[it.C] = it.ZERO_ROW
    return "16x2" not in i.opcode and "64" not in i.modifiers


def _lea(e: _Encoder, f: np.ndarray, i: Instruction, operands: list[Operand]) -> bool:
    m = i.modifiers
    _set_results(f, _take_predicates(operands))
    inputs = [o for o in operands if _is_predicate(o)]
    operands = [o for o in operands if not _is_predicate(o)]
    shift = operands.pop()
    if shift.kind != "imm" or len(operands) < 2:
        return False
    f[it.OP] = it.OP_LEA_HI if "HI" in m else it.OP_LEA
    f[it.IMM] = shift.value & 31
    negative = operands[0].negative
    _sources(e, f, operands)
    f[it.A_MOD] = 0
    if f[it.C] < 0:
        f[it.C] = it.ZERO_ROW
    f[it.FLAGS] = ("HI" in m) | 2 * ("SX32" in m) | 4 * ("X" in m) | 8 * negative
    _set_inputs(f, inputs)
    return True


def _shf(e: _Encoder, f: np.ndarray, i: Instruction, operands: list[Operand]) -> bool:
    m = i.modifiers
    f[it.OP] = it.OP_SHF
    _sources(e, f, operands)
    f[it.FLAGS] = (
        ("L" in m) | 2 * ("HI" in m) | 4 * bool({"S32", "S64"} & m) | 8 * ("W" in m) | 16 * bool({"U64", "S64"} & m)
    )
    return True


def _lop3(e: _Encoder, f: np.ndarray, i: Instruction, operands: list[Operand]) -> bool:
    pd = _take_predicates(operands, 1)
    _set_results(f, pd)
    if pd:
        f[it.DST] = e.row(operands.pop(0))
    inputs = [o for o in operands if _is_predicate(o)]
    operands = [o for o in operands if not _is_predicate(o)]
    lut = operands.pop()
    f[it.OP], f[it.IMM] = it.OP_LOP3, lut.value & 255
    _sources(e, f, operands)
    _set_inputs(f, inputs)
    return "PAND" not in i.modifiers


def _select(e: _Encoder, f: np.ndarray, i: Instruction, operands: list[Operand]) -> bool:
    inputs = [o for o in operands if _is_predicate(o)]
    f[it.OP] = it.OP_SEL
    _sources(e, f, [o for o in operands if not _is_predicate(o)], floating=i.name.startswith("F"))
    _set_inputs(f, inputs)
    return "64" not in i.modifiers


def _mov(e: _Encoder, f: np.ndarray, i: Instruction, operands: list[Operand]) -> bool:
    f[it.OP] = it.OP_MOV64 if "64" in i.modifiers else it.OP_COPY
    _sources(e, f, operands[:1])
    return True


def _cs2r(e: _Encoder, f: np.ndarray, i: Instruction, operands: list[Operand]) -> bool:
    f[it.OP] = it.OP_COPY if "32" in i.modifiers else it.OP_MOV64
    f[it.A] = f[it.A_HI] = it.ZERO_ROW
    return True


def _s2r(e: _Encoder, f: np.ndarray, i: Instruction, operands: list[Operand]) -> bool:
    f[it.OP], f[it.IMM] = it.OP_S2R, _SPECIAL.get(operands[0].text, 7)
    return True


def _unary(op: int, flags: dict[str, int] | None = None) -> Any:
    def rule(e: _Encoder, f: np.ndarray, i: Instruction, operands: list[Operand]) -> bool:
        f[it.OP] = op
        _sources(e, f, [o for o in operands if not _is_predicate(o)])
        f[it.FLAGS] = sum(bit for name, bit in (flags or {}).items() if name in i.modifiers)
        return True

    return rule


def _minmax(e: _Encoder, f: np.ndarray, i: Instruction, operands: list[Operand]) -> bool:
    _take_predicates(operands)
    inputs = [o for o in operands if _is_predicate(o)]
    f[it.OP] = it.OP_ADDMNMX if "ADD" in i.name else it.OP_MNMX
    _sources(e, f, [o for o in operands if not _is_predicate(o)])
    f[it.FLAGS] = "U32" not in i.modifiers
    _set_inputs(f, inputs, (7, 0))
    return "16x2" not in i.opcode


def _minmax3(e: _Encoder, f: np.ndarray, i: Instruction, operands: list[Operand]) -> bool:
    if not _minmax(e, f, i, operands):
        return False
    f[it.FLAGS] |= 2
    return True


def _setp(e: _Encoder, f: np.ndarray, i: Instruction, operands: list[Operand]) -> bool:
    m = [word for word in i.opcode.split(".")[1:] if word != "BF"]
    _set_results(f, _take_predicates(operands))
    inputs = [o for o in operands if _is_predicate(o)]
    floating = i.name.startswith("F")
    f[it.OP] = it.OP_FSETP if floating else it.OP_ISETP
    _sources(e, f, [o for o in operands if not _is_predicate(o)], floating=floating)
    word = m[0]
    unordered = floating and word.endswith("U") and word not in ("NEU",) and word[:-1] in _COMPARE
    how = _COMPARE.get(word.removesuffix("U") if floating else word)
    if how is None:
        return False
    f[it.FLAGS] = how | (
        _UNORDERED * (unordered or word in ("NEU",)) if floating else 8 * ("U32" not in m) | 16 * ("EX" in m)
    )
    if i.name == "FSET":
        f[it.FLAGS] |= it.TO_REGISTER | it.AS_FLOAT * ("BF" in i.modifiers)
    elif not floating:
        f[it.FLAGS] |= _asks_for_care(e, i)
    f[it.IMM] = next((number for text, number in _BOOL.items() if text in m), 0)
    _set_inputs(f, inputs, (7, 0))
    return "64" not in m


_CARE = {
    0x1FFFFFF: (0x7F800000, it.IF_ORDINARY), 0x727FFFFF: (0xF3000000, it.UNLESS_ORDINARY),
}  # fmt: skip
"""What the exponent of a number is compared with, before its reciprocal or its square root is computed in a few steps:
the constant by which that exponent was found, and how the comparison ends for all ordinary numbers."""


def _asks_for_care(e: _Encoder, i: Instruction) -> int:
    """Flags of a comparison by which ptxas asks whether a reciprocal or a square root needs the long way."""
    limit = next((o.value & 0xFFFFFFFF for o in i.operands if o.kind == "imm"), 0)
    if limit not in _CARE or not {"GT", "U32"} <= i.modifiers:
        return 0
    constant, flag = _CARE[limit]
    asked = next((o.index for o in i.operands if o.kind == "R"), -1)
    for before in reversed(e.function.code[: len(e.defs)]):
        if before.operands and before.operands[0].kind == "R" and before.operands[0].index == asked:
            return flag if any(o.kind == "imm" and o.value & 0xFFFFFFFF == constant for o in before.operands) else 0
    return 0


def _plop3(e: _Encoder, f: np.ndarray, i: Instruction, operands: list[Operand]) -> bool:
    _set_results(f, _take_predicates(operands))
    inputs = _take_predicates(operands, 3)
    if len(inputs) != 3 or len(operands) != 2:
        return False
    f[it.OP], f[it.IMM], f[it.FLAGS] = it.OP_PLOP3, operands[0].value & 255, operands[1].value & 255
    _set_inputs(f, inputs)
    return True


def _granted(e: _Encoder, f: np.ndarray, i: Instruction, operands: list[Operand]) -> bool:
    """USETMAXREG: registers that are asked for are there."""
    _set_results(f, _take_predicates(operands))
    f[it.OP], f[it.IMM] = it.OP_PLOP3, 255
    _set_inputs(f, [])
    return True


def _p2r(e: _Encoder, f: np.ndarray, i: Instruction, operands: list[Operand]) -> bool:
    f[it.OP] = it.OP_P2R if i.name == "P2R" else it.OP_R2P
    _sources(e, f, [o for o in operands if o.text != "PR"])
    return not {"B1", "B2", "B3"} & i.modifiers


def _vote(e: _Encoder, f: np.ndarray, i: Instruction, operands: list[Operand]) -> bool:
    _set_results(f, _take_predicates(operands, 1))
    if operands and operands[0].kind in ("R", "UR"):
        f[it.DST] = e.row(operands.pop(0))
    f[it.OP], f[it.FLAGS] = it.OP_VOTE, {"ANY": 0, "ALL": 1, "EQ": 2}.get(i.opcode.split(".")[1], 0)
    _set_inputs(f, [o for o in operands if _is_predicate(o)])
    return True


def _r2ur(e: _Encoder, f: np.ndarray, i: Instruction, operands: list[Operand]) -> bool:
    pd = _take_predicates(operands, 1)
    _set_results(f, pd)
    if pd:
        f[it.DST] = e.row(operands.pop(0))
    f[it.OP], f[it.FLAGS] = it.OP_R2UR, "OR" in i.modifiers
    _sources(e, f, operands)
    return True


def _redux(e: _Encoder, f: np.ndarray, i: Instruction, operands: list[Operand]) -> bool:
    m = i.modifiers
    kinds = {"SUM": 0, "MIN": 1, "MAX": 2, "AND": 3, "OR": 4, "XOR": 5}
    how = next((number for text, number in kinds.items() if text in m), 4)
    if "S32" in m and how in (1, 2):
        how += 5
    f[it.OP], f[it.FLAGS] = it.OP_REDUX, how
    _sources(e, f, operands)
    return not any(part.startswith("F") for part in m)


def _shfl(e: _Encoder, f: np.ndarray, i: Instruction, operands: list[Operand]) -> bool:
    _set_results(f, _take_predicates(operands, 1))
    f[it.DST] = e.row(operands.pop(0))
    f[it.OP] = it.OP_SHFL
    f[it.FLAGS] = {"IDX": 0, "UP": 1, "DOWN": 2, "BFLY": 3}[i.opcode.split(".")[1]]
    _sources(e, f, operands)
    return True


def _elect(e: _Encoder, f: np.ndarray, i: Instruction, operands: list[Operand]) -> bool:
    _set_results(f, _take_predicates(operands, 1))
    f[it.OP] = it.OP_ELECT
    return True


def _ldc(e: _Encoder, f: np.ndarray, i: Instruction, operands: list[Operand]) -> bool:
    o = operands[0]
    m = i.modifiers
    if o.kind == "c" and o.index < 0 and not {"U8", "S8", "U16", "S16", "128"} & m:
        f[it.OP] = it.OP_MOV64 if "64" in m else it.OP_COPY
        _sources(e, f, operands)
        return True
    f[it.OP], f[it.OFFSET] = it.OP_LDC, o.value
    f[it.A] = (o.index if o.kind == "c" else it.UNIFORM_ROW + o.index) if o.index >= 0 else it.ZERO_ROW
    f[it.BYTES] = 8 if "64" in m else 1 if "U8" in m else 2 if "U16" in m else 4
    return o.bank == 3 and not {"S8", "S16", "128"} & m


def _float(op: int) -> Any:
    def rule(e: _Encoder, f: np.ndarray, i: Instruction, operands: list[Operand]) -> bool:
        pd = _take_predicates(operands, 1)
        _set_results(f, pd)
        inputs = [o for o in operands if _is_predicate(o)]
        f[it.OP] = op
        _sources(e, f, [o for o in operands if not _is_predicate(o)], floating=True)
        _set_inputs(f, inputs, (7, 0))
        if op == it.OP_MUFU:
            f[it.FLAGS] = _MUFU.get(i.opcode.split(".")[1], 99)
        elif op in (it.OP_FADD, it.OP_FMUL, it.OP_FFMA):
            f[it.FLAGS] = "SAT" in i.modifiers
        return bool(f[it.FLAGS] != 99 and not {"RCP64H", "RSQ64H", "F16", "BF16_V2", "BF16"} & i.modifiers)

    return rule


def _hadd2(e: _Encoder, f: np.ndarray, i: Instruction, operands: list[Operand]) -> bool:
    """How ptxas widens a half: minus zero plus the half, as a float. Other sums of halves are not known."""
    if "F32" not in i.modifiers or len(operands) != 2 or any(o.kind != "R" for o in operands) or operands[0].index >= 0:
        return False
    half = operands[1]
    f[it.OP], f[it.A] = it.OP_HALF, e.row(half)
    f[it.FLAGS] = (
        it.UPPER * ("H1_H1" in half.suffix) | it.HALF_NEG * half.negative | it.HALF_ABS * half.absolute
    )  # fmt: skip
    return True


def _hfma2(e: _Encoder, f: np.ndarray, i: Instruction, operands: list[Operand]) -> bool:
    """How ptxas writes a constant: zero times zero plus two halves."""
    if len(operands) < 3 or any(o.kind != "R" or o.index >= 0 for o in operands[:2]) or operands[2].kind != "imm":
        return False
    f[it.OP] = it.OP_COPY
    _sources(e, f, [operands[2]])
    return True


def _i2f(e: _Encoder, f: np.ndarray, i: Instruction, operands: list[Operand]) -> bool:
    m = i.modifiers
    f[it.OP] = it.OP_I2F
    _sources(e, f, operands)
    f[it.FLAGS] = ("U32" in m) | 2 * ("RP" in m)
    return not {"F64", "F16", "S64", "U64", "S8", "U8", "S16", "U16"} & m


def _f2i(e: _Encoder, f: np.ndarray, i: Instruction, operands: list[Operand]) -> bool:
    m = i.modifiers
    f[it.OP] = it.OP_FRND if i.name == "FRND" else it.OP_F2I
    _sources(e, f, operands, floating=True)
    f[it.FLAGS] = ("U32" in m) | 2 * ("TRUNC" in m) | 4 * ("FLOOR" in m) | 8 * ("CEIL" in m)
    return not {"F64", "F16", "S64", "U64"} & m


_TABLE: dict[str, Any] = {
    "IMAD": _imad, "IADD3": _iadd3, "VIADD": _viadd, "LEA": _lea, "SHF": _shf, "LOP3": _lop3, "SEL": _select,
    "FSEL": _select, "MOV": _mov, "CS2R": _cs2r, "S2R": _s2r, "S2UR": _s2r, "IABS": _unary(it.OP_IABS),
    "VIMNMX": _minmax, "IMNMX": _minmax, "VIADDMNMX": _minmax, "VIMNMX3": _minmax3, "ISETP": _setp, "FSETP": _setp,
    "FSET": _setp,
    "PRMT": _unary(it.OP_PRMT), "POPC": _unary(it.OP_POPC), "FLO": _unary(it.OP_FLO, {"S32": 1, "SH": 2}),
    "BREV": _unary(it.OP_BREV), "SGXT": _unary(it.OP_SGXT, {"S32": 1}), "BMSK": _unary(it.OP_BMSK), "PLOP3": _plop3,
    "P2R": _p2r, "R2P": _p2r, "VOTE": _vote, "VOTEU": _vote, "R2UR": _r2ur, "REDUX": _redux, "CREDUX": _redux,
    "SHFL": _shfl, "ELECT": _elect, "LDC": _ldc, "LDCU": _ldc, "FADD": _float(it.OP_FADD), "FMUL": _float(it.OP_FMUL),
    "FFMA": _float(it.OP_FFMA), "FMNMX": _float(it.OP_FMNMX), "MUFU": _float(it.OP_MUFU), "FCHK": _float(it.OP_FCHK),
    "HADD2": _hadd2, "HFMA2": _hfma2, "USETMAXREG": _granted, "I2F": _i2f, "I2FP": _i2f, "F2I": _f2i, "FRND": _f2i,
    "MATCH": _unary(it.OP_MATCH),
}  # fmt: skip


# ---------------------------------------------------------------- memory


def _bytes_of(i: Instruction) -> int:
    m = i.modifiers
    for text, size in (("128", 16), ("64", 8), ("U16", 2), ("S16", 2), ("U8", 1), ("S8", 1)):
        if text in m:
            return size
    return 4


def _address(e: _Encoder, f: np.ndarray, o: Operand, *, is_pair: bool) -> int:
    """Encode an address; the places that it needs. `is_pair`: of 64 bits, which Turing's listings say of the opcode."""
    is_pair = is_pair or o.wide
    f[it.OFFSET], f[it.A_MOD] = o.value, o.scale
    f[it.A] = o.index if o.index >= 0 else it.ZERO_ROW
    needs = _bits(o.index) if o.index >= 0 else 0
    if is_pair and o.index >= 0 and ".U32" not in o.text:
        f[it.A_HI] = o.index + 1
        needs |= _bits(o.index + 1)
    if o.uniform >= 0:
        f[it.UNIFORM] = it.UNIFORM_ROW + o.uniform
        needs |= _bits(it.UNIFORM_ROW + o.uniform)
        if is_pair:
            f[it.IMM] |= 256
            needs |= _bits(it.UNIFORM_ROW + o.uniform + 1)
    return needs


def _memory(e: _Encoder, f: np.ndarray, i: Instruction) -> tuple[int, int, int, bool]:
    name, m = i.name, i.modifiers
    places = [o for o in i.operands if o.kind == "mem"]
    others = [o for o in i.operands if o.kind in ("R", "UR", "imm", "c")]
    f[it.BYTES] = _bytes_of(i)
    defs = uses = 0
    known = True
    if name == "LDGSTS":
        f[it.OP], f[it.EVENT] = it.OP_LOAD, it.EVENT_COPY
        roots = _address(e, f, places[-1], is_pair=True)
        target = places[0]
        f[it.B], f[it.C_MOD] = target.index if target.index >= 0 else it.ZERO_ROW, target.value
        roots |= _bits(target.index) if target.index >= 0 else 0
        defs, uses = 1 << MEMORY_BIT[it.EVENT_SHARED], 1 << MEMORY_BIT[it.EVENT_GLOBAL]
        last = i.operands[-1]
        if _is_predicate(last):  # without it zeros are written, and nothing is read
            roots |= 1 << (PREDICATE_BIT + _predicate_index(last))
            _set_inputs(f, [last], (7, 0))
        return defs, uses, roots, known
    roots = _address(e, f, places[0], is_pair="E" in m)
    if name in ("LDSM", "STSM"):
        f[it.OP], f[it.EVENT], f[it.FLAGS] = it.OP_MATRIX, it.EVENT_SHARED, _width(i)
        if name == "STSM":
            return 1 << MEMORY_BIT[it.EVENT_SHARED], _bits(e.row(others[0]), _width(i)), roots, False
        f[it.DST], f[it.DST_WIDTH] = e.row(others[0]), _width(i)
        return _bits(e.row(others[0]), _width(i)), 1 << MEMORY_BIT[it.EVENT_SHARED], roots, "MT88" not in m
    if name in _LOADS:
        f[it.OP], f[it.EVENT] = it.OP_LOAD, _LOADS[name]
        f[it.FLAGS] = bool({"S8", "S16"} & m)
        f[it.DST], f[it.DST_WIDTH] = e.row(others[0]), max(f[it.BYTES] // 4, 1)
        defs = _bits(int(f[it.DST]), max(f[it.BYTES] // 4, 1))
        uses = 1 << MEMORY_BIT[_LOADS[name]]
    elif name in _STORES:
        f[it.OP], f[it.EVENT] = it.OP_STORE, _STORES[name]
        f[it.B] = e.row(others[0])
        uses = _bits(int(f[it.B]), max(f[it.BYTES] // 4, 1))
        defs = 1 << MEMORY_BIT[_STORES[name]]
    else:
        known, defs, uses = _atomic(e, f, i, others)
    return defs, uses | roots, roots, known


def _synchronised(e: _Encoder, f: np.ndarray, i: Instruction) -> tuple[int, int]:
    """An mbarrier's instruction. Waiting lets others' stores to shared memory be seen, which are not followed."""
    words = i.opcode.split(".")
    place = next(o for o in i.operands if o.kind == "mem")
    value = i.operands[-1] if i.operands[-1].kind in ("R", "UR") else Operand("R")
    f[it.OP], f[it.EVENT], f[it.B] = it.OP_SYNC, it.EVENT_SYNC, e.row(value)
    roots = _address(e, f, place, is_pair=False) | _bits(e.row(value))
    defs = 0
    if "PHASECHK" in words:
        f[it.FLAGS] = it.SYNC_WAIT
        f[it.PD0] = _predicate_index(i.operands[0])
        defs = 1 << (PREDICATE_BIT + int(f[it.PD0])) | 1 << MEMORY_BIT[it.EVENT_SHARED]
    elif "EXCH" in words:
        f[it.FLAGS] = it.SYNC_INIT
    elif i.name == "ARRIVES":
        f[it.FLAGS], f[it.BYTES] = it.SYNC_COPIED, 1 if "ARVCNT" in words else 3 << 2
        f[it.B] = e.constant("imm", 0, 1)
    else:
        arriving, moving = next((_ARRIVING[word] for word in words if word in _ARRIVING), (1, 2))
        f[it.FLAGS], f[it.BYTES] = it.SYNC_DROP if "OPTOUT" in words else it.SYNC_ARRIVE, arriving | moving << 2
        if i.operands[0].kind == "R" and i.operands[0].index >= 0:
            f[it.DST] = e.row(i.operands[0])
            defs = _bits(int(f[it.DST]), 2)
    return defs, roots


def _bulk(e: _Encoder, f: np.ndarray, i: Instruction) -> tuple[int, int]:
    """A copy by the asynchronous engine; nobody here knows what it brings to shared memory."""
    places = [o for o in i.operands if o.kind == "mem"]
    words = i.opcode.split(".")[1:]
    f[it.OP], f[it.EVENT] = it.OP_BULK, it.EVENT_BULK
    f[it.FLAGS] = _BULK[i.name]
    if words[:2] == ["S", "S"]:
        f[it.FLAGS] = it.BULK_ACROSS
    elif words[:2] == ["G", "S"]:
        f[it.FLAGS] = it.BULK_STORE
    f[it.IMM] = next((int(word[0]) for word in words if word in ("1D", "2D", "3D", "4D", "5D")), 0)
    f[it.A], f[it.B] = (it.UNIFORM_ROW + o.uniform for o in places[:2])
    is_load = f[it.FLAGS] != it.BULK_STORE
    roots = _bits(int(f[it.A]), 2 + int(f[it.IMM]) - (f[it.IMM] > 0 and not is_load)) | _bits(int(f[it.B]), 2)
    more = i.operands[-1]
    if more.kind == "UR" and more.index >= 0:
        f[it.C] = e.row(more)
        roots |= _bits(int(f[it.C]))
    return 1 << MEMORY_BIT[it.EVENT_SHARED if is_load else it.EVENT_GLOBAL], roots


def _atomic(e: _Encoder, f: np.ndarray, i: Instruction, others: list[Operand]) -> tuple[bool, int, int]:
    event = _ATOMICS[i.name]
    f[it.OP], f[it.EVENT] = it.OP_ATOM, event
    words = i.opcode.split(".")[1:]
    how = next((_ATOMIC[word] for word in words if word in _ATOMIC), 99)
    if "S32" in words and how in (1, 2):
        how += 7
    if any(word.startswith("F32") for word in words) and how == 0:
        how = 10
    if "INC" in words:
        how = 11
    f[it.FLAGS] = how
    f[it.BYTES] = 8 if {"64", "U64", "S64", "F64"} & set(words) else 4
    returns = i.name not in ("RED", "REDG")
    values = others[1:] if returns else others
    if returns:
        f[it.DST] = e.row(others[0])
    if values:
        f[it.B] = e.row(values[0])
    if len(values) > 1:
        f[it.C] = e.row(values[1])
    known = how != 99 and f[it.BYTES] == 4 and not {"F16x2", "F16", "BF16x2", "BF16"} & set(words)
    defs = (1 << MEMORY_BIT[event]) | (_bits(int(f[it.DST])) if returns else 0)
    uses = 1 << MEMORY_BIT[event]
    for value in values:
        uses |= _bits(e.row(value))
    return known, defs, uses


# ---------------------------------------------------------------- control


def _branch(e: _Encoder, f: np.ndarray, i: Instruction) -> tuple[int, int]:
    given = [o for o in i.operands if _is_predicate(o)]
    roots = 0
    f[it.OP] = it.OP_BRA
    if {"DIV", "CONV"} & i.modifiers:  # to where lanes that have parted, or have not, go on
        f[it.OP], f[it.FLAGS] = it.OP_DIV, "CONV" in i.modifiers
        source = next((o for o in i.operands if o.kind in ("R", "UR") and o.index >= 0), None)
        if source is None:  # all lanes; Turing does not even write it
            f[it.A] = e.constant("imm", 0, 0xFFFFFFFF)
        else:
            f[it.A], f[it.A_MOD] = e.row(source), it.NOT * source.inverted
            roots |= _bits(e.row(source))
    _set_inputs(f, given[:1], (7, 0))
    for o in given:
        roots |= 1 << (PREDICATE_BIT + _predicate_index(o))
    f[it.IMM] = "ANY" in i.modifiers
    return 0, roots


def _plain_control(op: int) -> Any:
    def rule(e: _Encoder, f: np.ndarray, i: Instruction) -> tuple[int, int]:
        f[it.OP] = op
        f[it.IMM] = next((o.index for o in i.operands if o.kind == "B"), 0)
        given = [o for o in i.operands if _is_predicate(o)]  # it holds for the lanes that the guard lets through
        _set_inputs(f, given[:1], (7, 0))
        return 0, sum(1 << (PREDICATE_BIT + _predicate_index(o)) for o in given[:1])

    return rule


def _call(e: _Encoder, f: np.ndarray, i: Instruction) -> tuple[int, int]:
    """A call; under a guard ptxas means a jump, from which nobody comes back."""
    if i.guard:
        return _branch(e, f, i)
    f[it.OP] = it.OP_CALL
    return 0, 0


def _return(e: _Encoder, f: np.ndarray, i: Instruction) -> tuple[int, int]:
    f[it.OP], f[it.A] = it.OP_RET, e.row(i.operands[0])
    return 0, _bits(int(f[it.A]))


def _barrier(e: _Encoder, f: np.ndarray, i: Instruction) -> tuple[int, int]:
    f[it.OP], f[it.EVENT] = it.OP_BAR, it.EVENT_BARRIER
    f[it.FLAGS] = "ARV" in i.modifiers
    roots = 0
    given = [o for o in i.operands if o.kind in ("imm", "R")]
    for o, fixed, register in zip(given, (it.IMM, it.BYTES), (it.A, it.B), strict=False):
        if o.kind == "imm":
            f[fixed] = o.value
        else:
            f[register] = e.row(o)
            roots |= _bits(e.row(o))
    return 0, roots


def _cluster_barrier(e: _Encoder, f: np.ndarray, i: Instruction) -> tuple[int, int]:
    """Blocks of a cluster do the same at the same time: its barrier is one of the block's."""
    f[it.OP], f[it.EVENT], f[it.IMM] = it.OP_BAR, it.EVENT_BARRIER, CLUSTER_BARRIER
    return 0, 0


_CONTROL: dict[str, Any] = {
    "BRA": _branch, "EXIT": _plain_control(it.OP_EXIT), "KILL": _plain_control(it.OP_EXIT), "BSSY":
    _plain_control(it.OP_BSSY),
    "BSYNC": _plain_control(it.OP_BSYNC), "BREAK": _plain_control(it.OP_BREAK), "CALL": _call,
    "RET": _return, "WARPSYNC": _plain_control(it.OP_WARPSYNC), "BAR": _barrier, "UCGABAR_WAIT": _cluster_barrier,
}  # fmt: skip


# ---------------------------------------------------------------- what is needed


def _successors(function: Function) -> list[list[int]]:
    count = len(function.code)
    returns = [at + 1 for at, i in enumerate(function.code) if i.name == "CALL"]
    found = []
    for at, i in enumerate(function.code):
        after: list[int] = []
        conditional = i.guard is not None or any(_is_predicate(o) for o in i.operands)
        conditional = conditional or bool({"DIV", "CONV"} & i.modifiers)
        if i.name in ("BRA", "CALL"):
            after = [i.target] if i.target >= 0 else []
            after += [at + 1] * (conditional and (i.name == "BRA" or i.guard is not None))
        elif i.name == "RET":
            after = list(returns)
        elif i.name not in ("EXIT", "KILL") or conditional:
            after = [at + 1]
        found.append([n for n in after if 0 <= n < count])
    return found


_Live = dict[tuple[int, bool] | None, int]
"""What is needed, by the guard under which: what is written and read under one guard is needed nowhere else."""


def _guard_of(i: Instruction) -> tuple[int, bool] | None:
    return (_predicate_index(i.guard), i.guard.inverted) if i.guard else None


def _after(i: Instruction, at: int, goals: list[int], live: list[_Live]) -> _Live:
    """What is needed behind an instruction; behind a branch, under the guard that leads there."""
    guard = _guard_of(i)
    out: _Live = {}
    decides = guard is not None and i.name in ("BRA", "EXIT") and not any(_is_predicate(o) for o in i.operands)
    for goal in goals:
        here = None
        if decides and guard is not None:
            here = guard if i.name == "BRA" and goal == i.target else (guard[0], not guard[1])
            if i.name == "BRA" and i.target == at + 1:
                here = None
        for key, places in live[goal].items():
            if here is not None and key is not None and key[0] == here[0] and key != here:
                continue  # needed only where this way does not lead
            out[key or here] = out.get(key or here, 0) | places
    return out


def _before(e: _Encoder, at: int, i: Instruction, out: _Live, needed: bool) -> _Live:
    """What is needed before an instruction, from what is needed after it."""
    memory = sum(1 << bit for bit in MEMORY_BIT.values())
    guard, kill = _guard_of(i), e.defs[at] & ~memory
    now: _Live = {}
    for key, places in out.items():
        places = places & ~kill if guard is None or guard == key else places
        if key is not None and kill >> (PREDICATE_BIT + key[0]) & 1:
            key = None  # another predicate from here on
        if places:
            now[key] = now.get(key, 0) | places
    own = 1 << (PREDICATE_BIT + guard[0]) if guard else 0
    wanted = e.roots[at] | (e.uses[at] & ~memory if needed else 0)
    if wanted & ~own:
        key = guard if not kill & own else None
        now[key] = now.get(key, 0) | (wanted & ~own)
    if wanted & own:
        now[None] = now.get(None, 0) | own
    return now


def _mark_needed(e: _Encoder, program: Program) -> None:
    """Backwards until nothing changes: what is needed before each instruction, and which instructions are."""
    code, count = program.function.code, len(program.function.code)
    after = _successors(program.function)
    before: list[list[int]] = [[] for _ in range(count)]
    for at, goals in enumerate(after):
        for goal in goals:
            before[goal].append(at)
    memory = sum(1 << bit for bit in MEMORY_BIT.values())
    live: list[_Live] = [{} for _ in range(count)]
    needed, doubtful, wanted_memory = [False] * count, [False] * count, 0
    todo = list(range(count))
    waiting = set(todo)
    while todo:
        at = todo.pop()
        waiting.discard(at)
        out = _after(code[at], at, after[at], live)
        guard = _guard_of(code[at])
        reached = wanted_memory
        for key, places in out.items():
            if key is None or guard is None or key[0] != guard[0] or key == guard:
                reached |= places
        needed[at] = needed[at] or bool(e.defs[at] & reached)
        doubtful[at] = doubtful[at] or bool(e.unknown[at] & reached)
        now = _before(e, at, code[at], out, needed[at])
        if needed[at] and e.uses[at] & memory & ~wanted_memory:
            wanted_memory |= e.uses[at] & memory
            todo = list(range(count))
            waiting = set(todo)
        if now != live[at]:
            live[at] = now
            for source in before[at]:
                if source not in waiting:
                    waiting.add(source)
                    todo.append(source)
    program.code[:, it.NEEDED] = needed
    program.doubtful = tuple(at for at, one in enumerate(doubtful) if one)
    program.reads_memory = bool(wanted_memory & 1 << MEMORY_BIT[it.EVENT_GLOBAL])
