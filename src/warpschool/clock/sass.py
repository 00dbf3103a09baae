"""A cubin's machine code as data: instructions with operands, control fields and source lines.

NVIDIA does not document SASS. What stands here is what its disassembler prints, and the control fields (bits 105 to 125
of an instruction) as published by Jia et al., "Dissecting the NVIDIA Volta GPU Architecture via Microbenchmarking",
2018.
"""

from __future__ import annotations

import io
import re
import struct
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any

INSTRUCTION_BYTES = 16
_SIZED = 4
_PARAMETERS, _PARAMETER, _FRAME, _REGISTERS, _CLUSTER = 0x0A, 0x17, 0x11, 0x2F, 0x3D
"""Attributes of .nv.info: where parameters lie in bank 0; one of them; by kernel, bytes of its stack frame and its
registers; blocks of a cluster in x, y and z."""


@dataclass(frozen=True)
class Operand:
    """One operand.

    `kind`: "R", "UR", "P", "UP" (numbered; `index` -1 is the zero register or the true predicate), "imm" (bits in
    `value`), "c" (bank in `bank`, byte offset in `value`, register in `index` or -1), "mem" (see `base` and the rest),
    "SR" (name in `text`), "B", "SB", "label" (name in `text`) or "other".
    """

    kind: str
    index: int = -1
    value: int = 0
    bank: int = 0
    negative: bool = False
    absolute: bool = False
    inverted: bool = False
    reuse: bool = False
    wide: bool = False
    """a memory operand whose base register is a 64-bit pair"""
    uniform: int = -2
    """a memory operand's uniform register, -2 for none"""
    scale: int = 1
    text: str = ""
    suffix: str = ""
    """what follows a register's name, such as ".H0_H0" """


@dataclass(frozen=True)
class Instruction:
    """One instruction. `line` is the source line, `chain` the lines that inlined it, innermost first; 0 where unknown.

    `stall` cycles until the warp may issue again, and whether the scheduler then `stays` with it; `write_barrier` and
    `read_barrier` are the scoreboards that it sets (7: none), `wait` the mask of those it waits for; `reuse` says which
    source slots stay in the reuse cache.
    """

    offset: int
    opcode: str
    """with its modifiers, "IMAD.WIDE.U32" """
    operands: tuple[Operand, ...]
    guard: Operand | None
    line: int
    chain: tuple[int, ...]
    stall: int
    stays: bool
    write_barrier: int
    read_barrier: int
    wait: int
    reuse: int
    target: int = -1
    """index of the instruction that a branch leads to"""

    @property
    def name(self) -> str:
        """The opcode without modifiers."""
        return self.opcode.partition(".")[0]

    @property
    def modifiers(self) -> frozenset[str]:
        return frozenset(self.opcode.split(".")[1:])


@dataclass(frozen=True)
class Function:
    """A kernel's machine code, with what a launch of it needs: registers per thread, bytes of static shared memory,
    and where its parameters lie in constant bank 0."""

    name: str
    code: tuple[Instruction, ...]
    registers: int
    shared_bytes: int
    local_bytes: int
    parameter_base: int
    parameters: tuple[int, ...] = ()
    """byte offset of each parameter behind the base"""
    cluster: tuple[int, int, int] = (1, 1, 1)
    """blocks of a cluster, as the kernel declares it"""
    reserved_shared_bytes: int = 0
    """at the start of shared memory, which the kernel's own addresses begin behind"""
    constants: dict[int, bytes] = field(default_factory=dict, repr=False)
    """constant banks 2 and 3 as the cubin fills them"""
    constant_symbols: dict[str, tuple[int, int]] = field(default_factory=dict, repr=False)
    """`__constant__` variable -> byte offset in bank 3, and size"""
    symbols: dict[int, str] = field(default_factory=dict, repr=False)
    """byte offset in bank 4 -> variable whose address stands there"""


def read_functions(cubin: bytes, listing: str, *, file: str, reserved: int = 0) -> dict[str, Function]:
    """The kernels of a cubin, by name, with the listing that `nvdisasm -hex -gi -c` printed of it.

    `file` is the name of the source whose lines count; code from other files takes the line that included it.
    `reserved`
    are the bytes at the start of shared memory that the system keeps for itself, which a cubin counts too.
    """
    from elftools.elf.elffile import ELFFile

    elf = ELFFile(io.BytesIO(cubin))
    bodies = _bodies(listing, PurePath(file).name)
    return {name: _function(elf, name, tuple(code), reserved) for name, code in bodies.items() if code}


