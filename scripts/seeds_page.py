"""Writes docs/reference/seeds.md from benchmarks/results/.

The page sets five documents beside this course: each table and figure of theirs that holds measurements, and what we
measured. Theirs are typed in here or in `warpcourse`, each once; ours come from the recorded results, and a cell for
which nothing was recorded says so.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from scripts.readme_tables import beyond_split

from warpcourse import lab05_work_per_thread as lab05
from warpcourse.lab12_split_channels.tiles import LAYERS
from warpcourse.lab13_vgg16 import lab as lab13
from warpschool.course import Course
from warpschool.nn import Convolution
from warpschool.nn.winograd import matrices, tiles
from warpschool.recorded import beside_best, results

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "reference" / "seeds.md"
NOT_MEASURED = "not measured"
HALF_TFLOPS = 760
"""what cuBLAS reaches with halves at 4096 on an H200"""
_INTRODUCTION = """\
<!-- Written by `scripts/seeds_page.py`. Do not edit. -->

# What five documents measured, and what we did

This course grew out of five documents. What they measured stands here beside what our kernels take today, table by
table; the chip is named with each, for theirs are years older than ours. A time of ours is a median with the L2 cache
flushed before each sample, unless a line says something else. Where we measured nothing, the cell says so.

"""

# ---------------------------------------------------------------- theirs

ECE408: Sequence[tuple[str, str, float | str, float | str, str, str]] = (
    ("1", "a block of 32 x 32 threads for each image and filter", 2800, 17_200, "plain, blocks of 32 x 32", ""),
    ("2", "as many threads as results", 2000, 5400, "01_direct", ""),
    ("-", "filters in constant memory alone", "none", "none", "02_direct_constant", ""),
    ("3", "image in shared, filters of layer 1 in constant memory", 450, 1700, "03_direct_shared", ""),
    ("4", "several images in a block", 150, 670, "04_direct_multi_image", ""),
    ("7", "product, nothing stored; a thread for each result", 387.468, "none", "unrolled, one thread a result", ""),
    ("5, 7", "product, tiles of 32 x 32", 305.16, 260.2, "unrolled, tiles", ""),
    ("5, 7", "and filters in constant memory", 51.9436, "none", "unrolled, tiles, constant filters", ""),
    ("6, 7", "and the layout that pooling wants", 34.8897, 188.2, "unrolled, tiles, constant filters, layout",
     "unrolled, tiles, layout"),
    ("-", "im2col stored", "none", "none", "05_im2col", ""),
    ("2.2.6", "im2col stored, then a tiled product (cuBLAS there, which failed)", "none", "none", "06_im2col_gemm", ""),
    ("-", "implicit GEMM", "none", "none", "07_implicit_gemm", ""),
    ("-", "tiled product on transposed images", "none", "none", "08_layout", ""),
    ("2.4", "frequencies (failed there)", "none", "none", "10_fft", ""),
)  # fmt: skip
"""table, what, ms of layers 1 and 2, our row for layer 1, and for layer 2 where it is another"""
ECE408_LAYERS: Sequence[tuple[str, str, str, float, float, str]] = (
    ("9", "ReLU", "1", 3013.68, 12.4404, "01_relu"), ("9", "ReLU", "2", 665.508, 2.47833, "01_relu"),
    ("11", "pooling, a thread for each window", "1", 10_690.9, 182, "a thread for each window, channels last"),
    ("11", "pooling, a thread for each window", "2", 2501.65, 27.6193, "a thread for each window, channels last"),
    ("11", "pooling, other layout", "1", 10_690.9, 14.5701, "02_average_pool"),
    ("11", "pooling, other layout", "2", 2501.65, 10.0552, "02_average_pool"),
    ("12", "argmax", "", 3.15529, 0.326171, "08_argmax"),
)  # fmt: skip
"""table, what, layer, ms serial and on their GPU, our row"""
SERIAL = {"01_relu": "relu", "02_average_pool": "average_pool", "08_argmax": "argmax",
          "a thread for each window, channels last": "average_pool"}  # fmt: skip
CONFIGURATIONS: Mapping[str, Sequence[int]] = {
    "A": (1, 3, 5, 6, 8, 9, 11, 12), "B": (1, 2, 3, 4, 5, 6, 8, 9, 11, 12), "C": (1, 2, 3, 4, 5, 6, 8, 9, 11, 12),
    "D": tuple(range(1, 14)), "E": (*range(1, 14), 7, 10, 13),
}
"""VGG's configurations, each convolution of 3 x 3 by the layer of D that has its shape"""


