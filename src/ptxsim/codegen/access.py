"""Loads and stores: what all spaces share.

In `full`, an address with a known lane pattern becomes a few wide accesses and shuffles, behind one test of bounds and,
in shared memory, one look at the race shadow; a varying global address is tested at run time for the two shapes that
matter, contiguous and uniform, per 16 lanes. Everything else, and everything in `masked`, takes the general path:
one call that checks and counts all lanes, then a gather or scatter of those that may go on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ptxsim.analysis.lanes import Lanes
from ptxsim.codegen import layout as L
from ptxsim.codegen.emit import WARP, Value, constant
from ptxsim.codegen.translator import Translator
from ptxsim.codegen.values import unsupported
from ptxsim.syntax.program import Address, Instruction, Operand, Register, Symbol, Vector, bytes_of

HALF = WARP // 2
UNIFORM = Lanes((0,) * WARP)


@dataclass(frozen=True)
class Access:
    """One load or store: what moves, where, and how it is accounted for."""

    instruction: Instruction
    space: str
    is_load: bool
    address: Address
    registers: tuple[Operand, ...]
    element_bytes: int
    site: int
    exact: bool = False
    """for the exact race shadow"""
    optimistic: bool = False
    """a load whose value a compare-and-swap will verify: it counts as an atomic access"""

    @property
    def lane_by_lane(self) -> bool:
        """Whether the general path must account for every lane."""
        return self.exact or self.optimistic

    @property
    def bytes_(self) -> int:
        """Bytes per lane."""
        return self.element_bytes * len(self.registers)

    @property
    def element(self) -> str:
        return f"i{8 * self.element_bytes}"

    @property
    def kind(self) -> int:
        plain = L.READ if self.is_load else L.WRITE
        if self.optimistic:
            return plain | L.STRONG_ACCESS if self.exact else L.ATOMIC
        return plain | L.STRONG_ACCESS if self.exact and is_signal(self.instruction, self.space) else plain


def translate(t: Translator, i: Instruction) -> None:
    """A load or store of any space."""
    from ptxsim.codegen.global_memory import translate_global
    from ptxsim.codegen.local_memory import translate_generic, translate_local
    from ptxsim.codegen.shared_memory import translate_shared

    is_load = i.opcode != "st"
    space = i.space
    if space == "param":
        return _load_parameter(t, i)
    where, what = (i.operands[1], i.operands[0]) if is_load else (i.operands[0], i.operands[1])
    if not isinstance(where, Address):
        raise unsupported(i)
    if space == "generic":
        space = inferred_space(t, where) or "generic"
    registers = what.elements if isinstance(what, Vector) else (what,)
    size = bytes_of(i.type)
    if size > 8:
        raise unsupported(i)
    site = t.unit.site(i, space, "read" if is_load else "write")
    how = {"exact": t.unit.options.exact, "optimistic": id(i) in t.unit.optimistic}
    access = Access(i, space, is_load, where, tuple(registers), size, site, **how)
    _book(t, access)
    handlers = {
        "global": translate_global, "const": translate_global, "shared": translate_shared, "local": translate_local,
        "generic": translate_generic,
    }  # fmt: skip
    handlers[space](t, access)


_SIGNALS = frozenset({"relaxed", "acquire", "release", "mmio"})


def is_signal(i: Instruction, space: str) -> bool:
    """Whether a load or store is meant to race: relaxed and stronger, or volatile outside shared memory.

    Volatile shared memory is how code of old relied on a warp's lockstep: there it excuses nothing.
    """
    return not _SIGNALS.isdisjoint(i.modifiers) or (i.has("volatile") and space != "shared")


def inferred_space(t: Translator, where: Address) -> str | None:
    """The space of a generic access whose pointer can only come from one."""
    if not isinstance(where.base, Register):
        return None
    roots = t.unit.pointers.get(where.base.name, frozenset())
    spaces = {r if r in ("shared", "local") else "global" for r in roots}
    return spaces.pop() if len(spaces) == 1 and "?" not in roots else None


def _book(t: Translator, a: Access) -> None:
    """The counts that do not depend on addresses."""
    line = a.instruction.source.line
    verb = "load" if a.is_load else "store"
    if a.instruction.added:  # the call stack's own
        return
    if a.space in ("global", "shared", "local"):
        merged = t.unit.shared_requests.get(id(a.instruction))
        t.count(f"{a.space}_{verb}_requests", line, per_warp=1 if merged is None else len(merged))
        if a.space != "local":
            t.count(f"{a.space}_{verb}_bytes", line, per_lane=a.bytes_)
    elif a.space == "const":
        t.count("constant_load_requests", line, per_warp=1)


def book_lanes(t: Translator, a: Access, space: str, mask: Value) -> None:
    """The same counts for the lanes of a generic access that turned out to be in `space`: at least one."""
    if not t.unit.options.count:
        return
    b, line, verb = t.b, a.instruction.source.line, "load" if a.is_load else "store"
    cell = t.unit.plan.cell(2)
    t.unit.plan.named(cell, f"{space}_{verb}_requests", line)
    t.bump(cell, constant("i64", 1))
    if space != "local":
        t.unit.plan.named(cell + 1, f"{space}_{verb}_bytes", line)
        lanes = b.resize(b.call("llvm.ctpop.i32", "i32", mask), "i64")
        t.bump(cell + 1, b.mul(lanes, constant("i64", a.bytes_)))


def _load_parameter(t: Translator, i: Instruction) -> None:
    where = i.operands[1]
    if i.opcode == "st" or not isinstance(where, Address) or not isinstance(where.base, Symbol):
        raise unsupported(i, "this use of parameter space")
    b, base = t.b, where.base
    offset = next(p.offset for p in t.kernel.params if p.name == base.name) + base.offset + where.offset
    size = bytes_of(i.type)
    target = i.operands[0]
    elements = target.elements if isinstance(target, Vector) else (target,)
    for k, element in enumerate(elements):
        value = b.load(f"i{8 * size}", b.offset(t.field("params", "ptr"), offset + k * size), align=1, invariant=True)
        put_loaded(t, i, element, value, Lanes((0,) * WARP))


def put_loaded(t: Translator, i: Instruction, target: Operand, value: Value, own: Lanes) -> None:
    if isinstance(target, Register):
        t.put(target.name, t.as_storage(target.name, value, i.type[0] == "s"), own)


def vector_address(t: Translator, a: Access, kind: str) -> Value:
    """Addresses of all lanes as `kind` (i64 global, i32 shared offsets)."""
    b, base = t.b, a.address.base
    if isinstance(base, Register):
        value = b.resize(t.get(base.name, WARP), kind)
    else:
        value = b.splat(b.resize(t.source(base, "u64", 0), kind))
    return b.add_const(value, a.address.offset)


def pattern_of(t: Translator, a: Access) -> Lanes:
    """Lane pattern of the address."""
    base = a.address.base
    return t.pattern(base.name) if isinstance(base, Register) else UNIFORM


def scalar_base(t: Translator, a: Access, kind: str) -> Value:
    """Lane 0's address without the instruction's offset."""
    base = a.address.base
    if isinstance(base, Register):
        return t.b.resize(t.get(base.name, 0), kind)
    return t.b.resize(t.source(base, "u64", 0), kind)


def stored_values(t: Translator, a: Access) -> list[Value] | None:
    """What a store writes, as vectors of raw bits."""
    if a.is_load:
        return None
    bits = f"b{8 * a.element_bytes}"
    return [t.source(r, bits, WARP) for r in a.registers]


def finish(t: Translator, a: Access, results: list[Value], own: Lanes) -> None:
    if a.is_load:
        for register, value in zip(a.registers, results, strict=True):
            put_loaded(t, a.instruction, register, value, own)


def gather_scatter(t: Translator, a: Access, address: Value, values: list[Value] | None, mask: Value) -> list[Value]:
    b, results = t.b, []
    for k in range(len(a.registers)):
        at = b.add_const(address, k * a.element_bytes)
        if values is None:
            results.append(b.call(f"ws_gather_{a.element}", a.element, at, mask, lanes=WARP))
        else:
            b.call(f"ws_scatter_{a.element}", "void", at, mask, values[k])
    return results


def either(
    t: Translator,
    a: Access,
    conditions: Sequence[Value | Callable[[], Value]],
    fast: Callable[[], list[Value]],
    slow: Callable[[], list[Value]],
    after_fast: Callable[[], None] | None = None,
) -> list[Value]:
    """fast() where all conditions hold, else slow(); joins the results."""
    b = t.b
    quick, general, end = b.new_label("fast"), b.new_label("slow"), b.new_label("join")
    for condition in conditions:
        following = b.new_label("ok")
        value = condition if isinstance(condition, Value) else condition()
        b.branch(value, following, general, likely=True)
        b.label(following)
    b.br(quick)
    b.label(quick)
    first = fast()
    if after_fast:
        after_fast()
    first_at = b.label_now
    b.br(end)
    b.label(general)
    second = slow()
    second_at = b.label_now
    b.br(end)
    b.label(end)
    return [b.phi((x, first_at), (y, second_at)) for x, y in zip(first, second, strict=True)]


def extent(t: Translator, a: Access, offsets: tuple[int, ...]) -> tuple[int, int, int]:
    """(lowest, highest + 1) byte that this block touches through the register of `a`, and the alignment to test."""
    base = a.address.base
    low = high = None
    aligned = 1
    for position in range(t.position, len(t.block.instructions)):
        i = t.block.instructions[position]
        if i.opcode in ("ld", "ldu", "st"):
            where = i.operands[1] if i.opcode != "st" else i.operands[0]
            what = i.operands[0] if i.opcode != "st" else i.operands[1]
            if isinstance(where, Address) and where.base == base and i.space == a.instruction.space:
                size = bytes_of(i.type) * (len(what.elements) if isinstance(what, Vector) else 1)
                first, last = where.offset + min(offsets), where.offset + max(offsets) + size
                low = first if low is None else min(low, first)
                high = last if high is None else max(high, last)
                if any((where.offset + o) % size for o in offsets):
                    aligned = 1 << 40  # some lane is misaligned whatever the base: never take the fast path
                aligned = max(aligned, size)
        if isinstance(base, Register) and base.name in i.written:
            break
    assert low is not None and high is not None
    return low, high, aligned
