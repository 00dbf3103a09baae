"""What names and literals of PTX mean: operands in their scopes, and declarations of parameters and variables with
their initialisers and the layout that follows from them."""

from __future__ import annotations

import math
import re
import struct
from collections import ChainMap
from collections.abc import Callable
from dataclasses import replace

from ptxsim.limits import WARP
from ptxsim.syntax.program import (
    WIDTH_BITS,
    Address,
    Immediate,
    Operand,
    Param,
    Register,
    ResultPair,
    Sink,
    Special,
    Symbol,
    Variable,
    Vector,
)

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
    + [f"pm{k}{half}" for k in range(8) for half in ("", "_64")]
    + [f"reserved_smem_offset_{what}" for what in ("begin", "end", "cap", "0", "1")]
)
"""Special registers by name, without the percent sign (PTX ISA, section 10)."""

_INTEGER = re.compile(r"(-?)(?:0[xX]([0-9a-fA-F]{1,32})|0[bB]([01]{1,128})|(0[0-7]{0,40})|([1-9][0-9]{0,39}))U?\Z")
_BASES = {2: 16, 3: 2, 4: 8, 5: 10}
"""Group of `_INTEGER` -> base of its digits."""
_BITS = re.compile(r"0[fF]([0-9a-fA-F]{8})\Z|0[dD]([0-9a-fA-F]{16})\Z")
_DECIMAL = re.compile(r"-?[0-9]{1,40}\.[0-9]{0,40}(?:[eE][+-]?[0-9]{1,4})?\Z|-?[0-9]{1,40}[eE][+-]?[0-9]{1,4}\Z")
_PLAIN = re.compile(r"\s*+\{((?:\s*+(?:0|[1-9][0-9]{0,18}+)\s*+,)*+\s*+(?:0|[1-9][0-9]{0,18}+)\s*+)\}")
"""A list of decimal numbers."""
_NAME = re.compile(r"[A-Za-z_$%][\w$]*\Z", re.ASCII)
_BASE_AND_OFFSET = re.compile(r"([A-Za-z_$%][\w$]*+)\s*+([+-])\s*+(-?)\s*+(\w++)\Z", re.ASCII)


class OperandError(Exception):
    """An operand cannot be read; the parser turns this into a PtxSyntaxError with its place."""


def integer(text: str) -> int | None:
    """The value of an integer literal, or None if `text` is no integer."""
    match = _INTEGER.match(text)
    if match is None:
        return None
    value = int(match[match.lastindex or 0], _BASES[match.lastindex or 0])
    return -value if match[1] else value


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

    __slots__ = ("cache", "depth", "labels", "names", "numbered", "parent", "ranges")

    def __init__(self, parent: Scope | None) -> None:
        self.parent = parent
        self.depth: int = parent.depth + 1 if parent else 0
        self.names: dict[str, Operand] = {}
        self.ranges: dict[str, tuple[str, int]] = {}
        self.numbered = False  # whether the prefix of some range ends in a digit itself
        self.labels: ChainMap[str, str] = parent.labels.new_child() if parent else ChainMap()
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
        final = self._declare(name, f"'{name}'")
        self.scope.names[name] = Symbol(final)
        return final

    def declare_register(self, name: str, type_name: str) -> None:
        final = self._declare(name, f"register '{name}'")
        self.scope.names[name] = Register(final)
        self.registers[final] = type_name

    def _declare(self, name: str, shown: str) -> str:
        if name in self.scope.names:
            raise OperandError(f"{shown} is declared twice")
        self.scope.declares()
        return self.unique(name)

    def declare_range(self, prefix: str, type_name: str, count: int) -> None:
        self.scope.declares()
        self.scope.ranges[prefix] = (type_name, count)
        self.scope.numbered |= prefix[-1:].isdigit()

    def lookup(self, name: str) -> Operand:
        scope: Scope | None = self.scope
        while scope is not None:
            found = scope.names.get(name)
            if found is not None:
                return found
            if scope.ranges and name[-1].isdigit():
                type_name = _type_in_ranges(scope, name)
                if type_name is not None:
                    final = self.unique(name)
                    self.registers[final] = type_name
                    scope.names[name] = register = Register(final)
                    return register
            scope = scope.parent
        if name in self._module_names:
            return Symbol(name)
        if name == "WARP_SZ":
            return Immediate(WARP)
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
            vector, bar, beside = text.rpartition("|")
            if bar and "}" not in beside:  # a predicate beside a vector of results
                return ResultPair(self.operand(vector.strip()), self.operand(beside.strip()))
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
            value = float_bits(text) if value is None else value
            if value is None:
                raise OperandError(f"cannot read the number '{_shown(text)}'")
            return Immediate(value)
        if "|" in text:
            if text.count("|") > 1:
                raise OperandError(f"cannot read '{_shown(text)}'")
            return ResultPair(*[self.operand(part.strip()) for part in text.split("|")])
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
        inner, comma, places = (part.strip() for part in text[1:-1].partition(","))
        if comma:
            at = self.operand(places) if places[:1] == "{" else None
            base = self.lookup(inner) if _NAME.match(inner) else None
            if not isinstance(at, Vector) or not isinstance(base, Register | Symbol):
                raise OperandError(f"cannot read the place '{_shown(text)}'")
            return Address(base, 0, at.elements)
        value = integer(inner)
        if value is not None:
            return Address(Immediate(value), 0)
        base, offset = (self.lookup(inner), 0) if _NAME.match(inner) else self._base_and_offset(inner)
        if not isinstance(base, Register | Symbol):
            raise OperandError(f"cannot read the address '{_shown(text)}'")
        return Address(base, offset)

    def _base_and_offset(self, text: str) -> tuple[Operand, int]:
        match = _BASE_AND_OFFSET.match(text)
        if match is None:
            raise OperandError(f"cannot read '{_shown(text)}'")
        name, sign, minus, digits = match.groups()
        value = integer(digits)
        if value is None:
            raise OperandError(f"cannot read the offset in '{_shown(text)}'")
        return self.lookup(name), -value if (sign == "-") != (minus == "-") else value