# ---------------------------------------------------------------- ours


def record(pattern: str) -> dict[str, Any] | None:
    """The result of a pattern, of an H200 where there are several."""
    found = results(pattern, course=Course(ROOT))
    return min(found, key=lambda one: "H200" not in one["device"], default=None)


def table(head: Sequence[str], rows: Iterable[Sequence[str]], *, words: int = 1) -> str:
    """A Markdown table; all columns but the first `words` are numbers."""
    lines = [list(head), ["---"] * words + ["---:"] * (len(head) - words), *map(list, rows)]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines) + "\n"


def number(value: float | str | None, form: str = ".3g") -> str:
    if value is None:
        return NOT_MEASURED
    if isinstance(value, str):
        return value
    return f"{value:,.0f}" if value >= 1000 else f"{value:{form}}"


def ratio(ours: float | None, theirs: float | str | None) -> str:
    """How many times as fast ours is."""
    return f"{theirs / ours:,.0f}" if ours and isinstance(theirs, int | float) else ""


def ladder() -> str:
    """ECE 408, tables 1 to 8 and 13."""
    found = record("digits_ladder_*.json")
    times = {(row["layer"], row["way"]): row["time_ms"] for row in found["rows"]} if found else {}
    rows = []
    for where, what, one, two, way, other in ECE408:
        ours = times.get(("1", way)), times.get(("2", other or way))
        cells = [number(one), number(ours[0]), ratio(ours[0], one), number(two), number(ours[1]), ratio(ours[1], two)]
        rows.append([where, what, f"`{way}`" if way[:2].isdigit() else way, *cells])
    chip = found["device"] if found else "nothing recorded"
    head = ["table", "what", "ours", "layer 1, ms", "ours, ms", "times as fast", "layer 2, ms", "ours, ms",
            "times as fast"]  # fmt: skip
    return (
        "### The convolutions of a digits' network: tables 1 to 8\n\n10,000 images; layer 1 has 32 filters of 5 x 5 on "
        "28 x 28, layer 2 has 64 on 32 channels of 12 x 12. The report does not name its GPU; ours is an "
        f"{chip}. Rows without digits in front are our writing of the report's own kernels "
        "(`benchmarks/kernels/`), the others steps of lab 08. Its constant filters do not fit for layer 2.\n\n"
        + table(head, rows, words=3)
    )


def other_layers() -> str:
    """ECE 408, tables 9, 11, 12 and 13."""
    found = record("digits_ladder_*.json")
    times = {(row["layer"], row["way"]): row["time_ms"] for row in found["rows"]} if found else {}
    serial = found and found["serial"]
    rows = []
    for where, what, layer, slow, fast, way in ECE408_LAYERS:
        key = f"{SERIAL[way]} {layer}".strip()
        host = serial["times_ms"][key] * found["batch"] / serial["batch"] if found and serial else None
        ours = times.get((layer, way))
        rows.append([where, what, layer, number(slow), number(host), number(fast), number(ours), ratio(ours, fast)])
    text = "### Its other layers: tables 9, 11 to 13\n\n"
    if found and serial:
        text += (
            f"Serial: one thread of an {serial['cpu']}, plain loops, {serial['batch']:,} images timed and taken for "
            f"{found['batch']:,}; its convolutions take "
            f"{serial['times_ms']['convolution 1'] * found['batch'] / serial['batch'] * 1e-3:.1f} s and "
            f"{serial['times_ms']['convolution 2'] * found['batch'] / serial['batch'] * 1e-3:.0f} s (the report: more "
            "than 10 s each).\n\n"
        )
    head = ["table", "layer", "number", "serial, ms", "ours serial, ms", "GPU, ms", "ours, ms", "times as fast"]
    return text + table(head, rows, words=3)


