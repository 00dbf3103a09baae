"""The functions that copy boxes of tensors: what a tensor memory accelerator does.

A box goes row by row between an array in global memory and shared memory, where rows follow each other without gaps, or
take the whole width of a swizzle, which moves their pieces of 16 bytes. What lies outside of the array is filled when
it is loaded and left out when it is stored, but for what an H200 does not leave out: a row's last piece is stored
whole. `ptxsim.tensormap` says where a map has what. Copies happen when they are issued: that nobody may look before
their barrier's phase is over is a question of order, not of time (PTX ISA 5.5 and 9.7.9.25.5).

What PTX does not say was read off an H200 (`tests/sim/data/silicon_hopper.npz`): NaNs, tf32, narrow rows, last pieces,
and where a GPU stops.
"""

from __future__ import annotations

from functools import cache

from ptxsim.codegen import layout as L
from ptxsim.codegen.bulk_memory import FLOATS, LOAD, STORE, account_run, reduction
from ptxsim.codegen.emit import CONTEXT, I32, I64, NULL, SITE, WORKER, Helper, IRValue, arg, constant, i32, i64
from ptxsim.codegen.tensor_moves import Mode
from ptxsim.codegen.tensor_products import finished, library_function
from ptxsim.tensormap import ELEMENTS, FIELDS, MAX_RANK, NAN_FILL, TF32_NAN

_PIECE, _LINE = 16, 128
"""Bytes that a swizzle moves as one; those of the widest one's rows."""
_HOST_LINE = 64
"""Bytes that the host's caches move as one."""
_AHEAD = 8
"""Rows of an array that are asked for before their turn."""
COORDINATES = 8
"""Numbers of i32 that a copy is told: five coordinates, innermost first, and the window's three offsets (W, H, D)."""
_INTEGER = {1: "i8", 2: "i16", 4: "i32", 8: "i64"}


def field(b: Helper, tensor_map: IRValue, name: str, index: int = 0) -> IRValue:
    """A field of a tensor map as i64."""
    f = FIELDS[name]
    value = b.load(_INTEGER[f.nbytes], b.offset(tensor_map, f.offset + f.nbytes * index), align=1)
    return b.resize(value, I64, signed=name in ("lower", "upper"))


def element_log2(b: Helper, tensor_map: IRValue) -> IRValue:
    """log2 of the bytes of an element: a table of four bits for each type."""
    sizes = sum((e.nbytes.bit_length() - 1) << 4 * e.number for e in ELEMENTS.values())
    return b.and_const(b.binary("lshr", i64(sizes), b.shl(field(b, tensor_map, "elemtype"), 2)), 15)


