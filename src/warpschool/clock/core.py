"""One multiprocessor, cycle by cycle: four schedulers, their pipes, the load/store unit, L1, and its share of what lies
behind it.

It walks the streams that the interpreter wrote (`interpreter.layout`). A warp issues its next instruction when its
stall
count has run out, the scoreboards that the instruction waits for are clear, its pipe is free and its queue has room.
Times are in cycles of the multiprocessor's clock.
"""

from __future__ import annotations

from warpschool.clock.interpreter.layout import (
    BULK_ACROSS,
    BULK_STORE,
    BY_TOKEN,
    CHUNK_WORDS,
    FAR,
    SYNC_COPIED,
    SYNC_DROP,
    SYNC_INIT,
    SYNC_WAIT,
)
from warpschool.clock.native import f64, floor, i64, lshr, native, popc

TABLE, BUSY_UNIT = 14, 8
"""Words of an instruction in the table, in this order; T_BUSY counts eighths of a cycle."""
(T_KIND, T_PIPE, T_STALL, T_WRITE, T_READ, T_WAIT, T_BANK0, T_BANK1, T_WIDTH, T_DEPTH, T_BUSY, T_LATENCY, T_EVENT,
 T_STAYS) = range(14)  # fmt: skip

(K_FIXED, K_VARIABLE, K_GLOBAL_LOAD, K_GLOBAL_STORE, K_SHARED_LOAD, K_SHARED_STORE, K_COPY, K_BARRIER, K_EXIT, K_COMMIT,
 K_WAIT_GROUP, K_BRANCH, K_MIO, K_FENCE, K_GLOBAL_ATOMIC, K_GLOBAL_REDUCE, K_LOCAL, K_SYNC, K_BULK, K_PRODUCT,
 K_WAIT_PRODUCT) = range(21)  # fmt: skip
PIPES = 10
P_FMA, P_HEAVY, P_LITE, P_ALU, P_FP64, P_XU, P_TENSOR, P_UNIFORM, P_CONTROL, P_MIO = range(10)

REASONS = 15
(R_SELECTED, R_NOT_SELECTED, R_WAIT, R_LONG, R_SHORT, R_BARRIER, R_MIO, R_LG, R_MATH, R_BRANCH, R_NO_INSTRUCTION,
 R_DRAIN, R_MEMBAR, R_DISPATCH, R_PRODUCT) = range(15)  # fmt: skip

WARP_WORDS = 16
(W_CHUNK, W_AT, W_PC, W_LEFT, W_SLOT, W_GROUPS, W_STATE, W_REASON, W_AFTER, W_PRODUCTS, W_BARRIER, W_MARK, W_PARITY,
 W_BOARD, W_TOKEN, W_LINE) = range(16)  # fmt: skip
GONE, LIVE, PARKED = 0, 1, 2
TIMES = 64
"""Times of a warp: when it may issue, when it last did, six scoreboards, what kind of wait each is, then its groups of
copies, and of products of its warpgroup."""
X_NEXT, X_LAST, X_BOARD, X_KIND, X_OPEN = 0, 1, 2, 8, 14
X_MATH, X_MIO, X_LG, X_SINCE, X_DRAINED, X_BANKS, X_FETCH, X_STALL, X_GAVE = 15, 16, 17, 18, 19, 20, 21, 22, 23
X_GROUP, X_PRODUCT, X_PRODUCTS, MOST_PRODUCTS = 24, 44, 48, 12
SLOT_WORDS, S_WAITING, S_WANTED, BARRIERS = 40, 1, 18, 17
"""Of a resident block: its warps that are alive; for each barrier those that have come, and how many must."""
MARKS, MARK_WORDS = 64, 8
"""mbarriers of a resident block"""
B_OFFSET, B_COUNT, B_PENDING, B_BYTES, B_PHASE, B_WHEN, B_UNTIL = range(7)
NEVER = 1.0e30
Z_STARTED, Z_FINISHED, Z_END, Z_DISPATCHED, Z_SOONEST, Z_ACTIVE, Z_LOGGED, Z_ISSUED, Z_STAYS = range(9)
"""From Z_STAYS on, for each scheduler: the warp with which it goes on where it can, and one more; 0 for none."""

(M_L1_LATENCY, M_L2_LATENCY, M_DRAM_LATENCY, M_SHARED_LATENCY, M_L2_BYTES, M_DRAM_BYTES, M_MIO_QUEUE, M_LG_QUEUE,
 M_BARRIER, M_BLOCK_START, M_BRANCH, M_COLD_LINE, M_L1_SETS, M_L1_WAYS, M_BANK_WINDOW, M_LINE_CYCLES, M_BACKLOG,
 M_RESIDENT, M_WARPS, M_BLOCKS, M_STORE_BYTES, M_SHARE_KEEP, M_COLD, M_ATOMIC_LATENCY, M_ATOMIC_CYCLES, M_LONG_FETCH,
 M_DRAM_WRITE, M_DISPATCH, M_FETCH_LINES, M_MOST_CYCLES, M_LOG_FROM, M_LOG_TO, M_SYNC, M_BULK_START, M_BULK_LINE,
 M_BULK_END, M_BULK_BYTES, M_ACROSS, M_CODE_LINES, M_CODE_NEAR, M_CODE_FAR, M_NEAR_LINE, M_FAR_LINE, M_BULK_STORE,
 M_FENCE, M_L2_PORT, M_WAKE, M_TAGS,
 M_FENCE_STORED, M_MISSES, M_SCATTERED, M_RANDOM, M_ENTRY, M_ONE_WAVE, M_NEAR_WAYS, M_FAR_WAYS) = range(56)  # fmt: skip

QUEUES = 17
(Q_L2, Q_DRAM, Q_NEAR, Q_BULK, Q_TAGS, Q_NEAR_LEFT, Q_FAR_LEFT, Q_SINCE, Q_OWN) = range(9)
"""Until when L2, DRAM, what is asked of shared memory, the engine of copies and L1's tags are busy; what L1's banks
have still to serve of accesses to shared and to global memory, and when that was so. From Q_OWN on, until when the last
access of each sub-core takes: four to shared memory, four to global memory."""
Q_BEFORE = 16
"""How long those to shared memory take that stand before L1."""

LOG_WORDS = 5
"""An issue in the log: its cycle, the warp's place, the instruction, since when the warp waited and for what most."""

(U_CYCLES, U_ISSUED, U_LSU, U_L2_READ, U_L2_WRITTEN, U_DRAM_READ, U_DRAM_WRITTEN, U_L1_SECTORS, U_L1_HITS, U_DONE,
 U_ACTIVE, U_SHARED, U_FMA, U_ALU, U_TENSOR, U_XU, U_FP64, U_L2_SHARE,
 U_DRAM_SHARE) = range(19)  # fmt: skip


