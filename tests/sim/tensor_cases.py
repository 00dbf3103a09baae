"""PTX kernels around single matrix instructions, for every shape and type, with seeded inputs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ptxsim.fragments import ELEMENT_BITS, MMA_SHAPES, WMMA_SHAPES, Fragment, dimensions
from ptxsim.syntax.matrices import Product

HEAD = ".version 8.5\n.target sm_90\n.address_size 64\n"
_ACCUMULATORS = {
    "f16": ("f16", "f32"), "bf16": ("f32",), "tf32": ("f32",), "f64": ("f64",),
    "e4m3": ("f16", "f32"), "e5m2": ("f16", "f32"),
}  # fmt: skip


@dataclass(frozen=True)
class Case:
    """A product and its name in PTX."""

    product: Product
    instruction: str

    @property
    def name(self) -> str:
        return self.instruction.replace(".sync.aligned", "").replace("wmma.mma", "wmma")


def _types(a: str) -> Iterator[tuple[str, str, str]]:
    """(d, b, c) that go with a type of A."""
    partner = {"s8": "u8", "u8": "u8", "s4": "s4", "u4": "s4", "e4m3": "e5m2"}.get(a, a)
    for d in _ACCUMULATORS.get(a, ("s32",)):
        for c in (d,) if a in ("e4m3", "e5m2") else _ACCUMULATORS.get(a, ("s32",)):
            yield d, partner, c


def products() -> list[Case]:
    """One case per documented form."""
    found = []
    for kind, shapes in (("wmma", WMMA_SHAPES), ("mma", MMA_SHAPES)):
        for shape, inputs in shapes.items():
            for a in inputs.split():
                for d, b, c in _types(a):
                    found += _forms(kind, shape, d, a, b, c)
    return found


def _forms(kind: str, shape: str, d: str, a: str, b: str, c: str) -> list[Case]:
    layouts = [("row", "col")]
    quarters = (kind, shape, a) == ("mma", "m8n8k4", "f16")
    if quarters or (kind == "wmma" and ELEMENT_BITS[a] >= 8):
        layouts = [(x, y) for x in ("row", "col") for y in ("row", "col")]
    found = []
    for x, y in layouts:
        for saturates in (False, True) if a in ("s8", "u8", "s4", "u4") else (False,):
            for operation in ("xor", "and") if a == "b1" else ("",):
                if (kind, operation) == ("wmma", "and") and shape != "m8n8k128":
                    continue
                p = Product(kind, shape, d, a, b, c, saturates, operation, (x, y))
                found.append(Case(p, _written(p)))
    return found


def _written(p: Product) -> str:
    x, y = p.layouts
    tail = ".satfinite" if p.saturates else ""
    if p.instruction == "wmma":
        types = f"{p.d}.{p.c}" if p.a == "f16" else f"{p.d}.{p.a}.{p.b}.{p.c}"
        bits = f".{p.operation}.popc" if p.operation else ""
        return f"wmma.mma{bits}.sync.aligned.{x}.{y}.{p.shape}.{types}{tail}"
    bits = f".{p.operation}.popc" if p.operation else ""
    return f"mma.sync.aligned.{p.shape}.{x}.{y}.{p.d}.{p.a}.{p.b}.{p.c}{tail}{bits}"


_REGISTER = {16: "b16", 32: "b32", 64: "b64"}


def _names(operand: str, held: Fragment) -> list[str]:
    return [f"%{operand}{k}" for k in range(held.registers)]


def _braced(names: list[str]) -> str:
    return "{" + ", ".join(names) + "}"


def register_kernel(case: Case, repeat: int = 1) -> str:
    """A kernel (a, b, c, d): every lane loads its registers from [register][lane], multiplies, stores D likewise."""
    p = case.product
    held = {x: p.fragment(x) for x in "abcd"}
    lines = [".reg .b64 %p<5>;", ".reg .b64 %at;", ".reg .b32 %t;", "mov.u32 %t, %tid.x;"]
    for n, x in enumerate("abcd"):
        bits = held[x].register_bits
        lines.append(f".reg .{_REGISTER[bits]} %{x}<{held[x].registers + 1}>;")
        lines += [f"ld.param.u64 %p{n}, [{x}];", f"cvta.to.global.u64 %p{n}, %p{n};"]
        lines += [f"mul.wide.u32 %at, %t, {bits // 8};", f"add.s64 %p{n}, %p{n}, %at;"]
        if x != "d":
            for k, name in enumerate(_names(x, held[x])):
                lines.append(f"ld.global.{_REGISTER[bits]} {name}, [%p{n}+{32 * k * bits // 8}];")
    operands = {x: _braced(_names(x, held[x])) for x in "abcd"}
    lines.append(f"{case.instruction} {operands['d']}, {operands['a']}, {operands['b']}, {operands['c']};")
    for _ in range(repeat - 1):
        lines.append(f"{case.instruction} {operands['d']}, {operands['a']}, {operands['b']}, {operands['d']};")
    bits = held["d"].register_bits
    for k, name in enumerate(_names("d", held["d"])):
        lines.append(f"st.global.{_REGISTER[bits]} [%p3+{32 * k * bits // 8}], {name};")
    body = "\n".join([*lines, "ret;"])
    parameters = ", ".join(f".param .u64 {x}" for x in "abcd")
    return f"{HEAD}.visible .entry k({parameters})\n{{\n{body}\n}}\n"


def memory_kernel(case: Case, space: str, layout_c: str, layout_d: str) -> str:
    """A kernel (a, b, c, d, strides...) that multiplies matrices in memory with wmma; space "shared" copies them in."""
    p = case.product
    held = {x: p.fragment(x) for x in "abcd"}
    layouts = {"a": p.layouts[0], "b": p.layouts[1], "c": layout_c, "d": layout_d}
    lines = [".reg .b64 %p<5>;", ".reg .b64 %at;", ".reg .b32 %t;", ".reg .b32 %l<5>;", "mov.u32 %t, %tid.x;"]
    lines += [".shared .align 128 .b8 room[16384];", ".reg .b32 %s<5>;", ".reg .b32 %x;"]
    for n, x in enumerate("abcd"):
        lines.append(f".reg .{_REGISTER[held[x].register_bits]} %{x}<{held[x].registers + 1}>;")
        lines += [f"ld.param.u64 %p{n}, [{x}];", f"cvta.to.global.u64 %p{n}, %p{n};"]
        lines.append(f"ld.param.u32 %l{n}, [l{x}];")
        lines += ["mov.u32 %s" + f"{n}, room;", f"add.u32 %s{n}, %s{n}, {SHARED_BYTES * n};"]
    if space == "shared":
        lines += _copies()
    for n, x in enumerate("abc"):
        where = f"%s{n}" if space == "shared" else f"%p{n}"
        regs = _braced(_names(x, held[x]))
        type_ = held[x].type
        load = f"wmma.load.{x}.sync.aligned.{layouts[x]}.{p.shape}.{space}.{type_}"
        lines.append(f"{load} {regs}, [{where}], %l{n};")
    operands = [_braced(_names(x, held[x])) for x in "dabc"]
    lines.append(f"{case.instruction} {', '.join(operands)};")
    store = f"wmma.store.d.sync.aligned.{layout_d}.{p.shape}.{space}.{held['d'].type}"
    lines.append(f"{store} [{'%s3' if space == 'shared' else '%p3'}], {operands[0]}, %l3;")
    if space == "shared":
        lines += _copy_back()
    body = "\n".join([*lines, "ret;"])
    parameters = ", ".join([*(f".param .u64 {x}" for x in "abcd"), *(f".param .u32 l{x}" for x in "abcd")])
    return f"{HEAD}.visible .entry k({parameters})\n{{\n{body}\n}}\n"


SHARED_BYTES = 4096
"""Size of each matrix' array in memory_kernel."""


