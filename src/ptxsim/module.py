"""A PTX text as a module of kernels that can be launched.

    text -> parse -> Module -> kernel -> SimKernel -> launch -> LaunchRecord

Machine code is made at the first launch. Parsing, and the oracle, which takes the same kernels, need NumPy alone.
"""

from __future__ import annotations

import math
import re
import struct
import threading
from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np

from ptxsim.adders import ORDERED, TENSOR_SUMS
from ptxsim.analysis.effects import order_may_show
from ptxsim.errors import KernelTooLarge, LaunchError
from ptxsim.kernel.calls import STACK_BYTES, function_number, inlined_size
from ptxsim.kernel.cfg import build_kernel
from ptxsim.kernel.doubled import IN_KERNEL, KINDS as DOUBLED, doubled_kernel, doubled_program
from ptxsim.limits import (
    CONSTANT_LIMIT,
    LIMITS,
    MAX_BLOCK,
    MAX_CLUSTER,
    MAX_GRID,
    MAX_LARGE_CLUSTER,
    MAX_LOCAL_BYTES,
    MAX_THREADS,
    STATIC_SHARED_LIMIT,
)
from ptxsim.memory import Allocation, Memory
from ptxsim.record import TIERS, LaunchRecord, Manner, Terms, Triple
from ptxsim.syntax.parse import parse as parse_text
from ptxsim.syntax.program import FLOAT_TYPES, RESERVED, RESERVED_BYTES, WIDTH_BITS, Block, Kernel, Param, PtxFile

if TYPE_CHECKING:
    from ptxsim.run.engine import Engine

Shape = int | Sequence[int]
"""A grid or block: one to three lengths."""
Parameters = bytes | Sequence[Any]
"""A parameter block, or a NumPy scalar, an allocation or bytes (a structure) for each parameter."""

_KINDS = {t: "f" if t in FLOAT_TYPES else "iub" for t in WIDTH_BITS if t in FLOAT_TYPES or t[0] in "us"}
"""Parameter type -> the kinds of NumPy scalars that it takes; untyped ones (.b32, structures) take any."""
_FITTING = {
    (t, scalar)
    for t, kinds in _KINDS.items()
    for scalar in np.sctypeDict.values()
    if np.dtype(scalar).kind in kinds and 8 * np.dtype(scalar).itemsize == WIDTH_BITS[t]
}
"""Parameter types, each with the classes of scalars that are as wide and of a kind that it takes."""


def parse(text: str) -> Module:
    """Parses a PTX file. Raises PtxSyntaxError."""
    return Module(parse_text(text))


def prepare() -> None:
    """Load what launches need, and make machine code of the helpers that kernels share: for a process that waits."""
    import ptxsim.run.engine  # noqa: F401 - what a kernel imports with its first launch
    from ptxsim.codegen import jit

    jit.prepare()


