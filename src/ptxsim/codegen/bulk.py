"""Bulk copies of bytes and of boxes of tensors (PTX ISA 9.7.9.25.5), and setmaxnreg and tensormap, which go with them.

Every active thread issues a copy of its own. What it moves is there at once, and its barrier object is told of the
bytes: who may look at them is a question of who has waited. Groups of copies have nothing left to wait for.
"""

from __future__ import annotations

from ptxsim.codegen import layout as L
from ptxsim.codegen.access import MemoryAccess, vector_address
from ptxsim.codegen.boxes import COORDINATES
from ptxsim.codegen.bulk_copies import BulkForm, bulk_functions
from ptxsim.codegen.bulk_memory import LOAD, STORE, reduction
from ptxsim.codegen.emit import CONTEXT, WARP, WORKER, IRValue, constant, tell_async
from ptxsim.codegen.tensor import Either, tile_mode
from ptxsim.codegen.translator import Translator
from ptxsim.codegen.values import handles, unsupported
from ptxsim.syntax.bulk import BulkCopy, bulk_copy, is_group
from ptxsim.syntax.program import Address, Immediate, Instruction, Operand

_ONE = Immediate(1)


def copy_in_bulk(t: Either, i: Instruction) -> None:
    """cp.async.bulk and cp.reduce.async.bulk in all their forms."""
    if is_group(i):
        return _group(t, i)
    copy = bulk_copy(i)
    if not copy.to:  # a prefetch
        return
    between = copy.to == copy.origin == "shared"
    how = copy.operation or (LOAD if copy.to == "shared" else STORE)
    if copy.operation and not copy.rank and reduction(copy.operation, copy.type) is None:
        raise unsupported(i)
    form = BulkForm(how, bool(copy.rank), copy.windows, copy.type if copy.operation else "", between)
    t.count("bulk_copies", i.source.line, per_lane=1)
    near, far = (copy.target, copy.source) if copy.to == "shared" else (copy.source, copy.target)
    mask, nothing = t.active, constant("i32", 0, WARP)
    if between:
        access = _access(t, i, far, "shared", "read")
        offset = vector_address(t, access, "i32")
        hosts = t.add(t.resize(offset, "i64"), t.splat(t.convert("ptrtoint", t.field("shared", "ptr"), "i64")))
    else:
        hosts = vector_address(t, _access(t, i, far, "global", "read"), "i64")
    barrier = vector_address(t, _access(t, i, copy.barrier, "cluster", "atomic"), "i32") if copy.barrier else nothing
    blocks = t.resize(t.source(copy.blocks, "u16", WARP), "i32") if copy.blocks is not None else nothing
    mode = tile_mode(t, "global")
    functions = bulk_functions(form, mode)
    t.unit.library.update(functions)
    kind = "read" if copy.to == "global" else "write"
    offsets = vector_address(t, _access(t, i, near, "cluster", kind), "i32")
    t.call(
        form.name(mode), "void", WORKER, CONTEXT, mask, hosts, offsets, barrier, blocks, _numbers(t, copy),
        constant("i32", len(t.unit.sites) - 1), constant("i64", t.kernel.param_bytes),
    )  # fmt: skip


def _group(t: Either, i: Instruction) -> None:
    """Groups of copies out of shared memory: closed, or all but some of them waited for."""
    left = i.operands[0] if i.has("wait_group") else Immediate(0)
    if t.unit.followed and isinstance(left, Immediate):
        event = L.AsyncEvent.WAIT if i.has("wait_group") else L.AsyncEvent.COMMIT
        tell_async(t, event, t.warp_index(), t.active, constant("i64", left.bits))


def _access(t: Translator, i: Instruction, where: Operand | None, space: str, kind: str) -> MemoryAccess:
    if not isinstance(where, Address):
        raise unsupported(i)
    site = t.unit.site(i, "shared" if space == "cluster" else space, kind)
    return MemoryAccess(i, space, kind == "read", where, (_ONE,), 16, site)


def _numbers(t: Translator, copy: BulkCopy) -> IRValue:
    """Memory with COORDINATES vectors: where the box of each lane is, or first how many bytes the lane copies."""
    columns = [constant("i32", 0, WARP)] * COORDINATES
    if copy.tensor is not None:
        for k, operand in enumerate(copy.tensor.coordinates):
            columns[k] = t.source(operand, "u32", WARP)
        for k, operand in enumerate(copy.offsets):
            columns[5 + k] = t.resize(t.source(operand, "u16", WARP), "i32")
    else:
        assert copy.size is not None
        columns[0] = t.source(copy.size, "u32", WARP)
    area = t.area("bulk numbers", 4 * COORDINATES * WARP)
    for k, column in enumerate(columns):
        t.store(column, t.offset(area, 4 * WARP * k), align=64)
    return area


@handles("setmaxnreg")
def _setmaxnreg(t: Translator, i: Instruction) -> None:
    """Registers are handed from warp to warp: nothing that a program could see."""
