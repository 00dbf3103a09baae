"""Integer expressions of the header: tokens with their places, a small tree, its parser and its evaluation (no `eval`).

    condition  = sum [ ("==" | "!=" | "<=" | ">=" | "<" | ">") sum ]
    sum        = product { ("+" | "-") product }
    product    = unary { ("*" | "/" | "%") unary }
    unary      = [ "-" | "+" ] primary
    primary    = integer | name | function "(" condition { "," condition } ")" | "(" condition ")"
    function   = "cdiv" | "max" | "min"

Arithmetic is C's: `/` cuts towards zero, `%` takes the sign of the left side, a comparison is 1 or 0.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from warpschool.errors import ContractError

T = TypeVar("T")

_TOKEN = re.compile(
    r"(?P<integer>[0-9][\w.]*)|(?P<name>[A-Za-z_]\w*)|(?P<sign>::|[<>=!]=|[-+*/%<>=()\[\],;&|!?:.])|(?P<foreign>\S)"
)


@dataclass(frozen=True)
class PlacedToken:
    """One token; `kind` is "name", "integer", "sign" or "end". Line and column start at 1."""

    kind: str
    text: str
    line: int
    column: int

    def __str__(self) -> str:
        return "the end of the line" if self.kind == "end" else f"'{self.text}'"


@dataclass(frozen=True)
class Piece:
    """A part of an entry's text that stands on one line; `column` is that of its first character."""

    text: str
    line: int
    column: int


def tokenize(pieces: Sequence[Piece], *, file: str) -> list[PlacedToken]:
    """Return the tokens of an entry, closed by one of kind "end"; raises ContractError at a foreign character."""
    tokens: list[PlacedToken] = []
    for piece in pieces:
        for match in _TOKEN.finditer(piece.text):
            token = PlacedToken(str(match.lastgroup), match[0], piece.line, piece.column + match.start())
            if token.kind == "foreign":
                raise ContractError(
                    f"column {token.column}: {token} has no meaning in a kernel file's header", file=file,
                    line=piece.line, next_step=f"The line reads: {piece.text.strip()}",
                )  # fmt: skip
            tokens.append(token)
    last = pieces[-1]
    tokens.append(PlacedToken("end", "", last.line, last.column + len(last.text)))
    return tokens


@dataclass
class TokenReader:
    """Walks through the tokens of one entry and words the errors: what stands where, and what should."""

    tokens: Sequence[PlacedToken]
    file: str
    error: type[ContractError] = ContractError
    index: int = 0

    @property
    def here(self) -> PlacedToken:
        return self.tokens[self.index]

    def take(self) -> PlacedToken:
        """Return the token here and step to the next one (never past the end)."""
        token = self.here
        self.index = min(self.index + 1, len(self.tokens) - 1)
        return token

    def at(self, *texts: str) -> bool:
        """Whether the token here is one of these signs or words."""
        return self.here.kind != "end" and self.here.text in texts

    def accept(self, text: str) -> bool:
        """Take the token here if it is `text`, and say whether it was."""
        if not self.at(text):
            return False
        self.take()
        return True

    def expect(self, text: str, *, write: str) -> PlacedToken:
        """Take `text` or fail; `write` says what the line should look like."""
        if not self.at(text):
            raise self.fault(f"expected '{text}' but found {self.here}", write=write)
        return self.take()

    def expect_name(self, meaning: str, *, write: str) -> PlacedToken:
        """Take a name or fail."""
        if self.here.kind != "name":
            raise self.fault(f"expected {meaning} but found {self.here}", write=write)
        return self.take()

    def several(self, read: Callable[[], T], *, between: str = ",") -> list[T]:
        """Read one thing or more, with `between` between them."""
        found = [read()]
        while self.accept(between):
            found.append(read())
        return found

    def finish(self, *, write: str) -> None:
        """Fail unless every token has been taken."""
        if self.here.kind != "end":
            raise self.fault(f"{self.here} is one too many here", write=write)

    def text_since(self, start: int) -> str:
        """Return the tokens from index `start` up to here as one line of text, spaced as they were written."""
        text = ""
        for before, token in zip([None, *self.tokens[start:]], self.tokens[start : self.index], strict=False):
            touches = before and before.line == token.line and before.column + len(before.text) == token.column
            text += token.text if before is None or touches else f" {token.text}"
        return text

    def fault(self, message: str, *, at: PlacedToken | None = None, write: str = "") -> ContractError:
        """Return (do not raise) the error for a token, by default the one here."""
        token = at or self.here
        return self.error(f"column {token.column}: {message}", file=self.file, line=token.line, next_step=write)


# ---------------------------------------------------------------- expressions

FUNCTIONS: dict[str, int] = {"cdiv": 2, "max": 0, "min": 0}  # name -> number of arguments, 0: two or more
_COMPARISONS = ("==", "!=", "<=", ">=", "<", ">")
_CHAINS = (("+", "-"), ("*", "/", "%"))
"""Signs that chain from left to right; those of a later row bind tighter."""
_MAX_DEPTH = 32
_MAX_NODES = 256
_LARGEST = 2**63 - 1


class EvaluationError(ValueError):
    """An expression has no value; the caller adds where it stands and with which sizes."""


@dataclass(frozen=True)
class Name:
    """A size or a constexpr; where it stands does not take part in comparison."""

    name: str
    token: PlacedToken | None = field(default=None, compare=False)

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Operation:
    """A sign between two expressions, or cdiv, max or min of two or more."""

    name: str
    parts: tuple[Expression, ...]

    def __str__(self) -> str:
        if self.name in FUNCTIONS:
            return f"{self.name}({', '.join(map(str, self.parts))})"
        return f"({self.parts[0]} {self.name} {self.parts[1]})"


