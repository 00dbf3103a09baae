"""Convolution by Winograd's method out of four kernels, which are parameters: starters, students' or references.

    pipeline = Winograd(filters=Program(...), images=Program(...), product=Program(...), results=Program(...))
    done = pipeline(problem, device.asarray(x), device.asarray(w))        # or pipelines.run(pipeline, x, w, pad=1)
    done.y, done.U, done.V

The kernels' arrays: filters w -> U, images x -> V, product U, V -> M, results M -> y (and `bias`, with CROP, where the
last one is an epilogue). U and V stay on the device for whoever computes gradients: position by position, the gradient
of V is U times that of M, and the gradient of U is V times that of M; the transforms' transposes lead from y's gradient
to M's, from V's to x's and from U's to w's.
"""

from __future__ import annotations

from dataclasses import dataclass

from warpschool.contract import Plan
from warpschool.device import DeviceArray, Launch
from warpschool.errors import ArgumentError
from warpschool.harness.launcher import Program
from warpschool.nn.convolution import Convolution
from warpschool.nn.pipelines import Convolved, require_device
from warpschool.nn.winograd import Matrices, matrices, tiles


@dataclass(frozen=True, eq=False)
class Transformed(Convolved):
    """A convolution whose transformed filters and images are still on the device."""

    U: DeviceArray | None = None
    V: DeviceArray | None = None
    """None where the images were done in parts"""


class Winograd:
    """F(m x m, r x r) by four kernel files. `at_a_time`: images whose V and M are in memory at once (None: all).

    All transforms must be of one tile: their constants TILE and SIDE decide. Raises ArgumentError otherwise.
    """

    def __init__(
        self, *, filters: Program, images: Program, product: Program, results: Program, at_a_time: int | None = None
    ) -> None:
        self.filters, self.images, self.product, self.results = filters, images, product, results
        self.device = require_device(filters, images, product, results)
        self.exact = _common_matrices(filters, images, results)
        if at_a_time is not None and at_a_time < 1:
            raise ArgumentError(f"{at_a_time} images at a time", next_step="One or more, or None for all.")
        self.at_a_time = at_a_time

    def transform_filters(self, problem: Convolution, w: DeviceArray) -> tuple[DeviceArray, tuple[Launch, ...]]:
        """Return U [side * side, C, F] of the filters; it serves every batch of images."""
        tiles(problem, self.exact)
        U = self.device.empty((self.exact.positions, problem.channels, problem.filters), w.dtype, name="U")
        return U, self.filters.enqueue({"F": problem.filters, "C": problem.channels}, {"w": w, "U": U})

    def __call__(
        self, problem: Convolution, x: DeviceArray, w: DeviceArray, *, bias: DeviceArray | None = None, crop: int = 0,
        U: DeviceArray | None = None,
    ) -> Transformed:  # fmt: skip
        """Convolve. `U`: from `transform_filters`, where filters are used again; `crop`: results before the first tile.

        Raises ArgumentError for filters that are not r x r, a stride, or a bias that the last kernel does not take.
        """
        launches: tuple[Launch, ...] = ()
        if U is None:
            U, launches = self.transform_filters(problem, w)
        count = min(self.at_a_time or problem.batch, problem.batch)
        down, across = tiles(problem, self.exact, shift=crop)
        most = self.exact.positions * count * down * across  # floats of one channel of V, at most
        V = self.device.empty((most * problem.channels,), x.dtype, name="V")
        M = self.device.empty((most * problem.filters,), x.dtype, name="M")
        plan = self._results_plan(problem, problem.batch, crop, bias)
        y = self.device.empty(plan.arrays["y"].shape or (), x.dtype, name="y")
        for first in range(0, problem.batch, count):
            size = min(count, problem.batch - first)
            tile_count = size * down * across
            part_V, part_M = (a[: self.exact.positions * tile_count * channels] for a, channels in
                              ((V, problem.channels), (M, problem.filters)))  # fmt: skip
            part_y = y[first : first + size]
            launches += self.images.enqueue(
                {"BATCH": size, "C": problem.channels, "H": problem.height, "W": problem.width,
                 "PAD": problem.pad + crop}, {"x": x[first : first + size], "V": part_V},
            )  # fmt: skip
            launches += self.product.enqueue(
                {"POSITIONS": self.exact.positions, "C": problem.channels, "F": problem.filters, "P": tile_count},
                {"U": U, "V": part_V, "M": part_M},
            )
            sizes = self._results_sizes(problem, size, crop)
            arrays = {"M": part_M, "y": part_y} | ({"bias": bias} if bias is not None else {})
            launches += self.results.enqueue(sizes, arrays)
        shape = (self.exact.positions, problem.channels, problem.batch * down * across)
        kept = V.reshape(*shape) if count == problem.batch else None
        return Transformed(y, launches, U.nbytes + V.nbytes + M.nbytes, U=U, V=kept)

    def _results_sizes(self, problem: Convolution, batch: int, crop: int) -> dict[str, int]:
        sizes = {"BATCH": batch, "F": problem.filters, "OH": problem.out_height, "OW": problem.out_width}
        return sizes | ({"CROP": crop} if "CROP" in _scalars(self.results) else {})

    def _results_plan(self, problem: Convolution, batch: int, crop: int, bias: DeviceArray | None) -> Plan:
        """The last kernel's plan for all images: it knows y's shape. Raises ArgumentError for what it cannot do."""
        name = self.results.contract.name
        plan = self.results.contract.bind(self._results_sizes(problem, batch, crop), constants=self.results.constants)
        if crop and "CROP" not in _scalars(self.results):
            raise ArgumentError(f"{name} has no CROP", next_step="Use a kernel like 05_fused_epilogue.cu, or crop=0.")
        if ("bias" in plan.arrays) != (bias is not None):
            raise ArgumentError(
                f"{name} {'needs' if bias is None else 'takes no'} bias",
                next_step="Pass bias=..., an array of one float for each filter." if bias is None else "Drop bias=...",
            )
        return plan


