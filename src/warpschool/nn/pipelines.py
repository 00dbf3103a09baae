"""Convolutions made of kernels. The kernels are parameters: a starter, a student's or a reference, on either device.

    kernels = Program(contract, device="sim")
    pipeline = Im2col(unroll=kernels, product=gemm)
    result = pipeline(problem, device.asarray(x), device.asarray(w))       # arrays on the device, result.y too
    result = run(pipeline, problem, x, w)                                  # the same with host arrays

    pipeline = Winograd(filters=Program(...), images=Program(...), product=Program(...), results=Program(...))
    done = run(pipeline, x, w, pad=1)
    done.y, done.U, done.V                                                 # U and V for whoever computes gradients

Nothing is copied between host and device inside a pipeline, and nothing waits for the GPU.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from warpschool.contract import ArrayPlan, Plan
from warpschool.counters import Counters
from warpschool.device import DeviceArray, Launch
from warpschool.device.protocol import Device
from warpschool.errors import ArgumentError
from warpschool.harness.launcher import Program
from warpschool.nn.references import Convolution
from warpschool.nn.winograd import Matrices, matrices, tiles

CONSTANT_FLOATS = 16_384
"""What constant memory holds: 65,536 bytes."""


@dataclass(frozen=True, eq=False)
class Convolved:
    """What a pipeline leaves on the device: the result, the launches in order, and how much memory they needed."""

    y: DeviceArray
    launches: tuple[Launch, ...] = field(repr=False)
    scratch_bytes: int = 0
    """memory besides images, filters and result"""

    @property
    def counters(self) -> Counters:
        """The sum over all launches. Raises NotMeasured on a device that does not count."""
        return sum((launch.counters for launch in self.launches), Counters())

    @property
    def hazards(self) -> tuple[object, ...]:
        """The hazards of all launches. Raises NotMeasured on a device that looks for none."""
        return tuple(hazard for launch in self.launches for hazard in launch.hazards)


class Pipeline(Protocol):
    """A way to compute a convolution from arrays on a device."""

    @property
    def device(self) -> Device: ...

    def __call__(self, problem: Convolution, x: DeviceArray, w: DeviceArray) -> Convolved: ...


def run(pipeline: Pipeline, x: npt.ArrayLike, w: npt.ArrayLike, *, stride: int = 1, pad: int = 0) -> Convolved:
    """Copy images and filters to the pipeline's device and convolve them there.

    Raises ArgumentError, with both shapes, where they do not fit.
    """
    problem = Convolution.of(x, w, stride=stride, pad=pad)
    device = pipeline.device
    return pipeline(problem, device.asarray(x, name="x"), device.asarray(w, name="w"))


def require_device(*programs: Program) -> Device:
    """Return the one device of all programs; raises ArgumentError where they have several."""
    device = programs[0].module.device
    if any(program.module.device is not device for program in programs):
        names = " and ".join(f"{p.contract.name} on {p.module.device.name}" for p in programs)
        raise ArgumentError(f"a pipeline needs all kernels on one device, not {names}")
    return device


class OneProgram:
    """A pipeline whose kernels stand in one file."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.device = require_device(program)


class OneFile(OneProgram):
    """A kernel file that takes images `x` and filters `w` and writes `y`: direct methods, implicit GEMM, im2col + GEMM.

    Arrays that the file calls Scratch are allocated.
    """

    def __call__(self, problem: Convolution, x: DeviceArray, w: DeviceArray) -> Convolved:
        plan = self.program.contract.bind(problem.sizes, constants=self.program.constants)
        y = self.device.empty(problem.output_shape, plan.arrays["y"].dtype, name="y")
        scratch = sum(_bytes_of(plan.arrays[name]) for name in plan.contract.scratch)
        return Convolved(y, self.program.enqueue(problem.sizes, {"x": x, "w": w, "y": y}), scratch)


def _bytes_of(array: ArrayPlan) -> int:
    return math.prod(array.shape or ()) * array.dtype.itemsize


