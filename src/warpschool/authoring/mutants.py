"""Mutants: kernels that differ from a right one by one small mistake, made by rules about tokens of CUDA C++.

A mutant says which rule made it, where, and what it replaced. Nothing here knows whether one is wrong: `row <= M` may
write out of bounds, `blockIdx.x * TILE + threadIdx.x` the same the other way round is the same kernel. Equal sources,
seeds and numbers give equal mutants on every machine.
"""

from __future__ import annotations

import itertools
import random
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from warpschool.compile.source import blank, line_of, normalise

_TOKEN = re.compile(
    r"""
      (?P<text>   "(?:\\.|[^"\\\n])*" | '(?:\\.|[^'\\\n])*' )
    | (?P<number> \.?\d(?:[eEpP][+-]|[\w.])* )
    | (?P<word>   [A-Za-z_]\w* )
    | (?P<sign>   <<= | >>= | [-+*/%&|^!<>=]= | << | >> | && | \|\| | -> | \+\+ | -- | \S )
    """,
    re.VERBOSE,
)
_DIRECTIVE = re.compile(r"^[ \t]*#[^\n]*|\bstatic_assert\s*\([^;]*;", re.MULTILINE)
_Table = dict[str, tuple[str, ...]]
_ARITHMETIC: _Table = {
    "+": ("-", "*"), "-": ("+",), "*": ("+", "-"), "/": ("*", "+"), "%": ("/",), "<<": (">>",), ">>": ("<<",),
    "&": ("|",), "|": ("&",), "^": ("|",),
}  # fmt: skip
_COMPARISON: _Table = {
    "<": ("<=", "!=", ">"), "<=": ("<", ">="), ">": (">=", "!="), ">=": (">", "<="), "==": ("!=", ">="),
    "!=": ("==", ">"),
}  # fmt: skip
_LOGIC: _Table = {"&&": ("||",), "||": ("&&",)}
_ASSIGNMENT: _Table = {
    "+=": ("=", "-="), "-=": ("+=",), "*=": ("+=",), "/=": ("*=",), "|=": ("=",), "^=": ("=",), "<<=": (">>=",),
    ">>=": ("<<=",),
}  # fmt: skip
_TYPES = {
    "float": ("int", "short"), "int": ("unsigned", "short", "signed char", "float"), "half": ("int",),
    "half2": ("int",), "unsigned": ("int", "unsigned short"), "double": ("float",), "size_t": ("short",),
    "float4": ("float2",), "float2": ("float",), "short": ("signed char",), "bool": ("float",),
}  # fmt: skip
_BARRIERS = re.compile(
    r"__syncthreads\w*|__syncwarp|__threadfence\w*|cp_async_\w+|__pipeline_\w+|\w*_wait\w*|\w*fence\w*"
)
_AXES = {"x": "y", "y": "x", "z": "x", "w": "x"}
_SPOKEN = frozenset([
    "if", "else", "for", "while", "do", "return", "break", "continue", "switch", "case", "const", "static", "constexpr",
    "template", "typename", "struct", "using", "asm", "volatile", "extern", "void", "sizeof", "reinterpret_cast",
    "static_cast", "true", "false", "inline", "auto", "namespace", "operator", "public", "union", "enum", "default",
    *_TYPES, "char", "long", "signed", "uint2", "uint4", "int4", "__half", "__half2", "x", "y", "z", "w",
])  # fmt: skip


@dataclass(frozen=True)
class Token:
    """A token outside of comments, directives and assertions: its kind ("text", "number", "word", "sign") and place."""

    kind: str
    text: str
    at: int

    @property
    def end(self) -> int:
        return self.at + len(self.text)


@dataclass(frozen=True)
class Mutant:
    """One mistake: `old` at character `at` of the source, in `line`, became `new`; `source` is the whole file."""

    rule: str
    line: int
    old: str
    new: str
    at: int
    source: str

    def __str__(self) -> str:
        return f"line {self.line}, {self.rule}: `{self.old}` became `{self.new}`"


Edit = tuple[int, int, str]
"""First character, the one behind the last, and what stands there instead."""


def read_tokens(source: str) -> list[Token]:
    """Return a source's tokens; what stands in comments, directives and static assertions is left out."""
    text = _DIRECTIVE.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), blank(normalise(source)))
    return [Token(str(match.lastgroup), match[0], match.start()) for match in _TOKEN.finditer(text)]


def candidates(source: str) -> dict[str, list[Mutant]]:
    """Return every mutant that the rules make of a source, by rule, in the order of the file; no two are alike."""
    text = normalise(source)
    tokens = read_tokens(text)
    seen = {text}
    found: dict[str, list[Mutant]] = {}
    for rule, edits in RULES.items():
        for start, end, new in edits(tokens):
            changed = text[:start] + new + text[end:]
            if changed not in seen:
                seen.add(changed)
                mutant = Mutant(rule, line_of(text, start), text[start:end], new, start, changed)
                found.setdefault(rule, []).append(mutant)
    return found