@native
def next_run(stream: i64, warps: i64, w: int) -> int:
    """Go to the next word of a warp's stream that names instructions; 0 at its end."""
    while True:
        word = stream[warps[w + W_CHUNK] * CHUNK_WORDS + warps[w + W_AT]]
        if word == -2:
            return 0
        if word == -1:
            warps[w + W_CHUNK] = stream[warps[w + W_CHUNK] * CHUNK_WORDS + CHUNK_WORDS - 1]
            warps[w + W_AT] = 0
            continue
        warps[w + W_PC] = word & 16777215
        warps[w + W_LEFT] = lshr(word, 24) & 16777215
        warps[w + W_AT] = warps[w + W_AT] + 1
        return 1


@native
def lookup(tags: i64, ages: i64, sets: int, ways: int, line: int, sectors: int, clock: int) -> int:
    """Which of these sectors of a line L1 has, and `<< 4` where it keeps the line; it has all of them afterwards.

    A tag word is `line << 4 | sectors`. `ages` are when each place was last used, then when its last sectors came.
    """
    at = ((line ^ (lshr(line, 7)) ^ (lshr(line, 13))) % sets) * ways
    oldest = at
    for k in range(at, at + ways):
        if lshr(tags[k], 4) == line:
            had = tags[k] & sectors
            tags[k] = tags[k] | sectors
            ages[k] = clock
            return had | (k << 4)
        if ages[k] < ages[oldest]:
            oldest = k
    tags[oldest] = (line << 4) | sectors
    ages[oldest] = clock
    ages[sets * ways + oldest] = 0
    return oldest << 4


@native
def seen_before(known: i64, size: int, line: int, sectors: int) -> int:
    """Which sectors of a line this multiprocessor fetched at any time before, and `<< 4` where that is kept: an open
    hash table of lines, and behind it when each one's last sectors came."""
    at = ((line * 2654435761) & 9223372036854775807) % size
    tries = 0
    while tries < 64:
        if known[at] == 0:
            known[at] = (line << 4) | sectors
            return at << 4
        if lshr(known[at], 4) == line:
            had = known[at] & sectors
            known[at] = known[at] | sectors
            return had | (at << 4)
        at = (at + 1) % size
        tries += 1
    return at << 4


@native
def share_of(ranges: i64, shares: f64, count: int, line: int) -> float:
    """How many multiprocessors, as a mean, want a sector of the array that a line lies in."""
    address = line << 7
    for k in range(count):
        if address + 127 >= ranges[2 * k] and address < ranges[2 * k + 1]:
            return shares[k]
    return 1.0


@native
def behind(
    line: int, sectors: int, start: float, stores: float, rate: float, scattered: float, m: f64, queues: f64,
    known: i64, size: int, ranges: i64, shares: f64, used: f64,
) -> float:  # fmt: skip
    """When L2, or DRAM behind it, has answered for some sectors of a line; `stores` is 0 or what a store's sector
    costs, `rate` the bytes a cycle that may come, `scattered` what DRAM takes for a part of a line more."""
    count = popc(sectors)
    asked_for = sectors
    if stores == 0.0:  # DRAM brings two sectors for one
        asked_for = sectors | ((sectors & 5) << 1) | (lshr(sectors, 1) & 5)
    before = seen_before(known, size, line + (1 << 46) if stores > 0.0 else line, asked_for)
    fresh = popc(asked_for & ~before)
    share = share_of(ranges, shares, int(m[M_SHARE_KEEP]), line)
    at = max(queues[Q_L2], start)
    if stores > 0.0:
        taken = count * 32.0 * stores / m[M_STORE_BYTES]
        queues[Q_L2] = at + taken
        used[U_L2_SHARE] = used[U_L2_SHARE] + taken
        used[U_L2_WRITTEN] = used[U_L2_WRITTEN] + count * 32.0
        written = fresh * 32.0 * m[M_DRAM_WRITE]
        queues[Q_DRAM] = max(queues[Q_DRAM], at) + written / m[M_DRAM_BYTES]
        used[U_DRAM_SHARE] = used[U_DRAM_SHARE] + written / m[M_DRAM_BYTES]
        used[U_DRAM_WRITTEN] = used[U_DRAM_WRITTEN] + written
        return queues[Q_L2]
    queues[Q_L2] = at + count * 32.0 / rate
    used[U_L2_SHARE] = used[U_L2_SHARE] + count * 32.0 / rate
    used[U_L2_READ] = used[U_L2_READ] + count * 32.0
    ready = queues[Q_L2] + m[M_L2_LATENCY]
    came = size + lshr(before, 4)
    if sectors & before:  # what is on its way to L2 comes when it comes
        ready = max(ready, float(known[came]))
    if fresh > 0 and m[M_COLD] > 0.0:
        asked = fresh * 32.0 * m[M_COLD] / share
        if popc(asked_for) < 4:
            asked = asked * scattered
        queues[Q_DRAM] = max(queues[Q_DRAM], at) + asked / m[M_DRAM_BYTES]
        used[U_DRAM_SHARE] = used[U_DRAM_SHARE] + asked / m[M_DRAM_BYTES]
        used[U_DRAM_READ] = used[U_DRAM_READ] + asked
        ready = max(ready, queues[Q_DRAM] + m[M_DRAM_LATENCY])
        known[came] = max(known[came], int(ready))
    return ready


@native
def through(queues: f64, which: int, now: float, waves: float) -> float:
    """When L1's banks, which accesses to shared memory (0) and to global memory (1) share in turns, have served one
    more that comes now."""
    passed = now - queues[Q_SINCE]
    near_left = queues[Q_NEAR_LEFT]
    far_left = queues[Q_FAR_LEFT]
    if passed > 0.0:
        both = min(passed, 2.0 * min(near_left, far_left))
        near_left -= both / 2.0
        far_left -= both / 2.0
        near_left = max(0.0, near_left - (passed - both))  # of one of them nothing is left
        far_left = max(0.0, far_left - (passed - both))
        queues[Q_SINCE] = now
    if which == 0:
        near_left += waves
    else:
        far_left += waves
    queues[Q_NEAR_LEFT] = near_left
    queues[Q_FAR_LEFT] = far_left
    mine = near_left if which == 0 else far_left
    other = far_left if which == 0 else near_left
    return now + mine + min(mine, other)


@native
def one_after_the_other(queues: f64, which: int, now: float, waves: float, m: f64) -> float:
    """When an access is through that comes behind all others of its sub-core and kind: a wavefront takes these longer
    than those of several sub-cores, which overlap."""
    if waves > 1.0:
        queues[Q_OWN + which] = max(queues[Q_OWN + which], now) + waves * m[M_ONE_WAVE]
    return queues[Q_OWN + which]


@native
def words_through(queues: f64, own: int, start: float, late: float, words: float, m: f64) -> float:
    """When L1's banks have served an access to global memory: in turns with those to shared memory, and, if it is a
    load, behind those of its sub-core."""
    served = through(queues, 1, start, words)
    if own >= 0:
        served = max(served, one_after_the_other(queues, own, start + late, words, m))
    return served