_FOUR = "{%m0, %m1, %m2, %m3}"


def _copies() -> list[str]:
    lines = ["mul.wide.u32 %at, %t, 16;", ".reg .b64 %q<4>;", ".reg .b32 %o<4>;", "shl.b32 %x, %t, 4;"]
    lines.append(".reg .b32 %m<4>;")
    for n in range(4):
        lines += [f"add.s64 %q{n}, %p{n}, %at;", f"add.u32 %o{n}, %s{n}, %x;"]
        for k in range(0, SHARED_BYTES, 512):
            lines += [f"ld.global.v4.b32 {_FOUR}, [%q{n}+{k}];", f"st.shared.v4.b32 [%o{n}+{k}], {_FOUR};"]
    return [*lines, "bar.sync 0;"]


def _copy_back() -> list[str]:
    lines = ["bar.sync 0;"]
    for k in range(0, SHARED_BYTES, 512):
        lines += [f"ld.shared.v4.b32 {_FOUR}, [%o3+{k}];", f"st.global.v4.b32 [%q3+{k}], {_FOUR};"]
    return lines


# ---------------------------------------------------------------- inputs


def words(rng: np.random.Generator, held: Fragment, special: bool) -> np.ndarray:
    """Registers of a fragment, [register][lane]: numbers of moderate size, or with `special` any bits at all."""
    shape = (held.registers, 32)
    dtype = {16: np.uint16, 32: np.uint32, 64: np.uint64}[held.register_bits]
    if held.type in ("s8", "u8", "s4", "u4", "b1"):
        return rng.integers(0, 1 << 32, shape, np.uint64).astype(dtype)
    if held.type == "s32":
        span = 1 << 31 if special else 1 << 20
        return rng.integers(-span, span, shape).astype(np.int64).astype(np.int32).view(np.uint32)
    if special:
        return rng.integers(0, 1 << 63, shape, np.uint64).astype(dtype) ^ _notable(rng, held, shape).view(dtype)
    if held.type in ("e4m3", "e5m2"):  # from a few hundredths to some dozens
        codes = rng.integers(0x28, 0x50, (*shape, held.elements)) | rng.integers(0, 2, (*shape, held.elements)) << 7
        return codes.astype(np.uint8).view(dtype).reshape(shape)
    numbers = rng.standard_normal((*shape, held.elements))
    return packed(numbers, held.type).view(dtype).reshape(shape)


