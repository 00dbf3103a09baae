"""Where warps go: lanes that part at branches, and meet again."""

from __future__ import annotations

from warpschool.clock.interpreter.layout import (
    A_MOD,
    AT_SYNC,
    BREGS,
    FLAGS,
    IMM,
    LIVE,
    OP,
    OP_BRA,
    OP_BREAK,
    OP_BSSY,
    OP_BSYNC,
    OP_CALL,
    OP_DIV,
    OP_EXIT,
    OP_RET,
    OP_WARPSYNC,
    PARTS,
    PS0,
    PS0_NOT,
    READY,
    TARGET,
    A,
)
from warpschool.clock.interpreter.registers import fetch, predicate
from warpschool.clock.native import ctz, i32, i64, lshr, native, u32


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
    if op == OP_EXIT or op == OP_BREAK:
        lanes = lanes & predicate(preds, warp, f[i + PS0], f[i + PS0_NOT])
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
