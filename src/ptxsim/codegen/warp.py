"""Instructions that look across the lanes of a warp, leave the program, or do nothing (PTX ISA 9.7.9.6, 9.7.13).

printf: the worker reads formats, arguments and strings for a warp at a time (`run.printing`).
"""

from __future__ import annotations

from ptxsim.analysis.lanes import Lanes
from ptxsim.codegen import layout as L
from ptxsim.codegen.emit import (
    CONTEXT,
    WARP,
    WORKER,
    Builder,
    Helper,
    IRValue,
    arg,
    constant,
    constants,
    i32,
    report,
    tell_async,
)
from ptxsim.codegen.heap import call_heap
from ptxsim.codegen.translator import UNIFORM, Translator, barrier_operands
from ptxsim.codegen.values import handles, unsupported
from ptxsim.syntax.program import Immediate, Instruction, InstructionOrigin, Operand, Register, ResultPair, Symbol


@handles("shfl")
def _shfl(t: Translator, i: Instruction) -> None:
    """shfl.sync.mode.b32 d|p, a, b, c, membermask. c = segment mask << 8 | clamp."""
    value = t.source(i.operands[1], "b32", WARP)
    by, control = (t.source(o, "u32", WARP) for o in i.operands[2:4])
    mode = next(m for m in i.modifiers if m in ("up", "down", "bfly", "idx"))
    lane = constants("i32", range(WARP))
    by, clamp = t.and_const(by, 31), t.and_const(control, 31)
    segment = t.and_const(t.lshr(control, 8), 31)
    fixed = t.and_(lane, segment)
    highest = t.or_(fixed, t.and_(clamp, t.not_(segment)))
    if mode == "idx":
        source = t.or_(fixed, t.and_(by, t.not_(segment)))
    else:
        source = t.binary({"up": "sub", "down": "add", "bfly": "xor"}[mode], lane, by)
    inside = t.icmp("sge" if mode == "up" else "sle", source, highest)
    source = t.and_const(t.select(inside, source, lane), 31)
    result = t.call("ws_permute", "i32", value, source, lanes=WARP)
    require_member(t, i)
    if t.unit.options.check and (t.masked or not _names_all(i)):
        _require_sources(t, i, source)
    t.write(i.operands[0], (result, inside) if isinstance(i.operands[0], ResultPair) else result, Lanes())


def _require_sources(t: Translator, i: Instruction, source: IRValue) -> None:
    """A lane that reads one which is not taking part, or which its mask does not name, gets an undefined value: a
    hazard."""
    site = t.unit.site(i, "warp", "read")
    members = _members(t, i)
    present = t.and_const(t.binary("lshr", members if members.lanes else t.splat(members), source), 1)
    missing = t.and_(t.mask_bits(t.icmp("eq", present, t.like(present, 0))), t.active)
    with t.if_(t.icmp("ne", missing, constant("i32", 0)), likely=False):
        t.hazard(L.WARP_SYNC, site, t.first_bit(missing))


def _names_all(i: Instruction) -> bool:
    """Whether the member mask is written as all 32 lanes, or there is none."""
    mask = i.operands[-1]
    return not i.has("sync") or (isinstance(mask, Immediate) and mask.bits & 0xFFFFFFFF == 0xFFFFFFFF)


def require_member(t: Translator, i: Instruction) -> None:
    """A lane whose member mask (the last operand) does not name itself: undefined, so a hazard. A mask may name lanes
    that have not come yet."""
    if not t.unit.options.check or i.added or _names_all(i):
        return
    mask = _mask(t, i)
    if mask.lanes:
        own = t.and_const(t.binary("lshr", mask, constants("i32", range(WARP))), 1)
        left_out = t.mask_bits(t.icmp("eq", own, t.like(own, 0)))
    else:
        left_out = t.not_(mask)
    left_out = t.and_(left_out, t.active)
    site = t.unit.site(i, "warp", "barrier" if i.opcode in ("bar", "barrier") else "read")
    with t.if_(t.icmp("ne", left_out, constant("i32", 0)), likely=False):
        t.hazard(L.WARP_MEMBER, site, t.first_bit(left_out))


def _mask(t: Translator, i: Instruction) -> IRValue:
    """The member mask: one, or one per lane where lanes may name different ones."""
    operand = i.operands[-1]
    pattern = t.unit.analysis.operand(operand)
    together = not t.masked and pattern is not None and pattern.uniform
    return t.source(operand, "b32", 0 if together else WARP)


def _members(t: Translator, i: Instruction) -> IRValue:
    """Active lanes of the instruction's member mask: one mask, or one per lane where lanes may name different ones."""
    active = t.active
    if not i.has("sync"):
        return active
    mask = _mask(t, i)
    return t.and_(mask, t.splat(active) if mask.lanes else active)


