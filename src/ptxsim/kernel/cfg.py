"""A parsed function to a `Kernel`: calls inlined, code split into basic blocks, blocks ordered, liveness known.

Lanes that wait stand at a higher block number than those that run (min-PC scheduling). So that they meet as early as
possible, blocks are numbered topologically, and every loop is contiguous: nested strongly connected components, which
works for reducible and irreducible loops alike. And every loop has one way back to its head, from a block at its end:
lanes that are through with a turn early wait there for the others, as a vote or a shuffle at the loop's head needs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ptxsim.analysis.effects import spin_heads
from ptxsim.errors import MemoryLimitExceeded
from ptxsim.isa import Flow
from ptxsim.kernel.calls import BACK, STACK_BYTES, flatten
from ptxsim.kernel.inline import Flat
from ptxsim.kernel.liveness import TooManyLive, find_live
from ptxsim.kernel.tensormaps import lowered
from ptxsim.kernel.undefined import filled, undefined_reads
from ptxsim.kernel.unread import without_unread
from ptxsim.limits import MAX_LOCAL_BYTES, MAX_PARAMETER_BYTES
from ptxsim.syntax.operands import align_up
from ptxsim.syntax.program import (
    RESERVED,
    RESERVED_BYTES,
    STACK_POINTER,
    Address,
    Barrier,
    Block,
    Branch,
    Guard,
    Instruction,
    InstructionOrigin,
    Jump,
    Kernel,
    Operand,
    PtxFile,
    Register,
    Return,
    SourceLine,
    Special,
    Switch,
    Symbol,
    Terminator,
    Variable,
    WarpBarrier,
    parts_of,
    reached,
    retargeted,
    successors,
)
from ptxsim.syntax.refusals import refused

MAX_WORK = 2_000_000
"""Most steps of ordering blocks; reached only by about a thousand loops inside each other."""
_MIN_DYNAMIC_ALIGN = 16
"""Dynamic shared memory starts at a multiple of at least this many bytes."""
_ASSERT_FAILS = Symbol("__assertfail")


class TooTangled(Exception):
    """The graph's loops are nested so deep that ordering them would take too long."""


def build_kernel(module: PtxFile, entry: str, *, stack_bytes: int = STACK_BYTES) -> Kernel:
    """The kernel `entry` of a module, ready for translation. `stack_bytes` of a thread are for its calls, if it needs a
    stack for any.

    Raises KeyError if there is no such entry, PtxSyntaxError for an instruction that is none, and
    UnsupportedInstruction for what the simulator does not execute.
    """
    function = module.functions[entry]
    if not function.is_entry:
        raise KeyError(entry)
    flat = _with_reserved(flatten(module, function, stack_bytes))
    flat = _with_named_parameters(flat, {p.name for p in function.params})
    blocks = _blocks(module, entry, flat)
    undefined = undefined_reads(blocks, blocks[0].live_in - {STACK_POINTER})
    first_values, more = filled(list(undefined), flat.registers)
    if first_values:
        flat = replace(flat, code=[*first_values, *flat.code], registers=flat.registers | more)
        blocks = _blocks(module, entry, flat)
    variables, shared_bytes, local_bytes = _placed(_variables(module, flat))
    param_bytes = max((p.offset + p.size_bytes for p in function.params), default=0)
    _within(MAX_LOCAL_BYTES, local_bytes, "local memory per thread", module, flat)
    _within(MAX_PARAMETER_BYTES, param_bytes, "parameters", module, flat)
    kernel = Kernel(
        name=entry,
        module=module,
        params=function.params,
        param_bytes=param_bytes,
        registers=flat.registers,
        blocks=blocks,
        variables=variables,
        shared_bytes=shared_bytes,
        local_bytes=local_bytes,
        max_threads=function.max_threads,
        cluster=function.cluster,
        undefined=tuple(sorted({source.line for source in undefined.values() if source.line})),
    )
    if any(_asks_others(i) for block in blocks for i in block.instructions) and spin_heads(kernel):
        return replace(kernel, blocks=_blocks(module, entry, replace(flat, code=_with_meetings(flat.code))))
    return kernel


def _asks_others(i: Instruction) -> bool:
    """Whether it takes something from the lanes that its member mask names."""
    return i.opcode in ("vote", "shfl", "match", "redux") and i.has("sync")


def _with_meetings(code: list[Instruction | str]) -> list[Instruction | str]:
    """The code with a warp barrier before each instruction that asks other lanes, which orders nothing else.

    Lanes that look at memory until it changes let others go on before them: those wait here for them.
    """
    found: list[Instruction | str] = []
    for i in code:
        if isinstance(i, Instruction) and _asks_others(i):
            mask = (i.operands[-1],)
            found.append(
                Instruction("bar", ("warp", "sync"), mask, i.guard, i.source, i.ptx_line, (), InstructionOrigin.ADDED)
            )
        found.append(i)
    return found


