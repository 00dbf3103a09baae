"""Finding a device by name."""

from __future__ import annotations

from functools import cache

from warpschool.device.protocol import Device
from warpschool.errors import ArgumentError, DeviceUnavailable


@cache
def _simulator() -> Device:
    from warpschool.device.sim import SimDevice

    return SimDevice()


@cache
def _gpu() -> Device:
    from warpschool.device.gpu import GpuDevice

    return GpuDevice()


@cache
def gpu_problem() -> DeviceUnavailable | None:
    """Why there is no GPU to use; None where there is one."""
    try:
        _gpu()
    except DeviceUnavailable as problem:
        return problem
    return None


def get_device(which: str | Device = "auto") -> Device:
    """The device "sim", "gpu", or "auto": the GPU where one can be used, else the simulator.

    A device object is returned as it is. Raises DeviceUnavailable, with the reason, for "gpu" where there is none.
    """
    if not isinstance(which, str):
        return which
    match which.strip().lower():
        case "sim":
            return _simulator()
        case "gpu":
            problem = gpu_problem()
            if problem is not None:
                raise DeviceUnavailable(problem.message, next_step=problem.next_step)
            return _gpu()
        case "auto":
            return _simulator() if gpu_problem() else _gpu()
    raise ArgumentError(f"there is no device {which!r}", next_step='Devices are called "sim", "gpu" and "auto".')
