"""Integer instructions: sums, products, shifts, and logic of three operands."""

from __future__ import annotations

from warpschool.clock.interpreter.layout import (
    A_HI,
    B_HI,
    C_HI,
    DST,
    FLAGS,
    IMM,
    NOT_MINE,
    OP,
    OP_ADD64,
    OP_ADDMNMX,
    OP_BMSK,
    OP_BREV,
    OP_COPY,
    OP_FLO,
    OP_HI,
    OP_IABS,
    OP_IADD3,
    OP_IMAD,
    OP_LEA,
    OP_LEA_HI,
    OP_LOP3,
    OP_MNMX,
    OP_MOV64,
    OP_POPC,
    OP_PRMT,
    OP_SEL,
    OP_SGXT,
    OP_SHF,
    OP_WIDE,
    PD0,
    PD1,
    PS0,
    PS0_NOT,
    PS1,
    PS1_NOT,
)
from warpschool.clock.interpreter.registers import fetch, predicate, put, set_predicate, signed
from warpschool.clock.native import clz, i32, i64, lshr, native, popc, u8, u32


@native
def holds(x: int, y: int, how: int) -> int:
    """A comparison: lt, eq, le, gt, ne, ge, in the order of their three bits less, equal, greater."""
    if x < y:
        return how & 1
    if x == y:
        return lshr(how, 1) & 1
    return lshr(how, 2) & 1


@native
def add3(f: i32, i: int, preds: u32, warp: int, lanes: int, a: u32, b: u32, c: u32, d: u32) -> None:
    """IADD3: operands may be negated or inverted, with carries in and out."""
    mods = f[i + FLAGS]
    carry0 = 0
    carry1 = 0
    in0 = predicate(preds, warp, f[i + PS0], f[i + PS0_NOT]) if mods & 8 else 0
    in1 = predicate(preds, warp, f[i + PS1], f[i + PS1_NOT]) if mods & 8 else 0
    for lane in range(32):
        total = (a[lane] ^ 4294967295) + 1 if mods & 1 else a[lane]
        total += (b[lane] ^ 4294967295) + 1 if mods & 2 else b[lane]
        total += (c[lane] ^ 4294967295) + 1 if mods & 4 else c[lane]
        total += (lshr(in0, lane) & 1) + (lshr(in1, lane) & 1)
        d[lane] = total
        carry0 |= (1 if total > 4294967295 else 0) << lane
        carry1 |= (1 if total > 8589934591 else 0) << lane
    set_predicate(preds, warp, f[i + PD0], lanes, carry0)
    set_predicate(preds, warp, f[i + PD1], lanes, carry1)


@native
def lea(f: i32, i: int, preds: u32, warp: int, lanes: int, a: u32, b: u32, c: u32, d: u32) -> None:
    """LEA and LEA.HI: a shifted value, or the upper half of one, plus another."""
    shift = f[i + IMM]
    how = f[i + FLAGS]
    carry = 0
    carries = predicate(preds, warp, f[i + PS0], f[i + PS0_NOT]) if how & 4 else 0
    for lane in range(32):
        low = a[lane]
        if how & 1:
            whole = signed(low) if how & 2 else (c[lane] << 32) | low
            part = lshr(whole << shift, 32) & 4294967295
        else:
            part = (low << shift) & 4294967295
        part = (0 - part) & 4294967295 if how & 8 else part
        total = part + b[lane] + (lshr(carries, lane) & 1)
        d[lane] = total
        carry |= (1 if total > 4294967295 else 0) << lane
    set_predicate(preds, warp, f[i + PD0], lanes, carry)


@native
def funnel(how: int, a: u32, b: u32, c: u32, d: u32) -> None:
    """SHF. Bits of `how`: 1 left, 2 the upper half, 4 signed, 8 wrap the distance, 16 of 64 bits."""
    for lane in range(32):
        distance = b[lane]
        most = 63 if how & 16 else 32
        distance = distance & 31 if how & 8 else (most if distance > most else distance)
        whole = (c[lane] << 32) | a[lane]
        if how & 1:
            moved = whole << distance
            d[lane] = lshr(moved, 32) if how & 2 else (a[lane] << distance if distance < 32 else 0)
        elif how & 2:
            top = signed(c[lane]) if how & 4 else c[lane]
            d[lane] = top >> distance
        else:
            d[lane] = whole >> distance if how & 4 else lshr(whole, distance)