def _type_in_ranges(scope: Scope, name: str) -> str | None:
    """Type of the register `name` if it belongs to a declared range such as `%r<40>`."""
    most = len(name) - 1 if scope.numbered else len(name.rstrip("0123456789"))  # where its number may begin
    for cut in range(most, max(0, len(name) - 11), -1):
        if not name[cut].isdigit():
            return None
        declared = scope.ranges.get(name[:cut])
        if declared is not None and (name[cut] != "0" or cut == len(name) - 1) and int(name[cut:]) < declared[1]:
            return declared[0]
    return None


def _shown(text: str) -> str:
    text = " ".join(text[:80].split())
    return text if len(text) < 60 else text[:57] + "..."


def check_register_type(type_name: str) -> None:
    if type_name in ("b8", "u8", "s8"):
        raise OperandError(f"there are no registers of type '.{type_name}' here: 16 bits are the least")
    if type_name not in WIDTH_BITS:
        raise OperandError(f"there are no registers of type '.{_shown(type_name)}'")


# ---------------------------------------------------------------- declarations


_OPAQUE = frozenset({"texref", "samplerref", "surfref"})
_HEAD = re.compile(
    r"\s*+((?:\.(?:attribute\s*+\([^)]*+\)|align\s++\w++|v[248]\b|[a-z][a-z0-9]*+)\s*+)*+)"
    r"([A-Za-z_$%][\w$]*+)\s*+((?:\[[^\]]*+\]\s*+)*+)(=?)",
    re.ASCII,
)
_PARAM = re.compile(
    r"\s*+\.param\s++((?:\.(?:align\s++\w++|ptr|global|shared|local|const|param|restrict|[a-z][a-z0-9]*+)\s*+)*+)"
    r"([A-Za-z_$%][\w$]*+)\s*+((?:\[[^\]]*+\]\s*+)*+)\Z",
    re.ASCII,
)
_WORD = re.compile(r"\.(align\s++\w++|attribute\s*+\([^)]*+\)|[a-z][a-z0-9]*+)", re.ASCII)
_SYMBOLIC = re.compile(
    r"(?:(0[xX][0-9a-fA-F]{1,16})\s*+\()?\s*+(generic\s*+\(\s*+)?([A-Za-z_$%][\w$]*+)\s*+"
    r"(?(2)\)\s*+)(?:([+-])\s*+(\w++)\s*+)?(?(1)\))\Z",
    re.ASCII,
)
_TOKEN = re.compile(r"\s*+([{},]|[^{},\s][^{},]*+)")
_MAX_DIMENSIONS = 8


def _dimensions(text: str) -> list[int | None]:
    """Sizes of `[4][8]`; None for an empty pair of brackets."""
    sizes: list[int | None] = []
    for part in text.split("]")[:-1]:
        inner = part.strip()[1:].strip()
        sizes.append(integer(inner) if inner else None)
        if inner and (sizes[-1] is None or sizes[-1] < 0):
            raise OperandError(f"'{inner[:40]}' is no array size")
    if len(sizes) > _MAX_DIMENSIONS:
        raise OperandError(f"arrays of more than {_MAX_DIMENSIONS} dimensions are not supported")
    return sizes


