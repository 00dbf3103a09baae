"""All of CUDA C++ that the simulator promises, one file a topic: the translated kernels against the oracle, bit by bit.

`coverage/*.cu` hold kernels k(const unsigned* in, unsigned* out) with their launch in the second comment line. NVRTC
compiles them here, for one architecture in the ordinary run and for all in the slow one; what NVRTC 12 wrote for them
is kept in `data/nvrtc12`.
"""

from __future__ import annotations

import re
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest
from packaging.version import Version

from warpschool.compile import compile_cuda

from . import engine_launch, oracle_launch

HERE = Path(__file__).parent
SOURCES = sorted((HERE / "coverage").glob("*.cu"))
GOLDEN = sorted((HERE / "data" / "nvrtc12").glob("*.ptx"))
ARCHITECTURES = (75, 80, 86, 89, 90, 100, 120)
LONG = {"math_double", "math_float", "calls"}
"""Slow to translate: the ordinary run tries them in one way, the slow one in all."""
WAYS = ({}, {"parted": True}, {"check": False, "threads": 1})


def numbers(source: str) -> dict[str, int]:
    """What the comment lines say: grid, block, words per thread, dynamic shared bytes, the least architecture."""
    found = dict(re.findall(r"(\w+)=(\d+)", re.search(r"// launch: (.*)", source)[1]))
    needs = re.search(r"// needs: (\d+)", source)
    return {name: int(value) for name, value in found.items()} | {"needs": int(needs[1]) if needs else 0}


def skip_with_old_headers(source: str) -> None:
    """Skips what the installed CCCL is too old for: `// cccl: VERSION (why)`."""
    wanted = re.search(r"// cccl: ([\d.]+) \((.*)\)", source)
    if wanted and Version(metadata.version("nvidia-cuda-cccl")) < Version(wanted[1]):
        pytest.skip(f"needs CCCL {wanted[1]}: {wanted[2]}")


def compare(ptx: str, source: str, ways=WAYS) -> None:
    n = numbers(source)
    threads = n["grid"] * n["block"]
    x = np.random.default_rng(1).integers(0, 1 << 32, 3 * threads + 256, dtype=np.uint64).astype(np.uint32)
    call = ("k", (n["grid"],), (n["block"],), x, np.zeros(threads * n["words"], np.uint32))
    shared = {"shared_bytes": n.get("shared", 0)}
    expected = oracle_launch.launch(ptx, *call, **shared)
    for way in ways:
        ours = engine_launch.launch(ptx, *call, **shared, **way)
        assert not [f"line {h.line}: {h.message}" for h in ours.record.hazards], way
        differ = np.argwhere((ours.arrays[1] != expected.arrays[1]).reshape(threads, -1))
        assert not len(differ), f"{way}: words {sorted(set(differ[:, 1]))} differ, first in thread {differ[0, 0]}"
        assert ours.record.printed == expected.result.printed
        if not way.get("parted"):
            counted = {k: (ours.counters.get(k, 0), v) for k, v in expected.counters.items()}
            assert not {k: pair for k, pair in counted.items() if pair[0] != pair[1]}, way


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: p.stem)
@pytest.mark.thinned(6)
def test_engine_equals_oracle(path):
    source = path.read_text()
    skip_with_old_headers(source)
    arch = max(80, numbers(source)["needs"])
    ways = ({},) if path.stem in LONG else WAYS
    compare(compile_cuda(source, name=path.name, arch=f"compute_{arch}").ptx, source, ways)


@pytest.mark.slow
@pytest.mark.parametrize("arch", ARCHITECTURES)
@pytest.mark.parametrize("path", SOURCES, ids=lambda p: p.stem)
def test_every_architecture(path, arch):
    source = path.read_text()
    skip_with_old_headers(source)
    if arch < numbers(source)["needs"]:
        pytest.skip(f"{path.stem} needs sm_{numbers(source)['needs']}")
    ways = WAYS if path.stem in LONG and arch in (80, 100) else ({},)
    compare(compile_cuda(source, name=path.name, arch=f"compute_{arch}").ptx, source, ways)


@pytest.mark.slow
@pytest.mark.parametrize("path", GOLDEN, ids=lambda p: p.stem)
def test_ptx_of_nvrtc_12(path):
    compare(path.read_text(), (HERE / "coverage" / f"{path.stem.split('.')[0]}.cu").read_text(), ways=({},))