def thesis_six() -> str:
    """The VGG thesis, tables 1 to 6."""
    found, columns = lab05.nsight(course=Course(ROOT)), lab05.our_columns(course=Course(ROOT))
    ours = [column for column in columns if column.title.endswith(lab05.NOTES[1])]
    head = ["", *(f"{name}, GTX 1080" for name in lab05.COLUMNS), *(f"{c.title.split(',')[0]}, ours" for c in ours)]
    rows = [
        [metric, *(lab05.text_of(metric, value) for value in values),
         *(lab05.text_of(metric, column.values[metric]) for column in ours)]
        for metric, values in lab05.GTX1080.items()
    ]  # fmt: skip
    chip = f"Ours: {found['device']}, every figure by Nsight Compute. " if found else ""
    return (
        "### Batched products of 256 x 256: tables 1 to 6\n\n36 x 32 products that share nothing. "
        f"{chip}Stages 1 to 3 are the course's steps `01_naive`, `01_tiled` and `04_register_blocked`, made batched; "
        "stage 4 is `08_batched`. A load efficiency of 0 loads is not there: `cp.async` is none to that counter.\n\n"
        + table(head, rows)
    )


def winograd_forms() -> str:
    """Forms of Winograd's method against F(4x4,3x3)."""
    found = beside_best("winograd", course=Course(ROOT))
    measured = (found or {}).get("forms", [])
    text = "### Other tiles and points against F(4x4,3x3): section 2.1.1.2\n\n"
    if not measured:
        return text + f"Its thesis: four times fewer products, and larger errors. Ours: {NOT_MEASURED}.\n"
    cells = {(row["layer"], row["form"]): f"{row['ratio']:.2f}, {row['max_error'] / row['f4_error']:.2g}"
             for row in measured}  # fmt: skip
    layers, forms = (list(dict.fromkeys(row[key] for row in measured)) for key in ("layer", "form"))
    head = ["layer", *(_points_in_words(form) for form in forms)]
    rows = [[layer, *(cells.get((layer, form), "") for form in forms)] for layer in layers]
    assert found is not None
    return (
        text + "The thesis chooses F(4x4,3x3) by counting. Here other forms are timed in turns with it on an "
        f"{found['device']}: a form's time and its largest error, both as multiples of those of F(4x4,3x3), whose "
        f"errors are {_span([row['f4_error'] for row in measured])} of the largest result.\n\n" + table(head, rows)
        + "\n" + _float_limit(found) + _half_limit()
    )  # fmt: skip


def _points_in_words(form: str) -> str:
    """A point and its negative once: "points 0 1/2 -1/2" become "points 0, ±1/2"."""
    name, points, listed = form.partition(", points ")
    seen = listed.split()
    return name + points + ", ".join(f"±{p}" if f"-{p}" in seen else p for p in seen if not p.startswith("-"))


def _span(values: Sequence[float]) -> str:
    return f"{min(values):.0e} to {max(values):.0e}"


def _float_limit(found: dict[str, Any]) -> str:
    """What the stages of single precision take, and could take."""
    vgg = [row for row in found["rows"] if row["layer"].startswith("vgg")]
    (five,) = (row for row in found["rows"] if row["layer"] == "lenet2")
    ours, best, floor = (sum(values) for values in zip(
        *((row["time_ms"], row["best"]["time_ms"], row["floor_ms"]) for row in vgg), strict=True))  # fmt: skip
    products = sum(row["stages_ms"].get("batched_gemm", 0.0) for row in vgg)
    errors, theirs = _span([row["max_error"] for row in vgg]), _span([row["best"]["error"] for row in vgg])
    return (
        f"The forms chosen take {ours:.2f} ms for all 13 layers, {ours / best:.2f} of cuDNN's fastest algorithms; "
        f"{products:.2f} ms of them are products. Stage by stage, products at 50 TFLOP/s and arrays at 4.3 TB/s, they "
        f"cannot take less than {floor:.2f} ms, {floor / best:.2f}. Their errors are {errors}, "
        f"those of cuDNN's fastest {theirs}. "
        f"{_as_exact(vgg, found['forms'])} {_five_by_five(five)}\n\n"
    )


