"""cuDNN's convolution by an algorithm of our choice, through its C interface; PyTorch cannot be told which to use.

    python benchmarks/cudnn_algorithms.py [--out FILE] [--only SECTION ...] [--seconds 0.3]

times every algorithm of cuDNN on the layers of labs 08, 09 and 12, beside the one that PyTorch calls in benchmark mode
(its arrays as they are, and channels last), and compares each result with a float64 convolution. The rival is the best
of them all: `fastest` finds it for the benchmarks that time our kernels in turns with it. Sections:

    float32    lab 08's and 09's layers: VGG16's 13, 32 images; the two of the digits' network, 10,000 images
    half       VGG16's 13 in half precision with float32 sums, in both layouts
    split      lab 12's layers of Yolo and ResNet, one image
"""

from __future__ import annotations

import argparse
import ctypes
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import cupy
import torch

import warpschool as ws
from warpschool.device.measurement import Rules
from warpschool.nn import Convolution

GEMM_ALGORITHMS = {"implicit GEMM": 0, "implicit GEMM with precomputed indices": 1, "GEMM": 2}
ALGORITHMS = GEMM_ALGORITHMS | {"FFT": 4, "FFT of tiles": 5, "Winograd": 6, "Winograd, not fused": 7}
"""name -> cudnnConvolutionFwdAlgo_t; 3, direct, is in the list of cuDNN but not in the library"""
PYTORCH = "PyTorch's choice"
LAYOUTS = {"NCHW": 0, "NHWC": 1}
CHECKED_IMAGES, CHECKED_FILTERS = 2, 8
QUICK = Rules(warmup_runs=2, warmup_ms=2.0, min_samples=7, max_samples=15, max_seconds=0.15)
_FLOAT, _HALF, _CROSS_CORRELATION = 0, 2, 1
_TENSOR_OP_MATH, _FMA_MATH = 1, 3


def _address(array: Any) -> ctypes.c_void_p:
    """Where the elements of a CuPy or PyTorch array begin."""
    return ctypes.c_void_p(array.data_ptr() if isinstance(array, torch.Tensor) else array.data.ptr)


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

    def convolution(
        self, problem: Convolution, x: Any, w: Any, y: Any, algorithm: int, *, layout: str = "NCHW"
    ) -> Callable[[], None]:
        """A function that computes y from x and w, CuPy or PyTorch arrays that lie in `layout`, on the current stream.

        Sums are float32, by multiply-adds for float32 arrays and on tensor cores for float16 ones. Raises RuntimeError
        where cuDNN does not support the problem by this algorithm.
        """
        half = "16" in str(x.dtype)
        kind, form = _HALF if half else _FLOAT, LAYOUTS[layout]

        def tensor(shape: Sequence[int]) -> ctypes.c_void_p:
            return self._descriptor("Tensor", "cudnnSetTensor4dDescriptor", form, kind, *shape)

        images, results = tensor(problem.image_shape), tensor(problem.output_shape)
        filters = self._descriptor("Filter", "cudnnSetFilter4dDescriptor", kind, form, *problem.filter_shape)
        pad, stride = problem.pad, problem.stride
        how = self._descriptor(
            "Convolution", "cudnnSetConvolution2dDescriptor", pad, pad, stride, stride, 1, 1, _CROSS_CORRELATION, _FLOAT
        )  # fmt: skip
        self._call("cudnnSetConvolutionMathType", how, _TENSOR_OP_MATH if half else _FMA_MATH)
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
                "cudnnConvolutionForward", self._handle, ctypes.byref(one), images, _address(x), filters, _address(w),
                how, algorithm, ctypes.c_void_p(room.data.ptr), ctypes.c_size_t(size.value), ctypes.byref(zero),
                results, _address(y),
            )  # fmt: skip

        work()
        return work


class Exact:
    """Some images and filters of a layer in float64, against which results are held."""

    def __init__(self, problem: Convolution, x: torch.Tensor, w: torch.Tensor) -> None:
        self.exact = torch.nn.functional.conv2d(
            x[:CHECKED_IMAGES].double(), w[:CHECKED_FILTERS].double(), stride=problem.stride, padding=problem.pad
        )

    def error(self, y: torch.Tensor) -> float:
        """The largest error, of the largest result; NaN where an element was not written."""
        images, filters = self.exact.shape[:2]
        difference = (y[:images, :filters].double() - self.exact).abs()
        return float(difference.max() / self.exact.abs().max())


@dataclass(frozen=True)
class Rival:
    """One way in which cuDNN computes a layer."""

    name: str
    time_ms: float
    error: float
    make: Callable[[], Callable[[], Any]]
    """builds it again: a workspace may be too large to be kept"""


