"""The functions that copy boxes of tensors and plain runs of bytes: what a tensor memory accelerator does.

A box goes row by row between an array in global memory and shared memory, where rows follow each other without gaps and
a swizzle moves pieces of 16 bytes. What lies outside of the array is filled when it is loaded and left out when it is
stored. `ptxsim.tensormap` says where a map has what. Copies happen when they are issued: that nobody may look before
their barrier's phase is over is a question of order, not of time (PTX ISA 5.5 and 9.7.9.25.5).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from ptxsim.codegen import layout as L
from ptxsim.codegen.emit import (
    CONTEXT,
    I32,
    I64,
    MASK,
    NULL,
    SITE,
    WARP,
    WORKER,
    Helper,
    IRValue,
    arg,
    constant,
    constants,
    i32,
    i64,
    tell_async,
)
from ptxsim.codegen.floating import flush
from ptxsim.codegen.tensor_moves import Mode
from ptxsim.codegen.tensor_products import finished, library_function
from ptxsim.syntax.program import WIDTH_BITS
from ptxsim.tensormap import BYTES, ELEMENTS, FIELDS, MAGIC, MAX_RANK

_PIECE = 16
_LINE = 4 * WARP
"""Bytes of global memory that are accounted for together."""
COORDINATES = 8
"""Numbers of i32 that a copy is told: five coordinates, innermost first, and the window's three offsets (W, H, D)."""
_INTEGER = {1: "i8", 2: "i16", 4: "i32", 8: "i64"}
_FLOATS = {"f16": "half", "bf16": "bfloat", "f32": "float", "f64": "double"}
_NANS = {2: 0x7FFF, 4: 0x7FFFFFFF, 8: 0x7FFFFFFFFFFFFFFF}
LOAD, STORE = "load", "store"


def field(b: Helper, tensor_map: IRValue, name: str, index: int = 0) -> IRValue:
    """A field of a tensor map as i64."""
    f = FIELDS[name]
    value = b.load(_INTEGER[f.nbytes], b.offset(tensor_map, f.offset + f.nbytes * index), align=1)
    return b.resize(value, I64, signed=name in ("lower", "upper"))


def element_log2(b: Helper, tensor_map: IRValue) -> IRValue:
    """log2 of the bytes of an element: a table of four bits for each type."""
    sizes = sum((e.nbytes.bit_length() - 1) << 4 * e.number for e in ELEMENTS.values())
    return b.and_const(b.binary("lshr", i64(sizes), b.shl(field(b, tensor_map, "elemtype"), 2)), 15)


@cache
def box_copy(how: str, mode: Mode, *, windows: bool) -> tuple[str, str]:
    """(name, IR) of a function (worker, context, map, coordinates, shared, to, site).

    `how` is "load", "store", or the operation of a reduction. `shared` is where the shared memory begins in which the
    box lies at `to` (i64). `windows`: the map is one for im2col.
    """
    return _BoxCopy(how, mode, windows).function()