def _product(sizes: list[int]) -> int:
    count = math.prod(sizes)
    if count > 1 << 62:
        raise OperandError("the array is larger than any memory")
    return count


def _words(text: str) -> tuple[int | None, int, str | None]:
    """Alignment, vector length and type of a run of words such as `.align 16 .v2 .f32`."""
    align: int | None = None
    vector, type_name = 1, None
    for word in _WORD.findall(text):
        if word.startswith("align"):
            align = integer(word[5:].strip())
            if align is None or align <= 0 or align & (align - 1) or align > 1 << 16:
                raise OperandError(f"'.{word[:40]}' is no alignment")
        elif word in ("v2", "v4", "v8"):
            vector = int(word[1:])
        elif word in WIDTH_BITS:
            type_name = word
        elif word in _OPAQUE:
            type_name = "b64"
        elif not word.startswith(("attribute", "ptr", "global", "shared", "local", "const", "param", "restrict")):
            raise OperandError(f"cannot read '.{word[:40]}' in a declaration")
    return align, vector, type_name


def parameter(text: str) -> Param:
    """A parameter such as `.param .align 8 .b8 name[24]`; its offset is left to the caller."""
    match = _PARAM.match(text)
    if match is None:
        raise OperandError(f"cannot read the parameter '{' '.join(text.split())[:60]}'")
    words, name, brackets = match.groups()
    pointer = re.search(r"\.ptr\b", words)  # what follows describes the pointee
    align, vector, type_name = _words(words[: pointer.start()] if pointer else words)
    if type_name is None or type_name == "pred":
        raise OperandError(f"parameter '{name[:40]}' has no type")
    element = WIDTH_BITS[type_name] // 8 * vector
    sizes = [size for size in _dimensions(brackets) if size is not None]
    return Param(name, type_name, element * _product(sizes), align or element, 0)


def parameters(text: str | None) -> tuple[Param, ...]:
    """A list of parameters, each at its natural offset."""
    placed: list[Param] = []
    end = 0
    for part in text.split(",") if text and text.strip() else ():
        p = parameter(part)
        placed.append(replace(p, offset=align_up(end, p.align)))
        end = placed[-1].offset + p.size_bytes
    return tuple(placed)


