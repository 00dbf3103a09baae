"""What GPUs can do: their specifications, occupancy, and the roofline.

`find_gpu` looks a specification up, `occupancy` says how many blocks an SM holds, `Roofline.of` gives the roofs, and
`estimate` a lower bound of a launch's time from its counters; `agreement` how well such bounds rank kernels.
"""

from __future__ import annotations

from .agreement import Agreement, agreement
from .occupancy import Occupancy, occupancy
from .roofline import Estimate, Roof, Roofline, estimate, in_sequence
from .specs import DEFAULT_GPU, GPUS, LIMITS, GpuSpec, SmLimits, find_gpu

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
    "in_sequence",
    "occupancy",
]
