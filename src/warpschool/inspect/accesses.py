"""Which byte each lane of a warp touches: the record behind the pictures of sectors and banks.

    seen = trace(contract, {"M": 64, "N": 64}, {"A": a})
    seen.worst("shared", "load").wavefronts

One block of the kernel runs in the NumPy interpreter, which notes every request to global and shared memory. It counts
what the simulator counts, request by request: neighbouring shared loads of a thread are one, as in machine code.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

import ptxsim
from ptxsim.limits import BANKS, SECTOR_BYTES, WARP, WORD_BYTES
from ptxsim.oracle import depends_on_order, in_pairs
from warpschool.contract import Contract
from warpschool.device import DeviceArray, Launch
from warpschool.device.protocol import Dim3, LaunchOptions, Outcome, not_measured
from warpschool.device.sim import SimDevice, SimLoadedKernel, SimModule
from warpschool.errors import ArgumentError
from warpschool.harness.launcher import Program

_BARRIERS = ("bar", "barrier")
STEP_LIMIT = 1 << 20
"""Basic blocks that the traced block may execute: far more than a picture needs."""


@dataclass(frozen=True, eq=False)
class WarpRequest(ptxsim.MemoryRequest):
    """One request: what the lanes of a warp load or store together, and what that costs."""

    phase: int = 0
    """how many barriers of its block the warp has passed before"""
    launch: int = 0
    """which launch of the file it belongs to"""

    @property
    def lanes(self) -> np.ndarray:
        """The lanes that take part."""
        return np.flatnonzero(self.offsets >= 0)

    def elements(self, item_bytes: int = 4) -> np.ndarray:
        """The first element that each taking part lane touches."""
        return self.offsets[self.lanes] // item_bytes

    @property
    def sectors(self) -> tuple[int, ...]:
        """The 32-byte sectors of the array that are touched."""
        first = self.offsets[self.lanes]
        ends = np.concatenate([first, first + self.nbytes - 1]) // SECTOR_BYTES
        return tuple(int(sector) for sector in np.unique(ends))

    @property
    def fewest_sectors(self) -> int:
        """Sectors that could hold the distinct bytes."""
        starts = np.sort(self.offsets[self.lanes])
        if not starts.size:
            return 0
        distinct = self.nbytes + int(np.minimum(np.diff(starts), self.nbytes).sum())
        return -(-distinct // SECTOR_BYTES)

    @property
    def phases(self) -> int:
        """Groups of lanes that shared memory serves one after the other.

        64-bit accesses take half a warp at a time, 128-bit ones a quarter; twice as many lanes where they pair up.
        """
        phases = {8: 2, 16: 4}.get(self.nbytes, 1)
        paired = bool(in_pairs(self.offsets[None], self.offsets[None] >= 0)[0])
        return max(1, phases // 2) if paired else phases

    def words(self) -> list[Word]:
        """Every word of shared memory that a lane touches, with its bank and the pass that serves it.

        A bank serves one word in a pass, to all lanes that want it.
        """
        found: list[Word] = []
        passes = 0
        for phase in range(self.phases):
            queues: dict[int, list[int]] = defaultdict(list)
            for lane in self.lanes[self.lanes * self.phases // WARP == phase]:
                for extra in range(max(1, self.nbytes // WORD_BYTES)):
                    number = (self.start + int(self.offsets[lane])) // WORD_BYTES + extra
                    queue = queues[number % BANKS]
                    if number not in queue:
                        queue.append(number)
                    found.append(Word(int(lane), number, number % BANKS, passes + queue.index(number)))
            passes += max(map(len, queues.values()), default=0)
        return found

    @property
    def wavefronts(self) -> int:
        """Passes that the shared memory needs."""
        return max((word.turn + 1 for word in self.words()), default=0)

    @property
    def cost(self) -> int:
        """Sectors of global memory, or passes of shared memory."""
        return len(self.sectors) if self.space == "global" else self.wavefronts

    @property
    def fewest(self) -> int:
        """Sectors or passes that would do."""
        return self.fewest_sectors if self.space == "global" else len(set(self.lanes * self.phases // WARP))

    @property
    def excess(self) -> int:
        """Sectors or passes beyond the fewest that this request needs."""
        return self.cost - self.fewest

    def __str__(self) -> str:
        unit = "sectors" if self.space == "global" else "passes"
        width = f", {self.nbytes} bytes a lane" if self.nbytes != WORD_BYTES else ""
        return f"line {self.line}: {self.kind} of {self.array}, {self.cost} {unit}{width}"


@dataclass(frozen=True)
class Word:
    """A 4-byte word of shared memory that a lane touches; `turn` numbers the passes of its request from 0."""

    lane: int
    number: int
    bank: int
    turn: int


@dataclass(frozen=True)
class Trace:
    """The requests of one block, in the order of execution."""

    accesses: tuple[WarpRequest, ...]

    def select(self, space: str, kind: str, array: str = "") -> tuple[WarpRequest, ...]:
        """The requests of one kind: "global" or "shared", "load" or "store", of one array or of all."""
        return tuple(a for a in self.accesses if (a.space, a.kind) == (space, kind) and array in ("", a.array))

    def worst(self, space: str, kind: str, array: str = "") -> WarpRequest | None:
        """The first of the requests with the most excess; None where there is no request of the kind."""
        return max(self.select(space, kind, array), key=lambda access: access.excess, default=None)


def trace(
    contract: Contract, sizes: Mapping[str, float], arrays: Mapping[str, npt.ArrayLike], *, block: int = 0,
    constants: Mapping[str, int] | None = None,
) -> Trace:  # fmt: skip
    """Run one block (by its linear number) of each launch of a kernel file and return what its lanes touched.

    Raises what `Program.run` raises; StepLimitExceeded after `STEP_LIMIT` basic blocks.
    """
    device = _TracingDevice(block)
    Program(contract, device=device, constants=constants).run(sizes, arrays)
    return Trace(tuple(device.accesses))


def trace_launch(launch: Launch, *, block: int = 0) -> Trace:
    """Run one block (by its linear number) of a finished launch again and return what its lanes touched.

    The block finds the arrays as they are now and leaves them as they are. Raises ArgumentError for a launch on a GPU,
    for a block that the grid does not have, and for kernels that order their warps; StepLimitExceeded after
    `STEP_LIMIT` basic blocks.
    """
    call = launch.call
    if call is None or not isinstance(launch.device, SimDevice):
        raise ArgumentError(
            f"{launch.kernel} ran on {launch.device.description}, where nobody saw what each lane touched",
            next_step='Run it with device="sim" and show that launch.',
        )
    if not 0 <= block < launch.blocks:
        raise ArgumentError(f"there is no block {block}", next_step=f"The grid has blocks 0 to {launch.blocks - 1}.")
    memory, module = launch.device.memory, call.kernel._loaded.module
    found = [memory.find(a.address) for a in call.arguments if isinstance(a, DeviceArray)]
    arrays = {allocation.address: allocation for allocation in found if allocation is not None}
    kernel = call.kernel._loaded.sim
    with launch.device._lock:
        kept = [(a, a.view().copy()) for a in (*arrays.values(), *module._placed.values())]
        try:
            return Trace(_traced(kernel, launch.grid, launch.block, call.scalars, memory, launch.shared_mem, block))
        finally:
            for allocation, content in kept:
                allocation.view()[:] = content


# ---------------------------------------------------------------- the device


class _TracingDevice(SimDevice):
    """The simulator's memory, with kernels that run in the interpreter, one block only."""

    description = "the interpreter"

    def __init__(self, block: int) -> None:
        super().__init__(memory_limit_bytes=1 << 30)
        self.traced_block = block
        self.accesses: list[WarpRequest] = []
        self.launches = 0

    def loaded(self, module: SimModule, kernel: ptxsim.SimKernel) -> SimLoadedKernel:
        return _TracedKernel(module, kernel)