def row_pitch(b: Helper, tensor_map: IRValue, nbytes: IRValue) -> IRValue:
    """Bytes from row to row in shared memory: those of a row, or the whole width of the swizzle."""
    mode = field(b, tensor_map, "swizzle_mode")
    return b.select(b.icmp("eq", mode, i64(0)), nbytes, b.binary("shl", i64(_PIECE), mode))


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
        self.number = field(b, self.map, "elemtype")
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
        self.inner = b.binary("shl", field(b, self.map, "channels" if self.windows else "box_dim"), self.log2)
        self.pitch = row_pitch(b, self.map, self.inner)
        self._fill()
        self._allowed()
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
            b.store(constant("i16", NAN_FILL, _PIECE // 2), self.filled, align=16)

    def _allowed(self) -> None:
        """Stops where a GPU does: at a row that begins within 16 bytes, at a store that begins before the array."""
        b = self.b
        first = b.binary("shl", self.places[0], self.log2)
        with b.if_(b.icmp("ne", b.and_const(first, _PIECE - 1), i64(0)), likely=False):
            b.hazard(i32(L.BOX_MISALIGNED), i32(0), first, i64(0))
            b.leave()
        if self.how == LOAD:
            return
        lowest = self.places[0]
        for place in self.places[1:MAX_RANK]:
            lowest = b.intrinsic("smin", lowest, place)
        with b.if_(b.icmp("slt", lowest, i64(0)), likely=False):
            b.hazard(i32(L.BOX_BEFORE), i32(0), lowest, i64(0))
            b.leave()

    def _reaches(self) -> IRValue:
        """Whether the array that the map describes lies in one allocation. Notes whether that has a race shadow."""
        b = self.b
        last = self.row_bytes
        for size, stride in zip(self.sizes[1:], self.strides[1:], strict=True):
            last = b.add(last, b.mul(b.add_const(size, -1), stride))
        entry = b.call("ws_find", "ptr", WORKER, self.address, i32(1))
        inside, shadow = b.variable("i1", IRValue("i1", "false")), b.variable(I64, i64(0))
        with b.if_(b.icmp("ne", entry, NULL), likely=True):
            high = b.load(I64, b.offset(entry, 8))
            b.store(b.icmp("ule", b.add(self.address, last), high), inside)
            b.store(b.load(I64, b.offset(entry, 16)), shadow)
        self.is_followed = b.icmp("ne", b.load(I64, shadow), i64(0))
        return b.load("i1", inside)

    # -- rows -----------------------------------------------------------------------------------------------------
    def _tile(self) -> None:
        """A box is a box in the array: all rows of the innermost dimension, the outer ones around them."""
        b = self.b
        sides = [field(b, self.map, "box_dim", k) for k in range(MAX_RANK)]

        def nested(axis: int, base: IRValue, inside: IRValue) -> None:
            if axis == 0:
                self._row(base, inside, b.binary("shl", self.places[0], self.log2))
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
        count = field(b, self.map, "places")
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
            self._row(base, inside, b.binary("shl", self.places[0], self.log2))
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

    def _row(self, base: IRValue, inside: IRValue, first: IRValue) -> None:
        """A row of the box, from byte `first` of the array's row at `base` on, which is there if `inside`."""
        b = self.b
        begin = b.load(I64, self.position)
        if self.mode.check:
            with b.if_(self.is_followed):  # rows are inside of the array: an array that nobody stores to needs no more
                self._account(base, inside, first)
        if self.how in (LOAD, STORE):  # most rows are whole, and need no rounding
            plain = b.icmp("ult", self.number, i64(ELEMENTS["tf32"].number))
            whole = b.icmp("ule", b.add(first, self.inner), self.row_bytes)
            whole = b.and_(b.and_(inside, plain), b.and_(whole, b.icmp("sge", first, i64(0))))
            with b.if_(whole, likely=True):
                self._whole_row(base, begin, first)
            with b.if_(b.not_(whole), likely=False):
                self._pieces(base, begin, inside, first)
        else:
            self._pieces(base, begin, inside, first)
        b.store(b.add(begin, self.pitch), self.position)

    def _whole_row(self, base: IRValue, begin: IRValue, first: IRValue) -> None:
        """A row that needs no care. One as wide as the widest swizzle, as operands of wgmma are, takes no loop."""
        b = self.b
        row = b.and_(b.icmp("eq", self.inner, i64(_LINE)), b.icmp("eq", self.swizzle, i64(_LINE // _PIECE - 1)))
        row = b.and_(row, b.icmp("eq", b.and_const(begin, _LINE - 1), i64(0)))
        with b.if_(row, likely=True):
            memory, local = b.pointer(b.add(base, first)), b.offset(self.shared, begin)
            turn = b.and_const(b.lshr(begin, 3), _LINE - _PIECE)
            if self.how == LOAD:
                self._ahead(memory)
            for at in range(0, _LINE, _PIECE):
                self._copy_piece(b.offset(memory, at), b.offset(local, b.xor(turn, i64(at))))
        with b.if_(b.not_(row), likely=False), b.loop(b.lshr(self.inner, 4)) as number:
            self._copy_piece(*self._places_of(base, begin, first, number)[1:])

    def _ahead(self, memory: IRValue) -> None:
        """Asks the host for a later row of the array: these lie too far apart for it to see that they come."""
        b = self.b
        later = b.offset(memory, b.mul(self.strides[1], i64(_AHEAD)))
        for at in range(0, _LINE, _HOST_LINE):
            b.call("llvm.prefetch.p0", "void", b.offset(later, at), i32(0), i32(3), i32(1))  # to read, keep, data

    def _places_of(
        self, base: IRValue, begin: IRValue, first: IRValue, number: IRValue
    ) -> tuple[IRValue, IRValue, IRValue]:
        """Where a piece of a row is: from the array's row on, in global and in shared memory."""
        b = self.b
        at = b.shl(number, 4)
        place, logical = b.add(first, at), b.add(begin, at)
        moved = b.xor(logical, b.shl(b.and_(b.lshr(logical, 7), self.swizzle), 4))
        return place, b.pointer(b.add(base, place)), b.offset(self.shared, moved)

    def _copy_piece(self, memory: IRValue, local: IRValue) -> None:
        b = self.b
        origin, target = (memory, local) if self.how == LOAD else (local, memory)
        b.store(b.load("i8", origin, _PIECE, align=1), target, align=1)

    def _pieces(self, base: IRValue, begin: IRValue, inside: IRValue, first: IRValue) -> None:
        """A row piece by piece, some of which may be outside of the array."""
        b = self.b
        with b.loop(b.lshr(self.inner, 4)) as number:
            place, memory, local = self._places_of(base, begin, first, number)
            some = b.and_(inside, b.icmp("ult", place, self.row_bytes))  # negative ones are large
            whole = b.and_(some, b.icmp("ule", b.add_const(place, _PIECE), self.row_bytes))
            all_, part, done = b.new_label("whole"), b.new_label("part"), b.new_label("moved")
            b.branch(whole, all_, part, likely=True)
            b.label(all_)
            self._move(memory, local, i64(_PIECE))
            b.br(done)
            b.label(part)
            self._move_partly(some, b.sub(self.row_bytes, place), memory, local)
            b.br(done)
            b.label(done)

    def _move_partly(self, some: IRValue, left: IRValue, memory: IRValue, local: IRValue) -> None:
        """A piece outside of the array, or the last of its row, of which `left` bytes are in the array."""
        b = self.b
        if self.how == LOAD:
            b.store(b.load("i8", self.filled, _PIECE, align=16), local, align=1)
        with b.if_(some):
            if self.how == LOAD:
                self._move(memory, local, left)
            else:  # stored whole, if there is memory
                entry = b.call("ws_find", "ptr", WORKER, b.convert("ptrtoint", memory, I64), i32(_PIECE))
                self._move(memory, local, b.select(b.icmp("ne", entry, NULL), i64(_PIECE), left))

    def _move(self, memory: IRValue, local: IRValue, count: IRValue) -> None:
        """So many bytes of a piece."""
        b = self.b
        if self.how in (LOAD, STORE):
            origin, target = (memory, local) if self.how == LOAD else (local, memory)
            b.call("llvm.memcpy.p0.p0.i64", "void", target, origin, count, IRValue("i1", "false"))
            if self.how == LOAD:
                self._round(local)
        else:
            with b.loop(b.binary("lshr", count, self.log2)) as k:
                self._reduce(memory, local, k)

    def _round(self, local: IRValue) -> None:
        """What tf32 has no bits for is rounded to nearest even on its way into shared memory."""
        b = self.b
        with b.if_(b.icmp("uge", self.number, i64(ELEMENTS["tf32"].number)), likely=False):
            count = _PIECE // 4
            x = b.load(I32, local, count, align=1)
            odd = b.and_const(b.lshr(x, 13), 1)
            rounded = b.and_const(b.add(x, b.add_const(odd, 0xFFF)), 0xFFFFE000)
            magnitude = b.and_const(x, 0x7FFFFFFF)
            special = b.icmp("ugt", magnitude, b.like(x, 0x7F800000))
            b.store(b.select(special, b.like(x, TF32_NAN), rounded), local, align=1)

    def _reduce(self, memory: IRValue, local: IRValue, k: IRValue) -> None:
        """memory[k] = memory[k] op local[k], by the map's type of element."""
        b = self.b
        for name, element in ELEMENTS.items():
            combine = reduction(self.how, name)
            if combine is None:
                continue
            with b.if_(b.icmp("eq", self.number, i64(element.number))):
                kind = FLOATS.get(name.removesuffix(".ftz"), _INTEGER[element.nbytes])
                at, of = (b.let("ptr", 0, f"getelementptr {kind}, {p}, {k}") for p in (memory, local))
                b.store(combine(b, b.load(kind, at, align=1), b.load(kind, of, align=1)), at, align=1)

    # -- checks ---------------------------------------------------------------------------------------------------
    def _account(self, base: IRValue, inside: IRValue, first: IRValue) -> None:
        """The row in the race shadow of its array: what is inside, 4 bytes a lane."""
        b, kind = self.b, {LOAD: L.READ, STORE: L.WRITE}.get(self.how, L.ATOMIC)
        whole = self.row_bytes if self.how == LOAD else b.and_const(b.add_const(self.row_bytes, _PIECE - 1), -_PIECE)
        low = b.intrinsic("smax", first, i64(0))
        high = b.intrinsic("smin", b.add(first, self.inner), whole)
        some = b.and_(inside, b.icmp("slt", low, high))
        with b.if_(some):
            account_run(b, self.mode, b.add(base, low), b.sub(high, low), kind)
