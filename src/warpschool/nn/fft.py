"""Convolution by way of frequencies: a library's transforms, a kernel's products, and what both cost."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from warpschool.device import DeviceArray
from warpschool.harness.launcher import Program
from warpschool.nn.convolution import Convolution
from warpschool.nn.pipelines import Convolved, array_library, require_device


class Fft:
    """Transform images and filters (numpy.fft, or cupy.fft on a GPU), multiply by a kernel, and transform back.

    `product` writes `Y` [BATCH,F,POINTS,2] from `X` and `W`: complex numbers as pairs of floats, the sum over channels
    of X times the conjugate of W.
    """

    def __init__(self, product: Program) -> None:
        self.product = product
        self.device = require_device(product)

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
        launches = self.product.enqueue(sizes, on_device | {"Y": sums})
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