def rivals(problem: Convolution, x: torch.Tensor, w: torch.Tensor, rules: Rules = QUICK) -> tuple[Rival, ...]:
    """cuDNN by each algorithm that takes the layer, then as PyTorch calls it; those that are wrong are left out.

    Float16 arrays are tried in both layouts; float32 ones are tried channels last by PyTorch alone.
    """
    library, exact = Cudnn(), Exact(problem, x, w)
    half = x.dtype == torch.float16
    found = []
    for layout in LAYOUTS if half else ("NCHW",):
        memory = torch.channels_last if layout == "NHWC" else torch.contiguous_format
        images, filters = (a.contiguous(memory_format=memory) for a in (x, w))
        y = torch.empty(problem.output_shape, dtype=x.dtype, device="cuda").contiguous(memory_format=memory)
        for name, number in ALGORITHMS.items():
            make = partial(library.convolution, problem, images, filters, y, number, layout=layout)
            try:
                work = make()
            except (RuntimeError, cupy.cuda.memory.OutOfMemoryError):
                continue  # cuDNN does not take the layer so
            y.fill_(math.nan)
            work()
            error, time = exact.error(y), _time(work, rules)
            found.append(Rival(f"{name}, {layout}" if half else name, time, error, make))
            del work
            cupy.get_default_memory_pool().free_all_blocks()
    for memory, name in ((torch.contiguous_format, PYTORCH), (torch.channels_last, f"{PYTORCH}, channels last")):
        images, filters = (a.contiguous(memory_format=memory) for a in (x, w))
        call = _as_pytorch_calls(problem, images, filters)
        found.append(Rival(name, _time(call, rules), exact.error(call()), partial(lambda work: work, call)))
    return tuple(one for one in found if one.error < (5e-3 if half else 1e-3))


def _as_pytorch_calls(problem: Convolution, x: torch.Tensor, w: torch.Tensor) -> Callable[[], torch.Tensor]:
    return lambda: torch.nn.functional.conv2d(x, w, stride=problem.stride, padding=problem.pad)


def _time(work: Callable[[], Any], rules: Rules) -> float:
    return ws.benchmark(work, device="gpu", rules=rules).median_ms or math.inf


def fastest(problem: Convolution, x: torch.Tensor, w: torch.Tensor, rules: Rules = QUICK) -> tuple[Rival, ...]:
    """cuDNN's ways to compute the layer, the fastest first."""
    return tuple(sorted(rivals(problem, x, w, rules), key=lambda one: one.time_ms))


@dataclass(frozen=True, kw_only=True)
class Best:
    """cuDNN's fastest way to compute a layer, in turns with ours; `ratio` is our time as a multiple of its."""

    name: str
    time_ms: float
    ratio: float
    error: float
    """its largest error, of the largest result"""
    times_ms: dict[str, float]
    """of all its ways, each measured alone"""


def against_best(work: Callable[[], Any], ways: Sequence[Rival], rules: Rules) -> Best:
    """Time `work` in turns with the first of what `fastest` found for its layer."""
    found = ws.benchmark_ratio(work, ways[0].make(), device="gpu", rules=rules)
    other = found.reference.median_ms
    assert other is not None and found.speed is not None
    return Best(
        name=ways[0].name, time_ms=other, ratio=1 / found.speed, error=ways[0].error,
        times_ms={way.name: way.time_ms for way in ways},
    )  # fmt: skip


def measured(section: str, layer: str, problem: Convolution, rules: Rules) -> dict[str, Any]:
    """Median times of a layer in ms and errors, by algorithm (None: cuDNN does not take it so), and PyTorch's."""
    torch.manual_seed(1)
    x, w = (torch.rand(shape, device="cuda") * 2 - 1 for shape in (problem.image_shape, problem.filter_shape))
    if section == "half":
        x, w = x.half(), w.half()
    found = {one.name: one for one in rivals(problem, x, w, rules)}
    names = (
        list(ALGORITHMS) if section != "half" else [f"{name}, {layout}" for layout in LAYOUTS for name in ALGORITHMS]
    )
    calls = [found[name] for name in found if name.startswith(PYTORCH)]
    called = found.get(PYTORCH)
    return {
        "section": section, "layer": layer,
        "times_ms": {name: found[name].time_ms if name in found else None for name in names},
        "errors": {name: one.error for name, one in found.items()},
        "pytorch_ms": called.time_ms if called else None,
        "pytorch_best_ms": min((one.time_ms for one in calls), default=None),
    }  # fmt: skip


def sections() -> dict[str, dict[str, Convolution]]:
    """Section -> layer -> problem."""
    from convolution import VGG16  # benchmarks beside this one
    from winograd import LAYERS

    from warpcourse.lab12_split_channels.tiles import LAYERS as SPLIT

    first = Convolution(batch=10_000, channels=1, height=28, width=28, filters=32, rows=5, cols=5)
    return {
        "float32": {"lenet1": first, **{layer.name: layer.problem for layer in LAYERS}},
        "half": {layer.name: layer.problem for layer in VGG16},
        "split": dict(SPLIT),
    }


def main() -> None:
    """Measure the layers, print a line for each, write them all as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="write the results to this JSON file")
    parser.add_argument("--seconds", type=float, default=0.3, help="at most this long for one measurement")
    parser.add_argument("--only", nargs="+", choices=("float32", "half", "split"), help="sections (without: all)")
    options = parser.parse_args()
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.allow_tf32 = False
    rules = Rules(max_seconds=options.seconds, target_error=0.01, min_samples=7)
    rows = []
    for section, layers in sections().items():
        for name, problem in layers.items() if section in (options.only or sections()) else ():
            rows.append(measured(section, name, problem, rules))
            print(json.dumps(rows[-1]), flush=True)
            torch.cuda.empty_cache()
    if options.out:
        device = ws.get_device("gpu")
        result = {
            "device": device.description, "torch": torch.__version__, "cudnn": torch.backends.cudnn.version(),
            "flush": "L2 flushed before each sample", "tf32": False, "rows": rows,
        }  # fmt: skip
        options.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
