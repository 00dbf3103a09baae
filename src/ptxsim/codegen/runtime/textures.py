"""Texture fetches and surface places, a lane after the other (CUDA C++ Programming Guide, "Texture Fetching").

Coordinates are numbers of double precision here, so that the guide's formulas hold as they are written. The weights
of the linear filter have 8 bits behind the point, rounded to the nearest; the weighted sum is rounded to f32 once. What
the guide leaves open: a coordinate that is no number counts as 0, a layer outside is clamped, and channels that a texel
does not have are 0.
"""

from __future__ import annotations

import ctypes

from ptxsim.codegen import layout as L
from ptxsim.codegen.emit import (
    CONTEXT,
    I32,
    I64,
    MASK,
    NULL,
    SIZE,
    WARP,
    WORKER,
    Builder,
    Helper,
    IRValue,
    arg,
    constant,
    helper,
    i32,
    i64,
)
from ptxsim.codegen.floating import widen
from ptxsim.codegen.nans import canonical_bits
from ptxsim.texture import CUBES, FIRST_HANDLE

_R = L.TextureRecord
RECORD, HANDLE, HANDLES, OUT = arg("ptr", "record"), arg(I64, "handle"), arg(I64, "handles", WARP), arg("ptr", "out")
GEOMETRY, LANE = arg(I32, "geometry"), arg(I32, "lane")
_CUBES = tuple(L.GEOMETRIES.index(name) for name in CUBES)
ANY_GEOMETRY = -1
ARRAY_ALONE = 1 << 8
"""With a geometry: pitched memory of that shape will not do."""
NO_COMPONENT = -1
"""In place of a gather's component: a fetch."""
ZERO, CLAMP = 1, 2
"""What a surface access does outside, if it does not end the launch."""
_TAP_BYTES = 12
"""of an axis: first texel, second texel, weight of the second in 256ths"""
_FULL = 256.0


def _field(b: Builder, record: IRValue, name: str, index: int = 0) -> IRValue:
    """A field of a record, or number `index` of an array."""
    type_ = {"base": I64, "row_bytes": I64, "slice_bytes": I64, "scale": "float"}.get(name, I32)
    return b.load(type_, b.offset(record, getattr(_R, name).offset + 4 * index))


def _is(b: Builder, value: IRValue, *numbers: int) -> IRValue:
    """Whether a value is one of some numbers."""
    found = b.icmp("eq", value, b.like(value, numbers[0]))
    for number in numbers[1:]:
        found = b.or_(found, b.icmp("eq", value, b.like(value, number)))
    return found


def _clamped(b: Builder, value: IRValue, last: IRValue) -> IRValue:
    """An integer clamped to [0, last]."""
    return b.intrinsic("smin", b.intrinsic("smax", value, b.like(value, 0)), last)


# ---------------------------------------------------------------- objects


@helper("ws_texture_problem", "void", WORKER, CONTEXT, arg(I32, "code"), HANDLE, LANE)
def texture_problem(b: Helper, code: IRValue, handle: IRValue, lane: IRValue) -> None:
    """Notes why a lane cannot go on; the launch ends."""
    b.store(code, b.offset(WORKER, L.field("texture_problem")))
    b.store(handle, b.offset(WORKER, L.field("texture_handle")))
    thread = b.or_(b.shl(b.warp(), L.WARP_SHIFT), lane)
    b.store(thread, b.offset(WORKER, L.field("fault_thread")))


def _object(b: Helper, handle: IRValue, role: int, geometry: IRValue, lane: IRValue) -> IRValue:
    return b.call("ws_texture_object", "ptr", WORKER, CONTEXT, handle, i32(role), geometry, lane)