def _with_reserved(flat: Flat) -> Flat:
    """The code with a variable in place of the register that says where reserved shared memory lies."""
    where, variable = Special("reserved_smem_offset_1"), Symbol(RESERVED)
    if not any(isinstance(i, Instruction) and where in i.operands for i in flat.code):
        return flat
    code = [
        i.with_(operands=tuple(variable if o == where else o for o in i.operands))
        if isinstance(i, Instruction) and where in i.operands else i
        for i in flat.code
    ]  # fmt: skip
    reserved = Variable(RESERVED, "shared", "b8", RESERVED_BYTES, 16)
    return Flat(code, flat.registers, {**flat.variables, RESERVED: reserved})


def _with_named_parameters(flat: Flat, parameters: set[str]) -> Flat:
    """The code with a parameter's name in `ld.param` where the address is a register that holds only it.

    LLVM puts the address of a structure among the parameters into a register before it loads its fields.
    """
    held = {
        i.operands[0].name: i.operands[1]
        for i in flat.code
        if isinstance(i, Instruction) and i.opcode == "mov" and i.guard is None and isinstance(i.operands[0], Register)
        and isinstance(i.operands[1], Symbol) and i.operands[1].name in parameters
    }  # fmt: skip
    if not held:
        return flat
    writes = Counter(name for i in flat.code if isinstance(i, Instruction) for name in i.written)
    held = {name: symbol for name, symbol in held.items() if writes[name] == 1}

    def named(operand: Operand) -> Operand:
        if isinstance(operand, Address) and isinstance(operand.base, Register) and operand.base.name in held:
            return replace(operand, base=held[operand.base.name])
        return operand

    code = [
        i.with_(operands=tuple(map(named, i.operands)))
        if isinstance(i, Instruction) and i.opcode == "ld" and "param" in i.modifiers else i
        for i in flat.code
    ]  # fmt: skip
    return replace(flat, code=code)


def _blocks(module: PtxFile, entry: str, flat: Flat) -> list[Block]:
    """The code in basic blocks, in their order, liveness known."""
    drafts = _split(_without_guards(lowered(flat.code, flat.registers)))
    first = _simplify(drafts)
    try:
        order, loops = _nest(_within_functions(drafts), first)
        if _with_latches(drafts, loops):
            order, _ = _nest(_within_functions(drafts), first)
        # behind them the blocks to which only a return leads that no call asks for
        blocks = _renumbered(drafts, reached(order, lambda k: successors(drafts[k].end)))
        find_live(blocks, to_the_end=frozenset({STACK_POINTER} & flat.registers.keys()))
    except (TooTangled, TooManyLive) as e:
        raise refused(module, SourceLine(), f"kernel '{entry}' is too large: {e.__doc__}") from None
    return without_unread(blocks)


def _within(limit: int, size: int, what: str, module: PtxFile, flat: Flat) -> None:
    """Raises MemoryLimitExceeded, at the kernel's first line, where `size` bytes are more than `limit`."""
    if size <= limit:
        return
    sources = (i.source for i in flat.code if isinstance(i, Instruction) and i.source.line)
    first = next(sources, SourceLine())
    place: dict[str, Any] = {"file": module.files.get(first.file, ""), "line": first.line}
    raise MemoryLimitExceeded(f"the kernel needs {size:,} bytes of {what}; the most is {limit:,}", **place)


def _variables(module: PtxFile, flat: Flat) -> dict[str, Variable]:
    """The kernel's own variables, and the module's; of the module's shared arrays only those that it mentions."""
    shared = {name for name, v in module.globals.items() if v.space == "shared"}
    operands = (o for i in flat.code if shared and isinstance(i, Instruction) for o in i.operands)
    mentioned = {part.name for o in operands for part in parts_of(o) if isinstance(part, Symbol)}
    return {
        **{name: v for name, v in module.globals.items() if name not in shared or name in mentioned},
        **flat.variables,
    }


# ---------------------------------------------------------------- splitting


_OPEN = Return(None)


@dataclass
class _Draft:
    """A basic block under construction; its terminator's targets are indices of drafts."""

    instructions: list[Instruction] = field(default_factory=list)
    end: Terminator = _OPEN


