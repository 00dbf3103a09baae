"""What each instruction costs on a machine: the table that the multiprocessor's model reads."""

from __future__ import annotations

import numpy as np

from warpschool.clock import core
from warpschool.clock.interpreter import layout as it
from warpschool.clock.machine import Machine
from warpschool.clock.program import Program
from warpschool.clock.sass import Function, Instruction

_KINDS = {
    **dict.fromkeys(("LDG", "LD"), core.K_GLOBAL_LOAD), **dict.fromkeys(("STG", "ST"), core.K_GLOBAL_STORE),
    **dict.fromkeys(("LDS", "LDSM", "ATOMS"), core.K_SHARED_LOAD), **dict.fromkeys(("STS", "STSM"),
    core.K_SHARED_STORE),
    **dict.fromkeys(("ATOMG", "ATOM"), core.K_GLOBAL_ATOMIC), **dict.fromkeys(("RED", "REDG"), core.K_GLOBAL_REDUCE),
    **dict.fromkeys(("BRA", "CALL", "RET", "BSYNC", "BREAK"), core.K_BRANCH),
    "LDL": core.K_GLOBAL_LOAD, "STL": core.K_GLOBAL_STORE, "LDGSTS": core.K_COPY, "BAR": core.K_BARRIER,
    "LDGDEPBAR": core.K_COMMIT, "DEPBAR": core.K_WAIT_GROUP, "SHFL": core.K_MIO, "S2R": core.K_VARIABLE,
    "MOVM": core.K_MIO, "SYNCS": core.K_SYNC, "ARRIVES": core.K_SYNC, "UCGABAR_WAIT": core.K_BARRIER,
    **dict.fromkeys(("UTMALDG", "UTMASTG", "UTMAREDG", "UBLKCP", "UBLKRED"), core.K_BULK),
    "UTMACMDFLUSH": core.K_COMMIT, **dict.fromkeys(("HGMMA", "IGMMA", "QGMMA", "BGMMA"), core.K_PRODUCT),
}  # fmt: skip
_XU = frozenset("MUFU I2F F2I F2F POPC FLO BREV FRND I2I".split())
_FMA = frozenset("FFMA FMUL FADD FSWZADD".split())
_HEAVY = frozenset("IMAD IDP".split())
_HALF = frozenset("HFMA2 HADD2 HMUL2 HSET2 HSETP2".split())
_FP64 = frozenset("DADD DMUL DFMA DSETP DMNMX".split())
_TENSOR = frozenset("HMMA IMMA DMMA".split())
WARPGROUP = frozenset("HGMMA IGMMA QGMMA BGMMA".split())
_CONTROL = frozenset(
    """BRA EXIT BSSY BSYNC BREAK CALL RET WARPSYNC BAR NOP YIELD DEPBAR LDGDEPBAR MEMBAR ERRBAR CCTL BMOV
    NANOSLEEP SYNCS ARRIVES UTMALDG UTMASTG UTMAREDG UBLKCP UBLKRED UTMACMDFLUSH UTMACCTL UTMAPF UBLKPF WARPGROUP FENCE
    UCGABAR_ARV UCGABAR_WAIT CGAERRBAR USETMAXREG""".split()
)
_MIO = frozenset("LDG LD STG ST LDS LDSM ATOMS STS STSM ATOMG ATOM RED REDG LDL STL LDGSTS SHFL MOVM".split())
_PIPE_KEYS = {
    core.P_FMA: "fma", core.P_HEAVY: "heavy", core.P_LITE: "lite", core.P_ALU: "alu", core.P_FP64: "fp64",
    core.P_XU: "xu", core.P_UNIFORM: "uniform",
}  # fmt: skip


def _pipe(i: Instruction, machine: Machine) -> int:
    name = i.name
    if name in _HALF:
        return _half_pipe(machine)
    if name in _MIO:
        return core.P_MIO
    if name in _CONTROL:
        return core.P_CONTROL
    if name in _XU:
        return core.P_XU
    if name in _FMA or (name in _HEAVY and "MOV" in i.opcode):
        return core.P_FMA if machine.fp32_pipes == 2 else core.P_HEAVY
    if name in _HEAVY:
        return core.P_HEAVY
    if name in _FP64:
        return core.P_FP64
    if name in _TENSOR or name in WARPGROUP:
        return core.P_TENSOR
    if name.startswith("U") or name in ("R2UR", "S2UR", "VOTEU"):
        return core.P_UNIFORM
    if name in ("LDC", "S2R", "CS2R"):
        return core.P_CONTROL
    return core.P_ALU


