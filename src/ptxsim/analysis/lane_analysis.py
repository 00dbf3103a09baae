"""Lane patterns of all registers of a kernel, before it runs.

The analysis ignores control flow: a register has one pattern for the whole kernel, the join over its definitions. What
divergent code does to that claim is checked at run time, when a warp returns to the all-lanes function.

Widening a 32-bit pattern to 64 bits is sound only if no lane wraps around. Where ranges do not prove that, the
instruction is listed in `guarded`: translated code tests it and falls back to lane-by-lane execution.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from ptxsim.analysis.lane_rules import RULES, first_lane_limits, is_integer, widened_source
from ptxsim.analysis.lanes import EXACT, UNIFORM, VARYING, ZERO, Lanes, common, constant, trailing_zeros
from ptxsim.limits import WARP
from ptxsim.syntax.program import (
    Address,
    Immediate,
    Instruction,
    Kernel,
    Operand,
    Pair,
    Register,
    Special,
    Symbol,
    Vector,
)

MAX_GRID_X = 1 << 21
"""blockIdx.x below this keeps blockIdx.x * blockDim.x inside 31 bits; larger grids get a kernel without that
assumption."""


@dataclass
class LaneAnalysis:
    """Patterns of all registers of a kernel for one block shape."""

    kernel: Kernel
    block: tuple[int, int, int]
    wide_grid: bool = False
    patterns: dict[str, Lanes] = field(default_factory=dict)
    guarded: dict[int, tuple[int, int]] = field(default_factory=dict)
    """id(instruction) -> (lowest, highest) value that the source may have in the groups' first lanes"""

    def __post_init__(self) -> None:
        self._solve()

    def of(self, register: str) -> Lanes:
        return self.patterns.get(register, VARYING)

    # -- fixpoint -------------------------------------------------------------------------------------------------
    def _solve(self) -> None:
        growth: dict[str, int] = {}
        # a register read before it is written holds anything: treat it as varying
        for name in self.kernel.blocks[0].live_in:
            self.patterns[name] = VARYING
        instructions = [i for block in self.kernel.blocks for i in block.executed]
        writers = [i for i in instructions if i.written]
        changes: dict[str, int] = {}
        """register -> when its pattern last changed"""
        seen = [-1] * len(writers)
        now, settled = 0, False
        while not settled:
            settled = True
            for k, instruction in enumerate(writers):
                if seen[k] >= 0 and all(changes.get(name, 0) <= seen[k] for name in instruction.read):
                    continue  # its sources are what they were
                seen[k] = now
                result = self.result(instruction)
                if result is None:
                    continue
                for name in instruction.written:
                    if self._join(name, result, growth):
                        now += 1
                        changes[name], settled = now, False
        self.guarded.clear()
        for instruction in instructions:
            self._record_guard(instruction)

    def _join(self, name: str, new: Lanes, growth: dict[str, int]) -> bool:
        old = self.patterns.get(name)
        if old is None:
            self.patterns[name] = new
            return True
        if not old.known or old == new:
            return False
        old_, new_ = common(old, new)
        if not old_.known:
            self.patterns[name] = VARYING
            return True
        low = high = None
        if old_.low is not None and new_.low is not None and old_.high is not None and new_.high is not None:
            low, high = min(old_.low, new_.low), max(old_.high, new_.high)
            if (low, high) != (old.low, old.high):
                growth[name] = growth.get(name, 0) + 1
                if growth[name] > 3:  # a counter: give up on its range rather than count along
                    low = high = None
        joined = Lanes(old_.offsets, min(old_.align, new_.align), low, high, old_.groups)
        self.patterns[name] = joined
        return joined != old

    # -- operands -------------------------------------------------------------------------------------------------
    def operand(self, operand: Operand) -> Lanes | None:
        """Pattern of an operand; None while it is not known yet."""
        match operand:
            case Register(name):
                return self.patterns.get(name)
            case Immediate(bits):
                return constant(bits)
            case Special(name):
                return self._special(name)
            case Symbol(name, offset):
                variable = self.kernel.variables.get(name)
                if variable is not None and variable.space in ("shared", "local"):
                    return constant(variable.offset + offset)
                return UNIFORM
            case Vector(elements):
                parts = [self.operand(e) for e in elements]
                if any(p is None for p in parts):
                    return None
                for groups in (1, 2, 4):
                    if all(p.known and p.groups <= groups and p.regrouped(groups).offsets == ZERO for p in parts if p):
                        return Lanes(ZERO, groups=groups)
                return VARYING
            case _:
                return VARYING

    def _special(self, name: str) -> Lanes:
        x, y, z = self.block
        match name:
            case "ctaid.x":
                return Lanes(ZERO, 0, 0, (1 << 31) - 2 if self.wide_grid else MAX_GRID_X - 1)
            case "ctaid.y" | "ctaid.z":
                return Lanes(ZERO, 0, 0, 65534)
            case "nctaid.x" | "nctaid.y" | "nctaid.z":
                return Lanes(ZERO, 0, 1, (1 << 31) - 1)
            case "ntid.x" | "ntid.y" | "ntid.z":
                return constant(self.block["xyz".index(name[-1])])
            case "laneid":
                return Lanes(tuple(range(WARP)), EXACT, 0, 0)
            case "tid.x" | "tid.y" | "tid.z":
                return _thread_index(name[-1], x, y, z)
            case "warpid":
                return Lanes(ZERO, 0, 0, 31)
            case _ if name.startswith(("lanemask", "clock", "globaltimer")):
                return VARYING
            case _:
                return UNIFORM

    # -- transfer functions ---------------------------------------------------------------------------------------
    def result(self, instruction: Instruction) -> Lanes | None:
        """Pattern of what an instruction writes; None while its sources are not known yet."""
        if not instruction.written:
            return None
        opcode, operands = instruction.opcode, instruction.operands
        if opcode in ("addc", "subc", "madc") or "cc" in instruction.modifiers:
            return VARYING  # the carry may differ where the sources agree
        if opcode in ("ld", "ldu"):
            return self._loaded(instruction)
        if opcode in ("activemask", "bar", "barrier", "createpolicy"):
            return UNIFORM
        if opcode in ("vote", "redux"):  # one result for the warp, if its lanes name one mask
            mask = self.operand(operands[-1]) if "sync" in instruction.modifiers else UNIFORM
            return None if mask is None else UNIFORM if mask.uniform else VARYING
        if opcode in ("atom", "mbarrier", "shfl", "match", "elect", "wmma", "mma", "ldmatrix", "movmatrix"):
            return VARYING
        sources = [self.operand(o) for o in operands[1:]]
        if any(s is None for s in sources):
            return None
        known = [s for s in sources if s is not None]
        if not all(s.known for s in known):
            return VARYING
        groups = max((s.groups for s in known), default=1)
        rule = RULES.get(opcode) if instruction.types and is_integer(instruction.type) else None
        if isinstance(operands[0], Vector | Pair):
            rule = None
        for finer in (1, 2, 4):
            if finer >= groups:
                parts = [s.regrouped(finer) for s in known]
                found = rule(instruction, parts) if rule else None
                if found is not None:
                    return replace(found, groups=finer)
                if all(p.offsets == ZERO for p in parts):  # lanes that agree on all sources agree on the result
                    return Lanes(ZERO, groups=finer)
        return VARYING

    def _loaded(self, instruction: Instruction) -> Lanes | None:
        if instruction.space == "param":
            return UNIFORM
        address = instruction.operands[1]
        assert isinstance(address, Address)
        base = self.operand(address.base)
        if base is None:
            return None
        # lanes share one address, so they read one value; local memory differs by lane
        if instruction.space not in ("global", "shared", "const") or not base.known:
            return VARYING
        for groups in (1, 2, 4):
            if groups >= base.groups and base.regrouped(groups).offsets == ZERO:
                return Lanes(ZERO, groups=groups)
        return VARYING

    def _record_guard(self, instruction: Instruction) -> None:
        """Notes a widening of a patterned 32-bit value that might wrap."""
        widened = widened_source(instruction)
        if widened is None:
            return
        source = self.operand(widened)
        if source is None or source.offsets is None or source.offsets == ZERO:
            return
        result = self.result(instruction)
        if result is None or not result.known:
            return
        low, high = first_lane_limits(source.offsets, instruction.type)
        if source.low is None or source.high is None or source.low < low or source.high > high:
            self.guarded[id(instruction)] = (low, high)


def _thread_index(axis: str, x: int, y: int, z: int) -> Lanes:
    """threadIdx of a warp's lanes: warp w holds the linear indices 32 w + l."""
    lanes = range(WARP)
    if x * y * z <= WARP:  # one warp: every lane's index is known
        index = {"x": [n % x for n in lanes], "y": [n // x % y for n in lanes], "z": [n // (x * y) for n in lanes]}[
            axis
        ]
        return Lanes(tuple(index), EXACT, 0, 0)
    if axis == "x":
        if y == z == 1 or x % WARP == 0:
            return Lanes(tuple(lanes), 5, 0, max(0, x - 1))
        if WARP % x == 0:
            return Lanes(tuple(n % x for n in lanes), EXACT, 0, 0)
    if axis == "y":
        if y == 1:
            return constant(0)
        if x % WARP == 0:
            return Lanes(ZERO, 0, 0, y - 1)
        if WARP % x == 0 and (z == 1 or (x * y) % WARP == 0):
            return Lanes(tuple(n // x for n in lanes), trailing_zeros(WARP // x), 0, y - 1)
    if axis == "z":
        if z == 1:
            return constant(0)
        if (x * y) % WARP == 0:
            return Lanes(ZERO, 0, 0, z - 1)
    return VARYING
