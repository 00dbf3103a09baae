"""`trace`: one warp's way through a kernel, line by line, with the values of its variables.

    recording = trace("lab02_tiling/01_tiled", {"M": 64, "N": 64, "K": 64}, warp=2)
    recording.at(10).line, recording.at(10)["sum"]

The kernel is compiled for debugging, so that no line is optimised away and variables keep their names; the block that
holds the warp runs in the interpreter. What a kernel file launches before runs on the simulator.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import ptxsim
from ptxsim import Allocation, SimKernel, source_name
from ptxsim.limits import WARP
from ptxsim.oracle import shared_offset
from warpschool.contract import Contract, Plan, parse_contract
from warpschool.contract.expressions import EvaluationError, Piece, TokenReader, evaluate, parse_expression, tokenize
from warpschool.device.protocol import Dim3, LaunchOptions, Outcome, not_measured
from warpschool.device.sim import SimDevice, SimLoadedKernel, SimModule
from warpschool.errors import (
    ArgumentError,
    CompileError,
    ContractError,
    PtxSyntaxError,
    SimulationError,
    UnsupportedInstruction,
    WarpschoolError,
)
from warpschool.harness.launcher import Program, given_sizes, random_inputs
from warpschool.harness.source import resolve
from warpschool.inspect.debugger.recorder import EXITED, Changes, LineStep, RecordingFull, StepRecorder
from warpschool.inspect.debugger.symbols import Place, SourceVariable, Symbols, Type, read_symbols
from warpschool.inspect.profile import SEVERAL_SIZES, case_text, distinct, usual_sizes
from warpschool.suggest import did_you_mean

FOR_DEBUGGING = ("--device-debug",)
STEP_LIMIT = 1 << 20
"""Basic blocks that the block may execute."""
_CHECKPOINT = 128
_SMALL_SIZE = 64
_DECLARATION = re.compile(
    r"__shared__\s+(?:(?:alignas|__align__)\s*\([^)]*\)\s*)?((?:(?:un)?signed\s+)?\w+)\s+(\w+)((?:\s*\[[^]]*\])*)"
)
_PLAIN_TYPES = {
    "float": "f4", "double": "f8", "int": "i4", "unsigned": "u4", "unsigned int": "u4", "short": "i2", "char": "i1",
    "signed char": "i1", "unsigned char": "u1", "unsigned short": "u2", "half": "f2", "__half": "f2", "bool": "?",
    "int8_t": "i1", "uint8_t": "u1", "uint32_t": "u4", "int32_t": "i4",
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Recording:
    """One warp's way through a kernel. `steps[k]` is what it did; `at(k)` is the state of things just before.

    `hazards` are those of the whole file on the simulator; `ended` says why the recording stops early, "" where it does
    not; `note` says what the reader should know of it.
    """

    contract: Contract
    plan: Plan = field(repr=False)
    kernel: str
    block: Dim3
    block_shape: Dim3
    grid: Dim3
    warp: int
    steps: tuple[LineStep, ...] = field(repr=False)
    shared: tuple[SharedArray, ...]
    hazards: tuple[Any, ...]
    ended: str
    note: str
    recorder: StepRecorder = field(repr=False)
    allocations: Sequence[Allocation] = field(repr=False)
    inputs: Mapping[str, np.ndarray] = field(repr=False)
    """input arrays that the kernel does not change, by name"""
    _kept: dict[int, Moment] = field(default_factory=dict, repr=False)

    def __len__(self) -> int:
        return len(self.steps)

    def at(self, number: int) -> Moment:
        """The state before step `number`; `len(recording)` is the state at the end. Raises ArgumentError."""
        if not 0 <= number <= len(self):
            raise ArgumentError(f"there is no step {number}", next_step=f"This recording has steps 0 to {len(self)}.")
        first = max((n for n in self._kept if n <= number), default=0)
        moment = self._kept.get(first) or self._first_moment()
        for n in range(first, number):
            moment = moment.after(self.steps[n])
            if (n + 1) % _CHECKPOINT == 0:
                self._kept[n + 1] = moment
        return moment

    def _first_moment(self) -> Moment:
        local = self.recorder.local
        return Moment(self, 0, {}, {}, self.recorder.shared, local, np.zeros(local.shape, bool))

    @property
    def title(self) -> str:
        """Which warp of what this is, in words."""
        return (
            f"{self.contract.name}: {self.kernel}, block {self.block} of grid {self.grid}, "
            f"warp {self.warp} of {_warps(self.block_shape)}, {case_text(self.plan)}"
        )

    @property
    def findings(self) -> tuple[Any, ...]:
        """The hazards, one for each kind, line and array."""
        return distinct(self.hazards)

    def source_line(self, line: int) -> str:
        """The text of a line of the kernel file."""
        lines = self.contract.source.splitlines()
        return lines[line - 1] if 0 < line <= len(lines) else ""

    def __str__(self) -> str:
        return f"{self.title}: {len(self)} steps" + (f"; it ends early: {self.ended}" if self.ended else "")


def trace(
    kernel: str | Path | Contract, sizes: Mapping[str, float] | None = None,
    arrays: Mapping[str, npt.ArrayLike] | None = None, *, block: int | Sequence[int] | None = None,
    warp: int | None = None, launch: int | None = None, constants: Mapping[str, int] | None = None, seed: int = 0,
    progress: Callable[[int], None] | None = None,
) -> Recording:  # fmt: skip
    """Record what one warp of a kernel does, line by line; show the result in a notebook to step through it.

    `kernel`: a step (your own kernel for it is taken), a .cu file, or source text. Sizes that are not given are those
    of `warpschool profile`, but 64 where that takes 128; inputs are random. `block` is a linear number or (x, y, z);
    without block and warp, those of the first hazard are taken, or the first. `launch` counts the file's launches from
    0. `progress` hears how many steps there are so far.

    Raises what a run raises: CompileError, ContractError, LaunchError, ArgumentError.
    """
    contract = _contract(kernel)
    plan = contract.bind(_small_sizes(contract) | given_sizes(sizes), constants=constants)
    inputs = random_inputs(plan, np.random.default_rng(seed)) | dict(arrays or {})
    trouble = ""
    try:
        hazards = tuple(Program(contract, device="sim", constants=constants).run(plan.scalars, inputs).hazards)
    except SimulationError as error:
        hazards, trouble = (), f"On the simulator: {error.message}."
    number, place, chosen = _choose(plan, hazards, launch, block, warp)
    shape = plan.launches[number]

    def record(options: Sequence[str]) -> _RecordingDevice:
        device = _RecordingDevice(number, _linear(place, shape.grid), chosen, progress)
        Program(contract, device=device, constants=constants, options=options).run(plan.scalars, inputs)
        return device

    try:
        device = record(FOR_DEBUGGING)
        note = "" if device.symbols.functions else _NO_NAMES
    except (CompileError, UnsupportedInstruction, PtxSyntaxError):
        device = record(())
        note = _NO_NAMES
    recorder = device.recorder
    assert recorder is not None
    values = contract.declarations.constexpr_values(dict(constants or {}))
    return Recording(
        contract=contract, plan=plan, kernel=shape.entry, block=place, block_shape=shape.block, grid=shape.grid,
        warp=chosen, steps=tuple(recorder.steps), hazards=hazards, ended=device.ended, recorder=recorder,
        shared=shared_arrays(contract.source, recorder.kernel, values, device.symbols),
        note=" ".join(filter(None, (note, trouble))), allocations=device.memory.allocations,
        inputs={name: np.asarray(inputs[name]) for name, array in plan.arrays.items() if array.direction == "in"},
    )  # fmt: skip


_NO_NAMES = (
    "This kernel does not compile for debugging, so the optimised one is shown: with PTX registers instead of "
    "variables, and lines in the order in which the compiler put them."
)


def _small_sizes(contract: Contract) -> dict[str, int | float]:
    """Sizes at which a warp's way is short: a recording is for reading."""
    usual = usual_sizes(contract)
    small = {name: _SMALL_SIZE if size == SEVERAL_SIZES else size for name, size in usual.items()}
    try:
        contract.bind(small)
    except ContractError:  # the header needs larger ones
        return usual
    return small


