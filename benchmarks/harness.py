"""What the benchmarks of matrix products share: a kernel on the GPU, a measurement, and the loop that takes it."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

os.environ["CUPY_TF32"] = "0"  # read when CuPy is imported: references compute in full float32

try:
    import cupy  # noqa: F401  (whoever imports this needs it)
except ImportError:
    raise SystemExit("this needs a GPU and CuPy: pip install 'warpschool[cuda13]' (or [cuda12])") from None
import numpy as np

import warpschool as ws
from warpschool.contract import parse_contract
from warpschool.device.measurement import Rules

ROOT = Path(__file__).parent.parent
SOLUTIONS = ROOT / "solutions"
KERNELS = ROOT / "benchmarks" / "kernels"
CHECKED_ROWS = 48
"""rows of a product that are compared with float64"""


class Step:
    """A kernel file compiled for the GPU with some constants: a step's reference, or one of benchmarks/kernels.

    `edit` changes its text before, for what shall be left out to see what it costs.
    """

    def __init__(
        self, name: str, constants: Mapping[str, int] | None = None, *, edit: Callable[[str], str] | None = None
    ) -> None:
        self.name = name
        self.constants = dict(constants or {})
        path = (SOLUTIONS if "/" in name else KERNELS) / f"{name}.cu"
        self.contract = parse_contract(path.read_text(encoding="utf-8"), name=path.name)
        code = self.contract.source if edit is None else edit(self.contract.source)
        module = ws.RawModule(code=code, name=path.name, constants=self.constants, device="gpu")
        self.kernel = module.get_function(self.contract.launches[0].entry)

    @property
    def registers(self) -> int:
        return int(self.kernel.attributes["num_regs"])

    def work(self, sizes: Mapping[str, int], arrays: Mapping[str, Any]) -> Callable[[], Any]:
        """A function that launches the kernel once on these CuPy arrays."""
        launch = self.contract.bind(sizes, constants=self.constants).launches[0]
        arguments = tuple(arrays[p.name] if p.is_array else np.int32(sizes[p.name]) for p in launch.arguments)
        return lambda: self.kernel(launch.grid, launch.block, arguments)


@dataclass(frozen=True, kw_only=True)
class Row:
    """One measurement; `ratio` above 1 means faster than the reference, rates are in `unit`."""

    part: str
    step: str
    sizes: dict[str, int]
    constants: dict[str, int]
    registers: int
    max_error: float
    time_ms: float
    reference_ms: float
    ratio: float
    ratio_error: float
    stable: bool
    reference: str
    rate: float
    reference_rate: float
    unit: str
    note: str = ""


@dataclass
class Bench:
    """Times checked kernels in turns with references and collects rows."""

    rules: Rules
    rows: list[Row] = field(default_factory=list)

    def add(
        self, part: str, step: str, sizes: Mapping[str, int], work: Callable[[], Any], reference: Callable[[], Any], *,
        error: float, amount: float, against: str, unit: str, registers: int, reference_amount: float | None = None,
        constants: Mapping[str, int] | None = None, note: str = "",
    ) -> Row:  # fmt: skip
        """Time a kernel and print the row; `amount`: its operations or bytes, and the reference's unless told."""
        found = ws.benchmark_ratio(work, reference, device="gpu", rules=self.rules)
        mine, other = found.candidate.median_ms, found.reference.median_ms
        assert mine is not None and other is not None and found.speed is not None and found.error is not None
        whole = amount if reference_amount is None else reference_amount
        row = Row(
            part=part, step=step, sizes=dict(sizes), constants=dict(constants or {}), registers=registers,
            max_error=error, time_ms=mine, reference_ms=other, ratio=found.speed, ratio_error=found.error,
            stable=found.stable, reference=against, rate=amount / mine * 1e-9, reference_rate=whole / other * 1e-9,
            unit=unit, note=note,
        )  # fmt: skip
        self.rows.append(row)
        print(row_text(row), flush=True)
        return row


def row_text(row: Row) -> str:
    sizes = "x".join(str(value) for value in row.sizes.values())
    tiles = ",".join(str(value) for value in row.constants.values())
    doubt = "" if row.stable else " not stable"
    sure = f"error {row.ratio_error:.1%}{doubt}"
    return (
        f"{row.part:10s} {row.step.split('/')[-1]:20s} {sizes:16s} {row.time_ms:9.4f} ms {row.rate:6.2f} {row.unit} "
        f"{row.ratio:6.3f} of {row.reference} ({sure}) {row.registers:3d} regs {tiles} {row.note}"
    )


def geometric_mean(values: Iterable[float]) -> float:
    logs = [math.log(value) for value in values]
    return math.exp(sum(logs) / len(logs))