def _function(elf: Any, name: str, code: tuple[Instruction, ...], reserved: int) -> Function:
    def section(of: str) -> Any:
        return elf.get_section_by_name(of)

    text, shared = section(f".text.{name}"), section(f".nv.shared.{name}")
    symbol = text["sh_info"] & 0xFFFFFF if text else 0
    numbers = {_FRAME: 0, _REGISTERS: 0}
    for attribute, value in _attributes(section(".nv.info")):
        if attribute in numbers and struct.unpack_from("<I", value)[0] == symbol:
            numbers[attribute] = struct.unpack_from("<I", value, 4)[0]
    base, places, cluster = 0x210, {}, (1, 1, 1)
    for attribute, value in _attributes(section(f".nv.info.{name}")):
        if attribute == _PARAMETERS:
            base = struct.unpack_from("<H", value, 4)[0]
        elif attribute == _PARAMETER:
            number, offset = struct.unpack_from("<HH", value, 4)
            places[number] = offset
        elif attribute == _CLUSTER:
            x, y, z = struct.unpack_from("<3I", value)
            cluster = (x, y, z)
    constants = {
        bank: found.data()
        for bank in (2, 3)
        if (found := section(f".nv.constant{bank}") or section(f".nv.constant{bank}.{name}"))
    }
    return Function(
        name=name, code=code,
        registers=numbers[_REGISTERS],
        shared_bytes=max(0, shared["sh_size"] - reserved) if shared else 0,
        reserved_shared_bytes=reserved,
        local_bytes=numbers[_FRAME], parameter_base=base, cluster=cluster, constants=constants, symbols=_symbols(elf),
        parameters=tuple(places[number] for number in sorted(places)), constant_symbols=_constant_symbols(elf),
    )  # fmt: skip


def _attributes(section: Any) -> list[tuple[int, bytes]]:
    data: bytes = section.data() if section else b""
    found, at = [], 0
    while at + 4 <= len(data):
        form, attribute = data[at], data[at + 1]
        size = struct.unpack_from("<H", data, at + 2)[0] if form == _SIZED else 0
        found.append((attribute, data[at + 4 : at + 4 + size]))
        at += 4 + size
    return found


def _symbols(elf: Any) -> dict[int, str]:
    """What the relocations of bank 4 say: addresses of variables."""
    table = elf.get_section_by_name(".rela.nv.constant4") or elf.get_section_by_name(".rel.nv.constant4")
    names = elf.get_section_by_name(".symtab")
    if table is None:
        return {}
    return {r["r_offset"]: names.get_symbol(r["r_info_sym"]).name for r in table.iter_relocations()}


def _constant_symbols(elf: Any) -> dict[str, tuple[int, int]]:
    names = elf.get_section_by_name(".symtab")
    bank = elf.get_section_index(".nv.constant3")
    if bank is None or names is None:
        return {}
    return {
        s.name: (s["st_value"], s["st_size"]) for s in names.iter_symbols() if s["st_shndx"] == bank and s["st_size"]
    }


# ---------------------------------------------------------------- the listing

_SECTION = re.compile(r"\s*\.section\s+\.text\.([\w$]+)")
_LABEL = re.compile(r"(\.L_\w+|\$?[\w$]+|\.text\.[\w$]+):$")
_CODE = re.compile(r"\s*/\*([0-9a-f]{4,})\*/\s+(?:@(!?)(U?P\w+)\s+)?([\w.]+)\s*(.*?)\s*;\s*/\* 0x([0-9a-f]{16}) \*/")
_SECOND = re.compile(r"\s*/\* 0x([0-9a-f]{16}) \*/")
_PLACE = re.compile(r'File "([^"]*)", line (\d+)')
_REMARK = re.compile(r"\(\*.*?\*\)")
"""What the disassembler tells people: (*"SpillRefill"*)."""
_TARGET = re.compile(r"`\(([^)]+)\)")


def _bodies(listing: str, file: str) -> dict[str, list[Instruction]]:
    found: dict[str, list[Instruction]] = {}
    raw: list[tuple[re.Match[str], tuple[int, ...], int]] = []
    labels: dict[str, int] = {}
    chain: tuple[int, ...] = ()
    name, fresh = "", True
    for row in listing.splitlines():
        if match := _SECTION.match(row):
            _close(found, name, raw, labels)
            name, raw, labels, chain = match[1], [], {}, ()
        elif "//## File" in row:
            mine = tuple(int(line) for path, line in _PLACE.findall(row) if PurePath(path).name == file)
            chain = mine if fresh else chain + mine
            fresh = False
            continue
        elif match := _LABEL.match(row.strip()):
            labels[match[1]] = len(raw)
        elif match := _CODE.match(row):
            raw.append((match, chain, 0))
        elif raw and (match := _SECOND.match(row)):
            raw[-1] = (*raw[-1][:2], int(match[1], 16))
        fresh = True
    _close(found, name, raw, labels)
    return found


def _close(
    found: dict[str, list[Instruction]], name: str, raw: list[tuple[re.Match[str], tuple[int, ...], int]],
    labels: dict[str, int],
) -> None:  # fmt: skip
    if name:
        found[name] = [_instruction(match, chain, high, labels) for match, chain, high in raw]


