"""Instructions that look across the lanes of a warp, leave the program, or do nothing (PTX ISA 9.7.9.6, 9.7.13).

printf: each lane leaves a record in the worker's print buffer, a header (see layout.PRINT_HEADER) and the argument
buffer's bytes, read from the lane's local memory; the host formats them afterwards.
"""

from __future__ import annotations

from ptxsim.analysis.lanes import Lanes
from ptxsim.codegen import layout as L
from ptxsim.codegen.emit import WARP, Builder, Value, constant, constants
from ptxsim.codegen.functions import CONTEXT, WORKER, Helper, arg, i32, i64, report
from ptxsim.codegen.translator import Translator, barrier_operands
from ptxsim.codegen.values import handles, unsupported
from ptxsim.syntax.program import Instruction, Origin, Pair, Register, Symbol

_UNIFORM = Lanes((0,) * WARP)


def _active(t: Translator) -> Value:
    return t.active


@handles("shfl")
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
    present = b.and_const(b.binary("lshr", b.splat(t.active), source), 1)
    missing = b.and_(b.mask_bits(b.icmp("eq", present, b.like(present, 0))), t.active)
    with b.if_(b.icmp("ne", missing, constant("i32", 0)), likely=False):
        lane = b.first_bit(missing)
        b.call(
            "ws_hazard", "void", WORKER, CONTEXT, constant("i32", L.WARP_SYNC),
            constant("i32", site), lane, constant("i64", 0), constant("i64", 0),
        )  # fmt: skip


def _members(t: Translator, i: Instruction) -> Value:
    """Active lanes of the instruction's member mask: one mask, or one per lane where lanes may name different ones."""
    active = t.active
    if not i.has("sync"):
        return active
    operand = i.operands[-1]
    pattern = t.unit.analysis.operand(operand)
    together = not t.masked and pattern is not None and pattern.uniform
    mask = t.source(operand, "b32", 0 if together else WARP)
    return t.b.and_(mask, t.b.splat(active) if mask.lanes else active)


def _like(t: Translator, x: Value, members: Value) -> Value:
    """A lane mask in the form of `members`."""
    return t.b.splat(x) if members.lanes else x


def _pattern(members: Value) -> Lanes:
    return Lanes() if members.lanes else _UNIFORM


@handles("vote")
def _vote(t: Translator, i: Instruction) -> None:
    b = t.b
    members = _members(t, i)
    holds = b.mask_bits(t.source(i.operands[1], "pred", WARP))
    yes = b.and_(_like(t, holds, members), members)
    zero = b.like(yes, 0)
    if i.has("ballot"):
        result = yes
    elif i.has("all"):
        result = b.icmp("eq", yes, members)
    elif i.has("any"):
        result = b.icmp("ne", yes, zero)
    else:
        result = b.or_(b.icmp("eq", yes, members), b.icmp("eq", yes, zero))
    t.write(i.operands[0], result, _pattern(members))


@handles("activemask")
def _activemask(t: Translator, i: Instruction) -> None:
    t.write(i.operands[0], t.active, _UNIFORM)


@handles("match")
def _match(t: Translator, i: Instruction) -> None:
    b = t.b
    value = b.resize(t.source(i.operands[1], i.type, WARP), "i64")
    members = _members(t, i)
    if not members.lanes:
        members = b.splat(members)
    same = b.and_(b.call("ws_match_any", "i32", value, t.active, lanes=WARP), members)
    if i.has("all"):
        agree = b.icmp("eq", same, members)
        mask = b.select(agree, members, b.like(members, 0))
        t.write(i.operands[0], (mask, agree) if isinstance(i.operands[0], Pair) else mask, Lanes())
    else:
        t.write(i.operands[0], same, Lanes())


_NEUTRAL = {"add": 0, "or": 0, "xor": 0, "and": -1, "smin": 0x7FFFFFFF, "smax": -0x80000000, "umin": -1, "umax": 0}


@handles("redux")
def _redux(t: Translator, i: Instruction) -> None:
    b = t.b
    value, members = t.source(i.operands[1], i.type, WARP), _members(t, i)
    op = next(m for m in i.modifiers if m in ("add", "min", "max", "and", "or", "xor"))
    if op in ("min", "max"):
        op = ("s" if i.type[0] == "s" else "u") + op
    if not members.lanes:
        t.write(i.operands[0], _reduced(b, op, value, members), _UNIFORM)
        return
    name = f"redux_{op}"
    if name not in t.unit.helpers:
        t.unit.helpers[name] = _redux_by_lane(t, name, op)
    t.write(i.operands[0], b.call(name, "i32", value, members, lanes=WARP), Lanes())


