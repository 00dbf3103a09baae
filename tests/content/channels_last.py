"""A pipeline for kernel files of lab 08 that store channels last, so that they are judged as all others are."""

from __future__ import annotations

import numpy as np

from warpschool.device import DeviceArray
from warpschool.nn import Convolution
from warpschool.nn.pipelines import Convolved, OneProgram, array_library


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
