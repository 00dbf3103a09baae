"""Whole networks on a GPU against PyTorch in the same run: the digits' network, layer by layer, and VGG16.

    python benchmarks/networks.py [--network digits|vgg16|all] [--out FILE] [--seconds 0.5] [--no-compile]

VGG16 is measured by networks_vgg.py, which writes FILE_vgg; this is about the digits.

Inference of 10,000 images, argmax included, arrays on the device. PyTorch eager (cuDNN in benchmark mode, TF32 off) and
torch.compile run the same network with the same trained weights; each time is taken in turns with ours, the L2 cache
flushed before each sample. Before anything is timed, our classes of 10,000 real digits (the 1,000 test digits, ten
times) are compared with PyTorch's. Layouts, fusion and streams are measured one by one.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

try:
    import cupy
    import torch
except ImportError:
    raise SystemExit("this needs a GPU, CuPy and PyTorch: pip install 'warpschool[cuda13,torch]'") from None
import numpy as np

import warpschool as ws
from warpschool.contract import parse_contract
from warpschool.device import repeated
from warpschool.device.measurement import Rules
from warpschool.harness.launcher import Program
from warpschool.nn.digits import load, weights
from warpschool.nn.layers import ConvolvePool, FullyConnected, Layer, WinogradPool, half_digits_layers, half_parameters
from warpschool.nn.network import PIXELS, Network, digits_layers
from warpschool.nn.session import Kernels
from warpschool.nn.streams import classify_in_parts

BATCH = 10_000
TILES: dict[str, dict[str, int]] = {
    "conv1": {"FPT": 8, "IMAGES": 7, "SETS": 8, "MOST": 512, "BLOCKS": 1},
    "conv2": {"FPT": 8, "GROUPS": 4, "IMAGES": 8, "MOST": 256, "BLOCKS": 2},
    "conv2 winograd": {"TSF": 64, "TSP": 128, "TSC": 16, "WSF": 32, "WSP": 64, "WPTF": 8, "WPTP": 8, "BLOCKS": 4},
    "fc1": {"TSM": 64, "TSN": 64, "WPTM": 4, "WPTN": 4, "BLOCKS": 3},
    "fc2": {"TSM": 64, "TSN": 16, "WPTM": 4, "WPTN": 4},
}
"""Constants that were found best on an H200."""
HALF_TILES: dict[str, dict[str, int]] = {
    "conv1": {"IMAGES": 4},
    "conv2": {"TSM": 256, "STAGES": 2, "BLOCKS": 2, "WSM": 64, "WSN": 64},
    "fc1": {"TSM": 64, "WSM": 32, "TSN": 64, "WSN": 32},
    "fc2": {"TSM": 64, "WSM": 16, "TSN": 16, "WSN": 16},
}
COLUMNS = """// pool_columns.cu: the mean of windows that lie as 4 x 1, as lab 08's 08_layout writes them.
// Entry:   pool_columns(const float x[N,4,PW] in, float y[N,PW] out, int N, int PW)
// Launch:  pool_columns block=(256) grid=(cdiv(N * PW, 256))

extern "C" __global__ void pool_columns(const float* __restrict__ x, float* __restrict__ y, int N, int PW)
{
    const int i = blockIdx.x * 256 + threadIdx.x;
    if (i < N * PW) {
        const float* from = x + i / PW * 4 * PW + i % PW;
        y[i] = 0.25f * (fmaxf(from[0], 0.0f) + fmaxf(from[PW], 0.0f) + fmaxf(from[2 * PW], 0.0f)
                        + fmaxf(from[3 * PW], 0.0f));
    }
}
"""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One network against one reference; `ratio` below 1 means faster."""

    network: str
    form: str
    precision: str
    reference: str
    time_ms: float
    reference_ms: float
    ratio: float
    ratio_error: float
    stable: bool
    agreement: float
    """the part of 10,000 classes that equal PyTorch's eager ones"""
    accuracy: float
    arena_mb: float
    separate_mb: float
    """what the arrays would take without sharing"""
    layers_ms: dict[str, float]


def tuned(layers: Sequence[Layer]) -> tuple[Layer, ...]:
    """The layers with the tile sizes above."""
    found: list[Layer] = []
    for layer in layers:
        name = "conv2 winograd" if isinstance(layer, WinogradPool) else layer.name
        if isinstance(layer, ConvolvePool | WinogradPool | FullyConnected) and name in TILES:
            layer = replace(layer, constants=TILES[name])
        found.append(layer)
    return tuple(found)