def _half_pipe(machine: Machine) -> int:
    """Where half precision runs: on both pipes for single precision, on the heavy one, or, beside a single one, on a
    pipe of its own, which takes the place of the lite one."""
    if machine.fp32_pipes == 1:
        return core.P_LITE
    return core.P_HEAVY if machine["pipes"].get("half_pipe") == "heavy" else core.P_FMA


def _tensor_cycles(i: Instruction, machine: Machine) -> float:
    table = machine["tensor"]
    name, shape, sums, *_ = [*i.opcode.lower().split("."), "", ""]
    for key in (f"{name}_{shape}_{sums}", f"{name}_{shape}", name, "hmma_16816", "hmma_1688"):
        if key in table:
            return float(table[key])
    raise KeyError(i.opcode)


def _product_cycles(i: Instruction, machine: Machine) -> tuple[float, float]:
    """How long a warpgroup's product keeps the tensor cores busy, and until when it is done behind that.

    Its columns take half a cycle each. It reads B, and A unless that is in registers, from shared memory, which gives a
    wavefront a cycle; both go on at the same time.
    """
    table = machine["warpgroup"]
    columns = int(i.opcode.split(".")[1].split("x")[1])
    from_registers = sum(o.kind == "R" for o in i.operands) > 2
    reads = columns * table["column_wavefronts"] + (0 if from_registers else table["rows_wavefronts"])
    slow = i.name == "IGMMA" or i.opcode.split(".")[2:3] == ["F16"]
    latency = table["latency"] + (table["latency_registers"] if from_registers else 0.0)
    return max(columns * table["column_cycles"], reads, table["least"]), latency + slow * table["latency_narrow"]


def _latency(i: Instruction, machine: Machine) -> float:
    table = machine["latency"]
    name = i.name
    for names, key in (
        (("LDS", "LDSM", "ATOMS", "STS"), "shared"), (("SHFL", "MOVM"), "shuffle"), (("LDC", "ULDC", "LDCU"),
        "constant"),
        (("S2R", "S2UR", "CS2R"), "special_register"), (tuple(_XU), "xu"), (tuple(_FP64), "fp64"),
        (tuple(_TENSOR), "tensor"), (("R2UR", "VOTEU", "UPOPC", "REDUX"), "uniform"),
    ):  # fmt: skip
        if name in names:
            return float(table[key])
    return 4.0


def _banks(function: Function, machine: Machine) -> np.ndarray:
    """Reads of the two register banks that the reuse cache does not save: even registers, odd ones."""
    found = np.zeros((len(function.code), 2), np.int64)
    kept: dict[int, int] = {}
    for at, i in enumerate(function.code):
        sources = [o for o in i.operands[1:] if o.kind == "R"] if i.operands else []
        read = {o.index for slot, o in enumerate(sources[:3]) if o.index >= 0 and kept.get(slot) != o.index}
        for index in read:  # one that two operands name is read once
            found[at, index & 1] += 1
        kept = {slot: o.index for slot, o in enumerate(sources[:3]) if o.reuse}
    found[[_pipe(i, machine) not in (core.P_FMA, core.P_HEAVY, core.P_LITE, core.P_ALU) for i in function.code]] = 0
    return found


def instruction_table(program: Program, machine: Machine) -> np.ndarray:
    """One row of `core.TABLE` words for each instruction. Cycles are rounded to whole ones, tensor cores' up to
    halves."""
    function = program.function
    rows = np.zeros((len(function.code), core.TABLE), np.int64)
    banks = _banks(function, machine)
    for at, i in enumerate(function.code):
        pipe = _pipe(i, machine)
        busy = float(machine["pipes"].get(_PIPE_KEYS.get(pipe, ""), 1))
        if i.name in _HALF:
            busy = float(machine["pipes"]["half"])
        if i.name in _TENSOR:
            busy = _tensor_cycles(i, machine)
        kind = _KINDS.get(i.name, core.K_VARIABLE if i.write_barrier < 6 else core.K_FIXED)
        depth = next((o.value for o in i.operands if o.kind == "imm"), 0)
        latency = _latency(i, machine)
        if i.name in WARPGROUP:
            busy, latency = _product_cycles(i, machine)
            depth = any("gsb" in o.text for o in i.operands)
        elif i.name == "MEMBAR" and "CTA" not in i.modifiers:
            kind = core.K_FENCE
        elif i.name == "WARPGROUP" and "DEPBAR" in i.opcode:
            kind = core.K_WAIT_PRODUCT
        rows[at] = (
            kind, pipe, i.stall, i.write_barrier, i.read_barrier, i.wait, banks[at, 0], banks[at, 1], program.code[at,
            it.BYTES], depth,
            round(busy * core.BUSY_UNIT), round(latency), program.code[at, it.EVENT], i.stays,
        )  # fmt: skip
    return rows