def _pattern(members: IRValue) -> Lanes:
    return Lanes() if members.lanes else UNIFORM


@handles("vote")
def _vote(t: Translator, i: Instruction) -> None:
    require_member(t, i)
    members = _members(t, i)
    holds = t.mask_bits(t.source(i.operands[1], "pred", WARP))
    yes = t.and_(t.splat(holds) if members.lanes else holds, members)
    zero = t.like(yes, 0)
    if i.has("ballot"):
        result = yes
    elif i.has("all"):
        result = t.icmp("eq", yes, members)
    elif i.has("any"):
        result = t.icmp("ne", yes, zero)
    else:
        result = t.or_(t.icmp("eq", yes, members), t.icmp("eq", yes, zero))
    t.write(i.operands[0], result, _pattern(members))


@handles("activemask")
def _activemask(t: Translator, i: Instruction) -> None:
    t.write(i.operands[0], t.active, UNIFORM)


@handles("match")
def _match(t: Translator, i: Instruction) -> None:
    require_member(t, i)
    value = t.resize(t.source(i.operands[1], i.type, WARP), "i64")
    members = _members(t, i)
    if not members.lanes:
        members = t.splat(members)
    same = t.and_(t.call("ws_match_any", "i32", value, t.active, lanes=WARP), members)
    if i.has("all"):
        agree = t.icmp("eq", same, members)
        mask = t.select(agree, members, t.like(members, 0))
        t.write(i.operands[0], (mask, agree) if isinstance(i.operands[0], ResultPair) else mask, Lanes())
    else:
        t.write(i.operands[0], same, Lanes())


_NEUTRAL = {"add": 0, "or": 0, "xor": 0, "and": -1, "smin": 0x7FFFFFFF, "smax": -0x80000000, "umin": -1, "umax": 0}


@handles("redux")
def _redux(t: Translator, i: Instruction) -> None:
    require_member(t, i)
    value, members = t.source(i.operands[1], i.type, WARP), _members(t, i)
    op = next(m for m in i.modifiers if m in ("add", "min", "max", "and", "or", "xor"))
    if op in ("min", "max"):
        op = ("s" if i.type[0] == "s" else "u") + op
    if not members.lanes:
        t.write(i.operands[0], _reduced(t, op, value, members), UNIFORM)
        return
    t.write(i.operands[0], t.call(_redux_by_lane(t, op), "i32", value, members, lanes=WARP), Lanes())


def _reduced(b: Builder, op: str, value: IRValue, members: IRValue) -> IRValue:
    filled = b.select(b.bits_mask(members), value, b.like(value, _NEUTRAL[op]))
    return b.call(f"llvm.vector.reduce.{op}.v{WARP}i32", "i32", filled)


def _redux_by_lane(t: Translator, op: str) -> str:
    """A function that reduces, for each lane, over the lanes of its own mask."""
    value, members = arg("i32", "value", WARP), arg("i32", "members", WARP)

    def body(b: Helper) -> None:
        masks, result = b.stack(members), b.stack(constant("i32", 0, WARP))
        with b.loop(i32(WARP)) as lane:
            b.set_element(result, _reduced(b, op, value, b.element(masks, "i32", lane)), lane)
        b.ret(b.load("i32", result, WARP, align=64))

    return t.helper(f"redux_{op}", f"<{WARP} x i32>", (value, members), body)


@handles("elect")
def _elect(t: Translator, i: Instruction) -> None:
    """The lowest active lane of the mask leads."""
    require_member(t, i)
    members = _members(t, i)
    leader = t.intrinsic("cttz", members, IRValue("i1", "true"))
    is_leader = t.icmp("eq", leader if leader.lanes else t.splat(leader), constants("i32", range(WARP)))
    target = i.operands[0]
    if isinstance(target, ResultPair):
        t.write(target.first, leader, _pattern(members))
        t.write(target.second, is_leader, Lanes())
    else:
        t.write(target, leader, _pattern(members))


@handles("createpolicy")
def _createpolicy(t: Translator, i: Instruction) -> None:
    t.write(i.operands[0], constant("i64", 0), UNIFORM)


@handles(
    "prefetch", "prefetchu", "discard", "applypriority", "nanosleep", "griddepcontrol", "brkpt", "pmevent",
)  # fmt: skip
def _nothing(t: Translator, i: Instruction) -> None:
    """Hints."""


_FAULTS = {
    InstructionOrigin.STACK: L.FAULT_STACK, InstructionOrigin.POINTER: L.FAULT_POINTER,
    InstructionOrigin.NULL_POINTER: L.FAULT_NULL_POINTER, InstructionOrigin.HOST_POINTER: L.FAULT_HOST_POINTER,
}  # fmt: skip