class RollingConstant(OneProgram):
    """A kernel that reads its filters from constant memory: as many filters at a time as fit there, part by part.

    The kernel takes `part`, filters F0 to F0 + PART of the F filters, and writes their channels of y.
    """

    def __call__(self, problem: Convolution, x: DeviceArray, w: DeviceArray) -> Convolved:
        y = self.device.empty(problem.output_shape, x.dtype, name="y")
        launches: list[Launch] = []
        for first, count in parts(problem):
            sizes = problem.sizes | {"F0": first, "PART": count}
            launches += self.program.enqueue(sizes, {"x": x, "part": w[first : first + count], "y": y})
        return Convolved(y, tuple(launches))


def parts(problem: Convolution) -> list[tuple[int, int]]:
    """Return (first filter, number of filters) of the parts that fit into constant memory, equal but for the last.

    Raises ArgumentError where not even one filter fits.
    """
    most = CONSTANT_FLOATS // problem.terms
    if not most:
        raise ArgumentError(
            f"a filter of {list(problem.filter_shape[1:])} has {problem.terms:,} elements; constant memory holds "
            f"{CONSTANT_FLOATS:,}"
        )
    size = -(-problem.filters // -(-problem.filters // most))
    return [(first, min(size, problem.filters - first)) for first in range(0, problem.filters, size)]


class Im2col:
    """Unroll the images into a matrix, then multiply the filters by it, image by image.

    `unroll` writes `cols` [BATCH, C*R*S, OH*OW] from `x`; `product` is any kernel of C = A * B.
    """

    def __init__(self, unroll: Program, product: Program) -> None:
        self.unroll, self.product = unroll, product
        self.device = require_device(unroll, product)

    def __call__(self, problem: Convolution, x: DeviceArray, w: DeviceArray) -> Convolved:
        places = problem.out_height * problem.out_width
        cols = self.device.empty((problem.batch, problem.terms, places), x.dtype, name="cols")
        y = self.device.empty((problem.batch, problem.filters, places), x.dtype, name="y")
        sizes = {name: problem.sizes[name] for name in ("BATCH", "C", "H", "W", "R", "S", "STRIDE", "PAD")}
        launches = list(self.unroll.enqueue(sizes, {"x": x, "cols": cols}))
        matrix = w.reshape(problem.filters, problem.terms)
        product = {"M": problem.filters, "N": places, "K": problem.terms}
        for image in range(problem.batch):
            launches += self.product.enqueue(product, {"A": matrix, "B": cols[image], "C": y[image]})
        return Convolved(y.reshape(*problem.output_shape), tuple(launches), cols.nbytes)


class PoolingLayout(OneProgram):
    """A kernel file that takes filters as [R,S,C,F] and writes windows of 2 x 2 as 4 x 1: `y` [BATCH,F,2*OH,OW/2]."""

    def __call__(self, problem: Convolution, x: DeviceArray, w: DeviceArray) -> Convolved:
        turned = self.device.asarray(np.ascontiguousarray(w.get().transpose(2, 3, 1, 0)), name="w")
        batch, filters, rows, cols = problem.output_shape
        y = self.device.empty((batch, filters, 2 * rows, cols // 2), x.dtype, name="y")
        launches = self.program.enqueue(problem.sizes, {"x": x, "w": turned, "y": y})
        return Convolved(y, launches, x.nbytes)


class ChannelsLast(OneProgram):
    """A kernel file that takes half-precision images as NHWC and filters as FRSC, in groups of eight channels.

    Takes and returns NCHW as the other pipelines do: turned round before and after, channels and filters padded.
    """

    def __call__(self, problem: Convolution, x: DeviceArray, w: DeviceArray) -> Convolved:
        library, group = array_library(self.device), 8
        channels, filters = -problem.channels % group, -problem.filters % group
        images = library.pad(x.native.transpose(0, 2, 3, 1), ((0, 0), (0, 0), (0, 0), (0, channels)))
        weights = library.pad(w.native.transpose(0, 2, 3, 1), ((0, filters), (0, 0), (0, 0), (0, channels)))
        arrays = {
            name: self.device.asarray(library.ascontiguousarray(values, dtype=np.float16), name=name)
            for name, values in (("x", images), ("w", weights))
        }
        sizes = problem.sizes | {"C": problem.channels + channels, "F": problem.filters + filters}
        batch, count, rows, cols = problem.output_shape
        y = self.device.empty((batch, rows, cols, count + filters), np.float16, name="y")
        launches = self.program.enqueue(sizes, arrays | {"y": y})
        turned = library.ascontiguousarray(y.native[..., :count].transpose(0, 3, 1, 2))
        scratch = y.nbytes + sum(array.nbytes for array in arrays.values())
        return Convolved(self.device.asarray(turned, name="y"), launches, scratch)


def array_library(device: Device) -> Any:
    """Return NumPy, or CuPy for a GPU: what works on a device array's `native`."""
    return getattr(device, "cupy", np)


# ---------------------------------------------------------------- by way of frequencies


class Fft(OneProgram):
    """Transform images and filters (numpy.fft, or cupy.fft on a GPU), multiply by a kernel, and transform back.

    The kernel writes `Y` [BATCH,F,POINTS,2] from `X` and `W`: complex numbers as pairs of floats, the sum over channels
    of X times the conjugate of W.
    """

    def __call__(self, problem: Convolution, x: DeviceArray, w: DeviceArray) -> Convolved:
        rows, cols = spectrum(problem)
        points = rows * cols
        library = array_library(self.device)
        pad, stride, width = problem.pad, problem.stride, 2 * (cols - 1) or 1
        images = library.pad(x.native, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
        spectra = {"X": _transform(library, images, (rows, width)), "W": _transform(library, w.native, (rows, width))}
        on_device = {name: self.device.asarray(values, name=name) for name, values in spectra.items()}
        sums = self.device.empty((problem.batch, problem.filters, points, 2), np.float32, name="Y")
        sizes = {"BATCH": problem.batch, "C": problem.channels, "F": problem.filters, "POINTS": points}
        launches = self.program.enqueue(sizes, on_device | {"Y": sums})
        pairs = sums.native.reshape(problem.batch, problem.filters, rows, cols, 2)
        whole = library.fft.irfft2(pairs[..., 0] + 1j * pairs[..., 1], s=(rows, width))
        height, breadth = problem.out_height * stride, problem.out_width * stride
        y = library.ascontiguousarray(whole[..., :height:stride, :breadth:stride], dtype=np.float32)
        scratch = sums.nbytes + sum(array.nbytes for array in on_device.values())
        return Convolved(self.device.asarray(y, name="y"), launches, scratch)


def spectrum(problem: Convolution) -> tuple[int, int]:
    """Return rows and columns of frequencies: of the padded image's real transform, whose width is made even."""
    width = problem.width + 2 * problem.pad
    return problem.height + 2 * problem.pad, (width + width % 2) // 2 + 1


def transform_flop(problem: Convolution) -> float:
    """Operations of all transforms: 2.5 N log2 N for a real one of N points, as is usual."""
    rows, cols = spectrum(problem)
    points = rows * 2 * (cols - 1)
    transforms = problem.batch * problem.channels + problem.filters * problem.channels + problem.batch * problem.filters
    return transforms * 2.5 * points * math.log2(points)


def product_flop(problem: Convolution) -> int:
    """Operations of the products: eight for a complex multiply-add."""
    rows, cols = spectrum(problem)
    return 8 * problem.batch * problem.filters * problem.channels * rows * cols


def _transform(library: Any, planes: Any, size: tuple[int, int]) -> Any:
    """Real transform of the last two axes, zeros added up to `size`, as float32 pairs [..., POINTS, 2]."""
    values = library.fft.rfft2(planes, s=size)
    pairs = library.stack([values.real, values.imag], axis=-1).astype(np.float32)
    return library.ascontiguousarray(pairs.reshape(*pairs.shape[:2], -1, 2))


# ---------------------------------------------------------------- Winograd's method


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
