"""Convolutions made of kernels. The kernels are parameters: a starter, a student's or a reference, on either device.

    kernels = Program(contract, device="sim")
    pipeline = OneFile(kernels)
    result = pipeline(problem, device.asarray(x), device.asarray(w))       # arrays on the device, result.y too
    result = run(pipeline, x, w, pad=1)                                    # the same with host arrays

    pipeline = Winograd(filters=Program(...), images=Program(...), product=Program(...), results=Program(...))

Nothing is copied between host and device inside a pipeline, and nothing waits for the GPU.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from warpschool.contract import ArrayPlan
from warpschool.counters import Counters
from warpschool.device import DeviceArray, Launch
from warpschool.device.protocol import Device
from warpschool.errors import ArgumentError
from warpschool.harness.launcher import Program
from warpschool.nn.references import Convolution
from warpschool.nn.winograd import Matrices, kernel_sizes, matrices

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


class PoolingLayout(OneProgram):
    """A kernel file that takes filters as [R,S,C,F] and writes windows of 2 x 2 as 4 x 1: `y` [BATCH,F,2*OH,OW/2]."""

    def __call__(self, problem: Convolution, x: DeviceArray, w: DeviceArray) -> Convolved:
        turned = self.device.asarray(np.ascontiguousarray(w.get().transpose(2, 3, 1, 0)), name="w")
        batch, filters, rows, cols = problem.output_shape
        y = self.device.empty((batch, filters, 2 * rows, cols // 2), x.dtype, name="y")
        launches = self.program.enqueue(problem.sizes, {"x": x, "w": turned, "y": y})
        return Convolved(y, launches, x.nbytes)


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


class Winograd:
    """F(m x m, r x r) by four kernel files.

    All transforms must be of one tile: their constants TILE and SIDE decide. Raises ArgumentError otherwise.
    """

    def __init__(self, *, filters: Program, images: Program, product: Program, results: Program) -> None:
        self.filters, self.images, self.product, self.results = filters, images, product, results
        self.device = require_device(filters, images, product, results)
        self.exact = _common_matrices(filters, images, results)

    def __call__(self, problem: Convolution, x: DeviceArray, w: DeviceArray) -> Convolved:
        """Convolve. Raises ArgumentError for filters that are not r x r, and for a stride."""
        sizes = kernel_sizes(problem, self.exact)
        positions, places = self.exact.positions, sizes["product"]["P"]
        U = self.device.empty((positions, problem.channels, problem.filters), w.dtype, name="U")
        V = self.device.empty((positions, problem.channels, places), x.dtype, name="V")
        M = self.device.empty((positions, problem.filters, places), x.dtype, name="M")
        y = self.device.empty(problem.output_shape, x.dtype, name="y")
        launches = (
            *self.filters.enqueue(sizes["filters"], {"w": w, "U": U}),
            *self.images.enqueue(sizes["images"], {"x": x, "V": V}),
            *self.product.enqueue(sizes["product"], {"U": U, "V": V, "M": M}),
            *self.results.enqueue(sizes["results"], {"M": M, "y": y}),
        )
        return Convolved(y, launches, U.nbytes + V.nbytes + M.nbytes)


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

    `whole` takes x, U and bias and adds ReLU; its constant CHANNELS says how many channels it takes.
    """

    def __init__(self, *, filters: Program, whole: Program) -> None:
        self.filters, self.whole = filters, whole
        self.device = require_device(filters, whole)
        self.exact = _common_matrices(filters, whole)

    def __call__(self, problem: Convolution, x: DeviceArray, w: DeviceArray) -> Convolved:
        """Convolve, with biases of 0, and make everything at least 0. Raises ArgumentError as `Winograd` does."""
        sizes = kernel_sizes(problem, self.exact)
        own = self.whole.contract.declarations.constexpr_values(self.whole.constants).get("CHANNELS")
        if own != problem.channels:
            raise ArgumentError(
                f"{self.whole.contract.name} was compiled for {own} channels, not {problem.channels}",
                next_step=f'Program(..., constants={{"CHANNELS": {problem.channels}}})',
            )
        U = self.device.empty((self.exact.positions, problem.channels, problem.filters), w.dtype, name="U")
        y = self.device.empty(problem.output_shape, x.dtype, name="y")
        bias = self.device.zeros((problem.filters,), x.dtype, name="bias")
        whole = {name: problem.sizes[name] for name in ("BATCH", "H", "W", "F", "PAD")}
        launches = (
            *self.filters.enqueue(sizes["filters"], {"w": w, "U": U}),
            *self.whole.enqueue(whole, {"x": x, "U": U, "bias": bias, "y": y}),
        )
        return Convolved(y, launches, U.nbytes)
