"""How long whole networks take on the simulator: the 1,000 test digits, at the first run and at later ones.

    python benchmarks/simulator_networks.py [--forms fused winograd lenet5] [--repeat 3] [--json FILE]

Every run is a new process, timed from its start to the last label. The first one has empty caches, so it compiles and
translates every kernel; the later one finds them on disk. Processor seconds are those of all threads and of the
compiler's processes. Of `--repeat` pairs the best times count. The machine should have nothing else to do: how busy it
was is recorded.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import processor

HERE = Path(__file__).parent
FORMS = {"fused": "digits, a kernel for each stage", "winograd": "digits, Winograd", "lenet5": "LeNet-5"}
_RUN = """
import sys
from warpschool.nn.digits import load, weights
from warpschool.nn.network import Network, digits_layers, lenet5_layers
from warpschool.nn.session import Kernels
form = sys.argv[1]
layers = lenet5_layers() if form == "lenet5" else digits_layers(form)
network = Network(layers, Kernels(device="sim"), parameters=weights("lenet5" if form == "lenet5" else "digits"))
digits = load().test
print((network.classify(digits.pixels()) == digits.labels).mean())
"""


def run(form: str, cache: str) -> dict[str, float]:
    """One run in a new process: seconds, processor seconds, and the part of the digits that it got right."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", _RUN, form], capture_output=True, text=True, check=True,
        env=os.environ | {"WARPSCHOOL_CACHE": cache},
    )  # fmt: skip
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    accuracy = float(done.stdout)
    if accuracy < 0.97:
        raise SystemExit(f"{form}: {accuracy:.1%} of the digits")
    return {"s": wall, "processor_s": processor, "accuracy": accuracy}


def measure(form: str, repeat: int) -> dict[str, float]:
    """The best of some first runs and of the runs after them."""
    pairs = []
    for _ in range(repeat):
        with tempfile.TemporaryDirectory() as cache:
            pairs.append((run(form, cache), run(form, cache)))
    found: dict[str, float] = {"accuracy": pairs[0][0]["accuracy"]}
    for name, runs in zip(("first", "later"), zip(*pairs, strict=True), strict=True):
        for quantity in ("s", "processor_s"):
            found[f"{name}_{quantity}"] = min(one[quantity] for one in runs)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--forms", nargs="+", choices=FORMS, default=list(FORMS), help="which networks")
    parser.add_argument("--repeat", type=int, default=3, help="pairs of runs; the best counts")
    parser.add_argument("--json", type=Path, default=HERE / "results" / "simulator_networks.json", help="the result")
    arguments = parser.parse_args()
    result: dict[str, Any] = {
        "what": "simulator networks", "cpu": processor.name(), "cores": len(os.sched_getaffinity(0)), "images": 1000,
        "load_before": os.getloadavg()[0], "networks": {},
    }  # fmt: skip
    for form in arguments.forms:
        row = result["networks"][FORMS[form]] = measure(form, arguments.repeat)
        print(
            f"{FORMS[form]}: first {row['first_s']:.1f} s ({row['first_processor_s']:.1f} s of processors), "
            f"later {row['later_s']:.1f} s ({row['later_processor_s']:.1f} s)", flush=True,
        )  # fmt: skip
    arguments.json.parent.mkdir(parents=True, exist_ok=True)
    arguments.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