@native
def hold_back(queues: f64, missed: int, m: f64) -> None:
    """What is on its way has a place in L1, and L2 runs ahead of DRAM no further than it can."""
    if missed and queues[Q_L2] - m[M_MISSES] > queues[Q_TAGS]:
        queues[Q_TAGS] = queues[Q_L2] - m[M_MISSES]
    if queues[Q_DRAM] - m[M_BACKLOG] > queues[Q_L2]:
        queues[Q_L2] = queues[Q_DRAM] - m[M_BACKLOG]


@native
def wait_before(queues: f64, now: float) -> float:
    """How long an access to global memory waits for those to shared memory that stand before L1."""
    left = queues[Q_NEAR_LEFT] - max(0.0, now - queues[Q_SINCE])
    return min(max(0.0, left), queues[Q_BEFORE])


@native
def is_irregular(stream: i64, at: int, lines: int) -> int:
    """Whether an access touches single sectors of lines that do not follow each other in even steps: those come to
    L2's slices unevenly."""
    if lines < 5:
        return 0
    step = lshr(stream[at + 2], 4) - lshr(stream[at + 1], 4)
    for k in range(2, lines):
        off = lshr(stream[at + 1 + k], 4) - lshr(stream[at + k], 4) - step
        if off > 1 or off < -1:
            return 1
    return 0


@native
def tag_cycles(stream: i64, at: int, lines: int, banks: int) -> int:
    """How many cycles L1 takes to look up an access's lines: each bank of its tags, by the lines' last bits, one a
    cycle."""
    if lines < 2:
        return lines
    most = 0
    for bank in range(banks):
        found = 0
        for k in range(lines):
            if lshr(stream[at + 1 + k], 4) % banks == bank:
                found += 1
        most = max(most, found)
    return most


@native
def unit_cycles(kind: int, stream: i64, at: int, event: int, m: f64) -> float:
    """How long an access to global or local memory keeps the load/store unit."""
    lines = stream[at] & 65535
    waves = lshr(stream[at], 16) & 65535
    cycles = float(lines)
    if kind == K_GLOBAL_LOAD:
        cycles = float(max(tag_cycles(stream, at, lines, int(m[M_TAGS])), waves))
    elif event == 3 or kind == K_COPY:
        cycles = float(max(lines, waves))
    return max(1.0, cycles * m[M_LINE_CYCLES])


@native
def store_cost(stream: i64, at: int, width: int) -> float:
    """What L2 takes for a store's sectors: twice as long if parts of them are left out, since it reads them first to
    make their check bits anew."""
    covered = 0
    for k in range(stream[at] & 65535):
        covered += popc(stream[at + 1 + k] & 15) * 32
    return 2.0 if (stream[at] >> 32) * width < covered else 1.0


@native
def memory(
    kind: int, stream: i64, at: int, start: float, m: f64, queues: f64, tags: i64, ages: i64,
    known: i64, size: int, ranges: i64, shares: f64, used: f64, out: f64, event: int, width: int, s: int,
) -> None:  # fmt: skip
    """An access to global or local memory: `out[0]` is when its operands are read, `out[1]` when its data is there."""
    lines = stream[at] & 65535
    waves = lshr(stream[at], 16) & 65535
    late = wait_before(queues, start)
    begin = max(queues[Q_TAGS], start + late)
    cycles = unit_cycles(kind, stream, at, event, m)
    ready = begin + cycles + m[M_L1_LATENCY]
    missed = 0
    cost = store_cost(stream, at, width) if kind == K_GLOBAL_STORE else 1.0
    rate = m[M_L2_BYTES]
    far_apart = m[M_SCATTERED] if lines > 2 else 1.0
    at_random = m[M_RANDOM] if is_irregular(stream, at, lines) else 1.0
    used[U_LSU] = used[U_LSU] + cycles
    sent = used[U_L2_SHARE]
    for k in range(lines):
        word = stream[at + 1 + k]
        line = lshr(word, 4)
        sectors = word & 15
        if line >= FAR << 25:  # in another block's shared memory
            ready = max(ready, begin + cycles + m[M_ACROSS])
            continue
        if kind == K_GLOBAL_STORE or kind == K_GLOBAL_REDUCE:
            behind(line, sectors, begin + cycles, cost, rate, 1.0, m, queues, known, size, ranges, shares, used)
        elif kind == K_GLOBAL_ATOMIC:
            got = behind(
                line, sectors, begin + cycles, 0.0, rate / at_random, far_apart, m, queues, known, size, ranges, shares,
                used,
            )  # fmt: skip
            ready = max(ready, got + m[M_ATOMIC_LATENCY])
        else:
            had = lookup(tags, ages, int(m[M_L1_SETS]), int(m[M_L1_WAYS]), line, sectors, int(begin))
            came = int(m[M_L1_SETS]) * int(m[M_L1_WAYS]) + lshr(had, 4)
            want = sectors & ~had
            used[U_L1_SECTORS] = used[U_L1_SECTORS] + popc(sectors)
            used[U_L1_HITS] = used[U_L1_HITS] + popc(sectors & had)
            if want != sectors:  # who asks for what is on its way waits for it
                ready = max(ready, float(ages[came]))
            if want != 0:
                missed = 1
                got = behind(
                    line, want, begin + cycles, 0.0, rate / at_random, far_apart, m, queues, known, size, ranges,
                    shares, used,
                )  # fmt: skip
                ages[came] = max(ages[came], int(got))
                ready = max(ready, got)
    in_turn = 0.0
    if kind == K_GLOBAL_ATOMIC or kind == K_GLOBAL_REDUCE:
        in_turn = max(0.0, waves - 1.0) * m[M_ATOMIC_CYCLES]
        queues[Q_L2] = queues[Q_L2] + in_turn
    if kind == K_GLOBAL_STORE or kind == K_GLOBAL_REDUCE:  # none lets the next access pass before it has gone to L2
        cycles = max(cycles, used[U_L2_SHARE] - sent + in_turn)
        queues[Q_NEAR] = max(queues[Q_NEAR], begin - m[M_ENTRY] * cycles)  # without room it stops all others
    queues[Q_TAGS] = begin + cycles
    hold_back(queues, missed, m)
    own = 4 + s if kind == K_GLOBAL_LOAD else -1
    words = min(cycles, max(1.0, float(waves)) * m[M_LINE_CYCLES])
    out[0] = max(begin + cycles, words_through(queues, own, start, late, words, m))
    out[1] = max(ready, out[0] + m[M_L1_LATENCY])


@native
def start_block(
    warps: i64, times: f64, first: i64, stream: i64, slot: int, block: int, per: int, now: float
) -> None:  # fmt: skip
    """Put the warps of a block into a slot."""
    for k in range(per):
        w = (slot * per + k) * WARP_WORDS
        x = (slot * per + k) * TIMES
        for word in range(WARP_WORDS):
            warps[w + word] = 0
        for word in range(TIMES):
            times[x + word] = 0.0
        warps[w + W_CHUNK] = first[block * per + k]
        warps[w + W_SLOT] = slot
        warps[w + W_LINE] = -1
        warps[w + W_STATE] = LIVE
        times[x + X_NEXT] = now
        times[x + X_LAST] = now
        times[x + X_SINCE] = now
        if next_run(stream, warps, w) == 0:
            warps[w + W_STATE] = GONE


