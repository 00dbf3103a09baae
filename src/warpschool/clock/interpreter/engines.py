"""Mbarriers, and copies by the asynchronous engine: what arrives, and the lines that a box touches."""

from __future__ import annotations

from warpschool.clock.interpreter.layout import (
    AT_BARRIER,
    BARRIER,
    BULK_ACROSS,
    BULK_MARGIN,
    BULK_STORE,
    BY_TOKEN,
    BYTES,
    DST,
    FLAGS,
    IMM,
    L_LOCAL,
    L_MAPS,
    M_BOX,
    M_LOWER,
    M_SIZES,
    M_STRIDES,
    M_UPPER,
    MAP_WORDS,
    PD0,
    SYNC_ARRIVE,
    SYNC_COPIED,
    SYNC_DROP,
    SYNC_INIT,
    SYNC_WAIT,
    A,
    B,
    C,
)
from warpschool.clock.interpreter.registers import fetch, put, set_predicate, signed
from warpschool.clock.native import ctz, i32, i64, lshr, native, popc, u32


@native
def block_slot(launch: i64, warp: int) -> int:
    """Where a warp's local memory begins, in words of one lane."""
    return warp * (launch[L_LOCAL] // 4 + 1)


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