@native
def logic(lut: int, a: u32, b: u32, c: u32, d: u32) -> None:
    """LOP3: any function of three bits."""
    for lane in range(32):
        x = a[lane]
        y = b[lane]
        z = c[lane]
        r = 0
        r |= x & y & z if lut & 128 else 0
        r |= x & y & ~z if lut & 64 else 0
        r |= x & ~y & z if lut & 32 else 0
        r |= x & ~y & ~z if lut & 16 else 0
        r |= ~x & y & z if lut & 8 else 0
        r |= ~x & y & ~z if lut & 4 else 0
        r |= ~x & ~y & z if lut & 2 else 0
        r |= ~x & ~y & ~z if lut & 1 else 0
        d[lane] = r


@native
def permuted(x: int, selector: int, y: int) -> int:
    """PRMT: four bytes out of eight."""
    both = (y << 32) | x
    r = 0
    for k in range(4):
        choice = lshr(selector, 4 * k) & 15
        byte = lshr(both, 8 * (choice & 7)) & 255
        if choice & 8:
            byte = 255 if byte > 127 else 0
        r |= byte << (8 * k)
    return r


@native
def wide_product(
    f: i32, i: int, regs: u32, pool: u32, warp: int, lanes: int, a: u32, b: u32, c: u32, d: u32, e: u32
) -> None:  # fmt: skip
    """IMAD.WIDE and IMAD.HI: a product and sum of 64 bits, or its upper half."""
    how = f[i + FLAGS]
    fetch(regs, pool, warp, f[i + C_HI], 0, e)
    for lane in range(32):
        x = signed(a[lane]) if how & 1 else a[lane]
        y = signed(b[lane]) if how & 1 else b[lane]
        total = x * y + ((e[lane] << 32) | c[lane])
        d[lane] = total
        e[lane] = lshr(total, 32)
    if f[i + OP] == OP_HI:
        put(regs, warp, f[i + DST], lanes, e)
        return
    put(regs, warp, f[i + DST], lanes, d)
    if f[i + DST] != 255 and f[i + DST] != 319:
        put(regs, warp, f[i + DST] + 1, lanes, e)


@native
def wide_sum(
    f: i32, i: int, regs: u32, pool: u32, warp: int, lanes: int, a: u32, b: u32, c: u32, d: u32, e: u32
) -> None:  # fmt: skip
    """IADD3.64: three pairs, each of which may be negated."""
    how = f[i + FLAGS]
    fetch(regs, pool, warp, f[i + A_HI], 0, d)
    fetch(regs, pool, warp, f[i + B_HI], 0, e)
    for lane in range(32):
        x = (d[lane] << 32) | a[lane]
        y = (e[lane] << 32) | b[lane]
        total = (0 - x if how & 1 else x) + (0 - y if how & 2 else y)
        a[lane] = total
        d[lane] = lshr(total, 32)
    fetch(regs, pool, warp, f[i + C_HI], 0, e)
    for lane in range(32):
        z = (e[lane] << 32) | c[lane]
        total = ((d[lane] << 32) | a[lane]) + (0 - z if how & 4 else z)
        d[lane] = total
        e[lane] = lshr(total, 32)
    put(regs, warp, f[i + DST], lanes, d)
    if f[i + DST] != 255 and f[i + DST] != 319:
        put(regs, warp, f[i + DST] + 1, lanes, e)


@native
def product_sum(f: i32, i: int, preds: u32, warp: int, a: u32, b: u32, c: u32, d: u32) -> None:
    """a * b + c, and one more where a carry comes in."""
    carries = 0
    if f[i + FLAGS] & 8:
        carries = predicate(preds, warp, f[i + PS0], f[i + PS0_NOT])
    for lane in range(32):
        d[lane] = a[lane] * b[lane] + c[lane] + (lshr(carries, lane) & 1)


