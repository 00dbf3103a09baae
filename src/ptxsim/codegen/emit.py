"""A small writer of LLVM IR text: typed values, one method per instruction, structured helpers; and what functions that
are written by hand in IR share: their idioms, and how those of the runtime are declared.

An `IRValue` is a scalar (`lanes == 0`) or a vector of `lanes` elements. Nothing is optimised here beyond what saves
text; LLVM promotes the registers to SSA and selects instructions.

Why text: llvmlite takes nothing else, the disk cache's keys are made of it, `warpschool profile` shows it, and a line
of text costs a seventh of what the objects of `llvmlite.ir` cost, while somebody waits for a kernel's first launch.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from ptxsim.codegen import host, layout as L
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
_PACKED_AS = {"float": "<f", "double": "<d", "half": "<e", "bfloat": "<f"}
"""How `struct` writes a number of each floating-point type; a bfloat is the upper half."""
_SUFFIX = {"float": "f32", "double": "f64", "half": "f16", "bfloat": "bf16"}


class IRValue(NamedTuple):
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


def constant(type_: str, value: int | float, lanes: int = 0) -> IRValue:
    """A constant from a number; integers are wrapped to the type's width."""
    if type_ in _PACKED_AS:
        bits = int.from_bytes(struct.pack(_PACKED_AS[type_], value), "little")
        text = float_constant(type_, bits >> 16 if type_ == "bfloat" else bits)
    elif type_ == "i1":
        text = "true" if value else "false"
    else:
        width = BITS[type_]
        wrapped = int(value) & ((1 << width) - 1)
        text = str(wrapped - (1 << width) if wrapped >> (width - 1) else wrapped)
    return IRValue(type_, f"splat ({type_} {text})" if lanes else text, lanes)


ALL_LANES = constant("i32", -1)
"""The mask of a whole warp."""


def constants(type_: str, values: Sequence[int]) -> IRValue:
    """A constant vector of integers."""
    if len(set(values)) == 1:
        return constant(type_, values[0], len(values))
    items = ", ".join(f"{type_} {constant(type_, v).text}" for v in values)
    return IRValue(type_, f"<{items}>", len(values))


_ZEROS = frozenset({"0", "splat (i32 0)", "0x0000000000000000", "splat (float 0x0000000000000000)"})
"""Texts of zeros, which stay constants when their bits are read as another type."""


_LOGIC = ("or ", "xor ")
_REGISTER_BITS = (128, 512)
"""The smallest vector register of AVX-512, and the largest."""