@helper("ws_texture_object", "ptr", WORKER, CONTEXT, HANDLE, arg(I32, "role"), GEOMETRY, LANE)
def texture_object(b: Helper, handle: IRValue, role: IRValue, geometry: IRValue, lane: IRValue) -> None:
    """The record behind a handle; null, and a problem noted, where it is not such an object."""
    problem = b.variable(I32, i32(L.TextureProblem.NO_OBJECT))
    number = b.sub(handle, i64(FIRST_HANDLE))
    with b.if_(b.icmp("ult", number, b.worker("texture_count", I64))):
        record = b.offset(b.worker("textures", "ptr"), b.mul(number, i64(ctypes.sizeof(_R))))
        own, shape = _field(b, record, "role"), _field(b, record, "geometry")
        pitched = b.and_(_is(b, shape, L.GEOMETRIES.index("pitched")), _is(b, geometry, L.GEOMETRIES.index("2d")))
        same = b.icmp("eq", b.or_(shape, i32(ARRAY_ALONE)), b.or_(geometry, i32(ARRAY_ALONE)))
        faces = b.and_(_is(b, shape, *_CUBES), _is(b, role, L.TextureRole.SURFACE))  # a surface's layers
        faces = b.and_(faces, _is(b, geometry, L.GEOMETRIES.index("a2d")))
        fits = b.or_(b.or_(same, faces), b.or_(pitched, _is(b, geometry, ANY_GEOMETRY)))
        right = b.icmp("eq", own, role)
        with b.if_(b.and_(right, fits)):
            b.leave(record)
        other = b.select(
            _is(b, own, L.TextureRole.FREED), i32(L.TextureProblem.FREED), i32(L.TextureProblem.WRONG_ROLE)
        )
        other = b.select(_is(b, own, L.TextureRole.NOTHING), i32(L.TextureProblem.NO_OBJECT), other)
        b.store(b.select(right, i32(L.TextureProblem.WRONG_GEOMETRY), other), problem)
    b.call("ws_texture_problem", "void", WORKER, CONTEXT, b.load(I32, problem), handle, lane)
    b.ret(NULL)


# ---------------------------------------------------------------- texels


@helper("ws_texel", I32, RECORD, arg(I32, "x"), arg(I32, "y"), arg(I32, "z"), arg(I32, "channel"))
def texel(b: Helper, record: IRValue, x: IRValue, y: IRValue, z: IRValue, channel: IRValue) -> None:
    """One channel of a texel, as the bits that an instruction gives; a negative coordinate lies in the border."""
    with b.if_(b.icmp("uge", channel, _field(b, record, "channels"))):
        b.leave(i32(0))
    with b.if_(b.icmp("slt", b.or_(b.or_(x, y), z), i32(0))):
        at = b.offset(record, _R.border.offset)
        b.leave(b.load(I32, b.offset(at, b.shl(b.resize(channel, I64), 2))))
    wide = [b.resize(k, I64) for k in (x, y, z, channel)]
    address = _field(b, record, "base")
    for k, step in zip(wide, ("texel_bytes", "row_bytes", "slice_bytes", "channel_bytes"), strict=True):
        address = b.add(address, b.mul(k, b.resize(_field(b, record, step), I64)))
    size, reading, pointer = _field(b, record, "channel_bytes"), _field(b, record, "reading"), b.pointer(address)
    raw = b.variable(I32, i32(0))
    for bytes_ in (1, 2, 4):
        with b.if_(_is(b, size, bytes_)):
            b.store(b.resize(b.load(f"i{8 * bytes_}", pointer), I32), raw)
    bits = b.load(I32, raw)
    spare = b.sub(i32(32), b.shl(size, 3))
    extended = b.binary("ashr", b.binary("shl", bits, spare), spare)
    signed = _is(b, reading, L.Reading.SIGNED, L.Reading.SIGNED_NORMALIZED)
    value = b.select(signed, extended, bits)
    with b.if_(_is(b, reading, L.Reading.UNSIGNED, L.Reading.SIGNED, L.Reading.FLOAT)):
        b.leave(value)
    with b.if_(_is(b, reading, L.Reading.HALF)):
        half = widen(b, b.bitcast(b.resize(bits, "i16"), "half"), "float")
        b.leave(canonical_bits(b, b.bitcast(half, I32)))
    number = b.binary("fdiv", b.convert("sitofp", value, "float"), _field(b, record, "scale"))
    lowest = constant("float", -1.0)
    b.ret(b.bitcast(b.select(b.fcmp("olt", number, lowest), lowest, number), I32))