def mutants(source: str, *, seed: int = 0) -> Iterator[Mutant]:
    """Yield all mutants of a source in an order that the seed draws, in which the rules take turns."""
    chance = random.Random(zlib.crc32(source.encode()) ^ seed)
    piles = {rule: chance.sample(made, len(made)) for rule, made in candidates(source).items()}
    while piles:
        for rule in list(piles):
            yield piles[rule].pop()
            if not piles[rule]:
                del piles[rule]


def endless(source: str) -> list[Mutant]:
    """Return every loop of a source made endless, in the order of the file: without its step, without its condition.

    The first stays where it is; the second walks on, out of its arrays. A `while` has a condition only. Some loops end
    all the same, by a `break`, or since they are never entered.
    """
    text = normalise(source)
    found = []
    for rule, start, end, new in _loops(read_tokens(text)):
        changed = text[:start] + new + text[end:]
        found.append(Mutant(rule, line_of(text, start), text[start:end], new, start, changed))
    return sorted(found, key=lambda mutant: (mutant.at, mutant.rule))


def _loops(tokens: Sequence[Token]) -> Iterator[tuple[str, int, int, str]]:
    """The rule, and what it replaces by what, of each loop."""
    for at, token in enumerate(tokens[:-1]):
        close = _closing(tokens, at + 1) if token.text in ("for", "while") and tokens[at + 1].text == "(" else None
        if close is None or close == at + 2:
            continue
        if token.text == "while":
            yield "no condition", tokens[at + 2].at, tokens[close - 1].end, "true"
            continue
        inside = [k for k in range(at, close) if tokens[k].text == ";"]
        if len(inside) != 2:  # over the elements of an array
            continue
        first, second = inside
        if close > second + 1:
            yield "no step", tokens[second + 1].at, tokens[close - 1].end, ""
        if second > first + 1:
            yield "no condition", tokens[first + 1].at, tokens[second - 1].end, ""


# ---------------------------------------------------------------- rules


def _swapped(table: _Table) -> Callable[[Sequence[Token]], Iterator[Edit]]:
    """A sign between two operands is another one."""

    def edits(tokens: Sequence[Token]) -> Iterator[Edit]:
        for before, token in itertools.pairwise(tokens):
            is_infix = before.kind in ("word", "number") or before.text in (")", "]")
            if token.kind == "sign" and is_infix and before.text not in _SPOKEN - set("xyzw"):
                for other in table.get(token.text, ()):
                    yield token.at, token.end, other

    return edits


def _guards(tokens: Sequence[Token]) -> Iterator[Edit]:
    """A comparison between whole words, or with a number, holds always: the guard is gone."""
    for left, sign, right in zip(tokens, tokens[1:], tokens[2:], strict=False):
        plain = left.kind == "word" and right.kind in ("word", "number")
        if plain and sign.text in _COMPARISON and left.text not in _SPOKEN and right.text not in _SPOKEN:
            yield left.at, right.end, "true"


def _barriers(tokens: Sequence[Token]) -> Iterator[Edit]:
    """A call that only orders is gone."""
    for at, token in enumerate(tokens):
        if not _BARRIERS.fullmatch(token.text) or not 0 < at < len(tokens) - 2:
            continue
        if tokens[at + 1].text == "(" and tokens[at - 1].text in (";", "{", "}", ")"):
            close = _closing(tokens, at + 1)
            if close is not None and close + 1 < len(tokens) and tokens[close + 1].text == ";":
                yield token.at, tokens[close + 1].end, ";"


def _jumps(tokens: Sequence[Token]) -> Iterator[Edit]:
    """`return;`, `break;` and `continue;` are gone."""
    for word, end in itertools.pairwise(tokens):
        if word.text in ("return", "break", "continue") and end.text == ";":
            yield word.at, end.end, ";"


def _axes(tokens: Sequence[Token]) -> Iterator[Edit]:
    for dot, axis in itertools.pairwise(tokens):
        if dot.text == "." and axis.text in _AXES:
            yield axis.at, axis.end, _AXES[axis.text]


def _indices(tokens: Sequence[Token]) -> Iterator[Edit]:
    """What stands between brackets: a step aside, exchanged with its neighbour, or another name of the file."""
    inside = [(at, close) for at, token in enumerate(tokens) if token.text == "[" and (close := _closing(tokens, at))]
    for at, close in inside:
        first, last = tokens[at + 1], tokens[close - 1]
        if close == at + 1 or (tokens[at - 1].text in ("float", "]") and first.kind == "number"):
            continue
        yield last.end, last.end, " + 1"
        if close + 1 < len(tokens) and tokens[close + 1].text == "[":
            yield from _exchanged(tokens, at, close)


