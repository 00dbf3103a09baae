"""A lab course on GPU kernels that runs real CUDA C++ without a GPU.

    import warpschool as ws
    module = ws.RawModule(code=source, device="auto")
    launch = module.get_function("matmul")(grid, block, (a, b, c, M, N, K))

Nothing heavy is imported here: each name is loaded when it is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from warpschool.version import __version__

_PUBLIC = {
    "RawModule": "device",
    "Kernel": "device",
    "Launch": "device",
    "DeviceArray": "device",
    "get_device": "device",
    "Counters": "counters",
    "benchmark": "inspect.timing",
    "benchmark_ratio": "inspect.timing",
    "Timing": "inspect.timing",
    "occupancy": "model",
    "find_gpu": "model",
    "compile_cuda": "compile",
    "WarpschoolError": "errors",
    "check": "grading",
    "check_cell": "grading",
    "run": "notebook.runs",
    "trace": "inspect.debugger",
    "check_prediction": "notebook.predictions",
    "predict": "notebook.prediction_form",
    "diff": "show.diff",
    "roofline": "show.roofline",
    "show_access": "show.access",
    "show_fragments": "show.fragments",
    "show_timeline": "show.timeline",
    "load_ipython_extension": "notebook",
}
"""public name -> the module that defines it"""

__all__ = [
    "Counters",
    "DeviceArray",
    "Kernel",
    "Launch",
    "RawModule",
    "Timing",
    "WarpschoolError",
    "__version__",
    "benchmark",
    "benchmark_ratio",
    "check",
    "check_cell",
    "check_prediction",
    "compile_cuda",
    "diff",
    "find_gpu",
    "get_device",
    "occupancy",
    "predict",
    "roofline",
    "run",
    "show_access",
    "show_fragments",
    "show_timeline",
    "trace",
]

if TYPE_CHECKING:
    from warpschool.compile import compile_cuda
    from warpschool.counters import Counters
    from warpschool.device import DeviceArray, Kernel, Launch, RawModule, get_device
    from warpschool.errors import WarpschoolError
    from warpschool.grading import check, check_cell
    from warpschool.inspect.debugger import trace
    from warpschool.inspect.timing import Timing, benchmark, benchmark_ratio
    from warpschool.model import find_gpu, occupancy
    from warpschool.notebook.prediction_form import predict
    from warpschool.notebook.predictions import check_prediction
    from warpschool.notebook.runs import run
    from warpschool.show.access import show_access
    from warpschool.show.diff import diff
    from warpschool.show.fragments import show_fragments
    from warpschool.show.roofline import roofline
    from warpschool.show.timeline import show_timeline


def __getattr__(name: str) -> Any:
    """Loads a public name on first use."""
    if name not in _PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f".{_PUBLIC[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
