"""st.async and red.async: what a thread sends to shared memory of its cluster, and a barrier object that hears of it.

As with bulk copies, what is sent is there at once and its bytes are told to the object; who may look at them is a
question of who has waited (PTX ISA 9.7.9.12, 9.7.13.7).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from ptxsim.codegen import layout as L
from ptxsim.codegen.access import MemoryAccess, vector_address
from ptxsim.codegen.bulk_copies import BulkForm, BulkLanes
from ptxsim.codegen.bulk_memory import reduction
from ptxsim.codegen.emit import CONTEXT, I32, I64, MASK, SITE, WARP, WORKER, Helper, IRValue, constant, i32, i64
from ptxsim.codegen.tensor_moves import Mode
from ptxsim.codegen.tensor_products import finished
from ptxsim.codegen.translator import Translator
from ptxsim.codegen.values import unsupported
from ptxsim.syntax.bulk import OPERATIONS
from ptxsim.syntax.program import Address, Immediate, Instruction, Operand, bytes_of, elements_of


@dataclass(frozen=True)
class _Sent:
    """What distinguishes the functions: how many elements of which type, and the operation of a reduction."""

    count: int
    type: str
    operation: str

    @property
    def element(self) -> str:
        return f"i{8 * bytes_of(self.type)}"

    @property
    def size(self) -> int:
        return self.count * bytes_of(self.type)

    def name(self, mode: Mode) -> str:
        return f"ws_async_send_{self.count}_{self.operation}{self.type}_{mode.name}"


def send(t: Translator, i: Instruction) -> None:
    """Every active lane's store or reduction, and what its barrier object is told."""
    near, values, barrier = i.operands
    elements = elements_of(values)
    sent = _Sent(len(elements), i.type, next((m for m in OPERATIONS if i.has(m)), ""))
    to, by = (vector_address(t, _access(t, i, o, size), "i32") for o, size in ((near, sent.size), (barrier, 8)))
    area, step = t.area("async values", 32 * WARP), WARP * bytes_of(i.type)
    for k, element in enumerate(elements):
        t.store(t.source(element, f"b{8 * bytes_of(i.type)}", WARP), t.offset(area, k * step), align=8)
    mode = Mode("shared", t.unit.options.check, t.unit.options.count, t.unit.shared_granule_log2, t.unit.options.exact)
    name, text = _lanes(sent, mode)
    t.unit.library[name] = text
    t.call(name, "void", WORKER, CONTEXT, t.active, to, by, area, constant("i32", len(t.unit.sites) - 2))


def _access(t: Translator, i: Instruction, where: Operand, size: int) -> MemoryAccess:
    if not isinstance(where, Address):
        raise unsupported(i)
    return MemoryAccess(i, "cluster", False, where, (Immediate(1),), size, t.unit.site(i, "shared", "write"))


@cache
def _lanes(sent: _Sent, mode: Mode) -> tuple[str, str]:
    return _Sender(sent, mode).function()


class _Sender(BulkLanes):
    """Writes such a function: (worker, context, mask, near, barrier, values, site)."""

    def __init__(self, sent: _Sent, mode: Mode) -> None:
        super().__init__(BulkForm(sent.operation or "store", tensor=False), mode)
        self.sent = sent

    def function(self) -> tuple[str, str]:
        b = self.b
        slots = b.stack(self.near), b.stack(self.barrier)
        with b.loop(i32(WARP)) as lane, b.if_(b.lane_active(lane)):
            near, barrier = (b.element(slot, I32, lane) for slot in slots)
            offset, size = self._offset(near), i64(self.sent.size)
            aligned = b.icmp("eq", b.and_const(offset, self.sent.size - 1), i64(0))
            fits = b.and_(b.icmp("sle", b.add(offset, size), self.limit), self._is_there(near))
            with b.if_(b.not_(aligned), likely=False):
                b.hazard(i32(L.SHARED_MISALIGNED), lane, offset, size)
            with b.if_(b.not_(fits), likely=False):
                b.hazard(i32(L.SHARED_OUT_OF_BOUNDS), lane, offset, i64(0))
            with b.if_(b.and_(aligned, fits), likely=True):
                self._report(L.AsyncEvent.LOAD, lane, SITE, near, size, barrier, i64(-1))
                _put(b, self.sent, b.offset(self._memory_of(near), offset), self.numbers, lane)
                self._tell(self._memory_of(barrier), barrier, size, lane)
        b.ret()
        parameters = WORKER, CONTEXT, MASK, self.near, self.barrier, self.numbers, SITE
        return finished(b, self.sent.name(self.mode), *parameters)


def _put(b: Helper, sent: _Sent, to: IRValue, values: IRValue, lane: IRValue) -> None:
    """A lane's elements to memory, or combined with what is there."""
    combine = reduction(sent.operation, sent.type) if sent.operation else None
    for k in range(sent.count):
        at = b.add(b.resize(lane, I64), i64(k * WARP))
        value = b.load(sent.element, b.let("ptr", 0, f"getelementptr {sent.element}, {values}, {at}"))
        place = b.offset(to, k * bytes_of(sent.type))
        b.store(combine(b, b.load(sent.element, place), value) if combine else value, place)
