"""What GPUs can do: their specifications, occupancy, and the roofline.

`find_gpu` looks a specification up, `occupancy` says how many blocks an SM holds, `Roofline.of` gives the roofs, and
`estimate` a lower bound of a launch's time from its counters; `agreement` how well such bounds rank kernels.
"""

from warpschool.model.roofline import Agreement, Estimate, Roof, Roofline, agreement, estimate, in_sequence
from warpschool.model.specs import DEFAULT_GPU, GPUS, LIMITS, GpuSpec, Occupancy, SmLimits, find_gpu, gpu_key, occupancy

__all__ = [
    "DEFAULT_GPU",
    "GPUS",
    "LIMITS",
    "Agreement",
    "Estimate",
    "GpuSpec",
    "Occupancy",
    "Roof",
    "Roofline",
    "SmLimits",
    "agreement",
    "estimate",
    "find_gpu",
    "gpu_key",
    "in_sequence",
    "occupancy",
]
