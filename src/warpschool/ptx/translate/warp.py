"""Instructions that look across the lanes of a warp, and those that do nothing (PTX ISA 9.7.9.6, 9.7.13)."""

from __future__ import annotations

from collections.abc import Callable

from ..emit import WARP, Value, constant, constants
from ..lanes import Lanes
from ..program import Instruction, Pair
from . import layout as L
from .translator import Translator

_UNIFORM = Lanes((0,) * WARP)


def _active(t: Translator) -> Value:
    return t.mask_bits if t.masked else constant("i32", -1)  # type: ignore[attr-defined]


def _shfl(t: Translator, i: Instruction) -> None:
    """shfl.sync.mode.b32 d|p, a, b, c, membermask. c = segment mask << 8 | clamp."""
    b = t.b
    value = t.source(i.operands[1], "b32", WARP)
    by = t.source(i.operands[2], "u32", WARP)
    control = t.source(i.operands[3], "u32", WARP)
    mode = next(m for m in i.modifiers if m in ("up", "down", "bfly", "idx"))
    lane = constants("i32", range(WARP))
    by, clamp = b.and_const(by, 31), b.and_const(control, 31)
    segment = b.and_const(b.lshr(control, 8), 31)
    fixed = b.and_(lane, segment)
    highest = b.or_(fixed, b.and_(clamp, b.not_(segment)))
    if mode == "up":
        source = b.sub(lane, by)
        inside = b.icmp("sge", source, highest)
    elif mode == "down":
        source = b.add(lane, by)
        inside = b.icmp("sle", source, highest)
    elif mode == "bfly":
        source = b.xor(lane, by)
        inside = b.icmp("sle", source, highest)
    else:
        source = b.or_(fixed, b.and_(by, b.not_(segment)))
        inside = b.icmp("sle", source, highest)
    source = b.and_const(b.select(inside, source, lane), 31)
    result = _permute(t, value, source)
    if t.masked and t.unit.options.check:
        _require_sources(t, i, source)
    t.write(i.operands[0], (result, inside) if isinstance(i.operands[0], Pair) else result, Lanes())


def _permute(t: Translator, value: Value, source: Value) -> Value:
    """value[source[lane]] for every lane, through the stack."""
    b = t.b
    return b.call("ws_permute", "i32", value, source, lanes=WARP)


def _require_sources(t: Translator, i: Instruction, source: Value) -> None:
    """A lane that reads one which is not taking part gets an undefined value: a hazard."""
    b = t.b
    site = t.unit.site(i, "warp", "read")
    present = b.and_const(b.binary("lshr", b.splat(_active(t)), source), 1)
    missing = b.and_(b.mask_bits(b.icmp("eq", present, b.like(present, 0))), _active(t))
    with b.if_(b.icmp("ne", missing, constant("i32", 0)), likely=False):
        lane = b.call("llvm.cttz.i32", "i32", missing, Value("i1", "true"))
        b.call(
            "ws_hazard", "void", Value("ptr", "%w"), Value("ptr", "%c"), constant("i32", L.WARP_SYNC),
            constant("i32", site), lane, constant("i64", 0), constant("i64", 0),
        )  # fmt: skip


def _members(t: Translator, i: Instruction) -> Value:
    """Active lanes of the instruction's member mask, which is its last operand where it has .sync."""
    if not i.has("sync"):
        return _active(t)
    mask = t.source(i.operands[-1], "b32", WARP if t.masked else 0)
    if mask.lanes:  # the lanes that are together name the same mask: take the first one's
        first = t.b.call("llvm.cttz.i32", "i32", _active(t), Value("i1", "false"))
        mask = t.b.extract(mask, t.b.and_const(first, 31))
    return t.b.and_(mask, _active(t))