def _as_exact(vgg: Sequence[dict[str, Any]], forms: Sequence[dict[str, Any]]) -> str:
    """What the fastest forms take that err no more than cuDNN's fastest algorithm, whichever that is."""
    ours = best = 0.0
    for row in vgg:
        times = [row["time_ms"]] if row["max_error"] <= row["best"]["error"] else []
        times += [form["time_ms"] for form in forms
                  if form["layer"] == row["layer"] and form["max_error"] <= row["best"]["error"]]  # fmt: skip
        if times:  # else nothing of ours errs so little: the first layer beside a direct algorithm
            ours, best = ours + min(times), best + row["best"]["time_ms"]
    return f"Forms that err no more than cuDNN's fastest take {ours / best:.2f} of its time (without the first layer)."


def _five_by_five(row: dict[str, Any]) -> str:
    """The layer that one kernel can do."""
    text = f"Filters of 5 x 5 (10,000 images, F(4x4,5x5)): {row['best']['ratio']:.2f} of cuDNN's fastest"
    if not row.get("one_kernel_ms"):
        least = row["floor_ms"] / row["best"]["time_ms"]
        return f"{text}, and not less than {least:.2f} while stages are kernels apart."
    four, one = row["four_kernels_ms"], row["one_kernel_ms"]
    return (
        f"{text}; the stages as four kernels take {four:.2f} ms, and one kernel that keeps tiles on the chip "
        f"(`benchmarks/kernels/fused_winograd.cu`) {one:.2f} ms. It holds up to 32 channels: VGG's layers have more."
    )


def _half_limit() -> str:
    """What Winograd's method could save in half precision, where each stage is a kernel: bytes, and products."""
    found = record("convolution_h*.json")
    rows = [row for row in (found or {}).get("rows", ()) if row["section"] == "vgg16_fp16"]
    if found is None or not rows:
        return ""
    ours = theirs = least = 0.0
    chosen = []
    for layer in dict.fromkeys(row["layer"] for row in rows):
        best = min((row for row in rows if row["layer"] == layer), key=lambda row: row["time_ms"] / row["reference_ms"])
        floor = _half_floor_ms(best["sizes"])
        ours, theirs = ours + best["time_ms"], theirs + best["reference_ms"]
        least += min(best["time_ms"], floor)
        chosen += [layer] if floor < best["time_ms"] else []
    return (
        f"In half precision the direct form takes {ours:.2f} ms on an {found['device']}, {ours / theirs:.2f} of "
        f"cuDNN's. F(4x4,3x3) with arrays of halves, 4.3 TB/s and products at {HALF_TFLOPS} TFLOP/s, each stage a "
        f"kernel, would be faster at {', '.join(chosen)} and bring all to {least / theirs:.2f} at best: the rest are "
        "the transforms' bytes, of which tensor cores save none.\n"
    )


def _half_floor_ms(sizes: Mapping[str, int]) -> float:
    """F(4x4,3x3) of arrays of halves: all are written and read once."""
    problem = Convolution(
        batch=sizes["BATCH"], channels=sizes["C"], height=sizes["H"], width=sizes["W"], filters=sizes["F"],
        rows=sizes["R"], cols=sizes["S"], pad=sizes["PAD"], stride=sizes["STRIDE"],
    )  # fmt: skip
    exact = matrices(4, 3)
    down, across = tiles(problem, exact)
    count = problem.batch * down * across
    transformed = exact.positions * (count * (problem.channels + problem.filters) + problem.channels * problem.filters)
    given = math.prod(problem.image_shape) + math.prod(problem.output_shape)
    products = 2 * exact.positions * problem.channels * problem.filters * count
    return 2e3 * (given + 2 * transformed) / 4.3e12 + products / (HALF_TFLOPS * 1e9)