def _without_guards(code: list[Instruction | str]) -> list[Instruction | str]:
    """Turns a guarded instruction into a branch around it; neighbours under the same guard share one branch.

    The branch stands for predication, and no counter counts it.
    """
    if not any(isinstance(i, Instruction) and i.guard and i.opcode != "bra" for i in code):
        return code
    result: list[Instruction | str] = []
    guard: Guard | None = None
    label = ""
    for number, i in enumerate(code):
        own = i.guard if isinstance(i, Instruction) and i.opcode != "bra" else None
        if guard is not None and own != guard:
            result.append(label)
            guard = None
        if not isinstance(i, Instruction) or own is None:
            result.append(i)
            continue
        if guard is None:
            guard, label = own, f"skip {number}"
            around = Guard(guard.register, not guard.negated)
            result.append(Instruction("bra", (), (), around, i.source, i.ptx_line, (label,), InstructionOrigin.ADDED))
        result.append(replace(i, guard=None))
        if guard.register in i.written:  # the next instruction asks the new value
            result.append(label)
            guard = None
    if guard is not None:
        result.append(label)
    return result


def _split(code: list[Instruction | str]) -> list[_Draft]:
    """Cuts code at labels, jumps and barriers. The first block is the entry."""
    drafts = [_Draft()]
    labels: dict[str, int] = {}
    branches: list[tuple[_Draft, Instruction, int]] = []  # the draft it ends, the branch, where it falls through
    current, is_open = drafts[0], True

    def start() -> _Draft:
        drafts.append(_Draft())
        return drafts[-1]

    for i in code:
        if isinstance(i, str):
            before, current = current, start()
            labels[i] = len(drafts) - 1
            if is_open:
                before.end = Jump(len(drafts) - 1)
            is_open = True
            continue
        if not is_open:  # nothing jumps here: the block will be dropped
            current, is_open = start(), True
        flow = i.row.flow
        if flow is Flow.NEXT or flow is Flow.TRAP:
            current.instructions.append(i)
            if flow is Flow.TRAP or (i.opcode == "call" and i.operands[1] == _ASSERT_FAILS):
                is_open = False  # the thread ends here: Return(None) stands already
        elif flow is Flow.BRANCH:
            branches.append((current, i, len(drafts)))
            is_open = False
            if i.guard:
                current, is_open = start(), True
        elif flow is Flow.END:
            current.end = Return(i)
            is_open = False
        else:
            current.end = (Barrier if flow is Flow.BARRIER else WarpBarrier)(len(drafts), i)
            current = start()
    for draft, i, following in branches:
        targets = tuple([labels[t] for t in i.targets])
        if i.opcode == "brx":
            draft.end = Switch(i.operands[0], targets, i)
        elif i.guard:
            draft.end = Branch(i.guard, targets[0], following, i)
        else:
            draft.end = Jump(targets[0], i.source)
    return drafts


# ---------------------------------------------------------------- simplifying


def _within_functions(drafts: list[_Draft]) -> list[tuple[int, ...]]:
    """Successors for the order of blocks: a call on the stack goes on behind itself, and its function ends.

    Otherwise a function that is called from two places would make one loop of all that lies between them, and lanes
    that it returned to the one would not be waited for at the other.
    """
    places: dict[str, int] = {}
    for draft in drafts:
        if isinstance(draft.end, Switch) and (labels := draft.end.instruction.targets) and labels[0].startswith(BACK):
            places.update(zip(labels, draft.end.targets, strict=True))
    found = []
    for draft in drafts:
        end = draft.end
        returns = isinstance(end, Switch) and end.instruction.targets[0] in places
        behind = [places[label] for i in draft.instructions for label in i.targets] if places else []
        found.append((*(() if returns else successors(end)), *behind))
    return found


def _past_empty(drafts: list[_Draft]) -> list[int]:
    """For each block, the block that control really reaches: blocks that only jump are passed over."""
    final = [-1] * len(drafts)
    visit = [-1] * len(drafts)
    for k in range(len(drafts)):
        at, path = k, []
        while final[at] < 0 and visit[at] != k:
            visit[at] = k
            path.append(at)
            end = drafts[at].end
            if drafts[at].instructions or not isinstance(end, Jump):
                break
            at = end.target
        destination = final[at] if final[at] >= 0 else at  # an empty endless loop keeps one block
        for step in path:
            final[step] = destination
    return final


def _simplify(drafts: list[_Draft]) -> int:
    """Jumps past empty blocks and joins each block with the only one that follows it; the entry's index."""
    final = _past_empty(drafts)
    entry = final[0]
    for draft in drafts:
        draft.end = retargeted(draft.end, final)
    predecessors = [0] * len(drafts)
    predecessors[entry] = 1
    joined = [False] * len(drafts)  # entered from one jump only
    live = reached([entry], lambda k: successors(drafts[k].end))
    for k in live:
        for t in successors(drafts[k].end):
            predecessors[t] += 1
            joined[t] = predecessors[t] == 1 and isinstance(drafts[k].end, Jump)
    for k in live:
        end = drafts[k].end
        while not joined[k] and isinstance(end, Jump) and joined[end.target]:
            following = drafts[end.target]
            drafts[k].instructions.extend(following.instructions)
            drafts[k].end = end = following.end
    return entry