@native
def ready_time(table: i64, warps: i64, times: f64, w: int, x: int) -> float:
    """When a warp's next instruction has its operands; `W_REASON` is what it waits for until then."""
    i = warps[w + W_PC] * TABLE
    t = times[x + X_NEXT]
    reason = R_WAIT
    mask = table[i + T_WAIT]
    board = 0
    while mask != 0:
        if mask & 1:
            clear = times[x + X_BOARD + board]
            if clear > t:
                t = clear
                reason = int(times[x + X_KIND + board])
        mask = lshr(mask, 1)
        board += 1
    if table[i + T_KIND] == K_WAIT_GROUP:
        keep = table[i + T_DEPTH]
        for g in range(warps[w + W_GROUPS] - keep):
            if g < 20 and times[x + X_GROUP + g] > t:
                t = times[x + X_GROUP + g]
                reason = R_LONG
    if table[i + T_KIND] == K_WAIT_PRODUCT:
        for g in range(warps[w + W_PRODUCTS] - table[i + T_DEPTH]):
            if times[x + X_PRODUCTS + g] > t:
                t = times[x + X_PRODUCTS + g]
                reason = R_PRODUCT
    warps[w + W_REASON] = reason
    return t


@native
def blocked(
    table: i64, i: int, now: float, s: int, m: f64, pipes: f64, banks: f64, rings: f64, heads: i64
) -> int:  # fmt: skip
    """Why a warp whose operands are there cannot issue all the same; 0 where it can."""
    kind = table[i + T_KIND]
    pipe = table[i + T_PIPE]
    p = s * PIPES
    if pipe == P_FMA:
        if pipes[p + P_HEAVY] > now and pipes[p + P_LITE] > now:
            return R_MATH
    elif pipe != P_CONTROL and pipe != P_MIO:
        ahead = table[i + T_BUSY] / 4.0 if kind == K_PRODUCT else 0.0
        if pipes[p + pipe] > now + ahead:
            return R_MATH
    if m[M_BANK_WINDOW] > 0.0:
        if table[i + T_BANK0] > 0 and banks[2 * s] - max(0.0, m[M_BANK_WINDOW] - table[i + T_BANK0]) > now:
            return R_DISPATCH
        if table[i + T_BANK1] > 0 and banks[2 * s + 1] - max(0.0, m[M_BANK_WINDOW] - table[i + T_BANK1]) > now:
            return R_DISPATCH
    if kind >= K_GLOBAL_LOAD and pipe == P_MIO:
        if kind == K_SHARED_LOAD or kind == K_SHARED_STORE or kind == K_MIO:
            if rings[s * 64 + heads[s] % int(m[M_MIO_QUEUE])] > now:
                return R_MIO
        elif rings[256 + s * 64 + heads[4 + s] % int(m[M_MIO_QUEUE] + m[M_LG_QUEUE])] > now:
            return R_LG
    return 0


@native
def occupy(table: i64, i: int, s: int, now: float, pipes: f64, banks: f64, used: f64) -> None:
    """Keep pipes and register banks busy with an instruction, and count it."""
    pipe = table[i + T_PIPE]
    busy = table[i + T_BUSY] / 8.0
    p = s * PIPES
    if pipe == P_FMA:
        if pipes[p + P_LITE] <= now:
            pipes[p + P_LITE] = now + busy
        else:
            pipes[p + P_HEAVY] = now + busy
    elif pipe != P_CONTROL and pipe != P_MIO:
        pipes[p + pipe] = max(now, pipes[p + pipe]) + busy
    if table[i + T_BANK0] > 0:
        banks[2 * s] = max(banks[2 * s], now) + table[i + T_BANK0]
    if table[i + T_BANK1] > 0:
        banks[2 * s + 1] = max(banks[2 * s + 1], now) + table[i + T_BANK1]
    used[U_ISSUED] = used[U_ISSUED] + 1.0
    if pipe == P_FMA or pipe == P_HEAVY:
        used[U_FMA] = used[U_FMA] + 1.0
    elif pipe == P_ALU:
        used[U_ALU] = used[U_ALU] + 1.0
    elif pipe == P_TENSOR:
        used[U_TENSOR] = used[U_TENSOR] + busy
    elif pipe == P_XU:
        used[U_XU] = used[U_XU] + busy
    elif pipe == P_FP64:
        used[U_FP64] = used[U_FP64] + busy


@native
def near(
    table: i64, i: int, stream: i64, at: int, s: int, now: float, m: f64, rings: f64, heads: i64, queues: f64,
    used: f64, out: f64,
) -> None:  # fmt: skip
    """An access to shared memory, or a shuffle: `out[0]` and `out[1]` as of `memory`."""
    waves = table[i + T_BUSY] / 8.0
    if table[i + T_KIND] != K_MIO:
        waves = float(lshr(stream[at], 16) & 65535) * m[M_LINE_CYCLES]
        used[U_SHARED] = used[U_SHARED] + waves
    served = max(through(queues, 0, now + 4.0, waves), one_after_the_other(queues, s, now + 4.0, waves, m))
    begin = max(queues[Q_NEAR], served - waves)
    queues[Q_NEAR] = begin
    queues[Q_BEFORE] = waves * m[M_ONE_WAVE] * m[M_ENTRY]
    used[U_LSU] = used[U_LSU] + waves
    out[0] = begin + waves
    out[1] = begin + waves + table[i + T_LATENCY]
    ring = s * 64 + heads[s] % int(m[M_MIO_QUEUE])
    rings[ring] = begin
    heads[s] = heads[s] + 1


@native
def queued(s: int, m: f64, rings: f64, heads: i64, out: f64) -> None:
    """An access to global memory keeps a place in one of two queues, which stand behind each other, until its operands
    are read."""
    ring = 256 + s * 64 + heads[4 + s] % int(m[M_MIO_QUEUE] + m[M_LG_QUEUE])
    rings[ring] = out[0]
    heads[4 + s] = heads[4 + s] + 1


@native
def commit(warps: i64, times: f64, w: int, x: int) -> None:
    """Close a warp's group of asynchronous copies."""
    groups = warps[w + W_GROUPS]
    if groups >= 20:
        for g in range(19):
            times[x + X_GROUP + g] = times[x + X_GROUP + g + 1]
        groups = 19
    times[x + X_GROUP + groups] = times[x + X_OPEN]
    times[x + X_OPEN] = 0.0
    warps[w + W_GROUPS] = groups + 1