# ---------------------------------------------------------------- coordinates


def _inside(b: Helper, k: IRValue, length: IRValue, mode: IRValue) -> IRValue:
    """The texel that number k stands for along an axis; -1 in the border."""
    whole = b.binary("srem", b.add(b.binary("srem", k, length), length), length)
    twice = b.shl(length, 1)
    turn = b.binary("srem", b.add(b.binary("srem", k, twice), twice), twice)
    mirrored = b.select(b.icmp("slt", turn, length), turn, b.sub(b.add_const(twice, -1), turn))
    clamped = _clamped(b, k, b.add_const(length, -1))
    bordered = b.select(b.icmp("ult", k, length), k, i32(-1))
    found = b.select(_is(b, mode, L.AddressMode.WRAP), whole, clamped)
    found = b.select(_is(b, mode, L.AddressMode.MIRROR), mirrored, found)
    return b.select(_is(b, mode, L.AddressMode.BORDER), bordered, found)


def _floor(b: Helper, x: IRValue) -> IRValue:
    return b.intrinsic("floor", x)


def _reduced(b: Helper, x: IRValue, mode: IRValue) -> IRValue:
    """A normalized coordinate as its address mode asks: frac(x) to repeat, 1 - frac(x) in every second repetition."""
    one = b.like(x, 1.0)
    floor = _floor(b, x)
    rest = b.binary("fsub", x, floor)
    half = b.binary("fmul", floor, b.like(x, 0.5))
    odd = b.fcmp("one", half, _floor(b, half))
    mirrored = b.select(odd, b.binary("fsub", one, rest), rest)
    found = b.select(_is(b, mode, L.AddressMode.WRAP), rest, x)
    return b.select(_is(b, mode, L.AddressMode.MIRROR), mirrored, found)


@helper("ws_texture_axis", "void", RECORD, arg(I32, "axis"), arg("float", "x"), arg(I32, "footprint"), OUT)
def texture_axis(b: Helper, record: IRValue, axis: IRValue, x: IRValue, footprint: IRValue, out: IRValue) -> None:
    """The texels along one axis that a coordinate asks for, and the weight of the second.

    `footprint`: 1 for two texels, around the place half a texel before the coordinate; 0 for the one that it lies in.
    """

    def of_axis(name: str) -> IRValue:
        at = b.offset(record, getattr(_R, name).offset)
        return b.load(I32, b.offset(at, b.shl(b.resize(axis, I64), 2)))

    length, mode = of_axis("extent"), of_axis("modes")
    size, wide = b.convert("uitofp", length, "double"), b.convert("fpext", x, "double")
    normalized = _is(b, _field(b, record, "normalized_coordinates"), 1)
    u = b.select(normalized, b.binary("fmul", _reduced(b, wide, mode), size), wide)
    u = b.select(b.fcmp("uno", u, u), b.like(u, 0.0), u)
    # one texel outside is as good as any further
    first, last = b.like(u, -1.0), b.binary("fadd", size, b.like(u, 1.0))
    u = b.select(b.fcmp("olt", u, first), first, u)
    u = b.select(b.fcmp("ogt", u, last), last, u)
    u = b.select(_is(b, footprint, 1), b.binary("fsub", u, b.like(u, 0.5)), u)
    floor = _floor(b, u)
    fraction = b.binary("fmul", b.binary("fsub", u, floor), b.like(u, _FULL))
    weight = b.convert("fptosi", _floor(b, b.binary("fadd", fraction, b.like(u, 0.5))), I32)
    k = b.convert("fptosi", floor, I32)
    b.store(_inside(b, k, length, mode), out)
    b.store(_inside(b, b.add_const(k, 1), length, mode), b.offset(out, 4))
    b.store(weight, b.offset(out, 8))


