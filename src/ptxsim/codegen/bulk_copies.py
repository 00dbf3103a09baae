"""The functions that issue bulk copies for the lanes of a warp, of boxes (`boxes`) and of plain runs of bytes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from ptxsim.codegen import layout as L
from ptxsim.codegen.boxes import COORDINATES, box_copy, element_log2, field, row_pitch
from ptxsim.codegen.bulk_memory import FLOATS, LOAD, STORE, account_run, reduction
from ptxsim.codegen.emit import (
    CONTEXT,
    I32,
    I64,
    MASK,
    NULL,
    SITE,
    WARP,
    WORKER,
    IRValue,
    arg,
    constant,
    i32,
    i64,
    tell_async,
)
from ptxsim.codegen.tensor_moves import Mode
from ptxsim.codegen.tensor_products import finished, library_function
from ptxsim.syntax.program import WIDTH_BITS
from ptxsim.tensormap import BYTES, MAGIC, MAX_RANK

_PIECE = 16


@dataclass(frozen=True)
class BulkForm:
    """What distinguishes the functions that issue copies for the lanes of a warp."""

    how: str
    """"load", "store" or the operation of a reduction"""
    tensor: bool
    windows: bool = False
    type: str = ""
    """elements of a reduction of bytes"""
    between_blocks: bool = False
    """from the own block's shared memory to another one's"""

    @property
    def into_shared(self) -> bool:
        return self.how == LOAD or self.between_blocks

    def name(self, mode: Mode) -> str:
        what = "boxes" if self.tensor else "runs"
        how = f"{self.how}{'_windows' if self.windows else ''}{'_blocks' if self.between_blocks else ''}"
        return f"ws_bulk_{what}_{how}_{self.type or 'any'}_{mode.name}"


def bulk_functions(form: BulkForm, mode: Mode) -> dict[str, str]:
    """Name -> IR of what issues copies for the lanes of a mask; the last is the one to call:

    (worker, context, mask, far, near, barrier, blocks, numbers, site, parameters). `far` is the host's address of each
    lane's tensor map or bytes, `near` and `barrier` are addresses of shared::cluster, `blocks` the lanes' masks of
    blocks (0: no multicast), `numbers` points to COORDINATES vectors: where each lane's box is, or how many bytes it
    copies.
    `parameters` is the size of the kernel's, among which maps may lie.
    """
    inner = dict([box_copy(form.how, mode, windows=form.windows)]) if form.tensor else {}
    return inner | dict([_bulk_lanes(form, mode)])


@cache
def _bulk_lanes(form: BulkForm, mode: Mode) -> tuple[str, str]:
    return BulkLanes(form, mode).function()


class BulkLanes:
    """Writes such a function."""

    def __init__(self, form: BulkForm, mode: Mode) -> None:
        self.form, self.mode = form, mode
        b = self.b = library_function()
        self.far, self.near = arg(I64, "far", WARP), arg(I32, "near", WARP)
        self.barrier, self.blocks = arg(I32, "barrier", WARP), arg(I32, "blocks", WARP)
        self.numbers, self.parameters = arg("ptr", "numbers"), arg(I64, "parameters")
        self.part = b.worker("cluster", "ptr")
        self.stride = b.worker("shared_stride", I64)
        self.limit = b.worker("shared_bytes", I64)
        self.own = b.worker("shared", "ptr")
        self.ranks = b.select(b.icmp("eq", self.part, NULL), i32(0), b.cluster_blocks())
        """blocks whose memory can be named; 0 for a kernel that knows of no cluster"""
        self.follows = b.icmp("ne", b.worker("follows", I32), i32(0))

    def function(self) -> tuple[str, str]:
        b, form = self.b, self.form
        slots = {name: b.stack(v) for name, v in (
            ("far", self.far), ("near", self.near), ("barrier", self.barrier), ("blocks", self.blocks),
        )}  # fmt: skip
        box = b.let("ptr", 0, f"alloca [{4 * COORDINATES} x i8], align 8")
        with b.loop(i32(WARP)) as lane, b.if_(b.lane_active(lane)):
            far = b.element(slots["far"], I64, lane)
            near, barrier, blocks = (b.element(slots[k], I32, lane) for k in ("near", "barrier", "blocks"))
            numbers = b.offset(self.numbers, b.shl(b.resize(lane, I64), 2))
            for k in range(COORDINATES if form.tensor else 0):
                b.store(b.load(I32, b.offset(numbers, 4 * WARP * k)), b.offset(box, 4 * k))
            usable = self._usable(far, lane) if form.tensor else IRValue("i1", "true")
            with b.if_(usable, likely=True):
                if form.tensor:
                    size, span = self._size(far)
                else:
                    size = span = b.resize(b.load(I32, numbers), I64)
                self._to_blocks(far, near, barrier, blocks, box, size, span, lane)
        b.ret()
        parameters = (MASK, self.far, self.near, self.barrier, self.blocks, self.numbers, SITE, self.parameters)
        return finished(b, form.name(self.mode), WORKER, CONTEXT, *parameters)

    def _usable(self, far: IRValue, lane: IRValue) -> IRValue:
        """Whether there is a tensor map at an address: in memory, or among the kernel's parameters."""
        b = self.b
        first = b.convert("ptrtoint", b.worker("params", "ptr"), I64)
        last = b.sub(self.parameters, i64(BYTES))
        among = b.and_(b.icmp("ule", b.sub(far, first), last), b.icmp("sge", last, i64(0)))
        there = b.or_(among, b.icmp("ne", b.call("ws_find", "ptr", WORKER, far, i32(BYTES)), NULL))
        fine = b.variable("i1", IRValue("i1", "false"))
        with b.if_(there, likely=True):
            b.store(b.icmp("eq", field(b, b.pointer(far), "magic"), i64(MAGIC)), fine)
        with b.if_(b.not_(b.load("i1", fine)), likely=False):
            b.hazard(i32(L.NO_TENSOR_MAP), lane, far, i64(0))
        return b.load("i1", fine)

    def _size(self, far: IRValue) -> tuple[IRValue, IRValue]:
        """Bytes of a whole box, as its barrier object is told, and those of shared memory in which it lies."""
        b, tensor_map = self.b, self.b.pointer(far)
        if self.form.windows:
            inner, rows = field(b, tensor_map, "channels"), field(b, tensor_map, "places")
        else:
            inner, rows = field(b, tensor_map, "box_dim"), i64(1)
            for k in range(1, MAX_RANK):
                step = field(b, tensor_map, "element_stride", k)
                side = b.add(field(b, tensor_map, "box_dim", k), b.add_const(step, -1))
                rows = b.mul(rows, b.binary("udiv", side, step))
        nbytes = b.binary("shl", inner, element_log2(b, tensor_map))
        return b.mul(rows, nbytes), b.mul(rows, row_pitch(b, tensor_map, nbytes))

    # -- shared memory ----------------------------------------------------------------------------------------------
    def _memory_of(self, address: IRValue) -> IRValue:
        """Where the shared memory begins in which an address of shared::cluster lies."""
        b = self.b
        block = b.lshr(address, L.CLUSTER_WINDOW_SHIFT)
        return b.select(b.icmp("eq", block, i32(0)), self.own, self._memory_at(b.add_const(block, -1)))

    def _memory_at(self, rank: IRValue) -> IRValue:
        b = self.b
        first = b.load("ptr", b.offset(self.part, L.ClusterPart.shared.offset))
        return b.offset(first, b.mul(b.resize(rank, I64), self.stride))

    def _is_there(self, address: IRValue) -> IRValue:
        """Whether the cluster has the block whose memory is meant."""
        return self.b.icmp("ule", self.b.lshr(address, L.CLUSTER_WINDOW_SHIFT), self.ranks)

    def _offset(self, address: IRValue) -> IRValue:
        return self.b.resize(self.b.and_const(address, (1 << L.CLUSTER_WINDOW_SHIFT) - 1), I64)

    def _to_blocks(
        self, far: IRValue, near: IRValue, barrier: IRValue, blocks: IRValue, numbers: IRValue, size: IRValue,
        span: IRValue, lane: IRValue,
    ) -> None:  # fmt: skip
        """One copy, or one for every block of a mask: at the same place in each, and at each one's barrier object.

        `size` bytes are moved, `span` bytes of shared memory taken.
        """
        b, offset = self.b, self._offset(near)
        alignment = 128 if self.form.tensor else _PIECE
        aligned = b.icmp("eq", b.and_const(offset, alignment - 1), i64(0))
        fits = b.and_(b.icmp("sle", b.add(offset, span), self.limit), self._is_there(near))
        fits = b.and_(fits, b.icmp("eq", b.binary("lshr", blocks, b.intrinsic("umax", self.ranks, i32(1))), i32(0)))
        if self.form.between_blocks:
            start = b.sub(far, b.convert("ptrtoint", self.own, I64))
            fits = b.and_(fits, b.icmp("ule", b.add(start, size), self.limit))
        with b.if_(b.not_(aligned), likely=False):
            b.hazard(i32(L.SHARED_MISALIGNED), lane, offset, i64(alignment | L.IN_BULK))
        if not self.form.tensor:
            odd = b.icmp("ne", b.and_const(far, _PIECE - 1), i64(0))
            with b.if_(odd, likely=False):
                b.hazard(i32(L.MISALIGNED), lane, far, i64(_PIECE | L.IN_BULK))
            aligned = b.and_(aligned, b.not_(odd))
        with b.if_(b.not_(fits), likely=False):
            b.hazard(i32(L.SHARED_OUT_OF_BOUNDS), lane, offset, i64(0))
        with b.if_(b.and_(aligned, fits), likely=True):
            if not self.form.into_shared:
                self._report(L.AsyncEvent.STORE, lane, SITE, offset, span, i64(int(self.form.tensor)))
                self._copy(far, self.own, offset, numbers, size)
                return
            source = i64(0)
            if self.form.between_blocks:
                source = b.add_const(b.sub(far, b.convert("ptrtoint", self.own, I64)), 1)
            more = source, i64(int(self.form.how not in (LOAD, STORE)))
            swizzle = field(b, b.pointer(far), "swizzle_mode") if self.form.tensor else i64(-1)
            single = b.icmp("eq", blocks, i32(0))
            with b.if_(single):
                self._report(L.AsyncEvent.LOAD, lane, SITE, near, span, barrier, swizzle, *more)
                self._copy(far, self._memory_of(near), offset, numbers, size)
                self._tell(self._memory_of(barrier), barrier, size, lane)
            with b.if_(b.not_(single)), b.loop(self.ranks) as rank, b.if_(b.lane_active(rank, blocks)):
                window = b.shl(b.add_const(rank, 1), L.CLUSTER_WINDOW_SHIFT)
                to, by = (b.or_(b.and_const(a, (1 << L.CLUSTER_WINDOW_SHIFT) - 1), window) for a in (near, barrier))
                self._report(L.AsyncEvent.LOAD, lane, SITE, to, span, by, swizzle, *more)
                self._copy(far, self._memory_at(rank), offset, numbers, size)
                self._tell(self._memory_at(rank), barrier, size, lane)

    def _report(self, event: L.AsyncEvent, lane: IRValue, *words: IRValue) -> None:
        if self.mode.check:
            b = self.b
            with b.if_(self.follows):
                tell_async(b, event, b.warp(), b.binary("shl", i32(1), lane), *words)

    def _tell(self, memory: IRValue, barrier: IRValue, size: IRValue, lane: IRValue) -> None:
        """The barrier object waits for so many bytes fewer."""
        b = self.b
        offset = self._offset(barrier)
        inside = b.and_(b.icmp("sle", b.add_const(offset, 8), self.limit), self._is_there(barrier))
        with b.if_(inside, likely=True):
            at = b.splat(b.add(b.convert("ptrtoint", memory, I64), offset))
            none, fewer = constant(I32, 0, WARP), b.splat(b.resize(b.sub(i64(0), size), I32))
            mask = b.binary("shl", i32(1), lane)
            b.call("ws_mbarrier_arrive", I64, WORKER, CONTEXT, at, mask, none, i32(0), i32(0), fewer, lanes=WARP)
        with b.if_(b.not_(inside), likely=False):
            b.hazard(i32(L.SHARED_OUT_OF_BOUNDS), lane, offset, i64(0))

    # -- what moves -------------------------------------------------------------------------------------------------
    def _copy(self, far: IRValue, memory: IRValue, offset: IRValue, numbers: IRValue, size: IRValue) -> None:
        b, form = self.b, self.form
        if form.tensor:
            name, _ = box_copy(form.how, self.mode, windows=form.windows)
            b.call(name, "void", WORKER, CONTEXT, b.pointer(far), numbers, memory, offset, SITE)
            return
        local = b.offset(memory, offset)
        if form.between_blocks:
            self._move(b.pointer(far), local, size)
            return
        kind = {LOAD: L.READ, STORE: L.WRITE}.get(form.how, L.ATOMIC)
        entry = b.call("ws_find", "ptr", WORKER, far, b.resize(size, I32))
        with b.if_(b.icmp("eq", entry, NULL), likely=False):
            b.hazard(i32(L.OUT_OF_BOUNDS), i32(0), far, i64(0))
        with b.if_(b.icmp("ne", entry, NULL), likely=True):
            if self.mode.check:
                account_run(b, self.mode, far, size, kind)
            origin, to = (b.pointer(far), local) if form.how == LOAD else (local, b.pointer(far))
            self._move(origin, to, size)

    def _move(self, origin: IRValue, to: IRValue, size: IRValue) -> None:
        b, form = self.b, self.form
        if form.how in (LOAD, STORE):
            b.call("llvm.memcpy.p0.p0.i64", "void", to, origin, size, IRValue("i1", "false"))
            return
        kind = FLOATS.get(form.type, f"i{WIDTH_BITS[form.type]}")
        combine = reduction(form.how, form.type)
        assert combine is not None
        with b.loop(b.binary("udiv", size, i64(WIDTH_BITS[form.type] // 8))) as k:
            at, of = (b.let("ptr", 0, f"getelementptr {kind}, {p}, {k}") for p in (to, origin))
            b.store(combine(b, b.load(kind, at, align=1), b.load(kind, of, align=1)), at, align=1)
