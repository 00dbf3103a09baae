"""Loads, stores and atomics: which lines and banks they touch, and the values where paths or addresses need them."""

from __future__ import annotations

from warpschool.clock.interpreter.engines import block_slot
from warpschool.clock.interpreter.layout import (
    A_HI,
    A_MOD,
    BYTES,
    C_MOD,
    DST,
    DST_WIDTH,
    EVENT,
    EVENT_COPY,
    EVENT_GLOBAL,
    EVENT_LOCAL,
    EVENT_SHARED,
    EVENT_SYNC,
    FLAGS,
    GUARD,
    IF_ORDINARY,
    IMM,
    L_ARRAYS,
    L_BX,
    L_BY,
    L_BZ,
    L_LOCAL,
    L_OPEN,
    L_SHARED,
    L_TAINT,
    OFFSET,
    OP,
    OP_ATOM,
    OP_BULK,
    OP_DIV,
    OP_FCHK,
    OP_ISETP,
    OP_LOAD,
    OP_MATCH,
    OP_MATRIX,
    OP_NONE,
    OP_R2UR,
    OP_REDUX,
    OP_RET,
    OP_SHFL,
    OP_STORE,
    OP_VOTE,
    PD0,
    PS0,
    PS0_NOT,
    S_DOUBT,
    UNIFORM,
    UNLESS_ORDINARY,
    A,
    B,
    C,
)
from warpschool.clock.interpreter.registers import fetch, predicate, put, set_predicate, signed
from warpschool.clock.native import bits, f32, i32, i64, lshr, native, popc, u8, u32


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
def ordinary(f: i32, i: int, unknown: u32, preds: u32, warp: int, lanes: int) -> int:
    """A division, reciprocal or square root of something unknown is taken for one that needs no special care; 1 where
    that is so."""
    base = warp * 336
    mask = 0
    for k in range(2):
        row = f[i + A + 3 * k]
        if row >= 0 and row < 320:
            mask |= unknown[base + row]
    if lanes & mask == 0:
        return 0
    holds = 4294967295 if f[i + OP] == OP_ISETP and f[i + FLAGS] & IF_ORDINARY else 0
    set_predicate(preds, warp, f[i + PD0], lanes, holds)
    at = base + 320 + f[i + PD0]
    unknown[at] = unknown[at] & ~lanes
    return 1


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
    """Where an address lies in the copy of the arrays; -1 outside of all, -2 in one whose contents nobody knows."""
    for k in range(count):
        offset = address - arrays[3 * k]
        if offset >= 0 and offset + size <= arrays[3 * k + 1]:
            return arrays[3 * k + 2] + offset if arrays[3 * k + 2] >= 0 else -2
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
def from_nowhere(lanes: int, size: int, launch: i64, arrays: i64, addr: i64) -> int:
    """The lanes that read what an earlier launch would have written."""
    mask = 0
    for lane in range(32):
        if lshr(lanes, lane) & 1 and placed(arrays, launch[L_ARRAYS], addr[lane], size) == -2:
            mask |= 1 << lane
    return mask


@native
def through_memory(
    f: i32, i: int, unknown: u32, warp: int, lanes: int, state: i64, launch: i64, arrays: i64, addr: i64
) -> None:  # fmt: skip
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
    doubt = lanes if state[space] else 0
    if launch[L_OPEN] and op != OP_STORE and (f[i + EVENT] == EVENT_GLOBAL or f[i + EVENT] == EVENT_COPY):
        doubt |= from_nowhere(lanes, f[i + BYTES], launch, arrays, addr)
        if f[i + EVENT] == EVENT_COPY and doubt != 0:
            state[S_DOUBT + EVENT_SHARED] = 1
    if f[i + DST] >= 0 and f[i + DST] != 255:
        for word in range(max(f[i + DST_WIDTH], 1)):
            at = base + f[i + DST] + word
            unknown[at] = (unknown[at] & ~lanes) | doubt


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
        elif f[i + OP] == OP_LOAD:  # L1 gives a word of each bank at a time, and of wide ones a word of each lane
            waves = max(size // 4, 1)
            if found > 1:
                waves = max(waves, wavefronts_of(addr, lanes & asked, size, words, counts))
    stream[at] = found | (waves << 16) | (popc(lanes) << 32)
    return found + 1


@native
def in_doubt_or_spread(
    f: i32, i: int, unknown: u32, preds: u32, warp: int, lanes: int, active: int, launch: i64
) -> int:  # fmt: skip
    """Carry the marks of unknown values along; 1 where the way itself is unknown, 2 where a result is assumed."""
    op = f[i + OP]
    if launch[L_TAINT] == 0:
        return 0
    if op >= OP_LOAD and op <= OP_DIV:
        return in_doubt(f, i, unknown, warp, active if op > OP_MATRIX else lanes)
    care = op == OP_FCHK or (op == OP_ISETP and f[i + FLAGS] & (IF_ORDINARY | UNLESS_ORDINARY) != 0)
    if care and ordinary(f, i, unknown, preds, warp, active):
        return 2
    spread(f, i, unknown, warp, active)
    return 0
