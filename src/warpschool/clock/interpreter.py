"""Runs the part of a kernel's machine code that decides where its warps go and which addresses they touch.

One block at a time: each warp until it waits at a barrier, as an index into `code` and values of registers. What a warp
did is written as a stream of words (see `STREAM`). Instructions outside of that part only take their place in the
stream. `program.py` makes the code; this is the machine.
"""

from __future__ import annotations

from warpschool.clock.native import (
    bits,
    clz,
    cos,
    ctz,
    exp2,
    f32,
    floor,
    fma,
    i32,
    i64,
    log2,
    lshr,
    native,
    popc,
    rint,
    sin,
    sqrt,
    u8,
    u32,
)

FIELDS = 32
"""Words of one encoded instruction, in this order."""
OP, GUARD, GUARD_NOT, DST, DST_WIDTH = 0, 1, 2, 3, 4
A, A_HI, A_MOD, B, B_HI, B_MOD, C, C_HI, C_MOD = 5, 6, 7, 8, 9, 10, 11, 12, 13
PD0, PD1, PS0, PS0_NOT, PS1, PS1_NOT, PS2, PS2_NOT = 14, 15, 16, 17, 18, 19, 20, 21
IMM, FLAGS, TARGET, NEEDED, EVENT, BYTES, OFFSET, UNIFORM = 22, 23, 24, 25, 26, 27, 28, 29

(OP_NONE, OP_IMAD, OP_WIDE, OP_HI, OP_IADD3, OP_LEA, OP_LEA_HI, OP_SHF, OP_LOP3, OP_SEL, OP_IABS, OP_MNMX, OP_ISETP,
 OP_PRMT, OP_POPC, OP_FLO, OP_BREV, OP_SGXT, OP_BMSK, OP_PLOP3, OP_P2R, OP_R2P, OP_VOTE, OP_R2UR, OP_SHFL, OP_S2R,
 OP_LDC, OP_FADD, OP_FMUL, OP_FFMA, OP_FSETP, OP_FMNMX, OP_MUFU, OP_I2F, OP_F2I, OP_FCHK, OP_REDUX, OP_ELECT,
 OP_ADDMNMX,
 OP_LOAD, OP_STORE, OP_ATOM, OP_MATRIX, OP_SYNC, OP_BULK, OP_BRA, OP_EXIT, OP_BSSY, OP_BSYNC, OP_BREAK, OP_CALL,
 OP_RET, OP_WARPSYNC, OP_BAR, OP_DIV, OP_MATCH, OP_MOV64, OP_COPY, OP_FRND, OP_ADD64) = range(60)  # fmt: skip

EVENT_NONE, EVENT_GLOBAL, EVENT_SHARED, EVENT_LOCAL, EVENT_COPY, EVENT_BARRIER, EVENT_SYNC, EVENT_BULK = range(8)
"""What follows an instruction in the stream: nothing; lines; wavefronts; lines; both; a barrier's number; what is done
to mbarriers; an mbarrier with the bytes that it is told of, and lines."""
SYNC_INIT, SYNC_ARRIVE, SYNC_DROP, SYNC_WAIT, SYNC_COPIED = range(1, 6)
"""What SYNCS does to an mbarrier: to begin, to arrive (and leave for good), to wait, to arrive with copies."""
BY_TOKEN = 2
"""In place of a parity: the phase in which the warp arrived. Whoever arrives is given bit 30 as a token."""
BULK_LOAD, BULK_STORE, BULK_ACROSS = range(3)
"""Copies by the asynchronous engine: into shared memory, out of it, into another block's."""
MAP_WORDS, M_SIZES, M_STRIDES, M_BOX, M_LOWER, M_UPPER = 32, 5, 10, 15, 20, 23
"""A tensor map: its place among the parameters, address, bytes of an element, rank, whether it is an im2col map; then
the numbers of each dimension, innermost first. An im2col map's box is channels and places."""
FAR = 0x7FFF0000
"""Upper half of the addresses of other blocks' shared memory."""

ROWS, UNIFORM_ROW, ZERO_ROW, POOL_ROW = 320, 256, 255, 320
"""Registers of a warp: R0 to R254 and zero, then the uniform ones and zero; after them the pool of constants."""
PREDICATES = 16
NEG, INT_ABS, NOT, FNEG, FABS = 1, 2, 4, 8, 16

FRAGMENTS = 40
WARP_WORDS = 8 + 16 + 3 * FRAGMENTS
"""State of a warp: counts, the reconvergence registers, then pc, lanes and reason to wait of each part of the warp."""
PARTS, LIVE, CURRENT, CHUNK, AT, STATUS, BARRIER, FIRST_CHUNK, BREGS = 0, 1, 2, 3, 4, 5, 6, 7, 8
READY, AT_SYNC, AT_BARRIER = -1, 100, 200
RUNNING, WAITING, FINISHED = 0, 1, 2
OK, NO_ROOM, LOST, STUCK, OVER_BUDGET, UNKNOWN, NO_MAP = 0, 1, 2, 3, 4, 5, 6
"""How a block ended: done; more room is needed for the stream, call again; an instruction that nobody can follow; all
warps wait; too many instructions; a way or an address depends on a value that nobody here computed; a box whose map is
no parameter, or that is too large."""

NOT_MINE = 2
CHUNK_WORDS, MARGIN, BULK_MARGIN = 1024, 72, 600
"""STREAM: per warp a list of chunks, each with the next one's number in its last word. A word `start | count << 24 |
lanes << 48` says that `count` instructions from `start` on were issued for so many lanes. If the last one has an event,
a word `entries | wavefronts << 16 | lanes << 32` follows, then the entries: `line << 4 | sectors`, of 128 and 32
bytes."""
STATE_WORDS = 24
S_USED, S_ISSUED, S_NEXT, S_LOST, S_BUDGET, S_WARPS, S_THREADS, S_ROOM = range(8)
S_COUNT, S_WORDS, S_AGAIN, S_DOUBT = 8, 9, 10, 12
"""Of a block; from S_DOUBT on, for each kind of memory, whether something unknown was stored there."""
LAUNCH_WORDS = 16
L_NX, L_NY, L_NZ, L_BX, L_BY, L_BZ, L_ARRAYS, L_CODE, L_SHARED, L_CONST, L_LOCAL, L_TAINT, L_RANK, L_MAPS = range(14)


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
def holds(x: int, y: int, how: int) -> int:
    """A comparison: lt, eq, le, gt, ne, ge, in the order of their three bits less, equal, greater."""
    if x < y:
        return how & 1
    if x == y:
        return lshr(how, 1) & 1
    return lshr(how, 2) & 1


