"""Writes the README's tables between their markers: finished labs from the course, figures from benchmarks/results/.

Nothing is typed in by hand: a figure that was not measured is not in the README.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from scripts.pages import between

from warpschool.course import Course, Lab
from warpschool.recorded import beside_best, results
from warpschool.route import read_route

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "README.md"
NOT_MEASURED = "*Not measured yet.*"


def labs_table() -> str:
    """Which labs have references, graded tests and a notebook."""
    rows = ["| lab | about | graded steps | notebook |", "|---|---|---:|---|"]
    route = read_route(Course(ROOT))
    assert route is not None
    rows += [_lab_row(point.lab, point.about) for point in route.waypoints]
    return "\n".join(rows)


def _lab_row(lab: Lab, about: str) -> str:
    graded = sum(bool(step.solution and step.grader and step.starter) for step in lab.steps)
    steps = str(graded) if graded == len(lab.steps) else f"{graded} of {len(lab.steps)}"
    return f"| `{lab.name}` | {about} | {steps} | {'yes' if lab.notebook else 'not yet'} |"


def simulator_table() -> str:
    """The simulator's speed, from benchmarks/simulator.py."""
    found = _figures("simulator.json")
    if found is None:
        return f"{NOT_MEASURED} `make bench` measures it."
    lines = [
        f"Single-precision products of {found['size']}³ on one thread of {_article(found['cpu'])}. NumPy's own, on one "
        f"thread too, takes {found['numpy_ms']:.1f} ms ({found['numpy_gflops']:.0f} GFLOP/s).",
        "",
        "| kernel | time | of NumPy's speed | all checks and counters | first launch |",
        "|---|---:|---:|---:|---:|",
    ]
    for name, row in found["kernels"].items():
        first = f"{row['first_launch_plain_s']:.2f} s, {row['first_launch_checked_s']:.2f} s with all checks"
        speed = f"{row['plain_ms']:.1f} ms | {row['ratio_to_numpy']:.2f}"
        lines.append(f"| {name} | {speed} | {row['checked_over_plain']:.1f} x the time | {first} |")
    if found.get("numba"):
        lines += ["", f"The naive kernel is {found['numba']['ratio']:,.0f} times as fast as on Numba's CUDA simulator."]
    return "\n".join(lines)


def gemm_table() -> str:
    """The ladder against cuBLAS, from benchmarks/gemm.py."""
    found = _figures("gemm_h200.json")
    if found is None:
        return f"{NOT_MEASURED} `warpschool bench gemm` measures it on a GPU."
    ladder = [row for row in found["rows"] if row["part"] == "ladder"]
    size = ladder[0]["sizes"]["M"]
    lines = [
        f"{size}³ in single precision on an {found['device']}, each step timed in one run with cuBLAS, L2 flushed.",
        "", "| step | time | of cuBLAS's speed |", "|---|---:|---:|",
    ]  # fmt: skip
    for row in ladder:
        lines.append(f"| `{row['step']}` | {row['time_ms']:.2f} ms | {row['ratio']:.2f} |")
    mean = found["summary"]["geometric_mean_over_sizes"]
    lines += ["", f"The last step, its tiles tuned for each of eight sizes (three ragged): {mean:.2f} in the mean."]
    if unseen := _figures("tiles_unseen_h200.json"):
        ratios = [row["ratio"] for row in unseen["rows"] if row["part"] == "unseen"]
        lines[-1] += (
            f" With tiles by a rule that may divide K over blocks, and no tuning run, at {len(ratios)} shapes drawn "
            f"after the rule was made, on an {unseen['device']}: {unseen['summary']['geometric_mean_unseen']:.2f}, "
            f"from {min(ratios):.2f} to {max(ratios):.2f}."
        )
    return "\n".join(lines)


