"""A debugger for one warp: its way through a kernel, line by line, recorded in the interpreter.

`symbols` reads the names in PTX, `recorder` watches the interpreter, `recording` and `moment` put any moment together
again, `shell` understands the commands of `warpschool debug`.
"""

from .moment import Moment, SharedArray, Values
from .recorder import Step
from .recording import Recording, trace

__all__ = ["Moment", "Recording", "SharedArray", "Step", "Values", "trace"]
