"""Right kernels of many styles raise no hazard; wrong ones are named with the kind and the line of their marks.

A mark stands on each line that a report may blame: `// expect: RACE`. A race has two lines, and both are told.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from warpschool.compile import compile_cuda

from .engine_launch import Outcome, launch

KERNELS = Path(__file__).parent / "kernels"
CORRECT, WRONG = (sorted((KERNELS / folder).glob("*.cu")) for folder in ("correct", "wrong"))
KINDS = {
    "RACE": "race", "UNORDERED": "unordered", "LOCKSTEP": "lockstep", "SYNC": "divergent-barrier",
    "UNINIT": "uninitialized",
}  # fmt: skip
SIZE = 2048


def run(path: Path, **options) -> Outcome:
    source = path.read_text()
    numbers = {name: int(value) for name, value in re.findall(r"(\w+)=(\d+)", re.search(r"// launch: (.*)", source)[1])}
    x = np.random.default_rng(7).random(SIZE).astype(np.float32)
    arguments = (x, np.zeros(SIZE, np.float32), np.zeros(SIZE, np.int32), np.int32(SIZE))
    ptx = compile_cuda(source, name=path.name).ptx
    return launch(ptx, "k", (numbers["grid"],), (numbers["block"],), *arguments, **options)


def marks(path: Path) -> set[tuple[str, int]]:
    lines = enumerate(path.read_text().splitlines(), 1)
    return {(KINDS[found[1]], number) for number, line in lines if (found := re.search(r"// expect: (\w+)", line))}


def test_there_are_thirty_of_each():
    assert len(CORRECT) >= 30 and len(WRONG) >= 30
    assert all(marks(path) for path in WRONG) and not any(marks(path) for path in CORRECT)


@pytest.mark.parametrize("path", CORRECT, ids=lambda p: p.stem)
@pytest.mark.thinned(5)
def test_correct_kernel_is_left_alone(path):
    assert not [f"line {h.line}: {h.message}" for h in run(path).record.hazards]


@pytest.mark.parametrize("path", WRONG, ids=lambda p: p.stem)
@pytest.mark.thinned(5)
def test_wrong_kernel_is_named(path):
    expected = marks(path)
    kinds = {kind for kind, _ in expected}
    found = [h for h in run(path).record.hazards if h.kind in kinds]
    assert found, "no hazard was reported"
    lines = {line for _, line in expected}
    for h in found:
        told = f"lines {h.line} and {h.other_line}: {h.message}"
        assert h.line in lines, told
        if h.kind in ("race", "unordered"):
            assert h.other_line in lines or "on its way" in h.message, told
            assert h.other_thread is not None and h.other_block is not None, told