def _instruction(match: re.Match[str], chain: tuple[int, ...], high: int, labels: dict[str, int]) -> Instruction:
    offset, negative, guard, opcode, arguments, low = match.groups()
    arguments = _REMARK.sub("", arguments)
    control = high >> 41
    goal = _TARGET.search(arguments)
    return Instruction(
        offset=int(offset, 16), opcode=opcode,
        operands=tuple(_operand(text, int(low, 16)) for text in _split(arguments)),
        guard=_operand(negative + guard, 0) if guard else None,
        line=chain[0] if chain else 0, chain=chain,
        stall=control & 15, stays=bool(control >> 4 & 1), write_barrier=control >> 5 & 7,
        read_barrier=control >> 8 & 7, wait=control >> 11 & 63,
        reuse=control >> 17 & 15, target=labels.get(goal[1], -1) if goal else -1,
    )  # fmt: skip


def _split(arguments: str) -> list[str]:
    """Operands, at the commas outside of brackets."""
    parts, depth = [""], 0
    for char in arguments:
        depth += (char in "[(") - (char in "])")
        if char == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += char
    return [part.strip() for part in parts if part.strip()]


_REGISTER = re.compile(r"(U?)R(\d+|Z)((?:\.\w+)*)$")
_PREDICATE = re.compile(r"(U?)P(\d|T)$")
_CONSTANT = re.compile(r"c\[0x(\w+)\]\[(?:(U?)R(\d+|Z))?\+?(-?0x[0-9a-f]+)?\](\.\w+)*$")
_TERM = re.compile(r"([+-]*)\s*(U?R(?:\d+|Z)(?:\.\w+)*|0x[0-9a-f]+)")


def _operand(text: str, low: int) -> Operand:
    whole = text
    negative, inverted, absolute = False, False, False
    while text and text[0] in "-~!+":
        negative, inverted = negative or text[0] == "-", inverted or text[0] in "~!"
        if text[0] == "-" and re.match(r"-(\d|0x|INF|QNAN|SNAN)", text):
            negative = False
            break
        text = text[1:]
    if text.startswith("|"):
        absolute, text = True, text.replace("|", "")
    signs: dict[str, Any] = {"negative": negative, "inverted": inverted, "absolute": absolute}
    if match := _REGISTER.match(text):
        suffix = match[3]
        return Operand(
            "UR" if match[1] else "R", -1 if match[2] == "Z" else int(match[2]), reuse=".reuse" in suffix,
            suffix=suffix.replace(".reuse", ""), **signs,
        )  # fmt: skip
    if match := _PREDICATE.match(text):
        return Operand("UP" if match[1] else "P", -1 if match[2] == "T" else int(match[2]), **signs)
    if match := _CONSTANT.match(text):
        index = -1 if match[3] in (None, "Z") else int(match[3])
        kind = "c" if not match[2] else "cu"
        return Operand(kind, index, int(match[4] or "0", 16), bank=int(match[1], 16), **signs)
    if text.startswith(("[", "desc[", "gdesc[", "tmem[")):
        return _memory(text)
    if match := re.fullmatch(r"(-?)0x([0-9a-f]+)", text):
        return Operand("imm", value=(-1 if match[1] else 1) * int(match[2], 16) & 0xFFFFFFFF, **signs)
    if re.match(r"[-+]?(\d|INF|QNAN|SNAN)", text):
        return Operand("imm", value=low >> 32, text=whole, **signs)
    if match := re.fullmatch(r"(B|SB)(\d+)", text):
        return Operand(match[1], int(match[2]))
    if "`(" in text:
        if match := re.match(r"R(\d+) `", text):  # a return: the register holds where to
            return Operand("R", int(match[1]))
        return Operand("label", text=text)
    if text.startswith("SR"):
        return Operand("SR", text=text)
    return Operand("other", text=whole)


def _memory(text: str) -> Operand:
    """`[R2.64+UR4+0x10]`, with or without a descriptor in front."""
    inner = text[text.rindex("[") + 1 : text.rindex("]")]
    index, uniform, offset, wide, scale = -1, -2, 0, False, 1
    for sign, term in _TERM.findall(inner):
        if term.startswith("0x"):
            offset += -int(term, 16) if "-" in sign else int(term, 16)
            continue
        match = _REGISTER.match(term)
        assert match
        number = -1 if match[2] == "Z" else int(match[2])
        if match[1]:
            uniform = number
            wide = wide or (".64" in match[3] and index == -1 and "R" not in inner.replace("UR", ""))
        else:
            index, wide = number, ".64" in match[3]
            if factor := re.search(r"\.X(\d+)", match[3]):
                scale = int(factor[1])
    return Operand("mem", index, offset, wide=wide, uniform=uniform, scale=scale, text=text)
