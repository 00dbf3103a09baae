"""Blocks of a cluster: who and where they are, their common barrier, and each other's shared memory (PTX ISA 9.7.13).

An address of shared::cluster has 32 bits: the offset in a block's shared memory, and above it the block's rank + 1; 0
stands for the own block, so that an address of the own shared memory is one of the cluster's too.
"""

from __future__ import annotations

from ptxsim.analysis.lanes import Lanes
from ptxsim.codegen import layout as L
from ptxsim.codegen.access import (
    MemoryAccess,
    finish,
    gather_scatter,
    plain_kind,
    report_access,
    stored_values,
    vector_address,
)
from ptxsim.codegen.accounting import account
from ptxsim.codegen.convert import in_own_block
from ptxsim.codegen.emit import CONTEXT, WARP, WORKER, IRValue, constant, tell_async
from ptxsim.codegen.shared_memory import shared_base
from ptxsim.codegen.translator import Translator
from ptxsim.codegen.values import handles
from ptxsim.syntax.program import Instruction

_OFFSET = (1 << L.CLUSTER_WINDOW_SHIFT) - 1


@handles("mapa")
def _mapa(t: Translator, i: Instruction) -> None:
    """The address of the own block's variable in the block with a rank; a generic address stays one."""
    address = t.source(i.operands[1], i.type, WARP)
    rank = t.resize(t.source(i.operands[2], "u32", WARP), address.type)
    block = t.shl(t.add_const(rank, 1), L.CLUSTER_WINDOW_SHIFT)
    window = t.and_const(address, ~0xFFFFFFFF) if address.type == "i64" else t.like(address, 0)
    t.write(i.operands[0], t.or_(window, t.or_(t.and_const(address, _OFFSET), block)), Lanes())


@handles("getctarank")
def _getctarank(t: Translator, i: Instruction) -> None:
    address = t.resize(t.source(i.operands[1], i.type, WARP), "i32")
    block = t.lshr(address, L.CLUSTER_WINDOW_SHIFT)
    own = t.splat(t.load("i32", t.offset(WORKER, L.field("rank"))))
    t.write(i.operands[0], t.select(t.icmp("eq", block, t.like(block, 0)), own, t.add_const(block, -1)), Lanes())


def cluster_hosts(
    t: Translator, a: MemoryAccess, address: IRValue, mask: IRValue, kind: int
) -> tuple[IRValue, IRValue]:
    """Host addresses for those of shared::cluster (i32), and the lanes that may go on."""
    block, offset = t.lshr(address, L.CLUSTER_WINDOW_SHIFT), t.and_const(address, _OFFSET)
    is_own = t.mask_bits(in_own_block(t, address))
    own = account(t, a, "shared", offset, t.and_(mask, is_own), kind=kind)
    away = t.and_(mask, t.not_(is_own))
    others = t.call(
        "ws_check_cluster", "i32", WORKER, CONTEXT, address, away, constant("i32", a.bytes_), t.site_number(a.site)
    )
    if t.unit.followed:
        with t.if_(t.icmp("ne", others, t.like(others, 0))):
            words = t.site_number(a.site), constant("i64", a.bytes_), constant("i64", plain_kind(a))
            tell_async(t, L.AsyncEvent.PEER, t.warp_index(), others, *words, lanes=address)
    wide = t.resize(offset, "i64")
    part = t.load("ptr", t.offset(WORKER, L.field("cluster")))
    first = t.splat(t.convert("ptrtoint", t.load("ptr", t.offset(part, L.ClusterPart.shared.offset)), "i64"))
    stride = t.splat(t.load("i64", t.offset(WORKER, L.field("shared_stride"))))
    base = t.add(first, t.mul(t.add_const(t.resize(block, "i64"), -1), stride))
    base = t.select(t.bits_mask(is_own), t.splat(shared_base(t)), base)
    return t.add(base, wide), t.or_(own, others)


def report_own(t: Translator, a: MemoryAccess, address: IRValue, mask: IRValue) -> None:
    """Tells who follows the asynchronous engines of those lanes whose address (i32) is of the own block's memory."""
    if t.unit.followed:
        own = t.and_(mask, t.mask_bits(in_own_block(t, address)))
        with t.if_(t.icmp("ne", own, t.like(own, 0))):
            report_access(t, a, t.and_const(address, _OFFSET), own)


def translate_cluster(t: Translator, a: MemoryAccess) -> None:
    """A load or store of a cluster's shared memory."""
    values = stored_values(t, a)
    finish(t, a, general_cluster(t, a, vector_address(t, a, "i32"), values, t.active), Lanes())


def general_cluster(
    t: Translator, a: MemoryAccess, address: IRValue, values: list[IRValue] | None, mask: IRValue
) -> list[IRValue]:
    report_own(t, a, address, mask)
    host, may = cluster_hosts(t, a, address, mask, a.kind)
    return gather_scatter(t, a, host, values, may)
