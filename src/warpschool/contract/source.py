"""The one reader of CUDA C++ declarations: top-level constexpr ints, __global__ signatures, __constant__ symbols.

This is no compiler: it reads declarations at file scope and inside `extern "C" { }`, skips bodies, comments,
preprocessor lines and `#if 0` blocks, and leaves everything else to NVRTC.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from warpschool.compile.host_code import device_part
from warpschool.compile.source import blank
from warpschool.contract.expressions import (
    EvaluationError,
    Expression,
    PlacedToken,
    TokenReader,
    evaluate,
    parse_expression,
)
from warpschool.errors import ContractError

# ---------------------------------------------------------------- types

_QUALIFIERS = {"const", "volatile", "__restrict__", "__restrict", "restrict", "__grid_constant__", "struct", "register"}
"""Words that change how a value may be used, but not what it is."""


@dataclass(frozen=True)
class CType:
    """A type: its name in messages, the NumPy type of one component, and the components of one value (4 for float4)."""

    name: str
    dtype: np.dtype
    lanes: int = 1

    @property
    def is_integer(self) -> bool:
        return self.dtype.kind in "iu"

    @property
    def nbytes(self) -> int:
        return self.dtype.itemsize * self.lanes


# One row a type: NumPy's name, then every way to spell it in C. The first spelling is the one in messages.
_SCALARS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("float32", ("float",)),
    ("float64", ("double",)),
    ("float16", ("half", "__half")),
    ("int32", ("int", "signed", "signed int", "int32_t")),
    ("uint32", ("unsigned", "unsigned int", "uint32_t")),
    ("int8", ("signed char", "int8_t", "char")),  # plain char is signed on every GPU
    ("uint8", ("unsigned char", "uint8_t")),
    ("int16", ("short", "short int", "signed short", "int16_t")),
    ("uint16", ("unsigned short", "unsigned short int", "uint16_t")),
    ("int64", ("long long", "long long int", "int64_t", "long", "long int", "ptrdiff_t")),
    ("uint64", ("unsigned long long", "unsigned long long int", "uint64_t", "size_t", "unsigned long")),
    ("bool", ("bool",)),
)
_VECTORS: tuple[tuple[str, str], ...] = (
    ("float32", "float"), ("float64", "double"), ("int32", "int"), ("uint32", "uint"), ("int8", "char"),
    ("uint8", "uchar"), ("int16", "short"), ("uint16", "ushort"), ("int64", "longlong"), ("uint64", "ulonglong"),
)  # fmt: skip


C_TYPES = {word: CType(spellings[0], np.dtype(dtype)) for dtype, spellings in _SCALARS for word in spellings}
C_TYPES |= {f"{base}{n}": CType(f"{base}{n}", np.dtype(dtype), n) for dtype, base in _VECTORS for n in (1, 2, 3, 4)}
C_TYPES |= dict.fromkeys(("half2", "__half2"), CType("half2", np.dtype("float16"), 2))


def find_type(words: list[str]) -> CType | None:
    """Return the type that these words spell, qualifiers and `std::` ignored, or None when there is none."""
    kept = [word for word in words if word not in _QUALIFIERS and word not in ("std", "::")]
    return C_TYPES.get(" ".join(kept)) or C_TYPES.get(" ".join(_in_usual_order(kept)))


def _in_usual_order(words: list[str]) -> list[str]:
    """Sign, then length, then base: `int unsigned` and `long unsigned int long` are legal C too."""
    ordered = sorted(words, key=lambda word: {"unsigned": 0, "signed": 0, "short": 1, "long": 1}.get(word, 2))
    return [word for word in ordered if word != "int"] if len(ordered) > 1 else ordered


# ---------------------------------------------------------------- declarations

_LINKAGE = re.compile(r'\bextern\s*"C"')
_DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n\\]|\\.|\\\n)*", re.MULTILINE | re.DOTALL)
_MACRO = re.compile(r"#[ \t]*define[ \t]+(\w+)[ \t]+(.*)")
_C_TOKEN = re.compile(r"(?P<integer>\d[\w.']*)|(?P<name>\w+)|(?P<sign>\"C\"|::|<<|>>|[<>=!]=|&&|\|\||\S)")
_ATTRIBUTES = {
    "__launch_bounds__", "__attribute__", "__cluster_dims__", "__maxnreg__", "__block_size__", "alignas", "_Pragma",
}  # fmt: skip
_BRACES = {"{": 1, "}": -1}
_BRACKETS = {"(": 1, "[": 1, ")": -1, "]": -1} | _BRACES
_MAX_TOKENS = 200_000


@dataclass(frozen=True)
class Constexpr:
    """A top-level `constexpr int`; `tree` is None where its initialiser is beyond the header's expressions."""

    name: str
    text: str
    line: int
    tree: Expression | None


