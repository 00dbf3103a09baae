"""Functions that are written by hand in IR: a Builder with their idioms, and how those of the runtime are declared."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from ptxsim.codegen import layout as L
from ptxsim.codegen.emit import WARP, Builder, Value, constant

I32, I64 = "i32", "i64"


def i32(value: int) -> Value:
    return constant(I32, value)


def i64(value: int) -> Value:
    return constant(I64, value)


def arg(type_: str, name: str, lanes: int = 0) -> Value:
    return Value(type_, f"%{name}", lanes)


WORKER, CONTEXT = arg("ptr", "w"), arg("ptr", "c")
NULL = Value("ptr", "null")
MASK, SIZE, SITE, KIND = arg(I32, "mask"), arg(I32, "size"), arg(I32, "site"), arg(I32, "kind")
ADDRESS, OFFSET = arg(I64, "address", WARP), arg(I32, "offset", WARP)
COUNTER, CHECKED = arg("ptr", "counter"), arg(I32, "checked")
_EVERYWHERE = (WORKER, CONTEXT, MASK, SIZE, SITE, KIND)
"""Parameters that mean the same in all functions."""
INTEGERS, GRANULES = (("i8",), ("i16",), ("i32",), ("i64",)), ((0,), (1,), (2,))
"""Variants of a function: by what is moved; by log2 of the race shadow's granules."""


class Helper(Builder):
    """A Builder with the idioms of such functions; those of the runtime share one set of declarations."""

    declarations: ClassVar[dict[str, str]] = {}

    def __init__(self, declared: dict[str, str] | None = None) -> None:
        super().__init__()
        self.declared = Helper.declarations if declared is None else declared

    def worker(self, name: str, type_: str) -> Value:
        return self.load(type_, self.offset(WORKER, L.field(name)))

    def warp(self) -> Value:
        """The warp's index in its block."""
        return self.load(I32, self.offset(CONTEXT, L.ContextLayout.WARP_INDEX))

    def stack(self, value: Value) -> Value:
        """A vector in memory, so that a loop can index its lanes."""
        slot = self.let("ptr", 0, f"alloca {value.ir_type}, align 64")
        self.store(value, slot, align=64)
        return slot

    def element(self, slot: Value, type_: str, lane: Value) -> Value:
        return self.load(type_, self.let("ptr", 0, f"getelementptr {type_}, {slot}, {lane}"))

    def set_element(self, slot: Value, value: Value, lane: Value) -> None:
        self.store(value, self.let("ptr", 0, f"getelementptr {value.type}, {slot}, {lane}"))

    def variable(self, type_: str, initial: Value) -> Value:
        slot = self.let("ptr", 0, f"alloca {type_}")
        self.store(initial, slot)
        return slot

    def lane_active(self, lane: Value, mask: Value = MASK) -> Value:
        return self.icmp("ne", self.and_(self.binary("lshr", mask, lane), i32(1)), i32(0))

    def leave(self, value: Value | None = None) -> None:
        """Returns from the middle of a function."""
        self.ret(value)
        self.label(self.new_label("unreached"))

    def hazard(self, kind: Value, lane: Value, address: Value, state: Value) -> None:
        self.call("ws_hazard", "void", WORKER, CONTEXT, kind, SITE, lane, address, state)

    def define(self, name: str, result: str, *parameters: Value, internal: bool = False) -> str:
        listed = ", ".join(map(str, parameters))
        return self.function(f"{'internal ' if internal else ''}{result} @{name}({listed}) noinline")


@dataclass(frozen=True)
class Function:
    """A function of the runtime, in its variants: `ws_gather_{}` for i8, i16, ...; also types may differ by `{}`."""

    name: str
    result: str
    parameters: tuple[Value, ...]
    body: Callable[..., None]
    """writes it: (builder, the parameters that not all functions have, the variant)"""
    variants: tuple[tuple[object, ...], ...]

    def texts(self) -> dict[str, str]:
        """Name -> IR of every variant."""
        return {self.name.format(*variant): self._text(*variant) for variant in self.variants}

    def _text(self, *variant: object) -> str:
        b, parameters = Helper(), [p._replace(type=p.type.format(*variant)) for p in self.parameters]
        b.label("entry")
        self.body(b, *(p for p in parameters if p not in _EVERYWHERE), *variant)
        if self.result == "void":
            b.ret()
        return b.define(self.name.format(*variant), self.result.format(*variant), *parameters)


def helper(
    name: str, result: str, *parameters: Value, over: tuple[tuple[object, ...], ...] = ((),)
) -> Callable[[Callable[..., None]], Function]:
    """Makes what writes a body a function of the runtime; one without a result returns at its end by itself."""
    return lambda body: Function(name, result, parameters, body, over)


def report(b: Builder, event: int, warp: Value, mask: Value, data: Value = NULL) -> None:
    """Calls the listener of the worker."""
    listener = b.load("ptr", b.offset(WORKER, L.field("on_sync")))
    b.emit(f"call void {listener.text}(i32 {event}, {warp}, {mask}, {data})")