def tensor_table() -> str:
    """Lab 07 against cuBLAS, from benchmarks/tensor_cores.py."""
    found = _figures("tensor_cores_h200.json")
    if found is None:
        return NOT_MEASURED
    lines = [
        f"Half in, float32 sums (04: 8-bit integers, 07: 8-bit floats) on an {found['device']}, each step in one run "
        "with cuBLAS for the same types, L2 flushed, in short bursts between rests. Sustained: without rests, when the "
        f"chip's power limit lowers its clock. {_narrow_sums(found)}",
        "",
        "| step | 4096³ | of cuBLAS's speed | sustained | 8192³ | of cuBLAS's speed | sustained |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    rows = {(row["part"], row["step"], row["sizes"]["M"]): row for row in found["rows"]}
    for step in dict.fromkeys(step for part, step, _ in rows if part == "large"):
        cells = []
        for size in (4096, 8192):
            burst, sustained = rows["large", step, size], rows["sustained", step, size]
            cells.append(f"{burst['rate']:.0f} TFLOP/s | {burst['ratio']:.2f} | {sustained['ratio']:.2f}")
        lines.append(f"| `{step}` | {' | '.join(cells)} |")
    return "\n".join(lines)


def _narrow_sums(found: dict[str, Any]) -> str:
    """What the sums of 8-bit floats are worth, beside a library that takes them out of the tensor cores."""
    fast = next(row["reference"] for row in found["rows"] if row["part"] == "large" and row["step"].endswith("fp8"))
    exact = [row for row in found["rows"] if row["part"] == "accurate"]
    errors = {(row["of"], row["K"]): row["relative_error"] for row in found["accuracy"]}
    step, slow, size = exact[0]["step"], exact[0]["reference"], exact[0]["sizes"]["K"]
    ratios = " and ".join(f"{row['ratio']:.2f}" for row in exact)
    return (
        f"07 stands beside {fast}, whose sums are as inexact as its own: off by {errors[step, size]:.1e} of their size "
        f"at {size}, where {slow} are off by {errors[slow, size]:.1e}; of the latter's speed it has {ratios}."
    )


def winograd_table() -> str:
    """Winograd's convolution against cuDNN, from benchmarks/winograd.py."""
    found = beside_best("winograd", course=Course(ROOT))
    if found is None:
        return f"{NOT_MEASURED} `python benchmarks/winograd.py` measures it on a GPU."
    vgg = [row for row in found["rows"] if row["layer"].startswith("vgg")]
    worst = max(vgg, key=lambda row: row["best"]["ratio"])
    (lenet,) = (row for row in found["rows"] if row["layer"] == "lenet2")
    groups = [
        ("VGG16's 13 convolutions, batch 32", ", ".join(sorted({row["method"].split(", ")[0] for row in vgg})), vgg),
        (f"of them the one with least gain: {worst['layer']}", worst["method"], [worst]),
        ("32 to 64 channels of 12 x 12, filters of 5 x 5, batch 10,000", lenet["method"], [lenet]),
    ]
    lines = [
        f"Lab 09's references in single precision on an {found['device']}, the filters' transform included, L2 "
        + "flushed. " + _RIVALS.format(torch=found["torch"], cudnn=_cudnn(found["cudnn"])),
        "", _HEAD.format("layers | method"), "|---|---|---:|---:|---:|---:|---:|---|",
    ]  # fmt: skip
    for layers, method, rows in groups:
        lines.append(f"| {layers} | {method} | {_against(rows, 'time_ms', 'cudnn_ms', 'max_error')} |")
    return "\n".join(lines)


_RIVALS = (
    "Beside it cuDNN {cudnn} twice: as PyTorch {torch} calls it (what it picks in benchmark mode, without TF32), and "
    "by the fastest of cuDNN's algorithms and layouts for each layer, each in turns with ours. Errors are the "
    "largest, of the largest result, against float64: ours, and that of cuDNN's fastest."
)
_HEAD = "| {} | time | as PyTorch calls cuDNN | of its time | cuDNN's fastest | of its time | errors |"


def _cudnn(number: int) -> str:
    """A version as people write it: 91900 is 9.19.0."""
    return f"{number // 10_000}.{number // 100 % 100}.{number % 100}"


def _against(rows: Sequence[Mapping[str, Any]], ours: str, called: str, error: str, *, unit: str = "ms") -> str:
    """The cells of some layers together: our time, both rivals', and the errors."""
    mine, theirs = (sum(row[name] for row in rows) for name in (ours, called))
    best = sum(row["best"]["time_ms"] for row in rows) * (1000 if unit == "us" else 1)
    digits = 1 if unit == "us" and len(rows) == 1 else 0 if unit == "us" else 2
    names = sorted({row["best"]["name"] for row in rows})
    named = f" ({names[0]})" if len(names) == 1 else ""
    largest = max(row[error] for row in rows), max(row["best"]["error"] for row in rows)
    return (
        f"{mine:.{digits}f} {unit} | {theirs:.{digits}f} {unit} | {mine / theirs:.2f} | {best:.{digits}f} {unit}{named}"
        f" | {mine / best:.2f} | {largest[0]:.0e} and {largest[1]:.0e}"
    )


def convolution_table() -> str:
    """Lab 08's fastest kernels against cuDNN, from benchmarks/convolution.py."""
    found = beside_best("convolution", course=Course(ROOT))
    if found is None:
        return f"{NOT_MEASURED} `python benchmarks/convolution.py` measures it on a GPU."
    digits = [row for row in found["rows"] if row["section"] == "digits"]
    best = {row["layer"]: row for row in sorted(digits, key=lambda row: -row["time_ms"])}
    groups = [
        ("{C} to {F} channels of {H} x {W}, filters of {R} x {S}, batch {BATCH:,}".format(**row["sizes"]),
         f"`{row['step']}`", [row])
        for row in sorted(best.values(), key=lambda row: row["layer"])
    ]  # fmt: skip
    groups += _half_rows([row for row in found["rows"] if row["section"] == "vgg16_fp16"])
    versions = found["versions"]
    lines = [
        f"Lab 08's fastest references on an {found['device']}, L2 flushed. "
        + _RIVALS.format(torch=versions["torch"], cudnn=_cudnn(versions["cudnn"])),
        "", _HEAD.format("layers | step"), "|---|---|---:|---:|---:|---:|---:|---|",
    ]  # fmt: skip
    lines += [f"| {a} | {b} | {_against(rows, 'time_ms', 'reference_ms', 'exact_error')} |" for a, b, rows in groups]
    return "\n".join(lines)


def _half_rows(rows: list[dict[str, Any]]) -> list[tuple[str, str, list[dict[str, Any]]]]:
    """VGG16 in half precision: each step that was measured on all layers, and the fastest step of each layer."""
    layers = dict.fromkeys(row["layer"] for row in rows)
    steps = {step: [row for row in rows if row["step"] == step] for step in dict.fromkeys(row["step"] for row in rows)}
    chosen = {f"`{step}`": of_step for step, of_step in steps.items() if len(of_step) == len(layers)}
    if len(steps) > len(chosen):
        best = {row["layer"]: row for row in sorted(rows, key=lambda row: -row["ratio"])}
        fastest = [best[layer] for layer in layers]
        names = dict.fromkeys(f"`{row['step'].split('/')[1]}`" for row in fastest)
        chosen[f"for each layer the fastest: {', '.join(sorted(names))}"] = fastest
    return [("VGG16's 13 convolutions in half precision, batch 32", step, chosen[step]) for step in chosen]


def split_table() -> str:
    """Lab 12's references against cuDNN, from benchmarks/split_channels.py."""
    found = beside_best("split_channels", course=Course(ROOT))
    if found is None:
        return f"{NOT_MEASURED} `python benchmarks/split_channels.py` measures it on a GPU."
    ordered = sorted(found["rows"], key=lambda row: row["best"]["ratio"])
    means = found["summary"]
    lines = [
        f"Lab 12's references for one image on an {found['device']}: the {len(ordered)} layers of Yolo and ResNet that "
        "the thesis measures, with the tiles that the search found on an H200, L2 flushed. "
        + _RIVALS.format(torch=found["torch"], cudnn=_cudnn(found["cudnn"]))
        + f" Geometric means of the ratios: {means['geometric_mean']:.2f} and {means['geometric_mean_to_best']:.2f}."
        + beyond_split(found),
        "", _HEAD.format("layers"), "|---|---:|---:|---:|---:|---:|---|",
    ]  # fmt: skip
    for network, letter in {"Yolo": "Y", "ResNet": "R"}.items():
        rows = [row for row in found["rows"] if row["layer"].startswith(letter)]
        cells = _against(rows, "time_us", "cudnn_us", "exact_error", unit="us")
        lines.append(f"| {len(rows)} layers of {network} | {cells} |")
    for what, row in (("the most", ordered[0]), ("the least", ordered[-1])):
        sizes = "{C} to {F} channels of {H} x {W}, {R} x {S}, stride {STRIDE}".format(**row["sizes"])
        cells = _against([row], "time_us", "cudnn_us", "exact_error", unit="us")
        lines.append(f"| of all the one that gains {what}: {sizes} | {cells} |")
    return "\n".join(lines)


def beyond_split(found: dict[str, Any]) -> str:
    """What Winograd's method adds to split channels, and what one plain product of as many multiply-adds takes."""
    means, layers = found["summary"], [row["layer"] for row in found["rows"] if row.get("winograd")]
    if "product_mean" not in means:
        return ""
    return (
        f" Where lab 09's kernels are faster, at {len(layers)} layers of 3 x 3, Winograd's method makes them "
        f"{means['fastest_mean']:.2f} and {means['fastest_mean_to_best']:.2f}. One plain product of as many "
        "multiply-adds, its operands gathered beforehand, by the faster of cuBLAS and lab 05, is at "
        f"{means['product_mean']:.2f} and {means['product_mean_to_best']:.2f}."
    )


def networks_table() -> str:
    """Whole networks against PyTorch, from benchmarks/networks.py and networks_vgg.py."""
    digits, vgg = _figures("networks_h200.json"), _figures("networks_vgg_h200.json")
    if digits is None or vgg is None:
        return f"{NOT_MEASURED} `python benchmarks/networks.py` measures it on a GPU."
    lines = [
        f"Whole networks by the course's kernels on an {digits['device']}, in turns with PyTorch {digits['torch']} "
        "(cuDNN in benchmark mode, TF32 off), arrays on the device, L2 flushed.",
        "", "| network | ours | PyTorch eager | of its time | torch.compile | of its time |",
        "|---|---:|---:|---:|---:|---:|",
    ]  # fmt: skip
    for precision, form in (("float32", "winograd"), ("float16", "fused")):
        rows = [row for row in digits["digits"]["rows"] if (row["precision"], row["form"]) == (precision, form)]
        eager, compiled = (next(row for row in rows if row["reference"] == name) for name in
                           ("PyTorch eager", "torch.compile"))  # fmt: skip
        theirs = " | ".join(f"{row['reference_ms']:.2f} ms | {row['ratio']:.2f}" for row in (eager, compiled))
        lines.append(f"| digits, {precision}, {digits['batch']:,} images | {eager['time_ms']:.2f} ms | {theirs} |")
    for row in vgg["rows"]:
        if row["layer"] == "all" and row["part"] in ("inference", "training step"):
            cells = f"{row['time_ms']:.2f} ms | {row['pytorch_ms']:.2f} ms | {row['ratio']:.2f}"
            lines.append(f"| VGG16, float32, {row['part']}, {vgg['batch']} images | {cells} | | |")
    return "\n".join([*lines, *_mixed_row()])


def _mixed_row() -> list[str]:
    """A training step in mixed precision, from benchmarks/mixed_precision.py, and how far gradients are off."""
    found = _figures("mixed_precision_h200.json")
    if found is None:
        return []
    rows = {row["pytorch"]: row for row in found["rows"] if not row["bursts"]}
    eager = rows["eager"]
    compiled = min((row for way, row in rows.items() if way != "eager"), key=lambda row: row["pytorch_ms"])
    theirs = " | ".join(f"{row['pytorch_ms']:.2f} ms | {row['ratio']:.2f}" for row in (eager, compiled))
    worst = found["errors"]["gradients"]
    return [
        f"| VGG16, mixed precision, training step, {found['batch']} images | {compiled['time_ms']:.2f} ms | {theirs} |",
        "",
        "In mixed precision PyTorch runs autocast with halfs, channels last, a scaler and its fused SGD. Of all "
        f"gradients the worst is {worst['own']:.2f} of its length from float64's, autocast's worst "
        f"{worst['pytorch']:.2f}.",
    ]


def training_table() -> str:
    """Networks trained by our kernels, from scripts/train_digits.py and benchmarks/training.py."""
    found = _figures("training_h200.json")
    if found is None:
        return NOT_MEASURED
    batch = found["weights"][0]["settings"]["batch"]
    epochs = {(row["network"], row["pytorch"]): row for row in found["against"] if row["batch"] == batch}
    lines = [
        f"The weights that the course ships, trained by lab 11's kernels on an {found['device']} with "
        f"{found['weights'][0]['training_images']:,} images. Beside it the time of an epoch in batches of {batch}, "
        "against PyTorch's.",
        "", "| network | epochs | seed | test digits right | epoch | of eager's time | of a CUDA graph's |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]  # fmt: skip
    for row in found["weights"]:
        eager, graph = (epochs[row["network"], name] for name in ("eager", "CUDA graph"))
        lines.append(
            f"| {row['network']} | {row['settings']['epochs']} | {row['settings']['seed']} | {row['accuracy']:.1%} of "
            f"{row['test_images']:,} | {eager['epoch_ms']:.1f} ms | {eager['ratio']:.2f} | {graph['ratio']:.2f} |"
        )
    return "\n".join(lines)


def _mean(ratios: Sequence[float]) -> float:
    """The geometric mean."""
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def attention_table() -> str:
    """Lab 16's attention on tensor cores beside PyTorch's, from benchmarks/attention.py."""
    found = _figures("attention_h200.json")
    if found is None:
        return f"{NOT_MEASURED} `python benchmarks/attention.py` measures it on a GPU."
    rows = [row for row in found["rows"] if row["part"] == "forward"]
    rival, other = list(dict.fromkeys(row["reference"] for row in rows))
    hopper = [row for row in found["rows"] if row["part"] == "hopper"]
    beside = (
        f"of 06 beside {rival}: {_mean([row['ratio'] for row in rows if row['reference'] == rival]):.2f}; "
        f"of 09 beside {other}: {_mean([row['ratio'] for row in hopper]):.2f}"
    )
    columns = ["`06`", f"of {rival}'s speed", f"of {other}'s", "`09`", f"of {other}'s"]
    lines = [
        f"Lab 16's `06_tensor_cores` and `09_hopper` on an {found['device']}: 16,384 tokens in all, halves with "
        f"float32 sums, in turns with PyTorch {found['torch']}'s attention by the back ends named, L2 flushed. "
        f"Geometric means of the speeds, {beside}.",
        "", f"| text | D | mask | {' | '.join(columns)} |", f"|---:|---:|---|{'---:|' * len(columns)}",
    ]  # fmt: skip
    for d, length, causal in sorted({(row["sizes"]["D"], row["sizes"]["N"], row["sizes"]["causal"]) for row in rows}):
        wanted = {"D": d, "N": length, "causal": causal}
        cells = []
        for part in (rows, hopper):
            found_rows = [row for row in part if wanted.items() <= row["sizes"].items()]
            cells += [f"{found_rows[0]['rate']:.0f} TFLOP/s", *(f"{row['ratio']:.2f}" for row in found_rows)]
        mask = "causal" if causal else "none"
        lines.append(f"| {length:,} tokens | {d} | {mask} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _article(cpu: str) -> str:
    return f"an {cpu}" if cpu[:1] in "AEIOU" else f"a {cpu}"


def _figures(name: str) -> dict[str, Any] | None:
    return next(iter(results(name, course=Course(ROOT))), None)


TABLES: dict[str, Callable[[], str]] = {
    "labs": labs_table,
    "simulator": simulator_table,
    "gemm": gemm_table,
    "tensor": tensor_table,
    "winograd": winograd_table,
    "convolution": convolution_table,
    "split": split_table,
    "networks": networks_table,
    "attention": attention_table,
    "training": training_table,
}


def updated(text: str) -> str:
    """The README with fresh tables. Raises SystemExit where a table's markers are missing."""
    for name, build in TABLES.items():
        text = between(text, name, build())
    return text


def files() -> dict[Path, str]:
    """The README with its tables anew."""
    return {README: updated(README.read_text(encoding="utf-8"))}
