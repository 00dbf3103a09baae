"""Specifications of GPUs: what the products around a multiprocessor offer; `ptxsim.limits` has what one holds.

Each row of `GPUS` names its own source. Clocks are the maker's boost clocks: real ones depend on power and temperature.
"""

from __future__ import annotations

from dataclasses import dataclass

from ptxsim.limits import LIMITS, MIB, SmLimits
from warpschool.errors import WarpschoolError
from warpschool.suggest import did_you_mean


@dataclass(frozen=True)
class GpuSpec:
    """One product. Bandwidths in GB/s (1e9 bytes), clocks in MHz."""

    key: str
    name: str
    sm: SmLimits
    sms: int
    clock_mhz: int
    dram_gb_per_s: float
    l2_bytes: int
    source: str
    fp16_tensor_tflops: float | None = None
    """dense peak with half inputs and float accumulation; None where there are no tensor cores or it is not known"""
    l2_gb_per_s: float | None = None
    """None where the maker does not say and nobody measured"""

    @property
    def capability(self) -> tuple[int, int]:
        return self.sm.capability

    @property
    def arch(self) -> str:
        """The compiler's name of the compute capability, "sm_75"."""
        return "sm_{}{}".format(*self.sm.capability)

    @property
    def fp32_tflops(self) -> float:
        """Peak of single-precision multiply-adds: lanes x 2 x clock."""
        return self.sms * self.sm.fp32_lanes * 2 * self.clock_mhz * 1e-6

    @property
    def l1_gb_per_s(self) -> float:
        """All SMs' shared memories and L1 caches together, at 128 bytes per clock and SM."""
        return self.sms * 128 * self.clock_mhz * 1e-3


def _spec(
    key: str, name: str, capability: tuple[int, int], sms: int, clock: int, dram: float, l2_mib: float, source: str,
    **more: float,
) -> tuple[str, GpuSpec]:  # fmt: skip
    return key, GpuSpec(key, name, LIMITS[capability], sms, clock, dram, int(l2_mib * MIB), source, **more)


_RTX30 = "NVIDIA GeForce RTX 30 laptop product page"
_RTX40 = "NVIDIA GeForce RTX 40 laptop product page"
_T4_PAPER = "; L2 bandwidth measured by Jia et al., Dissecting the NVidia Turing T4 GPU via Microbenchmarking, 2019"

GPUS: dict[str, GpuSpec] = dict(
    (
        # the chips that the course's sources used
        _spec("k40", "Tesla K40", (3, 5), 15, 745, 288, 1.5, "NVIDIA Tesla K40 board specification (base clock)"),
        _spec("gtx1080", "GeForce GTX 1080", (6, 1), 20, 1733, 320, 2, "NVIDIA GeForce GTX 1080 whitepaper"),
        _spec("rtx2080ti", "GeForce RTX 2080 Ti", (7, 5), 68, 1545, 616, 5.5, "NVIDIA Turing whitepaper",
              fp16_tensor_tflops=53.8),
        # data centres and hosted notebooks
        _spec("t4", "Tesla T4", (7, 5), 40, 1590, 320, 4, "NVIDIA T4 datasheet" + _T4_PAPER,
              fp16_tensor_tflops=65.0, l2_gb_per_s=1270),
        _spec("a100", "A100-SXM4-40GB", (8, 0), 108, 1410, 1555, 40,
              "NVIDIA A100 whitepaper (L2: 5120 bytes per clock)", fp16_tensor_tflops=312.0, l2_gb_per_s=5120 * 1.410),
        _spec("l4", "L4", (8, 9), 58, 2040, 300, 48, "NVIDIA L4 datasheet", fp16_tensor_tflops=121.0),
        _spec("h100", "H100 SXM", (9, 0), 132, 1980, 3352, 50, "NVIDIA H100 whitepaper and datasheet",
              fp16_tensor_tflops=989.4),
        _spec("h200", "H200 SXM", (9, 0), 132, 1980, 4800, 60,
              "NVIDIA H200 datasheet; L2 size from the driver, L2 bandwidth measured (32 MB read again and again)",
              fp16_tensor_tflops=989.4, l2_gb_per_s=7500),
        # laptops, at the highest boost clock that the maker allows
        _spec("gtx1650laptop", "GeForce GTX 1650 Laptop", (7, 5), 16, 1560, 128, 1,
              "NVIDIA GeForce 16 series product page"),
        _spec("rtx3050laptop", "GeForce RTX 3050 Laptop", (8, 6), 16, 1740, 192, 2, _RTX30,
              fp16_tensor_tflops=14.3),
        _spec("rtx3060laptop", "GeForce RTX 3060 Laptop", (8, 6), 30, 1703, 336, 3, _RTX30,
              fp16_tensor_tflops=26.2),
        _spec("rtx4060laptop", "GeForce RTX 4060 Laptop", (8, 9), 24, 2370, 256, 32, _RTX40,
              fp16_tensor_tflops=29.1),
        _spec("rtx4070laptop", "GeForce RTX 4070 Laptop", (8, 9), 36, 2175, 256, 32, _RTX40,
              fp16_tensor_tflops=40.1),
    )
)  # fmt: skip

DEFAULT_GPU = "a100"
"""Stands for "a GPU" where none is named: the simulator compiles for its compute capability."""


def find_gpu(which: str | GpuSpec) -> GpuSpec:
    """The specification of a GPU by its key; case, spaces and punctuation do not matter ("RTX 2080 Ti").

    Raises WarpschoolError for a GPU that the table does not hold.
    """
    if isinstance(which, GpuSpec):
        return which
    key = "".join(c for c in str(which).lower() if c.isalnum())
    for maker in ("nvidia", "geforce", "tesla"):
        key = key.removeprefix(maker)
    if key not in GPUS:
        raise WarpschoolError(f"no specification of a GPU called {which!r}", next_step=did_you_mean(key, GPUS))
    return GPUS[key]
