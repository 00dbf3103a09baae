"""What freeing a block of the device heap means to the race shadow."""

from __future__ import annotations

from ptxsim.codegen.emit import (
    ADDRESS,
    CONTEXT,
    GRANULES,
    I32,
    I64,
    KIND,
    MASK,
    NULL,
    SITE,
    WARP,
    WORKER,
    Helper,
    IRValue,
    helper,
    i32,
)
from ptxsim.codegen.layout import Site


def _each_freed(b: Helper, address: IRValue, access: str) -> None:
    """Calls an access of the whole block for each lane that frees one."""
    addresses = b.stack(address)
    with b.loop(i32(WARP)) as lane, b.if_(b.lane_active(lane)):
        at = b.element(addresses, I64, lane)
        entry = b.call("ws_find", "ptr", WORKER, at, i32(1))
        with b.if_(b.icmp("ne", entry, NULL)):
            low, high = b.load(I64, entry), b.load(I64, b.offset(entry, Site.high.offset))
            owned = b.icmp("uge", at, b.worker("heap_low", I64))
            with b.if_(b.and_(b.icmp("eq", low, at), b.and_(owned, b.icmp("ult", at, b.worker("heap_high", I64))))):
                alone, size = b.binary("shl", i32(1), lane), b.resize(b.sub(high, low), I32)
                b.call(access, "void", WORKER, CONTEXT, address, alone, size, SITE, KIND)


@helper("ws_freed_{}", "void", WORKER, CONTEXT, ADDRESS, MASK, SITE, KIND, over=GRANULES)
def freed(b: Helper, address: IRValue, granule_log2: int) -> None:
    """The lanes of `mask` free blocks."""
    _each_freed(b, address, f"ws_race_global_{granule_log2}")


@helper("ws_exact_freed_{}", "void", WORKER, CONTEXT, ADDRESS, MASK, SITE, KIND, over=GRANULES)
def exact_freed(b: Helper, address: IRValue, granule_log2: int) -> None:
    """The same with the exact shadow."""
    _each_freed(b, address, f"ws_exact_global_{granule_log2}")
