"""Pruning the trained digits' network: what it costs in right answers, and when the sparse product is the faster one.

    python benchmarks/pruning.py [--out FILE] [--seconds 0.3]

Of the second convolution and the first dense layer the weights of least magnitude become zero, down to a density; the
network is not trained again. Right answers are counted on the 1,000 test digits by PyTorch. The two layers' products on
10,000 images (the convolution's as im2col makes it) are timed: lab 05's 10_sparse on what is left, in turns with cuBLAS
on the whole matrix.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import torch
from gemm import Bench, expected_rows
from harness import Step, cupy
from networks import reference

import warpschool as ws
from warpschool.device.measurement import Rules
from warpschool.nn import digits

DENSITIES = (1.0, 0.5, 0.3, 0.2, 0.1, 0.05, 0.02)
LAYERS = {"conv2": 3, "fc1": 7}
"""layer -> its place in PyTorch's network"""
COLUMNS = {"conv2": 64 * 2_000, "fc1": 10_000}
"""columns of each product: places of 2,000 images (as many as are held at once), and images"""
STEP = "lab05_work_per_thread/10_sparse"


def pruned(weight: torch.Tensor, density: float) -> torch.Tensor:
    """The weights of the largest magnitudes; zeros in place of the others."""
    kept = max(1, round(density * weight.numel()))
    least = weight.abs().flatten().kthvalue(weight.numel() - kept + 1).values
    return torch.where(weight.abs() >= least, weight, torch.zeros_like(weight))


def accuracy(model: torch.nn.Module) -> float:
    test = digits.load().test
    with torch.no_grad():
        found = model(torch.from_numpy(test.pixels()).cuda()).argmax(1).cpu().numpy()
    return float((found == test.labels).mean())


def accuracies() -> list[dict[str, float]]:
    """Right answers with both layers at each density."""
    rows = []
    for density in DENSITIES:
        model = reference(torch.float32)
        with torch.no_grad():
            for place in LAYERS.values():
                layer: Any = model[place]
                layer.weight.copy_(pruned(layer.weight, density))
        rows.append({"density": density, "accuracy": accuracy(model)})
        print(f"density {density:5.2f}: {rows[-1]['accuracy']:.1%} right", flush=True)
    return rows


def products(bench: Bench) -> None:
    """Each layer's product at each density."""
    step, model = Step(STEP), reference(torch.float32)
    for name, place in LAYERS.items():
        layer: Any = model[place]
        whole = layer.weight.detach().flatten(1)
        m, k = (int(size) for size in whole.shape)
        n = COLUMNS[name]
        b = cupy.random.standard_normal((k, n), dtype=cupy.float32)
        dense, out, result = cupy.asarray(whole), cupy.empty((m, n), cupy.float32), cupy.empty((m, n), cupy.float32)
        for density in DENSITIES[1:]:
            kept = cupy.asarray(pruned(whole, density).contiguous())
            rows, column = cupy.nonzero(kept)
            row_start = cupy.zeros(m + 1, cupy.int32)
            row_start[1:] = cupy.cumsum(cupy.bincount(rows, minlength=m))
            arrays = {
                "row_start": row_start, "column": column.astype(cupy.int32), "value": kept[rows, column], "B": b,
                "C": result, "expected": expected_rows(kept, b),
            }  # fmt: skip
            bench.check(
                name, step, {"M": m, "N": n, "K": k, "NNZ": len(column)}, arrays,
                partial(cupy.matmul, dense, b, out=out), amount=2.0 * len(column) * n,
                reference_amount=2.0 * m * n * k, note=f"density {density}",
            )  # fmt: skip


def main() -> None:
    """Count and measure, print a line for each, write all as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="write the results to this JSON file")
    parser.add_argument("--seconds", type=float, default=0.3, help="at most this long for one measurement")
    options = parser.parse_args()
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    bench = Bench(Rules(max_seconds=options.seconds, target_error=0.01, min_samples=10))
    right = accuracies()
    products(bench)
    if options.out:
        device = ws.get_device("gpu")
        result = {
            "what": "pruning the digits' network", "device": device.description, "cuda_driver": device.driver,
            "flush": "L2 flushed before each sample", "accuracy": right, "rows": [asdict(row) for row in bench.rows],
        }  # fmt: skip
        options.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
