"""The names in PTX that was compiled for debugging: which variable is where, at which instruction.

NVRTC and clang write DWARF 2 into such PTX as `.section`s of numbers and labels. A label stands for an address there;
here it stands for its line in the PTX text, which every instruction knows of itself. A register is named by the bytes
of its name (DW_OP_regx, PTX ISA 11.5), a variable in local memory by its frame's name and an offset.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from elftools.common.exceptions import DWARFError, ELFError
from elftools.dwarf.dwarf_expr import DWARFExprParser
from elftools.dwarf.dwarfinfo import DebugSectionDescriptor, DwarfConfig, DWARFInfo

_SECTION = re.compile(r"\.section\s+(\S+)\s*\{?")
_LABEL = re.compile(r"([$\w]+):")
_NUMBERS = re.compile(r"\.b(8|16|32|64)\s+(.+)")
_FILE = re.compile(r'\.file\s+(\d+)\s+"([^"]+)"')
_UNITS = ("debug_info", "debug_abbrev", "debug_loc")
_BOOLEAN = 2
_SHARED = 8
"""An address class of PTX's DWARF."""
_KINDS = {4: "f", 5: "i", 6: "i", 13: "i"}
"""Encoding of a base type -> NumPy's letter; what is left is unsigned."""
_NAMES = 1 << 40
"""Numbers from here on stand for symbols that are no labels, in the order in which they appear."""
_HALVES = {"__half": np.dtype(np.float16), "__half_raw": np.dtype(np.float16)}
MOST_BYTES = 4096
"""Variables larger than this are left out."""


@dataclass(frozen=True)
class Place:
    """Where a variable is in the PTX lines [first, last): a register, or an offset into a frame of local memory."""

    first: int
    last: int
    register: str = ""
    frame: str = ""
    offset: int = 0


@dataclass(frozen=True)
class Type:
    """A C++ type: its name, and the NumPy type that reads its bytes; `points_to` is the pointee of a pointer."""

    name: str
    dtype: np.dtype
    points_to: Type | None = None


@dataclass(frozen=True)
class SourceVariable:
    """A variable of a function, and where it is in the PTX lines in which it is visible and has a value."""

    name: str
    type: Type
    places: tuple[Place, ...]

    def at(self, ptx_line: int) -> Place | None:
        """Where the variable is just before the instruction on a PTX line; None out of scope or before it exists."""
        return next((place for place in self.places if place.first <= ptx_line < place.last), None)


@dataclass(frozen=True)
class SourceFunction:
    """A function of the kernel file: its name, its PTX lines [first, last), its variables, outer ones first."""

    name: str
    first: int
    last: int
    variables: tuple[SourceVariable, ...]


@dataclass(frozen=True)
class Symbols:
    """All functions of a PTX file, and its types by name; both are empty in PTX without debugging information."""

    functions: tuple[SourceFunction, ...] = ()
    types: dict[str, Type] | None = None

    def function_at(self, ptx_line: int) -> SourceFunction | None:
        return next((f for f in self.functions if f.first <= ptx_line < f.last), None)


def read_symbols(ptx: str, source_name: str) -> Symbols:
    """Return the names in a PTX text that was made from a file; what cannot be read is left out."""
    sections, names = _sections(ptx)
    if "debug_info" not in sections:
        return Symbols()
    try:
        own = {int(number) for number, name in _FILE.findall(ptx) if name == source_name}
        return _DwarfReader(_dwarf(sections), names, own).symbols()
    except (DWARFError, ELFError, KeyError, ValueError, IndexError):
        return Symbols()


