"""Operands of PTX instructions: literals, names in their scopes, addresses and vectors."""

from __future__ import annotations

import re
import struct

from ptxsim.syntax.program import WIDTH_BITS, Address, Immediate, Operand, Pair, Register, Sink, Special, Symbol, Vector

MAX_NESTING = 256
"""How deep `{ }` blocks may nest."""

_DIMENSIONAL = ("tid", "ntid", "ctaid", "nctaid", "clusterid", "nclusterid", "cluster_ctaid", "cluster_nctaid")
SPECIAL_REGISTERS = frozenset(
    [f"{name}.{axis}" for name in _DIMENSIONAL for axis in "xyzw"]
    + ["laneid", "warpid", "nwarpid", "smid", "nsmid", "gridid"]
    + [f"lanemask_{relation}" for relation in ("eq", "le", "lt", "ge", "gt")]
    + ["clock", "clock_hi", "clock64", "globaltimer", "globaltimer_lo", "globaltimer_hi"]
    + ["total_smem_size", "dynamic_smem_size", "aggr_smem_size", "is_explicit_cluster"]
    + ["cluster_ctarank", "cluster_nctarank", "current_graph_exec"]
    + [f"envreg{k}" for k in range(32)]
    + [f"pm{k}" for k in range(8)]
)
"""Special registers by name, without the percent sign (PTX ISA, section 10)."""

_INTEGER = re.compile(r"(-?)(?:0[xX]([0-9a-fA-F]{1,32})|0[bB]([01]{1,128})|(0[0-7]{0,40})|([1-9][0-9]{0,39}))U?\Z")
_BITS = re.compile(r"0[fF]([0-9a-fA-F]{8})\Z|0[dD]([0-9a-fA-F]{16})\Z")
_DECIMAL = re.compile(r"-?[0-9]{1,40}\.[0-9]{0,40}(?:[eE][+-]?[0-9]{1,4})?\Z|-?[0-9]{1,40}[eE][+-]?[0-9]{1,4}\Z")
_NAME = re.compile(r"[A-Za-z_$%][\w$]*\Z", re.ASCII)
_BASE_AND_OFFSET = re.compile(r"([A-Za-z_$%][\w$]*+)\s*+([+-])\s*+(-?)\s*+(\w++)\Z", re.ASCII)


class OperandError(Exception):
    """An operand cannot be read; the parser turns this into a PtxSyntaxError with its place."""


def integer(text: str) -> int | None:
    """The value of an integer literal, or None if `text` is no integer."""
    match = _INTEGER.match(text)
    if match is None:
        return None
    sign, hexadecimal, binary, octal, decimal = match.groups()
    if hexadecimal:
        value = int(hexadecimal, 16)
    elif binary:
        value = int(binary, 2)
    elif octal:
        value = int(octal, 8)
    else:
        value = int(decimal)
    return -value if sign else value


def float_bits(text: str) -> int | None:
    """The raw bits of a 0f or 0d literal."""
    match = _BITS.match(text)
    return int(match[1] or match[2], 16) if match else None


def decimal_bits(text: str, type_name: str) -> int | None:
    """The bits of a literal such as `1.5e3` in the instruction's type: f64, or f32 by rounding."""
    if not _DECIMAL.match(text):
        return None
    if type_name == "f64":
        return int.from_bytes(struct.pack("<d", float(text)), "little")
    if type_name == "f32":
        try:
            return int.from_bytes(struct.pack("<f", float(text)), "little")
        except OverflowError:
            return 0xFF800000 if text.startswith("-") else 0x7F800000
    return None


class Scope:
    """The names declared between one pair of braces, and the operands already read there."""

    __slots__ = ("cache", "depth", "labels", "names", "parent", "ranges")

    def __init__(self, parent: Scope | None) -> None:
        self.parent = parent
        self.depth: int = parent.depth + 1 if parent else 0
        self.names: dict[str, Operand] = {}
        self.ranges: dict[str, tuple[str, int]] = {}
        self.labels: dict[str, str] = {}
        # Operands mean the same as outside until this scope declares something of its own.
        self.cache: dict[str, Operand] = parent.cache if parent else {}

    def declares(self) -> None:
        """Called before each declaration: operands read so far may mean something else from here on."""
        self.cache = {}