@dataclass(frozen=True)
class SourceParameter:
    """One parameter of a kernel in the source; `ctype` is None for a type that no header can name.

    `type` is its type without qualifiers, "float*"; `depth` the number of its pointers.
    """

    name: str
    text: str
    type: str
    ctype: CType | None
    depth: int
    is_const: bool

    @property
    def is_pointer(self) -> bool:
        return self.depth > 0

    @property
    def element(self) -> np.dtype | None:
        """What an array for it holds, or it is itself: NumPy's type, None where it is not one of the plain ones."""
        if self.depth > 1:
            return np.dtype(np.uint64)
        return self.ctype.dtype if self.ctype else None


@dataclass(frozen=True)
class Signature:
    """A __global__ function of the source; `is_extern_c` says whether its name survives compilation."""

    name: str
    line: int
    parameters: tuple[SourceParameter, ...]
    is_extern_c: bool


@dataclass(frozen=True)
class ConstantSymbol:
    """A __constant__ variable at file scope."""

    name: str
    line: int
    ctype: CType | None


@dataclass(frozen=True)
class Declarations:
    """What `scan_source` found, by name; `macros` are the #defines with a value."""

    constexprs: dict[str, Constexpr] = field(default_factory=dict)
    kernels: dict[str, Signature] = field(default_factory=dict)
    constants: dict[str, ConstantSymbol] = field(default_factory=dict)
    macros: dict[str, str] = field(default_factory=dict)
    templates: set[str] = field(default_factory=set)
    """names of kernels that are templates"""
    signatures: list[Signature] = field(default_factory=list)
    """all of them in order, where `kernels` has one for each name"""

    def parameters(self, kernel: str) -> tuple[SourceParameter, ...]:
        """The parameters of a kernel; () where they cannot be read (macros), or its declarations do not agree."""
        found = {signature.parameters for signature in self.signatures if signature.name == kernel}
        parameters = found.pop() if len(found) == 1 else ()
        return parameters if all(one.name.isidentifier() for one in parameters) else ()

    def constexpr_values(self, replaced: Mapping[str, int]) -> dict[str, int]:
        """Return the values of all constexprs that have a simple one; `replaced` wins over the source."""
        values: dict[str, int] = {}
        for name, constant in self.constexprs.items():
            if name in replaced:
                values[name] = int(replaced[name])
            elif constant.tree is not None:
                with contextlib.suppress(EvaluationError):  # an error only if the header uses it
                    values[name] = evaluate(constant.tree, values)
        return values


@functools.lru_cache(maxsize=64)
def scan_source(source: str, *, name: str) -> Declarations:
    """Return the declarations of a CUDA C++ file; never fails: what it cannot read is left out.

    Host code is none of it; kernels at file scope count as extern "C", as the compiler is given them.
    """
    source = device_part(source)
    code = blank(source)
    macros = {match[1]: match[2].strip() for match in _MACRO.finditer(code)}
    text = _without_if_zero(_without_strings(source, code))
    text = _DIRECTIVE.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)
    found = Declarations(macros=macros)
    for statement, is_extern_c in _statements(_c_tokens(text)):
        _note(statement, is_extern_c, found, name)
    return found


