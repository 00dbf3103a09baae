"""Where kernels run: one interface, two devices, the simulator ("sim") and the GPU ("gpu", through CuPy).

`get_device` finds a device, `RawModule` compiles CUDA C++ for it, `module.get_function(name)` gives a `Kernel`, and a
call of the kernel gives a `Launch` with counters, hazards and printed text.
"""

from __future__ import annotations

from warpschool.device.arrays import DeviceArray
from warpschool.device.find import get_device, gpu_problem
from warpschool.device.launch import Launch
from warpschool.device.module import Kernel, RawModule
from warpschool.device.protocol import Device, LaunchOptions
from warpschool.device.sim import SimDevice

__all__ = [
    "Device",
    "DeviceArray",
    "Kernel",
    "Launch",
    "LaunchOptions",
    "RawModule",
    "SimDevice",
    "get_device",
    "gpu_problem",
]