def reference(dtype: torch.dtype) -> torch.nn.Module:
    """PyTorch's network with the same weights."""
    nn, own = torch.nn, weights("digits")
    model = nn.Sequential(
        nn.Conv2d(1, 32, 5), nn.ReLU(), nn.AvgPool2d(2), nn.Conv2d(32, 64, 5), nn.ReLU(), nn.AvgPool2d(2), nn.Flatten(),
        nn.Linear(1024, 128), nn.ReLU(), nn.Linear(128, 10),
    )  # fmt: skip
    with torch.no_grad():
        weighted: dict[str, Any] = {"conv1": model[0], "conv2": model[3], "fc1": model[7], "fc2": model[9]}
        for name, layer in weighted.items():
            weight = torch.from_numpy(own[f"{name}.weight"])
            layer.weight.copy_(weight if weight.ndim == 4 else weight.T)
            layer.bias.copy_(torch.from_numpy(own[f"{name}.bias"]))
    return model.to("cuda", dtype).eval()


def references(dtype: torch.dtype, x: torch.Tensor, *, compiled: bool) -> dict[str, Callable[[], Any]]:
    """PyTorch's ways to run the network on x."""
    model = reference(dtype)
    found: dict[str, Callable[[], Any]] = {"PyTorch eager": lambda: model(x).argmax(1)}
    if compiled:
        faster = torch.compile(model)
        found["torch.compile"] = lambda: faster(x).argmax(1)
    return found


def measure(
    network: Network, form: str, precision: str, x: np.ndarray, others: dict[str, Callable[[], Any]], rules: Rules
) -> list[Row]:
    """Check a network's classes and time it in turns with each reference."""
    session = network.session(BATCH)
    session["x"].set(x.reshape(session["x"].shape).astype(session["x"].dtype))
    session.run()
    ours = session[network.result].get()
    theirs = others["PyTorch eager"]().cpu().numpy()
    agreement = float((ours == theirs).mean())
    if agreement < (0.999 if precision == "float32" else 0.99):
        raise ArithmeticError(f"{form} in {precision}: {agreement:.2%} of the classes are PyTorch's")
    accuracy = float((ours.reshape(10, -1) == load().test.labels).mean())
    layers = {layer.name: _quick(session.again(layer.name)) for layer in network.layers}
    rows = []
    for name, other in others.items():
        found = ws.benchmark_ratio(session.run, other, device="gpu", rules=rules)
        mine, time = found.candidate.median_ms, found.reference.median_ms
        assert mine is not None and time is not None and found.speed is not None and found.error is not None
        rows.append(
            Row(
                network="digits", form=form, precision=precision, reference=name, time_ms=mine, reference_ms=time,
                ratio=1 / found.speed, ratio_error=found.error, stable=found.stable, agreement=agreement,
                accuracy=accuracy, arena_mb=session.layout.nbytes / 1e6,
                separate_mb=session.layout.separate_bytes / 1e6, layers_ms=layers,
            )
        )  # fmt: skip
        print(_text(rows[-1]), flush=True)
    return rows


def _text(row: Row) -> str:
    doubt = "" if row.stable else ", not stable"
    parts = " ".join(f"{name} {ms:.3f}" for name, ms in row.layers_ms.items())
    return (
        f"{row.network} {row.form:9s} {row.precision}: {row.time_ms:.4f} ms, {row.ratio:.3f} of {row.reference}'s "
        f"{row.reference_ms:.4f} (error {row.ratio_error:.1%}{doubt}) [{parts}] accuracy {row.accuracy:.1%}, "
        f"arena {row.arena_mb:.0f} of {row.separate_mb:.0f} MB"
    )


def _quick(work: Callable[[], Any]) -> float:
    rules = Rules(warmup_ms=5.0, min_samples=5, max_samples=20, max_seconds=0.1)
    return ws.benchmark(work, device="gpu", rules=rules).median_ms or float("nan")


# ---------------------------------------------------------------- one optimisation at a time


def layouts(kernels: Kernels) -> dict[str, float]:
    """ms of pooling the first layer's results: windows in rows, through shared memory, and as columns of four."""
    found = {}
    for step, name in (("03_average_pool_relu", "2 x 2"), ("04_average_pool_tiled", "2 x 2 through shared memory")):
        contract = kernels.contract(f"lab10_lenet/{step}")
        sizes = {"BATCH": BATCH, "C": 32, "H": 24, "W": 24}
        found[name] = _time(Program(contract, device=kernels.device), sizes)
    columns = parse_contract(COLUMNS, name="pool_columns.cu")
    found["4 x 1"] = _time(Program(columns, device=kernels.device), {"N": BATCH * 32 * 12, "PW": 12})
    return found


