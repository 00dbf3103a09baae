"""Lane patterns: what is known about a register across the 32 lanes of a warp, before the kernel runs.

A register's value in lane l is, modulo 2^width,

    value[l] = value[first lane of l's group] + offsets[l]

with known constants as offsets, for a warp in 1, 2 or 4 equal groups; or it *varies* (offsets unknown). One group with
all offsets zero is "uniform". Two groups arise in blocks 16 threads wide, where a row's index times a pitch known only
at run time is the same within half a warp. Only the groups' first lanes are computed: their results follow from their
operands, whatever the operation. `align` and `bounds` describe the first lanes and let masks and shifts keep a
pattern.

The analysis ignores control flow: a register has one pattern for the whole kernel, the join over its definitions. What
divergent code does to that claim is checked at run time, when a warp returns to the all-lanes function. Widening a
32-bit pattern to 64 bits is sound only if no lane wraps around. Where ranges do not prove that, the instruction is
listed in `guarded`: translated code tests it and falls back to lane-by-lane execution.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from operator import or_, xor

from ptxsim.isa import Likeness
from ptxsim.limits import MAX_GRID, MAX_THREADS, WARP
from ptxsim.syntax.program import (
    WIDTH_BITS,
    Address,
    Immediate,
    Instruction,
    Kernel,
    Operand,
    Register,
    Special,
    Symbol,
    Vector,
)

ZERO = (0,) * WARP
EXACT = 63
"""Alignment of zero: a multiple of every power of two."""


Bounds = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Lanes:
    """A lane pattern; a varying register has no `offsets`."""

    offsets: tuple[int, ...] = ()
    align: int = 0
    bounds: Bounds | None = None
    """the lowest and the highest value that it may have"""
    groups: int = 1

    @property
    def uniform(self) -> bool:
        return self.offsets == ZERO and self.groups == 1

    @property
    def scalar(self) -> bool:
        """Whether lane 0 stands for the whole warp."""
        return self.known and self.groups == 1

    def regrouped(self, groups: int) -> Lanes:
        """The same register seen as more groups."""
        if not self.known or groups == self.groups:
            return self
        size = WARP // groups
        firsts = [self.offsets[lane - lane % size] for lane in range(WARP)]
        offsets = tuple(o - f for o, f in zip(self.offsets, firsts, strict=True))
        bounds = self.bounds and (self.bounds[0] + min(firsts), self.bounds[1] + max(firsts))
        align = min([self.align, *(trailing_zeros(f) for f in firsts)])
        return Lanes(offsets, align, bounds, groups)

    @property
    def known(self) -> bool:
        return bool(self.offsets)

    @property
    def value(self) -> int | None:
        """The constant that every lane holds, if there is one."""
        return self.bounds[0] if self.offsets == ZERO and self.bounds and self.bounds[0] == self.bounds[1] else None


VARYING = Lanes()
UNIFORM = Lanes(ZERO)


def constant(value: int) -> Lanes:
    return Lanes(ZERO, trailing_zeros(value), (value, value))


def trailing_zeros(value: int) -> int:
    return EXACT if value == 0 else (value & -value).bit_length() - 1


def wrap(value: int, bits: int) -> int:
    """value modulo 2^bits as a signed number."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def common(a: Lanes, b: Lanes) -> tuple[Lanes, Lanes]:
    """Both patterns in the fewest groups in which their offsets agree; VARYING where they never do."""
    if a.known and b.known:
        for groups in (1, 2, 4):
            if groups >= max(a.groups, b.groups):
                p, q = a.regrouped(groups), b.regrouped(groups)
                if p.offsets == q.offsets:
                    return p, q
    return VARYING, VARYING


def _alike(patterns: list[Lanes]) -> Lanes:
    """In the fewest groups within which lanes agree on all of these."""
    for groups in (1, 2, 4):
        if all(p.known and p.groups <= groups and p.regrouped(groups).offsets == ZERO for p in patterns):
            return Lanes(ZERO, groups=groups)
    return VARYING


# ---------------------------------------------------------------- what arithmetic does to patterns


def is_integer(type_: str) -> bool:
    return type_[0] in "usb" and type_ not in ("b128", "bf16", "bf16x2", "u16x2", "s16x2")


def _fitting(bounds: Bounds | None, bits: int) -> Bounds | None:
    """The bounds if they fit a signed number of `bits` bits."""
    limit = 1 << (bits - 1)
    return bounds if bounds and -limit <= bounds[0] and bounds[1] < limit else None


