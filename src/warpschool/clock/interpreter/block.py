"""One block: each warp until it waits, then the next; what each issued goes into its stream."""

from __future__ import annotations

from warpschool.clock.interpreter.across import places, warp_wide
from warpschool.clock.interpreter.engines import arrive, bulk, synchronised
from warpschool.clock.interpreter.floats import floats
from warpschool.clock.interpreter.integers import bitwise, integers
from warpschool.clock.interpreter.layout import (
    A_MOD,
    AT,
    AT_BARRIER,
    B_MOD,
    BARRIER,
    BULK_MARGIN,
    BULK_STORE,
    C_MOD,
    CHUNK,
    CHUNK_WORDS,
    DST,
    EVENT_SHARED,
    FIELDS,
    FINISHED,
    FLAGS,
    FRAGMENTS,
    GUARD,
    GUARD_NOT,
    L_CODE,
    L_TAINT,
    LOST,
    MARGIN,
    NEEDED,
    NO_MAP,
    NO_ROOM,
    NOT_MINE,
    OK,
    OP,
    OP_BAR,
    OP_BULK,
    OP_DIV,
    OP_LOAD,
    OP_MATRIX,
    OP_NONE,
    OP_SYNC,
    OVER_BUDGET,
    PARTS,
    PS0,
    PS0_NOT,
    READY,
    RUNNING,
    S_AGAIN,
    S_BUDGET,
    S_COUNT,
    S_DOUBT,
    S_ISSUED,
    S_LOST,
    S_NEXT,
    S_ROOM,
    S_THREADS,
    S_USED,
    S_WARPS,
    S_WORDS,
    STATUS,
    STUCK,
    SYNC_WAIT,
    UNKNOWN,
    WAITING,
    WARP_WORDS,
    A,
    B,
    C,
)
from warpschool.clock.interpreter.memory import access, event_of, in_doubt_or_spread, through_memory, touch
from warpschool.clock.interpreter.predicates import predicates
from warpschool.clock.interpreter.registers import fetch, predicate, put
from warpschool.clock.interpreter.ways import chosen, control
from warpschool.clock.native import i32, i64, lshr, native, popc, u8, u32


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
def beside(
    f: i32, i: int, regs: u32, pool: u32, preds: u32, warp: int, lanes: int, stream: i64, at: int, state: i64,
    launch: i64, addr: i64, counts: i64, a: u32, b: u32, maps: i64,
) -> int:  # fmt: skip
    """What engines are asked for, or a barrier object."""
    if f[i + OP] == OP_SYNC:
        touch(f, i, regs, pool, warp, lanes, addr, a, b)
        if f[i + FLAGS] == SYNC_WAIT:
            state[S_DOUBT + EVENT_SHARED] = 1  # what others have stored by then is not followed
        state[S_WORDS] = synchronised(f, i, regs, pool, preds, warp, lanes, addr, stream, at + 1, a)
        return OK
    if f[i + FLAGS] != BULK_STORE:
        state[S_DOUBT + EVENT_SHARED] = 1
    state[S_WORDS] = bulk(f, i, regs, warp, lanes, launch, maps, stream, at + 1, counts)
    return OK if state[S_WORDS] > 0 else NO_MAP


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
        doubt = in_doubt_or_spread(f, i, unknown, preds, warp, lanes, active, launch)
        if doubt == 1:
            return UNKNOWN
        if doubt == 2:
            continue
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
                through_memory(f, i, unknown, warp, lanes, state, launch, arrays, addr)
            if f[i + NEEDED] and lanes != 0:
                access(f, i, regs, pool, preds, warp, lanes, launch, arrays, memory, shared, local, addr, a, b, c, d)
            asked = predicate(preds, warp, f[i + PS0], f[i + PS0_NOT])
            state[S_WORDS] = event_of(
                f, i, warp, lanes, launch, addr, stream, at + 1, words, counts, regs, pool, a, asked
            )  # fmt: skip
            return OK
        if op == OP_SYNC or op == OP_BULK:
            return beside(
                f, i, regs, pool, preds, warp, lanes, stream, at, state, launch, addr, counts, a, b, maps
            )  # fmt: skip
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
