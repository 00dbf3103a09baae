"""The state of a recorded warp between two steps: its variables lane by lane, and its block's shared memory."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from ptxsim import Allocation, SimKernel, source_name
from ptxsim.limits import WARP
from ptxsim.oracle import shared_offset
from warpschool.contract.expressions import EvaluationError, Piece, TokenReader, evaluate, parse_expression, tokenize
from warpschool.errors import ArgumentError, ContractError
from warpschool.inspect.debugger.recorder import EXITED, Changes, Step
from warpschool.inspect.debugger.symbols import Place, Symbols, Type, Variable
from warpschool.suggest import did_you_mean

if TYPE_CHECKING:
    from warpschool.inspect.debugger.recording import Recording

_DECLARATION = re.compile(
    r"__shared__\s+(?:(?:alignas|__align__)\s*\([^)]*\)\s*)?((?:(?:un)?signed\s+)?\w+)\s+(\w+)((?:\s*\[[^]]*\])*)"
)
_PLAIN_TYPES = {
    "float": "f4", "double": "f8", "int": "i4", "unsigned": "u4", "unsigned int": "u4", "short": "i2", "char": "i1",
    "signed char": "i1", "unsigned char": "u1", "unsigned short": "u2", "half": "f2", "__half": "f2", "bool": "?",
    "int8_t": "i1", "uint8_t": "u1", "uint32_t": "u4", "int32_t": "i4",
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Frame:
    """Memory as it was before the first step, and where global arrays lie."""

    shared: np.ndarray
    local: np.ndarray
    kernel: SimKernel
    allocations: Sequence[Allocation]


@dataclass(frozen=True, eq=False)
class SharedArray:
    """A shared array: its type's name, its offset, and the NumPy type that reads it whole."""

    name: str
    type_name: str
    offset: int
    dtype: np.dtype

    def read(self, shared: np.ndarray) -> np.ndarray:
        """The array in a block's shared memory, of shape (...); an external one reaches to the end."""
        base, shape = self.dtype.subdtype or (self.dtype, ())
        if shape and shape[0] == 0:
            rest = shared[self.offset :]
            return rest[: len(rest) // base.itemsize * base.itemsize].view(base)
        return shared[self.offset : self.offset + self.dtype.itemsize].view(base).reshape(shape)


@dataclass(frozen=True, eq=False)
class Values:
    """A variable of every lane: `array` has shape (32, ...); a lane where it is not `defined` has no value yet."""

    name: str
    type: Type
    array: np.ndarray
    defined: np.ndarray
    active: np.ndarray

    @property
    def shown(self) -> np.ndarray:
        """The lanes that are active and have a value."""
        return np.flatnonzero(self.active & self.defined)

    @property
    def is_uniform(self) -> bool:
        """Whether all active lanes hold the same bytes."""
        rows = self.array[self.shown]
        return len(rows) > 0 and all(row.tobytes() == rows[0].tobytes() for row in rows)


@dataclass(frozen=True, eq=False)
class Moment:
    """The warp just before step `number`. `moment["sum"]` are the values of a variable that is in scope."""

    recording: Recording = field(repr=False)
    number: int
    registers: Mapping[str, np.ndarray] = field(repr=False)
    known: Mapping[str, np.ndarray] = field(repr=False)
    """register -> lanes that have written it"""
    shared_bytes: np.ndarray = field(repr=False)
    local_bytes: np.ndarray = field(repr=False)

    @property
    def step(self) -> Step | None:
        """What comes next; None at the end."""
        steps = self.recording.steps
        return steps[self.number] if self.number < len(steps) else None

    @property
    def line(self) -> int:
        """The source line that comes next, 0 at the end."""
        return self.step.line if self.step else 0

    @property
    def active(self) -> np.ndarray:
        """The lanes that take part in it, bool of shape (32,)."""
        return self.step.active if self.step else np.zeros(WARP, bool)

    @property
    def exited(self) -> np.ndarray:
        """The lanes that have returned."""
        return self.step.places == EXITED if self.step else np.ones(WARP, bool)

    @cached_property
    def variables(self) -> dict[str, Values]:
        """The variables in scope, by name; in a kernel without names, its registers."""
        if self.step is None:
            return {}
        return self._variables(self.step) if self.recording.symbols.functions else self._registers(self.step)

    def shared(self, name: str) -> np.ndarray:
        """A shared array as it is now. Raises ArgumentError for another name."""
        arrays = {array.name: array for array in self.recording.shared}
        if name not in arrays:
            has = did_you_mean(name, arrays) if arrays else "This kernel has no shared arrays."
            raise ArgumentError(f"there is no shared array '{name}'", next_step=has)
        return arrays[name].read(self.shared_bytes)

    def __getitem__(self, name: str) -> Values:
        if name not in self.variables:
            raise ArgumentError(
                f"there is no variable '{name}' at line {self.line}", next_step=did_you_mean(name, self.variables)
            )
        return self.variables[name]

    def after(self, step: Step) -> Moment:
        """The state when a step is done."""
        known = dict(self.known)
        for name in step.registers:
            known[name] = known.get(name, np.zeros(WARP, bool)) | step.active
        return Moment(
            self.recording, self.number + 1, {**self.registers, **step.registers}, known,
            _changed(self.shared_bytes, step.shared), _changed(self.local_bytes, step.local),
        )  # fmt: skip

    def pointed_at(self, address: int) -> tuple[str, int]:
        """(array, byte offset) of a pointer's value: a global array, a shared one, or ("", address)."""
        inside = shared_offset(address)
        if inside is not None:
            for array in self.recording.shared:
                if array.offset <= inside < array.offset + max(1, array.dtype.itemsize):
                    return array.name, inside - array.offset
        for allocation in self.recording.frame.allocations:
            if allocation.address <= address <= allocation.end:
                return allocation.name, address - allocation.address
        return "", address

    # ---------------------------------------------------------------- variables

    def _variables(self, step: Step) -> dict[str, Values]:
        """What the active lanes see; lanes that wait elsewhere add their values of the same names."""
        found: dict[str, Values] = {}
        groups: dict[tuple[int, str], list[int]] = {}
        leader = int(np.argmax(step.active))
        for lane in (leader, *(lane for lane in range(WARP) if lane != leader)):
            if step.places[lane] != EXITED:
                groups.setdefault((int(step.places[lane]), step.copies[lane]), []).append(lane)
        for (ptx_line, copy), lanes in groups.items():
            for variable, place in self._visible(ptx_line):
                array, defined = self._read(variable, place, copy)
                values = found.get(variable.name)
                if leader in lanes:  # an inner variable hides an outer one of its name
                    nothing = np.zeros(WARP, bool)
                    values = Values(variable.name, variable.type, array.copy(), nothing, step.active)
                    found[variable.name] = values
                if values is not None and values.type.dtype == variable.type.dtype:
                    values.array[lanes] = array[lanes]
                    values.defined[lanes] = defined[lanes]
        return found

    def _visible(self, ptx_line: int) -> Iterator[tuple[Variable, Place]]:
        """The variables at a place, outer ones first, so that inner ones hide them."""
        function = self.recording.symbols.function_at(ptx_line)
        for variable in function.variables if function else ():
            place = variable.at(ptx_line)
            if place is not None:
                yield variable, place

    def _read(self, variable: Variable, place: Place, copy: str) -> tuple[np.ndarray, np.ndarray]:
        """The values of a variable in all lanes, and where it has one."""
        base, shape = variable.type.dtype.subdtype or (variable.type.dtype, ())
        size = variable.type.dtype.itemsize
        if place.register:
            raw, known = self._register(place.register + copy)
        else:
            frame = self.recording.frame.kernel.body.variables.get(place.frame + copy)
            start = (frame.offset if frame else 0) + place.offset
            raw = self.local_bytes[:, start : start + size]
            known = np.full(WARP, frame is not None)
        data = np.zeros((WARP, size), np.uint8)
        data[:, : raw.shape[1]] = raw[:, :size]
        return data.view(base).reshape(WARP, *(shape or ())), known

    def _register(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        values = self.registers.get(name)
        if values is None:
            return np.zeros((WARP, 1), np.uint8), np.zeros(WARP, bool)
        return np.ascontiguousarray(values).reshape(WARP, 1).view(np.uint8), self.known[name]

    def _registers(self, step: Step) -> dict[str, Values]:
        found = {}
        for name in sorted(self.registers, key=_by_number):
            kind = self.recording.frame.kernel.body.registers[name]
            letter = {"f": "f", "p": "?", "s": "i"}.get(kind[0], "i" if kind[0] == "b" else "u")
            array = np.ascontiguousarray(self.registers[name])
            dtype = np.dtype(bool) if kind == "pred" else np.dtype(f"{letter}{array.itemsize}")
            array = array.view(dtype)
            found[name] = Values(name, Type(f".{kind}", dtype), array, self.known[name], step.active)
        return found


def _by_number(name: str) -> tuple[str, int, str]:
    match = re.match(r"(%[a-z]*)(\d*)(.*)", name)
    return (match[1], int(match[2] or 0), match[3]) if match else (name, 0, "")


def _changed(memory: np.ndarray, changes: Changes) -> np.ndarray:
    where, values = changes
    if not where.size:
        return memory
    memory = memory.copy()
    memory.reshape(-1)[where] = values
    return memory


# ---------------------------------------------------------------- shared arrays


def shared_arrays(
    source: str, kernel: SimKernel, values: Mapping[str, int], symbols: Symbols
) -> tuple[SharedArray, ...]:
    """The kernel's shared arrays, shaped as the source declares them; words where it cannot be read."""
    declared = {name: (type_name, dims) for type_name, name, dims in _DECLARATION.findall(source)}
    found = []
    for variable in kernel.body.variables.values():
        if variable.space != "shared":
            continue
        name = source_name(variable.name.rsplit(".", 1)[-1])
        type_name, dims = declared.get(name, ("float", ""))
        element = _element(type_name, symbols)
        shape = _shape(dims, values) or ()
        dtype = np.dtype((element, shape))
        if variable.external:
            dtype = np.dtype((element, (0,)))
        elif dtype.itemsize != variable.size_bytes:
            type_name, element = ("float", np.dtype("f4")) if variable.size_bytes % 4 == 0 else ("char", np.dtype("i1"))
            dtype = np.dtype((element, (variable.size_bytes // element.itemsize,)))
        found.append(SharedArray(name, type_name, variable.offset, dtype))
    return tuple(found)


def _element(type_name: str, symbols: Symbols) -> np.dtype:
    known = (symbols.types or {}).get(type_name)
    return known.dtype if known else np.dtype(_PLAIN_TYPES.get(type_name, "f4"))


def _shape(dims: str, values: Mapping[str, int]) -> tuple[int, ...] | None:
    """The lengths in "[TILE][TILE + 1]"; None where one is no simple expression."""
    lengths = []
    for text in re.findall(r"\[([^]]*)\]", dims):
        try:
            reader = TokenReader(tokenize([Piece(text, 1, 1)], file=""), file="")
            lengths.append(int(evaluate(parse_expression(reader), values)))
        except (ContractError, EvaluationError):
            return None
    return tuple(lengths)


def value_text(value: Any, type_: Type, moment: Moment) -> str:
    """One lane's value as text: numbers short, pointers as the element that they point at."""
    if type_.points_to is not None:
        name, offset = moment.pointed_at(int(value))
        size = type_.points_to.dtype.itemsize
        if not name:
            return "null" if offset == 0 else hex(offset)
        return f"&{name}[{offset // size}]" if offset % size == 0 else f"&{name} + {offset} bytes"
    if isinstance(value, np.ndarray):
        shown = ", ".join(_plain(v) for v in value.reshape(-1)[:16])
        return f"{{{shown}{', ...' if value.size > 16 else ''}}}"
    return _plain(value)


def _plain(value: Any) -> str:
    if isinstance(value, np.void) and value.dtype.names:
        return "{" + ", ".join(f"{name} {_plain(value[name])}" for name in value.dtype.names) + "}"
    if isinstance(value, np.ndarray):
        return "{" + ", ".join(_plain(v) for v in value.reshape(-1)) + "}"
    if isinstance(value, np.floating):
        return f"{float(value):.6g}"
    if isinstance(value, np.bool_):
        return "true" if value else "false"
    return str(int(value))
