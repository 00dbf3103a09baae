"""Convolutions made of kernels. The kernels are parameters: a starter, a student's or a reference, on either device.

    kernels = Program(contract, device="sim")
    pipeline = Im2col(unroll=kernels, product=gemm)
    result = pipeline(problem, device.asarray(x), device.asarray(w))       # arrays on the device, result.y too
    result = run(pipeline, problem, x, w)                                  # the same with host arrays

Nothing is copied between host and device inside a pipeline, and nothing waits for the GPU.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
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
from warpschool.nn.convolution import Convolution

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


class OneFile:
    """A kernel file that takes images `x` and filters `w` and writes `y`: direct methods, implicit GEMM, im2col + GEMM.

    Arrays that the file calls Scratch are allocated.
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        self.device = require_device(program)

    def __call__(self, problem: Convolution, x: DeviceArray, w: DeviceArray) -> Convolved:
        plan = self.program.contract.bind(problem.sizes, constants=self.program.constants)
        y = self.device.empty(problem.output_shape, plan.arrays["y"].dtype, name="y")
        scratch = sum(_bytes_of(plan.arrays[name]) for name in plan.contract.scratch)
        return Convolved(y, self.program.enqueue(problem.sizes, {"x": x, "w": w, "y": y}), scratch)


def _bytes_of(array: ArrayPlan) -> int:
    return math.prod(array.shape or ()) * array.dtype.itemsize


class RollingConstant:
    """A kernel that reads its filters from constant memory: as many filters at a time as fit there, part by part.

    The kernel takes `part`, filters F0 to F0 + PART of the F filters, and writes their channels of y.
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        self.device = require_device(program)

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


def im2col(x: npt.ArrayLike, problem: Convolution) -> np.ndarray:
    """Return the unrolled images [BATCH, C*R*S, OH*OW]: row (c, r, s), column (i, j) is x[c, i*STRIDE+r-PAD, ...]."""
    pad, stride = problem.pad, problem.stride
    padded = np.pad(np.asarray(x), ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (problem.rows, problem.cols), axis=(2, 3))
    windows = windows[:, :, ::stride, ::stride]  # [BATCH, C, OH, OW, R, S]
    columns: Sequence[int] = (problem.batch, problem.terms, problem.out_height * problem.out_width)
    return np.ascontiguousarray(windows.transpose(0, 1, 4, 5, 2, 3)).reshape(columns)


class PoolingLayout:
    """A kernel file that takes filters as [R,S,C,F] and writes windows of 2 x 2 as 4 x 1: `y` [BATCH,F,2*OH,OW/2]."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.device = require_device(program)

    def __call__(self, problem: Convolution, x: DeviceArray, w: DeviceArray) -> Convolved:
        turned = self.device.asarray(np.ascontiguousarray(w.get().transpose(2, 3, 1, 0)), name="w")
        batch, filters, rows, cols = problem.output_shape
        y = self.device.empty((batch, filters, 2 * rows, cols // 2), x.dtype, name="y")
        launches = self.program.enqueue(problem.sizes, {"x": x, "w": turned, "y": y})
        return Convolved(y, launches, x.nbytes)


def pooling_order(y: np.ndarray) -> np.ndarray:
    """Return [BATCH,F,OH,OW] with every window of 2 x 2 as a column of four: [BATCH,F,2*OH,OW/2]."""
    batch, filters, rows, cols = y.shape
    windows = y.reshape(batch, filters, rows // 2, 2, cols // 2, 2).transpose(0, 1, 2, 3, 5, 4)
    return np.ascontiguousarray(windows).reshape(batch, filters, 2 * rows, cols // 2)


class ChannelsLast:
    """A kernel file that takes half-precision images as NHWC and filters as FRSC, in groups of eight channels.

    Takes and returns NCHW as the other pipelines do: turned round before and after, channels and filters padded.
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        self.device = require_device(program)

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