class _TracedKernel(SimLoadedKernel):
    def launch(
        self, grid: Dim3, block: Dim3, arguments: Sequence[np.generic], *, shared_bytes: int, stream: Any,
        options: LaunchOptions,
    ) -> Outcome:  # fmt: skip
        device: Any = self.device
        if device.traced_block < math.prod(grid):  # a launch of fewer blocks has no such one
            found = _traced(self.sim, grid, block, arguments, device.memory, shared_bytes, device.traced_block)
            device.accesses += [replace(request, launch=device.launches) for request in found]
        device.launches += 1
        return not_measured("the interpreter")


def _traced(
    kernel: ptxsim.SimKernel, grid: Dim3, block: Dim3, arguments: Sequence[np.generic], memory: ptxsim.Memory,
    shared_bytes: int, number: int,
) -> tuple[WarpRequest, ...]:  # fmt: skip
    """Run block `number` of a launch in the interpreter."""
    several = math.prod(block) > WARP
    requests = _Requests(kernel.name if several and depends_on_order(kernel.body) else "")
    ptxsim.trace(
        kernel, grid, block, arguments, memory, requests, number=number, shared_bytes=shared_bytes,
        step_limit=STEP_LIMIT,
    )  # fmt: skip
    return tuple(requests.kept)


@dataclass
class _Requests(ptxsim.Watcher):
    """Keeps each request; refuses them of the kernel `ordered`."""

    ordered: str
    kept: list[WarpRequest] = field(default_factory=list)
    phase: int = 0

    def step(self, state: Any, instruction: Any, active: np.ndarray) -> None:
        self.phase += instruction.opcode in _BARRIERS and "warp" not in instruction.modifiers

    def request(self, request: ptxsim.MemoryRequest) -> None:
        if self.ordered:
            raise ArgumentError(
                f"{self.ordered} orders its warps (atomics, fences, printf), so its requests are not traced",
                next_step="Trace a kernel without them.",
            )
        self.kept.append(WarpRequest(**vars(request), phase=self.phase))
