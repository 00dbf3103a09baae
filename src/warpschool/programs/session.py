"""The device behind one program: every request of `shim/wire.h` and what the simulator makes of it."""

from __future__ import annotations

import re
import struct
import subprocess
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import numpy as np

import ptxsim
from ptxsim import Allocation, Memory, Module, SimKernel, Touched, texture
from ptxsim.errors import (
    KernelDeadlock,
    KernelTooLarge,
    KernelTrap,
    LaunchError,
    MemoryLimitExceeded,
    PrintLimitExceeded,
    PtxsimError,
    SimulationError,
    StepLimitExceeded,
    TextureError,
    UnsupportedInstruction,
)
from ptxsim.limits import HEAP_BYTES, MAX_LOCAL_BYTES, WARP
from warpschool import model
from warpschool.compile import Resources, parse_resources
from warpschool.programs import errors, library, tensor_maps
from warpschool.programs.adopt import Argument, Dim3, LaunchRecord
from warpschool.programs.arena import FREED_BY_FREE, HOST_VISIBLE, Arena, Piece
from warpschool.programs.clock import Clock
from warpschool.programs.findings import Findings, Process, asking
from warpschool.programs.hosts import Loaded, Place, frames
from warpschool.programs.ignored import is_dropped
from warpschool.programs.linker import link
from warpschool.programs.properties import PRINT_BYTES, STACK_BYTES, attribute, properties
from warpschool.programs.repeats import Repeats
from warpschool.programs.report import Call
from warpschool.programs.streams import NOTHING, Access, Bytes, Streams
from warpschool.programs.tools import find_tools
from warpschool.programs.wire import DEVICE_PROPERTIES, NON_BLOCKING, REQUESTS, Fields, MemoryKind, answer

MEMORY_BYTES = 3 << 30
_STEPS = 1 << 36
"""Far more than anybody waits for: Ctrl-C ends what does not end."""
_PAGE_OF_A_GPU = 2 << 20
"""Bytes that GPUs map at a time: an access that runs off an array by less meets no fault there."""
_WAITS = ("device", "stream", "event")
_COPY_KINDS = ("HtoH", "HtoD", "DtoH", "DtoD")
_DEFAULT_KIND = 4
_FORMATS = {0: "i", 1: "u", 2: "f"}
"""cudaChannelFormatKind -> NumPy's letter"""
_LAYERED, _CUBE = 1, 4
"""cudaArrayLayered, cudaArrayCubemap"""
_MOST_CALLS = 100_000
_BY_SYNTAX = "<<<>>>"
"""What a launch calls itself that returns nothing."""
ENOUGH_LOOKS = 2
"""Second looks at launches that are alike: a program that hands results from block to block a thousand times would
spend its time on them. Programs that are graded get all."""
_MOST_IGNORED = 100
"""Calls that failed, of which one is told that nobody looked at."""
_MOST_FOLLOWED = 64 << 20
"""Bytes of an allocation whose use by several streams is followed."""
_UNMASKED = re.compile(r"\b(vote|shfl)((?!\S*\.sync)\.[^;]*);")
"""Votes and shuffles as they were until CUDA 8, which ptxas refuses and the simulator runs."""
_SMALL_LAUNCH = 20_000
"""Instructions of warps."""
_ADDRESS_MODES = ("wrap", "clamp", "mirror", "border")


@dataclass(frozen=True)
class Budget:
    """What a program may ask of the device; a count that is past it ends the launch as one without an end.

    `steps`: loop iterations of a block's warps; `launches`, and `work`, instructions of warps, of all launches
    together; `instructions` of one kernel with its calls inlined, and `translated` of all of them.
    """

    steps: int = _STEPS
    launches: int = 1 << 62
    work: int = 1 << 62
    instructions: int = 1 << 62
    translated: int = 1 << 62


@dataclass(frozen=True)
class Fault:
    """A call that fails on purpose: the `number`th (from 0) of a `kind` of `Call`, with an error.

    A launch fails on the device: whoever synchronises next is told, and every call from then on.
    """

    kind: str
    number: int
    error: int


@dataclass
class _Asked:
    """A call whose places are looked up at the end."""

    call: Call
    hosts: tuple[Place, ...]


@dataclass(frozen=True)
class _Launch:
    """What a launch is asked for, but for its stream."""

    grid: Dim3
    block: Dim3
    params: bytes
    shared: int
    cluster: Dim3 | None
    large_clusters: bool
    cooperative: bool


@dataclass
class _Function:
    module: int
    name: str
    readable: str
    kernel: SimKernel | None = None
    last: tuple[Dim3, int] | None = None
    """the grid of its last launch, and the instructions that its warps needed"""
    arrays: tuple[tuple[bytes, tuple[Allocation, ...]], int] | None = None
    """its last parameters and what was allocated then, and the bytes of the arrays that they point into"""

    @cached_property
    def meets_host(self) -> bool:
        """Whether it does anything at the scope of the whole system, so that the host may look while it runs."""
        body = self.kernel.body if self.kernel is not None else None
        return body is not None and any(i.has("sys") for block in body.blocks for i in block.executed)

    def is_small(self, grid: Dim3) -> bool:
        """Whether handing blocks to a second thread would take longer than running them."""
        return self.last is not None and self.last[0] == grid and self.last[1] < _SMALL_LAUNCH