def vgg_layers() -> str:
    """The VGG thesis, tables 7, 8 and 10."""
    found = record("networks_vgg_h*.json")
    fast = beside_best("winograd", course=Course(ROOT))
    best = {row["layer"]: row["best"] for row in fast["rows"]} if fast else {}
    parts = []
    forward, backward = ("forward: tables 7 and 8", "forward", (7, 8)), ("backward: table 10", "backward", (10,))
    for title, part, numbers in (forward, backward):
        theirs = {name: pair for n in numbers for name, pair in lab13.TIMES_MS[n].items() if name != "total"}
        ours = {row["layer"]: row for row in (found["rows"] if found else ()) if row["part"] == part}
        rows = []
        for name, (rival, own) in theirs.items():
            row = ours.get(name)
            fastest = best.get(f"vgg{int(name[4:]):02d}") if name.startswith("conv") and part == "forward" else None
            rows.append([
                name, number(rival), number(own), number(row and row["pytorch_ms"]),
                f"{number(fastest['time_ms'])} ({fastest['name']})" if fastest else "", number(row and row["time_ms"]),
            ])  # fmt: skip
        chip = found["device"] if found else "nothing recorded"
        head = ["layer", "cuDNN, GTX 1080", "thesis, GTX 1080", "PyTorch eager", "cuDNN's fastest", "ours"]
        text = (
            f"### VGG16's layers {title}\n\n32 images, milliseconds. Ours and PyTorch's on an {chip}; ours add bias, "
            "ReLU and pooling in the same kernels, the others do not."
        )
        if part == "forward" and fast:
            text += f" cuDNN's fastest algorithm was timed for the convolution alone, on an {fast['device']}."
        else:
            rows, head = [[*row[:4], row[5]] for row in rows], [*head[:4], head[5]]
        parts.append(text + "\n\n" + table(head, rows))
    return "\n".join(parts)


def vgg_totals() -> str:
    """The VGG thesis, tables 9 and 11, Adam, and the configurations of figure 2."""
    found, totals = record("networks_vgg_h*.json"), record("vgg_totals_*.json")
    ours = {row["part"]: row for row in (found["rows"] if found else ()) if row["layer"] == "all"}
    adam = "training step, Adam"
    where = ""
    if totals and adam not in ours:
        ours[adam] = next(row for row in totals["rows"] if row["part"] == adam)
        where = f" on an {totals['device']}"
    rows = []
    for name, theirs, part in (
        ("inference: cuDNN by hand, and the thesis's own (table 9)", (91.5, 84), "inference"),
        ("inference from TensorFlow 2.2, and the thesis's own called from it (table 9)", (116, 86),
         "inference from PyTorch"),
        ("training step in TensorFlow 2.2, and the thesis's own (table 11)", (355, 243), "training step"),
        ("the same, called from TensorFlow (table 11)", (355, 252), "training step from PyTorch"),
        (f"training step with Adam{where} (the thesis guesses 10 ms more than with momentum)", ("none", "none"), adam),
        ("training step with kernels side by side where they need nothing of each other", ("none", "none"),
         "training step, side by side"),
    ):  # fmt: skip
        row = ours.get(part)
        measured = [number(row and row[key]) for key in ("pytorch_ms", "time_ms")]
        rows.append([name, number(theirs[0]), number(theirs[1]), *measured])
    chip = found["device"] if found else "nothing recorded"
    head = ["32 images", "rival, GTX 1080", "thesis, GTX 1080", "PyTorch eager", "ours"]
    text = f"### VGG16 whole: tables 9 and 11\n\nMilliseconds; ours and PyTorch's on an {chip}.\n\n{table(head, rows)}"
    return text + "\n" + configurations()