def _contract(kernel: str | Path | Contract) -> Contract:
    if isinstance(kernel, Contract):
        return kernel
    if isinstance(kernel, str) and "\n" in kernel:
        return parse_contract(kernel)
    return resolve(kernel, otherwise='Name a file: ws.trace("FILE.cu")').contract()


def _choose(
    plan: Plan, hazards: Sequence[Any], launch: int | None, block: int | Sequence[int] | None, warp: int | None
) -> tuple[int, Dim3, int]:
    """Launch, block and warp to record, checked."""
    places = block if isinstance(block, Sequence) and not isinstance(block, str) else (block,)
    for name, value in (("launch", launch), ("warp", warp), *(("block", n) for n in places)):
        if value is not None and not isinstance(value, Integral):
            raise ArgumentError(f"{name}={value!r} is no whole number", next_step=f"For example: {name}=0")
    number = launch or 0
    if not 0 <= number < len(plan.launches):
        last = len(plan.launches) - 1
        raise ArgumentError(f"there is no launch {number}", next_step=f"The file has launches 0 to {last}.")
    shape = plan.launches[number]
    if block is None and warp is None and launch is None and hazards and len(plan.launches) == 1:
        return number, hazards[0].block, _linear(hazards[0].thread, shape.block) // WARP
    x, y, z = (*block, 0, 0, 0)[:3] if isinstance(block, Sequence) else _place(block or 0, shape.grid)
    if not all(0 <= at < count for at, count in zip((x, y, z), shape.grid, strict=True)):
        there = f"The grid is {shape.grid}: blocks 0 to {math.prod(shape.grid) - 1}."
        raise ArgumentError(f"there is no block {block}", next_step=there)
    warps = _warps(shape.block)
    if not 0 <= (warp or 0) < warps:
        there = f"A block has {math.prod(shape.block)} threads: warps 0 to {warps - 1}."
        raise ArgumentError(f"there is no warp {warp}", next_step=there)
    return number, (int(x), int(y), int(z)), warp or 0


