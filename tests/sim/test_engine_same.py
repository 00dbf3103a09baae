"""The same input gives the same bytes on any number of host threads, with and without AVX-512, after kill -9 too."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

_DIGEST = """
import dataclasses, hashlib, json, sys
import numpy as np
from tests.sim import engine_launch, golden_kernels
text = open(sys.argv[1]).read()
found = {}
for name in sys.argv[2:]:
    how = golden_kernels.LAUNCHES[name]
    for threads in (1, 2, 16):
        x, y = golden_kernels.inputs(name)
        arguments = [x, y, np.zeros(golden_kernels.out_words(name), np.uint32), np.int32(how.n)]
        arguments += [how.extra] if how.extra else []
        ours = engine_launch.launch(text, name, (how.grid,), (how.block,), *arguments, shared_bytes=how.shared_bytes, threads=threads)
        record = dataclasses.asdict(ours.record)
        del record["reach"]  # allocations, which lie elsewhere each time
        data = json.dumps(record, sort_keys=True, default=str).encode() + b"".join(a.tobytes() for a in ours.arrays)
        found[f"{name} on {threads}"] = hashlib.sha256(data).hexdigest()
print(json.dumps(found))
"""
QUICK = ("divergence", "reduction", "atomics", "halves")


def digests(simd: str, names: tuple[str, ...]) -> dict[str, str]:
    ptx = ROOT / "tests" / "sim" / "data" / "kernels.compute_80.ptx"
    environment = os.environ | {"WARPSCHOOL_SIMD": simd, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
    command = [sys.executable, "-c", textwrap.dedent(_DIGEST), str(ptx), *names]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize(
    "names",
    [QUICK, pytest.param(("integers", "barriers", "wide", "warps", "math_float", "math_double", "collectives"), marks=pytest.mark.slow)],
    ids=["quick", "the others"],
)
def test_results_counters_and_hazards_are_the_same_everywhere(names):
    widest, avx2 = digests("", names), digests("avx2", names)
    assert widest == avx2
    for name in names:
        assert len({widest[f"{name} on {threads}"] for threads in (1, 2, 16)}) == 1, name


@pytest.mark.slow
@pytest.mark.parametrize("step", ["lab02_tiling/01_tiled", "lab00_first_kernels/03_block_sum"])
def test_a_check_gives_the_same_json_everywhere(step):
    said = set()
    for threads, simd in (("1", ""), ("2", ""), ("16", ""), ("1", "avx2"), ("16", "avx2")):
        environment = os.environ | {"WARPSCHOOL_SIMD": simd, "WARPSCHOOL_THREADS": threads}
        solution = ROOT / "solutions" / f"{step}.cu"
        command = [sys.executable, "-m", "warpschool", "check", step, "--kernel", str(solution), "--seed", "1", "--json"]
        done = subprocess.run(command, capture_output=True, check=True, env=environment, cwd=ROOT)
        said.add(done.stdout)
    assert len(said) == 1


_WRITES = """
import sys
from ptxsim import cache
print("writing", flush=True)
k = 0
while True:
    k += 1
    cache.store("object", f"key{k % 7}", {"number": k, "body": "x" * 300_000})
"""


def test_a_killed_writer_leaves_whole_entries(tmp_path, monkeypatch):
    monkeypatch.setenv("WARPSCHOOL_CACHE", str(tmp_path))
    from ptxsim import cache

    for delay in (0.001, 0.004, 0.013, 0.03, 0.06):
        with subprocess.Popen([sys.executable, "-c", _WRITES], stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout.readline() == "writing\n"
            time.sleep(delay)
            process.kill()
        for path in (tmp_path / "object").glob("*.json"):
            entry = cache.load("object", path.stem)
            assert entry is not None and len(entry["body"]) == 300_000, path
    assert cache.store("object", "key1", {"number": -1}) and cache.load("object", "key1") == {"number": -1}
