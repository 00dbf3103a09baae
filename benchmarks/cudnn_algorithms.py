"""cuDNN's convolution by an algorithm of our choice, through its C interface; PyTorch cannot be told which to use.

    python benchmarks/cudnn_algorithms.py [--out FILE]

times every algorithm on the layers of labs 08's and 09's tables, in float32, beside the one that PyTorch calls in
benchmark mode: the rival is the best of them.
"""

from __future__ import annotations

import argparse
import ctypes
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import cupy
import torch

import warpschool as ws
from warpschool.device.measurement import Rules
from warpschool.nn import Convolution

GEMM_ALGORITHMS = {"implicit GEMM": 0, "implicit GEMM with precomputed indices": 1, "GEMM": 2}
ALGORITHMS = GEMM_ALGORITHMS | {"FFT": 4, "FFT of tiles": 5, "Winograd": 6, "Winograd, not fused": 7}
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


def measured(layer: str, problem: Convolution, rules: Rules) -> dict[str, Any]:
    """Median times of a layer in ms, by algorithm (None: cuDNN does not take the layer so), and as PyTorch calls it."""
    x, w = (cupy.random.uniform(-1, 1, shape, dtype=cupy.float32) for shape in
            (problem.image_shape, problem.filter_shape))  # fmt: skip
    y = cupy.empty(problem.output_shape, cupy.float32)
    library = Cudnn()
    times: dict[str, float | None] = {}
    for name, number in ALGORITHMS.items():
        try:
            work = library.convolution(problem, x, w, y, number)
            times[name] = ws.benchmark(work, device="gpu", rules=rules).median_ms
        except (RuntimeError, cupy.cuda.memory.OutOfMemoryError):
            times[name] = None
        cupy.get_default_memory_pool().free_all_blocks()
    tx, tw = torch.from_dlpack(x), torch.from_dlpack(w)
    called = ws.benchmark(
        lambda: torch.nn.functional.conv2d(tx, tw, padding=problem.pad), device="gpu", rules=rules
    )
    return {"layer": layer, "times_ms": times, "pytorch_ms": called.median_ms}


def main() -> None:
    """Measure the layers, print a line for each, write them all as JSON."""
    from winograd import LAYERS  # a benchmark beside this one

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="write the results to this JSON file")
    options = parser.parse_args()
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.allow_tf32 = False
    rules = Rules(max_seconds=0.3, target_error=0.01, min_samples=7)
    first = Convolution(batch=10_000, channels=1, height=28, width=28, filters=32, rows=5, cols=5)
    rows = []
    for name, problem in {"lenet1": first, **{layer.name: layer.problem for layer in LAYERS}}.items():
        rows.append(measured(name, problem, rules))
        print(json.dumps(rows[-1]), flush=True)
    if options.out:
        device = ws.get_device("gpu")
        result = {
            "device": device.description, "torch": torch.__version__, "cudnn": torch.backends.cudnn.version(),
            "flush": "L2 flushed before each sample", "tf32": False, "rows": rows,
        }  # fmt: skip
        options.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
