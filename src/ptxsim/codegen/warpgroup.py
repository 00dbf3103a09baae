"""wgmma: products of a warpgroup, begun and waited for (PTX ISA 9.7.15).

A warp computes its 16 rows where it executes `wgmma.mma_async`; a chain of products on the same sum is computed at its
last one. `wgmma.wait_group` ends a basic block: the four warps go on together, so that none lets a stage be overwritten
that another one has not read. B is made ready by the first of the four that comes to a product (`widened`): the others
find it by the number of the product in its block.
"""

from __future__ import annotations

from dataclasses import dataclass

from ptxsim.adders import FORMATS, HOPPER
from ptxsim.codegen import layout as L
from ptxsim.codegen.emit import CONTEXT, WORKER, IRValue, constant, tell_async
from ptxsim.codegen.tensor import Either, matrix_in_memory, matrix_target, to_registers, uniform, whole_warp
from ptxsim.codegen.tensor_products import MatrixForm
from ptxsim.codegen.values import handles
from ptxsim.codegen.warpgroup_products import HIGH, Place, chains_up, multiplied, wide_bytes, widened
from ptxsim.syntax.program import Block, Instruction
from ptxsim.syntax.warpgroup import Sources, WarpgroupProduct, sources, warpgroup_product

_MOST_STEPS = 4
"""Products of a chain: 64 steps of k of 16-bit numbers, a tile as wide as a swizzle."""


@dataclass(frozen=True)
class _Ready:
    """A product whose operands are known and that is still to be computed."""

    adds: IRValue
    a: IRValue
    wide: IRValue


def sum_form(p: WarpgroupProduct) -> MatrixForm:
    """How D lies in memory."""
    return MatrixForm(p.fragment("d"), "row")


def _places(s: Sources) -> tuple[Place, Place]:
    return Place(s.a_in_registers, s.turned[0], s.signs[0]), Place(False, s.turned[1], s.signs[1])


def chains(block: Block) -> dict[int, tuple[int, ...]]:
    """Position of a product -> positions of all products of its chain: they may be computed at the last."""
    found: dict[int, tuple[int, ...]] = {}
    chain: list[int] = []
    sums: frozenset[str] = frozenset()
    key: object = None
    for position, i in enumerate(block.instructions):
        if i.opcode == "wgmma" and i.has("mma_async"):
            p, s = warpgroup_product(i), sources(i)
            fits = (p, *_places(s), i.operands[0]) == key and len(chain) < _MOST_STEPS
            if not fits:
                chain, key, sums = [], (p, *_places(s), i.operands[0]), frozenset(i.written)
            if chains_up(p):
                chain.append(position)
                found |= dict.fromkeys(chain, tuple(chain))
        elif not sums.isdisjoint((*i.read, *i.written)):
            key = None
    return found


@handles("wgmma")
def _wgmma(t: Either, i: Instruction) -> None:
    """The fence and the commit say when a GPU may begin and what belongs together: nothing is left open here."""
    if i.has("mma_async"):
        _product(t, i)
    elif t.unit.followed:
        event = L.AsyncEvent.COMMIT_PRODUCTS if i.has("commit_group") else L.AsyncEvent.FENCE_PRODUCTS
        tell_async(t, event, t.warp_index(), t.active)


def _product(t: Either, i: Instruction) -> None:
    p, s = warpgroup_product(i), sources(i)
    line = i.source.line
    t.count("tensor_instructions", line, per_warp=1)
    t.count("tensor_pipe_instructions", line, per_warp=1)
    t.count("tensor_operations", line, per_warp=p.operations)
    chain = () if t.masked else t.scratch.setdefault("chains", chains(t.block)).get(t.position, ())
    step = chain.index(t.position) if chain else 0
    place_a, place_b = _places(s)
    with whole_warp(t, i):
        _report(t, i, s)
        t.scratch["product", t.position] = _Ready(
            uniform(t, i, s.adds, "pred"), _a(t, i, p, s, step), _wide(t, i, p, place_b, uniform(t, i, s.b, "u64"))
        )
        if not chain or t.position == chain[-1]:
            _compute(t, i, p, place_a, [t.scratch["product", k] for k in chain or (t.position,)])
    if not chain or t.position == chain[-1]:
        form = sum_form(p)
        to_registers(t, i.operands[0], form, matrix_target(t, i.operands[0], form, "d"))


