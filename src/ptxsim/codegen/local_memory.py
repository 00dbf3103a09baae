"""Local memory, and generic addresses that may lead anywhere."""

from __future__ import annotations

from collections.abc import Callable

from ptxsim.analysis.lanes import Lanes
from ptxsim.codegen.access import Access, book_lanes, finish, stored_values, vector_address
from ptxsim.codegen.convert import LOCAL_WINDOW, SHARED_WINDOW
from ptxsim.codegen.emit import ALL_LANES, WARP, Value, constant, constants
from ptxsim.codegen.global_memory import general_global, sector_cell
from ptxsim.codegen.shared_memory import conflict_cell, general_shared
from ptxsim.codegen.translator import Translator


def translate_local(t: Translator, a: Access) -> None:
    """Local memory is interleaved by lane in 4-byte words, as the hardware does, so equal offsets are contiguous."""
    b = t.b
    values = stored_values(t, a)
    mask: Value = t.mask_bits if t.masked else ALL_LANES  # type: ignore[attr-defined]
    offset = b.and_const(vector_address(t, a, "i64"), LOCAL_WINDOW - 1)
    if t.unit.options.check:
        mask = b.call(
            "ws_check_local", "i32", Value("ptr", "%w"), Value("ptr", "%c"), offset, mask, constant("i32", a.bytes_),
            constant("i32", a.site), constant("i64", t.kernel.local_bytes),
        )  # fmt: skip
    base = b.convert("ptrtoint", b.offset(Value("ptr", "%c"), t.unit.context.local), "i64")
    finish(t, a, local_words(t, a, offset, base, values, mask), Lanes())


def local_address(t: Translator, offset: Value, base: Value) -> Value:
    """Host addresses of local byte offsets."""
    b = t.b
    word = b.shl(b.lshr(offset, 2), 7)
    lane = constants("i64", [4 * n for n in range(WARP)])
    return b.add(b.add(word, b.and_const(offset, 3)), b.add(lane, b.splat(base)))


def local_words(
    t: Translator, a: Access, offset: Value, base: Value, values: list[Value] | None, mask: Value
) -> list[Value]:
    b, results = t.b, []
    for k in range(len(a.registers)):
        at = b.add_const(offset, k * a.element_bytes)
        if a.element_bytes <= 4:
            address = local_address(t, at, base)
            if values is None:
                results.append(b.call(f"ws_gather_{a.element}", a.element, address, mask, lanes=WARP))
            else:
                b.call(f"ws_scatter_{a.element}", "void", address, mask, values[k])
            continue
        words = []
        for half in (0, 1):
            address = local_address(t, b.add_const(at, 4 * half), base)
            if values is None:
                words.append(b.resize(b.call("ws_gather_i32", "i32", address, mask, lanes=WARP), "i64"))
            else:
                b.call("ws_scatter_i32", "void", address, mask, b.resize(b.lshr(values[k], 32 * half), "i32"))
        if words:
            results.append(b.or_(words[0], b.shl(words[1], 32)))
    return results


def translate_generic(t: Translator, a: Access) -> None:
    """A pointer that may lead anywhere: each lane goes by the window that its address is in."""
    b = t.b
    values = stored_values(t, a)
    mask: Value = t.mask_bits if t.masked else ALL_LANES  # type: ignore[attr-defined]
    address = vector_address(t, a, "i64")
    window = b.lshr(address, 56)
    in_shared = b.icmp("eq", window, b.like(window, SHARED_WINDOW >> 56))
    in_local = b.icmp("eq", window, b.like(window, LOCAL_WINDOW >> 56))
    shared_mask = b.and_(mask, b.mask_bits(in_shared))
    local_mask = b.and_(mask, b.mask_bits(in_local))
    global_mask = b.and_(mask, b.not_(b.or_(shared_mask, local_mask)))
    results = [b.like(Value(a.element, "", WARP), 0) for _ in a.registers] if a.is_load else []

    def part(space: str, which: Value, run: Callable[[], list[Value]]) -> None:
        nonlocal results
        then, end = b.new_label("part"), b.new_label("next")
        before = b.label_now
        b.branch(b.icmp("ne", which, constant("i32", 0)), then, end)
        b.label(then)
        book_lanes(t, a, space, which)
        found = run()
        if found:
            chosen = b.bits_mask(which)
            found = [b.select(chosen, f, r) for f, r in zip(found, results, strict=True)]
        then_end = b.label_now
        b.br(end)
        b.label(end)
        results = [b.phi((f, then_end), (r, before)) for f, r in zip(found, results, strict=True)]

    cell = sector_cell(t, a)
    part("global", global_mask, lambda: general_global(t, a, address, values, global_mask, cell))
    conflicts = conflict_cell(t, a)
    offset = b.resize(address, "i32")
    part("shared", shared_mask, lambda: general_shared(t, a, offset, values, shared_mask, conflicts))
    if t.kernel.local_bytes:
        base = b.convert("ptrtoint", b.offset(Value("ptr", "%c"), t.unit.context.local), "i64")
        inner = b.and_const(address, LOCAL_WINDOW - 1)

        def local() -> list[Value]:
            m = local_mask
            if t.unit.options.check:
                m = b.call(
                    "ws_check_local", "i32", Value("ptr", "%w"), Value("ptr", "%c"), inner, m,
                    constant("i32", a.bytes_), constant("i32", a.site), constant("i64", t.kernel.local_bytes),
                )  # fmt: skip
            return local_words(t, a, inner, base, values, m)

        part("local", local_mask, local)
    finish(t, a, results, Lanes())
