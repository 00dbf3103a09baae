"""A debugger for one warp: its way through a kernel, line by line, recorded in the interpreter.

`symbols` reads the names in PTX, `recorder` watches the interpreter, `recording` puts any moment together again,
`pages` says what there is to see then, `shell` understands the commands of `warpschool debug`.
"""

from warpschool.inspect.debugger.recorder import LineStep
from warpschool.inspect.debugger.recording import Moment, Recording, SharedArray, Values, trace

__all__ = ["LineStep", "Moment", "Recording", "SharedArray", "Values", "trace"]