def configurations() -> str:
    """Figure 2: VGG's configurations by their convolutions."""
    found = beside_best("winograd", course=Course(ROOT))
    found_rows = found["rows"] if found else ()
    times = {int(row["layer"][3:]): row for row in found_rows if row["layer"].startswith("vgg")}
    singles = found.get("singles", []) if found else []
    rows = []
    for name, numbers in CONFIGURATIONS.items():
        layers = [times[k] for k in numbers if k in times] + (singles if name == "C" else [])
        count = f"{len(numbers)} + {len(singles) or 3} of 1 x 1" if name == "C" else str(len(numbers))
        if not layers or (name == "C" and not singles):
            rows.append([name, count, NOT_MEASURED, NOT_MEASURED, NOT_MEASURED])
            continue
        sums = [sum(row[key] for row in layers) for key in ("time_ms", "cudnn_ms")]
        best = sum(row["best"]["time_ms"] for row in layers)
        rows.append([name, count, *(number(value) for value in (sums[0], sums[1], best))])
    chip = found["device"] if found else "nothing recorded"
    head = ["configuration", "convolutions", "ours, ms", "PyTorch's choice, ms", "cuDNN's fastest, ms"]
    return (
        "### VGG's configurations A to E: figure 2\n\nThe sums of the convolutions' times, 32 images, on an "
        f"{chip}: every convolution of 3 x 3 has the shape of one of D's. The thesis times D alone. C's three layers "
        "of 1 x 1 are products for each image by lab 09's `03_batched_gemm`, whose filters are turned before each "
        "time.\n\n" + table(head, rows)
    )


def split_layers() -> str:
    """Split channels: table 9.1 with the times that figures 9.1 to 9.4 draw."""
    rows = []
    found = beside_best("split_channels", course=Course(ROOT))
    times = {row["layer"]: row for row in found["rows"]} if found else {}
    for name, problem in LAYERS.items():
        row = times.get(name)
        shape = [str(n) for n in (problem.filters, problem.channels, problem.height, problem.rows)]
        if row is None:
            rows.append([name, *shape, *[NOT_MEASURED] * 7])
            continue
        gemm = min((1e3 * ms for way, ms in row["best"]["times_ms"].items() if "GEMM" in way), default=None)
        rows.append([
            name + "*" * (problem.stride == 2), *shape, number(row["time_us"]), number(row["cudnn_us"]), number(gemm),
            f"{number(1e3 * row['best']['time_ms'])} ({row['best']['name']})", f"{row['best']['ratio']:.2f}",
            *_beside_split(row),
        ])  # fmt: skip
    chip = found["device"] if found else "nothing recorded"
    head = ["layer", "K", "C", "H/W", "R/S", "ours, us", "PyTorch's choice", "cuDNN's best GEMM", "cuDNN's fastest",
            "ours / it", "lab 09's Winograd", "one plain product"]  # fmt: skip
    text = (
        "### Yolo's and ResNet's layers: table 9.1, figures 9.1 to 9.6\n\nOne image, * stride 2, microseconds on an "
        f"{chip}. The thesis draws its times (RTX 2080 Ti, V100) without printing them; it compares with cuDNN's GEMM "
        "algorithms and with TVM, which we did not run.\n\n" + table(head, rows)
    )
    if found:
        means = found["summary"]
        text += (
            f"\nGeometric means of the ratios: {means['geometric_mean']:.2f} to PyTorch's choice, "
            f"{means['geometric_mean_to_best']:.2f} to cuDNN's fastest, {means['geometric_mean_to_gemm']:.2f} to its "
            f"best GEMM.{beyond_split(found)}\n"
        )
    for other in results("split_channels_*.json", course=Course(ROOT)):
        if other != found:
            mean = other["summary"]["geometric_mean"]
            text += f"\nOn an {other['device']}, in a run against PyTorch's choice alone: {mean:.2f} of its time.\n"
    return text


def _beside_split(row: dict[str, Any]) -> list[str]:
    """A layer by Winograd's method with its error, and as one product of as many multiply-adds."""
    way, product = row.get("winograd"), row.get("product")
    return [
        f"{number(way['time_us'])} ({way['method']}, {way['exact_error']:.0e})" if way else "",
        f"{number(product['time_us'])} ({product['by']})" if product else NOT_MEASURED,
    ]