def _scalars(program: Program) -> set[str]:
    return {p.name for entry in program.contract.entries for p in entry.parameters if not p.is_array}


def _common_matrices(*programs: Program) -> Matrices:
    """The F(m,r) that all transforms compute."""
    found = {}
    for program in programs:
        values = program.contract.declarations.constexpr_values(program.constants)
        if not {"TILE", "SIDE"} <= set(values):
            raise ArgumentError(
                f"{program.contract.name} says nothing about its tile",
                next_step="A transform declares constexpr int TILE, results of a tile, and SIDE, its numbers.",
            )
        found[program.contract.name] = values["TILE"], values["SIDE"]
    if len(set(found.values())) != 1:
        told = ", ".join(f"{name}: TILE = {tile}, SIDE = {side}" for name, (tile, side) in found.items())
        raise ArgumentError(f"the transforms are of different tiles ({told})")
    tile, side = next(iter(found.values()))
    return matrices(tile, side - tile + 1)


class FewChannels:
    """A layer with few channels by two kernels: the filters' transform, and one that does all the rest.

    `whole` takes x, U and bias and adds bias and ReLU; its constant CHANNELS says how many channels it takes.
    """

    def __init__(self, *, filters: Program, whole: Program) -> None:
        self.filters, self.whole = filters, whole
        self.device = require_device(filters, whole)
        self.exact = _common_matrices(filters, whole)

    def __call__(
        self, problem: Convolution, x: DeviceArray, w: DeviceArray, *, bias: DeviceArray | None = None
    ) -> Transformed:
        """Convolve, add the bias (None: zeros), make everything at least 0. Raises ArgumentError as `Winograd` does."""
        tiles(problem, self.exact)
        own = self.whole.contract.declarations.constexpr_values(self.whole.constants).get("CHANNELS")
        if own != problem.channels:
            raise ArgumentError(
                f"{self.whole.contract.name} was compiled for {own} channels, not {problem.channels}",
                next_step=f'Program(..., constants={{"CHANNELS": {problem.channels}}})',
            )
        U = self.device.empty((self.exact.positions, problem.channels, problem.filters), w.dtype, name="U")
        launches = self.filters.enqueue({"F": problem.filters, "C": problem.channels}, {"w": w, "U": U})
        if bias is None:
            bias = self.device.zeros((problem.filters,), x.dtype, name="bias")
        y = self.device.empty(problem.output_shape, x.dtype, name="y")
        sizes = {"BATCH": problem.batch, "H": problem.height, "W": problem.width, "F": problem.filters,
                 "PAD": problem.pad}  # fmt: skip
        launches += self.whole.enqueue(sizes, {"x": x, "U": U, "bias": bias, "y": y})
        return Transformed(y, launches, U.nbytes, U=U)