def _warps(block_shape: Dim3) -> int:
    return -(-math.prod(block_shape) // WARP)


def _linear(place: Sequence[int], shape: Sequence[int]) -> int:
    return int(place[0] + shape[0] * (place[1] + shape[1] * place[2]))


def _place(number: int, shape: Sequence[int]) -> Dim3:
    return number % shape[0], number // shape[0] % shape[1], number // (shape[0] * shape[1])


# ---------------------------------------------------------------- the device


class _RecordingDevice(SimDevice):
    """The simulator, but one block of one launch runs in the interpreter, and later launches do not run."""

    def __init__(self, launch: int, block: int, warp: int, progress: Callable[[int], None] | None) -> None:
        super().__init__(memory_limit_bytes=1 << 30)
        self.block, self.warp, self.progress = block, warp, progress
        self.launches_before = launch
        self.symbols = Symbols()
        self.recorder: StepRecorder | None = None
        self.ended = ""

    def load(self, module: Any) -> SimModule:
        self.symbols = read_symbols(module.ptx, module.compiled.name)
        return super().load(module)

    def loaded(self, module: SimModule, kernel: ptxsim.SimKernel) -> SimLoadedKernel:
        return _RecordedKernel(module, kernel)


class _RecordedKernel(SimLoadedKernel):
    def launch(
        self, grid: Dim3, block: Dim3, arguments: Sequence[np.generic], *, shared_bytes: int, stream: Any,
        options: LaunchOptions,
    ) -> Outcome:  # fmt: skip
        device: Any = self.device
        if device.launches_before:
            device.launches_before -= 1
            unchecked = dataclasses.replace(options, check=False)
            return super().launch(grid, block, arguments, shared_bytes=shared_bytes, stream=stream, options=unchecked)
        if device.recorder is not None:
            return not_measured("after the recorded launch")
        recorder = device.recorder = StepRecorder(self.sim, device.symbols, device.warp, device.progress)
        try:
            ptxsim.trace(
                self.sim, grid, block, arguments, device.memory, recorder, number=device.block,
                shared_bytes=shared_bytes, step_limit=STEP_LIMIT, count=False,  # every line shows what it reads itself
            )  # fmt: skip
        except RecordingFull:
            device.ended = f"only the first {len(recorder.steps):,} steps are kept; smaller sizes give fewer"
        except UnsupportedInstruction:
            raise
        except WarpschoolError as error:
            device.ended = error.message
        recorder.finish()
        return not_measured("the debugger does not count")


# ---------------------------------------------------------------- moments


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
    local_known: np.ndarray = field(repr=False)
    """the bytes of local memory that have been written"""

    @property
    def step(self) -> LineStep | None:
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
        return self._variables(self.step) if self.recording.recorder.symbols.functions else self._registers(self.step)

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

    def after(self, step: LineStep) -> Moment:
        """The state when a step is done."""
        known = dict(self.known)
        for name in step.registers:
            known[name] = known.get(name, np.zeros(WARP, bool)) | step.active
        return Moment(
            self.recording, self.number + 1, {**self.registers, **step.registers}, known,
            _changed(self.shared_bytes, step.shared), _changed(self.local_bytes, step.local),
            _changed(self.local_known, (step.stored, np.ones(len(step.stored), bool))),
        )  # fmt: skip

    def pointed_at(self, address: int) -> tuple[str, int]:
        """(array, byte offset) of a pointer's value: a global array, a shared one, or ("", address)."""
        inside = shared_offset(address)
        if inside is not None:
            for array in self.recording.shared:
                if array.offset <= inside < array.offset + max(1, array.dtype.itemsize):
                    return array.name, inside - array.offset
        for allocation in self.recording.allocations:
            if allocation.address <= address <= allocation.end:
                return allocation.name, address - allocation.address
        return "", address

    # ---------------------------------------------------------------- variables

    def _variables(self, step: LineStep) -> dict[str, Values]:
        """What the active lanes see; lanes that wait elsewhere add their values of the same names."""
        found: dict[str, Values] = {}
        groups: dict[tuple[int, str], list[int]] = {}
        leader = int(np.argmax(step.active))
        for lane in (leader, *(lane for lane in range(WARP) if lane != leader)):
            if step.places[lane] != EXITED:
                groups.setdefault((int(step.places[lane]), step.copies[lane]), []).append(lane)
        for (ptx_line, copy), lanes in groups.items():
            function = self.recording.recorder.symbols.function_at(ptx_line)
            for variable in function.variables if function else ():  # outer ones first
                place = variable.at(ptx_line)
                if place is None:
                    continue
                array, defined = self._read(variable, place, copy)
                values = found.get(variable.name)
                if leader in lanes:  # an inner variable hides an outer one of its name
                    values = Values(variable.name, variable.type, array.copy(), np.zeros(WARP, bool), step.active)
                    found[variable.name] = values
                if values is not None and values.type.dtype == variable.type.dtype:
                    values.array[lanes] = array[lanes]
                    values.defined[lanes] = defined[lanes]
        return found

    def _read(self, variable: SourceVariable, place: Place, copy: str) -> tuple[np.ndarray, np.ndarray]:
        """The values of a variable in all lanes, and where it has one."""
        base, shape = variable.type.dtype.subdtype or (variable.type.dtype, ())
        size = variable.type.dtype.itemsize
        if place.register:
            values = self.registers.get(place.register + copy, np.zeros(WARP, np.uint8))
            raw = np.ascontiguousarray(values).reshape(WARP, 1).view(np.uint8)
            known = self.known.get(place.register + copy, np.zeros(WARP, bool))
        else:
            frame = self.recording.recorder.kernel.body.variables.get(place.frame + copy)
            start = (frame.offset if frame else 0) + place.offset
            raw = self.local_bytes[:, start : start + size]
            known = np.any(self.local_known[:, start : start + size if frame else start], axis=1)
        data = np.zeros((WARP, size), np.uint8)
        data[:, : raw.shape[1]] = raw[:, :size]
        return data.view(base).reshape(WARP, *(shape or ())), known

    def _registers(self, step: LineStep) -> dict[str, Values]:
        found = {}
        for name in sorted(self.registers, key=_by_number):
            kind = self.recording.recorder.kernel.body.registers[name]
            letter = {"f": "f", "p": "?", "s": "i"}.get(kind[0], "i" if kind[0] == "b" else "u")
            array = np.ascontiguousarray(self.registers[name])
            dtype = np.dtype(bool) if kind == "pred" else np.dtype(f"{letter}{array.itemsize}")
            found[name] = Values(name, Type(f".{kind}", dtype), array.view(dtype), self.known[name], step.active)
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
        if variable.space == "shared":
            name = source_name(variable.name.rsplit(".", 1)[-1])
            type_name, dims = declared.get(name, ("float", ""))
            element = _element(type_name, symbols)
            dtype = np.dtype((element, (0,) if variable.external else _shape(dims, values)))
            if not variable.external and dtype.itemsize != variable.size_bytes:
                type_name, element = ("char", np.dtype("i1")) if variable.size_bytes % 4 else ("float", np.dtype("f4"))
                dtype = np.dtype((element, (variable.size_bytes // element.itemsize,)))
            found.append(SharedArray(name, type_name, variable.offset, dtype))
    return tuple(found)


def _element(type_name: str, symbols: Symbols) -> np.dtype:
    known = (symbols.types or {}).get(type_name)
    return known.dtype if known else np.dtype(_PLAIN_TYPES.get(type_name, "f4"))


def _shape(dims: str, values: Mapping[str, int]) -> tuple[int, ...]:
    """The lengths in "[TILE][TILE + 1]"; none where one is no simple expression."""
    readers = (
        TokenReader(tokenize([Piece(text, 1, 1)], file=""), file="") for text in re.findall(r"\[([^]]*)\]", dims)
    )
    try:
        return tuple(int(evaluate(parse_expression(reader), values)) for reader in readers)
    except (ContractError, EvaluationError):
        return ()


def value_text(value: Any, type_: Type, moment: Moment) -> str:
    """One lane's value as text: numbers short, pointers as the element that they point at."""
    if type_.points_to is not None:
        name, offset = moment.pointed_at(int(value))
        size = type_.points_to.dtype.itemsize
        if not name:
            return "null" if offset == 0 else hex(offset)
        return f"&{name}[{offset // size}]" if offset % size == 0 else f"&{name} + {offset} bytes"
    if isinstance(value, np.ndarray):
        return f"{{{', '.join(map(_plain, value.reshape(-1)[:16]))}{', ...' if value.size > 16 else ''}}}"
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
