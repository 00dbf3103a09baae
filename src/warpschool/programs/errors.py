"""The runtime's error numbers (driver_types.h) that the simulator itself gives."""

from __future__ import annotations

INVALID_VALUE, MEMORY_ALLOCATION = 1, 2
INVALID_CONFIGURATION = 9
INVALID_SYMBOL = 13
NO_KERNEL_IMAGE = 209
INVALID_HANDLE = 400
SYMBOL_NOT_FOUND = 500
ILLEGAL_ADDRESS = 700
LAUNCH_OUT_OF_RESOURCES, LAUNCH_TIMEOUT = 701, 702
ASSERT = 710
MISALIGNED_ADDRESS = 716
LAUNCH_FAILURE = 719
NOT_SUPPORTED = 801

_NAMES = {
    INVALID_VALUE: "cudaErrorInvalidValue", MEMORY_ALLOCATION: "cudaErrorMemoryAllocation",
    INVALID_CONFIGURATION: "cudaErrorInvalidConfiguration", NO_KERNEL_IMAGE: "cudaErrorNoKernelImageForDevice",
    LAUNCH_OUT_OF_RESOURCES: "cudaErrorLaunchOutOfResources", NOT_SUPPORTED: "cudaErrorNotSupported",
}  # fmt: skip


def name(error: int) -> str:
    """What a launch was refused with."""
    return _NAMES.get(error, f"cudaError {error}")
