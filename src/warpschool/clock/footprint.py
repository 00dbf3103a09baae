"""Walks through the streams of traces: which lines they touch, and the chunks' links when streams are joined."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from warpschool.clock.interpreter.layout import CHUNK_WORDS, EVENT_BULK, EVENT_SYNC
from warpschool.clock.native import i64, lshr, native, popc
from warpschool.clock.trace import BlockTrace

_RECENT = 1 << 16
PAIR = 64
"""bytes of two sectors: DRAM brings both for one"""


@native
def _collect(stream: i64, first: i64, warps: int, table: i64, out: i64, recent: i64) -> int:
    """Write all entries that name lines; how many there are. Those in `recent` stand there already."""
    found = 0
    for warp in range(warps):
        chunk = first[warp]
        at = 0
        while True:
            word = stream[chunk * CHUNK_WORDS + at]
            if word == -2:
                break
            if word == -1:
                chunk = stream[chunk * CHUNK_WORDS + CHUNK_WORDS - 1]
                at = 0
                continue
            at += 1
            last = (word & 16777215) + (lshr(word, 24) & 16777215) - 1
            if table[last] != 0:
                count = stream[chunk * CHUNK_WORDS + at] & 65535
                skipped = 0
                if table[last] == EVENT_BULK:
                    skipped = 1
                elif table[last] == EVENT_SYNC:
                    skipped = count
                for k in range(skipped, count):
                    entry = stream[chunk * CHUNK_WORDS + at + 1 + k]
                    place = lshr(entry * 2654435761, 20) % _RECENT
                    if recent[place] != entry:
                        recent[place] = entry
                        out[found] = entry
                        found += 1
                at += 1 + count
    return found


def entries(trace: BlockTrace) -> np.ndarray:
    """All entries of a trace that name lines, `line << 4 | sectors`, each once."""
    out = np.zeros(len(trace.stream), np.int64)
    recent = np.zeros(_RECENT, np.int64)
    found = _collect(trace.stream, trace.first, len(trace.first), trace.events, out, recent)
    return np.unique(out[:found])


def pairs_touched(found: np.ndarray) -> np.ndarray:
    """Addresses of the pairs of sectors that entries name, each once, whoever asks for which half of it."""
    pairs = [2 * (found[found & half != 0] >> 4) + at for at, half in enumerate((0b0011, 0b1100))]
    return np.unique(np.concatenate(pairs)) * PAIR


@native
def _collect_atomics(stream: i64, first: i64, warps: int, table: i64, kinds: i64, lines: i64, turns: i64) -> int:
    """Write each line that atomics are sent to, and what L2 has to do there: sectors, turns, and turns with floats."""
    found = 0
    for warp in range(warps):
        chunk = first[warp]
        at = 0
        while True:
            word = stream[chunk * CHUNK_WORDS + at]
            if word == -2:
                break
            if word == -1:
                chunk = stream[chunk * CHUNK_WORDS + CHUNK_WORDS - 1]
                at = 0
                continue
            at += 1
            last = (word & 16777215) + (lshr(word, 24) & 16777215) - 1
            if table[last] != 0:
                about = stream[chunk * CHUNK_WORDS + at]
                count = about & 65535
                if kinds[last] != 0:
                    for k in range(count):
                        entry = stream[chunk * CHUNK_WORDS + at + 1 + k]
                        lines[found] = lshr(entry, 4)
                        turns[3 * found] = popc(entry & 15)
                        turns[3 * found + kinds[last]] = max((lshr(about, 16) & 65535) // count, 1)
                        found += 1
                at += 1 + count
    return found


def busiest_lines(traces: Sequence[BlockTrace], kinds: np.ndarray) -> np.ndarray:
    """Of lines that atomics are sent to: sectors, turns of integers and turns of floats, of those lines that have most.

    `kinds` says of each instruction whether it is an atomic one (1), or one of floats (2). Lanes with one address take
    turns.
    """
    lines, turns = [np.zeros(0, np.int64)], [np.zeros((0, 3), np.int64)]
    for trace in traces if kinds.any() else ():
        line, turn = np.zeros(len(trace.stream), np.int64), np.zeros(3 * len(trace.stream), np.int64)
        found = _collect_atomics(trace.stream, trace.first, len(trace.first), trace.events, kinds, line, turn)
        lines.append(line[:found])
        turns.append(turn.reshape(-1, 3)[:found])
    one, place = np.unique(np.concatenate(lines), return_inverse=True)
    total = np.zeros((len(one), 3))
    np.add.at(total, place, np.concatenate(turns))
    return total[np.unique(total.argmax(0))] if len(one) else total


def relinked(trace: BlockTrace, base: int) -> np.ndarray:
    """A trace's stream where its chunks are numbered from `base` on."""
    chunks = trace.stream.reshape(-1, CHUNK_WORDS).copy()
    chunks[:, -1] += np.where(chunks[:, -1] >= 0, base, 0)
    return chunks.reshape(-1)