def _time(program: Program, sizes: dict[str, int]) -> float:
    plan = program.contract.bind(sizes)
    device = program.module.device
    arrays = {name: device.zeros(array.shape or (), array.dtype, name=name) for name, array in plan.arrays.items()}
    launches = program.enqueue(sizes, arrays)
    return _quick(repeated(launches))


def streams(network: Network, x: np.ndarray) -> list[dict[str, Any]]:
    """Copies in, kernels and copies out of 10,000 images: pageable or pinned, in parts and streams."""
    found = []
    ways = ((False, 1, 1), (True, 1, 1), (True, 2, 2), (True, 4, 2), (True, 10, 1), (True, 10, 2), (True, 10, 4))
    for pinned, parts, count in ways:
        timeline = classify_in_parts(network, x, parts=parts, streams=count, pinned=pinned).timeline
        assert timeline is not None
        spans = [[s.work.engine, s.work.part, s.work.stream, s.start_ms, s.end_ms] for s in timeline.spans]
        row = {"pinned": pinned, "parts": parts, "streams": count, "total_ms": timeline.total_ms,
               "overlapped_ms": timeline.overlapped_ms, "spans": spans}  # fmt: skip
        print({name: value for name, value in row.items() if name != "spans"}, flush=True)
        found.append(row)
    return found


# ---------------------------------------------------------------- all


def digits(rules: Rules, *, compiled: bool) -> dict[str, Any]:
    """All measurements of the digits' network."""
    kernels = Kernels(device="gpu")
    x = np.tile(load().test.pixels(), (10, 1, 1, 1))
    there = torch.from_numpy(x).cuda()
    rows: list[Row] = []
    best: Network | None = None
    with torch.inference_mode():
        others = references(torch.float32, there, compiled=compiled)
        for form in ("plain", "pooled", "fused", "winograd"):
            layers = tuned(digits_layers(form))
            best = Network(layers, kernels, parameters=weights("digits"), image_shape=PIXELS)
            wanted = others if form == "winograd" else {"PyTorch eager": others["PyTorch eager"]}
            rows += measure(best, form, "float32", x, wanted, rules)
        half = Network(
            half_digits_layers(HALF_TILES), kernels, parameters=half_parameters(weights("digits")),
            image_shape=PIXELS[1:], dtype=np.float16,
        )  # fmt: skip
        rows += measure(half, "fused", "float16", x, references(torch.float16, there.half(), compiled=compiled), rules)
    assert best is not None
    result = {"rows": [asdict(row) for row in rows], "layout_ms": layouts(kernels), "streams": streams(best, x)}
    print(json.dumps(result["layout_ms"]))
    return result


def main() -> None:
    """Measure, print a line for each network, write all as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--network", choices=("digits", "vgg16", "all"), default="all")
    parser.add_argument("--out", type=Path, help="write the results to this JSON file")
    parser.add_argument("--seconds", type=float, default=0.5, help="at most this long for one measurement")
    parser.add_argument("--no-compile", action="store_true", help="leave torch.compile out: it takes long to compile")
    options = parser.parse_args()
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cuda.matmul.allow_tf32 = False
    rules = Rules(max_seconds=options.seconds, target_error=0.005, min_samples=10)
    device = ws.get_device("gpu")
    result: dict[str, Any] = {
        "device": device.description, "cuda_driver": device.driver, "cupy": cupy.__version__,
        "torch": torch.__version__, "cudnn": torch.backends.cudnn.version(),
        "nvrtc": ".".join(map(str, cupy.cuda.nvrtc.getVersion())), "flush": "L2 flushed before each sample",
        "tf32": False, "batch": BATCH,
    }  # fmt: skip
    if options.network in ("digits", "all"):
        result["digits"] = digits(rules, compiled=not options.no_compile)
        if options.out:
            options.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    if options.network in ("vgg16", "all"):
        beside = Path(__file__).with_name("networks_vgg.py")  # a process of its own: VGG16 wants the whole memory
        out = ["--out", str(options.out.with_stem(f"{options.out.stem}_vgg"))] if options.out else []
        sys.exit(subprocess.run([sys.executable, str(beside), *out], check=False).returncode)


if __name__ == "__main__":
    main()