@native
def integers(
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
    """Arithmetic of 32 and 64 bits, and moves.

    1 where `d` is the result, 0 where all is written, NOT_MINE for an instruction of another kind.
    """
    op = f[i + OP]
    how = f[i + FLAGS]
    imm = f[i + IMM]
    writes = 1
    if op == OP_IMAD:
        product_sum(f, i, preds, warp, a, b, c, d)
    elif op == OP_IADD3:
        add3(f, i, preds, warp, lanes, a, b, c, d)
    elif op == OP_WIDE or op == OP_HI:
        wide_product(f, i, regs, pool, warp, lanes, a, b, c, d, e)
        writes = 0
    elif op == OP_LEA or op == OP_LEA_HI:
        lea(f, i, preds, warp, lanes, a, b, c, d)
    elif op == OP_SHF:
        funnel(how, a, b, c, d)
    elif op == OP_LOP3:
        logic(imm, a, b, c, d)
        if f[i + PD0] >= 0:
            some = 0
            for lane in range(32):
                some |= (1 if d[lane] != 0 else 0) << lane
            set_predicate(preds, warp, f[i + PD0], lanes, some | predicate(preds, warp, f[i + PS0], f[i + PS0_NOT]))
    elif op == OP_SEL:
        chosen = predicate(preds, warp, f[i + PS0], f[i + PS0_NOT])
        for lane in range(32):
            d[lane] = a[lane] if lshr(chosen, lane) & 1 else b[lane]
    elif op == OP_COPY:
        for lane in range(32):
            d[lane] = a[lane]
    elif op == OP_ADD64:
        wide_sum(f, i, regs, pool, warp, lanes, a, b, c, d, e)
        writes = 0
    elif op == OP_MOV64:
        fetch(regs, pool, warp, f[i + A_HI], 0, e)
        put(regs, warp, f[i + DST], lanes, a)
        put(regs, warp, f[i + DST] + 1, lanes, e)
        writes = 0
    elif op == OP_IABS:
        for lane in range(32):
            value = a[lane]
            d[lane] = 4294967296 - value if value > 2147483647 else value
    elif op == OP_MNMX or op == OP_ADDMNMX:
        smaller = predicate(preds, warp, f[i + PS0], f[i + PS0_NOT])
        for lane in range(32):
            x = (a[lane] + b[lane]) & 4294967295 if op == OP_ADDMNMX else a[lane]
            y = c[lane] if op == OP_ADDMNMX else b[lane]
            x = signed(x) if how & 1 else x
            y = signed(y) if how & 1 else y
            r = min(x, y) if lshr(smaller, lane) & 1 else max(x, y)
            if how & 2:
                z = signed(c[lane]) if how & 1 else c[lane]
                r = min(r, z) if lshr(smaller, lane) & 1 else max(r, z)
            d[lane] = r
    else:
        return NOT_MINE
    return writes


@native
def bitwise(
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
    """Bytes and bits.

    1 where `d` is the result, 0 where all is written, NOT_MINE for an instruction of another kind.
    """
    op = f[i + OP]
    how = f[i + FLAGS]
    writes = 1
    if op == OP_PRMT:
        for lane in range(32):
            d[lane] = permuted(a[lane], b[lane], c[lane])
    elif op == OP_POPC:
        for lane in range(32):
            d[lane] = popc(a[lane])
    elif op == OP_FLO:
        for lane in range(32):
            x = a[lane]
            if how & 1 and x > 2147483647:
                x = x ^ 4294967295
            place = 63 - clz(x)
            d[lane] = 4294967295 if x == 0 else (31 - place if how & 2 else place)
    elif op == OP_BREV:
        for lane in range(32):
            x = a[lane]
            r = 0
            for k in range(32):
                r |= (lshr(x, k) & 1) << (31 - k)
            d[lane] = r
    elif op == OP_SGXT:
        for lane in range(32):
            n = b[lane] & 31
            x = a[lane] & ((1 << n) - 1)
            d[lane] = x - (1 << n) if how & 1 and n > 0 and lshr(x, n - 1) & 1 else x
    elif op == OP_BMSK:
        for lane in range(32):
            d[lane] = ((1 << min(b[lane], 32)) - 1) << (a[lane] & 31)
    else:
        return NOT_MINE
    return writes
