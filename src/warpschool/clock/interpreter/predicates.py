"""Instructions that write predicates."""

from __future__ import annotations

from warpschool.clock.interpreter.floats import float_holds
from warpschool.clock.interpreter.integers import holds
from warpschool.clock.interpreter.layout import (
    AS_FLOAT,
    FLAGS,
    IMM,
    NOT_MINE,
    OP,
    OP_FCHK,
    OP_FSETP,
    OP_ISETP,
    OP_P2R,
    OP_PLOP3,
    OP_R2P,
    PD0,
    PD1,
    PS0,
    PS0_NOT,
    PS1,
    PS1_NOT,
    TO_REGISTER,
)
from warpschool.clock.interpreter.registers import combine, combined, predicate, set_predicate, signed
from warpschool.clock.native import f32, i32, i64, lshr, native, u8, u32


@native
def hard_divisions(a: u32, b: u32) -> int:
    """The lanes whose quotient needs the slow way."""
    mask = 0
    for lane in range(32):
        x = lshr(a[lane], 23) & 255
        y = lshr(b[lane], 23) & 255
        odd = y == 0 or y == 255 or x == 255 or x - y > 125 or y - x > 125
        mask |= (1 if odd else 0) << lane
    return mask


@native
def as_numbers(d: u32, chosen: int, value: int) -> None:
    """A value for the lanes that were chosen, 0 for the others."""
    for lane in range(32):
        d[lane] = value if lshr(chosen, lane) & 1 else 0


@native
def predicates(
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
    """What sets predicates or packs them.

    1 where `d` is the result, 0 where all is written, NOT_MINE for an instruction of another kind.
    """
    op = f[i + OP]
    how = f[i + FLAGS]
    imm = f[i + IMM]
    writes = 1
    if op == OP_ISETP:
        mask = 0
        other = 0
        lower = predicate(preds, warp, f[i + PS1], f[i + PS1_NOT])
        for lane in range(32):
            x = signed(a[lane]) if how & 8 else a[lane]
            y = signed(b[lane]) if how & 8 else b[lane]
            r = holds(x, y, how & 7)
            if how & 16 and x == y:
                r = lshr(lower, lane) & 1
            mask |= r << lane
        other = predicate(preds, warp, f[i + PS0], f[i + PS0_NOT])
        set_predicate(preds, warp, f[i + PD0], lanes, combined(mask, other, imm))
        set_predicate(preds, warp, f[i + PD1], lanes, combined(mask ^ 4294967295, other, imm))
        writes = 0
    elif op == OP_FSETP:
        mask = 0
        for lane in range(32):
            mask |= float_holds(f32(a[lane]), f32(b[lane]), how & 15) << lane
        other = predicate(preds, warp, f[i + PS0], f[i + PS0_NOT])
        chosen = combined(mask, other, imm)
        if how & TO_REGISTER:
            as_numbers(d, chosen, 1065353216 if how & AS_FLOAT else 4294967295)
        else:
            set_predicate(preds, warp, f[i + PD0], lanes, chosen)
            set_predicate(preds, warp, f[i + PD1], lanes, combined(mask ^ 4294967295, other, imm))
            writes = 0
    elif op == OP_PLOP3:
        combine(f, i, preds, warp, lanes)
        writes = 0
    elif op == OP_P2R:
        for lane in range(32):
            r = 0
            for k in range(7):
                r |= (lshr(preds[warp * 16 + k], lane) & 1) << k
            d[lane] = (r & b[lane]) | (a[lane] & ~b[lane])
    elif op == OP_R2P:
        for k in range(7):
            r = 0
            chosen = 0
            for lane in range(32):
                r |= (lshr(a[lane], k) & 1) << lane
                chosen |= (lshr(b[lane], k) & 1) << lane
            set_predicate(preds, warp, k, lanes & chosen, r)
        writes = 0
    elif op == OP_FCHK:
        mask = hard_divisions(a, b)
        set_predicate(preds, warp, f[i + PD0], lanes, mask)
        writes = 0
    else:
        return NOT_MINE
    return writes
