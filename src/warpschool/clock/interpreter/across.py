"""Instructions across the lanes of a warp, and registers that say where a thread is."""

from __future__ import annotations

from warpschool.clock.interpreter.layout import (
    BYTES,
    DST,
    FAR,
    FLAGS,
    GUARD,
    GUARD_NOT,
    IMM,
    L_BX,
    L_BY,
    L_CONST,
    L_RANK,
    NOT_MINE,
    OFFSET,
    OP,
    OP_ELECT,
    OP_LDC,
    OP_MATCH,
    OP_R2UR,
    OP_REDUX,
    OP_S2R,
    OP_SHFL,
    OP_VOTE,
    PD0,
    PS0,
    PS0_NOT,
)
from warpschool.clock.interpreter.registers import predicate, put, set_predicate, signed
from warpschool.clock.native import ctz, i32, i64, lshr, native, u8, u32


@native
def reduced(how: int, active: int, a: u32, d: u32) -> None:
    """REDUX: one value of all active lanes, for all."""
    total = a[ctz(active)]
    if how == 0:
        total = 0
    for lane in range(32):
        if lshr(active, lane) & 1:
            x = a[lane]
            if how == 0:
                total += x
            elif how == 1:
                total = min(total, x)
            elif how == 2:
                total = max(total, x)
            elif how == 3:
                total = total & x
            elif how == 4:
                total = total | x
            elif how == 5:
                total = total ^ x
            elif how == 6:
                total = min(signed(total), signed(x)) & 4294967295
            else:
                total = max(signed(total), signed(x)) & 4294967295
    for lane in range(32):
        d[lane] = total


@native
def shuffled(how: int, a: u32, b: u32, c: u32, d: u32) -> int:
    """SHFL: each lane takes another one's value; the lanes whose source is inside of the segment."""
    inside = 0
    for lane in range(32):
        clamp = c[lane] & 31
        segment = lshr(c[lane], 8) & 31
        most = (lane & segment) | (clamp & ~segment)
        least = lane & segment
        distance = b[lane] & 31
        if how == 0:
            source = least | (distance & ~segment)
        elif how == 1:
            source = lane - distance
        elif how == 2:
            source = lane + distance
        else:
            source = lane ^ distance
        valid = 0
        if how == 1:
            valid = 1 if source >= most else 0
        else:
            valid = 1 if source <= most else 0
        inside |= valid << lane
        d[lane] = a[source & 31] if valid else a[lane]
    return inside


@native
def warp_wide(
    f: i32,
    i: int,
    regs: u32,
    pool: u32,
    preds: u32,
    warp: int,
    lanes: int,
    active: int,
    a: u32,
    b: u32,
    c: u32,
    d: u32,
    e: u32,
    launch: i64,
    const: u8,
    block: i64,
) -> int:  # fmt: skip
    """What looks at other lanes.

    1 where `d` is the result, 0 where all is written, NOT_MINE for an instruction of another kind.
    """
    op = f[i + OP]
    how = f[i + FLAGS]
    writes = 1
    if op == OP_VOTE:
        given = predicate(preds, warp, f[i + PS0], f[i + PS0_NOT]) & active
        for lane in range(32):
            d[lane] = given
        said = 1 if given != 0 else 0
        if how == 1:
            said = 1 if given == active else 0
        if how == 2:
            said = 1 if given == active or given == 0 else 0
        set_predicate(preds, warp, f[i + PD0], lanes, 4294967295 if said else 0)
    elif op == OP_R2UR:
        asked = active & predicate(preds, warp, f[i + GUARD], f[i + GUARD_NOT])
        value = a[ctz(asked)]
        for lane in range(32):
            d[lane] = value
        if f[i + PD0] >= 0:  # who has another value, and comes again; with .OR, or had one before
            other = predicate(preds, warp, f[i + PD0], 0) if how else 0
            for lane in range(32):
                other |= (0 if a[lane] == value else 1) << lane
            set_predicate(preds, warp, f[i + PD0], asked, other)
    elif op == OP_REDUX:
        reduced(how, active, a, d)
    elif op == OP_SHFL:
        set_predicate(preds, warp, f[i + PD0], lanes, shuffled(how, a, b, c, d))
    elif op == OP_MATCH:
        for lane in range(32):
            same = 0
            for k in range(32):
                same |= (1 if a[k] == a[lane] else 0) << k
            d[lane] = same & active
    elif op == OP_ELECT:
        asked = active & predicate(preds, warp, f[i + GUARD], f[i + GUARD_NOT])
        set_predicate(preds, warp, f[i + PD0], 4294967295, 1 << ctz(asked))
        writes = 0
    else:
        return NOT_MINE
    return writes


@native
def places(
    f: i32,
    i: int,
    regs: u32,
    pool: u32,
    preds: u32,
    warp: int,
    lanes: int,
    active: int,
    a: u32,
    b: u32,
    c: u32,
    d: u32,
    e: u32,
    launch: i64,
    const: u8,
    block: i64,
) -> int:  # fmt: skip
    """Who a thread is, and constants at computed places.

    1 where `d` is the result, 0 where all is written, NOT_MINE for an instruction of another kind.
    """
    op = f[i + OP]
    imm = f[i + IMM]
    writes = 1
    if op == OP_S2R:
        for lane in range(32):
            t = warp * 32 + lane
            if imm == 0:
                d[lane] = t % launch[L_BX]
            elif imm == 1:
                d[lane] = (t // launch[L_BX]) % launch[L_BY]
            elif imm == 2:
                d[lane] = t // (launch[L_BX] * launch[L_BY])
            elif imm < 6:
                d[lane] = block[imm - 3]
            elif imm == 6:
                d[lane] = lane
            elif imm == 8:
                d[lane] = 1 << lane
            elif imm == 9:
                d[lane] = (1 << lane) - 1
            elif imm == 10:
                d[lane] = (2 << lane) - 1
            elif imm == 11:
                d[lane] = ~((2 << lane) - 1)
            elif imm == 12:
                d[lane] = ~((1 << lane) - 1)
            elif imm == 13:
                d[lane] = warp
            elif imm == 14:
                d[lane] = launch[L_RANK]
            elif imm == 15:
                d[lane] = FAR
            else:
                d[lane] = 0
    elif op == OP_LDC:
        size = f[i + BYTES]
        for word in range(max(size // 4, 1)):
            for lane in range(32):
                at = a[lane] + f[i + OFFSET] + 4 * word
                value = 0
                if at >= 0 and at + 4 <= launch[L_CONST]:
                    value = const[at] | (const[at + 1] << 8) | (const[at + 2] << 16) | (const[at + 3] << 24)
                if size == 1:
                    value = value & 255
                if size == 2:
                    value = value & 65535
                d[lane] = value
            put(regs, warp, f[i + DST] + word, lanes, d)
        writes = 0
    else:
        return NOT_MINE
    return writes