def _vote(t: Translator, i: Instruction) -> None:
    b = t.b
    members = _members(t, i)
    holds = b.mask_bits(t.source(i.operands[1], "pred", WARP))
    yes = b.and_(holds, members)
    zero = constant("i32", 0)
    if i.has("ballot"):
        result = yes
    elif i.has("all"):
        result = b.icmp("eq", yes, members)
    elif i.has("any"):
        result = b.icmp("ne", yes, zero)
    else:
        result = b.or_(b.icmp("eq", yes, members), b.icmp("eq", yes, zero))
    t.write(i.operands[0], result, _UNIFORM)


def _activemask(t: Translator, i: Instruction) -> None:
    t.write(i.operands[0], _active(t), _UNIFORM)


def _match(t: Translator, i: Instruction) -> None:
    b = t.b
    value = b.resize(t.source(i.operands[1], i.type, WARP), "i64")
    members = _members(t, i)
    if i.has("all"):
        any_lane = b.call("llvm.cttz.i32", "i32", members, Value("i1", "false"))
        reference = b.extract(value, b.and_const(any_lane, 31))
        same = b.and_(b.mask_bits(b.icmp("eq", value, b.splat(reference))), members)
        agree = b.icmp("eq", same, members)
        mask = b.select(agree, members, constant("i32", 0))
        both = (b.splat(mask), b.splat(agree))
        t.write(i.operands[0], both if isinstance(i.operands[0], Pair) else both[0], Lanes())
        return
    t.write(i.operands[0], b.call("ws_match_any", "i32", value, members, lanes=WARP), Lanes())


def _redux(t: Translator, i: Instruction) -> None:
    b = t.b
    value, members = t.source(i.operands[1], i.type, WARP), _members(t, i)
    op = next(m for m in i.modifiers if m in ("add", "min", "max", "and", "or", "xor"))
    kind = "s" if i.type[0] == "s" else "u"
    neutral = {
        "add": 0, "or": 0, "xor": 0, "and": -1,
        "min": 0x7FFFFFFF if kind == "s" else -1, "max": -0x80000000 if kind == "s" else 0,
    }[op]  # fmt: skip
    filled = b.select(b.bits_mask(members), value, b.like(value, neutral))
    name = op if op in ("add", "and", "or", "xor") else kind + op
    t.write(i.operands[0], b.call(f"llvm.vector.reduce.{name}.v{WARP}i32", "i32", filled), _UNIFORM)


def _nothing(t: Translator, i: Instruction) -> None:
    """Fences and hints: blocks run one after another and a warp's accesses in order, so there is nothing to wait
    for."""


def _trap(t: Translator, i: Instruction) -> None:
    t.fault(L.FAULT_TRAP, i.source.line)
    t.b.label(t.b.new_label("after"))


def _call(t: Translator, i: Instruction) -> None:
    """printf and assert: the runtime functions that NVRTC leaves as calls."""
    from . import printing

    printing.translate(t, i)


def _bar_result(t: Translator, i: Instruction) -> None:
    """What bar.red found, read behind the barrier."""
    b, worker = t.b, Value("ptr", "%w")
    count = b.load("i32", b.offset(worker, L.field("vote_count")))
    lanes = b.load("i32", b.offset(worker, L.field("vote_lanes")))
    if i.has("popc"):
        result = count
    elif i.has("and"):
        result = b.icmp("eq", count, lanes)
    else:
        result = b.icmp("ne", count, constant("i32", 0))
    t.write(i.operands[0], result, _UNIFORM)


_IGNORED = (
    "membar", "fence", "prefetch", "prefetchu", "discard", "applypriority", "nanosleep", "griddepcontrol", "brkpt",
)  # fmt: skip

HANDLERS: dict[str, Callable[[Translator, Instruction], None]] = {
    "shfl": _shfl, "vote": _vote, "activemask": _activemask, "match": _match, "redux": _redux,
    "trap": _trap, "call": _call, "bar": _bar_result, "barrier": _bar_result, **dict.fromkeys(_IGNORED, _nothing),
}  # fmt: skip
