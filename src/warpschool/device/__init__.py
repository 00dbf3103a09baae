"""Where kernels run: one interface, two devices, the simulator ("sim") and the GPU ("gpu", through CuPy).

`get_device` finds a device, `RawModule` compiles CUDA C++ for it, `module.get_function(name)` gives a `Kernel`, and a
call of the kernel gives a `Launch` with counters, hazards and printed text. `PtxModule` takes PTX instead;
`warpschool.device.triton` makes such of Triton's kernels.
"""

from warpschool.device.module import Kernel, Launch, PtxModule, RawModule, get_device, gpu_problem, repeated
from warpschool.device.protocol import Device, DeviceArray, LaunchOptions
from warpschool.device.sim import SimDevice

__all__ = [
    "Device",
    "DeviceArray",
    "Kernel",
    "Launch",
    "LaunchOptions",
    "PtxModule",
    "RawModule",
    "SimDevice",
    "get_device",
    "gpu_problem",
    "repeated",
]