def _either(a: Lanes, b: Lanes) -> Bounds | None:
    """Bounds of what is the one or the other."""
    if a.bounds and b.bounds:
        return min(a.bounds[0], b.bounds[0]), max(a.bounds[1], b.bounds[1])
    return None


def first_lane_limits(offsets: tuple[int, ...], type_: str) -> tuple[int, int]:
    """Range of lane 0's value in which no lane leaves the type's range."""
    bits = WIDTH_BITS[type_]
    bottom, top = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if type_[0] == "s" else (0, (1 << bits) - 1)
    return bottom - min(offsets), top - max(offsets)


def widened_source(instruction: Instruction) -> Operand | None:
    """The source whose lanes an instruction extends to a wider type."""
    if instruction.opcode in ("mul", "mad") and "wide" in instruction.modifiers:
        a, b = instruction.operands[1], instruction.operands[2]
        return b if isinstance(a, Immediate) else a
    if instruction.opcode == "cvt" and len(instruction.types) == 2:
        to, of = instruction.types
        if is_integer(to) and is_integer(of) and WIDTH_BITS[to] > WIDTH_BITS[of]:
            return instruction.operands[1]
    return None


def _sum(a: Lanes, b: Lanes, bits: int, sign: int = 1) -> Lanes:
    offsets = tuple(wrap(p + sign * q, bits) for p, q in zip(a.offsets, b.offsets, strict=True))
    bounds = None
    if a.bounds and b.bounds:
        low, high = b.bounds[::sign]
        bounds = a.bounds[0] + sign * low, a.bounds[1] + sign * high
    return Lanes(offsets, min(a.align, b.align), _fitting(bounds, bits))


def _scaled(a: Lanes, factor: int, bits: int) -> Lanes:
    bounds = None
    if a.bounds:
        low, high = sorted((a.bounds[0] * factor, a.bounds[1] * factor))
        bounds = low, high
    offsets = tuple(wrap(p * factor, bits) for p in a.offsets)
    return Lanes(offsets, min(EXACT, a.align + trailing_zeros(factor)), _fitting(bounds, bits))


def _add_sub(i: Instruction, s: list[Lanes]) -> Lanes | None:
    return _sum(s[0], s[1], WIDTH_BITS[i.type], 1 if i.opcode == "add" else -1) if "sat" not in i.modifiers else None


def _with_constant(s: list[Lanes]) -> tuple[Lanes, int | None]:
    """Of two sources the one that is no constant, and the constant."""
    return (s[0], s[1].value) if s[1].value is not None else (s[1], s[0].value)


def _mul(i: Instruction, s: list[Lanes]) -> Lanes | None:
    if "hi" in i.modifiers or "sat" in i.modifiers:
        return None
    bits = WIDTH_BITS[i.type] * (2 if "wide" in i.modifiers else 1)
    a, factor = _with_constant(s)
    if factor is None:
        return UNIFORM if s[0].offsets == s[1].offsets == ZERO else None
    if "wide" in i.modifiers and i.type[0] != "s":  # operands are read as unsigned numbers
        factor &= (1 << WIDTH_BITS[i.type]) - 1
        if a.bounds and a.bounds[0] < 0:
            a = replace(a, bounds=None)
    return _scaled(a, factor, bits)


def _mad(i: Instruction, s: list[Lanes]) -> Lanes | None:
    product = _mul(i, s)
    return _sum(product, s[2], WIDTH_BITS[i.type] * (2 if "wide" in i.modifiers else 1)) if product else None


def _copy(i: Instruction, s: list[Lanes]) -> Lanes | None:
    a, bits = s[0], WIDTH_BITS[i.type]
    if a.value is not None:  # an unsigned literal: ranges are kept as signed numbers
        value = wrap(a.value, bits)
        return Lanes(ZERO, a.align, (value, value))
    return Lanes(a.offsets, a.align, _fitting(a.bounds, bits))


def _convert(i: Instruction, s: list[Lanes]) -> Lanes | None:
    if len(i.types) < 2 or not all(is_integer(t) for t in i.types) or "sat" in i.modifiers:
        return None
    to, of = (WIDTH_BITS[t] for t in i.types)
    a = s[0]
    if to >= of:
        unsigned_negative = i.types[1][0] != "s" and (a.bounds is None or a.bounds[0] < 0)
        return Lanes(a.offsets, a.align) if unsigned_negative else a
    return Lanes(tuple(wrap(c, to) for c in a.offsets), a.align, _fitting(a.bounds, to))


def _shift_left(i: Instruction, s: list[Lanes]) -> Lanes | None:
    amount = s[1].value
    if amount is None or not 0 <= amount < WIDTH_BITS[i.type]:
        return None
    return _scaled(s[0], 1 << amount, WIDTH_BITS[i.type])


