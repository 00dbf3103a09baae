"""The products of `steady.py` with nothing of the simulator left in them, warp by warp.

The same work in the same order, as somebody would write it by hand for this processor: tiles move from global to shared
memory, sums lie in memory from barrier to barrier (a warp's registers do: no processor has room for a block's), and all
that is known when the code is written stands in it: sizes, places, that nothing lies outside. No warps that wait, no
bounds, no counters, no call from Python but one.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import llvmlite.binding as llvm
import numpy as np
from llvmlite import ir

_WARP, _OWN_WORDS = 32, 1 << 14
_F32, _I64 = ir.FloatType(), ir.IntType(64)


class _Writer:
    """Writes a function (a, b, c, own) of single precision; places are pointers to numbers, counted in numbers."""

    def __init__(self) -> None:
        self.module = ir.Module()
        pointer = _F32.as_pointer()
        function = ir.Function(self.module, ir.FunctionType(ir.VoidType(), [pointer] * 4), "product")
        self.a, self.b, self.c, self.own = function.args
        self.lanes = 16 if llvm.get_host_cpu_features().get("avx512f") else 8
        self.vector = ir.VectorType(_F32, self.lanes)
        fma = ir.FunctionType(self.vector, [self.vector] * 3)
        self.fma = ir.Function(self.module, fma, f"llvm.fma.v{self.lanes}f32")
        self.ir = ir.IRBuilder(function.append_basic_block())

    @contextmanager
    def loop(self, count: int) -> Iterator[ir.Value]:
        before, body, after = self.ir.block, self.ir.append_basic_block(), self.ir.append_basic_block()
        self.ir.branch(body)
        self.ir.position_at_end(body)
        index = self.ir.phi(_I64)
        index.add_incoming(_I64(0), before)
        yield index
        following = self.ir.add(index, _I64(1))
        index.add_incoming(following, self.ir.block)
        self.ir.cbranch(self.ir.icmp_unsigned("<", following, _I64(count)), body, after)
        self.ir.position_at_end(after)

    def at(self, base: ir.Value, *terms: tuple[ir.Value, int] | int) -> ir.Value:
        """`base` and some numbers further: each term is a number, or (value, times)."""
        for term in terms:
            step = _I64(term) if isinstance(term, int) else self.ir.mul(term[0], _I64(term[1]))
            base = self.ir.gep(base, [step])
        return base

    def _of(self, place: ir.Value, lanes: int) -> ir.Value:
        return self.ir.bitcast(place, ir.VectorType(_F32, lanes).as_pointer())

    def load(self, place: ir.Value, lanes: int = 0) -> ir.Value:
        return self.ir.load(self._of(place, lanes or self.lanes), align=4)

    def store(self, value: ir.Value, place: ir.Value) -> None:
        self.ir.store(value, self._of(place, value.type.count), align=4)

    def run(self, place: ir.Value, count: int) -> list[ir.Value]:
        """So many numbers, as vectors."""
        return [self.load(self.at(place, k)) for k in range(0, count, self.lanes)]

    def put(self, values: list[ir.Value], place: ir.Value) -> None:
        for k, value in enumerate(values):
            self.store(value, self.at(place, k * self.lanes))

    def zeros(self, count: int) -> list[ir.Value]:
        return [self.vector(None)] * (count // self.lanes)

    def multiply(self, sums: list[ir.Value], left: list[ir.Value], right: list[ir.Value]) -> list[ir.Value]:
        """Adds the products of one step: a number of each row times the vectors of columns."""
        one, across, added = self.ir, len(right), []
        factors = []
        for place in left:
            single = one.insert_element(self.vector(ir.Undefined), one.load(place), ir.IntType(32)(0))
            alike = ir.VectorType(ir.IntType(32), self.lanes)(None)
            factors.append(one.shuffle_vector(single, self.vector(ir.Undefined), alike))
        for n, before in enumerate(sums):
            added.append(one.call(self.fma, [factors[n // across], right[n % across], before]))
        return added

    def transposed(self, rows: list[ir.Value]) -> list[ir.Value]:
        """Columns of as many rows as each has numbers."""
        size, one = len(rows), self.ir
        step = 1
        while step < size:  # exchange blocks of `step` across the diagonal
            kept = [n // step * 2 * step + n % step for n in range(size // 2)]
            index = ir.VectorType(ir.IntType(32), size)
            low = index([k if k // step % 2 == 0 else size + k - step for k in range(size)])
            high = index([k + step if k // step % 2 == 0 else size + k for k in range(size)])
            rows = [*rows]
            for r in kept:
                x, y = rows[r], rows[r + step]
                rows[r], rows[r + step] = one.shuffle_vector(x, y, low), one.shuffle_vector(x, y, high)
            step *= 2
        return rows


def _tiled(size: int, tile: int) -> ir.Module:
    """lab 02's product: a thread has one element of C, a warp 32 / tile rows."""
    w = _Writer()
    warps, rows = tile * tile // _WARP, _WARP // tile
    tile_a, tile_b, sums = w.own, w.at(w.own, tile * tile), w.at(w.own, 2 * tile * tile)
    with w.loop(size // tile) as y, w.loop(size // tile) as x:
        with w.loop(warps) as warp:
            w.put(w.zeros(_WARP), w.at(sums, (warp, _WARP)))
        with w.loop(size // tile) as step:
            with w.loop(warps) as warp:
                for matrix, to in (
                    (w.at(w.a, (y, tile * size), (step, tile)), tile_a),
                    (w.at(w.b, (step, tile * size), (x, tile)), tile_b),
                ):
                    lines = [w.run(w.at(matrix, (warp, rows * size), r * size), tile) for r in range(rows)]
                    for r, line in enumerate(lines):
                        w.put(line, w.at(to, (warp, rows * tile), r * tile))
            with w.loop(warps) as warp:
                mine, left = w.at(sums, (warp, _WARP)), w.at(tile_a, (warp, rows * tile))
                added = w.run(mine, _WARP)
                for k in range(tile):
                    places = [w.at(left, r * tile + k) for r in range(rows)]
                    added = w.multiply(added, places, w.run(w.at(tile_b, k * tile), tile))
                w.put(added, mine)
        with w.loop(warps) as warp:
            for r in range(rows):
                to = w.at(w.c, (y, tile * size), (x, tile), (warp, rows * size), r * size)
                w.put(w.run(w.at(sums, (warp, _WARP), r * tile), tile), to)
    w.ir.ret_void()
    return w.module


def _blocked(size: int, side: int = 64, depth: int = 8, high: int = 4, wide: int = 2) -> ir.Module:
    """`kernels/register_blocked.cu`: a block's 64 x 64 sums, some of which are in registers for 8 steps."""
    w = _Writer()
    columns = w.lanes * wide
    tile_a, tile_b, sums = w.own, w.at(w.own, side * depth), w.at(w.own, 2 * side * depth)
    with w.loop(size // side) as y, w.loop(size // side) as x:
        with w.loop(side) as row:
            w.put(w.zeros(side), w.at(sums, (row, side)))
        with w.loop(size // depth) as step:
            with w.loop(side // depth) as n:
                eight = w.at(w.a, (y, side * size), (step, depth), (n, depth * size))
                lines = w.transposed([w.load(w.at(eight, r * size), depth) for r in range(depth)])
                for k, column in enumerate(lines):
                    w.store(column, w.at(tile_a, (n, depth), k * side))
            with w.loop(depth) as row:
                w.put(w.run(w.at(w.b, (step, depth * size), (x, side), (row, size)), side), w.at(tile_b, (row, side)))
            with w.loop(side // columns) as j, w.loop(side // high) as i:
                mine = w.at(sums, (i, high * side), (j, columns))
                added = [value for r in range(high) for value in w.run(w.at(mine, r * side), columns)]
                for k in range(depth):
                    places = [w.at(tile_a, (i, high), k * side + r) for r in range(high)]
                    added = w.multiply(added, places, w.run(w.at(tile_b, (j, columns), k * side), columns))
                for r in range(high):
                    w.put(added[r * wide : (r + 1) * wide], w.at(mine, r * side))
        with w.loop(side) as row:
            w.put(w.run(w.at(sums, (row, side)), side), w.at(w.c, (y, side * size), (x, side), (row, size)))
    w.ir.ret_void()
    return w.module


PRODUCTS: dict[str, Callable[[int], ir.Module]] = {
    "tiled 16": lambda size: _tiled(size, 16),
    "tiled 32": lambda size: _tiled(size, 32),
    "register blocked 64x64": _blocked,
}
"""name of a kernel of `steady.py` -> its code for matrices of a size that its tiles divide"""


def product(name: str, size: int) -> Callable[[np.ndarray, np.ndarray, np.ndarray], None]:
    """c = a b by hand, for float32 matrices of `size` x `size`."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    module = llvm.parse_assembly(str(PRODUCTS[name](size)))
    machine = llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=llvm.get_host_cpu_features().flatten(), opt=3
    )
    passes = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(3))
    passes.getModulePassManager().run(module, passes)
    engine = llvm.create_mcjit_compiler(module, machine)
    engine.finalize_object()
    run: Any = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 4)(engine.get_function_address("product"))
    own = np.zeros(_OWN_WORDS + 16, np.float32)
    place = -(-own.ctypes.data // 64) * 64

    def multiply(a: np.ndarray, b: np.ndarray, c: np.ndarray, _kept: object = (engine, own)) -> None:
        run(a.ctypes.data, b.ctypes.data, c.ctypes.data, place)

    return multiply