@native
def commit_product(table: i64, i: int, warps: i64, times: f64, w: int, x: int, done: float) -> None:
    """A product of a warpgroup is done at some time; with the last one its group is closed."""
    times[x + X_PRODUCT] = max(times[x + X_PRODUCT], done)
    if table[i + T_DEPTH] == 0:
        return
    groups = warps[w + W_PRODUCTS]
    if groups >= MOST_PRODUCTS:
        for g in range(MOST_PRODUCTS - 1):
            times[x + X_PRODUCTS + g] = times[x + X_PRODUCTS + g + 1]
        groups = MOST_PRODUCTS - 1
    times[x + X_PRODUCTS + groups] = times[x + X_PRODUCT]
    warps[w + W_PRODUCTS] = groups + 1


@native
def find_mark(marks: f64, slot: int, offset: int) -> int:
    """Where an mbarrier of a block is kept."""
    base = slot * MARKS * MARK_WORDS
    for k in range(MARKS - 1):
        at = base + k * MARK_WORDS
        if marks[at + B_OFFSET] == offset + 1.0:
            return at
        if marks[at + B_OFFSET] == 0.0:
            marks[at + B_OFFSET] = offset + 1.0
            return at
    return base + (MARKS - 1) * MARK_WORDS


@native
def settle(marks: f64, at: int, now: float) -> int:
    """End an mbarrier's phase if all have arrived, and all bytes; 1 if so."""
    if marks[at + B_PENDING] > 0.0 or marks[at + B_BYTES] != 0.0:
        return 0
    marks[at + B_PHASE] = marks[at + B_PHASE] + 1.0
    marks[at + B_WHEN] = max(now, marks[at + B_UNTIL])
    marks[at + B_UNTIL] = 0.0
    marks[at + B_PENDING] = marks[at + B_COUNT]
    return 1


@native
def is_over(warps: i64, w: int, marks: f64, at: int) -> int:
    """Whether the phase that a warp waits for is over."""
    if warps[w + W_PARITY] == BY_TOKEN:
        return 1 if marks[at + B_PHASE] > warps[w + W_TOKEN] else 0
    return 1 if int(marks[at + B_PHASE]) & 1 != warps[w + W_PARITY] else 0


@native
def synchronise(
    stream: i64, at: int, warps: i64, times: f64, w: int, x: int, board: int, now: float, m: f64, marks: f64, out: f64
) -> float:  # fmt: skip
    """SYNCS: when its answer is there; NEVER where that is not known yet. `out[3]`: whether a phase has ended."""
    head = stream[at]
    how = lshr(head, 16) & 255
    done = now + m[M_SYNC]
    out[3] = 0.0
    for k in range(head & 65535):
        word = stream[at + 1 + k]
        mark = find_mark(marks, warps[w + W_SLOT], word & 1048575)
        arrivals = lshr(word, 20) & 1048575
        moved = lshr(word, 40)
        if how == SYNC_WAIT:
            warps[w + W_PARITY] = arrivals
            if is_over(warps, w, marks, mark):
                done = max(done, marks[mark + B_WHEN] + m[M_SYNC])
            else:
                done = NEVER
                warps[w + W_MARK] = mark + 1
                warps[w + W_BOARD] = board
            continue
        if how == SYNC_INIT:
            marks[mark + B_COUNT] = arrivals
            marks[mark + B_PENDING] = arrivals
            marks[mark + B_BYTES] = 0.0
            marks[mark + B_PHASE] = 0.0
            continue
        if how == SYNC_COPIED:
            marks[mark + B_UNTIL] = max(marks[mark + B_UNTIL], times[x + X_OPEN])
        if how == SYNC_DROP:
            marks[mark + B_COUNT] = marks[mark + B_COUNT] - arrivals
        warps[w + W_TOKEN] = int(marks[mark + B_PHASE])
        marks[mark + B_PENDING] = marks[mark + B_PENDING] - arrivals
        marks[mark + B_BYTES] = marks[mark + B_BYTES] + (0 - moved if lshr(head, 24) & 1 else moved)
        if settle(marks, mark, now):
            out[3] = 1.0
    return done


@native
def bulk_copy(
    stream: i64, at: int, warps: i64, times: f64, w: int, x: int, now: float, m: f64, queues: f64, marks: f64,
    known: i64, size: int, ranges: i64, shares: f64, used: f64, out: f64,
) -> None:  # fmt: skip
    """A copy by the asynchronous engine, line by line, each a request to L2; its mbarrier is told of all bytes. The
    other blocks of a cluster do the same: what this one sends to all, it gets from each."""
    out[3] = 0.0
    lines = (stream[at] & 65535) - 1
    if lines < 0:
        return
    way = lshr(stream[at], 16) & 255
    word = stream[at + 1]
    moved = lshr(word, 20) & 16777215
    begin = max(queues[Q_BULK], now + m[M_BULK_START])
    ready = begin
    rate = m[M_BULK_BYTES] if m[M_L2_BYTES] >= m[M_L2_PORT] else m[M_L2_BYTES]
    store = max(1.0, m[M_STORE_BYTES] / m[M_BULK_STORE])
    for k in range(lines):
        entry = stream[at + 2 + k]
        sent = behind(
            lshr(entry, 4), entry & 15, begin, store if way == BULK_STORE else 0.0, rate, 1.0, m, queues, known, size,
            ranges, shares, used,
        )  # fmt: skip
        begin += m[M_BULK_LINE]
        ready = max(ready, sent)
    hold_back(queues, 0, m)
    queues[Q_BULK] = max(begin, queues[Q_L2] - m[M_BACKLOG])
    if way == BULK_STORE:
        times[x + X_OPEN] = max(times[x + X_OPEN], queues[Q_BULK])
        times[x + X_DRAINED] = max(times[x + X_DRAINED], ready)
        return
    if way == BULK_ACROSS:
        ready = begin + moved / m[M_BULK_BYTES] + m[M_ACROSS]
        queues[Q_BULK] = begin + moved / m[M_BULK_BYTES]
    mark = find_mark(marks, warps[w + W_SLOT], word & 1048575)
    copies = lshr(word, 44)
    marks[mark + B_BYTES] = marks[mark + B_BYTES] - moved * copies
    # all of it comes through one port
    marks[mark + B_UNTIL] = max(
        marks[mark + B_UNTIL], max(ready, begin + moved * copies / m[M_BULK_BYTES]) + m[M_BULK_END]
    )
    out[3] = float(settle(marks, mark, now))


@native
def wake(
    table: i64, warps: i64, times: f64, readies: f64, slot: int, per: int, m: f64, marks: f64
) -> None:  # fmt: skip
    """Let warps go on that waited for a phase which has ended."""
    for k in range(slot * per, slot * per + per):
        w = k * WARP_WORDS
        x = k * TIMES
        if warps[w + W_STATE] == LIVE and warps[w + W_MARK] != 0:
            mark = warps[w + W_MARK] - 1
            if is_over(warps, w, marks, mark):
                warps[w + W_MARK] = 0
                board = X_BOARD + warps[w + W_BOARD]
                times[x + board] = max(times[x + X_LAST], marks[mark + B_WHEN]) + m[M_WAKE]
                readies[k] = ready_time(table, warps, times, w, x)


