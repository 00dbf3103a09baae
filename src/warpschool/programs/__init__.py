"""Whole CUDA programs, host code included, on a machine without a GPU.

    binary = build([Path("prog.cu")])                     # NVIDIA's front end and the system's g++
    report = run_program(binary.path, ["1000"])           # -> ProgramReport: exit status, findings, launches

The program is an ordinary process of the user's. In the place of CUDA's runtime library it has ours (`shim/`, C++),
which tells this process, the simulator, what is asked of the device. Both see the device's memory at one address.
"""

from ptxsim.lazy import public_names
from warpschool.programs.build import Built, build
from warpschool.programs.report import HostFrame, Note, ProgramReport
from warpschool.programs.tools import find_tools, tools_report

TYPE_CHECKING = False
if TYPE_CHECKING:  # whoever only builds, or asks what there is, needs no simulator
    from warpschool.programs.run import Recording as Recording, run_program as run_program
__getattr__, __dir__ = public_names(__name__)

__all__ = [
    "Built",
    "HostFrame",
    "Note",
    "ProgramReport",
    "Recording",
    "build",
    "find_tools",
    "run_program",
    "tools_report",
]
