"""Machines as data: what a multiprocessor's units cost, from `machines/*.toml`, each constant with its source."""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ptxsim.limits import KIB
from warpschool import model
from warpschool.errors import WarpschoolError
from warpschool.suggest import did_you_mean

FOLDER = Path(__file__).with_name("machines")
NOT_VALIDATED = "not validated here"
"""What is said wherever a machine is shown whose predictions nobody compared with times."""


@dataclass(frozen=True)
class Machine:
    """One machine's constants, by section; `spec` is what the maker says of the product."""

    key: str
    name: str
    arch: str
    spec: model.GpuSpec
    is_validated: bool
    """whether its predictions were compared with times of the real machine"""
    tables: Mapping[str, Mapping[str, Any]]

    def __getitem__(self, section: str) -> Mapping[str, Any]:
        return self.tables[section]

    @property
    def limits(self) -> Mapping[str, float]:
        """What is supposed about the kernel: `registers` a thread, `warps` that a multiprocessor takes at most."""
        return self.tables.get("limits", {})

    def __str__(self) -> str:
        return self.name if self.is_validated else f"{self.name} ({NOT_VALIDATED})"

    @property
    def fp32_pipes(self) -> int:
        """Pipes of a scheduler for single precision: one of 16 lanes, or two, of which one is for nothing else."""
        return 2 if "lite" in self["pipes"] else 1

    def carve_out(self, shared_bytes: int) -> int:
        """Bytes of L1 that are shared memory where resident blocks want so many: the smallest configuration that
        does."""
        sizes = [kib * KIB for kib in self["memory"]["shared_configurations"]]
        return next((size for size in sizes if size >= shared_bytes), sizes[-1])


def machines() -> tuple[str, ...]:
    """The keys of all machines."""
    return tuple(sorted(path.stem for path in FOLDER.glob("*.toml")))


@functools.cache
def find_machine(which: str) -> Machine:
    """The machine `which` ("h200"). Raises WarpschoolError where nobody has described it."""
    key = model.gpu_key(which)
    path = FOLDER / f"{key}.toml"
    if not path.is_file():
        raise WarpschoolError(f"the clock has no machine called {which!r}", next_step=did_you_mean(key, machines()))
    data = tomllib.loads(path.read_text(encoding="utf-8"))
    tables = {name: section for name, section in data.items() if isinstance(section, dict)}
    return Machine(key, data["name"], data["arch"], model.find_gpu(data["gpu"]), data["validated"], tables)
