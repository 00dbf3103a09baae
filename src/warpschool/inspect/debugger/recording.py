"""`trace`: one warp's way through a kernel, line by line, with the values of its variables.

    recording = trace("lab02_tiling/01_tiled", {"M": 64, "N": 64, "K": 64}, warp=2)
    recording.at(10).line, recording.at(10)["sum"]

The kernel is compiled for debugging, so that no line is optimised away and variables keep their names; the block that
holds the warp runs in the interpreter. What a kernel file launches before runs on the simulator.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import ptxsim
from ptxsim.limits import WARP
from warpschool.contract import Contract, Plan, parse_contract
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
from warpschool.inspect.debugger.moment import Frame, Moment, SharedArray, shared_arrays
from warpschool.inspect.debugger.recorder import Recorder, RecordingFull, Step
from warpschool.inspect.debugger.symbols import Symbols, read_symbols
from warpschool.inspect.profile import SEVERAL_SIZES, case_text, distinct, usual_sizes

FOR_DEBUGGING = ("--device-debug",)
STEP_LIMIT = 1 << 20
"""Basic blocks that the block may execute."""
_CHECKPOINT = 128
_SMALL_SIZE = 64


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
    steps: tuple[Step, ...] = field(repr=False)
    symbols: Symbols = field(repr=False)
    shared: tuple[SharedArray, ...]
    hazards: tuple[Any, ...]
    printed: str
    ended: str
    note: str
    frame: Frame = field(repr=False)
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

    def _repr_html_(self) -> str:
        from warpschool.show.stepping import stepping_html

        return stepping_html(self)


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
    kept = Frame(device.recorder.shared, device.recorder.local, device.kernel, device.memory.allocations)
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
        self.recorder: Recorder | None = None
        self.kernel: Any = None
        self.printed = self.ended = ""

    def load(self, module: Any) -> SimModule:
        self.symbols = read_symbols(module.ptx, module.compiled.name)
        return super().load(module)

    def loaded(self, module: SimModule, kernel: ptxsim.SimKernel) -> SimLoadedKernel:
        return _Kernel(module, kernel)


class _Kernel(SimLoadedKernel):
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
        recorder = device.recorder = Recorder(self.sim, device.symbols, device.wanted.warp, device.progress)
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
