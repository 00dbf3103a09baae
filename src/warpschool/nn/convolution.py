"""The convolution problem, and its answer in float64.

    problem = Convolution(batch=2, channels=3, height=28, width=28, filters=8, rows=5, cols=5, pad=2)
    problem = Convolution.of(x, w, stride=2, pad=1)        # from arrays; shapes that do not fit are refused
    y = convolve(x, w, stride=2, pad=1)                    # float64, whatever x and w hold

Images are [BATCH,C,H,W], filters [F,C,R,S], results [BATCH,F,OH,OW]. Like every library for neural networks this one
does not flip the filters: y[n,f,i,j] is the sum over c, r, s of x[n,c,i*STRIDE+r-PAD,j*STRIDE+s-PAD] * w[f,c,r,s],
where x counts as zero outside the image.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from warpschool.errors import ArgumentError


@dataclass(frozen=True, kw_only=True)
class Convolution:
    """The sizes of one convolution. Raises ArgumentError for sizes below 1 and for filters larger than the image."""

    batch: int
    channels: int
    height: int
    width: int
    filters: int
    rows: int
    """R, of a filter"""
    cols: int
    """S, of a filter"""
    stride: int = 1
    pad: int = 0

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if value < (name != "pad"):
                raise ArgumentError(
                    f"a convolution with {name} = {value}", next_step="Sizes are 1 or more, pad 0 or more."
                )
        if self.height + 2 * self.pad < self.rows or self.width + 2 * self.pad < self.cols:
            raise ArgumentError(
                f"filters {list(self.filter_shape)} are larger than images {list(self.image_shape)} with {self.pad} "
                "zeros on each side",
                next_step="Needed: H + 2*PAD >= R and W + 2*PAD >= S.",
            )

    @staticmethod
    def of(x: npt.ArrayLike, w: npt.ArrayLike, *, stride: int = 1, pad: int = 0) -> Convolution:
        """Return the problem that images and filters pose; anything with a shape serves.

        Raises ArgumentError, with both shapes, where they do not fit.
        """
        images, filters = tuple(np.shape(x)), tuple(np.shape(w))
        told = f"images have shape {list(images)}, filters {list(filters)}"
        if len(images) != 4 or len(filters) != 4:
            raise ArgumentError(told, next_step="Needed: images [BATCH,C,H,W] and filters [F,C,R,S].")
        if images[1] != filters[1]:
            raise ArgumentError(
                f"{told}: {images[1]} and {filters[1]} channels",
                next_step="The second numbers of both, the channels, must be equal.",
            )
        return Convolution(
            batch=images[0], channels=images[1], height=images[2], width=images[3], filters=filters[0],
            rows=filters[2], cols=filters[3], stride=stride, pad=pad,
        )  # fmt: skip

    # ---------------------------------------------------------------- shapes

    @property
    def out_height(self) -> int:
        """OH."""
        return (self.height + 2 * self.pad - self.rows) // self.stride + 1

    @property
    def out_width(self) -> int:
        """OW."""
        return (self.width + 2 * self.pad - self.cols) // self.stride + 1

    @property
    def image_shape(self) -> tuple[int, int, int, int]:
        return self.batch, self.channels, self.height, self.width

    @property
    def filter_shape(self) -> tuple[int, int, int, int]:
        return self.filters, self.channels, self.rows, self.cols

    @property
    def output_shape(self) -> tuple[int, int, int, int]:
        return self.batch, self.filters, self.out_height, self.out_width

    @property
    def sizes(self) -> dict[str, int]:
        """The same numbers under the names that kernel headers use (without OH and OW, which headers derive)."""
        return {
            "BATCH": self.batch, "C": self.channels, "H": self.height, "W": self.width, "F": self.filters,
            "R": self.rows, "S": self.cols, "STRIDE": self.stride, "PAD": self.pad,
        }  # fmt: skip

    # ---------------------------------------------------------------- amounts

    @property
    def terms(self) -> int:
        """Products that are added up for one result: C R S."""
        return self.channels * self.rows * self.cols

    @property
    def products(self) -> int:
        """Multiply-adds of the direct method, those with padding included."""
        return self.batch * self.filters * self.out_height * self.out_width * self.terms

    @property
    def flop(self) -> int:
        """Operations of the direct method: a multiply-add counts as two."""
        return 2 * self.products

    def arrays(self, rng: np.random.Generator, dtype: npt.DTypeLike = np.float32) -> tuple[np.ndarray, np.ndarray]:
        """Return random images and filters: floats uniform in [-1, 1), integers in [-8, 8)."""
        kind = np.dtype(dtype).kind
        shapes: Sequence[tuple[int, ...]] = (self.image_shape, self.filter_shape)
        x, w = (rng.uniform(-1, 1, s) if kind == "f" else rng.integers(-8, 8, s) for s in shapes)
        return x.astype(dtype), w.astype(dtype)


def convolve(x: npt.ArrayLike, w: npt.ArrayLike, *, stride: int = 1, pad: int = 0) -> np.ndarray:
    """Return the direct convolution of images and filters, accumulated in float64.

    Raises ArgumentError, with both shapes, where they do not fit.
    """
    problem = Convolution.of(x, w, stride=stride, pad=pad)
    filters = np.asarray(w, np.float64)
    padded = np.pad(np.asarray(x, np.float64), ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    out_h, out_w = problem.out_height, problem.out_width
    y = np.zeros((problem.batch, problem.filters, out_h * out_w))
    for r in range(problem.rows):
        for s in range(problem.cols):
            shifted = padded[:, :, r : r + stride * out_h : stride, s : s + stride * out_w : stride]
            y += filters[:, :, r, s] @ shifted[:, :, :out_h, :out_w].reshape(problem.batch, problem.channels, -1)
    return y.reshape(problem.output_shape)
