"""A GPU's properties as the runtime reports them, out of its specification."""

from __future__ import annotations

from ptxsim.limits import CONSTANT_LIMIT, MAX_BLOCK, MAX_GRID, STATIC_SHARED_LIMIT, WARP
from ptxsim.texture import LIMITS as TEXTURE_LIMITS
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
    106: "maxBlocksPerMultiProcessor", 108: "persistingL2CacheMaxSize", 109: "accessPolicyMaxWindowSize",
    111: "reservedSharedMemPerBlock", 115: "memoryPoolsSupported", 120: "clusterLaunch",
}  # fmt: skip
"""cudaDeviceAttr of driver_types.h -> the field that says the same."""
_CLOCK_RATE, _VIRTUAL_MEMORY, _LAST = 13, 102, 161
"""The clock in kHz; whether addresses can be reserved; the last number of CUDA 13."""
_SIDES = {
    ("array", "a2d"): ((27, 28, 29), (63, 64, 65)), ("array", "a1d"): ((42, None, 43), (61, None, 62)),
    ("linear", "1d"): ((69, None, None),), ("pitched", "2d"): ((70, 71, None),), ("array", "1d"): ((55, None, None),),
    ("array", "2d"): ((56, 57, None),), ("array", "3d"): ((58, 59, 60),),
}  # fmt: skip
"""A texture's kind and geometry -> the attributes that are its longest sides; the last ones those of surfaces."""
_LENGTHS = {
    number: length for kind, all_of in _SIDES.items() for numbers in all_of
    for number, length in zip(numbers, TEXTURE_LIMITS[kind], strict=True) if number is not None
}  # fmt: skip


def attribute(number: int, spec: GpuSpec, memory_bytes: int) -> int | None:
    """The value of a cudaDeviceAttr: 0 for what this device has not or what is not known of its GPU; None for a number
    that says nothing."""
    if number == _CLOCK_RATE:
        return spec.clock_mhz * 1000
    if number == _VIRTUAL_MEMORY:
        return 1
    if name := _ATTRIBUTES.get(number):
        return properties(spec, memory_bytes)[name]
    return _LENGTHS.get(number, 0) if 0 < number <= _LAST else None