@native
def set_boards(table: i64, i: int, times: f64, x: int, operands: float, done: float, wait: int) -> None:
    """Set the scoreboards of an instruction: when its sources have been read, and when its result is there."""
    kind = table[i + T_KIND]
    board = table[i + T_WRITE]
    if board < 6 and done >= times[x + X_BOARD + board]:  # of several that share one, the last to come is waited for
        times[x + X_BOARD + board] = done
        times[x + X_KIND + board] = wait
    board = table[i + T_READ]
    if board < 6 and operands > times[x + X_BOARD + board]:
        near_by = table[i + T_PIPE] != P_MIO or kind == K_SHARED_LOAD or kind == K_SHARED_STORE or kind == K_MIO
        times[x + X_BOARD + board] = operands
        times[x + X_KIND + board] = R_SHORT if near_by else R_LONG


@native
def cached(tags: i64, ways: int, first: int, sets: int, line: int, clock: int) -> int:
    """Whether a cache has a line of code, which it has afterwards. Its words from `first` on: tags, then ages."""
    at = first + line % sets * ways
    oldest = at
    for k in range(at, at + ways):
        if tags[k] == line + 1:
            tags[k + sets * ways] = clock
            return 1
        if tags[k + sets * ways] < tags[oldest + sets * ways]:
            oldest = k
    tags[oldest] = line + 1
    tags[oldest + sets * ways] = clock
    return 0