@native
def float_holds(x: float, y: float, how: int) -> int:
    """The same of floats; bit 3 says what holds of numbers that cannot be compared."""
    if x < y:
        return how & 1
    if x == y:
        return lshr(how, 1) & 1
    if x > y:
        return lshr(how, 2) & 1
    return lshr(how, 3) & 1


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
def special(which: int, x: float) -> float:
    """MUFU: 0 reciprocal, 1 of the square root, 2 exponential, 3 logarithm, 4 sine, 5 cosine, 6 square root."""
    if which == 0:
        return 1.0 / x
    if which == 1:
        return 1.0 / sqrt(x)
    if which == 2:
        return exp2(x)
    if which == 3:
        return log2(x)
    if which == 4:
        return sin(x)
    if which == 5:
        return cos(x)
    return sqrt(x)


@native
def rounded(x: float, how: int) -> float:
    """FRND: to a whole number; bits of `how` as of F2I."""
    if how & 2:
        return floor(x) if x > 0.0 else -floor(-x)
    if how & 4:
        return floor(x)
    if how & 8:
        return -floor(-x)
    return rint(x)


@native
def whole(x: float, how: int) -> int:
    """F2I: to an integer; bits of `how`: 1 unsigned, 2 to zero, 4 down, 8 up."""
    r = rounded(x, how)
    if how & 1:
        r = 0.0 if r < 0.0 else r
        return int(min(r, 4294967295.0))
    return int(max(min(r, 2147483647.0), -2147483648.0))


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
        set_predicate(preds, warp, f[i + PD0], lanes, combined(mask, other, imm))
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
        mask = 0
        for lane in range(32):
            x = lshr(a[lane], 23) & 255
            y = lshr(b[lane], 23) & 255
            odd = y == 0 or y == 255 or x == 255 or x - y > 125 or y - x > 125
            mask |= (1 if odd else 0) << lane
        set_predicate(preds, warp, f[i + PD0], lanes, mask)
        writes = 0
    else:
        return NOT_MINE
    return writes


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


@native
def limited(x: float, how: int) -> float:
    """What .SAT makes of a sum: between 0 and 1, and 0 of what is no number."""
    if how == 0:
        return x
    return min(x, 1.0) if x > 0.0 else 0.0


