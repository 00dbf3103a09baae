"""A small writer of LLVM IR text: typed values, one method per instruction, structured helpers.

A `Value` is a scalar (`lanes == 0`) or a vector of `lanes` elements. Nothing is optimised here beyond what saves text;
LLVM promotes the registers to SSA and selects instructions.

Why text: llvmlite takes nothing else, the disk cache's keys are made of it, `warpschool profile` shows it, and a line
of text costs a seventh of what the objects of `llvmlite.ir` cost, while somebody waits for a kernel's first launch.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from ptxsim.limits import WARP as WARP

BITS = {
    "i1": 1,
    "i2": 2,
    "i4": 4,
    "i8": 8,
    "i16": 16,
    "i32": 32,
    "i64": 64,
    "i128": 128,
    "half": 16,
    "bfloat": 16,
    "float": 32,
    "double": 64,
    "ptr": 64,
}
_SUFFIX = {"float": "f32", "double": "f64", "half": "f16", "bfloat": "bf16"}


class Value(NamedTuple):
    """An IR value: element type, text (`%t7` or a constant) and number of lanes (0: scalar)."""

    type: str
    text: str
    lanes: int = 0

    @property
    def ir_type(self) -> str:
        return f"<{self.lanes} x {self.type}>" if self.lanes else self.type

    def __str__(self) -> str:
        return f"{self.ir_type} {self.text}"


def ir_type(type_: str, lanes: int = 0) -> str:
    return f"<{lanes} x {type_}>" if lanes else type_


def mangled(type_: str, lanes: int = 0) -> str:
    """The suffix with which LLVM names an overloaded intrinsic."""
    base = _SUFFIX.get(type_, "p0" if type_ == "ptr" else type_)
    return f"v{lanes}{base}" if lanes else base


def float_constant(type_: str, bits: int) -> str:
    """Text of a floating-point constant from its raw bits."""
    if type_ == "float":
        value = struct.unpack("<f", struct.pack("<I", bits & 0xFFFFFFFF))[0]
        if value != value:  # keep the payload of a NaN: widen its fraction by hand
            wide = ((bits >> 31 & 1) << 63) | (0x7FF << 52) | ((bits & 0x7FFFFF) << 29)
            return f"0x{wide:016X}"
        return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"
    if type_ == "double":
        return f"0x{bits & (1 << 64) - 1:016X}"
    return f"0x{'R' if type_ == 'bfloat' else 'H'}{bits & 0xFFFF:04X}"


def constant(type_: str, value: int | float, lanes: int = 0) -> Value:
    """A constant from a number; integers are wrapped to the type's width."""
    if type_ in ("float", "double", "half", "bfloat"):
        if type_ == "half":
            bits = struct.unpack("<H", struct.pack("<e", value))[0]
        elif type_ == "bfloat":
            bits = struct.unpack("<I", struct.pack("<f", value))[0] >> 16
        elif type_ == "float":
            bits = struct.unpack("<I", struct.pack("<f", value))[0]
        else:
            bits = struct.unpack("<Q", struct.pack("<d", value))[0]
        text = float_constant(type_, bits)
    elif type_ == "i1":
        text = "true" if value else "false"
    else:
        width = BITS[type_]
        wrapped = int(value) & ((1 << width) - 1)
        text = str(wrapped - (1 << width) if wrapped >> (width - 1) else wrapped)
    return Value(type_, f"splat ({type_} {text})" if lanes else text, lanes)


ALL_LANES = constant("i32", -1)
"""The mask of a whole warp."""


def constants(type_: str, values: Sequence[int]) -> Value:
    """A constant vector of integers."""
    if len(set(values)) == 1:
        return constant(type_, values[0], len(values))
    items = ", ".join(f"{type_} {constant(type_, v).text}" for v in values)
    return Value(type_, f"<{items}>", len(values))


_ZEROS = frozenset({"0", "splat (i32 0)", "0x0000000000000000", "splat (float 0x0000000000000000)"})
"""Texts of zeros, which stay constants when their bits are read as another type."""