def split_ways() -> str:
    """Split channels: section 6.3, and the layer of 28,269 filters."""
    found = record("channel_ways_*.json")
    text = "### Three ways to split channels: section 6.3\n\n"
    if not found:
        return text + f"The thesis found the split across the grid the fastest. Ours: {NOT_MEASURED}.\n"
    rows = []
    for layer in dict.fromkeys(row["layer"] for row in found["rows"]):
        cells = []
        for way in ("none", "warp", "block", "grid"):
            of_way = [row for row in found["rows"] if (row["layer"], row["way"]) == (layer, way)]
            best = min(of_way, key=lambda row: row["time_us"], default=None)
            parts = f" ({best['parts']} parts)" if best and way != "none" else ""
            cells.append(f"{number(best and best['time_us'])}{parts}")
        rows.append([layer, *cells])
    last = found["last_layer"]
    best = last["best"]
    return (
        text + "The thesis found the split across the grid the fastest, without printing times. Ours, one image, "
        f"microseconds on an {found['device']}, tiles as the search found them, the best number of parts of each way:"
        "\n\n"
        + table(["layer", "none", "lanes of a warp", "warps of a block", "across the grid"], rows)
        + f"\nYolo's last layer has 28,269 filters of 1 x 1, which no 32 divides: the thesis leaves it out. "
        f"`09_batched_ragged` takes {number(last['time_us'])} us, cuDNN's fastest ({best['name']}) "
        f"{number(1e3 * best['time_ms'])} us: {best['ratio']:.2f} times as long.\n"
    )


def im2col() -> str:
    """5LIL0: what im2col stores and takes, for windows of 1 to 11."""
    found = record("digits_ladder_*.json")
    serial = found["serial"]["times_ms"] if found and found["serial"] else {}
    rows = []
    for window in range(1, 12, 2):
        extra = 64 * (window**2 - 1) * 32 * 32 * 4 / 1000
        rows.append([f"{window} x {window}", f"{extra:,.0f}", number(serial.get(f"im2col {window}"))])
    cpu = f" (one thread of an {found['serial']['cpu']})" if serial and found else ""
    return (
        "### im2col: exercises of section 3\n\nThe assignment asks for two curves, of the extra memory and of the "
        f"time, for 64 channels of 32 x 32{cpu}:\n\n" + table(["window", "extra kB", "CPU, ms"], rows)
    )


def sweeps() -> str:
    """5LIL0: tiles and precisions at 4096, and tiles by a rule."""
    found = record("tiles_sweep_*.json")
    row = next((r for r in (found or {}).get("sweep", ()) if set(r["sizes"].values()) == {4096}), None)
    text = "### Tiles at 4096: section 4.2\n\nThe assignment asks for the best tile of a product."
    if row is None or found is None:
        return f"{text} Ours: {NOT_MEASURED}.\n"
    rows = [
        [tiles.replace(",", " "), number(ms), f"{row['cublas_ms'] / ms:.2f}"]
        for tiles, ms in sorted(row["times_ms"].items(), key=lambda item: item[1])
        if " / " not in tiles
    ]
    text += (
        f" Every tile set of `07_warp_tiled` on an {found['device']} (TSM TSN TSK WSM WSN WPTM WPTN; cuBLAS takes "
        f"{number(row['cublas_ms'])} ms):\n\n" + table(["tiles", "ms", "of cuBLAS's speed"], rows)
    )
    return text + "\n" + by_rule()


def by_rule() -> str:
    """The seeds' outlook: tiles without a search."""
    found = record("tiles_unseen_*.json")
    text = "### Tiles without a search: the outlooks of all five\n\n"
    if not found:
        return text + f"A rule chooses tiles (`benchmarks/tile_rule.py`). On shapes it has not seen: {NOT_MEASURED}.\n"
    rows = [
        [" x ".join(str(row["sizes"][name]) for name in "MNK"),
         " ".join(str(n) for name, n in row["constants"].items() if name != "RAGGED"),
         str(row["sizes"].get("splits", 1)), number(row["time_ms"]), number(row["reference_ms"]), f"{row['ratio']:.2f}"]
        for row in found["rows"] if row["part"] == "unseen"
    ]  # fmt: skip
    mean = found["summary"]["geometric_mean_unseen"]
    return (
        text + "`benchmarks/tile_rule.py` takes tiles, and over how many blocks K is divided, by what it expects them "
        "to need: three constants for each set, three more for ragged rows, two for adding the parts, fitted to "
        f"{len((record('tiles_sweep_*.json') or {}).get('sweep', ()))} shapes. On {len(rows)} others, drawn after the "
        f"rule was made, no tuning run, on an {found['device']}: {mean:.2f} of cuBLAS's speed in the geometric mean. "
        "`kernels/split_k.cu` is `07_warp_tiled` with a divided K, for rows of any length.\n\n"
        + table(["M x N x K", "tiles", "parts of K", "ms", "cuBLAS, ms", "of its speed"], rows, words=2)
    )