Expression = int | Name | Operation


def parse_expression(reader: TokenReader) -> Expression:
    """Read one expression and leave the reader behind it; raises the reader's ContractError."""
    return _ExpressionParser(reader).condition(0)


class _ExpressionParser:
    """Recursive descent; one method a rule of the grammar above."""

    def __init__(self, reader: TokenReader) -> None:
        self._reader = reader
        self._nodes = 0

    def condition(self, depth: int) -> Expression:
        if depth > _MAX_DEPTH:
            raise self._reader.fault(f"parentheses are nested more than {_MAX_DEPTH} deep")
        left = self._chain(depth)
        if not self._reader.at(*_COMPARISONS):
            return left
        sign = self._reader.take().text
        tree = self._node(Operation(sign, (left, self._chain(depth))))
        if self._reader.at(*_COMPARISONS):
            raise self._reader.fault(
                f"a second comparison, {self._reader.here}, in one condition",
                write="Write two conditions with a comma between them: 1 <= R, R <= 11",
            )
        return tree

    def _chain(self, depth: int, row: int = 0) -> Expression:
        """A sum, whose operands are the chains of the next row: products; and theirs are unary."""
        if row == len(_CHAINS):
            return self._unary(depth)
        tree = self._chain(depth, row + 1)
        while self._reader.at(*_CHAINS[row]):
            sign = self._reader.take().text
            tree = self._node(Operation(sign, (tree, self._chain(depth, row + 1))))
        return tree

    def _unary(self, depth: int) -> Expression:
        if self._reader.accept("-"):
            return self._node(Operation("-", (0, self._primary(depth))))
        self._reader.accept("+")
        return self._primary(depth)

    def _primary(self, depth: int) -> Expression:
        reader = self._reader
        token = reader.here
        if token.kind == "integer":
            reader.take()
            if not token.text.isdecimal() or len(token.text) > 18:
                raise reader.fault(
                    f"'{token.text}' is not a plain integer", at=token,
                    write="Only decimal integers without suffix are known here: 256, not 256u, 1e3 or 0.5.",
                )  # fmt: skip
            return self._node(int(token.text))
        if reader.accept("("):
            tree = self.condition(depth + 1)
            reader.expect(")", write="Every '(' needs its ')'.")
            return tree
        if token.kind != "name":
            raise reader.fault(
                f"expected a number, a size or '(' but found {token}",
                write="Expressions know integers, sizes, constexprs, + - * / %, comparisons, cdiv, max and min.",
            )
        reader.take()
        return self._call(token, depth) if reader.at("(") else self._node(Name(token.text, token))

    def _call(self, name: PlacedToken, depth: int) -> Expression:
        reader = self._reader
        if name.text not in FUNCTIONS:
            raise reader.fault(f"unknown function '{name.text}'", at=name, write="There is cdiv(a, b), max and min.")
        reader.take()
        arguments = reader.several(lambda: self.condition(depth + 1))
        reader.expect(")", write=f"Every '(' needs its ')': {name.text}(a, b)")
        wanted = FUNCTIONS[name.text]
        if (wanted and len(arguments) != wanted) or len(arguments) < 2:
            count = f"{wanted}" if wanted else "two or more"
            raise reader.fault(f"{name.text} takes {count} arguments, not {len(arguments)}", at=name)
        return self._node(Operation(name.text, tuple(arguments)))

    def _node(self, tree: Expression) -> Expression:
        self._nodes += 1  # a bound on the tree's depth: evaluation recurses
        if self._nodes > _MAX_NODES:
            raise self._reader.fault(f"an expression of more than {_MAX_NODES} parts")
        return tree


def names_in(tree: Expression) -> Iterator[Name]:
    """Yield every name that the expression uses, in order."""
    if isinstance(tree, Name):
        yield tree
    elif isinstance(tree, Operation):
        for part in tree.parts:
            yield from names_in(part)


def evaluate(tree: Expression, values: Mapping[str, int]) -> int:
    """Return the value of the expression.

    Raises EvaluationError at a division by zero, an unknown name, or a value beyond 64 bits.
    """
    if isinstance(tree, int):
        return tree
    if isinstance(tree, Name):
        if tree.name not in values:
            raise EvaluationError(f"{tree.name} has no value")
        return values[tree.name]
    result = int(_OPERATIONS[tree.name](*(evaluate(part, values) for part in tree.parts)))
    if abs(result) > _LARGEST:
        raise EvaluationError(f"{tree} does not fit into 64 bits")
    return result


def divide(a: int, b: int) -> int:
    """C's integer division, which cuts towards zero."""
    if b == 0:
        raise EvaluationError(f"division of {a} by zero")
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def cdiv(a: int, b: int) -> int:
    """a / b rounded up: the number of blocks of size b that cover a."""
    if b <= 0:
        raise EvaluationError(f"cdiv({a}, {b}): the second argument must be positive")
    return -(-a // b)


_OPERATIONS: dict[str, Callable[..., int]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": divide, "%": lambda a, b: a - b * divide(a, b),
    "==": operator.eq, "!=": operator.ne, "<=": operator.le, ">=": operator.ge, "<": operator.lt, ">": operator.gt,
    "cdiv": cdiv, "max": max, "min": min,
}  # fmt: skip