class Builder:
    """Collects the lines of one function body and the declarations that it needs."""

    def __init__(self, prefix: str = "v") -> None:
        self.lines: list[str] = []
        self.declared: dict[str, str] = {}
        self.label_now = "entry"
        self._count = 0
        self._prefix = prefix

    # -- text ---------------------------------------------------------------------------------------------------
    def name(self) -> str:
        self._count += 1
        return f"%{self._prefix}{self._count}"

    def emit(self, text: str) -> None:
        self.lines.append(text)

    def let(self, type_: str, lanes: int, text: str) -> Value:
        name = self.name()
        self.lines.append(f"{name} = {text}")
        return Value(type_, name, lanes)

    # -- labels and branches --------------------------------------------------------------------------------------
    def new_label(self, hint: str = "L") -> str:
        self._count += 1
        return f"{hint}.{self._prefix}{self._count}"

    def label(self, label: str) -> None:
        self.lines.append(f"{label}:")
        self.label_now = label

    def br(self, label: str) -> None:
        self.lines.append(f"br label %{label}")

    def branch(self, condition: Value, yes: str, no: str, likely: bool | None = None) -> None:
        weights = "" if likely is None else ", !prof !1" if likely else ", !prof !2"
        self.lines.append(f"br i1 {condition.text}, label %{yes}, label %{no}{weights}")

    def ret(self, value: Value | None = None) -> None:
        self.lines.append(f"ret {value}" if value else "ret void")

    @contextmanager
    def if_(self, condition: Value, likely: bool | None = None) -> Iterator[None]:
        """Code that runs only where `condition` holds."""
        yes, end = self.new_label("then"), self.new_label("end")
        self.branch(condition, yes, end, likely)
        self.label(yes)
        yield
        self.br(end)
        self.label(end)

    @contextmanager
    def leaving(self, condition: Callable[[], Value], yes: str, no: str = "goon") -> Iterator[None]:
        """Code that leaves the function where a condition holds, which is rare; `yes` and `no` name the labels."""
        leaves, stays = self.new_label(yes), self.new_label(no)
        self.branch(condition(), leaves, stays, likely=False)
        self.label(leaves)
        yield
        self.label(stays)

    @contextmanager
    def loop(self, count: Value) -> Iterator[Value]:
        """`for (i = 0; i < count; i++)`, for count >= 0; yields i."""
        head, body, end = self.new_label("for"), self.new_label("body"), self.new_label("end")
        before = self.label_now
        index, following = self.name(), self.name()
        self.br(head)
        self.label(head)
        phi_at = len(self.lines)
        self.lines.append("")
        i = Value(count.type, index)
        self.branch(self.icmp("ult", i, count), body, end)
        self.label(body)
        yield i
        self.lines.append(f"{following} = add {count.type} {index}, 1")
        self.lines[phi_at] = f"{index} = phi {count.type} [0, %{before}], [{following}, %{self.label_now}]"
        self.br(head)
        self.label(end)

    def phi(self, *arms: tuple[Value, str]) -> Value:
        first = arms[0][0]
        incoming = ", ".join(f"[{v.text}, %{label}]" for v, label in arms)
        return self.let(first.type, first.lanes, f"phi {first.ir_type} {incoming}")

    # -- arithmetic -----------------------------------------------------------------------------------------------
    def binary(self, op: str, x: Value, y: Value) -> Value:
        return self.let(x.type, x.lanes, f"{op} {x.ir_type} {x.text}, {y.text}")

    def add(self, x: Value, y: Value) -> Value:
        return self.binary("add", x, y)

    def sub(self, x: Value, y: Value) -> Value:
        return self.binary("sub", x, y)

    def mul(self, x: Value, y: Value) -> Value:
        return self.binary("mul", x, y)

    def and_(self, x: Value, y: Value) -> Value:
        return self.binary("and", x, y)

    def or_(self, x: Value, y: Value) -> Value:
        return self.binary("or", x, y)

    def xor(self, x: Value, y: Value) -> Value:
        return self.binary("xor", x, y)

    def like(self, x: Value, value: int | float) -> Value:
        """A constant of x's type and lanes."""
        return constant(x.type, value, x.lanes)

    def add_const(self, x: Value, value: int) -> Value:
        return x if value == 0 else self.add(x, self.like(x, value))

    def shl(self, x: Value, bits: int) -> Value:
        return x if bits == 0 else self.binary("shl", x, self.like(x, bits))

    def lshr(self, x: Value, bits: int) -> Value:
        return x if bits == 0 else self.binary("lshr", x, self.like(x, bits))

    def and_const(self, x: Value, value: int) -> Value:
        return self.and_(x, self.like(x, value))

    def not_(self, x: Value) -> Value:
        return self.xor(x, self.like(x, -1 if x.type != "i1" else 1))

    def icmp(self, predicate: str, x: Value, y: Value) -> Value:
        return self.let("i1", x.lanes, f"icmp {predicate} {x.ir_type} {x.text}, {y.text}")

    def fcmp(self, predicate: str, x: Value, y: Value) -> Value:
        return self.let("i1", x.lanes, f"fcmp {predicate} {x.ir_type} {x.text}, {y.text}")

    def select(self, condition: Value, x: Value, y: Value) -> Value:
        return self.let(x.type, x.lanes, f"select {condition}, {x}, {y}")

    def convert(self, op: str, x: Value, type_: str) -> Value:
        return self.let(type_, x.lanes, f"{op} {x} to {ir_type(type_, x.lanes)}")

    def resize(self, x: Value, type_: str, signed: bool = False) -> Value:
        """Integer x extended or truncated to `type_`."""
        have, want = BITS[x.type], BITS[type_]
        if have == want:
            return x
        return self.convert("trunc" if want < have else "sext" if signed else "zext", x, type_)

    def bitcast(self, x: Value, type_: str, lanes: int | None = None) -> Value:
        lanes = x.lanes if lanes is None else lanes
        if (x.type, x.lanes) == (type_, lanes):
            return x
        if x.text in _ZEROS and x.lanes == lanes:
            return constant(type_, 0, lanes)
        return self.let(type_, lanes, f"bitcast {x} to {ir_type(type_, lanes)}")

    def call(self, name: str, result: str, *args: Value, lanes: int = 0) -> Value:
        """Calls `name`, declaring it; `result` is the element type or "void"."""
        arguments = ", ".join(str(a) for a in args)
        returned = ir_type(result, lanes)
        self.declared[name] = f"declare {returned} @{name}({', '.join(a.ir_type for a in args)})"
        if result == "void":
            self.lines.append(f"call void @{name}({arguments})")
            return Value("void", "")
        return self.let(result, lanes, f"call {returned} @{name}({arguments})")

    def intrinsic(self, name: str, *args: Value, result: str | None = None) -> Value:
        """An LLVM intrinsic that is overloaded on its first argument's type, `llvm.fma`."""
        x = args[0]
        return self.call(f"llvm.{name}.{mangled(x.type, x.lanes)}", result or x.type, *args, lanes=x.lanes)

    def first_bit(self, mask: Value) -> Value:
        """The lowest lane of a mask that has one."""
        return self.call("llvm.cttz.i32", "i32", mask, Value("i1", "true"))

    # -- vectors --------------------------------------------------------------------------------------------------
    def splat(self, x: Value, lanes: int = WARP) -> Value:
        if not x.text.startswith("%"):
            return Value(x.type, f"splat ({x.type} {x.text})", lanes)
        one = self.let(x.type, lanes, f"insertelement <{lanes} x {x.type}> poison, {x}, i32 0")
        return self.let(
            x.type, lanes, f"shufflevector {one}, <{lanes} x {x.type}> poison, <{lanes} x i32> zeroinitializer"
        )

    def shuffle(self, x: Value, indices: Sequence[int | None], y: Value | None = None) -> Value:
        if y is None and list(indices) == list(range(x.lanes)):
            return x
        second = y or Value(x.type, "poison", x.lanes)
        items = ", ".join("i32 poison" if i is None else f"i32 {i}" for i in indices)
        return self.let(x.type, len(indices), f"shufflevector {x}, {second}, <{len(indices)} x i32> <{items}>")

    def extract(self, x: Value, lane: int | Value) -> Value:
        index = str(lane) if isinstance(lane, Value) else f"i32 {lane}"
        return self.let(x.type, 0, f"extractelement {x}, {index}")

    def insert(self, x: Value, element: Value, lane: int | Value) -> Value:
        index = str(lane) if isinstance(lane, Value) else f"i32 {lane}"
        return self.let(x.type, x.lanes, f"insertelement {x}, {element}, {index}")

    def concat(self, parts: Sequence[Value]) -> Value:
        """Joins vectors end to end."""
        parts = list(parts)
        while len(parts) > 1:
            joined = []
            for k in range(0, len(parts) - 1, 2):
                a, b = parts[k], parts[k + 1]
                width = max(a.lanes, b.lanes)
                wide_a, wide_b = self._widen(a, width), self._widen(b, width)
                joined.append(self.shuffle(wide_a, [*range(a.lanes), *range(width, width + b.lanes)], wide_b))
            parts = joined + ([parts[-1]] if len(parts) % 2 else [])
        return parts[0]

    def _widen(self, x: Value, lanes: int) -> Value:
        return x if x.lanes == lanes else self.shuffle(x, [*range(x.lanes), *[None] * (lanes - x.lanes)])

    def mask_bits(self, x: Value) -> Value:
        """A vector of i1 as an integer with one bit per lane."""
        return self.let(f"i{x.lanes}", 0, f"bitcast {x} to i{x.lanes}")

    def bits_mask(self, x: Value, lanes: int = WARP) -> Value:
        return self.let("i1", lanes, f"bitcast {x} to <{lanes} x i1>")

    def all_true(self, x: Value) -> Value:
        if not x.lanes:
            return x
        bits = self.mask_bits(x)
        return self.let("i1", 0, f"icmp eq i{x.lanes} {bits.text}, -1")

    # -- memory ---------------------------------------------------------------------------------------------------
    def pointer(self, address: Value) -> Value:
        """An integer address as a pointer."""
        return address if address.type == "ptr" else self.convert("inttoptr", address, "ptr")

    def offset(self, pointer: Value, bytes_: int | Value) -> Value:
        if isinstance(bytes_, int):
            return pointer if bytes_ == 0 else self.let("ptr", 0, f"getelementptr i8, {pointer}, i64 {bytes_}")
        return self.let("ptr", 0, f"getelementptr i8, {pointer}, {bytes_}")

    def load(
        self, type_: str, pointer: Value, lanes: int = 0, align: int | None = None, invariant: bool = False
    ) -> Value:
        align = align or max(1, BITS[type_] // 8)
        tail = ", !invariant.load !0" if invariant else ""
        return self.let(type_, lanes, f"load {ir_type(type_, lanes)}, {pointer}, align {align}{tail}")

    def store(self, value: Value, pointer: Value, align: int | None = None, streamed: bool = False) -> None:
        """`streamed`: past the host's caches; for whole lines of them that nobody reads soon."""
        align = align or max(1, BITS[value.type] // 8)
        tail = ", !nontemporal !3" if streamed else ""
        self.lines.append(f"store {value}, {pointer}, align {align}{tail}")

    def increment(self, pointer: Value, by: Value) -> None:
        """*pointer += by"""
        self.store(self.add(self.load(by.type, pointer), by), pointer)

    # -- functions --------------------------------------------------------------------------------------------------
    def function(self, header: str) -> str:
        """The finished function; `header` is everything between `define` and the brace."""
        return f"define {header} {{\n" + "\n".join(self.lines) + "\n}\n"


METADATA = """!0 = !{}
!1 = !{!"branch_weights", i32 100000, i32 1}
!2 = !{!"branch_weights", i32 1, i32 100000}
!3 = !{i32 1}
"""


def module_text(functions: Iterable[str], declared: dict[str, str], defined: Iterable[str] = ()) -> str:
    """One IR module from finished functions and the declarations that they need."""
    known = set(defined)
    declarations = "\n".join(text for name, text in sorted(declared.items()) if name not in known)
    return "\n".join([*functions, declarations, METADATA])
