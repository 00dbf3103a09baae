"""`trace`: one warp's way through a kernel, line by line, with the values of its variables.

    recording = trace("lab02_tiling/01_tiled", {"M": 64, "N": 64, "K": 64}, warp=2)
    recording.at(10).line, recording.at(10)["sum"]

The kernel is compiled for debugging, so that no line is optimised away and variables keep their names; the block that
holds the warp runs in the interpreter. What a kernel file launches before runs on the simulator.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
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
    symbols: Symbols = field(repr=False)
    shared: tuple[SharedArray, ...]
    hazards: tuple[Any, ...]
    printed: str
    ended: str
    note: str
    frame: StartState = field(repr=False)
    inputs: Mapping[str, np.ndarray] = field(repr=False)
    """input arrays that the kernel does not change, by name"""
    _kept: dict[int, Moment] = field(default_factory=dict, repr=False)

    def __len__(self) -> int:
        return len(self.steps)

    def at(self, number: int) -> Moment:
        """The state before step `number`; `len(recording)` is the state at the end. Raises ArgumentError."""
        if not 0 <= number <= len(self.steps):
            there = f"This recording has steps 0 to {len(self.steps)}."
            raise ArgumentError(f"there is no step {number}", next_step=there)
        first = max((n for n in self._kept if n <= number), default=0)
        moment = self._kept.get(first) or Moment(self, 0, {}, {}, self.frame.shared.copy(), self.frame.local.copy())
        for n in range(first, number):
            moment = moment.after(self.steps[n])
            if (n + 1) % _CHECKPOINT == 0:
                self._kept[n + 1] = moment
        return moment

    @property
    def title(self) -> str:
        """Which warp of what this is, in words."""
        threads = self.block_shape[0] * self.block_shape[1] * self.block_shape[2]
        warps = -(-threads // WARP)
        return (
            f"{self.contract.name}: {self.kernel}, block {_triple(self.block)} of grid {_triple(self.grid)}, "
            f"warp {self.warp} of {warps}, {case_text(self.plan)}"
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
        end = f"; it ends early: {self.ended}" if self.ended else ""
        return f"{self.title}: {len(self.steps)} steps{end}"


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
    hazards, trouble = _hazards(contract, plan, inputs, constants)
    wanted = _choose(plan, hazards, launch, block, warp)
    try:
        device = _record(contract, plan, inputs, constants, wanted, FOR_DEBUGGING, progress)
        note = "" if device.symbols.functions else _NO_NAMES
    except (CompileError, UnsupportedInstruction, PtxSyntaxError):
        device = _record(contract, plan, inputs, constants, wanted, (), progress)
        note = _NO_NAMES
    assert device.recorder is not None and device.kernel is not None
    values = contract.declarations.constexpr_values(dict(constants or {}))
    shape = plan.launches[wanted.launch]
    kept = StartState(device.recorder.shared, device.recorder.local, device.kernel, device.memory.allocations)
    return Recording(
        contract=contract, plan=plan, kernel=shape.entry, block=_place(wanted.block, shape.grid),
        block_shape=shape.block, grid=shape.grid, warp=wanted.warp, steps=tuple(device.recorder.steps),
        symbols=device.symbols, shared=shared_arrays(contract.source, device.kernel, values, device.symbols),
        hazards=hazards, printed=device.printed, ended=device.ended, note=" ".join(filter(None, (note, trouble))),
        frame=kept,
        inputs={name: np.asarray(inputs[name]) for name, array in plan.arrays.items() if array.direction == "in"},
    )  # fmt: skip


_NO_NAMES = (
    "This kernel does not compile for debugging, so the optimised one is shown: with PTX registers instead of "
    "variables, and lines in the order in which the compiler put them."
)


@dataclass(frozen=True)
class _Wanted:
    """What to record: launch, block (both linear numbers) and warp."""

    launch: int
    block: int
    warp: int


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


def _hazards(
    contract: Contract, plan: Plan, inputs: Mapping[str, npt.ArrayLike], constants: Mapping[str, int] | None
) -> tuple[tuple[Any, ...], str]:
    """What the simulator finds in a whole run, or why it did not end."""
    try:
        run = Program(contract, device="sim", constants=constants).run(plan.scalars, inputs)
    except SimulationError as error:
        return (), f"On the simulator: {error.message}."
    return run.hazards, ""


def _choose(
    plan: Plan, hazards: Sequence[Any], launch: int | None, block: int | Sequence[int] | None, warp: int | None
) -> _Wanted:
    """Which warp to record, checked."""
    for name, value in (("launch", launch), ("warp", warp), *(("block", n) for n in _several(block))):
        if value is not None and not isinstance(value, Integral):
            raise ArgumentError(f"{name}={value!r} is no whole number", next_step=f"For example: {name}=0")
    number = launch or 0
    if not 0 <= number < len(plan.launches):
        last = len(plan.launches) - 1
        raise ArgumentError(f"there is no launch {number}", next_step=f"The file has launches 0 to {last}.")
    shape = plan.launches[number]
    if block is None and warp is None and launch is None and hazards and len(plan.launches) == 1:
        first = hazards[0]
        return _Wanted(number, _linear(first.block, shape.grid), _linear(first.thread, shape.block) // WARP)
    blocks, threads = (s[0] * s[1] * s[2] for s in (shape.grid, shape.block))
    chosen = block if isinstance(block, int) else _linear(_full(block or (0,)), shape.grid)
    is_elsewhere = not isinstance(block, int) and _place(chosen, shape.grid) != _full(block or (0,))
    if not 0 <= chosen < blocks or is_elsewhere:
        there = f"The grid is {_triple(shape.grid)}: blocks 0 to {blocks - 1}."
        raise ArgumentError(f"there is no block {block}", next_step=there)
    warps = -(-threads // WARP)
    if not 0 <= (warp or 0) < warps:
        there = f"A block has {threads} threads: warps 0 to {warps - 1}."
        raise ArgumentError(f"there is no warp {warp}", next_step=there)
    return _Wanted(number, chosen, warp or 0)


def _several(block: int | Sequence[int] | None) -> Sequence[Any]:
    """The numbers that name a block."""
    return block if isinstance(block, Sequence) and not isinstance(block, str) else (block,)


def _record(
    contract: Contract, plan: Plan, inputs: Mapping[str, npt.ArrayLike], constants: Mapping[str, int] | None,
    wanted: _Wanted, options: Sequence[str], progress: Callable[[int], None] | None,
) -> _Device:  # fmt: skip
    device = _Device(wanted, progress)
    Program(contract, device=device, constants=constants, options=options).run(plan.scalars, inputs)
    return device


def _linear(place: Sequence[int], shape: Sequence[int]) -> int:
    return int(place[0] + shape[0] * (place[1] + shape[1] * place[2]))


def _place(number: int, shape: Sequence[int]) -> Dim3:
    return number % shape[0], number // shape[0] % shape[1], number // (shape[0] * shape[1])


def _full(place: Sequence[int]) -> Dim3:
    x, y, z = (*place, 0, 0)[:3]
    return x, y, z


def _triple(place: Sequence[int]) -> str:
    return f"({', '.join(map(str, place))})"


# ---------------------------------------------------------------- the device


class _Device(SimDevice):
    """The simulator, but one block of one launch runs in the interpreter, and later launches do not run."""

    def __init__(self, wanted: _Wanted, progress: Callable[[int], None] | None) -> None:
        super().__init__(memory_limit_bytes=1 << 30)
        self.wanted, self.progress = wanted, progress
        self.launches = 0
        self.symbols = Symbols()
        self.recorder: StepRecorder | None = None
        self.kernel: Any = None
        self.printed = self.ended = ""

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
        device.launches += 1
        if device.launches - 1 < device.wanted.launch:
            unchecked = dataclasses.replace(options, check=False)
            return super().launch(grid, block, arguments, shared_bytes=shared_bytes, stream=stream, options=unchecked)
        if device.launches - 1 > device.wanted.launch:
            return not_measured("after the recorded launch")
        device.kernel = self.sim
        recorder = device.recorder = StepRecorder(self.sim, device.symbols, device.wanted.warp, device.progress)
        try:
            result = ptxsim.trace(
                self.sim, grid, block, arguments, device.memory, recorder, number=device.wanted.block,
                shared_bytes=shared_bytes, step_limit=STEP_LIMIT, count=False,  # every line shows what it reads itself
            )  # fmt: skip
            device.printed = result.printed
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
class StartState:
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

    def after(self, step: LineStep) -> Moment:
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

    def _variables(self, step: LineStep) -> dict[str, Values]:
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

    def _visible(self, ptx_line: int) -> Iterator[tuple[SourceVariable, Place]]:
        """The variables at a place, outer ones first, so that inner ones hide them."""
        function = self.recording.symbols.function_at(ptx_line)
        for variable in function.variables if function else ():
            place = variable.at(ptx_line)
            if place is not None:
                yield variable, place

    def _read(self, variable: SourceVariable, place: Place, copy: str) -> tuple[np.ndarray, np.ndarray]:
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

    def _registers(self, step: LineStep) -> dict[str, Values]:
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