def _exchanged(tokens: Sequence[Token], at: int, close: int) -> Iterator[Edit]:
    """`[row][col]` as `[col][row]`."""
    end = _closing(tokens, close + 1)
    if end is None or end == close + 2:
        return
    begin, stop = tokens[at + 1].at, tokens[end - 1].end
    words = [token.text for token in tokens[at + 1 : close]], [token.text for token in tokens[close + 2 : end]]
    if words[0] != words[1]:
        yield begin, stop, f"{' '.join(words[1])}][{' '.join(words[0])}"


def _names(tokens: Sequence[Token]) -> Iterator[Edit]:
    """A name is the one that is used before or after it: `row` for `col`, `M` for `N`."""
    used = [
        token for before, token, after in zip(tokens, tokens[1:], tokens[2:], strict=False)
        if token.kind == "word" and token.text not in _SPOKEN and not token.text.startswith("__")
        and before.text not in (".", "->", *_SPOKEN, *"*&")
        and after.text not in ("(", ".", "[", "::", "<", "{", "=", ":")
    ]  # fmt: skip
    for token, after in itertools.pairwise(used):
        if after.text != token.text:
            yield token.at, token.end, after.text
            yield after.at, after.end, token.text


def _constants(tokens: Sequence[Token]) -> Iterator[Edit]:
    """Integers one more, one less, twice; floats another value."""
    for token in tokens:
        if token.kind != "number":
            continue
        if re.fullmatch(r"\d+", token.text):
            value = int(token.text)
            yield token.at, token.end, str(value + 1)
            if value > 0:
                yield token.at, token.end, str(value - 1)
                yield token.at, token.end, str(2 * value)
        elif re.fullmatch(r"\d*\.\d*(?:[eE][-+]?\d+)?f?", token.text):
            yield token.at, token.end, "1.0f" if float(token.text.rstrip("f")) == 0 else "0.5f * " + token.text


def _types(tokens: Sequence[Token]) -> Iterator[Edit]:
    """A variable of another type; parameters of kernels stay, since the header promises them."""
    depth = 0
    for token, after in itertools.pairwise(tokens):
        depth += (token.text == "{") - (token.text == "}")
        if depth and token.kind == "word" and (after.kind == "word" or after.text in (")", ">")):
            for other in _TYPES.get(token.text, ()):
                yield token.at, token.end, other


def _signs(tokens: Sequence[Token]) -> Iterator[Edit]:
    """`++k` as `--k`, and no `-` or `!` in front of an operand."""
    for before, token in itertools.pairwise(tokens):
        if token.text in ("++", "--"):
            yield token.at, token.end, "--" if token.text == "++" else "++"
        elif token.text in ("!", "-") and before.text in ("(", "=", ",", "?", ":", "[", "return", *_LOGIC):
            yield token.at, token.end, ""


def _statements(tokens: Sequence[Token]) -> Iterator[Edit]:
    """An assignment, or a call for its effect, is gone."""
    starts = (at for at in range(1, len(tokens) - 1) if tokens[at - 1].text in (";", "{", "}"))
    for at in starts:
        first, second = tokens[at], tokens[at + 1]
        if first.kind != "word" or first.text in _SPOKEN or _BARRIERS.fullmatch(first.text):
            continue
        end = next((k for k in range(at, len(tokens)) if tokens[k].text in (";", "{", "}")), at)
        has_effect = any(token.text.endswith("=") or token.text == "(" for token in tokens[at:end])
        if tokens[end].text == ";" and second.text in ("=", "[", "+=", "(") and has_effect:
            yield first.at, tokens[end].end, ";"


def _closing(tokens: Sequence[Token], at: int) -> int | None:
    """The place of the bracket that closes the one at `at`; None where none does."""
    pairs = {"(": ")", "[": "]"}
    opened, closed, depth = tokens[at].text, pairs[tokens[at].text], 0
    for place in range(at, len(tokens)):
        depth += (tokens[place].text == opened) - (tokens[place].text == closed)
        if not depth:
            return place
    return None


RULES: dict[str, Callable[[Sequence[Token]], Iterator[Edit]]] = {
    "arithmetic": _swapped(_ARITHMETIC),
    "comparison": _swapped(_COMPARISON),
    "logic": _swapped(_LOGIC),
    "assignment": _swapped(_ASSIGNMENT),
    "guard": _guards,
    "barrier": _barriers,
    "jump": _jumps,
    "axis": _axes,
    "index": _indices,
    "name": _names,
    "constant": _constants,
    "type": _types,
    "sign": _signs,
    "statement": _statements,
}
