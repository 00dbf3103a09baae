"""Kernels on the simulator: variables in memory, machine code for a block shape, and what a launch may ask for.

`launching` has the launch itself.
"""

from __future__ import annotations

import re
import struct
import threading
from functools import cached_property

import numpy as np

from ptxsim.analysis.effects import blocks_in_order
from ptxsim.analysis.lanes import MAX_GRID_X
from ptxsim.codegen.jit import Code, wide_vectors
from ptxsim.codegen.translation import Options, translate
from ptxsim.errors import LaunchError
from ptxsim.kernel import cfg
from ptxsim.kernel.calls import function_number
from ptxsim.limits import LIMITS, MAX_BLOCK, MAX_GRID, MAX_THREADS, STATIC_SHARED_LIMIT
from ptxsim.memory import Allocation, Memory
from ptxsim.record import LaunchRecord, Triple
from ptxsim.run.launching import Launching
from ptxsim.run.worker import available_threads, interruptible
from ptxsim.syntax.parse import parse
from ptxsim.syntax.program import Kernel, Module, Param

DEFAULT_STEP_LIMIT = 1 << 28
"""Loop iterations (of warps) that a launch may spend, shared out evenly among its blocks."""


def load_module(ptx: str) -> Module:
    """Parses PTX text. Raises PtxSyntaxError."""
    return parse(ptx)


def shared_limit(target: str) -> int:
    """Most shared memory of a block, in bytes, on the GPUs that PTX of `target` (sm_80) was compiled for.

    A target without a row of its own has the limit of the newest one before it.
    """
    digits = re.match(r"sm_(\d+)", target)
    number = int(digits[1]) if digits else 0
    known = [(10 * major + minor, row.shared_bytes_per_block) for (major, minor), row in LIMITS.items()]
    return max((row for row in known if row[0] <= number), default=min(known))[1]


def bind(module: Module, memory: Memory) -> dict[str, Allocation]:
    """Places a module's globals and constants in memory, initialised; name -> allocation."""
    placed: dict[str, Allocation] = {}
    for variable in module.globals.values():
        if variable.space in ("global", "const") and not variable.external:
            placed[variable.name] = memory.allocate(variable.size_bytes, variable.name)
    for name, allocation in placed.items():
        variable = module.globals[name]
        view = allocation.view()
        view[:] = 0
        view[: len(variable.initial)] = np.frombuffer(variable.initial, np.uint8)
        for offset, symbol, addend in variable.relocations:
            if symbol in module.functions:
                address = function_number(module, symbol)
            else:
                address = placed[symbol].address + addend if symbol in placed else 1
            view[offset : offset + 8] = np.frombuffer(struct.pack("<Q", address), np.uint8)
    return placed


class SimKernel:
    """An entry function of a module, ready to launch on `memory`.

    `globals_` are the module's variables as `bind` placed them; kernels of one module share them.
    """

    def __init__(
        self,
        module: Module,
        name: str,
        memory: Memory,
        globals_: dict[str, Allocation] | None = None,
        *,
        file: str = "",
    ) -> None:
        self.memory = memory
        self.kernel: Kernel = cfg.build_kernel(module, name)
        self.globals = bind(module, memory) if globals_ is None else globals_
        self.file = file or module.files.get(1, "kernel.cu")
        self.shared_limit = shared_limit(module.target)
        self._built: dict[tuple[Triple, Options, bool], Code] = {}
        self._building: dict[tuple[Triple, Options, bool], threading.Lock] = {}

    @property
    def params(self) -> tuple[Param, ...]:
        return self.kernel.params

    @cached_property
    def ordered(self) -> bool:
        """Whether blocks may talk to each other, so that their order could show."""
        return blocks_in_order(self.kernel)

    def build(self, block: Triple, options: Options | None = None, *, wide_grid: bool = False) -> Code:
        """Machine code for a block shape; made once, whatever number of threads ask for it."""
        options = options or Options()
        key = (block, options, wide_grid)
        with self._building.setdefault(key, threading.Lock()):
            if key not in self._built:
                translation = translate(self.kernel, block, options, wide_grid=wide_grid, wide_vectors=wide_vectors())
                self._built[key] = interruptible(lambda: Code(translation))
        return self._built[key]

    def prepare(self, block: Triple, options: Options, *, wide_grid: bool = False) -> None:
        """Makes what a launch will need: where lanes have parted with other options, the code for that too."""
        code = self.build(block, options, wide_grid=wide_grid)
        others = [other for (shape, _, _), other in list(self._built.items()) if shape == block]
        if any(other.masked_plan is not None for other in others):
            code.compile_masked()

    def launch(
        self,
        grid: Triple,
        block: Triple,
        params: bytes,
        *,
        shared_bytes: int = 0,
        check: bool = True,
        count: bool = True,
        threads: int | None = None,
        parted: bool = False,
        step_limit: int = DEFAULT_STEP_LIMIT,
        print_limit: int = 1 << 20,
    ) -> LaunchRecord:
        """Runs the kernel to its end.

        `params` is the parameter block (`kernel.param_bytes` bytes, see `params`), `shared_bytes` the dynamic shared
        memory. `parted` runs every warp as if its lanes had parted, which is slower and gives the same results.
        Raises LaunchError for a launch that no GPU would take, StepLimitExceeded, KernelTrap, PrintLimitExceeded.
        """
        self._validate(grid, block, params, shared_bytes)
        code = self.build(block, Options(check, count, parted=parted), wide_grid=grid[0] > MAX_GRID_X)
        run = Launching(self, code, grid, block, params, shared_bytes, step_limit, print_limit)
        return run.execute(threads or available_threads())

    def _validate(self, grid: Triple, block: Triple, params: bytes, shared_bytes: int) -> None:
        name = self.kernel.name
        for what, shape, limits in (("block", block, MAX_BLOCK), ("grid", grid, MAX_GRID)):
            for axis, size, limit in zip("xyz", shape, limits, strict=True):
                if not 1 <= size <= limit:
                    raise LaunchError(f"{name}: {what}.{axis} is {size:,}; it must be between 1 and {limit:,}")
        threads = block[0] * block[1] * block[2]
        if threads > MAX_THREADS:
            raise LaunchError(
                f"{name}: a block of {block} has {threads:,} threads; the most is {MAX_THREADS:,}",
                next_step="Use a smaller block and more of them.",
            )
        bound = self.kernel.max_threads
        if bound is not None and threads > bound:
            raise LaunchError(f"{name}: a block of {threads} threads, but __launch_bounds__ promises at most {bound}")
        total = self.kernel.shared_bytes + shared_bytes
        if self.kernel.shared_bytes > STATIC_SHARED_LIMIT or total > self.shared_limit or shared_bytes < 0:
            raise LaunchError(
                f"{name}: {self.kernel.shared_bytes:,} bytes of static and {shared_bytes:,} of dynamic shared memory; "
                f"on {self.kernel.module.target} the limits are {STATIC_SHARED_LIMIT:,} static and "
                f"{self.shared_limit:,} in all",
                next_step="Use smaller tiles, or compile for a GPU with more shared memory.",
            )
        if len(params) != self.kernel.param_bytes:
            raise LaunchError(
                f"{name}: the parameter block has {len(params)} bytes, the kernel takes {self.kernel.param_bytes}"
            )
