"""A Builder with the idioms of functions that are written by hand: the runtime's, the driver, tensor cores'."""

from __future__ import annotations

from typing import ClassVar

from ptxsim.codegen import layout as L
from ptxsim.codegen.emit import Builder, Value, constant

I32, I64 = "i32", "i64"


def i32(value: int) -> Value:
    return constant(I32, value)


def i64(value: int) -> Value:
    return constant(I64, value)


def arg(type_: str, name: str, lanes: int = 0) -> Value:
    return Value(type_, f"%{name}", lanes)


WORKER, CONTEXT = arg("ptr", "w"), arg("ptr", "c")


MASK, SIZE, SITE, KIND = arg(I32, "mask"), arg(I32, "size"), arg(I32, "site"), arg(I32, "kind")


WORKER, CONTEXT = arg("ptr", "w"), arg("ptr", "c")


MASK, SIZE, SITE, KIND = arg(I32, "mask"), arg(I32, "size"), arg(I32, "site"), arg(I32, "kind")


class Helper(Builder):
    """A Builder with the idioms of the helpers; all helpers share one set of declarations."""

    declarations: ClassVar[dict[str, str]] = {}

    def __init__(self) -> None:
        super().__init__()
        self.declared = Helper.declarations

    def worker(self, name: str, type_: str) -> Value:
        return self.load(type_, self.offset(WORKER, L.field(name)))

    def stack(self, value: Value) -> Value:
        """A vector in memory, so that a loop can index its lanes."""
        slot = self.let("ptr", 0, f"alloca {value.ir_type}, align 64")
        self.store(value, slot, align=64)
        return slot

    def element(self, slot: Value, type_: str, lane: Value) -> Value:
        return self.load(type_, self.let("ptr", 0, f"getelementptr {type_}, {slot}, {lane}"))

    def variable(self, type_: str, initial: Value) -> Value:
        slot = self.let("ptr", 0, f"alloca {type_}")
        self.store(initial, slot)
        return slot

    def lane_active(self, lane: Value, mask: Value = MASK) -> Value:
        return self.icmp("ne", self.and_(self.binary("lshr", mask, lane), i32(1)), i32(0))

    def hazard(self, kind: Value, lane: Value, address: Value, state: Value) -> None:
        self.call("ws_hazard", "void", WORKER, CONTEXT, kind, SITE, lane, address, state)

    def define(self, name: str, result: str, *parameters: Value) -> str:
        listed = ", ".join(str(p) for p in parameters)
        return self.function(f"{result} @{name}({listed}) noinline")


_NOTHING = Value("ptr", "null")


def report(b: Builder, event: int, warp: Value, mask: Value, data: Value = _NOTHING) -> None:
    """Calls the listener of the worker."""
    listener = b.load("ptr", b.offset(Value("ptr", "%w"), L.field("on_sync")))
    b.emit(f"call void {listener.text}(i32 {event}, {warp}, {mask}, {data})")