def _fits_below(a: Lanes) -> bool:
    """Whether the offsets live in the low bits that are zero in lane 0's value."""
    return min(a.offsets) >= 0 and max(a.offsets) < 1 << a.align


def _shift_right(i: Instruction, s: list[Lanes]) -> Lanes | None:
    a, amount = s[0], s[1].value
    if amount is None or amount < 0 or not _fits_below(a):
        return None
    bounds = None
    if a.bounds and (a.bounds[0] >= 0 or i.type[0] == "s"):
        bounds = a.bounds[0] >> amount, a.bounds[1] >> amount
    exact = bounds == (0, 0)
    if amount <= a.align:
        return Lanes(tuple(c >> amount for c in a.offsets), EXACT if exact else a.align - amount, bounds)
    return Lanes(ZERO, EXACT if exact else 0, bounds)


def _and(i: Instruction, s: list[Lanes]) -> Lanes | None:
    a, mask = _with_constant(s)
    if mask is None or not _fits_below(a):
        return None
    below = (1 << a.align) - 1
    rest = mask & ~below & ((1 << WIDTH_BITS[i.type]) - 1)
    offsets = tuple(c & mask for c in a.offsets)
    if rest == 0 or a.bounds == (0, 0):
        return Lanes(offsets, EXACT, (0, 0))
    return Lanes(offsets, max(a.align, trailing_zeros(rest)), (0, rest) if mask >= 0 and rest < 1 << 31 else None)


def _or_xor(i: Instruction, s: list[Lanes]) -> Lanes | None:
    a, bits = _with_constant(s)
    if bits is None or not _fits_below(a):
        return None
    within = bits & ((1 << a.align) - 1)
    combine = or_ if i.opcode == "or" else xor
    offsets = tuple(combine(c, within) - within for c in a.offsets)
    return Lanes(offsets, min(a.align, trailing_zeros(bits)))


def _select(i: Instruction, s: list[Lanes]) -> Lanes | None:
    a, b, chosen_by = s
    if chosen_by.offsets != ZERO or a.offsets != b.offsets:
        return None
    return Lanes(a.offsets, min(a.align, b.align), _either(a, b))


# A rule gets the instruction and the patterns of its sources, all known and in the same number of groups, and returns
# the pattern of the result, or None where it has none to offer. The numbers of groups are the caller's business.
_RULES: dict[str, Callable[[Instruction, list[Lanes]], Lanes | None]] = {
    "add": _add_sub, "sub": _add_sub, "mul": _mul, "mad": _mad, "mov": _copy, "cvta": _copy, "cvt": _convert,
    "shl": _shift_left, "shr": _shift_right, "and": _and, "or": _or_xor, "xor": _or_xor, "selp": _select,
}  # fmt: skip


# ---------------------------------------------------------------- those of a kernel's registers


MAX_GRID_X = 1 << 21
"""blockIdx.x below this keeps blockIdx.x * blockDim.x inside 31 bits; larger grids get a kernel without that
assumption."""


