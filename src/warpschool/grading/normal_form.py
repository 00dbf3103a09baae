"""What is left of a kernel when names, layout and spelling are taken away: runs of tokens, and runs of instructions.

A text becomes tokens without comments, names, values, brackets and integer types; what may be written in two ways
(`k++` and `k += 1`, `a > b` and `b < a`, `static_cast<float>(x)` and `(float)x`) becomes one of them. Overlapping runs
of tokens are hashed, and of each window of hashes the smallest is kept (winnowing: Schleimer, Wilkerson and Aiken,
SIGMOD 2003), so that an agreement is local: functions and declarations in another order stay recognisable.

Compiled code becomes runs of opcodes. The compiler has inlined helpers and dropped temporaries by then, so what was
only told in another way is the same again; but so are two people's loops, which is why it is the second witness.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

from warpschool.compile.source import blank, normalise

RUN, WINDOW = 10, 5
"""tokens in a run, and runs of which one is kept: shorter agreements are chance"""
CODE_RUN, CODE_WINDOW = 8, 3
_TOKEN = re.compile(
    r""" "(?:\\.|[^"\\\n])*" | '(?:\\.|[^'\\\n])*' | [A-Za-z_]\w* | \.?\d(?:[eEpP][+-]|'\w|[\w.])* | <<= | >>=
    | [-+*/%&|^!<>=]= | << | >> | && | \|\| | -> | :: | \+\+ | -- | \S """,
    re.VERBOSE,
)
_KEPT = frozenset([
    "if", "else", "for", "while", "do", "return", "break", "continue", "switch", "case", "template", "struct", "asm",
    "float", "double", "half", "bool", "float2", "float4", "int4", "__half", "__half2", "__shared__", "__global__",
    "__device__", "__constant__", "__syncthreads", "__syncwarp", "__shfl_down_sync", "__shfl_xor_sync", "atomicAdd",
    "threadIdx", "blockIdx", "blockDim", "gridDim", "x", "y", "z", "w", "true", "false",
])  # fmt: skip
_DROPPED = frozenset([
    "const", "constexpr", "static", "inline", "extern", "__restrict__", "__forceinline__", "__noinline__", "volatile",
    "int", "unsigned", "signed", "long", "short", "char", "size_t", "auto", "int32_t", "uint32_t", "int64_t",
    "uint64_t", "typename", "std", "::", "(", ")", "{", "}", "static_cast", "reinterpret_cast",
])  # fmt: skip
_SAME = {">": "<", ">=": "<=", ",": ";", "__half": "half", "__half2": "half2", "fmaf": "*"}
_DIRECTIVE = re.compile(r"^[ \t]*#[ \t]*(?:include|pragma|undef|if|ifdef|ifndef|else|endif)\b[^\n]*", re.MULTILINE)
_CAST = re.compile(r"\b(?:static|reinterpret)_cast\s*<([^<>;]*)>")
_COMPOUND = {"+": "+=", "-": "-=", "*": "*=", "/": "/=", "|": "|=", "^": "^=", "&": "&="}
_OPCODE = re.compile(r"(?:@\S+\s+)?([^\s;]*)")
_GOES_ON = [[sign] for sign in ("+", "-", "*", "/", "%", "<<", ">>", "&", "|", "^", "?", "<", ">")]
_LOC = re.compile(r"\.loc\s+(\d+)\s+(\d+)")
_CALLER = re.compile(r"inlined_at\s+(\d+)\s+(\d+)")


@dataclass(frozen=True)
class KernelToken:
    """A token without its name, and the line on which it stands."""

    kind: str
    line: int


@dataclass(frozen=True)
class Form:
    """The normal form of one kernel: `kept` has the chosen hashes with a line of each, `all` has every run's hash."""

    kept: dict[int, int]
    all: frozenset[int]


def tokens(source: str) -> list[KernelToken]:
    """Return the tokens of a kernel: names as `n`, numbers as `0`, texts as `s`; CUDA's words as they are."""
    text = _DIRECTIVE.sub(lambda found: " " * len(found[0]), blank(normalise(source)))
    text = _CAST.sub(lambda found: re.sub(r"[^\n]", " ", found[0][: found.start(1) - found.start()]) + found[1], text)
    words: list[tuple[str, int]] = []
    line, at = 1, 0
    for match in _TOKEN.finditer(text):
        line += text.count("\n", at, match.start())
        at = match.start()
        if match[0] not in _DROPPED:
            words.append((match[0], line))
    found = [KernelToken(_kind(word), place) for word, place in _one_spelling(words)]
    return [token for before, token in zip([None, *found], found, strict=False)
            if before is None or token.kind != ";" or before.kind != ";"]  # fmt: skip


def _one_spelling(words: Sequence[tuple[str, int]]) -> list[tuple[str, int]]:
    """Steps by one as `k ++`, and `a = a + b` as `a += b`."""
    found: list[tuple[str, int]] = []
    at = 0
    while at < len(words):
        word, line = words[at]
        after = [text for text, _ in words[at + 1 : at + 4]]
        if word in ("++", "--") and after and _is_name(after[0]):
            found += [(after[0], line), (word, line)]
            at += 2
        elif word in ("+=", "-=") and after[:1] == ["1"] and after[1:2] not in _GOES_ON:
            found.append((word[0] * 2, line))
            at += 2
        elif word == "=" and found and len(after) > 1 and after[0] == found[-1][0] and after[1] in _COMPOUND:
            found.append((_COMPOUND[after[1]], line))
            at += 3
        else:
            found.append((word, line))
            at += 1
    return found


def _is_name(word: str) -> bool:
    return word[0].isalpha() or word[0] == "_"


def _kind(word: str) -> str:
    word = _SAME.get(word, word)
    if word in _KEPT:
        return word
    if word[0] in "\"'":
        return "s"
    if _is_name(word):
        return "n"
    return "0" if word[0].isdigit() or (word[0] == "." and len(word) > 1) else word


def text_form(source: str) -> Form:
    """Return the normal form of a kernel's text."""
    return _winnowed([_hashes(tokens(source), RUN)], WINDOW)


def code_form(ptx: str) -> Form:
    """Return the normal form of a kernel's PTX with line information; lines are those of the source."""
    functions: list[list[KernelToken]] = [[]]
    line = 0
    for row in ptx.split("\n"):
        text = row.strip()
        if text.startswith(".loc"):
            where = _CALLER.search(text) or _LOC.match(text)
            line = int(where[2]) if where is not None and where[1] == "1" and where[2] != "0" else line
        elif text == "{" or ".entry" in text:
            functions.append([])
        elif text.endswith(";") and text[0] not in "./$":
            functions[-1].append(KernelToken(_OPCODE.match(text)[1], line))  # type: ignore[index] # it matches anything
    return _winnowed([_hashes(function, CODE_RUN) for function in functions], CODE_WINDOW)


def _hashes(found: Sequence[KernelToken], size: int) -> list[tuple[int, int]]:
    """The hash of each run of tokens, and the line where it begins."""
    runs = (found[at : at + size] for at in range(len(found) - size + 1))
    return [(zlib.crc32("\0".join(token.kind for token in run).encode()), run[0].line) for run in runs]


def _winnowed(parts: Sequence[list[tuple[int, int]]], size: int) -> Form:
    kept: dict[int, int] = {}
    for hashes in parts:
        for at in range(max(1, len(hashes) - size + 1)):
            if window := hashes[at : at + size]:
                value, line = min(reversed(window), key=lambda item: item[0])
                kept.setdefault(value, line)
    return Form(kept, frozenset(value for hashes in parts for value, _ in hashes))