class _BoxCopy:
    """Writes such a function."""

    def __init__(self, how: str, mode: Mode, windows: bool) -> None:
        self.how, self.mode, self.windows = how, mode, windows
        b = self.b = library_function()
        self.map, self.coordinates = arg("ptr", "map"), arg("ptr", "coordinates")
        self.shared, self.to = arg("ptr", "shared"), arg(I64, "to")
        self.position = b.variable(I64, self.to)
        """where in shared memory the next row goes, before the swizzle"""
        self.filled = b.let("ptr", 0, f"alloca [{_PIECE} x i8], align 16")

    def function(self) -> tuple[str, str]:
        b = self.b
        self.address = field(b, self.map, "global_address")
        self.log2 = element_log2(b, self.map)
        bits = field(b, self.map, "swizzle_mode")  # 32, 64, 128 bytes: 1, 2, 3
        self.swizzle = b.sub(b.binary("shl", i64(1), bits), i64(1))
        self.sizes = [field(b, self.map, "global_dim", k) for k in range(MAX_RANK)]
        self.strides = [i64(0), *(field(b, self.map, "global_stride", k) for k in range(MAX_RANK - 1))]
        self.steps = [i64(1), *(field(b, self.map, "element_stride", k) for k in range(1, MAX_RANK))]
        self.places = [
            b.resize(b.load(I32, b.offset(self.coordinates, 4 * k)), I64, signed=True) for k in range(COORDINATES)
        ]
        self.row_bytes = b.binary("shl", self.sizes[0], self.log2)
        self._fill()
        whole = self._reaches()
        with b.if_(b.not_(whole), likely=False):
            b.hazard(i32(L.OUT_OF_BOUNDS), i32(0), self.address, i64(0))
            b.leave()
        if self.windows:
            self._windows()
        else:
            self._tile()
        b.ret()
        return finished(b, self.name, WORKER, CONTEXT, self.map, self.coordinates, self.shared, self.to, SITE)

    @property
    def name(self) -> str:
        return self.name_of(self.how, self.mode, self.windows)

    @staticmethod
    def name_of(how: str, mode: Mode, windows: bool) -> str:
        return f"ws_box_{how}_{'windows_' if windows else ''}{mode.name}"

    # -- the map --------------------------------------------------------------------------------------------------
    def _fill(self) -> None:
        """What outside of the array is taken for, as 16 bytes."""
        b = self.b
        b.store(constant("i8", 0, _PIECE), self.filled, align=16)
        with b.if_(b.icmp("ne", field(b, self.map, "fill_mode"), i64(0)), likely=False):
            for size, nan in _NANS.items():
                with b.if_(b.icmp("eq", self.log2, i64(size.bit_length() - 1))):
                    b.store(constant(_INTEGER[size], nan, _PIECE // size), self.filled, align=16)

    def _reaches(self) -> IRValue:
        """Whether the array that the map describes lies in one allocation."""
        b = self.b
        last = self.row_bytes
        for size, stride in zip(self.sizes[1:], self.strides[1:], strict=True):
            last = b.add(last, b.mul(b.add_const(size, -1), stride))
        entry = b.call("ws_find", "ptr", WORKER, self.address, i32(1))
        inside = b.variable("i1", IRValue("i1", "false"))
        with b.if_(b.icmp("ne", entry, NULL), likely=True):
            high = b.load(I64, b.offset(entry, 8))
            b.store(b.icmp("ule", b.add(self.address, last), high), inside)
        return b.load("i1", inside)

    # -- rows -----------------------------------------------------------------------------------------------------
    def _tile(self) -> None:
        """A box is a box in the array: all rows of the innermost dimension, the outer ones around them."""
        b = self.b
        sides = [field(b, self.map, "box_dim", k) for k in range(MAX_RANK)]
        inner = b.binary("shl", sides[0], self.log2)

        def nested(axis: int, base: IRValue, inside: IRValue) -> None:
            if axis == 0:
                self._row(base, inside, b.binary("shl", self.places[0], self.log2), inner)
                return
            step = self.steps[axis]
            count = b.binary("udiv", b.add(sides[axis], b.add_const(step, -1)), step)
            with b.loop(count) as k:
                at = b.add(self.places[axis], b.mul(k, step))
                here = b.icmp("ult", at, self.sizes[axis])  # negative ones are large
                nested(axis - 1, b.add(base, b.mul(at, self.strides[axis])), b.and_(inside, here))

        nested(MAX_RANK - 1, self.address, IRValue("i1", "true"))

    def _windows(self) -> None:
        """im2col: one element of so many windows' channels; places go on over rows, depths and images."""
        b = self.b
        rank = field(b, self.map, "rank")
        spatial = b.add_const(rank, -2)
        channels, count = field(b, self.map, "channels"), field(b, self.map, "places")
        inner = b.binary("shl", channels, self.log2)
        at = [b.variable(I64, place) for place in self.places[1:MAX_RANK]]
        ends = [b.add(b.add_const(self.sizes[1 + k], -1), field(b, self.map, "upper", k)) for k in range(MAX_RANK - 2)]
        with b.loop(count):
            base, inside = self.address, IRValue("i1", "true")
            for k, slot in enumerate(at):
                place = b.load(I64, slot)
                if k < MAX_RANK - 2:  # the image's own number has no offset
                    offset = b.select(b.icmp("ult", i64(k), spatial), self.places[MAX_RANK + k], i64(0))
                    place = b.add(place, offset)
                inside = b.and_(inside, b.icmp("ult", place, self.sizes[1 + k]))
                base = b.add(base, b.mul(place, self.strides[1 + k]))
            self._row(base, inside, b.binary("shl", self.places[0], self.log2), inner)
            self._next_place(at, ends, spatial)

    def _next_place(self, at: list[IRValue], ends: list[IRValue], spatial: IRValue) -> None:
        """One window further: behind the last of a row the next row begins, and so on."""
        b = self.b
        carry: IRValue = IRValue("i1", "true")
        for k, slot in enumerate(at):
            is_spatial = b.icmp("ult", i64(k), spatial)
            now = b.load(I64, slot)
            step = b.select(is_spatial, self.steps[1 + k], i64(1))
            following = b.add(now, b.select(carry, step, i64(0)))
            if k < MAX_RANK - 2:
                past = b.and_(is_spatial, b.icmp("sgt", following, ends[k]))
                following = b.select(past, field(b, self.map, "lower", k), following)
                is_image = b.and_(carry, b.not_(is_spatial))  # what follows W, H, D: no further carry
                carry = b.and_(carry, b.and_(past, b.not_(is_image)))
            b.store(following, slot)

    def _row(self, base: IRValue, inside: IRValue, first: IRValue, nbytes: IRValue) -> None:
        """A row of `nbytes`, from byte `first` of the array's row at `base` on, which is there if `inside`."""
        b = self.b
        begin = b.load(I64, self.position)
        if self.mode.check:
            self._account(base, inside, first, nbytes)
        with b.loop(b.lshr(nbytes, 4)) as number:
            at = b.shl(number, 4)
            place = b.add(first, at)
            logical = b.add(begin, at)
            moved = b.xor(logical, b.shl(b.and_(b.lshr(logical, 7), self.swizzle), 4))
            memory, local = b.pointer(b.add(base, place)), b.offset(self.shared, moved)
            end = b.add_const(place, _PIECE)
            whole = b.and_(b.icmp("sge", place, i64(0)), b.icmp("sle", end, self.row_bytes))
            whole = b.and_(whole, inside)
            some, part, done = b.new_label("whole"), b.new_label("part"), b.new_label("moved")
            b.branch(whole, some, part, likely=True)
            b.label(some)
            self._move(memory, local, _PIECE)
            b.br(done)
            b.label(part)
            self._move_partly(place, inside, memory, local)
            b.br(done)
            b.label(done)
        b.store(b.add(begin, nbytes), self.position)

    def _move(self, memory: IRValue, local: IRValue, count: int) -> None:
        b = self.b
        if self.how == LOAD:
            b.store(b.load("i8", memory, count, align=1), local, align=1)
        elif self.how == STORE:
            b.store(b.load("i8", local, count, align=1), memory, align=1)
        else:
            with b.loop(b.binary("lshr", i64(count), self.log2)) as k:
                self._reduce(memory, local, k)

    def _move_partly(self, place: IRValue, inside: IRValue, memory: IRValue, local: IRValue) -> None:
        """Element by element: those of the array."""
        b = self.b
        size = b.binary("shl", i64(1), self.log2)
        with b.loop(b.binary("lshr", i64(_PIECE), self.log2)) as k:
            at = b.mul(k, size)
            here = b.add(place, at)
            valid = b.and_(inside, b.icmp("ult", here, self.row_bytes))
            if self.how == LOAD:
                with b.loop(size) as byte:
                    to = b.add(at, byte)
                    b.store(b.load("i8", b.offset(self.filled, to)), b.offset(local, to))
            with b.if_(valid):
                if self.how in (LOAD, STORE):
                    origin, target = (memory, local) if self.how == LOAD else (local, memory)
                    with b.loop(size) as byte:
                        to = b.add(at, byte)
                        b.store(b.load("i8", b.offset(origin, to)), b.offset(target, to))
                else:
                    self._reduce(memory, local, k)

    def _reduce(self, memory: IRValue, local: IRValue, k: IRValue) -> None:
        """memory[k] = memory[k] op local[k], by the map's type of element."""
        b = self.b
        number = field(b, self.map, "elemtype")
        for name, element in ELEMENTS.items():
            combine = reduction(self.how, name)
            if combine is None:
                continue
            with b.if_(b.icmp("eq", number, i64(element.number))):
                kind = _FLOATS.get(name.removesuffix(".ftz"), _INTEGER[element.nbytes])
                at, of = (b.let("ptr", 0, f"getelementptr {kind}, {p}, {k}") for p in (memory, local))
                b.store(combine(b, b.load(kind, at, align=1), b.load(kind, of, align=1)), at, align=1)

    # -- checks ---------------------------------------------------------------------------------------------------
    def _account(self, base: IRValue, inside: IRValue, first: IRValue, nbytes: IRValue) -> None:
        """The row in the race shadow of its array: what is inside, 4 bytes a lane."""
        b, kind = self.b, {LOAD: L.READ, STORE: L.WRITE}.get(self.how, L.ATOMIC)
        low = b.intrinsic("smax", first, i64(0))
        high = b.intrinsic("smin", b.add(first, nbytes), self.row_bytes)
        some = b.and_(inside, b.icmp("slt", low, high))
        with b.if_(some):
            account_run(b, self.mode, b.add(base, low), b.sub(high, low), kind)


def account_run(b: Helper, mode: Mode, start: IRValue, nbytes: IRValue, kind: int) -> None:
    """Bounds and race shadow of `nbytes` of global memory from `start` on: one lane for every 4 bytes, and what stands
    out at both ends byte by byte."""
    head = b.intrinsic("umin", b.and_const(b.sub(i64(0), start), 3), nbytes)
    words = b.and_const(b.sub(nbytes, head), ~3)
    _account_bytes(b, mode, start, head, kind)
    _account_words(b, mode, b.add(start, head), words, kind)
    _account_bytes(b, mode, b.add(b.add(start, head), words), b.sub(b.sub(nbytes, head), words), kind)


def _account_bytes(b: Helper, mode: Mode, start: IRValue, count: IRValue, kind: int) -> None:
    with b.loop(count) as k:
        where = b.splat(b.add(start, k), WARP)
        b.call(mode.access, I32, WORKER, CONTEXT, where, i32(1), i32(1), SITE, i32(kind), NULL, i32(1))


def _account_words(b: Helper, mode: Mode, start: IRValue, nbytes: IRValue, kind: int) -> None:
    lanes = b.add(b.splat(start), constants(I64, [4 * n for n in range(WARP)]))
    with b.loop(b.lshr(b.add_const(nbytes, _LINE - 1), 7)) as line:
        done = b.shl(line, 7)
        left = b.lshr(b.sub(nbytes, done), 2)
        count = b.intrinsic("umin", left, i64(WARP))
        mask = b.resize(b.sub(b.binary("shl", i64(1), count), i64(1)), I32)
        where = b.add(lanes, b.splat(done))
        b.call(mode.access, I32, WORKER, CONTEXT, where, mask, i32(4), SITE, i32(kind), NULL, i32(1))


Combine = Callable[[Helper, IRValue, IRValue], IRValue]


def reduction(operation: str, type_: str) -> Combine | None:
    """How an element is reduced; None where there is no such reduction of this type (PTX ISA 9.7.9.25.5.3)."""
    is_float, is_signed = type_ in ELEMENTS and ELEMENTS[type_].is_float, type_[0] == "s"
    if operation in ("and", "or", "xor"):
        return None if is_float else lambda b, x, y: b.binary(operation, x, y)
    if operation in ("inc", "dec"):
        return _INCREMENTS[operation] if type_ == "u32" else None
    if not is_float:
        if operation == "add":
            return lambda b, x, y: b.add(x, y)
        return lambda b, x, y: b.intrinsic(("s" if is_signed else "u") + operation, x, y)
    base = type_.removesuffix(".ftz")
    if base not in _FLOATS or (operation != "add" and base not in ("f16", "bf16")):
        return None
    if operation != "add":
        return lambda b, x, y: b.intrinsic("minnum" if operation == "min" else "maxnum", x, y)
    if type_ == "f32.ftz":
        return lambda b, x, y: flush(b, b.binary("fadd", flush(b, x), flush(b, y)))
    if base == "bf16":
        return lambda b, x, y: b.convert(
            "fptrunc", b.binary("fadd", b.convert("fpext", x, "float"), b.convert("fpext", y, "float")), "bfloat"
        )
    return lambda b, x, y: b.binary("fadd", x, y)


def _increment(b: Helper, x: IRValue, y: IRValue) -> IRValue:
    return b.select(b.icmp("uge", x, y), b.like(x, 0), b.add_const(x, 1))


def _decrement(b: Helper, x: IRValue, y: IRValue) -> IRValue:
    return b.select(b.or_(b.icmp("eq", x, b.like(x, 0)), b.icmp("ugt", x, y)), y, b.add_const(x, -1))


_INCREMENTS: dict[str, Combine] = {"inc": _increment, "dec": _decrement}


# ---------------------------------------------------------------- the lanes of a warp


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
    blocks (0: no multicast), `numbers` points to the coordinates of every lane, or to how many bytes it copies.
    `parameters` is the size of the kernel's, among which maps may lie.
    """
    inner = dict([box_copy(form.how, mode, windows=form.windows)]) if form.tensor else {}
    return inner | dict([_bulk_lanes(form, mode)])


@cache
def _bulk_lanes(form: BulkForm, mode: Mode) -> tuple[str, str]:
    return _BulkLanes(form, mode).function()


class _BulkLanes:
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
        with b.loop(i32(WARP)) as lane, b.if_(b.lane_active(lane)):
            far = b.element(slots["far"], I64, lane)
            near, barrier, blocks = (b.element(slots[k], I32, lane) for k in ("near", "barrier", "blocks"))
            numbers = b.offset(self.numbers, b.mul(b.resize(lane, I64), i64(4 * COORDINATES)))
            usable = self._usable(far, lane) if form.tensor else IRValue("i1", "true")
            with b.if_(usable, likely=True):
                size = self._size(far) if form.tensor else b.resize(b.load(I32, numbers), I64)
                self._to_blocks(far, near, barrier, blocks, numbers, size, lane)
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

    def _size(self, far: IRValue) -> IRValue:
        """Bytes of a whole box."""
        b, tensor_map = self.b, self.b.pointer(far)
        if self.form.windows:
            count = b.mul(field(b, tensor_map, "channels"), field(b, tensor_map, "places"))
        else:
            count = field(b, tensor_map, "box_dim")
            for k in range(1, MAX_RANK):
                step = field(b, tensor_map, "element_stride", k)
                side = b.add(field(b, tensor_map, "box_dim", k), b.add_const(step, -1))
                count = b.mul(count, b.binary("udiv", side, step))
        return b.binary("shl", count, element_log2(b, tensor_map))

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
        lane: IRValue,
    ) -> None:  # fmt: skip
        """One copy, or one for every block of a mask: at the same place in each, and at each one's barrier object."""
        b, offset = self.b, self._offset(near)
        alignment = 128 if self.form.tensor else _PIECE
        aligned = b.icmp("eq", b.and_const(offset, alignment - 1), i64(0))
        fits = b.and_(b.icmp("sle", b.add(offset, size), self.limit), self._is_there(near))
        fits = b.and_(fits, b.icmp("eq", b.binary("lshr", blocks, b.intrinsic("umax", self.ranks, i32(1))), i32(0)))
        if self.form.between_blocks:
            start = b.sub(far, b.convert("ptrtoint", self.own, I64))
            fits = b.and_(fits, b.icmp("ule", b.add(start, size), self.limit))
        with b.if_(b.not_(aligned), likely=False):
            b.hazard(i32(L.SHARED_MISALIGNED), lane, offset, i64(alignment))
        with b.if_(b.not_(fits), likely=False):
            b.hazard(i32(L.SHARED_OUT_OF_BOUNDS), lane, offset, i64(0))
        with b.if_(b.and_(aligned, fits), likely=True):
            if not self.form.into_shared:
                self._report(L.AsyncEvent.STORE, lane, SITE, offset, size)
                self._copy(far, self.own, offset, numbers, size)
                return
            if self.form.between_blocks:
                own = b.sub(far, b.convert("ptrtoint", self.own, I64))
                self._report(L.AsyncEvent.STORE, lane, SITE, own, size)
            swizzle = field(b, b.pointer(far), "swizzle_mode") if self.form.tensor else i64(-1)
            single = b.icmp("eq", blocks, i32(0))
            with b.if_(single):
                self._report(L.AsyncEvent.LOAD, lane, SITE, near, size, barrier, swizzle)
                self._copy(far, self._memory_of(near), offset, numbers, size)
                self._tell(self._memory_of(barrier), barrier, size, lane)
            with b.if_(b.not_(single)), b.loop(self.ranks) as rank, b.if_(b.lane_active(rank, blocks)):
                window = b.shl(b.add_const(rank, 1), L.CLUSTER_WINDOW_SHIFT)
                to, by = (b.or_(b.and_const(a, (1 << L.CLUSTER_WINDOW_SHIFT) - 1), window) for a in (near, barrier))
                self._report(L.AsyncEvent.LOAD, lane, SITE, to, size, by, swizzle)
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
            b.call(
                "ws_mbarrier_arrive", I64, WORKER, CONTEXT, at, mask, none, i32(0), i32(0), fewer, lanes=WARP
            )
        with b.if_(b.not_(inside), likely=False):
            b.hazard(i32(L.SHARED_OUT_OF_BOUNDS), lane, offset, i64(0))

    # -- what moves -------------------------------------------------------------------------------------------------
    def _copy(self, far: IRValue, memory: IRValue, offset: IRValue, numbers: IRValue, size: IRValue) -> None:
        b, form = self.b, self.form
        if form.tensor:
            name = _BoxCopy.name_of(form.how, self.mode, form.windows)
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
        kind = _FLOATS.get(form.type, f"i{WIDTH_BITS[form.type]}")
        combine = reduction(form.how, form.type)
        assert combine is not None
        with b.loop(b.binary("udiv", size, i64(WIDTH_BITS[form.type] // 8))) as k:
            at, of = (b.let("ptr", 0, f"getelementptr {kind}, {p}, {k}") for p in (to, origin))
            b.store(combine(b, b.load(kind, at, align=1), b.load(kind, of, align=1)), at, align=1)

