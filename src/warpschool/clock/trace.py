"""What the warps of some blocks of a launch do: which instructions they issue, which lines and banks they touch.

traces = trace_blocks(program, launch, [(0, 0, 0), (1, 0, 0)])
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from ptxsim.tensormap import BYTES as MAP_BYTES, ELEMENTS, TensorMap
from warpschool.clock.interpreter import layout as it, run_block
from warpschool.clock.program import Program
from warpschool.errors import WarpschoolError

Dim3 = tuple[int, int, int]
MOST_INSTRUCTIONS = 15_000_000
"""Instructions of warps that one block may issue before it is given up."""


class PathUnknown(WarpschoolError):
    """A launch whose warps' ways nobody can follow from here; the message says why."""


@dataclass(frozen=True)
class KernelLaunch:
    """A launch as the hardware sees it. `arguments` in the kernel's order; `arrays` are (address, bytes of the array);
    `constants` the contents of `__constant__` variables, `addresses` where `__device__` ones lie."""

    grid: Dim3
    block: Dim3
    arguments: Sequence[np.generic]
    shared_bytes: int = 0
    """dynamic"""
    arrays: Sequence[tuple[int, np.ndarray]] = ()
    constants: Mapping[str, bytes] = field(default_factory=dict)
    addresses: Mapping[str, int] = field(default_factory=dict)
    unknown: frozenset[int] = frozenset()
    """addresses of arrays that an earlier launch fills, which has not run"""

    @property
    def blocks(self) -> int:
        return math.prod(self.grid)

    @property
    def threads(self) -> int:
        return math.prod(self.block)

    @property
    def warps(self) -> int:
        """Warps of a block."""
        return -(-self.threads // 32)

    def block_at(self, number: int) -> Dim3:
        """The block that is the `number`th to start: x runs fastest."""
        nx, ny, _ = self.grid
        return number % nx, number // nx % ny, number // (nx * ny)


@dataclass(frozen=True)
class BlockTrace:
    """One block's streams, see `interpreter.layout`: warp `w` begins in chunk `first[w]` of `stream`."""

    stream: np.ndarray
    first: np.ndarray
    issued: int
    events: np.ndarray
    """for each instruction, whether a word of an event follows it (`layout.EVENT_*`)"""


class Tracer:
    """Runs blocks of one launch on the interpreter."""

    def __init__(self, program: Program, launch: KernelLaunch) -> None:
        self.program, self.launch = program, launch
        function = program.function
        self.bank0 = _bank0(program, launch)
        self.bank3 = _bank3(program, launch)
        self.pool = np.zeros((max(len(program.pool), 1), 32), np.uint32)
        for row, (kind, bank, value) in enumerate(program.pool):
            self.pool[row] = value if kind == "imm" else self._constant(bank, value)
        self.arrays: np.ndarray
        self.memory: np.ndarray
        self.arrays, self.memory = (
            self._copied() if program.reads_memory else (np.zeros(3, np.int64), np.zeros(1, np.uint8))
        )
        shared = function.reserved_shared_bytes + function.shared_bytes + launch.shared_bytes
        self.local = np.zeros(max(function.local_bytes * launch.warps * 32, 1), np.uint8)
        self.shared = np.zeros(max(shared, 1), np.uint8)
        self.fixed = np.zeros(it.LAUNCH_WORDS, np.int64)
        self.fixed[: it.L_ARRAYS] = (*launch.grid, *launch.block)
        self.fixed[it.L_ARRAYS] = len(self.arrays) // 3 if program.reads_memory else 0
        self.fixed[it.L_CODE] = len(function.code)
        self.fixed[it.L_SHARED], self.fixed[it.L_CONST] = shared, len(self.bank3)
        self.fixed[it.L_LOCAL] = function.local_bytes
        self.fixed[it.L_OPEN] = program.reads_memory and bool(launch.unknown)
        self.fixed[it.L_TAINT] = bool(program.doubtful) or self.fixed[it.L_OPEN]
        self.maps, self.fixed[it.L_MAPS] = _maps(program, launch)
        self.code = np.ascontiguousarray(program.code.reshape(-1))
        self.events = program.code[:, it.EVENT].astype(np.int64)
        self.scratch = [np.zeros(32, np.uint32) for _ in range(5)]
        self.addr, self.words, self.counts = (np.zeros(n, np.int64) for n in (32, 1024, 32))

    def _constant(self, bank: int, offset: int) -> int:
        if bank == 0:
            return _word(self.bank0, offset)
        if bank == 3:
            return _word(self.bank3, offset)
        if bank == 4:
            base = offset & ~7
            address = self.launch.addresses.get(self.program.function.symbols.get(base, ""), 0)
            return address >> (8 * (offset - base)) & 0xFFFFFFFF
        return _word(self.program.function.constants.get(bank, b""), offset)

    def _copied(self) -> tuple[np.ndarray, np.ndarray]:
        """The arrays that may be read, one after the other, and the table of where each begins."""
        table, parts, at = [], [], 0
        for address, data in self.launch.arrays:
            if address in self.launch.unknown:
                table += [address, data.nbytes, -1]
                continue
            table += [address, data.nbytes, at]
            parts.append(data.reshape(-1).view(np.uint8))
            at += data.nbytes
        return np.array(table or [0, 0, 0], np.int64), np.concatenate([*parts, np.zeros(1, np.uint8)])

    def run(self, block: Dim3) -> BlockTrace:
        """Follow one block. Raises PathUnknown."""
        warps = self.launch.warps
        regs = np.zeros(warps * it.ROWS * 32, np.uint32)
        preds = np.zeros((warps, it.PREDICATES), np.uint32)
        preds[:, [7, 15]] = 0xFFFFFFFF
        state_of = np.zeros((warps, it.WARP_WORDS), np.int64)
        for warp in range(warps):
            lanes = min(32, self.launch.threads - 32 * warp)
            mask = (1 << lanes) - 1
            state_of[warp, [it.PARTS, it.LIVE, it.CHUNK, it.FIRST_CHUNK]] = 1, mask, warp, warp
            state_of[warp, 24 + it.FRAGMENTS], state_of[warp, 24 + 2 * it.FRAGMENTS] = mask, it.READY
        room = warps + 64
        stream = np.full(room * it.CHUNK_WORDS, -2, np.int64)
        state = np.zeros(it.STATE_WORDS, np.int64)
        state[[it.S_USED, it.S_BUDGET, it.S_WARPS, it.S_THREADS, it.S_ROOM]] = (
            warps,
            MOST_INSTRUCTIONS,
            warps,
            warps,
            room,
        )
        barriers, unknown = np.zeros(40, np.int64), np.zeros(warps * 336, np.uint32)
        self.shared[:] = 0
        self.fixed[it.L_RANK] = self._rank(block)
        while True:
            found = run_block(
                self.code, regs, self.pool.reshape(-1), preds.reshape(-1), state_of.reshape(-1), stream, state,
                self.fixed,
                self.arrays, self.memory, self.shared, self.local, self.bank3, np.array(block, np.int64), barriers,
                self.addr, self.words, self.counts, *self.scratch, unknown, self.maps,
            )  # fmt: skip
            if found != it.NO_ROOM:
                break
            stream = np.concatenate([stream, np.full(len(stream), -2, np.int64)])
            state[it.S_ROOM] = len(stream) // it.CHUNK_WORDS
        if found != it.OK:
            raise PathUnknown(self._why(found, int(state[it.S_LOST])))
        used = int(state[it.S_USED]) * it.CHUNK_WORDS
        return BlockTrace(stream[:used], np.arange(warps, dtype=np.int64), int(state[it.S_ISSUED]), self.events)

    def mapped(self) -> set[tuple[int, int]]:
        """Address and bytes of the arrays that tensor maps describe."""
        rows = self.maps.reshape(-1, it.MAP_WORDS)[: int(self.fixed[it.L_MAPS])]
        last = [int(row[3]) - 1 for row in rows]
        return {
            (int(row[1]), int(row[it.M_STRIDES + k] * row[it.M_SIZES + k])) for row, k in zip(rows, last, strict=True)
        }

    def _rank(self, block: Dim3) -> int:
        """Which block of its cluster this is."""
        nx, ny, nz = self.program.function.cluster
        return block[0] % nx + nx * (block[1] % ny + ny * (block[2] % nz))

    def _why(self, found: int, at: int) -> str:
        code = self.program.function.code
        where = f"{code[at].opcode} of line {code[at].line}" if 0 <= at < len(code) else "outside of the code"
        if found == it.UNKNOWN:
            reason = next((code[d].opcode for d in self.program.doubtful), "")
            return f"where warps go depends on computed data ({where}; results of {reason} are not followed)"
        if found == it.STUCK:
            return "all warps of a block wait for each other, or for another block"
        if found == it.OVER_BUDGET:
            return f"a block issues more than {MOST_INSTRUCTIONS:,} instructions, or waits for another block"
        if found == it.NO_MAP:
            return f"a copy's tensor map is no parameter of the kernel, or its box is too large ({where})"
        return f"an instruction is not known ({where})"


def _word(data: bytes | np.ndarray, offset: int) -> int:
    raw = bytes(data[offset : offset + 4])
    return int.from_bytes(raw, "little")


def _bank0(program: Program, launch: KernelLaunch) -> bytes:
    """Constant bank 0: the launch's shape, the stack's end, the parameters."""
    function = program.function
    bank = bytearray(function.parameter_base + 4096)
    struct.pack_into("<6I", bank, 0, *launch.block, *launch.grid)
    struct.pack_into("<I", bank, 0x28, function.local_bytes)
    for offset, value in zip(function.parameters, launch.arguments, strict=True):
        raw = value.tobytes()
        bank[function.parameter_base + offset : function.parameter_base + offset + len(raw)] = raw
    return bytes(bank)


def _maps(program: Program, launch: KernelLaunch) -> tuple[np.ndarray, int]:
    """The tensor maps among the parameters, as rows of `layout.MAP_WORDS`, and how many there are."""
    rows = []
    for offset, value in zip(program.function.parameters, launch.arguments, strict=True):
        if value.nbytes != MAP_BYTES:
            continue
        found = TensorMap.decode(value.tobytes())
        row = np.zeros(it.MAP_WORDS, np.int64)
        nbytes = ELEMENTS[found.element].nbytes
        row[:5] = offset, found.address, nbytes, found.rank, found.corners is not None
        row[it.M_SIZES : it.M_SIZES + found.rank] = found.sizes
        row[it.M_STRIDES : it.M_STRIDES + found.rank] = nbytes, *found.strides
        row[it.M_BOX : it.M_BOX + len(found.box)] = found.box
        if found.corners is not None:
            for place, corner in zip((it.M_LOWER, it.M_UPPER), found.corners, strict=True):
                row[place : place + len(corner)] = corner
        rows.append(row)
    return np.concatenate(rows or [np.zeros(it.MAP_WORDS, np.int64)]), len(rows)


def _bank3(program: Program, launch: KernelLaunch) -> np.ndarray:
    bank = bytearray(program.function.constants.get(3, b"") or b"\0")
    for name, (offset, size) in program.function.constant_symbols.items():
        if name in launch.constants:
            bank[offset : offset + size] = launch.constants[name][:size]
    return np.frombuffer(bytes(bank), np.uint8).copy()


def trace_blocks(program: Program, launch: KernelLaunch, blocks: Iterable[Dim3]) -> list[BlockTrace]:
    """Follow some blocks, one after the other. Raises PathUnknown."""
    tracer = Tracer(program, launch)
    return [tracer.run(block) for block in blocks]
