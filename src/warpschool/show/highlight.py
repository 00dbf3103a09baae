"""CUDA C++ split into coloured pieces, line by line; terminal and HTML use the same pieces."""

from __future__ import annotations

import re

_TOKEN = re.compile(
    r"""(?P<comment>//[^\n]*|/\*.*?(?:\*/|\Z))
    |(?P<string>"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])+')
    |(?P<directive>^[ \t]*\#[^\n]*)
    |(?P<number>(?<![\w.])(?:0[xX][\da-fA-F']+|\d[\d']*\.?\d*(?:[eE][+-]?\d+)?|\.\d+)[fFuUlL]*)
    |(?P<name>[A-Za-z_]\w*)
    |(?P<plain>\s+|.)""",
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)
_KEYWORDS = frozenset({
    "alignas", "asm", "auto", "break", "case", "const", "constexpr", "continue", "default", "do", "else", "enum",
    "extern", "for", "goto", "if", "inline", "namespace", "operator", "register", "restrict", "return", "sizeof",
    "static", "static_assert", "struct", "switch", "template", "typedef", "typename", "union", "using", "volatile",
    "while", "__restrict__",
})  # fmt: skip
_TYPES = frozenset({
    "bool", "char", "double", "float", "half", "int", "long", "short", "signed", "size_t", "unsigned", "void",
    "int8_t", "int16_t", "int32_t", "int64_t", "uint8_t", "uint16_t", "uint32_t", "uint64_t", "half2", "float2",
    "float3", "float4", "int2", "int4", "double2", "uint2", "uint4", "__half", "__half2", "dim3",
})  # fmt: skip
_CUDA = frozenset({
    "threadIdx", "blockIdx", "blockDim", "gridDim", "warpSize", "__global__", "__device__", "__host__", "__shared__",
    "__constant__", "__launch_bounds__", "__forceinline__", "__noinline__", "__syncthreads", "__syncwarp",
})  # fmt: skip
_CUDA_CALL = re.compile(r"__(?:shfl|any|all|ballot|match|reduce)\w*_sync|atomic[A-Z]\w*|__\w+_rn|__dp[24]a|__ldg|cuda")

KINDS = ("plain", "comment", "string", "directive", "number", "keyword", "type", "cuda")
Piece = tuple[str, str]
"""(kind, text); the kind is one of `KINDS`"""


def coloured_lines(source: str) -> list[list[Piece]]:
    """Split a source into lines of pieces; the texts of a line joined are the line, without its line break."""
    lines: list[list[Piece]] = [[]]
    for match in _TOKEN.finditer(source):
        kind = match.lastgroup or "plain"
        if kind == "name":
            kind = _kind_of_name(match.group())
        for number, part in enumerate(match.group().split("\n")):
            if number:
                lines.append([])
            if part:
                _append(lines[-1], kind, part)
    if source.endswith("\n"):
        lines.pop()
    return lines


def _append(line: list[Piece], kind: str, text: str) -> None:
    if line and line[-1][0] == kind:
        line[-1] = (kind, line[-1][1] + text)
    else:
        line.append((kind, text))


def _kind_of_name(name: str) -> str:
    if name in _KEYWORDS:
        return "keyword"
    if name in _TYPES:
        return "type"
    return "cuda" if name in _CUDA or _CUDA_CALL.fullmatch(name) else "plain"