# ---------------------------------------------------------------- fetches


def _put(b: Helper, out: IRValue, element: IRValue, lane: IRValue, bits: IRValue) -> None:
    """Stores element 0..3 of a lane's result; the results lie there as four vectors."""
    place = b.add(b.mul(element, i32(WARP)), lane)
    b.store(bits, b.let("ptr", 0, f"getelementptr i32, {out}, {place}"))


def _tap(b: Helper, taps: IRValue, axis: int, which: IRValue) -> tuple[IRValue, IRValue]:
    """(texel, weight of 256) of the first or second tap along an axis."""
    at = b.offset(taps, _TAP_BYTES * axis)
    index = b.load(I32, b.let("ptr", 0, f"getelementptr i32, {at}, {which}"))
    weight = b.load(I32, b.offset(at, 8))
    return index, b.select(_is(b, which, 1), weight, b.sub(i32(int(_FULL)), weight))


def _bit(b: Helper, value: IRValue, place: int) -> IRValue:
    return b.and_const(b.lshr(value, place), 1)


@helper(
    "ws_texture_sum", I32, RECORD, arg("ptr", "taps"), arg(I32, "dimensions"), arg(I32, "layer"), arg(I32, "channel")
)
def texture_sum(
    b: Helper, record: IRValue, taps: IRValue, dimensions: IRValue, layer: IRValue, channel: IRValue
) -> None:
    """A channel filtered linearly: the weighted sum of 2, 4 or 8 texels, x before y before z."""
    total = b.variable("double", constant("double", 0.0))
    with b.loop(b.binary("shl", i32(1), dimensions)) as k:
        places, weight = [], constant("double", 1.0)
        for axis in range(3):
            index, share = _tap(b, taps, axis, _bit(b, k, axis))
            used = b.icmp("ugt", dimensions, i32(axis))
            part = b.binary("fmul", b.convert("sitofp", share, "double"), constant("double", 1 / _FULL))
            weight = b.binary("fmul", weight, b.select(used, part, constant("double", 1.0)))
            places.append(b.select(used, index, layer if axis == 2 else i32(0)))
        value = b.bitcast(b.call("ws_texel", I32, record, *places, channel), "float")
        term = b.binary("fmul", b.convert("fpext", value, "double"), weight)
        b.store(b.binary("fadd", b.load("double", total), term), total)
    result = b.bitcast(b.convert("fptrunc", b.load("double", total), "float"), I32)
    b.ret(canonical_bits(b, result))


_AXES = tuple(arg("float", name, WARP) for name in "xyz")
_LAYERED = tuple(L.GEOMETRIES.index(name) for name in ("a1d", "a2d", *CUBES))


