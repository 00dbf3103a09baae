"""Textures and surfaces (PTX ISA 9.7.10, 9.7.11): which functions of `runtime.textures` an instruction calls.

A fetch is a call that reads texels by itself: what it reads is not watched, since a GPU's texture cache does not see
writes of the same launch either. A surface access is a call that finds addresses, and then an access of global memory
like any other: checked, and looked at for races.
"""

from __future__ import annotations

from ptxsim.analysis.lanes import Lanes
from ptxsim.codegen import layout as L
from ptxsim.codegen.access import MemoryAccess, finish, gather_scatter, stored_values
from ptxsim.codegen.accounting import account
from ptxsim.codegen.emit import CONTEXT, WARP, WORKER, IRValue, constant
from ptxsim.codegen.runtime.textures import ARRAY_ALONE, CLAMP, NO_COMPONENT, ZERO
from ptxsim.codegen.translator import Translator
from ptxsim.codegen.values import handles, unsupported
from ptxsim.syntax.program import (
    Address,
    Immediate,
    Instruction,
    Operand,
    Register,
    ResultPair,
    bytes_of,
    elements_of,
)
from ptxsim.texture import CUBES

_DIMENSIONS = {"1d": 1, "2d": 2, "3d": 3, "a1d": 1, "a2d": 2, "cube": 2, "acube": 2}
"""Of a place in the image; a cube's is that on a face."""


def _place(t: Translator, i: Instruction, operand: Operand) -> tuple[IRValue, str, list[Operand], Operand]:
    """(handles, geometry, coordinates x, y, z, layer) of a place; what there is none of is 0."""
    if not isinstance(operand, Address):
        raise unsupported(i)
    geometry = next(m for m in i.modifiers if m in _DIMENSIONS)
    coordinates, layer = list(operand.coordinates), Immediate(0)
    if geometry[0] == "a":
        layer = coordinates.pop(0)  # type: ignore[assignment] # whatever it is
    count = 3 if geometry in CUBES else _DIMENSIONS[geometry]
    axes = [*coordinates[:count], *[Immediate(0)] * (3 - count)]
    return t.source(operand.base, "u64", WARP), geometry, axes, layer


def _on_face(t: Translator, x: IRValue, y: IRValue, z: IRValue) -> tuple[list[IRValue], IRValue]:
    """Where a direction meets a cube: the place on the face, from 0 to 1, and the face's number.

    The longest coordinate says which face; of equal ones z comes before y, and y before x.
    """
    along = [t.intrinsic("fabs", v) for v in (x, y, z)]
    on_z = t.and_(t.fcmp("oge", along[2], along[0]), t.fcmp("oge", along[2], along[1]))
    on_y = t.and_(t.not_(on_z), t.fcmp("oge", along[1], along[0]))

    def chosen(of_x: IRValue, of_y: IRValue, of_z: IRValue) -> IRValue:
        return t.select(on_z, of_z, t.select(on_y, of_y, of_x))

    def less(v: IRValue) -> IRValue:
        return t.binary("fsub", t.like(v, -0.0), v)

    behind = t.fcmp("olt", chosen(x, y, z), t.like(x, 0.0))
    right = chosen(t.select(behind, z, less(z)), x, t.select(behind, less(x), x))
    down = chosen(less(y), t.select(behind, less(z), z), less(y))
    length, one, half = chosen(*along), t.like(x, 1.0), t.like(x, 0.5)
    slopes = [t.binary("fdiv", v, length) for v in (right, down)]
    places = [t.binary("fmul", t.binary("fadd", slope, one), half) for slope in slopes]
    first = chosen(*(constant("i32", n, WARP) for n in (0, 2, 4)))
    return [*places, t.like(x, 0.0)], t.add(first, t.resize(behind, "i32"))


def _geometry(name: str, flags: int = 0) -> IRValue:
    return constant("i32", L.GEOMETRIES.index(name) | flags)