class Module:
    """A PTX file. Its variables are placed once in each memory, and shared by its kernels there."""

    def __init__(self, program: PtxFile) -> None:
        self.program = program
        self._placed: WeakKeyDictionary[Memory, dict[str, Allocation]] = WeakKeyDictionary()
        self._placing = threading.Lock()
        self._sizes: dict[str, int] = {}

    @property
    def entries(self) -> tuple[str, ...]:
        """Names of the kernels."""
        return self.program.entries

    @property
    def target(self) -> str:
        """The GPUs that it was compiled for: "sm_80"."""
        return self.program.target

    @property
    def variables(self) -> dict[str, int]:
        """Name -> bytes of the .global and .const variables."""
        found = self.program.globals.values()
        return {v.name: v.size_bytes for v in found if v.space in ("global", "const") and not v.external}

    def params(self, entry: str) -> tuple[Param, ...]:
        """Parameters of a kernel, of one that the simulator cannot run too."""
        return self.program.functions[entry].params

    def instructions(self, entry: str) -> int:
        """How many instructions a kernel has with its calls inlined: what translating it costs grows with them."""
        if entry not in self._sizes:
            self._sizes[entry] = inlined_size(self.program, self.program.functions[entry])
        return self._sizes[entry]

    def kernel(self, name: str, *, file: str = "") -> SimKernel:
        """A kernel to launch; `file` is what messages call its source.

        Raises UnsupportedInstruction where it uses one that the simulator does not know, and KernelTooLarge where the
        module's constants do not fit.
        """
        self._refuse_constants()
        return SimKernel(self, name, file=file)

    def _refuse_constants(self) -> None:
        """Raises KernelTooLarge for more constant memory than there is: ptxas counts all variables of a file."""
        end = 0
        for v in self.program.globals.values():
            if v.space == "const" and not v.external:
                end = -(-end // v.align) * v.align + v.size_bytes
        if end > CONSTANT_LIMIT:
            raise KernelTooLarge(
                f"the __constant__ variables take {end:,} bytes; there are {CONSTANT_LIMIT:,} bytes of constant memory",
                next_step="Pass large tables as arrays in global memory: `const float* __restrict__ table`.",
            )

    def place(self, memory: Memory) -> Mapping[str, Allocation]:
        """The variables in a memory, allocated and initialised when first asked for."""
        with self._placing:
            if memory not in self._placed:
                self._placed[memory] = self._place(memory)
            return self._placed[memory]

    def _place(self, memory: Memory) -> dict[str, Allocation]:
        placed = {name: memory.allocate(size, name) for name, size in self.variables.items()}
        for name, allocation in placed.items():
            variable = self.program.globals[name]
            view = allocation.view()
            view[:] = 0
            view[: len(variable.initial)] = np.frombuffer(variable.initial, np.uint8)
            for offset, symbol, addend in variable.relocations:
                if symbol in self.program.functions:
                    address = function_number(self.program, symbol)
                else:
                    address = placed[symbol].address + addend if symbol in placed else 1
                view[offset : offset + 8] = np.frombuffer(struct.pack("<Q", address), np.uint8)
        return placed


def shared_limit(target: str) -> int:
    """Most shared memory of a block, in bytes, on the GPUs that PTX of `target` (sm_80) was compiled for.

    A target without a row of its own has the limit of the newest one before it.
    """
    digits = re.match(r"sm_(\d+)", target)
    number = int(digits[1]) if digits else 0
    known = [(10 * major + minor, row.shared_bytes_per_block) for (major, minor), row in LIMITS.items()]
    return max((row for row in known if row[0] <= number), default=min(known))[1]


class SimKernel:
    """A kernel of a module. `body` has its basic blocks, registers, variables and sizes."""

    def __init__(self, module: Module, name: str, *, file: str = "", body: Kernel | None = None) -> None:
        self.module = module
        self.name = name
        self.body = body if body is not None else build_kernel(module.program, name)
        home = module.program.functions[name].home_file or 1
        self.file = file or module.program.files.get(home, "kernel.cu")
        self.shared_limit = shared_limit(module.target)
        self._engine: Engine | None = None
        self._last: tuple[object, Terms] | None = None
        self._making = threading.Lock()
        self._doubled: dict[str, SimKernel] = {}
        self._by_stack: dict[int, SimKernel] = {}

    @property
    def params(self) -> tuple[Param, ...]:
        return self.body.params

    @property
    def blocks(self) -> Sequence[Block]:
        """The basic blocks, in the order in which parted lanes take them."""
        return self.body.blocks

    @property
    def engine(self) -> Engine:
        """What makes and runs its machine code; loads llvmlite."""
        with self._making:
            if self._engine is None:
                from ptxsim.run.engine import Engine

                self._engine = Engine(self.body, self.file)
            return self._engine

    @cached_property
    def order_may_show(self) -> bool:
        """Whether threads may talk to each other without a barrier: `launch(..., order=...)` may then give something
        else."""
        return order_may_show(self.body)

    def prepare(self, grid: Shape, block: Shape, *, check: bool = True, count: bool = True) -> None:
        """Makes the machine code that such a launch needs."""
        self.engine.prepare(_triple(grid), _triple(block), check=check, count=count)

    def launch(
        self,
        grid: Shape,
        block: Shape,
        params: Parameters,
        memory: Memory,
        *,
        shared_bytes: int = 0,
        check: bool = True,
        count: bool = True,
        threads: int | None = None,
        parted: bool = False,
        step_limit: int = 1 << 28,
        print_limit: int = 1 << 20,
        cluster: Shape | None = None,
        large_clusters: bool = False,
        cooperative: bool = False,
        tensor_sums: str = ORDERED,
        order: int | None = None,
        handoffs: bool = False,
        tier: str = "auto",
        doubled: str = "",
        watch: Sequence[Allocation] | None = None,
        most_looks: int | None = None,
        stack_bytes: int = STACK_BYTES,
    ) -> LaunchRecord:
        """Runs the kernel to its end.

        `shared_bytes` is the dynamic shared memory. `check` looks for hazards, `count` counts; `threads` of the host
        work on it, by default all that are available. `step_limit` bounds the loop iterations of warps that a launch
        may spend, shared out evenly among its blocks, `print_limit` the bytes that it prints. `parted` runs every warp
        as if its lanes had parted, which is slower and gives the same results. `cluster` gives the blocks of a cluster
        where the kernel does not (`__cluster_dims__`), `large_clusters` allows more than every GPU with clusters takes
        (cudaFuncAttributeNonPortableClusterSizeAllowed); with `cooperative` all blocks are resident from the start.
        `tensor_sums` says how tensor cores add: "ordered" along k, each step rounded to nearest, or as a "hopper" GPU
        does, to the last bit and more slowly. `order` is the seed of an order in which blocks, and the warps of each,
        take their turns, the same on every machine; None is by number. What is right only in one order shows.
        `handoffs`, with checks: keep what warps hand to each other through barrier objects. `tier` is "stencils", code
        that is made at once, "compiled", which runs several times faster, or "auto", which begins a long kernel with
        the first and compiles it when its launches have taken a while; "frugal" begins nearly all kernels so and waits
        until launches have taken as long as compiling will; "brief" compiles no long kernel: for launches that
        `step_limit` stops. What comes out is the same. `doubled` names a kind of `ptxsim.kernel.doubled.KINDS` whose
        products are added twice, or whose copies bring zeros: what a kernel stores tells then whether it comes from
        them. `watch`, with checks: the record says what was done to these. A race that is suspected between blocks is
        looked into by a second run; `most_looks` says after how many of them that found nothing launches that are alike
        are spared it, None that none is. `stack_bytes`: see `with_stack`.

        Raises LaunchError for a launch that no GPU would take and for parameters that do not fit; StepLimitExceeded,
        KernelTrap, KernelDeadlock, PrintLimitExceeded, MemoryLimitExceeded.
        """
        terms = self.terms(
            grid, block, params, shared_bytes, cluster=cluster, large_clusters=large_clusters, cooperative=cooperative
        )
        if tensor_sums not in TENSOR_SUMS:
            raise LaunchError(f"{self.name}: tensor_sums is {tensor_sums!r}; it is one of {', '.join(TENSOR_SUMS)}")
        if tier not in TIERS:
            raise LaunchError(f"{self.name}: tier is {tier!r}; it is one of {', '.join(TIERS)}")
        if doubled and doubled not in DOUBLED:
            raise LaunchError(f"{self.name}: doubled is {doubled!r}; it is one of {', '.join(DOUBLED)}")
        kernel = self.with_stack(stack_bytes)
        kernel = kernel.doubled(doubled) if doubled else kernel
        made = Manner if watch is not None else _usual_manner
        manner = made(
            check, count, threads, parted, step_limit, print_limit, tensor_sums, order, handoffs, tier, watch,
            most_looks,
        )  # fmt: skip
        return kernel.engine.launch(terms, memory, self.module.place(memory), manner)

    def with_stack(self, stack_bytes: int) -> SimKernel:
        """The same kernel with so many bytes for the calls of each thread that go by a stack; made once for each size.

        Less than the usual is the usual, and more than a thread's local memory has left is what it has left.
        """
        usual, rest = self.body.stack_bytes, self.body.local_bytes - self.body.stack_bytes
        wanted = min(stack_bytes, MAX_LOCAL_BYTES - rest) // 16 * 16
        if not usual or wanted <= usual:
            return self
        with self._making:
            if wanted not in self._by_stack:
                body = build_kernel(self.module.program, self.name, stack_bytes=wanted)
                self._by_stack[wanted] = SimKernel(self.module, self.name, file=self.file, body=body)
            return self._by_stack[wanted]

    def doubled(self, kind: str) -> SimKernel:
        """The same kernel with everything of a kind of `ptxsim.kernel.doubled.KINDS` doubled; made once."""
        with self._making:
            if kind not in self._doubled:
                module, body = self.module, None
                if kind in IN_KERNEL:
                    body = doubled_kernel(self.body, kind)
                else:
                    module = Module(doubled_program(module.program, kind))
                self._doubled[kind] = SimKernel(module, self.name, file=self.file, body=body)
            return self._doubled[kind]

    def listing(self, stage: str, block: Shape) -> str:
        """The kernel on its way to machine code, with counters and checks, for blocks of a shape.

        `stage` is "lanes" (PTX, with what is known of each register across lanes), "ir" (LLVM's) or "asm" (the host's).
        """
        return self.engine.listing(stage, _triple(block))

    def terms(
        self, grid: Shape, block: Shape, params: Parameters, shared_bytes: int = 0, *, cluster: Shape | None = None,
        large_clusters: bool = False, cooperative: bool = False,
    ) -> Terms:  # fmt: skip
        """What a launch asks for, checked. Raises LaunchError."""
        blocks, lengths = _triple(grid), _triple(block)
        asked = blocks, lengths, shared_bytes, _triple(cluster) if cluster is not None else None, large_clusters
        packed, last = self.packed(params), self._last
        if last is None or last[0] != (asked, packed, cooperative):  # most launches are like the one before
            sides = self._checked_shape(*asked)
            terms = Terms(blocks, lengths, packed, shared_bytes, sides, cooperative)
            last = self._last = (asked, packed, cooperative), terms
        return last[1]

    def _checked_shape(
        self, blocks: Triple, lengths: Triple, shared_bytes: int, cluster: Triple | None, large_clusters: bool
    ) -> Triple:
        """The sides of the clusters of a launch of this shape. Raises LaunchError where no GPU would take it."""
        for what, shape, limits in (("block", lengths, MAX_BLOCK), ("grid", blocks, MAX_GRID)):
            for axis, size, limit in zip("xyz", shape, limits, strict=True):
                if not 1 <= size <= limit:
                    raise LaunchError(f"{self.name}: {what}.{axis} is {size:,}; it must be between 1 and {limit:,}")
        threads = lengths[0] * lengths[1] * lengths[2]
        if threads > MAX_THREADS:
            raise LaunchError(
                f"{self.name}: a block of {lengths} has {threads:,} threads; the most is {MAX_THREADS:,}",
                next_step="Use a smaller block and more of them.",
            )
        bound = self.body.max_threads
        if bound is not None and threads > bound:
            raise LaunchError(
                f"{self.name}: a block of {threads} threads, but __launch_bounds__ promises at most {bound}"
            )
        static = self.body.shared_bytes - (RESERVED_BYTES if RESERVED in self.body.variables else 0)
        if static > STATIC_SHARED_LIMIT or static + shared_bytes > self.shared_limit or shared_bytes < 0:
            raise LaunchError(
                f"{self.name}: {static:,} bytes of static and {shared_bytes:,} of dynamic shared memory; "
                f"on {self.module.target} the limits are {STATIC_SHARED_LIMIT:,} static and "
                f"{self.shared_limit:,} in all",
                next_step="Use smaller tiles, or compile for a GPU with more shared memory.",
            )
        return self._cluster(blocks, cluster, MAX_LARGE_CLUSTER if large_clusters else MAX_CLUSTER)

    def _cluster(self, grid: Triple, asked: Triple | None, most: int) -> Triple:
        """The sides of a cluster, which divide the grid's."""
        own = self.body.cluster
        cluster = asked or own or (1, 1, 1)
        if own is not None and cluster != own:
            raise LaunchError(f"{self.name}: clusters of {cluster}, but __cluster_dims__ says {own}")
        if min(cluster) < 1 or math.prod(cluster) > most:
            raise LaunchError(
                f"{self.name}: a cluster of {cluster} blocks; it has between 1 and {most}",
                next_step=f"Up to {MAX_LARGE_CLUSTER} blocks take cudaFuncAttributeNonPortableClusterSizeAllowed.",
            )
        if any(side % part for side, part in zip(grid, cluster, strict=True)):
            raise LaunchError(
                f"{self.name}: a grid of {grid} is not made of clusters of {cluster}",
                next_step="Round the grid up to a multiple of the cluster along each side.",
            )
        return cluster

    def packed(self, params: Parameters) -> bytes:
        """The parameter block. Raises LaunchError where the parameters do not fit the declared ones."""
        if isinstance(params, bytes):
            if len(params) != self.body.param_bytes:
                takes = f"the kernel takes {self.body.param_bytes}"
                raise LaunchError(f"{self.name}: the parameter block has {len(params)} bytes, {takes}")
            return params
        if len(params) != len(self.params):
            declared = ", ".join(f".{p.type} {p.name}" for p in self.params) or "none"
            raise LaunchError(f"{self.name}: {len(params)} parameters were given, the kernel takes {declared}")
        block = bytearray(self.body.param_bytes)
        for param, value in zip(self.params, params, strict=True):
            raw = value.tobytes() if (param.type, type(value)) in _FITTING else b""
            if len(raw) != param.size_bytes:
                raw = self._raw(param, value)
            block[param.offset : param.offset + param.size_bytes] = raw
        return bytes(block)

    def _raw(self, param: Param, value: Any) -> bytes:
        """The bytes of one parameter."""
        if isinstance(value, Allocation):
            value = np.uint64(value.address)
        raw = value.tobytes() if isinstance(value, np.generic) else value
        fits = isinstance(raw, bytes) and len(raw) == param.size_bytes
        if not fits or (raw is not value and param.type in _KINDS and value.dtype.kind not in _KINDS[param.type]):
            given = f"{type(value).__name__} of {len(raw)} bytes" if isinstance(raw, bytes) else type(value).__name__
            raise LaunchError(
                f"{self.name}: parameter {param.name} is .{param.type} of {param.size_bytes} bytes; {given} was given",
                next_step="Pass a NumPy scalar of the parameter's type, an Allocation for a pointer, "
                "or bytes for a structure.",
            )
        return raw


_usual_manner = lru_cache(maxsize=64)(Manner)
"""The same object for launches that are run alike."""


def _triple(shape: Shape) -> Triple:
    lengths = (shape,) if isinstance(shape, int) else tuple(shape)
    if len(lengths) > 3:
        raise LaunchError(f"a grid or block has one to three lengths, not {len(lengths)}: {lengths}")
    x, y, z = lengths if len(lengths) == 3 else (*lengths, 1, 1, 1)[:3]
    return int(x), int(y), int(z)