class Builder:
    """Collects the lines of one function body and the declarations that it needs."""

    def __init__(self, prefix: str = "v") -> None:
        self.lines: list[str] = []
        self.declared: dict[str, str] = {}
        self.label_now = "entry"
        self._count = 0
        self._prefix = prefix
        self._logic: set[str] = set()
        """vectors whose last step is a logical one: `select` keeps it apart from its own"""
        self._origins: dict[str, IRValue] = {}
        """value -> what it has the bits of, in another type"""

    # -- text ---------------------------------------------------------------------------------------------------
    def name(self) -> str:
        self._count += 1
        return f"%{self._prefix}{self._count}"

    def emit(self, text: str) -> None:
        self.lines.append(text)

    def let(self, type_: str, lanes: int, text: str) -> IRValue:
        name = self.name()
        self.lines.append(f"{name} = {text}")
        if lanes and (text.startswith(_LOGIC) or "@llvm.copysign." in text):
            self._logic.add(name)
        return IRValue(type_, name, lanes)

    # -- labels and branches --------------------------------------------------------------------------------------
    def new_label(self, hint: str = "L") -> str:
        self._count += 1
        return f"{hint}.{self._prefix}{self._count}"

    def label(self, label: str) -> None:
        self.lines.append(f"{label}:")
        self.label_now = label

    def br(self, label: str, *, then: str | None = None) -> None:
        """`then`: the label of the code that is written next."""
        self.lines.append(f"br label %{label}")
        if then:
            self.label(then)

    def branch(
        self, condition: IRValue, yes: str, no: str, likely: bool | None = None, *, then: str | None = None
    ) -> None:
        weights = "" if likely is None else ", !prof !1" if likely else ", !prof !2"
        self.lines.append(f"br i1 {condition.text}, label %{yes}, label %{no}{weights}")
        if then:
            self.label(then)

    def ret(self, value: IRValue | None = None) -> None:
        self.lines.append(f"ret {value}" if value else "ret void")

    @contextmanager
    def if_(self, condition: IRValue, likely: bool | None = None) -> Iterator[None]:
        """Code that runs only where `condition` holds."""
        yes, end = self.new_label("then"), self.new_label("end")
        self.branch(condition, yes, end, likely, then=yes)
        yield
        self.br(end, then=end)

    @contextmanager
    def leaving(
        self, condition: IRValue | Callable[[], IRValue], yes: str, no: str = "goon", likely: bool | None = False
    ) -> Iterator[None]:
        """Code that ends in going elsewhere, where a condition holds; `yes` and `no` name the labels."""
        leaves, stays = self.new_label(yes), self.new_label(no)
        self.branch(condition if isinstance(condition, IRValue) else condition(), leaves, stays, likely, then=leaves)
        yield
        self.label(stays)

    @contextmanager
    def loop(self, count: IRValue) -> Iterator[IRValue]:
        """`for (i = 0; i < count; i++)`, for count >= 0; yields i."""
        head, body, end = self.new_label("for"), self.new_label("body"), self.new_label("end")
        before = self.label_now
        index, following = self.name(), self.name()
        self.br(head, then=head)
        phi_at = len(self.lines)
        self.lines.append("")
        i = IRValue(count.type, index)
        self.branch(self.icmp("ult", i, count), body, end, then=body)
        yield i
        self.lines.append(f"{following} = add {count.type} {index}, 1")
        self.lines[phi_at] = f"{index} = phi {count.type} [0, %{before}], [{following}, %{self.label_now}]"
        self.br(head, then=end)

    @contextmanager
    def carrying(self, count: IRValue, values: Sequence[IRValue]) -> Iterator[tuple[IRValue, list[IRValue]]]:
        """The same for count >= 1, with values that each turn hands to the next; yields i and the list of them.

        What the body leaves in the list is what they are, and behind the loop the list has them at its end.
        """
        head, end, before = self.new_label("turn"), self.new_label("over"), self.label_now
        index, following = self.name(), self.name()
        held = [IRValue(v.type, self.name(), v.lanes) for v in values]
        self.br(head, then=head)
        phis_at = len(self.lines)
        self.lines += [""] * (1 + len(held))
        current = list(held)
        yield IRValue(count.type, index), current
        self.lines.append(f"{following} = add {count.type} {index}, 1")
        last = self.label_now
        self.lines[phis_at] = f"{index} = phi {count.type} [0, %{before}], [{following}, %{last}]"
        for n, (was, value, new) in enumerate(zip(values, held, current, strict=True), phis_at + 1):
            self.lines[n] = f"{value.text} = phi {was.ir_type} [{was.text}, %{before}], [{new.text}, %{last}]"
        self.branch(self.icmp("ult", IRValue(count.type, following), count), head, end, then=end)

    def phi(self, *arms: tuple[IRValue, str]) -> IRValue:
        first = arms[0][0]
        incoming = ", ".join(f"[{v.text}, %{label}]" for v, label in arms)
        return self.let(first.type, first.lanes, f"phi {first.ir_type} {incoming}")

    # -- arithmetic -----------------------------------------------------------------------------------------------
    def binary(self, op: str, x: IRValue, y: IRValue) -> IRValue:
        return self.let(x.type, x.lanes, f"{op} {x.ir_type} {x.text}, {y.text}")

    def add(self, x: IRValue, y: IRValue) -> IRValue:
        return self.binary("add", x, y)

    def sub(self, x: IRValue, y: IRValue) -> IRValue:
        return self.binary("sub", x, y)

    def mul(self, x: IRValue, y: IRValue) -> IRValue:
        return self.binary("mul", x, y)

    def and_(self, x: IRValue, y: IRValue) -> IRValue:
        return self.binary("and", x, y)

    def or_(self, x: IRValue, y: IRValue) -> IRValue:
        return self.binary("or", x, y)

    def xor(self, x: IRValue, y: IRValue) -> IRValue:
        return self.binary("xor", x, y)

    def like(self, x: IRValue, value: int | float) -> IRValue:
        """A constant of x's type and lanes."""
        return constant(x.type, value, x.lanes)

    def add_const(self, x: IRValue, value: int) -> IRValue:
        return x if value == 0 else self.add(x, self.like(x, value))

    def shl(self, x: IRValue, bits: int) -> IRValue:
        return x if bits == 0 else self.binary("shl", x, self.like(x, bits))

    def lshr(self, x: IRValue, bits: int) -> IRValue:
        return x if bits == 0 else self.binary("lshr", x, self.like(x, bits))

    def and_const(self, x: IRValue, value: int) -> IRValue:
        return self.and_(x, self.like(x, value))

    def not_(self, x: IRValue) -> IRValue:
        return self.xor(x, self.like(x, -1 if x.type != "i1" else 1))

    def icmp(self, predicate: str, x: IRValue, y: IRValue) -> IRValue:
        return self.let("i1", x.lanes, f"icmp {predicate} {x.ir_type} {x.text}, {y.text}")

    def fcmp(self, predicate: str, x: IRValue, y: IRValue) -> IRValue:
        if x.type == "bfloat":  # by their bits: LLVM would round both of them again, by a routine that is not there
            x, y = self.widened(x), self.widened(y)
        return self.let("i1", x.lanes, f"fcmp {predicate} {x.ir_type} {x.text}, {y.text}")

    def widened(self, x: IRValue) -> IRValue:
        """A bf16 as f32, by its bits: the host's conversions flush its subnormals."""
        return self.bitcast(self.shl(self.resize(self.bitcast(x, "i16"), "i32"), 16), "float")

    def select(self, condition: IRValue, x: IRValue, y: IRValue) -> IRValue:
        if condition.lanes:
            x, y = self._by_itself(x), self._by_itself(y)
        return self.let(x.type, x.lanes, f"select {condition}, {x}, {y}")

    def _by_itself(self, x: IRValue) -> IRValue:
        """A vector of which LLVM does not know how it came about, where that would do harm.

        LLVM 22 makes one masked instruction (VPTERNLOG) of a select and `a & c | b & ~c`, as which copysign counts too,
        and takes its operands in a wrong order: AVX-512 processors computed something else.
        """
        if x.text not in self._logic or BITS[x.type] not in (32, 64) or not host.has("avx512f"):
            return x
        least, most = (bits // BITS[x.type] for bits in _REGISTER_BITS)
        lanes = min(max(1 << (x.lanes - 1).bit_length(), least), most)  # of a register
        pieces = [self.shuffle(x, [min(k + n, x.lanes - 1) for n in range(lanes)]) for k in range(0, x.lanes, lanes)]
        held = self.concat([self.let(p.type, p.lanes, f'call {p.ir_type} asm "", "=v,0"({p})') for p in pieces])
        return held if held.lanes == x.lanes else self.shuffle(held, range(x.lanes))

    def convert(self, op: str, x: IRValue, type_: str) -> IRValue:
        return self.let(type_, x.lanes, f"{op} {x} to {ir_type(type_, x.lanes)}")

    def resize(self, x: IRValue, type_: str, signed: bool = False) -> IRValue:
        """Integer x extended or truncated to `type_`."""
        have, want = BITS[x.type], BITS[type_]
        if have == want:
            return x
        return self.convert("trunc" if want < have else "sext" if signed else "zext", x, type_)

    def bitcast(self, x: IRValue, type_: str, lanes: int | None = None) -> IRValue:
        """The same bits in another type; of bits that had another type before, from there.

        Of an `and` between two such steps LLVM would make the absolute value of a bf16, and round it by a routine that
        most machines do not have.
        """
        lanes = x.lanes if lanes is None else lanes
        x = self._origins.get(x.text, x)
        if (x.type, x.lanes) == (type_, lanes):
            return x
        if x.text in _ZEROS and x.lanes == lanes:
            return constant(type_, 0, lanes)
        found = self._same_bits(x, self.let(type_, lanes, f"bitcast {x} to {ir_type(type_, lanes)}"))
        self._origins[found.text] = x
        return found

    def _same_bits(self, x: IRValue, y: IRValue) -> IRValue:
        if x.text in self._logic:
            self._logic.add(y.text)
        return y

    def call(self, name: str, result: str, *args: IRValue, lanes: int = 0) -> IRValue:
        """Calls `name`, declaring it; `result` is the element type or "void"."""
        arguments = ", ".join(str(a) for a in args)
        returned = ir_type(result, lanes)
        self.declared[name] = f"declare {returned} @{name}({', '.join(a.ir_type for a in args)})"
        if result == "void":
            self.lines.append(f"call void @{name}({arguments})")
            return IRValue("void", "")
        return self.let(result, lanes, f"call {returned} @{name}({arguments})")

    def intrinsic(self, name: str, *args: IRValue, result: str | None = None) -> IRValue:
        """An LLVM intrinsic that is overloaded on its first argument's type, `llvm.fma`."""
        x = args[0]
        return self.call(f"llvm.{name}.{mangled(x.type, x.lanes)}", result or x.type, *args, lanes=x.lanes)

    def first_bit(self, mask: IRValue) -> IRValue:
        """The lowest lane of a mask that has one."""
        return self.call("llvm.cttz.i32", "i32", mask, IRValue("i1", "true"))

    # -- vectors --------------------------------------------------------------------------------------------------
    def splat(self, x: IRValue, lanes: int = WARP) -> IRValue:
        if not x.text.startswith("%"):
            return IRValue(x.type, f"splat ({x.type} {x.text})", lanes)
        one = self.let(x.type, lanes, f"insertelement <{lanes} x {x.type}> poison, {x}, i32 0")
        return self.let(
            x.type, lanes, f"shufflevector {one}, <{lanes} x {x.type}> poison, <{lanes} x i32> zeroinitializer"
        )

    def shuffle(self, x: IRValue, indices: Sequence[int | None], y: IRValue | None = None) -> IRValue:
        if y is None and list(indices) == list(range(x.lanes)):
            return x
        second = y or IRValue(x.type, "poison", x.lanes)
        items = ", ".join("i32 poison" if i is None else f"i32 {i}" for i in indices)
        text = f"shufflevector {x}, {second}, <{len(indices)} x i32> <{items}>"
        return self._same_bits(second, self._same_bits(x, self.let(x.type, len(indices), text)))

    def extract(self, x: IRValue, lane: int | IRValue) -> IRValue:
        index = str(lane) if isinstance(lane, IRValue) else f"i32 {lane}"
        return self.let(x.type, 0, f"extractelement {x}, {index}")

    def insert(self, x: IRValue, element: IRValue, lane: int | IRValue) -> IRValue:
        index = str(lane) if isinstance(lane, IRValue) else f"i32 {lane}"
        return self.let(x.type, x.lanes, f"insertelement {x}, {element}, {index}")

    def concat(self, parts: Sequence[IRValue]) -> IRValue:
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

    def words_of(self, quads: Sequence[IRValue]) -> list[IRValue]:
        """Four vectors with the words of so many quads: their first, second, third and fourth ones.

        In steps that the host has instructions for; of a shuffle of single words LLVM makes many more.
        """
        count = len(quads)
        a, b, c, d = (self.concat(quads[k::4]) for k in range(4))  # each has a quad of every four
        pairs = [self._interleaved(x, y, first) for first in (0, 2) for x, y in ((a, b), (c, d))]
        at = [k + part * count + n for k in range(0, count, 4) for part in (0, 1) for n in (0, 1)]
        low, high = pairs[:2], pairs[2:]
        return [self.shuffle(two[0], [k + n for k in at], two[1]) for two in (low, high) for n in (0, 2)]

    def quads_of(self, words: Sequence[IRValue]) -> list[IRValue]:
        """The quads whose first, second, third and fourth words four vectors are: back from `words_of`."""
        first, second, third, fourth = words
        count, found = first.lanes, dict[int, IRValue]()
        for at in (0, 2):
            low, high = self._interleaved(first, second, at), self._interleaved(third, fourth, at)
            for n in (0, 1):
                lanes = [part + k + 2 * n + m for k in range(0, count, 4) for part in (0, count) for m in (0, 1)]
                whole = self.shuffle(low, lanes, high)
                found |= {k + at + n: self.shuffle(whole, range(k, k + 4)) for k in range(0, count, 4)}
        return [found[k] for k in range(count)]

    def _interleaved(self, x: IRValue, y: IRValue, first: int) -> IRValue:
        """Two words from `first` on of each quad of x, between those of y."""
        at = [b + first + n + part * x.lanes for b in range(0, x.lanes, 4) for n in (0, 1) for part in (0, 1)]
        return self.shuffle(x, at, y)

    def _widen(self, x: IRValue, lanes: int) -> IRValue:
        return x if x.lanes == lanes else self.shuffle(x, [*range(x.lanes), *[None] * (lanes - x.lanes)])

    def mask_bits(self, x: IRValue) -> IRValue:
        """A vector of i1 as an integer with one bit per lane."""
        return self.let(f"i{x.lanes}", 0, f"bitcast {x} to i{x.lanes}")

    def bits_mask(self, x: IRValue, lanes: int = WARP) -> IRValue:
        return self.let("i1", lanes, f"bitcast {x} to <{lanes} x i1>")

    def all_true(self, x: IRValue) -> IRValue:
        if not x.lanes:
            return x
        bits = self.mask_bits(x)
        return self.let("i1", 0, f"icmp eq i{x.lanes} {bits.text}, -1")

    # -- memory ---------------------------------------------------------------------------------------------------
    def pointer(self, address: IRValue) -> IRValue:
        """An integer address as a pointer."""
        return address if address.type == "ptr" else self.convert("inttoptr", address, "ptr")

    def offset(self, pointer: IRValue, bytes_: int | IRValue) -> IRValue:
        if isinstance(bytes_, int):
            return pointer if bytes_ == 0 else self.let("ptr", 0, f"getelementptr i8, {pointer}, i64 {bytes_}")
        return self.let("ptr", 0, f"getelementptr i8, {pointer}, {bytes_}")

    def load(
        self, type_: str, pointer: IRValue, lanes: int = 0, align: int | None = None, invariant: bool = False
    ) -> IRValue:
        align = align or max(1, BITS[type_] // 8)
        tail = ", !invariant.load !0" if invariant else ""
        return self.let(type_, lanes, f"load {ir_type(type_, lanes)}, {pointer}, align {align}{tail}")

    def store(self, value: IRValue, pointer: IRValue, align: int | None = None, streamed: bool = False) -> None:
        """`streamed`: past the host's caches; for whole lines of them that nobody reads soon."""
        align = align or max(1, BITS[value.type] // 8)
        tail = ", !nontemporal !3" if streamed else ""
        self.lines.append(f"store {value}, {pointer}, align {align}{tail}")

    def store_where(
        self, condition: IRValue, value: IRValue, pointer: IRValue, old: IRValue, align: int | None = None
    ) -> None:
        """Stores `value` where a condition holds; `old` is what stands there, and is stored elsewhere.

        Volatile keeps LLVM from making masked stores of it, which are slow on AVX2 processors of AMD.
        """
        align = align or max(1, BITS[value.type] // 8)
        self.lines.append(f"store volatile {self.select(condition, value, old)}, {pointer}, align {align}")

    def increment(self, pointer: IRValue, by: IRValue) -> None:
        """*pointer += by"""
        self.store(self.add(self.load(by.type, pointer), by), pointer)

    # -- functions --------------------------------------------------------------------------------------------------
    def function(self, header: str) -> str:
        """The finished function; `header` is everything between `define` and the brace.

        Stack slots go to its entry, wherever they were asked for: elsewhere each turn of a loop would take more stack,
        and LLVM aligns such a slot by what it believes of the stack pointer.
        """
        first = 1 if self.lines[0].endswith(":") else 0
        labels = [place for place, line in enumerate(self.lines) if line.endswith(":")]
        inner = labels[first] if len(labels) > first else len(self.lines)
        slots = [line for line in self.lines[inner:] if " = alloca " in line]
        rest = [line for line in self.lines[inner:] if " = alloca " not in line]
        lines = [*self.lines[:first], *slots, *self.lines[first:inner], *rest]
        return f"define {header} {{\n" + "\n".join(lines) + "\n}\n"


# ---------------------------------------------------------------- functions written by hand


I32, I64 = "i32", "i64"


def i32(value: int) -> IRValue:
    return constant(I32, value)


def i64(value: int) -> IRValue:
    return constant(I64, value)


def arg(type_: str, name: str, lanes: int = 0) -> IRValue:
    return IRValue(type_, f"%{name}", lanes)


WORKER, CONTEXT = arg("ptr", "w"), arg("ptr", "c")
NULL = IRValue("ptr", "null")
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

    def worker(self, name: str, type_: str) -> IRValue:
        return self.load(type_, self.offset(WORKER, L.field(name)))

    def is_any(self, x: IRValue, *values: int) -> IRValue:
        """Whether a number is one of these."""
        first, *others = (self.icmp("eq", x, self.like(x, value)) for value in values)
        for other in others:
            first = self.or_(first, other)
        return first

    def cluster_sides(self) -> list[IRValue]:
        return [self.load(I32, self.offset(WORKER, L.field("cluster_size") + 4 * k)) for k in range(3)]

    def cluster_blocks(self) -> IRValue:
        """How many blocks a cluster has."""
        x, y, z = self.cluster_sides()
        return self.mul(self.mul(x, y), z)

    def warp(self) -> IRValue:
        """The warp's index in its block."""
        return self.load(I32, self.offset(CONTEXT, L.ContextLayout.WARP_INDEX))

    def site(self) -> IRValue:
        """What is known of the allocation that the access at SITE hit last: its bounds and its race shadow."""
        return self.offset(self.worker("sites", "ptr"), self.mul(self.resize(SITE, I64), i64(L.SITE_BYTES)))

    def stack(self, value: IRValue) -> IRValue:
        """A vector in memory, so that a loop can index its lanes."""
        slot = self.let("ptr", 0, f"alloca {value.ir_type}, align 64")
        self.store(value, slot, align=64)
        return slot

    def element(self, slot: IRValue, type_: str, lane: IRValue) -> IRValue:
        return self.load(type_, self.let("ptr", 0, f"getelementptr {type_}, {slot}, {lane}"))

    def set_element(self, slot: IRValue, value: IRValue, lane: IRValue) -> None:
        self.store(value, self.let("ptr", 0, f"getelementptr {value.type}, {slot}, {lane}"))

    def variable(self, type_: str, initial: IRValue) -> IRValue:
        slot = self.let("ptr", 0, f"alloca {type_}")
        self.store(initial, slot)
        return slot

    def gather(self, type_: str, pointers: IRValue, mask: IRValue) -> IRValue:
        """What the lanes of a mask find at their pointers; 0 for the others."""
        name, vector = f"llvm.masked.gather.v{WARP}{type_}.v{WARP}p0", ir_type(type_, WARP)
        self.declared[name] = f"declare {vector} @{name}(<{WARP} x ptr>, i32, <{WARP} x i1>, {vector})"
        tail = f"i32 {BITS[type_] // 8}, {self.bits_mask(mask)}, {vector} zeroinitializer"
        return self.let(type_, WARP, f"call {vector} @{name}({pointers}, {tail})")

    def scatter(self, value: IRValue, pointers: IRValue, mask: IRValue) -> None:
        """Stores the lanes of a mask; of those with the same pointer the highest."""
        name = f"llvm.masked.scatter.v{WARP}{value.type}.v{WARP}p0"
        self.declared[name] = f"declare void @{name}({value.ir_type}, <{WARP} x ptr>, i32, <{WARP} x i1>)"
        self.emit(f"call void @{name}({value}, {pointers}, i32 {BITS[value.type] // 8}, {self.bits_mask(mask)})")

    def fill(self, pointer: IRValue, byte: int, length: IRValue) -> None:
        self.call("llvm.memset.p0.i64", "void", pointer, constant("i8", byte), length, IRValue("i1", "false"))

    def lane_active(self, lane: IRValue, mask: IRValue = MASK) -> IRValue:
        return self.icmp("ne", self.and_(self.binary("lshr", mask, lane), i32(1)), i32(0))

    def leave(self, value: IRValue | None = None) -> None:
        """Returns from the middle of a function."""
        self.ret(value)
        self.label(self.new_label("unreached"))

    def hazard(self, kind: IRValue, lane: IRValue, address: IRValue, state: IRValue) -> None:
        self.call("ws_hazard", "void", WORKER, CONTEXT, kind, SITE, lane, address, state)

    def define(self, name: str, result: str, *parameters: IRValue, internal: bool = False) -> str:
        listed = ", ".join(map(str, parameters))
        return self.function(f"{'internal ' if internal else ''}{result} @{name}({listed}) noinline")


@dataclass(frozen=True)
class RuntimeFunction:
    """A function of the runtime, in its variants: `ws_gather_{}` for i8, i16, ...; also types may differ by `{}`."""

    name: str
    result: str
    parameters: tuple[IRValue, ...]
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
    name: str, result: str, *parameters: IRValue, over: tuple[tuple[object, ...], ...] = ((),)
) -> Callable[[Callable[..., None]], RuntimeFunction]:
    """Makes what writes a body a function of the runtime; one without a result returns at its end by itself."""
    return lambda body: RuntimeFunction(name, result, parameters, body, over)


def report(b: Builder, event: int, warp: IRValue, mask: IRValue, data: IRValue = NULL) -> None:
    """Calls the listener of the worker."""
    listener = b.load("ptr", b.offset(WORKER, L.field("on_sync")))
    b.emit(f"call void {listener.text}(i32 {event}, {warp}, {mask}, {data})")


def report_signal(b: Builder, warp: Callable[[], IRValue], address: IRValue, lanes: IRValue, flags: int) -> None:
    """Tells the listener that `lanes` signal at host addresses."""
    slot = b.offset(WORKER, L.field("signal_addresses"))
    b.store(address, slot, align=8)
    both = b.or_(b.resize(lanes, I64), i64(flags << 32))
    report(b, L.Event.SIGNAL, warp(), both, slot)


def tell_async(
    b: Builder, event: int, warp: IRValue, mask: IRValue, *words: IRValue, lanes: IRValue | None = None
) -> None:
    """Writes down what happens beside threads; `words` are integers of any width, `lanes` a vector of i32."""
    at, none = b.offset(WORKER, L.field("notice")), i64(0)
    for k in range(L.Notice.words.size // 8):
        b.store(b.resize(words[k], I64) if k < len(words) else none, b.offset(at, 8 * k))
    if lanes is not None:
        b.store(lanes, b.offset(at, L.Notice.lanes.offset), align=8)
    b.call("ws_async_tell", "void", WORKER, i32(event), warp, b.resize(mask, I64))


# ---------------------------------------------------------------- modules


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