@handles("trap")
def _trap(t: Translator, i: Instruction) -> None:
    t.end(_FAULTS.get(i.origin, L.FAULT_TRAP), i.source.line)


@handles("bar", "barrier")
def _bar(t: Translator, i: Instruction) -> None:
    if i.has("cluster"):
        t.call("ws_cluster_arrive", "void", WORKER, CONTEXT, t.active)
        if t.unit.options.exact and not i.has("relaxed"):  # which orders nothing
            report(t, L.Event.ARRIVE, t.warp_index(), constant("i64", L.CLUSTER_BARRIER))
    elif i.has("arrive"):
        number = t.of_first_lane(barrier_operands(i)[0])
        t.count("barriers", i.source.line, per_warp=1)
        if t.unit.options.exact:
            report(t, L.Event.ARRIVE, t.warp_index(), t.resize(number, "i64"))
        if t.unit.followed:
            tell_async(t, L.AsyncEvent.CAME, t.warp_index(), t.active, number)
        t.call("ws_bar_arrive", "void", WORKER, CONTEXT, t.active, number)
    else:
        _bar_result(t, i)


def _bar_result(t: Translator, i: Instruction) -> None:
    """What bar.red found, read behind the barrier."""
    of_warp = (CONTEXT, (L.ContextLayout.VOTE_COUNT, L.ContextLayout.VOTE_LANES))
    base, places = of_warp if t.unit.named else (WORKER, (L.field("vote_count"), L.field("vote_lanes")))
    count, lanes = (t.load("i32", t.offset(base, at)) for at in places)
    if i.has("popc"):
        result = count
    elif i.has("and"):
        result = t.icmp("eq", count, lanes)
    else:
        result = t.icmp("ne", count, constant("i32", 0))
    t.write(i.operands[0], result, UNIFORM)


@handles("membar", "fence")
def _fence(t: Translator, i: Instruction) -> None:
    """membar or fence; `.cta` orders for the block alone."""
    if t.unit.options.exact and t.unit.partial_order:
        report(t, L.Event.FENCE, t.warp_index(), constant("i64", int(not i.has("cta"))))
    if t.unit.followed and any(m.startswith("async") for m in i.modifiers):
        tell_async(t, L.AsyncEvent.FENCE, t.warp_index(), t.active)


PRINT_SPACES = ("global", "shared", "local")
"""Where strings that are printed may lie: a site for each, the numbers one after the other."""


@handles("call")
def _call(t: Translator, i: Instruction) -> None:
    """A call to vprintf(format, arguments), __assertfail(message, file, line, function, size), or of the heap."""
    callee = next((o for o in i.operands if isinstance(o, Symbol)), None)
    name = callee.name if callee else "?"
    arguments = i.operands[i.operands.index(callee) + 1 :] if callee else ()
    if name == "vprintf":
        returned = _print(t, i, arguments[0], arguments[1])
        if isinstance(i.operands[0], Register):
            t.write(i.operands[0], returned, Lanes())
    elif name == "__assertfail":
        lane = t.first_bit(t.active)
        thread = t.or_(t.shl(t.warp_index(), L.WARP_SHIFT), lane)
        t.store(thread, t.offset(WORKER, L.field("fault_thread")))
        text = t.let("i64", 0, f"extractelement {t.source(arguments[0], 'u64', WARP)}, {lane}")
        t.store(text, t.offset(WORKER, L.field("fault_text")))
        t.end(L.FAULT_ASSERT, i.source.line)
    elif i.origin is InstructionOrigin.HEAP:
        call_heap(t, i, name, arguments)
    else:
        raise unsupported(i, f"calls {name}, which is not part of the program")


def _print(t: Translator, i: Instruction, text: Operand, arguments: Operand) -> IRValue:
    """Lets the worker print for the active lanes; what each of them gets back."""
    sites = [t.unit.site(i, space, "read") for space in PRINT_SPACES]
    formats = t.offset(WORKER, L.field("print_formats"))
    t.store(t.source(text, "u64", WARP), formats, align=8)
    t.store(t.source(arguments, "u64", WARP), t.offset(WORKER, L.field("print_arguments")), align=8)
    listener = t.load("ptr", t.offset(WORKER, L.field("on_print")))
    lanes = t.or_(t.resize(t.active, "i64"), constant("i64", sites[0] << 32))
    t.emit(f"call void {listener.text}(i32 0, {t.warp_index()}, {lanes}, {CONTEXT})")
    used, limit = (t.load("i64", t.offset(WORKER, L.field(f"print_{name}"))) for name in ("used", "limit"))
    with t.leaving(lambda: t.icmp("ugt", used, limit), "full", "printed"):
        t.fault(L.FAULT_PRINT, i.source.line)
    return t.resize(t.load("i64", formats, WARP, align=8), "i32")
