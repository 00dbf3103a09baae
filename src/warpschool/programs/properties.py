"""A GPU's properties as the runtime reports them, out of its specification."""

from __future__ import annotations

from ptxsim.limits import CONSTANT_LIMIT, MAX_BLOCK, MAX_GRID, STATIC_SHARED_LIMIT, WARP
from warpschool.model import GpuSpec
from warpschool.programs.wire import DEVICE_PROPERTIES

STACK_BYTES, PRINT_BYTES = 1024, 1 << 20
_REGISTERS_PER_BLOCK = 65536
_WINDOW_BYTES = 128 << 20


def properties(spec: GpuSpec, memory_bytes: int) -> dict[str, int]:
    """Field of cudaDeviceProp -> value. `memory_bytes` is what the simulated device has."""
    major, minor = spec.capability
    sm = spec.sm
    set_aside = int(major >= 8)  # a part of L2 may be kept for what stays in use; nothing here depends on it
    fixed = {
        "totalGlobalMem": memory_bytes, "sharedMemPerBlock": STATIC_SHARED_LIMIT, "regsPerBlock": _REGISTERS_PER_BLOCK,
        "warpSize": WARP, "memPitch": (1 << 31) - 1, "maxThreadsPerBlock": sm.threads_per_block,
        "totalConstMem": CONSTANT_LIMIT, "major": major, "minor": minor, "textureAlignment": 512,
        "texturePitchAlignment": 32, "multiProcessorCount": spec.sms, "integrated": 0, "canMapHostMemory": 1,
        "maxTexture1D": 131072, "maxTexture2D[0]": 131072, "maxTexture2D[1]": 65536, "maxTexture3D[0]": 16384,
        "maxTexture3D[1]": 16384, "maxTexture3D[2]": 16384, "surfaceAlignment": 512, "concurrentKernels": 1,
        "ECCEnabled": 0, "pciBusID": 1, "pciDeviceID": 0, "pciDomainID": 0, "asyncEngineCount": 3,
        "unifiedAddressing": 1, "memoryBusWidth": 0, "l2CacheSize": spec.l2_bytes, 
        "persistingL2CacheMaxSize": spec.l2_bytes * 3 // 4 * set_aside,
        "accessPolicyMaxWindowSize": _WINDOW_BYTES * set_aside,
        "maxThreadsPerMultiProcessor": sm.warps * WARP, "streamPrioritiesSupported": 1, "globalL1CacheSupported": 1,
        "localL1CacheSupported": 1, "sharedMemPerMultiprocessor": sm.shared_bytes,
        "regsPerMultiprocessor": sm.registers, "managedMemory": 1, "concurrentManagedAccess": 1, "cooperativeLaunch": 1,
        "sharedMemPerBlockOptin": sm.shared_bytes_per_block, "maxBlocksPerMultiProcessor": sm.blocks,
        "reservedSharedMemPerBlock": sm.reserved_shared_bytes, "hostRegisterSupported": 1,
        "memoryPoolsSupported": 1, "clusterLaunch": int(major >= 9),
    }  # fmt: skip
    sides = {f"{name}[{k}]": side for name, of in (("maxThreadsDim", MAX_BLOCK), ("maxGridSize", MAX_GRID))
             for k, side in enumerate(of)}  # fmt: skip
    values = fixed | sides
    return {name: values[name] for name in DEVICE_PROPERTIES}


_ATTRIBUTES = {
    1: "maxThreadsPerBlock", 2: "maxThreadsDim[0]", 3: "maxThreadsDim[1]", 4: "maxThreadsDim[2]", 5: "maxGridSize[0]",
    6: "maxGridSize[1]", 7: "maxGridSize[2]", 8: "sharedMemPerBlock", 9: "totalConstMem", 10: "warpSize",
    11: "memPitch", 12: "regsPerBlock", 14: "textureAlignment", 16: "multiProcessorCount", 18: "integrated",
    19: "canMapHostMemory", 21: "maxTexture1D", 22: "maxTexture2D[0]", 23: "maxTexture2D[1]", 24: "maxTexture3D[0]",
    25: "maxTexture3D[1]", 26: "maxTexture3D[2]", 30: "surfaceAlignment", 31: "concurrentKernels", 32: "ECCEnabled",
    33: "pciBusID", 34: "pciDeviceID", 37: "memoryBusWidth", 38: "l2CacheSize", 39: "maxThreadsPerMultiProcessor",
    40: "asyncEngineCount", 41: "unifiedAddressing", 50: "pciDomainID", 51: "texturePitchAlignment", 75: "major",
    76: "minor", 78: "streamPrioritiesSupported", 79: "globalL1CacheSupported", 80: "localL1CacheSupported",
    81: "sharedMemPerMultiprocessor", 82: "regsPerMultiprocessor", 83: "managedMemory", 89: "concurrentManagedAccess",
    95: "cooperativeLaunch", 97: "sharedMemPerBlockOptin", 99: "hostRegisterSupported",
    106: "maxBlocksPerMultiProcessor", 108: "persistingL2CacheMaxSize", 109: "accessPolicyMaxWindowSize", 111: "reservedSharedMemPerBlock",
    115: "memoryPoolsSupported", 120: "clusterLaunch",
}  # fmt: skip
"""cudaDeviceAttr of driver_types.h -> the field that says the same."""
_CLOCK_RATE, _NOTHING = 13, {15, 17, 20, 35, 36, 84, 85, 86, 88, 90, 91, 92, 100, 101, 103, 104, 105, 107, 110}
"""The clock in kHz; what is 0 on this device, or not known of its GPU."""
_VIRTUAL_MEMORY = 102


def attribute(number: int, spec: GpuSpec, memory_bytes: int) -> int | None:
    """The value of a cudaDeviceAttr; None for one that nobody asks for so far."""
    if number == _CLOCK_RATE:
        return spec.clock_mhz * 1000
    if number == _VIRTUAL_MEMORY:
        return 1
    if number in _NOTHING:
        return 0
    name = _ATTRIBUTES.get(number)
    return properties(spec, memory_bytes)[name] if name is not None else None
