"""A lab course on GPU kernels that runs real CUDA C++ without a GPU.

    import warpschool as ws
    module = ws.RawModule(code=source, device="auto")
    launch = module.get_function("matmul")(grid, block, (a, b, c, M, N, K))

Nothing heavy is imported here: each name is loaded when it is first used.
"""

from ptxsim.lazy import public_names
from warpschool.version import __version__ as __version__

TYPE_CHECKING = False
if TYPE_CHECKING:  # the one list of public names: `ptxsim.lazy` reads it
    from warpschool.clock.prediction import Prediction as Prediction
    from warpschool.compile import compile_cuda as compile_cuda
    from warpschool.counters import Counters as Counters
    from warpschool.device import (
        DeviceArray as DeviceArray,
        Kernel as Kernel,
        Launch as Launch,
        PtxModule as PtxModule,
        RawModule as RawModule,
        get_device as get_device,
    )
    from warpschool.device.triton import TritonKernel as TritonKernel
    from warpschool.errors import WarpschoolError as WarpschoolError
    from warpschool.grading import check as check, check_cell as check_cell
    from warpschool.inspect.timing import Timing as Timing, benchmark as benchmark, benchmark_ratio as benchmark_ratio
    from warpschool.model import find_gpu as find_gpu, occupancy as occupancy
    from warpschool.notebook import load_ipython_extension as load_ipython_extension
    from warpschool.notebook.cases import check_case as check_case
    from warpschool.notebook.predictions import check_prediction as check_prediction, predict as predict
    from warpschool.notebook.quiz import quiz as quiz
    from warpschool.notebook.runs import run as run
    from warpschool.show.access import show_access as show_access
    from warpschool.show.diff import diff as diff
    from warpschool.show.fragments import show_fragments as show_fragments
    from warpschool.show.pictures import picture as picture
    from warpschool.show.prediction import predict_time as predict_time, whatif as whatif
    from warpschool.show.roofline import roofline as roofline
    from warpschool.show.stepping import trace as trace
    from warpschool.show.timeline import show_timeline as show_timeline
    from warpschool.show.walk import show_walk as show_walk

__getattr__, __dir__ = public_names(__name__)