class Names:
    """Resolves the names of one function: scoped registers and variables, parameters, module symbols.

    A register range `%r<1000>` costs nothing until one of its registers is mentioned. A name that is declared in
    several scopes is made unique with a suffix, `%p1.2`: a dot cannot occur in a PTX identifier.
    """

    def __init__(self, module_names: dict[str, object]) -> None:
        self.scope = Scope(None)
        self.registers: dict[str, str] = {}
        self._module_names = module_names
        self._taken: dict[str, int] = {}

    def push(self) -> bool:
        """Enters a block; False where blocks nest too deep."""
        self.scope = Scope(self.scope)
        return self.scope.depth <= MAX_NESTING

    def pop(self) -> bool:
        """Leaves a block; False where there is none to leave."""
        if self.scope.parent is None:
            return False
        self.scope = self.scope.parent
        return True

    def unique(self, name: str) -> str:
        count = self._taken.get(name, 0)
        self._taken[name] = count + 1
        return f"{name}.{count}" if count else name

    def declare_symbol(self, name: str) -> str:
        """Declares a variable or parameter in this scope; its unique name."""
        if name in self.scope.names:
            raise OperandError(f"'{name}' is declared twice")
        self.scope.declares()
        final = self.unique(name)
        self.scope.names[name] = Symbol(final)
        return final

    def declare_register(self, name: str, type_name: str) -> None:
        if name in self.scope.names:
            raise OperandError(f"register '{name}' is declared twice")
        self.scope.declares()
        final = self.unique(name)
        self.scope.names[name] = Register(final)
        self.registers[final] = type_name

    def declare_range(self, prefix: str, type_name: str, count: int) -> None:
        self.scope.declares()
        self.scope.ranges[prefix] = (type_name, count)

    def lookup(self, name: str) -> Operand:
        scope: Scope | None = self.scope
        while scope is not None:
            found = scope.names.get(name)
            if found is not None:
                return found
            if scope.ranges and name[-1].isdigit():
                type_name = _type_in_ranges(scope.ranges, name)
                if type_name is not None:
                    final = self.unique(name)
                    self.registers[final] = type_name
                    scope.names[name] = register = Register(final)
                    return register
            scope = scope.parent
        if name in self._module_names:
            return Symbol(name)
        if name == "WARP_SZ":
            return Immediate(32)
        if name[0] == "%" and name[1:] in SPECIAL_REGISTERS:
            return Special(name[1:])
        raise OperandError(f"'{_shown(name)}' is not declared")

    # ---------------------------------------------------------------- whole operands

    def operand(self, text: str) -> Operand:
        """The operand that `text` (without surrounding blanks) stands for."""
        found = self.scope.cache.get(text)
        if found is None:
            found = self._read(text)
            self.scope.cache[text] = found
        return found

    def _read(self, text: str) -> Operand:
        if not text:
            raise OperandError("an operand is missing")
        first = text[0]
        if first == "[":
            return self._address(text)
        if first == "{":
            if text[-1] != "}":
                raise OperandError(f"'{_shown(text)}' lacks its closing brace")
            inner = text[1:-1]
            if "{" in inner or "[" in inner:
                raise OperandError(f"cannot read the vector '{_shown(text)}'")
            return Vector(tuple([self.operand(part.strip()) for part in inner.split(",")]))
        if text == "_":
            return Sink()
        if first.isdigit() or first == "-":
            value = integer(text)
            if value is None:
                value = float_bits(text)
            if value is None:
                raise OperandError(f"cannot read the number '{_shown(text)}'")
            return Immediate(value)
        if "|" in text:
            left, _, right = text.partition("|")
            if "|" in right:
                raise OperandError(f"cannot read '{_shown(text)}'")
            return Pair(self.operand(left.strip()), self.operand(right.strip()))
        if _NAME.match(text):
            return self.lookup(text)
        if first == "%" and text[1:] in SPECIAL_REGISTERS:
            return Special(text[1:])
        base, offset = self._base_and_offset(text)
        if not isinstance(base, Symbol):
            raise OperandError(f"cannot read '{_shown(text)}'")
        return Symbol(base.name, base.offset + offset)

    def _address(self, text: str) -> Address:
        if text[-1] != "]":
            raise OperandError(f"'{_shown(text)}' lacks its closing bracket")
        inner = text[1:-1].strip()
        if _NAME.match(inner):
            base, offset = self.lookup(inner), 0
        else:
            value = integer(inner)
            if value is not None:
                return Address(Immediate(value), 0)
            base, offset = self._base_and_offset(inner)
        if isinstance(base, Register):
            return Address(base, offset)
        if isinstance(base, Symbol):
            return Address(base, offset)
        raise OperandError(f"cannot read the address '{_shown(text)}'")

    def _base_and_offset(self, text: str) -> tuple[Operand, int]:
        match = _BASE_AND_OFFSET.match(text)
        if match is None:
            raise OperandError(f"cannot read '{_shown(text)}'")
        name, sign, minus, digits = match.groups()
        value = integer(digits)
        if value is None:
            raise OperandError(f"cannot read the offset in '{_shown(text)}'")
        return self.lookup(name), -value if (sign == "-") != (minus == "-") else value


def _type_in_ranges(ranges: dict[str, tuple[str, int]], name: str) -> str | None:
    """Type of the register `name` if it belongs to a declared range such as `%r<40>`."""
    for cut in range(len(name) - 1, max(0, len(name) - 11), -1):
        if not name[cut].isdigit():
            return None
        declared = ranges.get(name[:cut])
        if declared is not None and (name[cut] != "0" or cut == len(name) - 1) and int(name[cut:]) < declared[1]:
            return declared[0]
    return None


def _shown(text: str) -> str:
    text = " ".join(text[:80].split())
    return text if len(text) < 60 else text[:57] + "..."


def check_register_type(type_name: str) -> None:
    if type_name not in WIDTH_BITS or type_name in ("b8", "u8", "s8"):
        raise OperandError(f"there are no registers of type '.{_shown(type_name)}'")