def _notable(rng: np.random.Generator, held: Fragment, shape: tuple[int, int]) -> np.ndarray:
    """Now and then an exponent of zeros or ones, so that zeros, subnormals, infinities and NaNs occur."""
    mask = {"f16": 0x7C00, "bf16": 0x7F80, "f64": 0x7FF0000000000000}.get(held.type, 0x7F800000)
    chosen = np.where(rng.random((*shape, held.elements)) < 0.1, mask, 0).astype(np.uint64)
    shifts = np.arange(held.elements, dtype=np.uint64) * np.uint64(held.bits)
    whole = np.bitwise_or.reduce(chosen << shifts, axis=-1)
    return whole.astype({32: np.uint32, 64: np.uint64}[held.register_bits])


def packed(numbers: np.ndarray, type_: str) -> np.ndarray:
    """Numbers as elements of a type, raw."""
    if type_ == "bf16":
        return (numbers.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    kinds = {"f16": np.float16, "f32": np.float32, "tf32": np.float32, "f64": np.float64}
    return np.ascontiguousarray(numbers.astype(kinds[type_]))


def matrix_bytes(p: Product, operand: str) -> tuple[int, int]:
    """(rows, columns) of an operand."""
    m, n, k = dimensions(p.shape)
    return {"a": (m, k), "b": (k, n)}.get(operand, (m, n))


# ---------------------------------------------------------------- several products


def grouped_kernel(case: Case, lines: list[str]) -> str:
    """A kernel (a, b, c, d) of products on registers that were read one by one, two of A, two of B, four of C and D.

    Each line of the body names operands by number: "d2 = a0 b1 c2" multiplies, "c1 < d0" copies a sum. Sums may also be
    t0 to t3, which are neither read before nor stored in the end, as d0 to d3 are.
    """
    held = {x: case.product.fragment(x) for x in "abcd"}
    held["t"] = held["d"]
    counts = {"a": 2, "b": 2, "c": 4, "d": 4, "t": 4}
    code = [".reg .b64 %p<5>;", ".reg .b64 %at;", ".reg .b32 %t;", "mov.u32 %t, %tid.x;"]
    for n, x in enumerate("abcd"):
        bits = held[x].register_bits
        code += [f"ld.param.u64 %p{n}, [{x}];", f"cvta.to.global.u64 %p{n}, %p{n};"]
        code += [f"mul.wide.u32 %at, %t, {bits // 8};", f"add.s64 %p{n}, %p{n}, %at;"]
    for x, count in counts.items():
        kind = _REGISTER[held[x].register_bits]
        code += [f".reg .{kind} %{x}{k}_<{held[x].registers + 1}>;" for k in range(count)]

    def names(operand: str) -> list[str]:
        return [f"%{operand}_{k}" for k in range(held[operand[0]].registers)]

    def moved(verb: str, operand: str) -> list[str]:
        f, n = held[operand[0]], "abcd".index(operand[0])
        step, first = 32 * f.register_bits // 8, int(operand[1]) * f.registers
        places = [(name, f"[%p{n}+{step * (first + k)}]") for k, name in enumerate(names(operand))]
        pairs = [(name, place) if verb == "ld" else (place, name) for name, place in places]
        return [f"{verb}.global.{_REGISTER[f.register_bits]} {x}, {y};" for x, y in pairs]

    for x in "abcd":
        code += [line for k in range(counts[x]) for line in moved("ld", f"{x}{k}")]
    for line in lines:
        to, sign, *sources = line.split()
        if sign == "<":
            kind = _REGISTER[held["d"].register_bits]
            code += [f"mov.{kind} {x}, {y};" for x, y in zip(names(to), names(*sources), strict=True)]
        else:
            operands = ", ".join(_braced(names(operand)) for operand in (to, *sources))
            code.append(f"{case.instruction} {operands};")
    for k in range(counts["d"]):
        code += moved("st", f"d{k}")
    body = "\n".join([*code, "ret;"])
    parameters = ", ".join(f".param .u64 {x}" for x in "abcd")
    return f"{HEAD}.visible .entry k({parameters})\n{{\n{body}\n}}\n"