@native
def floats(
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
    """Numbers in binary32, and conversions.

    1 where `d` is the result, 0 where all is written, NOT_MINE for an instruction of another kind.
    """
    op = f[i + OP]
    how = f[i + FLAGS]
    writes = 1
    if op == OP_FADD:
        for lane in range(32):
            d[lane] = bits(limited(f32(a[lane]) + f32(b[lane]), how))
    elif op == OP_FMUL:
        for lane in range(32):
            d[lane] = bits(limited(f32(a[lane]) * f32(b[lane]), how))
    elif op == OP_FFMA:
        for lane in range(32):
            d[lane] = bits(limited(fma(f32(a[lane]), f32(b[lane]), f32(c[lane])), how))
    elif op == OP_FMNMX:
        smaller = predicate(preds, warp, f[i + PS0], f[i + PS0_NOT])
        for lane in range(32):
            u = f32(a[lane])
            v = f32(b[lane])
            less = u < v or v != v
            if lshr(smaller, lane) & 1:
                d[lane] = a[lane] if less else b[lane]
            else:
                d[lane] = a[lane] if u > v or v != v else b[lane]
    elif op == OP_MUFU:
        for lane in range(32):
            d[lane] = bits(special(how, f32(a[lane])))
    elif op == OP_I2F:
        for lane in range(32):
            x = a[lane] if how & 1 else signed(a[lane])
            r = bits(float(x))
            if how & 2 and f32(r) < float(x):
                r += 1 if r < 2147483648 else -1
            d[lane] = r
    elif op == OP_FRND:
        for lane in range(32):
            d[lane] = bits(rounded(f32(a[lane]), how))
    elif op == OP_F2I:
        for lane in range(32):
            d[lane] = whole(f32(a[lane]), how)
    else:
        return NOT_MINE
    return writes


@native
def compute(
    f: i32, i: int, regs: u32, pool: u32, preds: u32, warp: int, lanes: int, active: int,
    a: u32, b: u32, c: u32, d: u32, e: u32, launch: i64, const: u8, block: i64,
) -> int:  # fmt: skip
    """One instruction without an effect on memory or control, in the lanes `lanes` of the `active` ones."""
    if f[i + A] >= 0:
        fetch(regs, pool, warp, f[i + A], f[i + A_MOD], a)
    if f[i + B] >= 0:
        fetch(regs, pool, warp, f[i + B], f[i + B_MOD], b)
    if f[i + C] >= 0:
        fetch(regs, pool, warp, f[i + C], f[i + C_MOD], c)
    found = integers(f, i, regs, pool, preds, warp, lanes, active, a, b, c, d, e, launch, const, block)
    if found == NOT_MINE:
        found = predicates(f, i, regs, pool, preds, warp, lanes, active, a, b, c, d, e, launch, const, block)
    if found == NOT_MINE:
        found = warp_wide(f, i, regs, pool, preds, warp, lanes, active, a, b, c, d, e, launch, const, block)
    if found == NOT_MINE:
        found = places(f, i, regs, pool, preds, warp, lanes, active, a, b, c, d, e, launch, const, block)
    if found == NOT_MINE:
        found = bitwise(f, i, regs, pool, preds, warp, lanes, active, a, b, c, d, e, launch, const, block)
    if found == NOT_MINE:
        found = floats(f, i, regs, pool, preds, warp, lanes, active, a, b, c, d, e, launch, const, block)
    if found == NOT_MINE:
        return LOST
    if found:
        put(regs, warp, f[i + DST], lanes, d)
    return OK


@native
def crosses(op: int) -> int:
    """Whether a lane's result may come from other lanes."""
    return op == OP_SHFL or op == OP_VOTE or op == OP_R2UR or op == OP_REDUX or op == OP_MATCH


@native
def spread(f: i32, i: int, unknown: u32, warp: int, lanes: int) -> None:
    """Which lanes of a result are unknown: those whose sources are. A place has a mask of its unknown lanes."""
    base = warp * 336
    op = f[i + OP]
    mask = unknown[base + 320 + f[i + GUARD]]
    if op == OP_NONE:
        mask = 4294967295
    else:
        for k in range(3):
            for part in range(2):
                row = f[i + A + 3 * k + part]
                if row >= 0 and row < 320:
                    mask |= unknown[base + row]
        for k in range(3):
            mask |= unknown[base + 320 + f[i + PS0 + 2 * k]]
        if mask != 0 and crosses(op):
            mask = 4294967295
    if f[i + DST] >= 0 and f[i + DST] != 255 and f[i + DST] != 319:
        for word in range(max(f[i + DST_WIDTH], 1)):
            at = base + f[i + DST] + word
            unknown[at] = (unknown[at] & ~lanes) | (mask & lanes)
    for k in range(2):
        if f[i + PD0 + k] >= 0:
            at = base + 320 + f[i + PD0 + k]
            unknown[at] = (unknown[at] & ~lanes) | (mask & lanes)
    unknown[base + 327] = 0
    unknown[base + 335] = 0


@native
def in_doubt(f: i32, i: int, unknown: u32, warp: int, lanes: int) -> int:
    """Whether where these lanes go, or what they touch, depends on something unknown."""
    base = warp * 336
    op = f[i + OP]
    mask = unknown[base + 320 + f[i + GUARD]] | unknown[base + 320 + f[i + PS0]]
    if op <= OP_BULK or op == OP_RET:
        if f[i + A] < 320:
            mask |= unknown[base + f[i + A]]
        if f[i + A_HI] >= 0 and f[i + A_HI] < 320:
            mask |= unknown[base + f[i + A_HI]]
        if f[i + UNIFORM] >= 0:
            mask |= unknown[base + f[i + UNIFORM]]
    return 1 if mask & lanes != 0 else 0


@native
def read(memory: u8, at: int, size: int) -> int:
    """Up to 4 bytes, little-endian."""
    value = memory[at]
    if size > 1:
        value |= memory[at + 1] << 8
    if size > 2:
        value |= (memory[at + 2] << 16) | (memory[at + 3] << 24)
    return value


@native
def write(memory: u8, at: int, size: int, value: int) -> None:
    """The same the other way."""
    memory[at] = value
    if size > 1:
        memory[at + 1] = lshr(value, 8)
    if size > 2:
        memory[at + 2] = lshr(value, 16)
        memory[at + 3] = lshr(value, 24)


@native
def placed(arrays: i64, count: int, address: int, size: int) -> int:
    """Where an address lies in the copy of the arrays; -1 outside of all."""
    for k in range(count):
        offset = address - arrays[3 * k]
        if offset >= 0 and offset + size <= arrays[3 * k + 1]:
            return arrays[3 * k + 2] + offset
    return -1


@native
def updated(old: int, value: int, other: int, how: int) -> int:
    """What an atomic operation leaves in memory."""
    if how == 0:
        return old + value
    if how == 1:
        return min(old, value)
    if how == 2:
        return max(old, value)
    if how == 3:
        return old & value
    if how == 4:
        return old | value
    if how == 5:
        return old ^ value
    if how == 6:
        return value
    if how == 7:
        return other if old == value else old
    if how == 8:
        return min(signed(old), signed(value))
    if how == 9:
        return max(signed(old), signed(value))
    if how == 10:
        return bits(f32(old) + f32(value))
    if how == 11:
        return 0 if old >= value else old + 1
    return old


@native
def touch(
    f: i32, i: int, regs: u32, pool: u32, warp: int, lanes: int, addr: i64, a: u32, b: u32
) -> None:  # fmt: skip
    """The address of each lane."""
    fetch(regs, pool, warp, f[i + A], 0, a)
    scale = f[i + A_MOD]
    for lane in range(32):
        addr[lane] = a[lane] * scale + f[i + OFFSET]
    if f[i + A_HI] >= 0:
        fetch(regs, pool, warp, f[i + A_HI], 0, b)
        for lane in range(32):
            addr[lane] = addr[lane] + (b[lane] << 32)
    if f[i + UNIFORM] >= 0:
        fetch(regs, pool, warp, f[i + UNIFORM], 0, b)
        for lane in range(32):
            addr[lane] = addr[lane] + b[lane]
        if f[i + IMM] & 256:
            fetch(regs, pool, warp, f[i + UNIFORM] + 1, 0, b)
            for lane in range(32):
                addr[lane] = addr[lane] + (b[lane] << 32)
    if f[i + A_HI] < 0 and f[i + IMM] & 256 == 0:
        inside = 16777215 if f[i + EVENT] == EVENT_SHARED or f[i + EVENT] == EVENT_SYNC else 4294967295
        for lane in range(32):  # above 24 bits: which block of the cluster
            addr[lane] = addr[lane] & inside


@native
def lines_of(addr: i64, lanes: int, size: int, out: i64, at: int) -> int:
    """Write the 128-byte lines that lanes touch, with their sectors, at `out[at]`; how many there are."""
    found = 0
    last = -1
    for lane in range(32):
        if lshr(lanes, lane) & 1:
            line = addr[lane] >> 7
            first = lshr(addr[lane], 5) & 3
            end = lshr(addr[lane] + size - 1, 5) & 3
            mask = 1 << first
            if end > first:
                mask = (2 << end) - (1 << first)
            if last >= 0 and lshr(out[at + last], 4) == line:
                out[at + last] = out[at + last] | mask
            else:
                last = -1
                for k in range(found):
                    if lshr(out[at + k], 4) == line:
                        last = k
                        break
                if last < 0:
                    last = found
                    out[at + found] = line << 4
                    found += 1
                out[at + last] = out[at + last] | mask
    return found


@native
def wavefronts_of(addr: i64, lanes: int, size: int, words: i64, counts: i64) -> int:
    """How many times shared memory has to be read, each bank giving one word at a time.

    A warp's lanes are served together, those of 16 bytes in two halves: 32 lanes that read the same 16 bytes take two.
    """
    group = 16 if size == 16 else 32
    total = 0
    for start in range(0, 32, group):
        for k in range(32):
            counts[k] = 0
        most = 0
        for lane in range(start, start + group):
            if lshr(lanes, lane) & 1:
                first = addr[lane] >> 2
                for w in range(max(size // 4, 1)):
                    word = first + w
                    bank = word & 31
                    known = 0
                    for k in range(counts[bank]):
                        if words[bank * 32 + k] == word:
                            known = 1
                            break
                    if known == 0 and counts[bank] < 32:
                        words[bank * 32 + counts[bank]] = word
                        counts[bank] = counts[bank] + 1
                        most = max(most, counts[bank])
        total += most
    return total


@native
def same_places(addr: i64, lanes: int) -> int:
    """How many lanes, at most, have one address."""
    most = 0
    for lane in range(32):
        if lshr(lanes, lane) & 1:
            same = 0
            for k in range(32):
                if lshr(lanes, k) & 1 and addr[k] == addr[lane]:
                    same += 1
            most = max(most, same)
    return most


@native
def copied_in(
    f: i32, i: int, regs: u32, pool: u32, preds: u32, warp: int, lanes: int, launch: i64, arrays: i64, memory: u8,
    shared: u8, addr: i64, b: u32,
) -> None:  # fmt: skip
    """LDGSTS: from global to shared memory, or zeros where a predicate says so."""
    size = f[i + BYTES]
    asked = predicate(preds, warp, f[i + PS0], f[i + PS0_NOT])
    fetch(regs, pool, warp, f[i + B], 0, b)
    for lane in range(32):
        if lshr(lanes, lane) & 1:
            for k in range(size):
                at = placed(arrays, launch[L_ARRAYS], addr[lane] + k, 1)
                where = b[lane] + f[i + C_MOD] + k
                if where >= 0 and where < launch[L_SHARED]:
                    shared[where] = 0
                    if at >= 0 and lshr(asked, lane) & 1:
                        shared[where] = memory[at]


@native
def matrix_rows(f: i32, i: int, regs: u32, warp: int, lanes: int, launch: i64, shared: u8, addr: i64, d: u32) -> None:
    """LDSM: each lane gets a word of the rows that eight lanes name, of each matrix."""
    how = f[i + FLAGS]
    for part in range(how):
        for lane in range(32):
            where = addr[part * 8 + lane // 4] + 4 * (lane & 3)
            if where >= 0 and where + 4 <= launch[L_SHARED]:
                d[lane] = read(shared, where, 4)
        put(regs, warp, f[i + DST] + part, lanes, d)


@native
def access(
    f: i32, i: int, regs: u32, pool: u32, preds: u32, warp: int, lanes: int, launch: i64, arrays: i64,
    memory: u8, shared: u8, local: u8, addr: i64, a: u32, b: u32, c: u32, d: u32,
) -> None:  # fmt: skip
    """What a load, store or atomic operation does to registers and memory, where somebody needs to know."""
    op = f[i + OP]
    event = f[i + EVENT]
    size = f[i + BYTES]
    how = f[i + FLAGS]
    piece = min(size, 4)
    if event == EVENT_COPY:
        copied_in(f, i, regs, pool, preds, warp, lanes, launch, arrays, memory, shared, addr, b)
        return
    if op == OP_MATRIX:
        matrix_rows(f, i, regs, warp, lanes, launch, shared, addr, d)
        return
    for word in range(max(size // 4, 1)):
        if op != OP_LOAD:
            row = f[i + B]
            fetch(regs, pool, warp, row if row == 255 else row + word, 0, b)
            if f[i + C] >= 0:
                fetch(regs, pool, warp, f[i + C], 0, c)
        for lane in range(32):
            if lshr(lanes, lane) & 1:
                where = addr[lane] + 4 * word
                old = 0
                if event == EVENT_SHARED:
                    if where >= 0 and where + piece <= launch[L_SHARED]:
                        old = read(shared, where, piece)
                        if op == OP_STORE:
                            write(shared, where, piece, b[lane])
                        elif op == OP_ATOM:
                            write(shared, where, piece, updated(old, b[lane], c[lane], how))
                elif event == EVENT_LOCAL:
                    where += (warp * 32 + lane) * launch[L_LOCAL]
                    if where >= 0 and where + piece <= launch[L_LOCAL] * launch[L_BX] * launch[L_BY] * launch[L_BZ]:
                        old = read(local, where, piece)
                        if op == OP_STORE:
                            write(local, where, piece, b[lane])
                else:
                    at = placed(arrays, launch[L_ARRAYS], where, piece)
                    if at >= 0:
                        old = read(memory, at, piece)
                        if op == OP_STORE:
                            write(memory, at, piece, b[lane])
                        elif op == OP_ATOM:
                            write(memory, at, piece, updated(old, b[lane], c[lane], how))
                if op == OP_LOAD and how & 1:
                    if size == 1 and old > 127:
                        old -= 256
                    if size == 2 and old > 32767:
                        old -= 65536
                d[lane] = old
        if op != OP_STORE and f[i + DST] >= 0 and f[i + DST] != 255:
            put(regs, warp, f[i + DST] + word, lanes, d)


@native
def through_memory(f: i32, i: int, unknown: u32, warp: int, lanes: int, state: i64) -> None:
    """Unknown values on their way through memory: once one is stored, all that is loaded from that space is unknown."""
    base = warp * 336
    op = f[i + OP]
    space = S_DOUBT + f[i + EVENT]
    if op != OP_LOAD and f[i + B] >= 0 and f[i + B] < 320 and op != OP_MATRIX:
        mask = 0
        for word in range(max(f[i + BYTES] // 4, 1)):
            mask |= unknown[base + f[i + B] + word]
        if mask & lanes != 0 and f[i + EVENT] != EVENT_COPY:
            state[space] = 1
    if f[i + DST] >= 0 and f[i + DST] != 255:
        doubt = state[space]
        for word in range(max(f[i + DST_WIDTH], 1)):
            at = base + f[i + DST] + word
            unknown[at] = (unknown[at] & ~lanes) | (lanes if doubt else 0)


@native
def event_of(
    f: i32, i: int, warp: int, lanes: int, launch: i64, addr: i64, stream: i64, at: int,
    words: i64, counts: i64, regs: u32, pool: u32, a: u32, asked: int,
) -> int:  # fmt: skip
    """Write an access into the stream; how many words that took. Only the lanes `asked` read what they copy."""
    event = f[i + EVENT]
    size = f[i + BYTES]
    waves = 0
    found = 0
    if event == EVENT_SHARED:
        if f[i + OP] == OP_MATRIX:
            for part in range(f[i + FLAGS]):
                some = lanes & (255 << (8 * part))
                waves += wavefronts_of(addr, some, 16, words, counts)
        else:
            waves = wavefronts_of(addr, lanes, size, words, counts)
            if f[i + OP] == OP_ATOM:
                waves = max(waves, same_places(addr, lanes))
    elif event == EVENT_LOCAL:
        for lane in range(32):
            addr[lane] = (1 << 50) + (block_slot(launch, warp) + (addr[lane] >> 2)) * 128 + lane * 4
        found = lines_of(addr, lanes, min(size, 4), stream, at + 1)
        waves = max(size // 4, 1)
    else:
        found = lines_of(addr, lanes & asked, size, stream, at + 1)
        if f[i + OP] == OP_ATOM:
            waves = same_places(addr, lanes)
        elif event == EVENT_COPY:
            fetch(regs, pool, warp, f[i + B], 0, a)
            for lane in range(32):
                addr[lane] = a[lane] + f[i + C_MOD]
            waves = wavefronts_of(addr, lanes, size, words, counts)
    stream[at] = found | (waves << 16) | (popc(lanes) << 32)
    return found + 1


@native
def block_slot(launch: i64, warp: int) -> int:
    """Where a warp's local memory begins, in words of one lane."""
    return warp * (launch[L_LOCAL] // 4 + 1)


@native
def merged(warps: i64, w: int, reason: int, members: int) -> int:
    """Join the parts of a warp that wait for `reason`, if they are all of `members`; whether they were."""
    arrived = 0
    for k in range(warps[w + PARTS]):
        if warps[w + 24 + 80 + k] == reason:
            arrived |= warps[w + 24 + 40 + k]
    if members & ~arrived != 0:
        return 0
    kept = -1
    k = 0
    while k < warps[w + PARTS]:
        if warps[w + 24 + 80 + k] == reason:
            if kept < 0:
                kept = k
                warps[w + 24 + 40 + k] = arrived
                warps[w + 24 + 80 + k] = READY
            else:
                drop(warps, w, k)
                k -= 1
        k += 1
    return 1


@native
def drop(warps: i64, w: int, k: int) -> None:
    """Remove one part of a warp."""
    last = warps[w + PARTS] - 1
    warps[w + 24 + k] = warps[w + 24 + last]
    warps[w + 24 + 40 + k] = warps[w + 24 + 40 + last]
    warps[w + 24 + 80 + k] = warps[w + 24 + 80 + last]
    warps[w + PARTS] = last


@native
def awakened(warps: i64, w: int) -> None:
    """After lanes have gone: parts that waited for nobody else go on."""
    live = warps[w + LIVE]
    for number in range(16):
        waiting = 0
        for k in range(warps[w + PARTS]):
            if warps[w + 24 + 80 + k] == number:
                waiting = 1
        if waiting:
            merged(warps, w, number, warps[w + BREGS + number] & live)
    waiting = 0
    for k in range(warps[w + PARTS]):
        if warps[w + 24 + 80 + k] == AT_SYNC:
            waiting = 1
    if waiting:
        merged(warps, w, AT_SYNC, live)


@native
def chosen(warps: i64, w: int) -> int:
    """A part of the warp that can go on; -1 where there is none."""
    for k in range(warps[w + PARTS]):
        if warps[w + 24 + 80 + k] == READY:
            return k
    return -1


@native
def branch(
    f: i32, i: int, regs: u32, pool: u32, preds: u32, warps: i64, w: int, warp: int, part: int, lanes: int, active: int,
    a: u32,
) -> None:  # fmt: skip
    """Send the lanes that take a branch where it leads, apart from the others if there are such."""
    op = f[i + OP]
    at = w + 24 + part
    taken = lanes & predicate(preds, warp, f[i + PS0], f[i + PS0_NOT])
    if op == OP_DIV:
        fetch(regs, pool, warp, f[i + A], f[i + A_MOD], a)
        parted = 1 if a[0] & warps[w + LIVE] & ~active != 0 else 0
        taken = lanes if parted != f[i + FLAGS] else 0
    if f[i + IMM] == 1:
        taken = active if taken != 0 else 0
    if taken == active:
        warps[at] = f[i + TARGET]
        return
    if taken != 0:
        other = w + 24 + warps[w + PARTS]
        warps[other] = f[i + TARGET]
        warps[other + 40] = taken
        warps[other + 80] = READY
        warps[w + PARTS] = warps[w + PARTS] + 1
        warps[at + 40] = active & ~taken
    return


@native
def control(
    f: i32, i: int, pc: int, regs: u32, pool: u32, preds: u32, warps: i64, w: int, warp: int, part: int,
    lanes: int, active: int, launch: i64, a: u32,
) -> int:  # fmt: skip
    """A branch, exit or reconvergence of one part of a warp; 1 where another part may have to go on."""
    op = f[i + OP]
    at = w + 24 + part
    warps[at] = pc + 1
    if op == OP_BRA or op == OP_DIV:
        branch(f, i, regs, pool, preds, warps, w, warp, part, lanes, active, a)
        return 0
    if op == OP_EXIT:
        warps[w + LIVE] = warps[w + LIVE] & ~lanes
        left = active & ~lanes
        if left == 0:
            drop(warps, w, part)
        else:
            warps[at + 40] = left
        if lanes != 0:
            awakened(warps, w)
        return 1
    if op == OP_BSSY:
        warps[w + BREGS + f[i + IMM]] = active
    elif op == OP_BREAK:
        for k in range(16):
            if k == f[i + IMM]:
                warps[w + BREGS + k] = warps[w + BREGS + k] & ~lanes
    elif op == OP_BSYNC:
        members = warps[w + BREGS + f[i + IMM]] & warps[w + LIVE]
        if members & ~active != 0:
            warps[at + 80] = f[i + IMM]
            merged(warps, w, f[i + IMM], members)
            return 1
    elif op == OP_WARPSYNC:
        if warps[w + LIVE] & ~active != 0:
            warps[at + 80] = AT_SYNC
            merged(warps, w, AT_SYNC, warps[w + LIVE])
            return 1
    elif op == OP_CALL:
        warps[at] = f[i + TARGET]
    elif op == OP_RET:
        fetch(regs, pool, warp, f[i + A], 0, a)
        first = ctz(active)
        goal = a[first] // 16
        away = 0
        for lane in range(32):
            if lshr(active, lane) & 1 and a[lane] // 16 != goal:
                away |= 1 << lane
        warps[at] = goal
        if away != 0:  # they come to this very instruction again, by themselves
            other = w + 24 + warps[w + PARTS]
            warps[other] = pc
            warps[other + 40] = away
            warps[other + 80] = READY
            warps[w + PARTS] = warps[w + PARTS] + 1
            warps[at + 40] = active & ~away
    return 0


@native
def has_room(warps: i64, w: int, stream: i64, state: i64, margin: int) -> int:
    """Make sure that a warp's chunk has room for one more entry; 0 where there are no chunks left."""
    if warps[w + AT] <= CHUNK_WORDS - margin:
        return 1
    if state[S_USED] >= state[S_ROOM]:
        return 0
    stream[warps[w + CHUNK] * CHUNK_WORDS + CHUNK_WORDS - 1] = state[S_USED]
    stream[warps[w + CHUNK] * CHUNK_WORDS + warps[w + AT]] = -1
    warps[w + CHUNK] = state[S_USED]
    warps[w + AT] = 0
    state[S_USED] = state[S_USED] + 1
    return 1


@native
def arrive(
    f: i32, i: int, regs: u32, pool: u32, warps: i64, w: int, warp: int, part: int, lanes: int, stream: i64, at: int,
    a: u32,
) -> int:  # fmt: skip
    """BAR: say so in the stream, and let this part of the warp wait; 0 where no lane is concerned."""
    if lanes == 0:
        stream[at] = 1 << 40
        return 0
    number = f[i + IMM]
    if f[i + A] >= 0:
        fetch(regs, pool, warp, f[i + A], 0, a)
        number = a[ctz(lanes)] & 15
    threads = f[i + BYTES]
    if f[i + B] >= 0:
        fetch(regs, pool, warp, f[i + B], 0, a)
        threads = a[ctz(lanes)] & 4095
    stream[at] = (number << 16) | (f[i + FLAGS] << 32) | (threads << 44)
    warps[w + BARRIER] = number | (threads << 8)
    if f[i + FLAGS] == 0:
        warps[w + 24 + 80 + part] = AT_BARRIER
    else:
        warps[w + BARRIER] = warps[w + BARRIER] | (1 << 40)
    return 1


@native
def synchronised(
    f: i32, i: int, regs: u32, pool: u32, preds: u32, warp: int, lanes: int, addr: i64, stream: i64, at: int, a: u32,
) -> int:  # fmt: skip
    """SYNCS: write which mbarriers are meant, `offset | arrivals << 20 | bytes << 40`; how many words that took. Who
    waits goes on: the ways of others do not depend on when."""
    how = f[i + FLAGS]
    arriving = f[i + BYTES] & 3
    moving = lshr(f[i + BYTES], 2) & 3
    found = 0
    fetch(regs, pool, warp, f[i + B], 0, a)
    for lane in range(32):
        if lshr(lanes, lane) & 1:
            value = a[lane]
            arrivals = 1 if arriving == 1 else (value if arriving == 2 else 0)
            moved = 1 if moving == 1 else (value if moving >= 2 else 0)
            if how == SYNC_INIT:
                arrivals = 1048576 - (lshr(value, 1) & 1048575)
            elif how == SYNC_WAIT:
                arrivals = BY_TOKEN if value & (1 << 30) else lshr(value, 31)
            offset = addr[lane] & 1048575
            if found > 0 and stream[at + found] & 1048575 == offset:
                if how == SYNC_ARRIVE or how == SYNC_DROP or how == SYNC_COPIED:
                    stream[at + found] = stream[at + found] + ((arrivals << 20) | (moved << 40))
            else:
                found += 1
                stream[at + found] = offset | (arrivals << 20) | (moved << 40)
    set_predicate(preds, warp, f[i + PD0], lanes, 4294967295)
    if f[i + DST] >= 0:
        for lane in range(32):
            a[lane] = 1 << 30
        put(regs, warp, f[i + DST], lanes, a)
        put(regs, warp, f[i + DST] + 1, lanes, a)
    stream[at] = found | (how << 16) | ((1 if moving == 3 else 0) << 24) | (popc(lanes) << 32)
    return found + 1


@native
def scalar(regs: u32, warp: int, row: int) -> int:
    """A uniform register."""
    return regs[warp * 10240 + row * 32]


@native
def span_lines(start: int, end: int, stream: i64, at: int, found: int) -> int:
    """Add the lines of some bytes to those at `stream[at]`, of which there are `found` already."""
    begin = start
    while begin < end and found < BULK_MARGIN - 10:
        line = begin >> 7
        stop = min(end, (line + 1) << 7)
        mask = (2 << (lshr(stop - 1, 5) & 3)) - (1 << (lshr(begin, 5) & 3))
        if found > 0 and lshr(stream[at + found - 1], 4) == line:
            stream[at + found - 1] = stream[at + found - 1] | mask
        else:
            stream[at + found] = (line << 4) | mask
            found += 1
        begin = stop
    return found


@native
def box_lines(maps: i64, m: int, place: i64, stream: i64, at: int) -> int:
    """The lines of a box whose corner is `place`; what is outside of the array is not read."""
    rank = maps[m + 3]
    rows = 1
    for k in range(1, rank):
        rows = rows * maps[m + M_BOX + k]
    left = max(place[0], 0)
    right = min(place[0] + maps[m + M_BOX], maps[m + M_SIZES])
    found = 0
    for row in range(rows):
        rest = row
        address = maps[m + 1]
        inside = 1 if left < right else 0
        for k in range(1, rank):
            x = place[k] + rest % maps[m + M_BOX + k]
            rest = rest // maps[m + M_BOX + k]
            if x < 0 or x >= maps[m + M_SIZES + k]:
                inside = 0
            address += x * maps[m + M_STRIDES + k]
        if inside:
            found = span_lines(address + left * maps[m + 2], address + right * maps[m + 2], stream, at, found)
    return found


@native
def window_lines(maps: i64, m: int, place: i64, shift: int, stream: i64, at: int) -> int:
    """The lines of an im2col box: `places` windows on from `place`, each moved by `shift`, so many channels of each."""
    rank = maps[m + 3]
    left = max(place[0], 0)
    right = min(place[0] + maps[m + M_BOX], maps[m + M_SIZES])
    bits = 8 if rank == 4 else (16 if rank == 3 else 5)
    found = 0
    for _ in range(maps[m + M_BOX + 1]):
        address = maps[m + 1] + place[rank - 1] * maps[m + M_STRIDES + rank - 1]
        inside = 1 if left < right and place[rank - 1] < maps[m + M_SIZES + rank - 1] else 0
        for k in range(1, rank - 1):
            x = place[k] + (lshr(shift, bits * (k - 1)) & ((1 << bits) - 1))
            if x < 0 or x >= maps[m + M_SIZES + k]:
                inside = 0
            address += x * maps[m + M_STRIDES + k]
        if inside:
            found = span_lines(address + left * maps[m + 2], address + right * maps[m + 2], stream, at, found)
        k = 1
        place[1] = place[1] + 1
        while k < rank - 1:
            if place[k] < maps[m + M_SIZES + k] + maps[m + M_UPPER + k - 1]:
                break
            place[k] = maps[m + M_LOWER + k - 1]
            k += 1
            place[k] = place[k] + 1
    return found


@native
def bulk(
    f: i32, i: int, regs: u32, warp: int, lanes: int, launch: i64, maps: i64, stream: i64, at: int, place: i64
) -> int:
    """UTMALDG and its like: write what is copied, in words; -1 where that is not known."""
    if lanes == 0:
        stream[at] = 0
        return 1
    way = f[i + FLAGS]
    first = f[i + A]
    third = scalar(regs, warp, f[i + C]) if f[i + C] >= 0 else 0
    barrier = scalar(regs, warp, first + 1) & 1048575 if way != BULK_STORE else 0
    copies = max(1, popc(lshr(third, 16) & 65535)) if way != BULK_STORE else 1
    found = 0
    amount = (third & 65535) * 16
    if f[i + IMM] == 0:
        base = first if way == BULK_STORE else f[i + B]
        start = scalar(regs, warp, base) | (scalar(regs, warp, base + 1) << 32)
        if way != BULK_ACROSS:
            found = span_lines(start, start + amount, stream, at + 2, 0)
    else:
        key = scalar(regs, warp, f[i + B])
        m = -1
        for k in range(launch[L_MAPS]):
            if maps[k * MAP_WORDS] == key:
                m = k * MAP_WORDS
        if m < 0:
            return -1
        amount = maps[m + 2]
        for k in range(f[i + IMM]):
            x = scalar(regs, warp, first + k + (1 if way == BULK_STORE else 2))
            place[k] = signed(x)
        for k in range(2 if maps[m + 4] else maps[m + 3]):
            amount = amount * maps[m + M_BOX + k]
        if maps[m + 4]:
            found = window_lines(maps, m, place, third & 65535, stream, at + 2)
        else:
            found = box_lines(maps, m, place, stream, at + 2)
    if found >= BULK_MARGIN - 10:
        return -1
    stream[at] = (found + 1) | (way << 16) | (1 << 32)
    stream[at + 1] = barrier | (amount << 20) | (copies << 44)
    return found + 2


@native
def in_doubt_or_spread(
    f: i32, i: int, unknown: u32, warp: int, lanes: int, active: int, launch: i64
) -> int:  # fmt: skip
    """Carry the marks of unknown values along; 1 where the way itself is unknown."""
    op = f[i + OP]
    if launch[L_TAINT] == 0:
        return 0
    if op >= OP_LOAD and op <= OP_DIV:
        return in_doubt(f, i, unknown, warp, active if op > OP_MATRIX else lanes)
    spread(f, i, unknown, warp, active)
    return 0


@native
def run_straight(
    f: i32, regs: u32, pool: u32, preds: u32, warps: i64, warp: int, part: int, stream: i64, at: int, state: i64,
    launch: i64, arrays: i64, memory: u8, shared: u8, local: u8, const: u8, block: i64, addr: i64, words: i64,
    counts: i64, a: u32, b: u32, c: u32, d: u32, e: u32, unknown: u32, maps: i64,
) -> int:  # fmt: skip
    """Run one part of a warp up to where its way turns or an event is written, at `stream[at + 1]`.

    `state` holds how many instructions that were, how many words the event took, and whether another part may go on.
    """
    w = warp * WARP_WORDS
    pc = warps[w + 24 + part]
    active = warps[w + 24 + 40 + part]
    state[S_COUNT] = 0
    state[S_WORDS] = 0
    state[S_AGAIN] = 0
    while state[S_COUNT] < 65536:
        state[S_LOST] = pc
        if pc < 0 or pc >= launch[L_CODE]:
            return LOST
        i = pc * FIELDS
        op = f[i + OP]
        if op == OP_BULK and state[S_COUNT] > 0:
            break  # it takes more room than others
        state[S_COUNT] = state[S_COUNT] + 1
        pc += 1
        if f[i + NEEDED] == 0 and (op < OP_LOAD or op > OP_DIV):
            continue
        lanes = active & predicate(preds, warp, f[i + GUARD], f[i + GUARD_NOT])
        if in_doubt_or_spread(f, i, unknown, warp, lanes, active, launch):
            return UNKNOWN
        if op < OP_LOAD or op > OP_DIV:
            if lanes != 0 and op != OP_NONE:
                full = 4294967295 if f[i + DST] >= 256 else lanes
                if compute(f, i, regs, pool, preds, warp, full, active, a, b, c, d, e, launch, const, block) != OK:
                    return LOST
            continue
        warps[w + 24 + part] = pc
        if op <= OP_MATRIX:
            touch(f, i, regs, pool, warp, lanes, addr, a, b)
            if launch[L_TAINT] and lanes != 0:
                through_memory(f, i, unknown, warp, lanes, state)
            if f[i + NEEDED] and lanes != 0:
                access(f, i, regs, pool, preds, warp, lanes, launch, arrays, memory, shared, local, addr, a, b, c, d)
            asked = predicate(preds, warp, f[i + PS0], f[i + PS0_NOT])
            state[S_WORDS] = event_of(
                f, i, warp, lanes, launch, addr, stream, at + 1, words, counts, regs, pool, a, asked
            )  # fmt: skip
            return OK
        if op == OP_SYNC:
            touch(f, i, regs, pool, warp, lanes, addr, a, b)
            if f[i + FLAGS] == SYNC_WAIT:
                state[S_DOUBT + EVENT_SHARED] = 1  # what others have stored by then is not followed
            state[S_WORDS] = synchronised(f, i, regs, pool, preds, warp, lanes, addr, stream, at + 1, a)
            return OK
        if op == OP_BULK:
            if f[i + FLAGS] != BULK_STORE:
                state[S_DOUBT + EVENT_SHARED] = 1
            state[S_WORDS] = bulk(f, i, regs, warp, lanes, launch, maps, stream, at + 1, counts)
            return OK if state[S_WORDS] > 0 else NO_MAP
        if op == OP_BAR:
            state[S_WORDS] = 1
            state[S_AGAIN] = arrive(f, i, regs, pool, warps, w, warp, part, lanes, stream, at + 1, a)
            return OK
        parts = warps[w + PARTS]
        state[S_AGAIN] = control(f, i, pc - 1, regs, pool, preds, warps, w, warp, part, lanes, active, launch, a)
        if state[S_AGAIN] or warps[w + PARTS] != parts or warps[w + 24 + part] != pc:
            return OK
    warps[w + 24 + part] = pc
    return OK


@native
def run_warp(
    f: i32, regs: u32, pool: u32, preds: u32, warps: i64, warp: int, stream: i64, state: i64, launch: i64, arrays: i64,
    memory: u8, shared: u8, local: u8, const: u8, block: i64, addr: i64, words: i64, counts: i64, a: u32, b: u32,
    c: u32, d: u32, e: u32, unknown: u32, maps: i64, slice: int,
) -> int:  # fmt: skip
    """Run one warp for a while: until it ends, comes to a barrier, or has issued `slice` instructions."""
    w = warp * WARP_WORDS
    stop = state[S_ISSUED] + slice
    part = chosen(warps, w)
    while part >= 0:
        if state[S_ISSUED] >= stop:
            return OK
        if warps[w + PARTS] > FRAGMENTS - 2:
            return LOST
        margin = MARGIN
        if warps[w + 24 + part] >= 0 and warps[w + 24 + part] < launch[L_CODE]:
            if f[warps[w + 24 + part] * FIELDS + OP] == OP_BULK:
                margin = BULK_MARGIN
        if has_room(warps, w, stream, state, margin) == 0:
            return NO_ROOM
        at = warps[w + CHUNK] * CHUNK_WORDS + warps[w + AT]
        start = warps[w + 24 + part]
        active = warps[w + 24 + 40 + part]
        found = run_straight(
            f, regs, pool, preds, warps, warp, part, stream, at, state, launch, arrays, memory, shared, local, const,
            block, addr, words, counts, a, b, c, d, e, unknown, maps,
        )  # fmt: skip
        if found != OK:
            return found
        stream[at] = start | (state[S_COUNT] << 24) | (popc(active) << 48)
        warps[w + AT] = warps[w + AT] + 1 + state[S_WORDS]
        state[S_ISSUED] = state[S_ISSUED] + state[S_COUNT]
        if state[S_AGAIN]:
            if warps[w + BARRIER] >= 1 << 40:
                return OK
            part = chosen(warps, w)
            if part < 0 and warps[w + PARTS] > 0:
                for k in range(warps[w + PARTS]):
                    if warps[w + 24 + 80 + k] != AT_BARRIER:
                        return STUCK
                warps[w + STATUS] = WAITING
                return OK
    warps[w + STATUS] = FINISHED
    stream[warps[w + CHUNK] * CHUNK_WORDS + warps[w + AT]] = -2
    return OK


@native
def arrived(warps: i64, warp: int, barriers: i64, state: i64, release: int) -> int:
    """Count a warp at its barrier; let all go on that wait there once enough have come. 1 if it did."""
    w = warp * WARP_WORDS
    number = warps[w + BARRIER] & 255
    threads = lshr(warps[w + BARRIER], 8) & 65535
    if release == 0:
        barriers[number] = barriers[number] + 32
        barriers[20 + number] = threads
    wanted = barriers[20 + number]
    if wanted == 0:
        wanted = state[S_WARPS] * 32
    if barriers[number] < wanted or barriers[number] == 0:
        return 0
    barriers[number] = 0
    for other in range(state[S_THREADS]):
        o = other * WARP_WORDS
        if warps[o + STATUS] == WAITING and warps[o + BARRIER] & 255 == number:
            warps[o + STATUS] = RUNNING
            for k in range(warps[o + PARTS]):
                warps[o + 24 + 80 + k] = READY
    return 1


@native
def run_block(
    f: i32, regs: u32, pool: u32, preds: u32, warps: i64, stream: i64, state: i64, launch: i64,
    arrays: i64, memory: u8, shared: u8, local: u8, const: u8, block: i64, barriers: i64,
    addr: i64, words: i64, counts: i64, a: u32, b: u32, c: u32, d: u32, e: u32,
    unknown: u32, maps: i64,
) -> int:  # fmt: skip
    """Run all warps of a block to their ends. `state[S_THREADS]` is the number of warps, `S_WARPS` of those alive."""
    idle = 0
    while idle < 2:
        moved = 0
        for _ in range(state[S_THREADS]):
            warp = state[S_NEXT]
            w = warp * WARP_WORDS
            if warps[w + STATUS] == RUNNING:
                before = state[S_ISSUED]
                found = run_warp(
                    f, regs, pool, preds, warps, warp, stream, state, launch, arrays, memory, shared, local, const,
                    block,
                    addr, words, counts, a, b, c, d, e, unknown, maps, 20000,
                )  # fmt: skip
                if found != OK:
                    return found
                if state[S_ISSUED] > before:
                    moved = 1
                if warps[w + BARRIER] >= 1 << 40:
                    arrived(warps, warp, barriers, state, 0)
                    warps[w + BARRIER] = 0
                elif warps[w + STATUS] == WAITING:
                    arrived(warps, warp, barriers, state, 0)
                elif warps[w + STATUS] == FINISHED:
                    state[S_WARPS] = state[S_WARPS] - 1
                    for other in range(state[S_THREADS]):
                        if warps[other * WARP_WORDS + STATUS] == WAITING:
                            if arrived(warps, other, barriers, state, 1):
                                moved = 1
            if state[S_ISSUED] > state[S_BUDGET]:
                return OVER_BUDGET
            state[S_NEXT] = (warp + 1) % state[S_THREADS]
        if state[S_WARPS] == 0:
            return OK
        idle = 0 if moved else idle + 1
    return STUCK