def _stop_at_problems(t: Translator, i: Instruction) -> None:
    """Ends the launch where the call before has noted why it could not go on."""
    noted = t.load("i32", t.offset(WORKER, L.field("texture_problem")))
    with t.leaving(lambda: t.icmp("ne", noted, constant("i32", 0)), "problem"):
        t.fault(L.FAULT_TEXTURE, i.source.line)


# ---------------------------------------------------------------- textures


@handles("tex", "tld4")
def _fetch(t: Translator, i: Instruction) -> None:
    target, where = i.operands
    t.count("texture_instructions", i.source.line, per_warp=1)
    objects, geometry, axes, layer = _place(t, i, where)
    out = t.area("texels", 4 * 4 * WARP)
    if i.type == "s32":
        t.call("ws_texture_linear", "void", WORKER, CONTEXT, objects, t.source(axes[0], "s32", WARP), t.active, out)
    else:
        places, level = [t.source(axis, "f32", WARP) for axis in axes], t.source(layer, "u32", WARP)
        if geometry in CUBES:
            places, face = _on_face(t, *places)
            level = t.add(t.mul(level, t.like(level, 6)), face)
        gathered = next(("rgba".index(m) for m in i.modifiers if m in ("r", "g", "b", "a")), NO_COMPONENT)
        t.call(
            "ws_texture", "void", WORKER, CONTEXT, objects, *places, level, t.active,
            _geometry(geometry, ARRAY_ALONE if i.opcode == "tld4" else 0), constant("i32", _DIMENSIONS[geometry]),
            constant("i32", gathered), out,
        )  # fmt: skip
    _stop_at_problems(t, i)
    if isinstance(target, ResultPair):  # whether the texels are resident: there are no sparse arrays
        t.write(target.second, constant("i1", 1, WARP), Lanes())
        target = target.first
    for k, element in enumerate(elements_of(target)):
        t.write(element, t.load("i32", t.offset(out, 4 * WARP * k), WARP, align=64), Lanes())


@handles("txq", "suq")
def _query(t: Translator, i: Instruction) -> None:
    target, where = i.operands
    if not isinstance(where, Address) or not isinstance(where.base, Register) or where.offset:
        raise unsupported(i)
    role = L.TextureRole.TEXTURE if i.opcode == "txq" else L.TextureRole.SURFACE
    name = next({"normalized_coords": "normalized_coordinates"}.get(m, m) for m in i.modifiers if m != "b32")
    objects, field = t.source(where.base, "u64", WARP), getattr(L.TextureRecord, name).offset
    numbers = (constant("i32", role), constant("i32", field))
    found = t.call("ws_texture_query", "i32", WORKER, CONTEXT, objects, t.active, *numbers, lanes=WARP)
    _stop_at_problems(t, i)
    t.write(target, found, Lanes())


# ---------------------------------------------------------------- surfaces


@handles("suld", "sust")
def _surface(t: Translator, i: Instruction) -> None:
    is_load = i.opcode == "suld"
    what, where = i.operands if is_load else i.operands[::-1]
    name = f"surface_{'load' if is_load else 'store'}_instructions"
    t.count(name, i.source.line, per_warp=1)
    site = t.unit.site(i, "global", "read" if is_load else "write")
    a = MemoryAccess(
        i, "global", is_load, Address(Immediate(0)), elements_of(what), bytes_of(i.type), site, t.unit.options.exact
    )
    values = stored_values(t, a)
    objects, geometry, axes, layer = _place(t, i, where)
    x, y, z = (t.source(axis, "s32", WARP) for axis in axes)
    if geometry[0] == "a":
        z = t.source(layer, "s32", WARP)
    outside = CLAMP if i.has("clamp") else ZERO if i.has("zero") else 0
    address = t.call(
        "ws_surface", "i64", WORKER, CONTEXT, objects, x, y, z, t.active, constant("i32", a.bytes_),
        _geometry(geometry), constant("i32", outside), lanes=WARP,
    )  # fmt: skip
    _stop_at_problems(t, i)
    moves = t.and_(t.active, t.mask_bits(t.icmp("ne", address, t.like(address, 0))))
    mask = account(t, a, "global", address, moves)
    finish(t, a, gather_scatter(t, a, address, values, mask), Lanes())
