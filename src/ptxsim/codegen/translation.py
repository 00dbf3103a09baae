"""PTX to LLVM IR: one kernel, for one block shape.

`translate` prepares the kernel (blocks split where a guard may leave, barrier results given blocks of their own) and
analyses its registers' lane patterns, writes the functions `full`, `masked` and `run_blocks`, and returns them with
the plan that turns the counter array into named counters.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate

from ptxsim.analysis.copies import copied_loads
from ptxsim.analysis.effects import (
    blocks_in_order,
    granule_log2,
    has_barrier_objects,
    has_fences,
    has_memory_fences,
    in_clusters,
    may_reach_parameters,
    memory_spins,
    optimistic_loads,
    pointer_roots,
    read_roots,
    spin_heads,
    written_roots,
)
from ptxsim.analysis.lanes import LaneAnalysis
from ptxsim.analysis.merging import shared_requests
from ptxsim.analysis.signals import waiting_loads
from ptxsim.analysis.sums import early_uses, unfenced_products
from ptxsim.analysis.waiting import drawing, left_to, pure_waits
from ptxsim.codegen import (  # noqa: F401  (they register the handlers)
    asynchronous,
    convert,
    floating,
    integers,
    memory,
    tensor,
    textures,
    video,
    warp,
    warpgroup,
)
from ptxsim.codegen.abreast import abreast
from ptxsim.codegen.driver import write_driver
from ptxsim.codegen.emit import module_text
from ptxsim.codegen.full import Full
from ptxsim.codegen.grids import find_products, sums_in_order
from ptxsim.codegen.layout import LEAST_WIDE, MAX_BLOCKS, MOST_WIDE, context_layout
from ptxsim.codegen.masked import Masked
from ptxsim.codegen.nans import computed_floats
from ptxsim.codegen.outlined import Outlined
from ptxsim.codegen.tensor_frames import find_frames, frames_bytes
from ptxsim.codegen.translator import barrier_operands
from ptxsim.codegen.unit import CounterPlan, Options, Runs, Unit, lanes_of, parts_of
from ptxsim.errors import KernelTooLarge
from ptxsim.isa import TEXTURE
from ptxsim.kernel.liveness import live_before
from ptxsim.syntax.bulk import is_bulk
from ptxsim.syntax.program import (
    Address,
    Barrier,
    Block,
    Immediate,
    Instruction,
    Jump,
    Kernel,
    Register,
    Special,
    Terminator,
    bytes_of,
    retargeted,
)

__all__ = ["Options", "Translation", "translate"]
_LONG, _LONG_CHECKED = 1_200, 600
"""PTX instructions above which registers live in memory between blocks: without and with checks. Such a kernel has more
values than the host has registers, so that it runs no slower, and LLVM needs half the time."""

_HEAVY = 1_200
"""Weight above which lanes that have parted run stencils."""


@dataclass(frozen=True)
class Translation:
    """IR text and what is needed to run it and to read its counters."""

    ir: str
    unit: Unit
    written_roots: frozenset[str]
    read_roots: frozenset[str]
    instruction_count: int
    weight: int
    """see `Kernel.weight`"""
    full_names: tuple[str, ...]
    """the functions that `full` is made of; none in outlined code"""
    runs: Runs | None
    """the data of outlined code"""

    @property
    def outlined(self) -> bool:
        """Whether the IR has `masked` too, and nothing but that: its counters are the unit's plan."""
        return self.unit.options.outlined

    def masked(self) -> tuple[str, CounterPlan, Runs | None]:
        """IR of the function `masked`, the plan of its counters, and its data: written when a warp's lanes first part.

        A heavy kernel's is made of stencils. They are compiled well, and compiled before; as one function LLVM would
        take ten times as long for it as for `full`, or make slow code.
        """
        unit = replace(self.unit, plan=CounterPlan(), helpers={})
        masked = Outlined(unit) if self.weight > _HEAVY else Masked(unit)
        text = masked.translate()
        unit.library.update(masked.stencils)
        return module_text([text, *unit.helpers.values()], masked.declared, unit.helpers), unit.plan, masked.runs

    @property
    def most_sites(self) -> int:
        """Upper bound of the access sites of both functions."""
        return 2 * len(self.unit.sites) + self.instruction_count + len(self.unit.kernel.blocks) + 1


