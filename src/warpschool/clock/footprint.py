"""Walks through the streams of traces: which lines they touch, and the chunks' links when streams are joined."""

from __future__ import annotations

import numpy as np

from warpschool.clock.interpreter.layout import CHUNK_WORDS, EVENT_BULK, EVENT_SYNC
from warpschool.clock.native import i64, lshr, native
from warpschool.clock.trace import BlockTrace

_RECENT = 1 << 16


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


def relinked(trace: BlockTrace, base: int) -> np.ndarray:
    """A trace's stream where its chunks are numbered from `base` on."""
    chunks = trace.stream.reshape(-1, CHUNK_WORDS).copy()
    chunks[:, -1] += np.where(chunks[:, -1] >= 0, base, 0)
    return chunks.reshape(-1)