def _report(t: Either, i: Instruction, s: Sources) -> None:
    """Which product of the kernel begins, and where its operands lie."""
    if not t.unit.followed:
        return
    site = t.site_number(t.unit.site(i, "shared", "read"))
    a = constant("i64", 0) if s.a_in_registers else uniform(t, i, s.a, "u64")
    words = (site, t.product_number(i), a, uniform(t, i, s.b, "u64"))
    tell_async(t, L.AsyncEvent.PRODUCT, t.warp_index(), t.active, *words)


def _a(t: Either, i: Instruction, p: WarpgroupProduct, s: Sources, step: int) -> IRValue:
    """A's descriptor, or its registers as a matrix, each step's own, that stays until the end of the chain."""
    if not s.a_in_registers:
        return uniform(t, i, s.a, "u64")
    return matrix_in_memory(t, s.a, MatrixForm(p.fragment("a"), "row"), f"a {step}")


def _wide(t: Either, i: Instruction, p: WarpgroupProduct, place: Place, descriptor: IRValue) -> IRValue:
    """Where B lies, made ready by this warp or another one of the warpgroup."""
    at = t.offset(CONTEXT, L.ContextLayout.PRODUCTS)
    number = t.load("i32", at)
    t.store(t.add_const(number, 1), at)
    warpgroup, entries = t.lshr(t.warp_index(), 2), t.unit.wide_entries
    assert entries, "the worker has room for none"
    entry = t.add(t.mul(warpgroup, t.like(warpgroup, entries)), t.and_const(number, entries - 1))
    slot = t.offset(t.field("wide", "ptr"), t.mul(t.resize(entry, "i64"), constant("i64", L.WIDE_BYTES)))
    block = t.add_const(t.load("i64", t.offset(WORKER, L.field("block"))), 1)
    tag = t.or_(t.shl(block, 32), t.resize(number, "i64"))
    same = t.and_(
        t.icmp("eq", t.load("i64", slot), tag), t.icmp("eq", t.load("i64", t.offset(slot, 8)), descriptor)
    )  # fmt: skip
    data = t.offset(slot, L.WIDE_HEADER)
    with t.if_(t.not_(same), likely=False):
        t.store(tag, slot)
        t.store(descriptor, t.offset(slot, 8))
        t.call_library(widened(p, place, t.unit.wide_vectors), *_shared(t), descriptor, data, _outside(t))
    return data


def _shared(t: Either) -> tuple[IRValue, IRValue]:
    return t.load("ptr", t.offset(WORKER, L.field("shared"))), t.load("i64", t.offset(WORKER, L.field("shared_bytes")))


def _outside(t: Either) -> IRValue:
    return t.offset(WORKER, L.field("outside"))


def _compute(t: Either, i: Instruction, p: WarpgroupProduct, place: Place, steps: list[_Ready]) -> None:
    form = sum_form(p)
    result = matrix_in_memory(t, i.operands[0], form, "d")
    row = t.shl(t.resize(t.and_const(t.warp_index(), 3), "i64"), HIGH.bit_length() - 1)
    flat = [x for step in steps for x in (step.adds, step.a, step.wide)]
    silicon = t.unit.options.tensor_sums == HOPPER and p.a in FORMATS
    function = multiplied(p, place, len(steps), t.unit.wide_vectors, silicon)
    t.call_library(function, *_shared(t), row, result, _outside(t), *flat)
    with t.if_(t.icmp("ne", t.load("i32", _outside(t)), constant("i32", 0)), likely=False):
        t.store(constant("i32", 0), _outside(t))
        t.hazard(L.SHARED_OUT_OF_BOUNDS, t.unit.site(i, "shared", "read"), constant("i32", 0))


assert wide_bytes(WarpgroupProduct("m16n256k16", "f32", "f16", "f16")) <= L.WIDE_BYTES - L.WIDE_HEADER
