"""Occupancy: how many blocks of a kernel one multiprocessor holds at a time, and what stops it from holding more."""

from __future__ import annotations

from dataclasses import dataclass

from warpschool.errors import LaunchError
from warpschool.model.specs import DEFAULT_GPU, GpuSpec, find_gpu

WARP = 32
RESOURCES = ("warps", "registers", "shared memory", "blocks")


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
    limits = dict(
        zip(
            RESOURCES,
            (
                sm.warps // warps,
                _blocks_by_registers(spec, warps, registers),
                sm.shared_bytes // shared if shared else sm.blocks,
                sm.blocks,
            ),
            strict=True,
        )
    )
    blocks = min(limits.values())
    if not blocks:
        raise LaunchError(
            f"a block of {block_threads} threads with {registers} registers each does not fit on {spec.name}: "
            f"{block_threads * registers:,} registers are needed, an SM has {sm.registers:,}",
            next_step="Use a smaller block, or __launch_bounds__ to make the compiler use fewer registers.",
        )
    limited_by = tuple(name for name in RESOURCES if limits[name] == blocks)
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