def sparse() -> str:
    """The lecture: pruning, and sparse products."""
    found, crossing = record("pruning_*.json"), record("gemm_h*.json")
    text = "### Pruned weights and sparse products\n\nThe lecture names pruning and measures nothing.\n\n"
    if crossing:
        rows = [
            [row["note"].removeprefix("density "), number(row["time_ms"]), number(row["reference_ms"]),
             f"{row['ratio']:.2f}"]
            for row in crossing["rows"] if row["part"] == "sparse"
        ]  # fmt: skip
        head = ["density", "sparse, ms", "cuBLAS on all, ms", "times as fast"]
        text += f"Products of 4096 by `10_sparse` on an {crossing['device']}:\n\n{table(head, rows)}\n"
    if not found:
        return text + f"The trained digits' network, pruned: {NOT_MEASURED}.\n"
    times = {(row["part"], row["note"]): row for row in found["rows"]}
    rows = []
    for one in found["accuracy"]:
        cells = []
        for part in ("conv2", "fc1"):
            row = times.get((part, f"density {one['density']}"))
            cells.append(f"{number(row['time_ms'])}, {row['ratio']:.2f}" if row else "")
        rows.append([f"{one['density']:g}", f"{one['accuracy']:.1%}", *cells])
    head = ["density of conv2 and fc1", "right of 1,000", "conv2's product: ms, times as fast as dense",
            "fc1's product: ms, times as fast as dense"]  # fmt: skip
    return (
        text + "The trained digits' network, its smallest weights made zero and not trained again, on an "
        f"{found['device']}; the dense product is cuBLAS's:\n\n" + table(head, rows)
    )


SECTIONS = (
    ("## VGG16 by Winograd's method", "A thesis on neural network acceleration on a GPU (GTX 1080) and an FPGA, about "
     "2020: batched products, Winograd's convolution, VGG16 in inference and training. Labs 05, 09 and 13 follow it.",
     (thesis_six, winograd_forms, vgg_layers, vgg_totals)),
    ("## GPU Architectures and Programming, lecture 62", "S. Dey, \"Efficient Neural Network Training/Inferencing\", "
     "Kharagpur: products with more work for each thread, pruning. Labs 01 to 05 follow it.", (sparse,)),
    ("## ECE 408, final report", "X. Chen, X. Zhao, T. Shan, \"Final Project Report\", ECE 408: a digits' network. "
     "Labs 08 and 10 follow it.", (ladder, other_layers)),
    ("## Intelligent Architectures 5LIL0, lab 2", "\"Mapping and Accelerating a Convolutional Neural Network on a "
     "GPU\": an assignment for an RTX 2080 Ti, which asks for measurements and prints none. Labs 01 to 08 follow it.",
     (im2col, sweeps)),
    ("## C Split Globally", "E. Barton, \"C Split Globally: High Performance Convolution Kernels for CNNs\", "
     "UUCS-22-001, University of Utah, 2022. Lab 12 follows it.", (split_layers, split_ways)),
)  # fmt: skip


def page() -> str:
    """The page's text."""
    parts = [_INTRODUCTION]
    for title, about, builders in SECTIONS:
        parts.append(f"{title}\n\n{about}\n")
        parts += [build() for build in builders]
    return "\n".join(part.rstrip("\n") + "\n" for part in parts)


def files() -> dict[Path, str]:
    """The page."""
    return {PAGE: page()}