@dataclass
class Session:
    """One program's device. `file` is the memory file that the program maps too."""

    file: int
    spec: model.GpuSpec
    check: bool = True
    memory_bytes: int = MEMORY_BYTES
    """what the device has"""
    memory: Memory = field(init=False)
    printed: bytearray = field(default_factory=bytearray)
    launches: int = 0
    records: list[LaunchRecord] | None = None
    """launches as they were asked for, where somebody wants them"""
    timed: bool = False
    ended: bool = False
    fatal: int = 0
    """the error that every call gives from now on"""
    budget: Budget = Budget()
    fault: Fault | None = None
    skip_launches: bool = False
    """whether kernels do nothing"""
    zeros: bool = True
    """whether managed and pinned memory begins as zeros, as pages do that a system gives for the first time; else it
    is filled with 0xFF, as all other memory is, so that who relies on that is found"""
    most_looks: int | None = ENOUGH_LOOKS
    """see `SimKernel.launch`"""
    calls: list[_Asked] | None = None
    """what was asked for, where somebody wants it"""
    at_end: Callable[[int], int] = int
    """Called with the program's exit status when it has come to its end; gives the one that it is to have."""

    def __post_init__(self) -> None:
        self.memory = Memory(limit_bytes=self.memory_bytes, capacity=2 * self.memory_bytes, file=self.file)
        self.arena = Arena(self.memory)
        self.findings = Findings(self.arena)
        self.clock = Clock(self.spec)
        self.streams = Streams()
        self.repeats = Repeats(self.arena.is_ours)  # a method of its own would keep a session alive, and its memory
        self.process = Process(0)
        self._modules: dict[int, list[bytes]] = {}
        self._parsed: dict[int, Module] = {}
        self._functions: dict[int, _Function] = {}
        self._resources: dict[int, dict[str, Resources]] = {}
        self._images: dict[int, texture.Image] = {}
        self._heap_bytes = HEAP_BYTES
        self._stack_bytes = STACK_BYTES
        self._threads = ptxsim.available_threads()
        self._seen: Counter[str] = Counter()
        self._work = 0
        self._translated: dict[tuple[int, tuple[int, int, int]], int] = {}
        self._meets_host = False
        """whether a kernel that may still run has reason to share managed memory with the host"""
        self._running: tuple[str, tuple[int, ...]] | None = None
        """the kernel that runs, and where it was asked for"""
        self._unchecked_call = ""
        self._unchecked: tuple[tuple[Place, ...], dict[str, object]] | None = None
        self._ignored: dict[tuple[Place, ...], dict[str, object]] = {}
        self._status = 0
        self._run: list[Callable[[Session, Fields], bytes | None]] = [getattr(Session, f"_{name}") for name in REQUESTS]

    def handle(self, request: int, fields: Fields) -> bytes | None:
        """What to answer; None for a request that waits for no answer."""
        return self._run[request](self, fields)

    def _answer(self, error: int = 0, *fields: int, tail: bytes = b"") -> bytes:
        printed = bytes(self.printed)
        self.printed.clear()
        return answer(error, fields, printed, tail)

    def _note(
        self, kind: str, places: tuple[Place, ...] = (), *, name: str = "", stream: int = 0, nbytes: int = 0,
        blocking: bool = False, value: float = 0.0,
    ) -> int:  # fmt: skip
        """Keeps a call where calls are kept; returns the error that it is to fail with, or 0."""
        number = self._seen[kind]
        self._seen[kind] += 1
        if self.calls is not None and len(self.calls) < _MOST_CALLS:
            self.calls.append(_Asked(Call(kind, name, stream, nbytes, blocking, value), places))
        fault = self.fault
        return fault.error if fault is not None and (fault.kind, fault.number) == (kind, number) else 0

    def told_calls(self) -> tuple[Call, ...]:
        """The calls that were kept, with functions, files and lines."""
        asked = self.calls or []
        stacks = frames([one.hosts for one in asked]) if asked else {}
        return tuple(replace(one.call, hosts=asking(stacks.get(one.hosts, ()), one.call.name)) for one in asked)

    def _hello(self, f: Fields) -> bytes:
        self.process = Process(f.u64())
        self.process.loaded = Loaded.read(f.text())
        values = properties(self.spec, self.memory.limit_bytes)
        name = f"{self.spec.name} (simulated)".encode()
        known = (values[field] for field in DEVICE_PROPERTIES)
        return self._answer(0, self.memory.base, self.memory.capacity, *known, tail=name)

    # -- kernels and variables ------------------------------------------------------------------------------------
    def _module(self, f: Fields) -> None:
        """A module; of files that are linked each brings its part."""
        self._modules.setdefault(f.u64(), []).append(f.bytes())

    def _function(self, f: Fields) -> None:
        number, module = f.u64(), f.u64()
        self._functions[number] = _Function(module, f.text(), f.text())

    def _ptx(self, number: int) -> str:
        """A module's text. Raises PtxSyntaxError where its parts do not fit together."""
        return link([part.decode("utf-8", "replace") for part in self._modules[number]])

    def parsed(self, number: int) -> Module:
        """A module, parsed and its variables placed when it is first needed. Raises SimulationError."""
        if number not in self._parsed:
            module = ptxsim.parse(self._ptx(number))
            for name, allocation in module.place(self.memory).items():
                object.__setattr__(allocation, "name", f"{name} of module {number}")
                self.arena.adopt(MemoryKind.SYMBOL, allocation, readable_symbol(name))
            self._parsed[number] = module
            self.repeats.change_all()
        return self._parsed[number]

    def _kernel(self, function: _Function) -> SimKernel:
        if function.kernel is None:
            function.kernel = self.parsed(function.module).kernel(function.name)
        return function.kernel

    def _function_ask(self, f: Fields) -> bytes:
        function = self._functions[f.u64()]
        try:
            if function.name not in self.parsed(function.module).entries:
                return self._answer(errors.SYMBOL_NOT_FOUND)
            kernel = self._kernel(function)
        except PtxsimError as problem:
            self.findings.kernel(
                "unsupported", function.readable, 0, (), message=problem.message, line=getattr(problem, "line", 0)
            )
            return self._answer(errors.NO_KERNEL_IMAGE)
        most = kernel.body.max_threads or self.spec.sm.threads_per_block
        params = [n for p in kernel.params for n in (p.offset, p.size_bytes)]
        return self._answer(0, most, kernel.body.shared_bytes, kernel.shared_limit, len(kernel.params), *params)

    def _resources_of(self, function: _Function) -> Resources | None:
        """What ptxas assigns; None where it refuses the module."""
        if function.module not in self._resources:
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "module.ptx"
                path.write_text(_UNMASKED.sub(r"\1.sync\2, 0xffffffff;", self._ptx(function.module)), "utf-8")
                arch = self.spec.arch if self.spec.capability >= (8, 0) else "sm_80"
                target = self.parsed(function.module).target
                arch = target if target[:-1] == arch else arch  # code for sm_90a is for nothing else
                command = [str(find_tools().ptxas), "-v", f"-arch={arch}", str(path), "-o", f"{folder}/module.cubin"]
                said = subprocess.run(command, capture_output=True, text=True)
            if said.returncode:
                why = f"ptxas tells no registers of it: {(said.stderr or said.stdout).strip().partition(chr(10))[0]}"
                self.findings.kernel("unsupported", function.readable, 0, (), message=why)
            self._resources[function.module] = parse_resources(said.stderr)
        return self._resources[function.module].get(function.name)

    def _function_resources(self, f: Fields) -> bytes:
        found = self._resources_of(self._functions[f.u64()])
        if found is None:
            return self._answer(errors.NOT_SUPPORTED)
        major, minor = self.spec.capability
        return self._answer(0, found.registers, found.local_bytes, found.constant_bytes, 10 * major + minor)

    def _occupancy(self, f: Fields) -> bytes:
        function, threads, dynamic = self._functions[f.u64()], f.u64(), f.u64()
        found = self._resources_of(function)
        if found is None:
            return self._answer(errors.NOT_SUPPORTED)
        try:
            shared = self._kernel(function).body.shared_bytes + dynamic
            blocks = model.occupancy(threads, registers=found.registers, shared_bytes=shared, gpu=self.spec).blocks
        except LaunchError:
            blocks = 0
        return self._answer(0, blocks)

    def _symbol(self, f: Fields) -> bytes:
        number, name = f.u64(), f.text()
        try:
            allocation = self.parsed(number).place(self.memory).get(name)
        except PtxsimError:
            allocation = None
        if allocation is None:
            return self._answer(errors.INVALID_SYMBOL)
        return self._answer(0, allocation.address, allocation.nbytes)

    def _managed_symbol(self, f: Fields) -> bytes:
        """As others: that the host may use it is arranged on its side."""
        at = f.at
        reply = self._symbol(f)
        number, name = Fields(f.data, at).u64(), Fields(f.data, at + 8).text()
        allocation = self._parsed[number].place(self.memory).get(name) if number in self._parsed else None
        piece = self.arena.live.get(allocation.address) if allocation is not None else None
        if piece is not None:
            piece.kind = MemoryKind.MANAGED
        return reply

    # -- launches -------------------------------------------------------------------------------------------------
    def _launch(self, f: Fields) -> None:
        number, gx, gy, gz, bx, by, bz, shared, stream, cx, cy, cz, cooperative, large_clusters = f.many(14)
        params, callers = f.bytes(), f.callers()
        if self.fatal:
            return
        self.launches += 1
        function = self._functions[number]
        places = self.process.places(callers) if self.calls is not None else ()
        if error := self._note("launch", places, name=function.readable, stream=stream):
            self.fatal = error
            return
        if self.skip_launches:
            return
        kernel = self._kernel(function)
        self._meets_host = self._meets_host or function.meets_host
        params += bytes(kernel.body.param_bytes - len(params))
        if self.records is not None:
            self._keep(function.readable, kernel, ((gx, gy, gz), (bx, by, bz), shared), params)
        self.streams.begin(stream)
        watched = {piece.allocation.address: piece for piece in self._watched()}
        asked = _Launch(
            (gx, gy, gz), (bx, by, bz), params, shared, (cx, cy, cz) if cx else None, bool(large_clusters),
            bool(cooperative),
        )  # fmt: skip
        self._running = function.readable, callers
        try:
            self._afford(number, asked.block)
            record = self._outcome(number, asked, watched)
        except PtxsimError as problem:
            self._fail(problem, function, callers)
            return
        finally:
            self._running = None
        function.last = asked.grid, record.counters.get("warp_instructions", 0)
        self._work += function.last[1]
        if record.printed:
            self.printed += record.printed.encode("utf-8", "surrogateescape")
        where = params, self.memory.allocations
        if function.arrays is None or function.arrays[0] != where:  # most launches are like the one before
            function.arrays = where, self._array_bytes(params)
        nbytes = function.arrays[1]
        self.clock.kernel(function.readable, stream, record.counters, gx * gy * gz, nbytes)
        for hazard in record.hazards:
            self._hazard(hazard, function, callers)
        told = {touched.address: touched for touched in record.touched or ()}
        for address, piece in watched.items():
            if address in told:
                self._touch(piece, told[address], function, stream, callers)
            elif record.touched is None:  # anything may have been written
                piece.keep(None)

    def _outcome(self, number: int, asked: _Launch, watched: dict[int, Piece]) -> ptxsim.LaunchRecord:
        """Runs a launch, or takes what it did the last time where it would do that again. Raises PtxsimError."""
        function = self._functions[number]
        launch = (number, asked)
        small = function.is_small(asked.grid)  # what is run again before anybody has looked whether it must be
        if not small and (known := self.repeats.outcome(launch, watched)) is not None:
            return known
        self.memory.others_write = any(p.kind in HOST_VISIBLE for p in self.arena.live.values())
        record = self._kernel(function).launch(
            asked.grid, asked.block, asked.params, self.memory, shared_bytes=asked.shared, check=self.check,
            step_limit=self.budget.steps, print_limit=PRINT_BYTES, cluster=asked.cluster,
            large_clusters=asked.large_clusters, cooperative=asked.cooperative, threads=1 if small else self._threads,
            watch=[piece.allocation for piece in watched.values()], most_looks=self.most_looks,
            stack_bytes=self._stack_bytes,
        )  # fmt: skip
        if self.check and self.most_looks is not None and not function.meets_host:
            self.repeats.ran(launch, record)
        return record

    def _watched(self) -> list[Piece]:
        """What a launch is to tell its accesses to: what has unwritten bytes, and with several streams all else too."""
        several = self.streams.several
        live = (p for p in self.arena.live.values() if p.start == p.allocation.address)
        return [p for p in live if p.has_holes or (several and p.nbytes <= _MOST_FOLLOWED)]

    def _touch(
        self, piece: Piece, touched: Touched, function: _Function, stream: int, callers: tuple[int, ...]
    ) -> None:  # fmt: skip
        """Notes reads of what nobody has ever written, and accesses that streams leave unordered."""
        if piece.has_holes:
            self._fill_holes(piece, touched, function, callers)
        if self.streams.several:
            reads, writes = (Bytes.of(mask, touched.granule) for mask in (touched.accessed, touched.stored))
            places, name = self.process.places(callers), function.readable
            self._in_stream(stream, piece, f"kernel {name}", reads, writes, places, kernel=name)

    def _fill_holes(self, piece: Piece, touched: Touched, function: _Function, callers: tuple[int, ...]) -> None:
        read, stored = (
            np.repeat(mask, touched.granule)[: piece.nbytes] for mask in (touched.read_first, touched.stored)
        )
        holes = piece.holes
        unwritten = holes & read
        if unwritten.any() and not self._exchanges(function.module):
            facts = {"offset": int(unwritten.argmax()), "bytes": int(np.count_nonzero(unwritten))}
            places = self.process.places(callers)
            self.findings.kernel("global-uninitialized", function.readable, self.launches, places, piece, **facts)
        piece.keep(holes & ~(read | stored))
        piece.filled = piece.filled or bool(stored.any())

    def _in_stream(
        self, stream: int, piece: Piece, what: str, reads: Bytes, writes: Bytes, places: tuple[Place, ...], *,
        kernel: str = "",
    ) -> None:  # fmt: skip
        """Notes an access to memory that nothing orders behind one of another stream's work."""
        now = Access(stream, self.streams.moment(stream), what, reads, writes)
        before = self.streams.access(piece.number, now)
        if before is None:
            return
        streams = tuple(s & ~NON_BLOCKING for s in (stream, before.stream))
        facts = {"does": what, "other": before.what, "streams": streams}
        if kernel:
            self.findings.kernel("stream-race", kernel, self.launches, places, piece, **facts)
        else:
            self.findings.host("stream-race", places, piece, **facts)

    def _exchanges(self, module: int) -> bool:
        """Whether its code swaps values: an atomic that may be the first to write somewhere."""
        return any(b".exch." in part for part in self._modules[module])

    def _afford(self, number: int, block: Dim3) -> None:
        """Takes a launch from the budget. Raises StepLimitExceeded or KernelTooLarge."""
        most = self.budget
        if self.launches > most.launches:
            raise StepLimitExceeded(f"the program makes more than {most.launches:,} launches")
        if self._work > most.work:
            raise StepLimitExceeded(f"its launches need more than {most.work:,} instructions of warps together")
        if (number, block) in self._translated:
            return
        function = self._functions[number]
        size = self._translated[number, block] = self.parsed(function.module).instructions(function.name)
        if size > most.instructions or sum(self._translated.values()) > most.translated:
            raise KernelTooLarge(
                f"{size:,} instructions with its calls inlined; at most {most.instructions:,}, and "
                f"{most.translated:,} in all kernels, each once for each shape of its blocks"
            )

    def _keep(self, name: str, kernel: SimKernel, shape: tuple[Dim3, Dim3, int], params: bytes) -> None:
        """Adds a launch to the records."""
        assert self.records is not None
        arguments = []
        for parameter in kernel.params:
            value = params[parameter.offset : parameter.offset + parameter.size_bytes]
            address = int.from_bytes(value, "little") if len(value) == 8 else 0
            piece = self.arena.at(address) if address else None
            arguments.append(Argument(value, piece.end - address if piece is not None else None))
        self.records.append(LaunchRecord(name, *shape, tuple(arguments)))

    def _hazard(self, hazard: ptxsim.Finding, function: _Function, callers: tuple[int, ...]) -> None:
        """Notes a hazard; one that a GPU would meet as a fault loses the device."""
        named = next((a for a in self.memory.allocations if a.name == hazard.array), None)
        address = hazard.address + (named.address if named is not None else 0)
        self.findings.device(hazard, function.readable, self.launches, self.process.places(callers), address)
        if hazard.kind == "misaligned" and hazard.detail != "fragment":
            self.fatal = self.fatal or errors.MISALIGNED_ADDRESS
        if hazard.kind == "out-of-bounds" and hazard.space == "global" and self.arena.was_at(address) is None:
            mapped = -(-named.nbytes // _PAGE_OF_A_GPU) * _PAGE_OF_A_GPU if named is not None else 0
            if hazard.detail == "nowhere" or not -_PAGE_OF_A_GPU <= hazard.address < mapped:
                self.fatal = self.fatal or errors.ILLEGAL_ADDRESS

    def _array_bytes(self, params: bytes) -> int:
        """Bytes of the arrays that a kernel's parameters point into, each once."""
        found = {}
        for at in range(0, len(params) - 7, 8):
            address = int.from_bytes(params[at : at + 8], "little")
            if self.memory.base <= address < self.memory.base + self.memory.capacity:
                allocation = self.memory.containing(address)
                if allocation is not None:
                    found[allocation.address] = allocation.nbytes
        return sum(found.values())

    def _fail(self, problem: PtxsimError, function: _Function, callers: tuple[int, ...]) -> None:
        """A launch that did not come to its end: the device is lost, as it is on a GPU."""
        kind, self.fatal = next((k, e) for types, k, e in _ENDS if isinstance(problem, types))
        if isinstance(problem, KernelTrap) and "assertion" in problem.message:
            kind, self.fatal = "assert", errors.ASSERT
        line = getattr(problem, "line", 0)
        file = getattr(problem, "file", "")
        places = self.process.places(callers)
        self.findings.kernel(
            kind, function.readable, self.launches, places, message=problem.message, line=line, file=file,
            next_step=problem.next_step,
        )  # fmt: skip

    def _launch_error(self, f: Fields) -> None:
        error, number, gx, gy, gz, bx, by, bz, shared = f.many(9)
        function, call = self._functions[number], f.text()
        facts = {"error": errors.name(error), "grid": (gx, gy, gz), "block": (bx, by, bz), "shared": shared}
        self._unchecked_call = call
        self._unchecked = self.process.places(f.callers()), {"kernel": function.readable, **facts}

    def _error_seen(self, f: Fields) -> None:
        self._unchecked = None
        self._ignored.clear()

    # -- memory ---------------------------------------------------------------------------------------------------
    def _allocate(self, f: Fields) -> bytes:
        kind, nbytes, alignment = MemoryKind(f.u64()), f.u64(), f.u64()
        places = self.process.places(f.callers())
        if error := self._note("allocate", places, name=kind.name.lower(), nbytes=nbytes):
            return self._answer(error)
        try:
            piece = self.arena.allocate(kind, nbytes, alignment, places, self.launches)
        except MemoryLimitExceeded:
            return self._answer(errors.MEMORY_ALLOCATION)
        if self.zeros and kind in HOST_VISIBLE:
            piece.allocation.view()[:] = 0
        self.repeats.change(piece.allocation)
        return self._answer(0, piece.start)

    def _free(self, f: Fields) -> bytes:
        kind, address = MemoryKind(f.u64()), f.u64()
        piece, places = self.arena.live.get(address), self.process.places(f.callers())
        if error := self._note("free", places, name=kind.name.lower()):
            return self._answer(error)
        takes = FREED_BY_FREE if kind in FREED_BY_FREE else (kind,)
        if piece is not None and piece.kind in takes:
            self.arena.free(piece, places)
            self.repeats.change(piece.allocation)
            return self._answer(0, piece.nbytes)
        before = self.arena.was_at(address) if piece is None else None
        if before is not None and before.start == address:
            self.findings.host("double-free", places, before)
        else:
            self.findings.host("invalid-free", places, piece or self.arena.at(address), call=kind.name.lower())
        return self._answer(errors.INVALID_VALUE)

    def _copy(self, f: Fields) -> bytes:
        kind, to, to_row, to_slice, source, row, slice_, width, height, depth, stream, blocking = f.many(12)
        places = self.process.places(f.callers())
        if self.fatal:
            return self._answer(self.fatal, 1)
        ends = [self.memory.base <= p < self.memory.base + self.memory.capacity for p in (source, to)]
        if kind == _DEFAULT_KIND:
            kind = 2 * self._is_device(source, ends[0]) + self._is_device(to, ends[1])
        if 0 < kind < 3 and not ends[kind - 1]:
            blocking = 1  # memory that the host may swap out goes through a buffer, and the host waits for that
        failure = self._note(
            _COPY_KINDS[kind], places, stream=stream, nbytes=width * height * depth, blocking=bool(blocking)
        )
        if failure:
            return self._answer(failure)
        wanted = (bool(kind & 2), bool(kind & 1))
        for what, start, row_bytes, slice_bytes, device, inside in (
            ("from", source, row, slice_, wanted[0], ends[0]), ("to", to, to_row, to_slice, wanted[1], ends[1]),
        ):  # fmt: skip
            if device and not inside:
                self.findings.host("copy-pointer", places, side=what, expected="device")
                return self._answer(errors.INVALID_VALUE)
            if not inside:
                continue
            last = start + (depth - 1) * slice_bytes + (height - 1) * row_bytes + width
            if not self._reaches(what, start, last, places, device):
                return self._answer(errors.INVALID_VALUE)
        before, after = self.arena.at(source) if ends[0] else None, self.arena.at(to) if ends[1] else None
        if before is not None and not self._may_be_filled(before):
            self.findings.host("copy-uninitialized", places, before, bytes=width * height * depth)
        if after is not None:
            self.repeats.change(after.allocation)
            after.fill(to, to + (depth - 1) * to_slice + (height - 1) * to_row + width)
        ends_ = (before, source, row), (after, to, to_row)
        self._order_copy(f"{_COPY_KINDS[kind]} copy", stream, *ends_, (width, height, depth), places)
        if blocking:
            self.streams.host_waits(stream=stream)
        self.clock.copy(_COPY_KINDS[kind], stream, width * height * depth, blocking=bool(blocking))
        return self._answer(0)

    def _order_copy(
        self, what: str, stream: int, source: tuple[Piece | None, int, int], to: tuple[Piece | None, int, int],
        box: tuple[int, int, int], places: tuple[Place, ...],
    ) -> None:  # fmt: skip
        """Looks at a copy's order in its stream; of a box with gaps between its rows nothing is said."""
        self.streams.begin(stream)
        width, height, depth = box
        if not self.streams.several or depth > 1:
            return
        for (piece, start, row), writes in ((source, False), (to, True)):
            if piece is None or (height > 1 and row != width):
                continue
            used = Bytes(start - piece.start, start - piece.start + width * height)
            reads, written = (NOTHING, used) if writes else (used, NOTHING)
            self._in_stream(stream, piece, what, reads, written, places)

    def _may_be_filled(self, piece: Piece) -> bool:
        """Whether the host can have written there, a copy, or a kernel."""
        return piece.filled or piece.born != self.launches or piece.kind in HOST_VISIBLE

    def _is_device(self, address: int, inside: bool) -> bool:
        piece = self.arena.at(address) if inside else None
        return piece is not None and piece.kind not in (MemoryKind.PINNED, MemoryKind.REGISTERED)

    def _reaches(self, side: str, start: int, last: int, places: tuple[Place, ...], device: bool) -> bool:
        """Whether a copy stays within one allocation of the right kind; tells what is wrong."""
        piece = self.arena.at(start)
        if piece is None:
            freed = self.arena.was_at(start)
            if freed is not None:
                self.findings.host("copy-freed", places, freed, side=side)
            else:
                near = self.arena.nearest(start)
                offset = start - near.start if near is not None else 0
                self.findings.host("copy-bounds", places, near, side=side, offset=offset, bytes=last - start)
            return False
        if not device and piece.kind not in HOST_VISIBLE:
            self.findings.host("copy-pointer", places, piece, side=side, expected="host")
            return False
        if last > piece.end:
            self.findings.host(
                "copy-bounds", places, piece, side=side, offset=start - piece.start, bytes=last - start
            )
            return False
        return True

    def _set(self, f: Fields) -> bytes:
        to, row, slice_, width, height, depth, _, _, stream = f.many(9)
        places = self.process.places(f.callers())
        if self.fatal:
            return self._answer(self.fatal, 1)
        if failure := self._note("set", places, stream=stream, nbytes=width * height * depth):
            return self._answer(failure)
        last = to + (depth - 1) * slice_ + (height - 1) * row + width
        if not self.memory.base <= to < self.memory.base + self.memory.capacity:
            self.findings.host("copy-pointer", places, side="set", expected="device")
            return self._answer(errors.INVALID_VALUE)
        if not self._reaches("set", to, last, places, True):
            return self._answer(errors.INVALID_VALUE)
        piece = self.arena.at(to)
        assert piece is not None
        self.repeats.change(piece.allocation)
        piece.fill(to, last)
        to_fill = (piece, to, row)
        self._order_copy("memset", stream, (None, 0, 0), to_fill, (width, height, depth), places)
        self.clock.copy("set", stream, width * height * depth, blocking=False)
        return self._answer(0)

    def _memory_info(self, f: Fields) -> bytes:
        free = self.memory.limit_bytes - self.memory.used_bytes
        return self._answer(0, free, self.memory.limit_bytes)

    def _pointer(self, f: Fields) -> bytes:
        piece = self.arena.at(f.u64())
        if piece is None:
            return self._answer(0, MemoryKind.UNKNOWN, 0, 0)
        return self._answer(0, piece.kind, piece.start, piece.nbytes)

    def _heap_limit(self, f: Fields) -> bytes:
        nbytes = f.u64()
        if nbytes and self.memory.heap is not None:
            return self._answer(errors.INVALID_VALUE)
        if nbytes:
            self.memory.heap_bytes = self._heap_bytes = nbytes
        return self._answer(0, self._heap_bytes, self._stack_bytes, PRINT_BYTES)

    def _stack_limit(self, f: Fields) -> bytes:
        """Calls have more than a GPU's threads have where nobody asks for it, and as much as is asked for."""
        nbytes = f.u64()
        if nbytes > MAX_LOCAL_BYTES:
            return self._answer(errors.INVALID_VALUE)
        self._stack_bytes = nbytes
        self.repeats.change_all()  # a launch may come to its end now, or no longer
        return self._answer(0)

    def _touched(self, f: Fields) -> bytes:
        address, early = f.u64(), f.u64()
        piece = self.arena.at(address) or self.arena.was_at(address)
        offset = address - piece.start if piece is not None else 0
        if early and self._meets_host:
            return self._answer(0)
        kind = "early-access" if early else "host-access"
        self.findings.host(kind, self.process.places(f.callers()), piece, offset=offset, launch=self.launches)
        return self._answer(0)

    def _reset(self, f: Fields) -> bytes:
        """What was allocated is gone; what the modules' variables hold stays, until somebody needs it otherwise."""
        self._stack_bytes = STACK_BYTES
        self.repeats.change_all()
        for piece in list(self.arena.live.values()):
            if piece.kind is not MemoryKind.SYMBOL and piece.origin:
                self.arena.free(piece, ())
        return self._answer(0)

    # -- arrays, textures, surfaces ---------------------------------------------------------------------------------
    def _array(self, f: Fields) -> bytes:
        width, height, depth, layered, bits, channels, kind = f.many(7)
        places = self.process.places(f.callers())
        shape = [n for n in (depth, height, width) if n]
        try:
            image = texture.Image.array(
                self.memory, tuple(shape), f"{_FORMATS[kind]}{bits // 8}", channels=channels,
                layered=bool(layered & _LAYERED), cube=bool(layered & _CUBE), name=f"array {self.arena.count + 1}",
            )  # fmt: skip
        except MemoryLimitExceeded:
            return self._answer(errors.MEMORY_ALLOCATION)
        except (TextureError, KeyError):
            return self._answer(errors.INVALID_VALUE)
        self.repeats.change_all()  # what a texture leads to may be another's
        piece = self.arena.adopt(MemoryKind.ARRAY, image.allocation, "", places)
        self._images[piece.number] = image
        return self._answer(0, piece.number, piece.start, image.row_bytes)

    def _array_free(self, f: Fields) -> bytes:
        image = self._images.pop(f.u64(), None)
        piece = self.arena.live.get(image.allocation.address) if image is not None else None
        if piece is None:
            return self._answer(errors.INVALID_HANDLE)
        self.arena.free(piece, self.process.places(f.callers()))
        self.repeats.change_all()
        return self._answer(0)

    def _texture(self, f: Fields) -> bytes:
        kind, place, width, height, pitch, bits, channels, format_, *modes = f.many(11)
        filter_, read, normalized = f.many(3)
        border = Fields(f.data, f.at)
        red, green, blue, alpha = (_as_float(border.u64()) for _ in range(4))
        try:
            dtype = f"{_FORMATS[format_]}{bits // 8}"
            image = self._image(kind, place, width, height, pitch, dtype, channels)
            floats = image.dtype.kind == "f" or read == 1
            x, y, z = (_ADDRESS_MODES[m] if image.kind != "linear" else "clamp" for m in modes)
            found = texture.Texture(
                image, address=(x, y, z),
                filter="linear" if filter_ == 1 else "point",
                read="normalized" if read == 1 and image.dtype.kind != "f" else "element",
                normalized_coordinates=bool(normalized) or image.geometry in texture.CUBES,
                border=(red, green, blue, alpha) if floats else (0.0, 0.0, 0.0, 0.0),
            )  # fmt: skip
            self.repeats.change_all()
            return self._answer(0, int(texture.bind(self.memory, found)))
        except (TextureError, KeyError, IndexError):
            return self._answer(errors.INVALID_VALUE)

    def _image(
        self, kind: int, place: int, width: int, height: int, pitch: int, dtype: str, channels: int
    ) -> texture.Image:
        """The memory behind a texture: an array by its number, or linear or pitched memory by its address."""
        if kind == 0:
            return self._images[place]
        piece = self.arena.at(place)
        if piece is None or piece.start != place:
            raise TextureError("a texture begins where its memory was allocated")
        if kind == 2:
            return texture.Image.linear(piece.allocation, dtype, channels=channels)
        return texture.Image.pitched(piece.allocation, (height, width), dtype, channels=channels, row_bytes=pitch)

    def _surface(self, f: Fields) -> bytes:
        try:
            return self._answer(0, int(texture.bind(self.memory, texture.Surface(self._images[f.u64()]))))
        except (TextureError, KeyError):
            return self._answer(errors.INVALID_VALUE)

    def _unbind(self, f: Fields) -> bytes:
        try:
            texture.unbind(self.memory, np.uint64(f.u64()))
            self.repeats.change_all()
        except TextureError:
            return self._answer(errors.INVALID_VALUE)
        return self._answer(0)

    def _tensor_map(self, f: Fields) -> bytes:
        asked = tensor_maps.Asked.of(f)
        return self._made_map(asked.call, lambda: asked.encoded(self.spec), f.callers())

    def _tensor_map_address(self, f: Fields) -> bytes:
        data, address = f.bytes(), f.u64()
        return self._made_map(
            "cuTensorMapReplaceAddress", lambda: tensor_maps.moved(data, address, self.spec), f.callers()
        )

    def _made_map(self, call: str, make: Callable[[], bytes], callers: tuple[int, ...]) -> bytes:
        """The answer with a map, or with the error of a call that made none, of which the reason is told."""
        if self.fatal:
            return self._answer(self.fatal)
        try:
            return self._answer(tail=make())
        except tensor_maps.NoTensorMap as refused:
            self.findings.host("tensor-map", self.process.places(callers), call=call, message=str(refused))
            return self._answer(refused.error)

    # -- order ----------------------------------------------------------------------------------------------------
    def _synchronize(self, f: Fields) -> bytes:
        what, stream = f.u64(), f.u64()
        places = self.process.places(f.callers())
        if places and (error := self._note("synchronize", places, name=_WAITS[what], stream=stream)):
            self.fatal = self.fatal or error
        self._meets_host = False
        self.clock.join(stream if what == 1 else None)
        self.streams.host_waits(stream=stream if what == 1 else None, event=stream if what == 2 else None)
        return self._answer(self.fatal)

    def _event_record(self, f: Fields) -> None:
        event, stream = f.many(2)
        self._note("event", stream=stream)
        self.clock.record(event, stream)
        self.streams.record(event, stream)

    def _event_destroy(self, f: Fields) -> None:
        """Its time stays: nobody else gets its number."""

    def _stream_wait(self, f: Fields) -> None:
        stream, event = f.many(2)
        self.clock.wait(stream, event)
        self.streams.wait(stream, event)

    def _stream_destroy(self, f: Fields) -> None:
        """Its work goes on to its end."""

    def _elapsed(self, f: Fields) -> bytes:
        self.timed = True
        elapsed = self.clock.elapsed_ns(*f.many(2))
        self._note("elapsed", value=elapsed / 1e6)
        return self._answer(0, int(elapsed))

    def _attribute(self, f: Fields) -> bytes:
        value = attribute(f.u64(), self.spec, self.memory.limit_bytes)
        return self._answer(0, value or 0, value is not None)

    # -- failures and the end -----------------------------------------------------------------------------------------
    def _api_error(self, f: Fields) -> None:
        """The call itself has told the program, which may not have looked."""
        error, call = f.u64(), f.text()
        places = self.process.places(f.callers())
        tells = not self.fatal and self.fault is None and len(self._ignored) < _MOST_IGNORED
        if tells and not self.findings.has(places):
            self._ignored.setdefault(places, {"error": errors.name(error), "call": call})

    def _unsupported(self, f: Fields) -> bytes:
        call = f.text()
        self.findings.host("unsupported-call", self.process.places(f.callers()), call=call)
        return self._answer(0)

    def _library(self, f: Fields) -> bytes:
        routine, stream = f.text(), f.u64()
        fields, places = f.bytes(), self.process.places(f.callers())
        if self.fatal:
            return self._answer(self.fatal)
        try:
            name, done = library.run(routine, fields, self.arena)
        except library.OutsideAllocation as wrong:
            facts = {"side": "library", "call": f"cublas {routine}", "offset": wrong.offset, "bytes": wrong.nbytes}
            self.findings.host("copy-bounds", places, wrong.piece, **facts)
            return self._answer(errors.LAUNCH_FAILURE)
        except ValueError:
            return self._answer(errors.INVALID_VALUE)
        self.repeats.change_all()
        counters = {"fma_instructions": -(-done.multiplies // WARP)}
        self.clock.kernel(name, stream, counters, self.spec.sms, done.nbytes)
        return self._answer(0, struct.unpack("<Q", struct.pack("<d", done.result))[0])

    def _crash(self, f: Fields) -> bytes:
        number, address = f.u64(), f.u64()
        self.findings.host("crash", self.process.places(f.callers()), signal=number, address=address)
        return self._answer(0)

    def _goodbye(self, f: Fields) -> bytes:
        self.ended, self._status = True, f.u64()
        return self._answer(0, self.at_end(self._status))

    def close(self) -> None:
        """Lets its memory go as soon as nobody else holds it, and not when circles are looked for."""
        self._run.clear()

    def finish(self, *, leaks: bool, interrupted: bool = False) -> None:
        """What can be said only at the end."""
        if interrupted and (running := self._running) is not None:
            kernel, callers = running
            self.findings.kernel("interrupted", kernel, self.launches, self.process.places(callers))
        if self._unchecked is not None:
            places, facts = self._unchecked
            kernel = str(facts.pop("kernel"))
            if self._unchecked_call == _BY_SYNTAX or self._drops(places, self._unchecked_call):
                self.findings.kernel("unchecked-launch", kernel, 0, places, None, **facts)
        if self.ended and not self._status:
            for places, facts in self._ignored.items():
                if self._drops(places, str(facts["call"])):
                    self.findings.host("ignored-error", places, None, **facts)
                    break  # what follows may be its consequence
        if leaks and self.ended and not self.fatal:  # a lost device takes no cudaFree
            for piece in self._left:
                self.findings.leak(piece)

    def _drops(self, places: tuple[Place, ...], call: str) -> bool:
        """Whether the program does nothing with what a call returned."""
        return is_dropped(frames([places]).get(places, ()), call, self.findings.lines_of)

    @property
    def _left(self) -> list[Piece]:
        """What the program never freed."""
        return [p for p in self.arena.live.values() if p.kind is not MemoryKind.SYMBOL and p.origin]


_ENDS: tuple[tuple[tuple[type[BaseException], ...], str, int], ...] = (
    ((KernelTrap,), "trap", errors.LAUNCH_FAILURE),
    ((KernelDeadlock,), "deadlock", errors.LAUNCH_TIMEOUT),
    ((StepLimitExceeded,), "endless", errors.LAUNCH_TIMEOUT),
    ((PrintLimitExceeded,), "prints-too-much", errors.LAUNCH_FAILURE),
    ((MemoryLimitExceeded,), "too-large", errors.MEMORY_ALLOCATION),
    ((UnsupportedInstruction, KernelTooLarge), "unsupported", errors.NOT_SUPPORTED),
    ((LaunchError,), "impossible-launch", errors.INVALID_VALUE),
    ((SimulationError, PtxsimError), "unsupported", errors.NOT_SUPPORTED),
)
"""What ends a launch early: the kind of note, and the error that the device gives from then on."""


def readable_symbol(name: str) -> str:
    """A variable's name in the source, out of its mangled one where that is simple."""
    if name.startswith("_Z"):
        digits = name.lstrip("_ZL")
        count = "".join(c for c in digits[:4] if c.isdigit())
        if count and digits.startswith(count):
            return digits[len(count) : len(count) + int(count)]
    return name


def _as_float(bits: int) -> float:
    return float(struct.unpack("<f", struct.pack("<I", bits & 0xFFFFFFFF))[0])