def _without_strings(source: str, code: str) -> str:
    """Blank all that stands in quotes but the C of `extern "C"`; `code` is the source without comments."""
    text = list(blank(source, strings=True))
    for match in _LINKAGE.finditer(code):
        text[match.start() : match.end()] = match[0]
    return "".join(text)


def _without_if_zero(text: str) -> str:
    """Blank what stands between `#if 0` and its #else or #endif."""
    lines = text.split("\n")
    conditions: list[bool] = []  # per open #if: is it a dead `#if 0`
    for index, line in enumerate(lines):
        words = line.strip().replace("# ", "#").split()
        head = words[0] if words else ""
        if head.startswith("#if"):
            conditions.append(words[:2] == ["#if", "0"])
        elif head in ("#else", "#elif") and conditions:
            conditions[-1] = False
        elif head == "#endif" and conditions:
            conditions.pop()
        elif any(conditions):
            lines[index] = ""
    return "\n".join(lines)


def _c_tokens(text: str) -> list[PlacedToken]:
    lines = enumerate(text.split("\n"), start=1)
    matches = ((number, match) for number, line in lines for match in _C_TOKEN.finditer(line))
    some = itertools.islice(matches, _MAX_TOKENS)
    return [PlacedToken(str(match.lastgroup), match[0], number, match.start() + 1) for number, match in some]


def _statements(tokens: list[PlacedToken]) -> Iterator[tuple[list[PlacedToken], bool]]:
    """Yield the declarations at file scope without function bodies, and whether `extern "C"` holds for each."""
    statement: list[PlacedToken] = []
    blocks = 0  # open `extern "C" {`
    index = 0
    while index < len(tokens):
        token = tokens[index]
        index += 1
        if token.text not in ("{", "}", ";"):
            statement.append(token)
            continue
        words = [item.text for item in statement]
        is_initialiser = "constexpr" in words and "(" not in words and "=" not in words
        if (token.text == "{" and is_initialiser) or (token.text == "}" and "{" in words):
            statement.append(token)  # constexpr int N{4};
            continue
        if token.text == "}" or words[-2:] == ["extern", '"C"']:
            blocks = max(0, blocks + (1 if token.text == "{" else -1))
        else:
            if token.text == "{":
                index = _end_of(tokens, index - 1, _BRACES)
            yield statement, blocks > 0 or {'"C"', "extern"} <= set(words)
        statement = []
    yield statement, blocks > 0  # a file that ends too early, or the beginning of one


def _note(statement: list[PlacedToken], is_extern_c: bool, found: Declarations, file: str) -> None:
    """Enter a declaration into the tables that it belongs to."""
    words = [token.text for token in statement]
    if "__global__" in words:
        if signature := _signature(statement, is_extern_c):
            if "template" in words:
                found.templates.add(signature.name)
            found.signatures.append(signature)
            if is_extern_c or signature.name not in found.kernels:
                found.kernels[signature.name] = signature
    elif "__constant__" in words:
        if symbol := _constant_symbol(statement):
            found.constants[symbol.name] = symbol
    elif "constexpr" in words and "template" not in words:
        for constant in _constexprs(statement, file):
            found.constexprs[constant.name] = constant


def _signature(statement: list[PlacedToken], is_extern_c: bool) -> Signature | None:
    tokens = _without_attributes(statement)
    start = next((i for i, token in enumerate(tokens) if token.text == "("), 0)
    if start == 0 or tokens[start - 1].kind != "name":
        return None
    end = _end_of(tokens, start) - 1
    if tokens[end].text != ")":
        return None
    parts = [[token.text for token in part] for part in _split_commas(tokens[start + 1 : end])]
    parameters = tuple(_parameter(words) for words in parts if words not in ([], ["void"]))
    return Signature(tokens[start - 1].text, tokens[start - 1].line, parameters, is_extern_c)