def translate(
    kernel: Kernel,
    block: tuple[int, int, int],
    options: Options,
    *,
    wide_grid: bool = False,
    wide_vectors: bool = True,
) -> Translation:
    """Translates `kernel` for blocks of shape `block`.

    `wide_grid`: do not assume blockIdx.x below MAX_GRID_X. `wide_vectors`: the host has 32 registers of 64 bytes.
    """
    known = _known(kernel, block, wide_grid, examined=not options.outlined)
    kernel = known.kernel
    count = kernel.instruction_count
    unit = replace(
        known, options=options, plan=CounterPlan(), sites=[], helpers={}, library={}, symbol_slots={}, products=[],
        sums=[],
        long=count > (_LONG_CHECKED if options.check else _LONG), wide_vectors=wide_vectors,
    )  # fmt: skip
    parts = parts_of(unit) if not options.outlined else []
    functions: list[str] = []
    declared: dict[str, str] = {}
    runs: Runs | None = None
    if options.outlined:
        masked = Outlined(unit)
        functions.append(masked.translate())
        declared |= masked.declared
        unit.library.update(masked.stencils)
        runs = masked.runs
    for k, part in enumerate(parts):
        full = Full(unit, part)
        functions.append(full.translate())
        declared |= full.declared
        if several := abreast(unit, part, full.once):
            functions.append(several)
            parts[k] = replace(part, abreast=True)
    driver, driver_declared = write_driver(unit, parts)
    functions += [driver, *unit.helpers.values()]
    ir = module_text(functions, declared | driver_declared, unit.helpers)
    reached = written_roots(kernel, unit.pointers), read_roots(kernel, unit.pointers)
    return Translation(ir, unit, *reached, count, kernel.weight, tuple(part.name for part in parts), runs)


def _known(kernel: Kernel, block: tuple[int, int, int], wide_grid: bool, *, examined: bool) -> Unit:
    """What does not depend on other options: found out once for a block shape, as a unit to copy.

    Stencils work lane by lane and instruction by instruction: for them it is not `examined` what lanes have in common,
    and what several instructions come to, which takes as long as all the rest.
    """
    key = block, wide_grid, examined
    if key not in kernel.known:
        kernel.known[key] = (
            _find_out(kernel, *key) if kernel.like is None else _alike(*kernel.like, block, wide_grid, examined)
        )
    return kernel.known[key]


def _alike(
    origin: Kernel, change: Callable[[Instruction], Instruction], block: tuple[int, int, int], wide_grid: bool,
    examined: bool,
) -> Unit:  # fmt: skip
    """What is known of a kernel that was made of another one; the products found there are not looked for again."""
    known = _known(origin, block, wide_grid, examined=examined)
    kernel = known.kernel.with_instructions(change)
    analysis = copy(known.analysis)
    analysis.kernel = kernel
    return replace(known, kernel=kernel, analysis=analysis, grids={})


def _find_out(kernel: Kernel, block: tuple[int, int, int], wide_grid: bool, examined: bool) -> Unit:
    requests = shared_requests(kernel)
    kernel = _with_barrier_results(kernel)
    analysis = LaneAnalysis(kernel, block, wide_grid, examined)
    kernel = _split_at_guards(kernel, analysis)
    analysis.kernel = kernel
    if len(kernel.blocks) >= MAX_BLOCKS:
        raise KernelTooLarge(
            f"{kernel.name} has {len(kernel.blocks):,} basic blocks; the simulator takes {MAX_BLOCKS:,}"
        )
    clusters, pure, drawn = in_clusters(kernel), pure_waits(kernel), drawing(kernel)
    yielding = spin_heads(kernel) | drawn

    def varies(name: str) -> bool:
        return not analysis.of(name).known

    grids = find_products(kernel, partial(_word_offsets, analysis), varies) if examined else {}
    frames = find_frames(kernel, varies)
    roots = pointer_roots(kernel)
    return Unit(
        kernel, block, analysis, Options(),
        context_layout(
            kernel, lambda name: lanes_of(analysis.of(name)), frames_bytes(frames), sums_in_order(grids.values())
        ),
        roots, frames=frames, grids=grids, own_parameters=may_reach_parameters(kernel, roots),
        global_granule_log2=granule_log2(kernel, frozenset({"global", "generic"})),
        shared_granule_log2=granule_log2(kernel, frozenset({"shared", "cluster", "generic"})),
        fences=has_memory_fences(kernel), named=_is_named(kernel),
        partial_order=_is_named(kernel) or has_fences(kernel) or clusters,
        spin_heads=yielding, spins=memory_spins(kernel), pure_waits=pure, drawing=drawn,
        left_to=left_to(kernel, pure),
        optimistic=optimistic_loads(kernel), waits=waiting_loads(kernel), copied=copied_loads(kernel),
        computed_floats=computed_floats(kernel),
        shared_requests=requests,
        copies_async=any(i.opcode == "cp" and not is_bulk(i) for b in kernel.blocks for i in b.instructions),
        barrier_objects=has_barrier_objects(kernel),
        in_turns=clusters or (bool(yielding) and blocks_in_order(kernel)),
        meets_grid=any(_reads_workspace(i) for b in kernel.blocks for i in b.instructions),
        clusters=clusters,
        wide_entries=_wide_entries(kernel),
        asynchronous=clusters or any(i.opcode == "wgmma" or is_bulk(i) for b in kernel.blocks for i in b.instructions),
        early_uses=early_uses(kernel), unfenced=unfenced_products(kernel),
        textures=any(i.row.kind == TEXTURE for b in kernel.blocks for i in b.instructions),
    )  # fmt: skip


