"""Pairs of kernels that are alike after renaming and formatting: shown to a teacher, never scored.

A source becomes a string of tokens without comments, names or layout; overlapping runs of tokens are hashed, and of
each window of hashes the smallest is kept (winnowing: Schleimer, Wilkerson and Aiken, SIGMOD 2003). Two files are as
alike as the kept hashes that they share. What the starter gives everybody does not count, nor does what most of the
class wrote.
"""

from __future__ import annotations

import re
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from warpschool.compile.source import blank, normalise
from warpschool.course import Course

RUN = 12
"""tokens in a run: shorter agreements are chance"""
WINDOW = 8
LEAST_OWN = 6
"""fingerprints of its own that a file needs before it is compared: two lines are alike for everybody"""
COMMON = 0.5
"""a fingerprint that a larger part of the class has is nobody's own"""
_TOKEN = re.compile(
    r""" "(?:\\.|[^"\\\n])*" | '(?:\\.|[^'\\\n])*' | [A-Za-z_]\w* | \.?\d[\w.]* | [-+*/%&|^!<>=]= | << | >> | && | \|\|
    | -> | \+\+ | -- | \S """,
    re.VERBOSE,
)
_KEPT = frozenset([
    "if", "else", "for", "while", "do", "return", "break", "continue", "switch", "case", "const", "static",
    "constexpr", "template", "struct", "unroll", "pragma", "asm", "float", "double", "half", "int", "unsigned",
    "long", "short", "char", "bool", "float2", "float4", "int4", "__half", "__half2", "__shared__",
    "__global__", "__device__", "__constant__", "__syncthreads", "__syncwarp", "__shfl_down_sync",
    "__shfl_xor_sync", "atomicAdd", "threadIdx", "blockIdx", "blockDim", "gridDim", "x", "y", "z", "w", "true",
    "false",
])  # fmt: skip


@dataclass(frozen=True)
class KernelToken:
    """A token without its name, and the line on which it stands."""

    kind: str
    line: int


@dataclass(frozen=True)
class AlikePair:
    """Two submissions that share `shared` fingerprints, the part `alike` of the smaller one's own.

    `lines` holds the matching lines of both files, first and second, in order.
    """

    first: str
    second: str
    alike: float
    shared: int
    lines: tuple[tuple[int, ...], tuple[int, ...]]


def tokens(source: str) -> list[KernelToken]:
    """Return the tokens of a kernel: names as `n`, numbers as `0`, texts as `s`; CUDA's words as they are."""
    text = blank(normalise(source))
    found = []
    line, at = 1, 0
    for match in _TOKEN.finditer(text):
        line += text.count("\n", at, match.start())
        at = match.start()
        found.append(KernelToken(_kind(match[0]), line))
    return found


def _kind(word: str) -> str:
    if word in _KEPT:
        return word
    if word[0] in "\"'":
        return "s"
    if word[0].isalpha() or word[0] == "_":
        return "n"
    return "0" if word[0].isdigit() or (word[0] == "." and len(word) > 1) else word


def fingerprints(source: str) -> dict[int, int]:
    """Return the kept hashes of a source, each with the line where its run of tokens begins."""
    hashes = _hashes(source)
    kept: dict[int, int] = {}
    for at in range(max(1, len(hashes) - WINDOW + 1)):
        window = hashes[at : at + WINDOW]
        if window:
            value, line = min(reversed(window), key=lambda item: item[0])
            kept.setdefault(value, line)
    return kept


def _hashes(source: str) -> list[tuple[int, int]]:
    """The hash of each run of tokens, and the line where it begins."""
    found = tokens(source)
    runs = [found[at : at + RUN] for at in range(len(found) - RUN + 1)]
    return [(zlib.crc32("\0".join(token.kind for token in run).encode()), run[0].line) for run in runs]


def alike_pairs(sources: Mapping[str, str], *, starters: Sequence[str] = (), least: float = 0.6) -> list[AlikePair]:
    """Return the pairs of submissions of one step that are alike, the most alike first.

    `sources`: who -> source; `starters`: texts that everybody was given.
    """
    given = {value for starter in starters for value, _ in _hashes(starter)}
    own = {who: {v: n for v, n in fingerprints(text).items() if v not in given} for who, text in sources.items()}
    usual = Counter(value for found in own.values() for value in found)
    most = max(2, int(COMMON * len(sources)))
    own = {who: {v: n for v, n in found.items() if usual[v] <= most} for who, found in own.items()}
    pairs = []
    for first, second in combinations(sorted(who for who, found in own.items() if len(found) >= LEAST_OWN), 2):
        shared = own[first].keys() & own[second].keys()
        alike = len(shared) / min(len(own[first]), len(own[second]))
        if alike >= least:
            lines = tuple(tuple(sorted({own[who][value] for value in shared})) for who in (first, second))
            pairs.append(AlikePair(first, second, round(alike, 3), len(shared), (lines[0], lines[1])))
    return sorted(pairs, key=lambda pair: (-pair.alike, -pair.shared, pair.first, pair.second))


def alike_kernels(
    sources: Mapping[str, Mapping[str, str]], course: Course, *, least: float
) -> dict[str, list[AlikePair]]:
    """Step -> its pairs; `sources`: step -> who -> source. What the course's starters give does not count."""
    found = {}
    for name, by_student in sources.items():
        starter = course.step(name).starter
        given = [starter.read_text("utf-8")] if starter is not None else []
        found[name] = list(alike_pairs(by_student, starters=given, least=least))
    return found
