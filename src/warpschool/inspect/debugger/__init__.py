"""A debugger for one warp: its way through a kernel, line by line, recorded in the interpreter.

`symbols` reads the names in PTX, `recorder` watches the interpreter, `recording` and `moment` put any moment together
again, `shell` understands the commands of `warpschool debug`.
"""

from warpschool.inspect.debugger.moment import Moment, SharedArray, Values
from warpschool.inspect.debugger.recorder import Step
from warpschool.inspect.debugger.recording import Recording, trace

__all__ = ["Moment", "Recording", "SharedArray", "Step", "Values", "trace"]