def _sections(ptx: str) -> tuple[dict[str, bytes], list[str]]:
    """The bytes of each section, and the names of symbols that are no labels.

    A label stands for its PTX line, one inside a section for its place there.
    """
    texts: dict[str, list[tuple[int, str]]] = {}
    labels: dict[str, int] = {}
    current: list[tuple[int, str]] | None = None
    for number, text in enumerate(ptx.split("\n"), start=1):
        line = text.strip()
        if found := _SECTION.match(line):
            current = texts.setdefault(found[1].lstrip("."), [])
        elif line == "}":
            current = None
        elif found := _LABEL.fullmatch(line):
            inside = number if current is None else sum(size for size, _ in current)  # clang's, of location lists
            labels.setdefault(found[1], inside)
        elif current is not None and (found := _NUMBERS.match(line)):
            current.extend((int(found[1]) // 8, part.strip()) for part in found[2].split(","))
    names: list[str] = []
    sections = {
        name: b"".join(_number(t, labels, names).to_bytes(8, "little", signed=True)[:size] for size, t in parts)
        for name, parts in texts.items()
    }
    return sections, names


def _number(text: str, labels: dict[str, int], names: list[str]) -> int:
    if re.fullmatch(r"-?\d+", text):
        return int(text) if int(text) < 1 << 63 else int(text) - (1 << 64)
    if text.startswith("."):  # an offset into another section
        return int(text.partition("+")[2] or 0)
    if text in labels:
        return labels[text]
    if text not in names:
        names.append(text)
    return _NAMES + names.index(text)


def _dwarf(sections: dict[str, bytes]) -> DWARFInfo:
    def section(name: str) -> DebugSectionDescriptor | None:
        data = sections.get(name)
        return None if data is None else DebugSectionDescriptor(io.BytesIO(data), f".{name}", 0, len(data), 0)

    count = DWARFInfo.__init__.__code__.co_argcount
    others = dict.fromkeys(DWARFInfo.__init__.__code__.co_varnames[2:count])
    known = {f"{name}_sec": section(name) for name in _UNITS}
    config = DwarfConfig(little_endian=True, machine_arch="x64", default_address_size=8)
    return DWARFInfo(config=config, **others | known)


class _DwarfReader:
    """One pass over a file's DWARF."""

    def __init__(self, dwarf: DWARFInfo, names: list[str], own_files: set[int]) -> None:
        self.dwarf = dwarf
        self.names = names
        self.own_files = own_files
        self.types: dict[int, Type | None] = {}
        self.lists: Any = dwarf.location_lists()

    def symbols(self) -> Symbols:
        functions = []
        for unit in self.dwarf.iter_CUs():
            for die in unit.get_top_DIE().iter_children():
                if die.tag == "DW_TAG_subprogram" and self.is_own(die):
                    functions.append(self.function(die))
                elif die.tag in ("DW_TAG_structure_type", "DW_TAG_base_type", "DW_TAG_typedef"):
                    self.type_of(die)
        named = {found.name: found for found in self.types.values() if found is not None}
        return Symbols(tuple(functions), named)

    def is_own(self, die: Any) -> bool:
        """Whether a function has code and stands in the kernel file: those of CUDA's headers are not stepped into."""
        file = die.attributes.get("DW_AT_decl_file")
        return "DW_AT_low_pc" in die.attributes and file is not None and file.value in self.own_files

    def function(self, die: Any) -> SourceFunction:
        name = _text(die, "DW_AT_name") or _text(die, "DW_AT_MIPS_linkage_name")
        return SourceFunction(name, *_span(die), tuple(self.variables(die, *_span(die))))

    def variables(self, die: Any, first: int, last: int) -> Iterator[SourceVariable]:
        """The variables of a scope and of those inside it."""
        for child in die.iter_children():
            if child.tag == "DW_TAG_lexical_block":
                yield from self.variables(child, *_span(child))
            elif child.tag in ("DW_TAG_variable", "DW_TAG_formal_parameter"):
                yield from self.variable(child, first, last)

    def variable(self, die: Any, first: int, last: int) -> Iterator[SourceVariable]:
        """The variable in the PTX lines [first, last) of its scope; nothing for one that cannot be shown."""
        type_ = self.type_of(_referred(die))
        location = die.attributes.get("DW_AT_location")
        name = _text(die, "DW_AT_name")
        if not name or type_ is None or location is None or type_.dtype.itemsize > MOST_BYTES:
            return
        if (space := die.attributes.get("DW_AT_address_class")) and space.value == _SHARED:
            return  # arrays in shared memory are shown as such
        entries = [(location.value, first, last)]
        if isinstance(location.value, int):
            listed: list[Any] = self.lists.get_location_list_at_offset(location.value)
            entries = [(e.loc_expr, max(first, e.begin_offset), min(last, e.end_offset)) for e in listed]
        if places := tuple(filter(None, (self.place(die, *entry) for entry in entries))):
            yield SourceVariable(name, type_, places)

    def place(self, die: Any, expression: list[int], first: int, last: int) -> Place | None:
        """The meaning of a location expression; None for one that is neither of the two known kinds."""
        match _operations(die, expression):
            case [("DW_OP_regx", [code]), *_]:
                return Place(first, last, register=code.to_bytes(8, "big").lstrip(b"\0").decode("ascii"))
            case [("DW_OP_addr", [address]), *rest] if 0 <= address - _NAMES < len(self.names):
                offset = rest[0][1][0] if rest and rest[0][0] == "DW_OP_plus_uconst" else 0
                return Place(first, last, frame=self.names[address - _NAMES], offset=offset)
        return None

    # ---------------------------------------------------------------- types

    def type_of(self, die: Any) -> Type | None:
        if die is None:
            return None
        if die.offset not in self.types:
            self.types[die.offset] = None  # a struct may hold a pointer to itself
            self.types[die.offset] = self.read_type(die)
        return self.types[die.offset]

    def read_type(self, die: Any) -> Type | None:
        name = _text(die, "DW_AT_name")
        match die.tag:
            case "DW_TAG_base_type":
                return _base_type(name, die)
            case "DW_TAG_pointer_type" | "DW_TAG_reference_type":
                target = self.type_of(_referred(die))
                return Type(f"{target.name if target else 'void'}*", np.dtype(np.uint64), target)
            case "DW_TAG_array_type":
                return self.array(die)
            case "DW_TAG_structure_type" | "DW_TAG_class_type":
                return self.structure(name, die)
            case "DW_TAG_enumeration_type":
                return Type(name, np.dtype(f"i{die.attributes['DW_AT_byte_size'].value}"))
        inner = self.type_of(_referred(die))  # const, volatile, restrict, typedef
        return inner and Type(name or inner.name, inner.dtype, inner.points_to)

    def array(self, die: Any) -> Type | None:
        element = self.type_of(_referred(die))
        lengths = [_length(child) for child in die.iter_children()]
        shape = tuple(length for length in lengths if length is not None)
        if element is None or len(shape) < len(lengths):
            return None
        written = "".join(f"[{length}]" for length in shape)
        base, inner = element.dtype.subdtype or (element.dtype, ())
        return Type(element.name + written, np.dtype((base, (*shape, *inner))))

    def structure(self, name: str, die: Any) -> Type | None:
        if name in _HALVES:
            return Type(name, _HALVES[name])
        if "DW_AT_byte_size" not in die.attributes:
            return None
        members: dict[str, tuple[np.dtype, int]] = {}
        for member in die.iter_children():
            type_ = self.type_of(_referred(member)) if member.tag == "DW_TAG_member" else None
            where = member.attributes.get("DW_AT_data_member_location")
            label = _text(member, "DW_AT_name")
            if type_ is not None and where is not None and label and label not in members:
                at = where.value if isinstance(where.value, int) else _operations(member, where.value)[0][1][0]
                members[label] = type_.dtype, at
        if not members:
            return None
        formats, offsets = zip(*members.values(), strict=True)
        fields: Any = {
            "names": list(members), "formats": formats, "offsets": offsets,
            "itemsize": die.attributes["DW_AT_byte_size"].value,
        }  # fmt: skip
        return Type(name, np.dtype(fields))


def _length(subrange: Any) -> int | None:
    """How many elements one dimension of an array has: NVRTC tells the last index until 12, their number from 13 on."""
    count, last = (subrange.attributes.get(name) for name in ("DW_AT_count", "DW_AT_upper_bound"))
    return count.value if count is not None else last.value + 1 if last is not None else None


def _base_type(name: str, die: Any) -> Type | None:
    kind, size = (die.attributes[f"DW_AT_{which}"].value for which in ("encoding", "byte_size"))
    if size not in (1, 2, 4, 8):
        return None
    return Type(name, np.dtype(bool) if kind == _BOOLEAN else np.dtype(f"{_KINDS.get(kind, 'u')}{size}"))


def _span(die: Any) -> tuple[int, int]:
    return die.attributes["DW_AT_low_pc"].value, die.attributes["DW_AT_high_pc"].value


def _text(die: Any, attribute: str) -> str:
    found = die.attributes.get(attribute)
    return found.value.decode("utf-8", "replace") if found else ""


def _referred(die: Any) -> Any:
    return die.get_DIE_from_attribute("DW_AT_type") if "DW_AT_type" in die.attributes else None


def _operations(die: Any, expression: list[int]) -> list[tuple[str, list[int]]]:
    """A location expression as names and operands."""
    return [(op.op_name, op.args) for op in DWARFExprParser(die.cu.structs).parse_expr(expression)]
