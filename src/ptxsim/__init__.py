"""The simulator: PTX in, results, counters and hazards out.

text -> parse -> Module -> cfg -> Kernel -> lanes, translate -> LLVM IR -> jit -> machine code -> engine -> LaunchRecord

Nothing heavy is imported here: each name is loaded when it is first used.
"""

from __future__ import annotations

from ptxsim.lazy import public_names

TYPE_CHECKING = False
if TYPE_CHECKING:  # the one list of public names: `ptxsim.lazy` reads it
    from ptxsim.memory import Allocation as Allocation
    from ptxsim.memory import Memory as Memory
    from ptxsim.record import Hazard as Hazard
    from ptxsim.record import LaunchRecord as LaunchRecord
    from ptxsim.run.engine import SimKernel as SimKernel
    from ptxsim.run.engine import bind as bind
    from ptxsim.run.engine import load_module as load_module
    from ptxsim.run.worker import available_threads as available_threads

__getattr__, __dir__ = public_names(__name__)