def _reduced(b: Builder, op: str, value: Value, members: Value) -> Value:
    filled = b.select(b.bits_mask(members), value, b.like(value, _NEUTRAL[op]))
    return b.call(f"llvm.vector.reduce.{op}.v{WARP}i32", "i32", filled)


def _redux_by_lane(t: Translator, name: str, op: str) -> str:
    """A function that reduces, for each lane, over the lanes of its own mask."""
    b = Helper()
    b.declared = t.b.declared
    value, members = arg("i32", "value", WARP), arg("i32", "members", WARP)
    b.label("entry")
    masks, result = b.stack(members), b.stack(constant("i32", 0, WARP))
    with b.loop(i32(WARP)) as lane:
        reduced = _reduced(b, op, value, b.element(masks, "i32", lane))
        b.set_element(result, reduced, lane)
    b.ret(b.load("i32", result, WARP, align=64))
    return b.define(name, f"<{WARP} x i32>", value, members).replace("define ", "define internal ", 1)


@handles("elect")
def _elect(t: Translator, i: Instruction) -> None:
    """The lowest active lane of the mask leads."""
    b, members = t.b, _members(t, i)
    name = "llvm.cttz.v32i32" if members.lanes else "llvm.cttz.i32"
    leader = b.call(name, "i32", members, Value("i1", "true"), lanes=members.lanes)
    lane = constants("i32", range(WARP))
    is_leader = b.icmp("eq", leader if leader.lanes else b.splat(leader), lane)
    target = i.operands[0]
    if isinstance(target, Pair):
        t.write(target.first, leader, _pattern(members))
        t.write(target.second, is_leader, Lanes())
    else:
        t.write(target, leader, _pattern(members))


@handles("createpolicy")
def _createpolicy(t: Translator, i: Instruction) -> None:
    t.write(i.operands[0], constant("i64", 0), _UNIFORM)


@handles(
    "prefetch", "prefetchu", "discard", "applypriority", "nanosleep", "griddepcontrol", "brkpt", "pmevent",
)  # fmt: skip
def _nothing(t: Translator, i: Instruction) -> None:
    """Hints."""


@handles("trap")
def _trap(t: Translator, i: Instruction) -> None:
    faults = {Origin.STACK: L.FAULT_STACK, Origin.POINTER: L.FAULT_POINTER}
    t.fault(faults.get(i.origin, L.FAULT_TRAP), i.source.line)
    t.b.label(t.b.new_label("after"))


@handles("bar", "barrier")
def _bar(t: Translator, i: Instruction) -> None:
    if i.has("arrive"):
        number = t.of_first_lane(barrier_operands(i)[0])
        t.count("barriers", i.source.line, per_warp=1)
        if t.unit.options.exact:
            report(t.b, L.Event.ARRIVE, t.warp_index(), t.b.resize(number, "i64"))
        t.b.call("ws_bar_arrive", "void", WORKER, CONTEXT, t.active, number)
    else:
        _bar_result(t, i)


def _bar_result(t: Translator, i: Instruction) -> None:
    """What bar.red found, read behind the barrier."""
    b = t.b
    if t.unit.named:
        count, lanes = (b.load("i32", b.offset(CONTEXT, at)) for at in _VOTES_OF_WARP)
    else:
        count, lanes = (b.load("i32", b.offset(WORKER, L.field(f"vote_{n}"))) for n in ("count", "lanes"))
    if i.has("popc"):
        result = count
    elif i.has("and"):
        result = b.icmp("eq", count, lanes)
    else:
        result = b.icmp("ne", count, constant("i32", 0))
    t.write(i.operands[0], result, _UNIFORM)


_VOTES_OF_WARP = (L.ContextLayout.VOTE_COUNT, L.ContextLayout.VOTE_LANES)


@handles("membar", "fence")
def _fence(t: Translator, i: Instruction) -> None:
    """membar or fence; `.cta` orders for the block alone."""
    if t.unit.options.exact and t.unit.partial_order:
        report(t.b, L.Event.FENCE, t.warp_index(), constant("i64", int(not i.has("cta"))))