@native
def near_code(line: int, now: float, m: f64, fetched: i64) -> int:
    """Whether the first cache of code has a line, which it has afterwards."""
    ways = int(m[M_NEAR_WAYS])
    return cached(fetched, ways, int(m[M_CODE_LINES]), int(m[M_CODE_NEAR]) // ways, line, int(now))


@native
def far_code(line: int, now: float, m: f64, fetched: i64) -> int:
    """Whether the second cache of code has a line, which it has afterwards."""
    ways = int(m[M_FAR_WAYS])
    first = int(m[M_CODE_LINES]) + 2 * int(m[M_CODE_NEAR])
    return cached(fetched, ways, first, int(m[M_CODE_FAR]) // ways, line, int(now))


@native
def fetch_line(line: int, now: float, m: f64, fetched: i64, fetches: f64) -> float:
    """When a line of code is there that a warp comes to. Code that the first cache holds comes once; a loop that is
    larger comes again and again, from the second cache or from L2, a line after the other."""
    lines = int(m[M_CODE_LINES])
    if fetched[line] == 0:
        fetched[line] = 1
        fetches[line] = 0.0
        if lines > m[M_CODE_NEAR]:
            near_code(line, now, m, fetched)
            far_code(line, now, m, fetched)
        return now + m[M_COLD_LINE]
    if lines <= m[M_CODE_NEAR]:
        return now
    if near_code(line, now, m, fetched):
        return max(now, fetches[line])
    took = m[M_NEAR_LINE]
    if far_code(line, now, m, fetched) == 0:
        took = m[M_FAR_LINE]
    if fetches[lines + 1] + 1.0 == float(line):  # lines behind each other are fetched ahead
        fetches[lines] = max(fetches[lines] + took, now)
    else:
        fetches[lines] = max(fetches[lines], now) + took
    fetches[lines + 1] = float(line)
    fetches[line] = fetches[lines]
    return fetches[line]


@native
def advance(
    table: i64, stream: i64, warps: i64, times: f64, w: int, x: int, at: int, m: f64, fetched: i64, fetches: f64
) -> None:  # fmt: skip
    """Go on to the next instruction; code that is not there takes its time."""
    pc = warps[w + W_PC]
    line = lshr(pc, 3)
    if line != warps[w + W_LINE]:
        warps[w + W_LINE] = line
        there = fetch_line(line, times[x + X_NEXT], m, fetched, fetches)
        times[x + X_FETCH] = there - times[x + X_NEXT]
        times[x + X_NEXT] = there
    if table[pc * TABLE + T_EVENT] != 0:
        warps[w + W_AT] = warps[w + W_AT] + 1 + (stream[at] & 65535)
    warps[w + W_PC] = pc + 1
    warps[w + W_LEFT] = warps[w + W_LEFT] - 1


@native
def issue(
    table: i64, stream: i64, warps: i64, times: f64, w: int, x: int, s: int, now: float, m: f64,
    pipes: f64, banks: f64, rings: f64, heads: i64, queues: f64, tags: i64, ages: i64,
    known: i64, size: int, ranges: i64, shares: f64, used: f64, out: f64, fetched: i64, marks: f64,
    fetches: f64,
) -> None:  # fmt: skip
    """Issue a warp's next instruction: busy pipes, queues and scoreboards, and when the warp may go on."""
    i = warps[w + W_PC] * TABLE
    kind = table[i + T_KIND]
    times[x + X_NEXT] = now + max(1, table[i + T_STALL])
    times[x + X_STALL] = times[x + X_NEXT]
    occupy(table, i, s, now, pipes, banks, used)
    done = now + table[i + T_LATENCY]
    operands = now + 2.0
    wait = R_SHORT
    at = warps[w + W_CHUNK] * CHUNK_WORDS + warps[w + W_AT]
    if kind == K_SHARED_LOAD or kind == K_SHARED_STORE or kind == K_MIO:
        near(table, i, stream, at, s, now, m, rings, heads, queues, used, out)
        operands = out[0]
        done = out[1]
    elif table[i + T_PIPE] == P_MIO and kind >= K_GLOBAL_LOAD:
        event = table[i + T_EVENT]
        width = table[i + T_WIDTH]
        memory(
            kind, stream, at, now + 4.0, m, queues, tags, ages, known, size, ranges, shares, used, out, event, width,
            s,
        )  # fmt: skip
        queued(s, m, rings, heads, out)
        operands = out[0]
        done = out[1]
        wait = R_LONG
        if kind == K_COPY:
            times[x + X_OPEN] = max(times[x + X_OPEN], done)
        if kind == K_GLOBAL_STORE or kind == K_GLOBAL_REDUCE:
            times[x + X_DRAINED] = max(times[x + X_DRAINED], out[0])
    elif kind == K_COMMIT:
        commit(warps, times, w, x)
    elif kind == K_SYNC:
        done = synchronise(stream, at, warps, times, w, x, table[i + T_WRITE], now, m, marks, out)
        wait = R_LONG
    elif kind == K_BULK:
        bulk_copy(stream, at, warps, times, w, x, now, m, queues, marks, known, size, ranges, shares, used, out)
    elif kind == K_PRODUCT:
        done += pipes[s * PIPES + P_TENSOR] - now
        commit_product(table, i, warps, times, w, x, done)
    elif kind == K_BARRIER:
        flags = lshr(stream[at], 32) & 4095
        out[2] = 0.0 if flags == 0 else (-2.0 if flags == 1 else -1.0)
        warps[w + W_BARRIER] = (lshr(stream[at], 16) & 255) | (lshr(stream[at], 44) << 8)
    elif kind == K_FENCE:
        until = now + m[M_FENCE]
        if times[x + X_DRAINED] > 0.0:
            until = max(until, times[x + X_DRAINED] + m[M_FENCE_STORED])
        times[x + X_NEXT] = max(times[x + X_NEXT], until)
    elif kind == K_BRANCH and warps[w + W_LEFT] == 1:
        times[x + X_NEXT] = max(times[x + X_NEXT], now + m[M_BRANCH])
    set_boards(table, i, times, x, operands, done, wait)
    advance(table, stream, warps, times, w, x, at, m, fetched, fetches)


@native
def attribute(
    table: i64, stalls: f64, warps: i64, times: f64, w: int, x: int, pc: int, now: float, ready: float, m: f64,
    log: i64, run: f64,
) -> None:  # fmt: skip
    """Say for what a warp has waited since it last issued: fixed latency, operands, and what held it up when ready."""
    at = pc * REASONS
    since = times[x + X_SINCE]
    fixed = max(0.0, min(times[x + X_NEXT], now) - since)
    fetching = min(times[x + X_FETCH], fixed)
    fixed -= fetching
    times[x + X_FETCH] = 0.0
    stalls[at + R_NO_INSTRUCTION] += fetching
    counted = min(max(0.0, min(times[x + X_STALL], now) - since), fixed)
    fixed -= counted
    stalls[at + R_WAIT] += counted
    why = R_BRANCH if warps[w + W_AFTER] == 1 else (R_BARRIER if warps[w + W_AFTER] == 2 else R_WAIT)
    if warps[w + W_AFTER] == 3:
        why = R_MEMBAR
    stalls[at + why] += fixed
    most = fixed
    if counted > most:
        most = counted
        why = R_WAIT
    if fetching > most:
        most = fetching
        why = R_NO_INSTRUCTION
    operands = max(0.0, min(ready, now) - max(times[x + X_NEXT], since))
    stalls[at + warps[w + W_REASON]] += operands
    if operands > most:
        most = operands
        why = warps[w + W_REASON]
    rest = max(0.0, now - max(ready, since))
    for k in range(4):
        held = times[x + X_MATH + k] if k < 3 else times[x + X_BANKS]
        held = min(held, rest)
        rest -= held
        cause = R_MATH if k == 0 else (R_MIO if k == 1 else (R_LG if k == 2 else R_DISPATCH))
        if k == 0 and table[pc * TABLE + T_KIND] == K_PRODUCT:
            cause = R_BARRIER  # the four warps of a group begin a product together
        stalls[at + cause] += held
        if held > most:
            most = held
            why = cause
    stalls[at + R_NOT_SELECTED] += rest
    if rest > most:
        why = R_NOT_SELECTED
    stalls[at + R_SELECTED] += 1.0
    times[x + X_MATH] = 0.0
    times[x + X_MIO] = 0.0
    times[x + X_LG] = 0.0
    times[x + X_BANKS] = 0.0
    if now >= m[M_LOG_FROM] and since < m[M_LOG_TO]:
        entry = int(run[Z_LOGGED]) * LOG_WORDS
        log[entry] = int(now)
        log[entry + 1] = w // WARP_WORDS
        log[entry + 2] = pc
        log[entry + 3] = int(since)
        log[entry + 4] = why
        run[Z_LOGGED] = run[Z_LOGGED] + 1.0


@native
def begin(
    table: i64, stream: i64, first: i64, order: i64, warps: i64, times: f64, slots: i64, m: f64, readies: f64, run: f64,
    marks: f64, slot: int, when: float,
) -> None:  # fmt: skip
    """Start the next block in a slot."""
    per = int(m[M_WARPS])
    started = int(run[Z_STARTED])
    start_block(warps, times, first, stream, slot, order[started], per, when)
    for word in range(SLOT_WORDS):
        slots[slot * SLOT_WORDS + word] = 0
    slots[slot * SLOT_WORDS] = per
    for word in range(MARKS * MARK_WORDS):
        marks[slot * MARKS * MARK_WORDS + word] = 0.0
    for k in range(slot * per, slot * per + per):
        readies[k] = 1.0e30
        if warps[k * WARP_WORDS + W_STATE] == LIVE:
            readies[k] = ready_time(table, warps, times, k * WARP_WORDS, k * TIMES)
    run[Z_STARTED] = started + 1
    run[Z_DISPATCHED] = when


@native
def selected(
    table: i64, warps: i64, times: f64, readies: f64, s: int, now: float, m: f64, pipes: f64, banks: f64, rings: f64,
    heads: i64, run: f64,
) -> int:  # fmt: skip
    """The warp of one scheduler that issues next, -1 for none: the one that issued last, unless the compiler told it to
    give way, else the youngest that can and has not given way, else the one that has waited longest. While its
    registers cannot be read, no other one issues in its place."""
    best = -1
    held = 0
    age = 1.0e30
    stays = int(run[Z_STAYS + s]) - 1
    for k in range(s, int(m[M_RESIDENT] * m[M_WARPS]), 4):
        t = readies[k]
        if t > now:
            run[Z_SOONEST] = min(run[Z_SOONEST], t)
            continue
        x = k * TIMES
        why = blocked(table, warps[k * WARP_WORDS + W_PC] * TABLE, now, s, m, pipes, banks, rings, heads)
        if why != 0:
            run[Z_ACTIVE] = 1.0
        if why == R_MATH:
            times[x + X_MATH] = times[x + X_MATH] + 1.0
        elif why == R_MIO:
            times[x + X_MIO] = times[x + X_MIO] + 1.0
        elif why == R_LG:
            times[x + X_LG] = times[x + X_LG] + 1.0
        elif k == stays or ((best < 0 or best != stays) and times[x + X_GAVE] <= age):
            best = k
            held = why
            age = times[x + X_GAVE]
    if held != 0:
        times[best * TIMES + X_BANKS] = times[best * TIMES + X_BANKS] + 1.0
        return -1
    return best


@native
def retire(
    table: i64, stream: i64, first: i64, order: i64, warps: i64, times: f64, slots: i64, m: f64, readies: f64, run: f64,
    marks: f64, ends: f64, stalls: f64, k: int, now: float,
) -> None:  # fmt: skip
    """A warp has ended, and goes when its stores have left; with the last one of its block the next block starts."""
    per = int(m[M_WARPS])
    slot = warps[k * WARP_WORDS + W_SLOT]
    warps[k * WARP_WORDS + W_STATE] = GONE
    readies[k] = 1.0e30
    left = max(now + 1.0, times[k * TIMES + X_DRAINED])
    stalls[(warps[k * WARP_WORDS + W_PC] - 1) * REASONS + R_DRAIN] += left - now - 1.0
    run[Z_END] = max(run[Z_END], left)
    slots[slot * SLOT_WORDS] = slots[slot * SLOT_WORDS] - 1
    if slots[slot * SLOT_WORDS] > 0:
        for number in range(BARRIERS):
            if slots[slot * SLOT_WORDS + S_WAITING + number] > 0:
                release(table, warps, times, slots, readies, slot, number, per, now + m[M_BARRIER])
        return
    ends[2 * int(run[Z_FINISHED])] = left
    ends[2 * int(run[Z_FINISHED]) + 1] = run[Z_ISSUED]
    run[Z_FINISHED] = run[Z_FINISHED] + 1.0
    if run[Z_STARTED] < m[M_BLOCKS]:
        when = max(left + m[M_BLOCK_START], run[Z_DISPATCHED] + m[M_DISPATCH])
        begin(table, stream, first, order, warps, times, slots, m, readies, run, marks, slot, when)


@native
def simulate(
    table: i64, stream: i64, first: i64, order: i64, warps: i64, times: f64, slots: i64, m: f64,
    pipes: f64, banks: f64, rings: f64, heads: i64, queues: f64, tags: i64, ages: i64,
    known: i64, size: int, ranges: i64, shares: f64, used: f64, out: f64, fetched: i64,
    stalls: f64, ends: f64, readies: f64, run: f64, log: i64, marks: f64, fetches: f64,
) -> float:  # fmt: skip
    """Run the blocks `order[…]` on one multiprocessor; the cycles from the first one's start to the last one's end.

    `slots` has, for each resident block: its warps that are alive, and those that wait at its barrier. `ends` gets, for
    each block that ends, when, and how many instructions were issued until then. `log` takes what is issued from
    M_LOG_FROM on by warps that waited since before M_LOG_TO. -1 where all wait.
    """
    now = 0.0
    for slot in range(int(min(m[M_RESIDENT], m[M_BLOCKS]))):
        begin(table, stream, first, order, warps, times, slots, m, readies, run, marks, slot, slot * m[M_DISPATCH])
    while run[Z_FINISHED] < m[M_BLOCKS] and now < m[M_MOST_CYCLES]:
        run[Z_SOONEST] = 1.0e30
        run[Z_ACTIVE] = 0.0
        for s in range(4):
            best = selected(table, warps, times, readies, s, now, m, pipes, banks, rings, heads, run)
            if best < 0:
                continue
            run[Z_ACTIVE] = 1.0
            w = best * WARP_WORDS
            x = best * TIMES
            kind = table[warps[w + W_PC] * TABLE + T_KIND]
            run[Z_ISSUED] = run[Z_ISSUED] + 1.0
            run[Z_STAYS + s] = (best + 1) * table[warps[w + W_PC] * TABLE + T_STAYS]
            gives_way = run[Z_STAYS + s] == 0.0 and table[warps[w + W_PC] * TABLE + T_STALL] < 2
            times[x + X_GAVE] = now + 1.0 if gives_way else 0.0
            attribute(table, stalls, warps, times, w, x, warps[w + W_PC], now, readies[best], m, log, run)
            issue(
                table, stream, warps, times, w, x, s, now, m, pipes, banks, rings, heads, queues, tags, ages, known,
                size, ranges, shares, used, out, fetched, marks, fetches,
            )  # fmt: skip
            times[x + X_LAST] = now
            times[x + X_SINCE] = now + 1.0
            warps[w + W_AFTER] = 1 if kind == K_BRANCH else (2 if kind == K_BARRIER else (3 if kind == K_FENCE else 0))
            gone = 0
            if warps[w + W_LEFT] == 0:
                gone = 1 - next_run(stream, warps, w)
            if gone:
                retire(
                    table, stream, first, order, warps, times, slots, m, readies, run, marks, ends, stalls, best, now
                )  # fmt: skip
            elif kind == K_BARRIER and out[2] != -1.0:
                readies[best] = ready_time(table, warps, times, w, x)
                park(table, warps, times, slots, readies, best, int(m[M_WARPS]), now, m, int(out[2]))
            else:
                readies[best] = ready_time(table, warps, times, w, x)
            if (kind == K_SYNC or kind == K_BULK) and out[3] > 0.0:
                wake(table, warps, times, readies, warps[w + W_SLOT], int(m[M_WARPS]), m, marks)
                run[Z_SOONEST] = now + 1.0
            run[Z_SOONEST] = min(run[Z_SOONEST], readies[best])
        if run[Z_ACTIVE] > 0.0:
            now += 1.0
        elif run[Z_SOONEST] < 1.0e29:
            now = max(now + 1.0, floor(run[Z_SOONEST] + 0.999))
        else:
            return -1.0
    used[U_CYCLES] = max(run[Z_END], max(queues[Q_L2], queues[Q_DRAM]))
    used[U_DONE] = run[Z_FINISHED]
    used[U_L2_SHARE] = used[U_L2_SHARE] / used[U_CYCLES]
    used[U_DRAM_SHARE] = used[U_DRAM_SHARE] / used[U_CYCLES]
    return used[U_CYCLES]


@native
def park(
    table: i64, warps: i64, times: f64, slots: i64, readies: f64, k: int, per: int, now: float, m: f64, how: int,
) -> None:  # fmt: skip
    """A warp has issued a barrier: it waits for the others (or, where `how` is below 0, does not), or frees them."""
    w = k * WARP_WORDS
    slot = warps[w + W_SLOT]
    number = warps[w + W_BARRIER] & 255
    if how >= 0:
        warps[w + W_STATE] = PARKED
        readies[k] = NEVER
    slots[slot * SLOT_WORDS + S_WAITING + number] = slots[slot * SLOT_WORDS + S_WAITING + number] + 1
    slots[slot * SLOT_WORDS + S_WANTED + number] = lshr(warps[w + W_BARRIER], 8) // 32
    release(table, warps, times, slots, readies, slot, number, per, now + m[M_BARRIER])


@native
def release(
    table: i64, warps: i64, times: f64, slots: i64, readies: f64, slot: int, number: int, per: int, when: float
) -> None:  # fmt: skip
    """Let the warps that wait at a barrier go on if all have come: so many as it is for, or all that are alive."""
    here = slot * SLOT_WORDS + S_WAITING + number
    wanted = slots[slot * SLOT_WORDS + S_WANTED + number]
    if wanted == 0:
        wanted = slots[slot * SLOT_WORDS]
    if slots[here] < wanted or slots[here] == 0:
        return
    slots[here] = 0
    for k in range(slot * per, slot * per + per):
        w = k * WARP_WORDS
        if warps[w + W_STATE] == PARKED and warps[w + W_BARRIER] & 255 == number:
            warps[w + W_STATE] = LIVE
            x = k * TIMES
            # what it waited for since it came is the barrier
            times[x + X_NEXT] = max(times[x + X_NEXT], when)
            readies[k] = ready_time(table, warps, times, w, x)
