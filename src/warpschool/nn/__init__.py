"""Neural networks out of kernels: problems, references in float64, and pipelines that take kernels as parameters."""

from warpschool.nn.references import Convolution, convolve

__all__ = ["Convolution", "convolve"]