MOST_ARGUMENT_BYTES = 256


@handles("call")
def _call(t: Translator, i: Instruction) -> None:
    """A call to vprintf(format, arguments) or __assertfail(message, file, line, function, size)."""
    callee = next((o for o in i.operands if isinstance(o, Symbol)), None)
    name = callee.name if callee else "?"
    arguments = i.operands[i.operands.index(callee) + 1 :] if callee else ()
    if name == "vprintf":
        _print(t, i, arguments[0], arguments[1])
        if isinstance(i.operands[0], Register):
            t.write(i.operands[0], constant("i32", 0, WARP), Lanes())
    elif name == "__assertfail":
        t.fault(L.FAULT_ASSERT, i.source.line)
        t.b.label(t.b.new_label("after"))
    else:
        raise unsupported(i, f"calls {name}, which is not part of the program")


def _print(t: Translator, i: Instruction, text: object, arguments: object) -> None:
    b = t.b
    formats = t.source(text, "u64", WARP)  # type: ignore[arg-type]
    buffers = b.and_const(t.source(arguments, "u64", WARP), L.LOCAL_WINDOW - 1)  # type: ignore[arg-type]
    mask = t.active
    base = b.convert("ptrtoint", b.offset(CONTEXT, t.unit.context.local), "i64")
    name = f"print_{t.kernel.local_bytes}"
    if name not in t.unit.helpers:
        t.unit.helpers[name] = _write_printer(t, name)
    status = b.call(
        name, "i32", WORKER, CONTEXT, formats, buffers, b.splat(base), mask,
        constant("i32", i.source.line),
    )  # fmt: skip
    full, fine = b.new_label("full"), b.new_label("printed")
    b.branch(b.icmp("ne", status, constant("i32", 0)), full, fine, likely=False)
    b.label(full)
    t.fault(L.FAULT_PRINT, i.source.line)
    b.label(fine)


def _write_printer(t: Translator, name: str) -> str:
    """Appends one record per active lane; returns 1 when the buffer is full."""
    b = Helper()
    b.declared = t.b.declared
    worker, context = arg("ptr", "w"), arg("ptr", "c")
    formats, buffers, base = arg("i64", "formats", WARP), arg("i64", "buffers", WARP), arg("i64", "base", WARP)
    mask, line = arg("i32", "mask"), arg("i32", "line")
    size = min(MOST_ARGUMENT_BYTES, max(4, t.kernel.local_bytes))
    b.label("entry")
    format_slot, buffer_slot = b.stack(formats), b.stack(buffers)
    base_at = b.stack(base)
    used_at = b.offset(worker, L.field("print_used"))
    warp = b.load("i32", b.offset(context, L.ContextLayout.WARP_INDEX))
    with b.loop(i32(WARP)) as lane, b.if_(b.lane_active(lane, mask)):
        used = b.load("i32", used_at)
        following = b.add_const(used, L.PRINT_HEADER.size + size)
        with b.if_(b.icmp("ugt", following, b.load("i32", b.offset(worker, L.field("print_limit")))), likely=False):
            b.leave(i32(1))
        record = b.offset(b.load("ptr", b.offset(worker, L.field("print"))), b.resize(used, "i64"))
        b.store(b.element(format_slot, "i64", lane), record)
        b.store(b.load("i64", b.offset(worker, L.field("block"))), b.offset(record, 8))
        b.store(b.add(b.shl(warp, 5), lane), b.offset(record, 16))
        b.store(i32(size), b.offset(record, 20))
        b.store(line, b.offset(record, 24))
        b.store(i32(0), b.offset(record, 28))
        start = b.element(buffer_slot, "i64", lane)
        home = b.add(b.element(base_at, "i64", lane), b.shl(b.resize(lane, "i64"), 2))
        limit = i64(t.kernel.local_bytes)
        with b.loop(i64(size)) as k:
            at = b.add(start, k)
            with b.if_(b.icmp("ult", at, limit)):
                address = b.add(home, b.add(b.shl(b.lshr(at, 2), 7), b.and_const(at, 3)))
                b.store(b.load("i8", b.pointer(address)), b.offset(record, b.add_const(k, L.PRINT_HEADER.size)))
        b.store(following, used_at)
    b.ret(i32(0))
    parameters = (worker, context, formats, buffers, base, mask, line)
    return b.define(name, "i32", *parameters).replace("define ", "define internal ", 1)