def _renumbered(drafts: list[_Draft], order: list[int]) -> list[Block]:
    place = {old: new for new, old in enumerate(order)}
    return [Block(new, drafts[old].instructions, retargeted(drafts[old].end, place)) for new, old in enumerate(order)]


def _with_latches(drafts: list[_Draft], loops: list[_Loop]) -> bool:
    """Gives each loop with several ways back to its head one more block, in which they meet; whether there is any."""
    before = len(drafts)
    for head, sources in loops:
        jumping = [k for k in sources if head in successors(drafts[k].end)]
        if len(jumping) < 2:
            continue
        first = next((i.source for i in drafts[head].instructions if i.source.line), SourceLine())
        drafts.append(_Draft([], Jump(head, first)))
        for k in jumping:
            end = drafts[k].end
            drafts[k].end = retargeted(end, {t: t for t in successors(end)} | {head: len(drafts) - 1})
    return len(drafts) > before


# ---------------------------------------------------------------- where variables lie


def _placed(variables: dict[str, Variable]) -> tuple[dict[str, Variable], int, int]:
    """Gives shared and local variables their offsets; bytes of static shared memory and of local memory per thread.

    Variables keep their order of declaration. Every `.extern .shared` array starts where static shared memory ends,
    rounded up to the array's alignment (at least 16 bytes).
    """
    ends = {"shared": 0, "local": 0}
    placed: dict[str, Variable] = {}
    for v in variables.values():
        if v.space in ends and not v.external:
            offset = align_up(ends[v.space], v.align)
            ends[v.space] = offset + v.size_bytes
            v = replace(v, offset=offset)
        placed[v.name] = v
    for v in variables.values():
        if v.space == "shared" and v.external:
            placed[v.name] = replace(v, offset=align_up(ends["shared"], max(_MIN_DYNAMIC_ALIGN, v.align)))
    return placed, ends["shared"], ends["local"]


# ---------------------------------------------------------------- ordering


_Loop = tuple[int, list[int]]
"""Its head, and the nodes that lead back there."""


def min_pc_order(successors: Sequence[Sequence[int]], entry: int = 0) -> list[int]:
    """Nodes reachable from `entry` in min-PC order; ties keep the smaller node first. Raises TooTangled."""
    return _nest(successors, entry)[0]


def _nest(successors: Sequence[Sequence[int]], entry: int) -> tuple[list[int], list[_Loop]]:
    """The nodes in min-PC order, and all loops of more than one node."""
    loops: list[_Loop] = []
    region = [0] * len(successors)
    is_header = [False] * len(successors)
    order: list[int] = []
    # A pending item is one node to put out, or a region (its number and header) still to be taken apart.
    pending: list[tuple[int, int]] = [(0, entry)]
    regions, work = 1, 0
    while pending:
        number, start = pending.pop()
        if number < 0:
            order.append(start)
            continue
        is_header[start] = True  # edges back to the header no longer count inside its loop
        components = _components(successors, start, region, number, is_header)
        for component in components:
            work += len(component)
            if len(component) == 1:
                pending.append((-1, component[0]))
            else:
                for node in component:
                    region[node] = regions
                head = component[-1]
                pending.append((regions, head))
                loops.append((head, [node for node in component if head in successors[node]]))
                regions += 1
        if work > MAX_WORK:
            raise TooTangled
    return order, loops


def _components(
    successors: Sequence[Sequence[int]], entry: int, region: list[int], number: int, is_header: list[bool]
) -> list[list[int]]:
    """Strongly connected components of one region, last in topological order first; each ends with its first node.

    Tarjan's algorithm without recursion (SIAM J. Comput. 1, 1972).
    """
    index: dict[int, int] = {entry: 0}
    low: dict[int, int] = {entry: 0}
    on_stack = {entry}
    stack = [entry]
    path = [(entry, iter(sorted(successors[entry], reverse=True)))]
    found: list[list[int]] = []
    while path:
        node, rest = path[-1]
        for target in rest:
            if region[target] != number or is_header[target]:
                continue
            if target not in index:
                index[target] = low[target] = len(index)
                stack.append(target)
                on_stack.add(target)
                path.append((target, iter(sorted(successors[target], reverse=True))))
                break
            if target in on_stack and index[target] < low[node]:
                low[node] = index[target]
        else:
            path.pop()
            if path and low[node] < low[path[-1][0]]:
                low[path[-1][0]] = low[node]
            if low[node] == index[node]:
                component = []
                while True:
                    member = stack.pop()
                    on_stack.discard(member)
                    component.append(member)
                    if member == node:
                        break
                found.append(component)
    return found
