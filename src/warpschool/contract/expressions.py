"""Integer expressions of the header: a small tree, its parser and its evaluation (no `eval`).

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
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from warpschool.contract.tokens import Token, TokenReader

FUNCTIONS: dict[str, int] = {"cdiv": 2, "max": 0, "min": 0}  # name -> number of arguments, 0: two or more
_COMPARISONS = ("==", "!=", "<=", ">=", "<", ">")
_MAX_DEPTH = 32
_MAX_NODES = 256
_LARGEST = 2**63 - 1


class EvaluationError(ValueError):
    """An expression has no value; the caller adds where it stands and with which sizes."""


@dataclass(frozen=True)
class Number:
    """An integer."""

    value: int

    def __str__(self) -> str:
        return str(self.value)


@dataclass(frozen=True)
class Name:
    """A size or a constexpr; where it stands does not take part in comparison."""

    name: str
    token: Token | None = field(default=None, compare=False)

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Binary:
    """Two expressions and a sign between them."""

    sign: str
    left: Expression
    right: Expression

    def __str__(self) -> str:
        return f"({self.left} {self.sign} {self.right})"


@dataclass(frozen=True)
class Call:
    """cdiv, max or min."""

    function: str
    arguments: tuple[Expression, ...]

    def __str__(self) -> str:
        return f"{self.function}({', '.join(map(str, self.arguments))})"


Expression = Number | Name | Binary | Call


def parse_expression(reader: TokenReader) -> Expression:
    """Read one expression and leave the reader behind it; raises the reader's ContractError."""
    return _Parser(reader).condition(0)


class _Parser:
    """Recursive descent; one method a rule of the grammar above."""

    def __init__(self, reader: TokenReader) -> None:
        self._reader = reader
        self._nodes = 0

    def condition(self, depth: int) -> Expression:
        if depth > _MAX_DEPTH:
            raise self._reader.fault(f"parentheses are nested more than {_MAX_DEPTH} deep")
        left = self._sum(depth)
        if not self._reader.at(*_COMPARISONS):
            return left
        sign = self._reader.take().text
        tree = self._node(Binary(sign, left, self._sum(depth)))
        if self._reader.at(*_COMPARISONS):
            raise self._reader.fault(
                f"a second comparison, {self._reader.here}, in one condition",
                write="Write two conditions with a comma between them: 1 <= R, R <= 11",
            )
        return tree

    def _sum(self, depth: int) -> Expression:
        tree = self._product(depth)
        while self._reader.at("+", "-"):
            sign = self._reader.take().text
            tree = self._node(Binary(sign, tree, self._product(depth)))
        return tree

    def _product(self, depth: int) -> Expression:
        tree = self._unary(depth)
        while self._reader.at("*", "/", "%"):
            sign = self._reader.take().text
            tree = self._node(Binary(sign, tree, self._unary(depth)))
        return tree

    def _unary(self, depth: int) -> Expression:
        if self._reader.accept("-"):
            return self._node(Binary("-", Number(0), self._primary(depth)))
        self._reader.accept("+")
        return self._primary(depth)

    def _primary(self, depth: int) -> Expression:
        reader = self._reader
        token = reader.here
        if token.kind == "integer":
            return self._integer(reader.take())
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

    def _integer(self, token: Token) -> Expression:
        if not token.text.isdecimal() or len(token.text) > 18:
            raise self._reader.fault(
                f"'{token.text}' is not a plain integer", at=token,
                write="Only decimal integers without suffix are known here: 256, not 256u, 1e3 or 0.5.",
            )  # fmt: skip
        return self._node(Number(int(token.text)))

    def _call(self, name: Token, depth: int) -> Expression:
        reader = self._reader
        if name.text not in FUNCTIONS:
            raise reader.fault(f"unknown function '{name.text}'", at=name, write="There is cdiv(a, b), max and min.")
        reader.take()
        arguments = [self.condition(depth + 1)]
        while reader.accept(","):
            arguments.append(self.condition(depth + 1))
        reader.expect(")", write=f"Every '(' needs its ')': {name.text}(a, b)")
        wanted = FUNCTIONS[name.text]
        if (wanted and len(arguments) != wanted) or len(arguments) < 2:
            count = f"{wanted}" if wanted else "two or more"
            raise reader.fault(f"{name.text} takes {count} arguments, not {len(arguments)}", at=name)
        return self._node(Call(name.text, tuple(arguments)))

    def _node(self, tree: Expression) -> Expression:
        self._nodes += 1  # a bound on the tree's depth: evaluation recurses
        if self._nodes > _MAX_NODES:
            raise self._reader.fault(f"an expression of more than {_MAX_NODES} parts")
        return tree


def names_in(tree: Expression) -> Iterator[Name]:
    """Yield every name that the expression uses, in order."""
    if isinstance(tree, Name):
        yield tree
    elif isinstance(tree, Binary):
        yield from names_in(tree.left)
        yield from names_in(tree.right)
    elif isinstance(tree, Call):
        for argument in tree.arguments:
            yield from names_in(argument)


def evaluate(tree: Expression, values: Mapping[str, int]) -> int:
    """Return the value of the expression.

    Raises EvaluationError at a division by zero, an unknown name, or a value beyond 64 bits.
    """
    if isinstance(tree, Number):
        return tree.value
    if isinstance(tree, Name):
        if tree.name not in values:
            raise EvaluationError(f"{tree.name} has no value")
        return values[tree.name]
    if isinstance(tree, Call):
        result = _CALLS[tree.function](*(evaluate(argument, values) for argument in tree.arguments))
    else:
        result = _SIGNS[tree.sign](evaluate(tree.left, values), evaluate(tree.right, values))
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


_SIGNS: dict[str, Callable[[int, int], int]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": divide,
    "%": lambda a, b: a - b * divide(a, b),
    "==": lambda a, b: int(a == b),
    "!=": lambda a, b: int(a != b),
    "<=": lambda a, b: int(a <= b),
    ">=": lambda a, b: int(a >= b),
    "<": lambda a, b: int(a < b),
    ">": lambda a, b: int(a > b),
}
_CALLS: dict[str, Callable[..., int]] = {"cdiv": cdiv, "max": max, "min": min}