@dataclass
class LaneAnalysis:
    """Patterns of all registers of a kernel for one block shape; not `examined`, nothing is known of any."""

    kernel: Kernel
    block: tuple[int, int, int]
    wide_grid: bool = False
    examined: bool = True
    patterns: dict[str, Lanes] = field(default_factory=dict)
    guarded: dict[int, tuple[int, int]] = field(default_factory=dict)
    """id(instruction) -> (lowest, highest) value that the source may have in the groups' first lanes"""

    def __post_init__(self) -> None:
        if self.examined:
            self._solve()
        else:
            self.patterns = dict.fromkeys(self.kernel.registers, VARYING)

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
        seen: dict[int, int] = {}
        """id(instruction) -> when it was looked at last"""
        now, settled = 0, False
        while not settled:
            settled = True
            for instruction in writers:
                last = seen.get(id(instruction), -1)
                if last >= max((changes.get(name, 0) for name in instruction.read), default=0):
                    continue  # its sources are what they were
                seen[id(instruction)] = now
                result = self.result(instruction)
                if result is None:
                    continue
                for name in instruction.written:
                    if self._join(name, result, growth):
                        now += 1
                        changes[name], settled = now, False
            # nothing comes after VARYING
            writers = [i for i in writers if any(self.patterns.get(name) is not VARYING for name in i.written)]
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
        bounds = _either(old_, new_)
        if bounds and bounds != old.bounds:
            growth[name] = growth.get(name, 0) + 1
            if growth[name] > 3:  # a counter: give up on its range rather than count along
                bounds = None
        joined = Lanes(old_.offsets, min(old_.align, new_.align), bounds, old_.groups)
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
                known = [p for p in parts if p is not None]
                return _alike(known) if len(known) == len(parts) else None
            case _:
                return VARYING

    def _special(self, name: str) -> Lanes:
        base, _, axis = name.partition(".")
        ranges = {
            "ctaid.x": (0, MAX_GRID[0] - 1 if self.wide_grid else MAX_GRID_X - 1),
            **dict.fromkeys(("ctaid.y", "ctaid.z"), (0, MAX_GRID[1] - 1)),
            **dict.fromkeys(("nctaid.x", "nctaid.y", "nctaid.z"), (1, MAX_GRID[0])),
            "warpid": (0, MAX_THREADS // WARP - 1),
        }
        if name in ranges:
            return Lanes(ZERO, 0, ranges[name])
        if base in ("tid", "ntid") and axis != "w":
            return _thread_index(axis, *self.block) if base == "tid" else constant(self.block["xyz".index(axis)])
        if name == "laneid":
            return Lanes(tuple(range(WARP)), EXACT, (0, 0))
        return VARYING if name.startswith(("lanemask", "clock", "globaltimer")) else UNIFORM

    # -- transfer functions ---------------------------------------------------------------------------------------
    def result(self, instruction: Instruction) -> Lanes | None:
        """Pattern of what an instruction writes; None while its sources are not known yet."""
        if not instruction.written:
            return None
        match instruction.row.result:
            case Likeness.VARYING:
                return VARYING
            case Likeness.UNIFORM:
                return UNIFORM
            case Likeness.OF_ADDRESS:
                return self._loaded(instruction)
            case Likeness.OF_MASK:
                mask = self.operand(instruction.operands[-1]) if "sync" in instruction.modifiers else UNIFORM
                return None if mask is None else UNIFORM if mask.uniform else VARYING
        known: list[Lanes] = []
        for operand in instruction.sources:
            source = self.operand(operand)
            if source is None:
                return None
            known.append(source)
        if not all(s.offsets for s in known):
            return VARYING
        groups = max((s.groups for s in known), default=1)
        single = isinstance(instruction.result, Register)
        rule = _RULES.get(instruction.opcode) if single and instruction.types and is_integer(instruction.type) else None
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
        address = instruction.operands[1]
        assert isinstance(address, Address)
        if instruction.space == "param":  # by its name; the address of some part of a structure is looked up by lanes
            return UNIFORM if isinstance(address.base, Symbol) else VARYING
        base = self.operand(address.base)
        if base is None:
            return None
        # lanes share one address, so they read one value; local memory differs by lane
        return _alike([base]) if instruction.space in ("global", "shared", "const") else VARYING

    def _record_guard(self, instruction: Instruction) -> None:
        """Notes a widening of a patterned 32-bit value that might wrap."""
        widened = widened_source(instruction)
        if widened is None:
            return
        source = self.operand(widened)
        if source is None or not source.known or source.offsets == ZERO:
            return
        result = self.result(instruction)
        if result is None or not result.known:
            return
        low, high = first_lane_limits(source.offsets, instruction.type)
        if source.bounds is None or source.bounds[0] < low or source.bounds[1] > high:
            self.guarded[id(instruction)] = (low, high)


def _thread_index(axis: str, x: int, y: int, z: int) -> Lanes:
    """threadIdx of a warp's lanes: warp w holds the linear indices 32 w + l."""
    lanes = range(WARP)
    if x * y * z <= WARP:  # one warp: every lane's index is known
        index = {"x": [n % x for n in lanes], "y": [n // x % y for n in lanes], "z": [n // (x * y) for n in lanes]}[
            axis
        ]
        return Lanes(tuple(index), EXACT, (0, 0))
    if axis == "x":
        if y == z == 1 or x % WARP == 0:
            return Lanes(tuple(lanes), 5, (0, max(0, x - 1)))
        if WARP % x == 0:
            return Lanes(tuple(n % x for n in lanes), EXACT, (0, 0))
    if axis == "y":
        if y == 1:
            return constant(0)
        if x % WARP == 0:
            return Lanes(ZERO, 0, (0, y - 1))
        if WARP % x == 0 and (z == 1 or (x * y) % WARP == 0):
            return Lanes(tuple(n // x for n in lanes), trailing_zeros(WARP // x), (0, y - 1))
    if axis == "z":
        if z == 1:
            return constant(0)
        if (x * y) % WARP == 0:
            return Lanes(ZERO, 0, (0, z - 1))
    return VARYING