def _without_attributes(tokens: list[PlacedToken]) -> list[PlacedToken]:
    """Drop __launch_bounds__(...) and its like, wherever they stand."""
    kept: list[PlacedToken] = []
    index = 0
    while index < len(tokens):
        if tokens[index].text in _ATTRIBUTES:
            index += 1
            if index < len(tokens) and tokens[index].text == "(":
                index = _end_of(tokens, index)
            continue
        kept.append(tokens[index])
        index += 1
    return kept


def _end_of(tokens: list[PlacedToken], start: int, brackets: Mapping[str, int] = _BRACKETS) -> int:
    """The index behind the bracket that closes the one at `start`; the number of tokens where none does."""
    depth = 0
    for index in range(start, len(tokens)):
        depth += brackets.get(tokens[index].text, 0)
        if depth == 0:
            return index + 1
    return len(tokens)


def _split_commas(tokens: list[PlacedToken]) -> Iterator[list[PlacedToken]]:
    part: list[PlacedToken] = []
    depth = 0
    for token in tokens:
        depth += _BRACKETS.get(token.text, 0)
        if token.text == "," and depth == 0:
            yield part
            part = []
        else:
            part.append(token)
    yield part


def _parameter(words: list[str]) -> SourceParameter:
    text = " ".join(words).replace(" *", "*").replace(" [", "[").replace(" ]", "]")
    core = [word for word in words if word not in _QUALIFIERS]
    if "[" in core:
        core = core[: core.index("[")]
    core = [word for word in core if word != "*"]
    name = core.pop() if len(core) > 1 and find_type(core) is None else ""
    is_const = "const" in (words[: words.index("*")] if "*" in words else words)
    depth = words.count("*") + ("[" in words)
    spelt = " ".join(core).replace(" :: ", "::") + "*" * depth
    return SourceParameter(name, text, spelt, find_type(core) if depth < 2 else None, depth, is_const)


def _constant_symbol(statement: list[PlacedToken]) -> ConstantSymbol | None:
    words = [token for token in statement if token.text not in ("__constant__", "static", "extern")]
    stop = next((i for i, token in enumerate(words) if token.text in ("[", "=", "{")), len(words))
    if stop < 2 or words[stop - 1].kind != "name":
        return None
    name = words[stop - 1]
    return ConstantSymbol(name.text, name.line, find_type([token.text for token in words[: stop - 1]]))


def _constexprs(statement: list[PlacedToken], file: str) -> Iterator[Constexpr]:
    """Yield the integers of `constexpr int A = 1, B = A + 1`."""
    words = [token for token in statement if token.text not in ("static", "constexpr", "inline", "__device__", "const")]
    for number, part in enumerate(_split_commas(words)):
        equals = next((i for i, token in enumerate(part) if token.text in ("=", "{", "(")), 0)
        if equals == 0 or part[equals - 1].kind != "name" or part[equals].text == "(":
            return
        ctype = find_type([token.text for token in part[: equals - 1]]) if number == 0 else None
        if number == 0 and (ctype is None or not ctype.is_integer or ctype.lanes != 1):
            return
        name = part[equals - 1]
        value = [token for token in part[equals + 1 :] if token.text != "}"]
        yield Constexpr(name.text, " ".join(token.text for token in value), name.line, _tree(value, file))


def _tree(tokens: list[PlacedToken], file: str) -> Expression | None:
    """Parse an initialiser, or return None where it is more than the header's expressions."""
    if not tokens:
        return None
    reader = TokenReader([*tokens, replace(tokens[-1], kind="end", text="")], file=file)
    try:
        tree = parse_expression(reader)
        reader.finish(write="")
    except ContractError:
        return None
    return tree