@helper(
    "ws_texture", "void", WORKER, CONTEXT, HANDLES, *_AXES, arg(I32, "layers", WARP), MASK, GEOMETRY,
    arg(I32, "dimensions"), arg(I32, "component"), OUT,
)  # fmt: skip
def texture(
    b: Helper, handles: IRValue, x: IRValue, y: IRValue, z: IRValue, layers: IRValue, geometry: IRValue,
    dimensions: IRValue, component: IRValue, out: IRValue,
) -> None:  # fmt: skip
    """What the active lanes fetch, four numbers each; or gather, where there is a component."""
    handle_slots, layer_slots, coordinates = b.stack(handles), b.stack(layers), [b.stack(v) for v in (x, y, z)]
    taps = b.let("ptr", 0, f"alloca [{3 * _TAP_BYTES} x i8], align 8")
    gathers = b.icmp("sge", component, i32(0))
    with b.loop(i32(WARP)) as lane, b.if_(b.lane_active(lane)):
        record = _object(b, b.element(handle_slots, I64, lane), L.TextureRole.TEXTURE, geometry, lane)
        with b.if_(b.icmp("eq", record, NULL), likely=False):
            b.leave()
        filters = b.icmp("ne", _field(b, record, "filters"), i32(0))
        footprint = b.resize(b.or_(filters, gathers), I32)
        for axis, slots in enumerate(coordinates):
            at = b.offset(taps, _TAP_BYTES * axis)
            value = b.element(slots, "float", lane)
            b.call("ws_texture_axis", "void", record, i32(axis), value, footprint, at)
        last = b.add_const(_field(b, record, "extent", 2), -1)
        layer = b.intrinsic("umin", b.element(layer_slots, I32, lane), last)
        layer = b.select(_is(b, geometry, *_LAYERED), layer, i32(0))
        with b.loop(i32(4)) as k:
            bits = _fetched(b, record, taps, dimensions, layer, k, filters, gathers, component)
            _put(b, out, k, lane, bits)


def _fetched(
    b: Helper, record: IRValue, taps: IRValue, dimensions: IRValue, layer: IRValue, k: IRValue, filters: IRValue,
    gathers: IRValue, component: IRValue,
) -> IRValue:  # fmt: skip
    """Number k of a lane's result: a channel, or the gathered texel (x, y+1), (x+1, y+1), (x+1, y) or (x, y)."""
    gather, single, sum_, end = (b.new_label(name) for name in ("gather", "single", "sum", "fetched"))
    chosen = b.new_label("fetch")
    b.branch(gathers, gather, chosen, then=gather)
    right = b.resize(b.and_(b.icmp("ne", k, i32(0)), b.icmp("ne", k, i32(3))), I32)
    lower = b.resize(b.icmp("ult", k, i32(2)), I32)
    at = (_tap(b, taps, 0, right)[0], _tap(b, taps, 1, lower)[0], i32(0))
    gathered = b.call("ws_texel", I32, record, *at, component)
    b.br(end, then=chosen)
    b.branch(filters, sum_, single, then=single)
    places = [b.load(I32, b.offset(taps, _TAP_BYTES * axis)) for axis in range(3)]
    used = [b.icmp("ugt", dimensions, i32(axis)) for axis in range(3)]
    places = [b.select(u, p, q) for u, p, q in zip(used, places, (i32(0), i32(0), layer), strict=True)]
    found = b.call("ws_texel", I32, record, *places, k)
    b.br(end, then=sum_)
    summed = b.call("ws_texture_sum", I32, record, taps, dimensions, layer, k)
    b.br(end, then=end)
    return b.phi((gathered, gather), (found, single), (summed, sum_))


@helper("ws_texture_linear", "void", WORKER, CONTEXT, HANDLES, arg(I32, "index", WARP), MASK, OUT)
def texture_linear(b: Helper, handles: IRValue, index: IRValue, out: IRValue) -> None:
    """What the active lanes read of linear memory; 0 outside."""
    handle_slots, slots, linear = b.stack(handles), b.stack(index), i32(L.GEOMETRIES.index("linear"))
    with b.loop(i32(WARP)) as lane, b.if_(b.lane_active(lane)):
        record = _object(b, b.element(handle_slots, I64, lane), L.TextureRole.TEXTURE, linear, lane)
        with b.if_(b.icmp("eq", record, NULL), likely=False):
            b.leave()
        at = b.element(slots, I32, lane)
        inside = b.icmp("ult", at, _field(b, record, "extent"))
        place = b.select(inside, at, i32(-1))
        with b.loop(i32(4)) as k:
            _put(b, out, k, lane, b.call("ws_texel", I32, record, place, i32(0), i32(0), k))