def _word_offsets(analysis: LaneAnalysis, i: Instruction) -> tuple[int, ...] | None:
    """What lanes add to the address of a load of words in shared memory, where that is known."""
    where = i.operands[1] if i.opcode in ("ld", "ldu") and i.space == "shared" else None
    if not isinstance(where, Address) or not isinstance(where.base, Register) or bytes_of(i.type) != 4:
        return None
    pattern = analysis.of(where.base.name)
    return pattern.offsets if pattern.scalar else None


def _is_named(kernel: Kernel) -> bool:
    """Whether some barrier has a number or a count of its own, or is arrived at without waiting."""
    return any(
        (isinstance(block.terminator, Barrier) and _has_a_name(block.terminator.instruction))
        or any(i.opcode in ("bar", "barrier") and i.has("arrive") for i in block.instructions)
        for block in kernel.blocks
    )


def _wide_entries(kernel: Kernel) -> int:
    """How many operands of wgmma are kept ready: for as many products as warps of a warpgroup are apart, mostly those
    of a block. More would only push each other out of the host's caches."""
    products = [sum(i.opcode == "wgmma" and i.has("mma_async") for i in b.instructions) for b in kernel.blocks]
    return min(MOST_WIDE, max(LEAST_WIDE, 1 << (max(products) - 1).bit_length())) if any(products) else 0


def _reads_workspace(i: Instruction) -> bool:
    return any(isinstance(o, Special) and o.name in ("envreg1", "envreg2") for o in i.operands)


def _has_a_name(i: Instruction) -> bool:
    return i.opcode == "wgmma" or barrier_operands(i) != (Immediate(0), Immediate(0))


def _rebuilt(kernel: Kernel, groups: list[list[Block]]) -> Kernel:
    """A kernel whose block k is replaced by the chain groups[k]."""
    if all(len(group) == 1 for group in groups):
        return kernel
    first = list(accumulate((len(group) for group in groups), initial=0))
    blocks: list[Block] = []
    for group in groups:
        for block in group:
            end = retargeted(block.terminator, first) if block is group[-1] else _chained(block, len(blocks) + 1)
            blocks.append(Block(len(blocks), block.instructions, end, block.live_in, block.live_out))
    return replace(kernel, blocks=blocks)


def _chained(block: Block, following: int) -> Terminator:
    """A block's end where the next of its chain follows."""
    end = block.terminator
    return Barrier(following, end.instruction) if isinstance(end, Barrier) else Jump(following)


def _with_barrier_results(kernel: Kernel) -> Kernel:
    """bar.red gives its result behind the barrier: a block of its own reads it there."""
    groups: list[list[Block]] = []
    for block in kernel.blocks:
        t = block.terminator
        if isinstance(t, Barrier) and t.instruction.written:
            live = block.live_out - frozenset(t.instruction.written)
            waits = Block(0, block.instructions, t, block.live_in, live)
            groups.append([waits, Block(0, [t.instruction], Jump(t.target), live, block.live_out)])
        else:
            groups.append([block])
    return _rebuilt(kernel, groups)


def _split_at_guards(kernel: Kernel, analysis: LaneAnalysis) -> Kernel:
    """Every guarded instruction starts a block, so that a warp can start it over in `masked`."""
    groups: list[list[Block]] = []
    for block in kernel.blocks:
        cuts = [k for k, i in enumerate(block.instructions) if k and id(i) in analysis.guarded]
        if not cuts:
            groups.append([block])
            continue
        live = live_before(block.executed[len(block.instructions) :], block.live_out)
        chain: list[Block] = []
        end = len(block.instructions)
        out = block.live_out
        terminator: Terminator = block.terminator
        for cut in [*reversed(cuts), 0]:
            part = block.instructions[cut:end]
            live = live_before(part, live)
            chain.insert(0, Block(0, part, terminator, live, out))
            out, end, terminator = live, cut, Jump(0)
        groups.append(chain)
    return _rebuilt(kernel, groups)
