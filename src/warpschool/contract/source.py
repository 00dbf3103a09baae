"""A light look at CUDA C++: top-level constexpr ints, __global__ signatures and __constant__ symbols.

This is no compiler: it reads declarations at file scope and inside `extern "C" { }`, skips bodies, comments,
preprocessor lines and `#if 0` blocks, and leaves everything else to NVRTC.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from warpschool.compile.lexing import blank
from warpschool.contract.expressions import EvaluationError, Expression, evaluate, parse_expression
from warpschool.contract.tokens import Token, TokenReader
from warpschool.contract.types import CType, find_type, is_qualifier
from warpschool.errors import ContractError

_LINKAGE = re.compile(r'\bextern\s*"C"')
_DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n\\]|\\.|\\\n)*", re.MULTILINE | re.DOTALL)
_MACRO = re.compile(r"#[ \t]*define[ \t]+(\w+)[ \t]+(.*)")
_C_TOKEN = re.compile(r"\d[\w.']*|\w+|\"C\"|::|<<|>>|[<>=!]=|&&|\|\||\S")
_ATTRIBUTES = {"__launch_bounds__", "__attribute__", "__cluster_dims__", "__maxnreg__", "__block_size__", "alignas"}
_OPEN, _CLOSE = "([{", ")]}"
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
    """One parameter of a kernel in the source; `ctype` is None for a type that no header can name."""

    name: str
    text: str
    ctype: CType | None
    is_pointer: bool
    is_const: bool = False


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

    def constexpr_values(self, replaced: Mapping[str, int]) -> dict[str, int]:
        """Return the values of all constexprs that have a simple one; `replaced` wins over the source."""
        values: dict[str, int] = {}
        for name, constant in self.constexprs.items():
            if name in replaced:
                values[name] = int(replaced[name])
            elif constant.tree is not None:
                try:
                    values[name] = evaluate(constant.tree, values)
                except EvaluationError:
                    continue  # an error only if the header uses it
        return values


def scan_source(source: str, *, name: str) -> Declarations:
    """Return the declarations of a CUDA C++ file; never fails: what it cannot read is left out."""
    code = blank(source)
    macros = {match[1]: match[2].strip() for match in _MACRO.finditer(code)}
    text = _without_directives(_without_if_zero(_without_strings(source, code)))
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


def _without_directives(text: str) -> str:
    return _DIRECTIVE.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)


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


def _c_tokens(text: str) -> list[Token]:
    tokens = []
    for number, line in enumerate(text.split("\n"), start=1):
        for match in _C_TOKEN.finditer(line):
            word = match[0]
            kind = "name" if word[0].isalpha() or word[0] == "_" else "integer" if word[0].isdigit() else "sign"
            tokens.append(Token(kind, word, number, match.start() + 1))
        if len(tokens) > _MAX_TOKENS:
            break
    return tokens


def _statements(tokens: list[Token]) -> Iterator[tuple[list[Token], bool]]:
    """Yield the declarations at file scope without function bodies, and whether `extern "C"` holds for each."""
    statement: list[Token] = []
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
                index = _skip_braces(tokens, index - 1)
            yield statement, blocks > 0 or _says_extern_c(words)
        statement = []


def _says_extern_c(words: list[str]) -> bool:
    return '"C"' in words and "extern" in words


def _skip_braces(tokens: list[Token], index: int) -> int:
    depth = 0
    while index < len(tokens):
        depth += (tokens[index].text == "{") - (tokens[index].text == "}")
        index += 1
        if depth == 0:
            break
    return index


def _note(statement: list[Token], is_extern_c: bool, found: Declarations, file: str) -> None:
    """Enter a declaration into the tables that it belongs to."""
    words = [token.text for token in statement]
    if "__global__" in words:
        signature = _signature(statement, is_extern_c)
        if signature is not None and not (signature.name in found.kernels and not is_extern_c):
            found.kernels[signature.name] = signature
    elif "__constant__" in words:
        symbol = _constant_symbol(statement)
        if symbol is not None:
            found.constants[symbol.name] = symbol
    elif "constexpr" in words and "template" not in words:
        for constant in _constexprs(statement, file):
            found.constexprs[constant.name] = constant


def _signature(statement: list[Token], is_extern_c: bool) -> Signature | None:
    tokens = _without_attributes(statement)
    start = next((i for i, token in enumerate(tokens) if token.text == "("), 0)
    if start == 0 or tokens[start - 1].kind != "name":
        return None
    inner = []
    for token, depth in _depths(tokens[start:]):
        if depth == 0:
            break
        inner.append(token)
    parts = [part for part in _split_commas(inner[1:]) if [token.text for token in part] not in ([], ["void"])]
    name = tokens[start - 1]
    return Signature(name.text, name.line, tuple(_parameter(part) for part in parts), is_extern_c)


def _without_attributes(tokens: list[Token]) -> list[Token]:
    """Drop __launch_bounds__(...) and its like, wherever they stand."""
    kept: list[Token] = []
    index = 0
    while index < len(tokens):
        if tokens[index].text in _ATTRIBUTES:
            index += 1
            if index < len(tokens) and tokens[index].text == "(":
                index += sum(1 for _, depth in _depths_until_closed(tokens[index:]))
            continue
        kept.append(tokens[index])
        index += 1
    return kept


def _depths(tokens: list[Token]) -> Iterator[tuple[Token, int]]:
    """Yield each token with the bracket depth behind it."""
    depth = 0
    for token in tokens:
        depth += (token.text in _OPEN) - (token.text in _CLOSE)
        yield token, depth


def _depths_until_closed(tokens: list[Token]) -> Iterator[tuple[Token, int]]:
    for token, depth in _depths(tokens):
        yield token, depth
        if depth == 0:
            return


def _split_commas(tokens: list[Token]) -> Iterator[list[Token]]:
    part: list[Token] = []
    for token, depth in _depths(tokens):
        if token.text == "," and depth == 0:
            yield part
            part = []
        else:
            part.append(token)
    yield part


def _parameter(tokens: list[Token]) -> SourceParameter:
    words = [token.text for token in tokens]
    text = " ".join(words).replace(" *", "*").replace(" [", "[").replace(" ]", "]")
    core = [word for word in words if not is_qualifier(word)]
    is_pointer = "*" in core or "[" in core
    if "[" in core:
        core = core[: core.index("[")]
    core = [word for word in core if word != "*"]
    name = core.pop() if len(core) > 1 and find_type(core) is None else ""
    is_const = "const" in (words[: words.index("*")] if "*" in words else words)
    pointers = words.count("*") + ("[" in words)
    return SourceParameter(name, text, find_type(core) if pointers < 2 else None, is_pointer, is_const)


def _constant_symbol(statement: list[Token]) -> ConstantSymbol | None:
    words = [token for token in statement if token.text not in ("__constant__", "static", "extern")]
    stop = next((i for i, token in enumerate(words) if token.text in ("[", "=", "{")), len(words))
    if stop < 2 or words[stop - 1].kind != "name":
        return None
    name = words[stop - 1]
    return ConstantSymbol(name.text, name.line, find_type([token.text for token in words[: stop - 1]]))


def _constexprs(statement: list[Token], file: str) -> Iterator[Constexpr]:
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


def _tree(tokens: list[Token], file: str) -> Expression | None:
    """Parse an initialiser, or return None where it is more than the header's expressions."""
    if not tokens:
        return None
    last = tokens[-1]
    reader = TokenReader([*tokens, Token("end", "", last.line, last.column)], file=file)
    try:
        tree = parse_expression(reader)
        reader.finish(write="")
    except ContractError:
        return None
    return tree