@helper("ws_texture_query", f"<{WARP} x i32>", WORKER, CONTEXT, HANDLES, MASK, arg(I32, "role"), arg(I32, "field"))
def texture_query(b: Helper, handles: IRValue, role: IRValue, field: IRValue) -> None:
    """A field of the records behind the handles of the active lanes."""
    slots, result = b.stack(handles), b.stack(constant(I32, 0, WARP))
    with b.loop(i32(WARP)) as lane, b.if_(b.lane_active(lane)):
        handle = b.element(slots, I64, lane)
        record = b.call("ws_texture_object", "ptr", WORKER, CONTEXT, handle, role, i32(ANY_GEOMETRY), lane)
        with b.if_(b.icmp("eq", record, NULL), likely=False):
            b.leave(constant(I32, 0, WARP))
        b.set_element(result, b.load(I32, b.offset(record, b.resize(field, I64))), lane)
    b.ret(b.load(I32, result, WARP, align=64))


# ---------------------------------------------------------------- surfaces


@helper(
    "ws_surface", f"<{WARP} x i64>", WORKER, CONTEXT, HANDLES, *(arg(I32, name, WARP) for name in "xyz"), MASK, SIZE,
    GEOMETRY, arg(I32, "outside"),
)  # fmt: skip
def surface(
    b: Helper, handles: IRValue, x: IRValue, y: IRValue, z: IRValue, geometry: IRValue, outside: IRValue
) -> None:
    """Addresses of SIZE bytes at byte x of row y of slice z; 0 for lanes that move nothing."""
    nowhere = constant(I64, 0, WARP)
    handle_slots, result, slots = b.stack(handles), b.stack(nowhere), [b.stack(v) for v in (x, y, z)]
    size = b.resize(SIZE, I64)
    with b.loop(i32(WARP)) as lane, b.if_(b.lane_active(lane)):
        handle = b.element(handle_slots, I64, lane)
        record = _object(b, handle, L.TextureRole.SURFACE, geometry, lane)
        with b.if_(b.icmp("eq", record, NULL), likely=False):
            b.leave(nowhere)
        extent = [b.resize(_field(b, record, "extent", k), I64) for k in range(3)]
        texel_bytes = b.resize(_field(b, record, "texel_bytes"), I64)
        given = [b.element(s, I32, lane) for s in slots]
        place = [b.resize(v, I64, signed=True) for v in given]
        row_bytes = b.mul(extent[0], texel_bytes)
        last_start = b.sub(row_bytes, size)
        clamps = b.and_(_is(b, outside, CLAMP), b.icmp("sge", last_start, i64(0)))
        last_start = b.and_(last_start, b.sub(i64(0), size))  # a place for SIZE bytes begins at a multiple of them
        lasts = [last_start, b.add_const(extent[1], -1), b.add_const(extent[2], -1)]
        at = [b.select(clamps, _clamped(b, p, last), p) for p, last in zip(place, lasts, strict=True)]
        inside = b.and_(b.icmp("sge", at[0], i64(0)), b.icmp("sle", b.add(at[0], size), row_bytes))
        for p, length in zip(at[1:], extent[1:], strict=True):
            inside = b.and_(inside, b.icmp("ult", p, length))
        with b.if_(b.not_(b.or_(inside, _is(b, outside, ZERO))), likely=False):
            for k, v in enumerate(given):
                b.store(v, b.offset(WORKER, L.field("texture_place") + 4 * k))
            code = i32(L.TextureProblem.OUTSIDE)
            b.call("ws_texture_problem", "void", WORKER, CONTEXT, code, handle, lane)
            b.leave(nowhere)
        address = b.add(_field(b, record, "base"), at[0])
        for p, name in zip(at[1:], ("row_bytes", "slice_bytes"), strict=True):
            address = b.add(address, b.mul(p, _field(b, record, name)))
        b.set_element(result, b.select(inside, address, i64(0)), lane)
    b.ret(b.load(I64, result, WARP, align=64))
