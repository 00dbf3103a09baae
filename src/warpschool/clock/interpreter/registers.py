"""Registers and predicates of one warp: an operand's 32 values, and what is written in some lanes."""

from __future__ import annotations

from warpschool.clock.interpreter.layout import FLAGS, IMM, PD0, PD1, PS0, PS0_NOT, PS1, PS1_NOT, PS2, PS2_NOT
from warpschool.clock.native import i32, lshr, native, u32


@native
def fetch(regs: u32, pool: u32, warp: int, row: int, mod: int, out: u32) -> None:
    """The 32 values of a source operand."""
    if row < 320:
        base = warp * 10240 + row * 32
        for lane in range(32):
            out[lane] = regs[base + lane]
    else:
        base = (row - 320) * 32
        for lane in range(32):
            out[lane] = pool[base + lane]
    if mod != 0:
        if mod & 1:
            for lane in range(32):
                out[lane] = 0 - out[lane]
        if mod & 2:
            for lane in range(32):
                value = out[lane]
                out[lane] = 4294967296 - value if value > 2147483647 else value
        if mod & 4:
            for lane in range(32):
                out[lane] = out[lane] ^ 4294967295
        if mod & 16:
            for lane in range(32):
                out[lane] = out[lane] & 2147483647
        if mod & 8:
            for lane in range(32):
                out[lane] = out[lane] ^ 2147483648


@native
def put(regs: u32, warp: int, row: int, lanes: int, value: u32) -> None:
    """Write a register in some lanes; the zero registers stay."""
    if row == 255 or row == 319 or row < 0:
        return
    base = warp * 10240 + row * 32
    if lanes == 4294967295:
        for lane in range(32):
            regs[base + lane] = value[lane]
    else:
        for lane in range(32):
            if lshr(lanes, lane) & 1:
                regs[base + lane] = value[lane]


@native
def predicate(preds: u32, warp: int, index: int, inverted: int) -> int:
    """A predicate's lanes as a mask."""
    value = preds[warp * 16 + index]
    return value ^ 4294967295 if inverted else value


@native
def set_predicate(preds: u32, warp: int, index: int, lanes: int, mask: int) -> None:
    """Write a predicate in some lanes; the true ones stay."""
    if index >= 0 and index != 7 and index != 15:
        at = warp * 16 + index
        preds[at] = (preds[at] & (lanes ^ 4294967295)) | (mask & lanes)


@native
def combined(mask: int, other: int, how: int) -> int:
    """Two masks by and, or, exclusive or."""
    if how == 0:
        return mask & other
    if how == 1:
        return mask | other
    return mask ^ other


@native
def signed(value: int) -> int:
    """32 bits as a signed number."""
    return value - 4294967296 if value > 2147483647 else value


@native
def combine(f: i32, i: int, preds: u32, warp: int, lanes: int) -> None:
    """PLOP3: any function of three predicates, twice."""
    x = predicate(preds, warp, f[i + PS0], f[i + PS0_NOT])
    y = predicate(preds, warp, f[i + PS1], f[i + PS1_NOT])
    z = predicate(preds, warp, f[i + PS2], f[i + PS2_NOT])
    for which in range(2):
        lut = f[i + IMM] if which == 0 else f[i + FLAGS]
        r = 0
        for k in range(8):
            if lshr(lut, k) & 1:
                r |= (x if k & 4 else ~x) & (y if k & 2 else ~y) & (z if k & 1 else ~z)
        set_predicate(preds, warp, f[i + PD0] if which == 0 else f[i + PD1], lanes, r & 4294967295)
