"""The products of `steady.py` with nothing of the simulator left in them: the floor under what it can reach.

The same work in the same order, as somebody would write it by hand for this processor: tiles move from global to shared
memory, sums lie in memory from barrier to barrier (a warp's registers do: no processor has room for a block's), and all
that is known when the code is written stands in it: sizes, places, that nothing lies outside. No warps, no registers,
no bounds, no counters, no call from Python but one.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import llvmlite.binding as llvm
import numpy as np

from ptxsim.codegen import jit
from ptxsim.codegen.emit import IRValue, arg, constant, i64
from ptxsim.codegen.tensor_moves import transposed
from ptxsim.codegen.tensor_products import finished, library_function

_WORD, _WARP = 4, 32
_A, _B, _C, _OWN = (arg("ptr", name) for name in ("a", "b", "c", "own"))
_OWN_WORDS = 1 << 14


def _lanes() -> int:
    return 16 if jit.wide_vectors() else 8


class _Writer:
    """Writes loads and stores of single precision."""

    def __init__(self) -> None:
        self.b, self.lanes = library_function(), _lanes()

    def at(self, base: IRValue, *terms: tuple[IRValue, int] | int) -> IRValue:
        """`base` plus terms in words: numbers, or (value, times)."""
        for term in terms:
            if isinstance(term, int):
                base = self.b.offset(base, _WORD * term)
            else:
                base = self.b.offset(base, self.b.mul(term[0], i64(_WORD * term[1])))
        return base

    def load(self, place: IRValue) -> IRValue:
        return self.b.load("float", place, self.lanes, align=_WORD)

    def store(self, value: IRValue, place: IRValue) -> None:
        self.b.store(value, place, align=_WORD)

    def run(self, place: IRValue, words: int) -> list[IRValue]:
        return [self.load(self.at(place, k)) for k in range(0, words, self.lanes)]

    def put(self, values: list[IRValue], place: IRValue) -> None:
        for k, value in enumerate(values):
            self.store(value, self.at(place, k * self.lanes))

    def multiply(self, sums: list[IRValue], left: Callable[[int], IRValue], right: list[IRValue]) -> list[IRValue]:
        """Adds the products of one step: a number of each row times the vectors of columns."""
        b, across = self.b, len(right)
        factors = [b.splat(b.load("float", left(r)), self.lanes) for r in range(len(sums) // across)]
        return [b.intrinsic("fma", factors[n // across], right[n % across], s) for n, s in enumerate(sums)]


def _tiled(size: int, tile: int) -> str:
    """lab 02's product: a thread has one element of C, a warp 32 / tile rows."""
    w = _Writer()
    b, warps, rows = w.b, tile * tile // _WARP, _WARP // tile
    tile_a, tile_b, sums = _OWN, w.at(_OWN, tile * tile), w.at(_OWN, 2 * tile * tile)
    zeros = [constant("float", 0.0, w.lanes)] * (_WARP // w.lanes)
    with b.loop(i64(size // tile)) as y, b.loop(i64(size // tile)) as x:
        with b.loop(i64(warps)) as warp:
            w.put(zeros, w.at(sums, (warp, _WARP)))
        with b.loop(i64(size // tile)) as step:
            with b.loop(i64(warps)) as warp:
                _moved(w, w.at(_A, (y, tile * size), (step, tile)), tile_a, warp, (rows, tile, size))
                _moved(w, w.at(_B, (step, tile * size), (x, tile)), tile_b, warp, (rows, tile, size))
            with b.loop(i64(warps)) as warp:
                mine, left = w.at(sums, (warp, _WARP)), w.at(tile_a, (warp, rows * tile))
                added = w.run(mine, _WARP)
                for k in range(tile):
                    places = [w.at(left, r * tile + k) for r in range(rows)]
                    added = w.multiply(added, places.__getitem__, w.run(w.at(tile_b, k * tile), tile))
                w.put(added, mine)
        with b.loop(i64(warps)) as warp:
            to = w.at(_C, (y, tile * size), (x, tile), (warp, rows * size))
            for r in range(rows):
                w.put(w.run(w.at(sums, (warp, _WARP), r * tile), tile), w.at(to, r * size))
    b.ret()
    return finished(b, "product", _A, _B, _C, _OWN)[1]


def _moved(w: _Writer, matrix: IRValue, tile: IRValue, warp: IRValue, shape: tuple[int, int, int]) -> None:
    """A warp's rows of a tile."""
    rows, columns, pitch = shape
    values = [w.run(w.at(matrix, (warp, rows * pitch), r * pitch), columns) for r in range(rows)]
    for r, line in enumerate(values):
        w.put(line, w.at(tile, (warp, rows * columns), r * columns))


def _blocked(size: int, side: int = 64, depth: int = 8, high: int = 4) -> str:
    """`kernels/register_blocked.cu`: a block's 64 x 64 sums, some of which are in registers for 8 steps."""
    w = _Writer()
    b, lanes, wide = w.b, w.lanes, 2
    tile_a, tile_b, sums = _OWN, w.at(_OWN, side * depth), w.at(_OWN, 2 * side * depth)
    with b.loop(i64(size // side)) as y, b.loop(i64(size // side)) as x:
        with b.loop(i64(side * side // lanes)) as n:
            w.store(constant("float", 0.0, lanes), w.at(sums, (n, lanes)))
        with b.loop(i64(size // depth)) as step:
            with b.loop(i64(side // 8)) as n:
                eight = w.at(_A, (y, side * size), (step, depth), (n, 8 * size))
                lines = [b.load("float", w.at(eight, r * size), depth, align=_WORD) for r in range(8)]
                for k, column in enumerate(transposed(b, lines)):
                    w.store(column, w.at(tile_a, (n, 8), k * side))
            with b.loop(i64(depth)) as row:
                w.put(w.run(w.at(_B, (step, depth * size), (x, side), (row, size)), side), w.at(tile_b, (row, side)))
            with b.loop(i64(side // (lanes * wide))) as j, b.loop(i64(side // high)) as i:
                mine = w.at(sums, (i, high * side), (j, lanes * wide))
                added = [value for r in range(high) for value in w.run(w.at(mine, r * side), lanes * wide)]
                for k in range(depth):
                    places = [w.at(tile_a, (i, high), k * side + r) for r in range(high)]
                    right = w.run(w.at(tile_b, (j, lanes * wide), k * side), lanes * wide)
                    added = w.multiply(added, places.__getitem__, right)
                for r in range(high):
                    w.put(added[r * wide : (r + 1) * wide], w.at(mine, r * side))
        with b.loop(i64(side)) as row:
            w.put(w.run(w.at(sums, (row, side)), side), w.at(_C, (y, side * size), (x, side), (row, size)))
    b.ret()
    return finished(b, "product", _A, _B, _C, _OWN)[1]


PRODUCTS: dict[str, Callable[[int], str]] = {
    "tiled 16": lambda size: _tiled(size, 16),
    "tiled 32": lambda size: _tiled(size, 32),
    "register blocked 64x64": _blocked,
}
"""name of a kernel of `steady.py` -> its IR for matrices of a size that its tiles divide"""


def product(name: str, size: int) -> Callable[[np.ndarray, np.ndarray, np.ndarray], None]:
    """c = a b by hand, for float32 matrices of `size` x `size`."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    module = llvm.parse_assembly(PRODUCTS[name](size))
    features = llvm.get_host_cpu_features().flatten()
    machine = llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=features, opt=3
    )
    passes = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(3))
    passes.getModulePassManager().run(module, passes)
    engine = llvm.create_mcjit_compiler(module, machine)
    engine.finalize_object()
    run = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 4)(engine.get_function_address("product"))
    own = np.zeros(_OWN_WORDS + 16, np.float32)
    place = -(-own.ctypes.data // 64) * 64

    def multiply(a: np.ndarray, b: np.ndarray, c: np.ndarray, _kept: object = (engine, own)) -> None:
        run(a.ctypes.data, b.ctypes.data, c.ctypes.data, place)

    return multiply
