"""cuDNN's convolution by an algorithm of our choice, through its C interface; PyTorch cannot be told which to use."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import cupy

from warpschool.nn import Convolution

GEMM_ALGORITHMS = {"implicit GEMM": 0, "implicit GEMM with precomputed indices": 1, "GEMM": 2}
"""name -> cudnnConvolutionFwdAlgo_t"""
_NCHW, _FLOAT, _CROSS_CORRELATION, _FMA_MATH = 0, 0, 1, 3


class Cudnn:
    """A handle of cuDNN. Raises OSError where the library cannot be loaded."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL("libcudnn.so.9")  # PyTorch has loaded it already
        self._library.cudnnGetErrorString.restype = ctypes.c_char_p
        self._handle = ctypes.c_void_p()
        self._call("cudnnCreate", ctypes.byref(self._handle))

    def _call(self, name: str, *arguments: Any) -> None:
        status = getattr(self._library, name)(*arguments)
        if status:
            raise RuntimeError(f"{name}: {self._library.cudnnGetErrorString(status).decode()}")

    def _descriptor(self, kind: str, setter: str, *arguments: Any) -> ctypes.c_void_p:
        made = ctypes.c_void_p()
        self._call(f"cudnnCreate{kind}Descriptor", ctypes.byref(made))
        self._call(setter, made, *arguments)
        return made

    def convolution(self, problem: Convolution, x: Any, w: Any, y: Any, algorithm: int) -> Callable[[], None]:
        """A function that computes y from x and w, all CuPy arrays, float32, NCHW, on the current stream.

        Raises RuntimeError where cuDNN does not support the problem by this algorithm.
        """

        def tensor(shape: Sequence[int]) -> ctypes.c_void_p:
            return self._descriptor("Tensor", "cudnnSetTensor4dDescriptor", _NCHW, _FLOAT, *shape)

        images, results = tensor(problem.image_shape), tensor(problem.output_shape)
        filters = self._descriptor("Filter", "cudnnSetFilter4dDescriptor", _FLOAT, _NCHW, *problem.filter_shape)
        pad, stride = problem.pad, problem.stride
        how = self._descriptor(
            "Convolution", "cudnnSetConvolution2dDescriptor", pad, pad, stride, stride, 1, 1, _CROSS_CORRELATION, _FLOAT
        )  # fmt: skip
        self._call("cudnnSetConvolutionMathType", how, _FMA_MATH)
        size = ctypes.c_size_t()
        self._call(
            "cudnnGetConvolutionForwardWorkspaceSize", self._handle, images, filters, how, results, algorithm,
            ctypes.byref(size),
        )  # fmt: skip
        room = cupy.empty(max(size.value, 1), cupy.uint8)
        one, zero = ctypes.c_float(1.0), ctypes.c_float(0.0)

        def work() -> None:
            self._call("cudnnSetStream", self._handle, ctypes.c_void_p(cupy.cuda.get_current_stream().ptr))
            self._call(
                "cudnnConvolutionForward", self._handle, ctypes.byref(one), images, ctypes.c_void_p(x.data.ptr),
                filters, ctypes.c_void_p(w.data.ptr), how, algorithm, ctypes.c_void_p(room.data.ptr),
                ctypes.c_size_t(size.value), ctypes.byref(zero), results, ctypes.c_void_p(y.data.ptr),
            )  # fmt: skip

        work()
        return work
