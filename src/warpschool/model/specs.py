"""GPUs: what the products offer, and how many blocks of a kernel one of their multiprocessors holds at a time.

`ptxsim.limits` has what one multiprocessor holds. Each row of `GPUS` names its own source. Clocks are the maker's boost
clocks: real ones depend on power and temperature.
"""

from __future__ import annotations

from dataclasses import dataclass

from ptxsim.limits import LIMITS, MIB, WARP, SmLimits
from warpschool.errors import LaunchError, WarpschoolError
from warpschool.suggest import did_you_mean

OLDEST_COMPILED = (7, 5)
"""The oldest compute capability that today's NVRTC compiles for."""


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
    def compiled_arch(self) -> str:
        """The architecture whose code shows what a kernel needs: its own, or the oldest that NVRTC still knows."""
        return self.arch if self.capability >= OLDEST_COMPILED else "sm_{}{}".format(*OLDEST_COMPILED)

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
        _spec("rtx4090", "GeForce RTX 4090", (8, 9), 128, 2520, 1008, 72, "NVIDIA Ada GPU architecture whitepaper",
              fp16_tensor_tflops=165.2),
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


def gpu_key(which: str) -> str:
    """A GPU's name as keys are written: "NVIDIA GeForce GTX 1650 Mobile" is gtx1650laptop."""
    key = "".join(c for c in which.lower() if c.isalnum())
    for maker in ("nvidia", "geforce", "tesla"):
        key = key.removeprefix(maker)
    return key.removesuffix("mobile") + "laptop" if key.endswith("mobile") else key


def find_gpu(which: str | GpuSpec) -> GpuSpec:
    """The specification of a GPU by its key; case, spaces and punctuation do not matter ("RTX 2080 Ti").

    Raises WarpschoolError for a GPU that the table does not hold.
    """
    if isinstance(which, GpuSpec):
        return which
    key = gpu_key(which)
    if key not in GPUS:
        raise WarpschoolError(f"no specification of a GPU called {which!r}", next_step=did_you_mean(key, GPUS))
    return GPUS[key]


# ---------------------------------------------------------------- occupancy


@dataclass(frozen=True)
class Occupancy:
    """The answer for one kernel, block size and GPU; `blocks` and `warps` are per SM."""

    gpu: str
    blocks: int
    warps: int
    warps_max: int
    limits: dict[str, int]
    """resource -> the blocks that it alone would allow"""
    limited_by: tuple[str, ...]
    """the resources that allow no more than `blocks`"""
    note: str = ""

    @property
    def fraction(self) -> float:
        """Resident warps / the most that the SM can hold."""
        return self.warps / self.warps_max

    def __str__(self) -> str:
        text = (
            f"{self.fraction:.0%} on {self.gpu}: {self.warps} of {self.warps_max} warps "
            f"({self.blocks} block{'s' * (self.blocks != 1)} per SM), limited by {' and '.join(self.limited_by)}"
        )
        return f"{text} ({self.note})" if self.note else text


def _round_up(value: int, step: int) -> int:
    return -(-value // step) * step


def _blocks_by_registers(spec: GpuSpec, warps: int, registers: int) -> int:
    """Registers come in whole units per warp, and a warp's come from one partition of the register file."""
    sm = spec.sm
    per_warp = _round_up(max(registers, 1) * WARP, sm.register_granularity)
    # The hardware's own check assumes that every partition serves the block, hence the rounding of the warps.
    if per_warp * _round_up(warps, sm.partitions) > sm.registers:
        return 0
    return sm.partitions * (sm.registers // sm.partitions // per_warp) // warps


def occupancy(
    block_threads: int,
    *,
    registers: int,
    shared_bytes: int = 0,
    gpu: str | GpuSpec = DEFAULT_GPU,
    note: str = "",
) -> Occupancy:
    """Resident blocks and warps per SM.

    `registers` per thread; `shared_bytes` per block, static and dynamic together. Raises LaunchError where not even
    one block fits, naming the resource. Source: the rules of NVIDIA's CUDA occupancy calculator.
    """
    spec = find_gpu(gpu)
    sm = spec.sm
    _refuse_impossible(spec, block_threads, registers, shared_bytes)
    warps = -(-block_threads // WARP)
    shared = _round_up(shared_bytes + sm.reserved_shared_bytes, sm.shared_granularity)
    limits = {
        "warps": sm.warps // warps, "registers": _blocks_by_registers(spec, warps, registers),
        "shared memory": sm.shared_bytes // shared if shared else sm.blocks, "blocks": sm.blocks,
    }  # fmt: skip
    blocks = min(limits.values())
    if not blocks:
        raise LaunchError(
            f"a block of {block_threads} threads with {registers} registers each does not fit on {spec.name}: "
            f"{block_threads * registers:,} registers are needed, an SM has {sm.registers:,}",
            next_step="Use a smaller block, or __launch_bounds__ to make the compiler use fewer registers.",
        )
    limited_by = tuple(name for name, most in limits.items() if most == blocks)
    if "warps" in limited_by and blocks * warps == sm.warps:
        limited_by = ("warps",)  # full: nothing else matters
    return Occupancy(spec.name, blocks, blocks * warps, sm.warps, limits, limited_by, note)


def _refuse_impossible(spec: GpuSpec, threads: int, registers: int, shared_bytes: int) -> None:
    """Raises LaunchError for a block that breaks a limit per block or thread."""
    sm = spec.sm
    for what, value, most in (
        ("threads per block", threads, sm.threads_per_block),
        ("registers per thread", registers, sm.registers_per_thread),
        ("bytes of shared memory per block", shared_bytes, sm.shared_bytes_per_block),
    ):
        if value > most:
            raise LaunchError(f"{value:,} {what}; {spec.name} allows {most:,}")
    if threads < 1 or registers < 0 or shared_bytes < 0:
        raise LaunchError(f"a block needs at least one thread and no negative resources, not {threads} threads")