def align_up(value: int, align: int) -> int:
    return -(-value // align) * align


def variables(
    text: str, space: str, *, external: bool, name_of: Callable[[str], str], is_symbol: Callable[[str], bool]
) -> list[Variable]:
    """The variables that `text`, what stands between `.space` and the semicolon, declares."""
    match = _HEAD.match(text)
    if match is None:
        raise OperandError(f"cannot read the declaration '{' '.join(text[:80].split())[:60]}'")
    align, vector, type_name = _words(match[1])
    if type_name is None or type_name == "pred":
        raise OperandError(f"variable '{match[2][:40]}' has no type")
    found: list[Variable] = []
    while True:
        sizes, end = _dimensions(match[3]), match.end()
        initialiser, end = _initialiser(text, end) if match[4] else (None, end)
        found.append(
            _variable(name_of(match[2]), space, type_name, vector, align, sizes, initialiser, external, is_symbol)
        )
        rest = re.compile(r"\s*+(,?)\s*+").match(text, end)
        if rest is None or not rest[1]:
            if text[end:].strip():
                raise OperandError(f"cannot read '{text[end:].strip()[:40]}'")
            return found
        match = _HEAD.match(text, rest.end())
        if match is None or match[1].strip():
            raise OperandError(f"cannot read '{text[rest.end() :].strip()[:40]}'")


def _variable(
    name: str,
    space: str,
    type_name: str,
    vector: int,
    align: int | None,
    sizes: list[int | None],
    initialiser: list[str] | tuple[int, ...] | None,
    external: bool,
    is_symbol: Callable[[str], bool],
) -> Variable:
    width = WIDTH_BITS[type_name] // 8
    shape = [*sizes, vector] if vector > 1 else sizes
    initial = b""
    relocations: tuple[tuple[int, str, int], ...] = ()
    if None in shape[1:]:
        raise OperandError(f"only the first dimension of '{name}' may be left out")
    inner = _product([s for s in shape[1:] if s is not None])
    if initialiser is not None:
        if isinstance(initialiser, tuple):
            mask = (1 << 8 * width) - 1
            initial = b"".join((x & mask).to_bytes(width, "little") for x in initialiser)
        else:
            initial, relocations = _initial_bytes(initialiser, type_name, [s or 0 for s in shape], is_symbol)
        if shape and shape[0] is None:
            shape[0] = -(-len(initial) // max(1, width * inner))
    unsized = bool(shape) and shape[0] is None
    size = 0 if unsized else width * _product([s for s in shape if s is not None])
    if len(initial) > size or any(offset + 8 > size for offset, _, _ in relocations):
        raise OperandError(f"too many initial values for '{name}'")
    return Variable(
        name, space, type_name, size, align or width * vector, initial, relocations, external=external or unsized
    )


def _initialiser(text: str, position: int) -> tuple[list[str] | tuple[int, ...], int]:
    """The tokens of an initialiser, or the numbers of a plain list, and where it ends: cuRAND's tables are long."""
    plain = _PLAIN.match(text, position)
    if plain is None:
        return _initialiser_tokens(text, position)
    return tuple(map(int, plain[1].split(","))), plain.end()


def _initialiser_tokens(text: str, position: int) -> tuple[list[str], int]:
    """The tokens of `{1, {2, 3}}` or of a single value, and where they end."""
    tokens: list[str] = []
    depth = 0
    while True:
        match = _TOKEN.match(text, position)
        if match is None:
            raise OperandError("an initialiser is not complete")
        token = match[1].strip()
        if depth == 0 and tokens and token == ",":
            return tokens, position
        position = match.end()
        tokens.append(token)
        depth += (token == "{") - (token == "}")
        if depth < 0 or depth > _MAX_DIMENSIONS:
            raise OperandError("the braces of an initialiser do not match")
        if depth == 0:
            return tokens, position


def _initial_bytes(
    tokens: list[str], type_name: str, shape: list[int], is_symbol: Callable[[str], bool]
) -> tuple[bytes, tuple[tuple[int, str, int], ...]]:
    """Bytes and relocations of an initialiser; a brace inside fills one row and leaves its rest zero."""
    width = WIDTH_BITS[type_name] // 8
    data = bytearray()
    relocations: list[tuple[int, str, int]] = []
    starts: list[int] = []
    limit = width * _product(shape) if shape and shape[0] else 1 << 26
    for token in tokens:
        if token == "{":
            starts.append(len(data))
        elif token == "}":
            start, level = starts.pop(), len(starts)
            if level:
                row = width * _product(shape[level:]) if level < len(shape) else width
                if len(data) - start > row:
                    raise OperandError("too many initial values in a row")
                if start + row > limit:
                    raise OperandError("too many initial values")
                data.extend(bytes(start + row - len(data)))
        elif token != ",":
            _append_value(data, relocations, token, type_name, is_symbol)
    return bytes(data), tuple(relocations)


def _append_value(
    data: bytearray,
    relocations: list[tuple[int, str, int]],
    token: str,
    type_name: str,
    is_symbol: Callable[[str], bool],
) -> None:
    width, raw = WIDTH_BITS[type_name] // 8, float_bits(token)
    if raw is not None and token[1] in "dD" and type_name == "f32":
        raise OperandError("a 0d literal does not fit .f32")
    value = next((v for v in (integer(token), raw, decimal_bits(token, type_name)) if v is not None), None)
    if value is not None:
        data.extend((value & ((1 << 8 * width) - 1)).to_bytes(width, "little"))
        return
    match = _SYMBOLIC.match(token)
    addend = integer(match[5]) if match and match[5] else 0
    if match is None or not is_symbol(match[3]) or addend is None:
        raise OperandError(f"cannot read the initial value '{token[:40]}'")
    mask, _, symbol, sign, _ = match.groups()
    addend = -addend if sign == "-" else addend
    if mask is None:
        if width != 8:
            raise OperandError(f"the address of '{symbol[:40]}' needs a 64-bit variable")
        relocations.append((len(data), symbol, addend))
        data.extend(bytes(8))
        return
    # A byte array that holds an address spells it as eight masked bytes: 0xFF(x), 0xFF00(x), ...
    byte = (int(mask, 16).bit_length() - 1) // 8
    if width != 1 or int(mask, 16) != 0xFF << 8 * byte:
        raise OperandError(f"cannot read the initial value '{token[:40]}'")
    if byte == 0:
        relocations.append((len(data), symbol, addend))
    elif not relocations or relocations[-1] != (len(data) - byte, symbol, addend):
        raise OperandError(f"the bytes of the address of '{symbol[:40]}' are not in order")
    data.append(0)
