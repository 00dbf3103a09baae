"""What calls CUDA's runtime and driver have, by NVIDIA's own headers: the names alone, for the page of calls.

    python benchmarks/cuda_calls.py
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from warpschool.programs import find_tools

RESULTS = Path(__file__).resolve().parent / "results" / "cuda_calls.json"


def main() -> None:
    tools = find_tools()
    runtime = (tools.include / "cuda_runtime_api.h").read_text("utf-8", "replace")
    driver = (tools.include / "cuda.h").read_text("utf-8", "replace")
    found = {
        "cuda": tools.cuda,
        "runtime": sorted(set(re.findall(r"CUDARTAPI\s+(cuda\w+)\(", runtime))),
        "driver": sorted(set(re.findall(r"CUresult CUDAAPI (cu[A-Z]\w+)\(", driver)) - _later(driver)),
    }
    RESULTS.write_text(json.dumps(found, indent=1) + "\n", "utf-8")
    print(f"CUDA {tools.cuda}: {len(found['runtime'])} calls of the runtime, {len(found['driver'])} of the driver")


def _later(header: str) -> set[str]:
    """Names with a version that a plain name stands for: cuMemAlloc is cuMemAlloc_v2."""
    return set(re.findall(r"CUresult CUDAAPI (cu[A-Z]\w+_(?:v\d+|ptsz|ptds)\w*)\(", header))


if __name__ == "__main__":
    main()
