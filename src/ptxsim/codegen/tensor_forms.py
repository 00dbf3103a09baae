"""Fragments as matrices in memory, and the functions that take them from lanes' registers and back.

The host computes on matrices, not on lanes: a `Form` says in which order a fragment's matrix lies in memory. A product
keeps one of its dimensions in vectors (`across`), the other is broadcast element by element.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from ptxsim.codegen.emit import WARP, Value, module_text
from ptxsim.codegen.runtime.helper import I64, Helper, arg, i64
from ptxsim.fragments import Fragment, dimensions
from ptxsim.syntax.matrices import Product


@dataclass(frozen=True)
class Form:
    """A fragment's matrix in memory, without gaps; `inner` is what lies together, a "row" or a "col"umn."""

    held: Fragment
    inner: str

    @property
    def name(self) -> str:
        h = self.held
        return f"{h.instruction}_{h.shape}_{h.operand}_{h.type}_{h.rows}_{h.columns}_{self.inner}{h.layout}"

    @property
    def elements(self) -> int:
        return self.held.rows * self.held.columns

    @property
    def nbytes(self) -> int:
        return self.elements * self.held.bits // 8

    @property
    def line_elements(self) -> int:
        return self.held.columns if self.inner == "row" else self.held.rows

    def offsets(self) -> np.ndarray:
        """Byte offset of each element, or of each word of elements smaller than a byte: (registers, 32, units)."""
        return _offsets(self)

    @property
    def unit_bytes(self) -> int:
        """Bytes that move as one: an element, or a register of elements smaller than a byte."""
        return max(1, self.held.bits // 8) if self.held.bits >= 8 else self.held.register_bits // 8

    @property
    def lane_bytes(self) -> int:
        """Size of all registers of all lanes."""
        return self.held.registers * WARP * self.held.register_bits // 8


@cache
def _offsets(form: Form) -> np.ndarray:
    positions = form.held.positions if form.held.bits >= 8 else form.held.positions[:, :, :1]
    outer, inner = (positions[..., k] for k in ((0, 1) if form.inner == "row" else (1, 0)))
    return np.moveaxis((outer * form.line_elements + inner) * form.held.bits // 8, 0, 1)


def across(p: Product) -> str:
    """The dimension of a product that lies in vectors: "n", or "m" where that is the longer one."""
    m, n, _ = dimensions(p.shape)
    return "m" if m > n else "n"


def input_form(p: Product, operand: str) -> Form:
    """The form in which a product takes A or B."""
    held = p.fragment(operand)
    along_k = "row" if operand == "a" else "col"
    in_vectors = (operand == "a") == (across(p) == "m")
    if in_vectors and held.bits >= 8:
        return Form(held, "col" if operand == "a" else "row")
    return Form(held, along_k)


def accumulator_form(p: Product, operand: str) -> Form:
    """The form of C or D."""
    return Form(p.fragment(operand), "col" if across(p) == "m" else "row")


def memory_form(held: Fragment) -> Form:
    """The form in which wmma.load leaves a fragment: that of the products which it can be part of."""
    if held.operand in ("a", "b"):
        accumulator = {"f64": "f64", "f16": "f32", "bf16": "f32", "tf32": "f32"}.get(held.type, "s32")
        p = Product("wmma", held.shape, accumulator, held.type, held.type, accumulator)
        return input_form(p, held.operand)
    p = Product("wmma", held.shape, held.type, "f16", "f16", held.type)
    return accumulator_form(p, held.operand)


# ---------------------------------------------------------------- between lanes and matrix


@cache
def pack(form: Form) -> tuple[str, str]:
    """(name, IR) of a function that makes a matrix of registers: (lanes, matrix), lanes as [register][lane]."""
    units = form.held.registers // form.held.copies
    places = form.offsets()[:units]
    sources = np.arange(places.size).reshape(places.shape) * form.unit_bytes
    return _mover(f"ws_pack_{form.name}", "lanes", sources, "matrix", places, form.unit_bytes)


@cache
def unpack(form: Form) -> tuple[str, str]:
    """(name, IR) of a function that spreads a matrix over registers: (matrix, lanes)."""
    places = form.offsets()
    targets = np.arange(places.size).reshape(places.shape) * form.unit_bytes
    return _mover(f"ws_unpack_{form.name}", "matrix", places, "lanes", targets, form.unit_bytes)


_MOST_RUNS = 96


def _mover(name: str, source: str, sources: np.ndarray, target: str, targets: np.ndarray, unit: int) -> tuple[str, str]:
    b = library_function()
    origin, to = arg("ptr", source), arg("ptr", target)
    runs = _runs(sources.reshape(-1).tolist(), targets.reshape(-1).tolist(), unit)
    constants = ""
    if len(runs) <= _MOST_RUNS:
        for at, place, size in runs:
            copy_bytes(b, b.offset(origin, at), b.offset(to, place), size)
    else:
        tables = [offset_table(f"{name}.{k}", t.reshape(-1)) for k, t in enumerate((sources, targets))]
        constants = "\n".join(text for _, text in tables)
        with b.loop(i64(sources.size)) as k:
            here, there = (table_entry(b, table, k) for table, _ in tables)
            b.store(b.load(f"i{8 * unit}", b.offset(origin, here)), b.offset(to, there))
    b.ret()
    return finished(b, name, origin, to, constants=constants)


def library_function() -> Helper:
    """A function of the library, at its start."""
    b = Helper()
    b.declared = {}
    b.label("entry")
    return b


def finished(b: Helper, name: str, *parameters: Value, constants: str = "") -> tuple[str, str]:
    """(name, IR module) of a function of the library."""
    return name, constants + module_text([b.define(name, "void", *parameters)], b.declared)


def _runs(sources: Sequence[int], targets: Sequence[int], unit: int) -> list[tuple[int, int, int]]:
    """(source, target, bytes) of what lies together on both sides."""
    runs: list[list[int]] = []
    for at, place in sorted(zip(sources, targets, strict=True), key=lambda pair: pair[1]):
        if runs and (at, place) == (runs[-1][0] + runs[-1][2], runs[-1][1] + runs[-1][2]):
            runs[-1][2] += unit
        else:
            runs.append([at, place, unit])
    return [(at, place, size) for at, place, size in runs]


def copy_bytes(b: Helper, origin: Value, to: Value, size: int) -> None:
    """Copies a fixed number of bytes, in vectors of up to 64."""
    done = 0
    while done < size:
        step = min(64, 1 << (size - done).bit_length() - 1)
        value = b.load("i8", b.offset(origin, done), step)
        b.store(value, b.offset(to, done))
        done += step


def offset_table(name: str, values: Iterable[int]) -> tuple[str, str]:
    """(name, IR) of a constant array of byte offsets."""
    items = [int(v) for v in values]
    listed = ", ".join(f"i32 {v}" for v in items)
    return name, f"@{name} = private unnamed_addr constant [{len(items)} x i32] [{listed}]\n"


def table_entry(b: Helper, table: str, index: Value) -> Value:
    """An entry of an offset table as i64."""
    at = b.let("ptr", 0, f"getelementptr i32, ptr @{table}, {index}")
    return b.resize(b.load("i32", at, invariant=True), I64)
