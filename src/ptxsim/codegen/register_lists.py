"""Lists of registers of 32 bits that are moved by one loop, wherever in the warp's context each of them is.

So the code of an instruction with 128 registers is as short as that of one with four, and is made once.
"""

from __future__ import annotations

from functools import cache

from ptxsim.codegen.emit import CONTEXT, I32, I64, MASK, WARP, arg
from ptxsim.codegen.nans import canonical_bits
from ptxsim.codegen.tensor_products import finished, library_function


@cache
def take_registers(*, canonical: bool) -> tuple[str, str]:
    """(name, IR) of what reads registers of 32 bits: (context, places, count, target).

    `places` are words, where in the context each of them is. `canonical`: NaNs as a GPU writes them.
    """
    b = library_function()
    places, count, target = arg("ptr", "places"), arg(I64, "count"), arg("ptr", "target")
    with b.loop(count) as k:
        at = b.load(I64, b.offset(places, b.shl(k, 3)))
        value = b.load(I32, b.offset(CONTEXT, at), WARP, align=64)
        b.store(canonical_bits(b, value) if canonical else value, b.offset(target, b.shl(k, 7)), align=64)
    b.ret()
    return finished(b, f"ws_take_registers{'_canonical' * canonical}", CONTEXT, places, count, target)


@cache
def put_registers() -> tuple[str, str]:
    """(name, IR) of what writes the lanes `mask` of registers of 32 bits: (context, mask, places, count, source)."""
    b = library_function()
    places, count, source = arg("ptr", "places"), arg(I64, "count"), arg("ptr", "source")
    lanes = b.bits_mask(MASK)
    with b.loop(count) as k:
        slot = b.offset(CONTEXT, b.load(I64, b.offset(places, b.shl(k, 3))))
        value = b.load(I32, b.offset(source, b.shl(k, 7)), WARP, align=64)
        b.store(b.select(lanes, value, b.load(I32, slot, WARP, align=64)), slot, align=64)
    b.ret()
    return finished(b, "ws_put_registers", CONTEXT, MASK, places, count, source)
