"""What the split channels' notebook measures: loads against the thesis's formulas, the model, and what was recorded."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from warpschool.contract import Contract
from warpschool.course import Course
from warpschool.errors import WarpschoolError
from warpschool.harness.launcher import Program, random_inputs
from warpschool.nn import Convolution
from warpschool.nn.networks import RESNET, YOLO
from warpschool.nn.split_channels import Tiles, block_intensity, estimate, ranked, thread_intensity, why_not
from warpschool.notebook.runs import own_contract
from warpschool.show.table import Table, small_table

LAB = "lab12_split_channels/"
LAYERS: Mapping[str, Convolution] = {**YOLO, **RESNET}
_STEPS = (
    "01_register_tile", "02_block_tile", "03_staged_store", "04_split_c_warp", "05_split_c_block", "06_split_c_grid",
)  # fmt: skip


def loads(problem: Convolution, steps: Sequence[str] = _STEPS, *, device: str = "sim") -> Table:
    """What the student's own steps load for each multiply-add, and the thesis's figures 4.6 and 5.2 at their tiles."""
    rows = []
    for step in steps:
        contract = own_contract(LAB + step)
        tiles = tiles_in(contract)
        lanes = contract.declarations.constexpr_values({}).get("WC", 1)
        try:
            run = Program(contract, device=device).run(problem.sizes, random_inputs(contract.bind(problem.sizes)))
        except WarpschoolError as error:
            rows.append((step, str(error).splitlines()[0], "", "", "", ""))
            continue
        first = run.launches[0]
        counters = first.counters
        by_thread = counters.shared_load_bytes or counters.global_load_bytes
        rows.append((
            step, f"{first.blocks:,}", _per_load(counters.fma_instructions, by_thread, digits=2),
            f"{thread_intensity(tiles, problem):.2f}",
            _per_load(counters.fma_instructions, counters.global_load_bytes, digits=1),
            _block_text(tiles, problem, lanes, step),
        ))  # fmt: skip
    header = ("step", "blocks", "products / load", "figure 4.6", "products / global load", "figure 5.2")
    return small_table(header, tuple(rows), "Loads in floats; the pixels outside the image cost none.")


def _per_load(products: int, load_bytes: int, *, digits: int) -> str:
    """Multiply-adds for each float loaded; a starter that multiplies nothing, or loads nothing, has no such figure."""
    return f"{4 * products / load_bytes:.{digits}f}" if products and load_bytes else "-"


def _block_text(tiles: Tiles, problem: Convolution, lanes: int, step: str) -> str:
    """Figure 5.2 for a block; the first step shares nothing, and lanes that split channels share a block's filters."""
    if step.startswith("01"):
        return f"{thread_intensity(tiles, problem):.1f}"
    return f"{block_intensity(tiles, problem):.1f}" if lanes == 1 else f"less: a warp has {32 // lanes} filters a time"


def tiles_in(contract: Contract) -> Tiles:
    """The tiles that a kernel file's constants describe."""
    values = contract.declarations.constexpr_values({})
    names = {
        "filters": "TK", "rows": "TH", "cols": "TW", "warp_rows": "BH", "warp_cols": "BW", "groups": "BC",
        "splits": "SPLITS", "step": "STEP",
    }  # fmt: skip
    return Tiles(**{field: values.get(constant, 1) for field, constant in names.items()})


def times_by_split(layer: str, splits: Sequence[int], *, gpu: str = "h200") -> list[float | None]:
    """The model's microseconds for each number of parts of the channels, other tiles as the best have them."""
    problem = LAYERS[layer]
    best = ranked(problem, gpu)[0].tiles
    cut = [Tiles(**(vars(best) | {"splits": parts})) for parts in splits]
    return [None if why_not(tiles, problem, gpu) else estimate(tiles, problem, gpu).time_us for tiles in cut]


def model_says(layer: str, count: int = 6, *, gpu: str = "h200") -> Table:
    """The tiles that the model ranks first, and the last one, for a layer of table 9.1."""
    found = ranked(LAYERS[layer], gpu)
    chosen = [*enumerate(found[:count], start=1), (len(found), found[-1])]
    rows = tuple(
        (
            number, f"{e.time_us:.1f}", e.tiles.filters, f"{e.tiles.rows} x {e.tiles.cols}",
            f"{e.tiles.warp_rows} x {e.tiles.warp_cols} x {e.tiles.groups}", e.tiles.splits, e.blocks,
            f"{e.thread_intensity:.1f}", f"{e.block_intensity:.0f}",
        )
        for number, e in chosen
    )  # fmt: skip
    header = ("rank", "model us", "TK", "TH x TW", "BH x BW x BC", "SPLITS", "blocks", "fig. 4.6", "fig. 5.2")
    return small_table(header, rows, f"{len(found):,} legal sets of tiles for layer {layer}.")


Search = Callable[[Sequence[str], Callable[[str], float], dict[str, float]], Any]
_TIMES = {"a": 9.0, "b": 4.0, "c": 7.0, "d": 3.0, "e": 8.0, "f": 5.0, "g": 2.5, "h": 6.0}


def resumed(search: Search) -> tuple[Any, int, int] | None:
    """Run a search, interrupt its fifth measurement, run it again: (best, measurements, times kept); None for None.

    Right is ("g", 8, 8): the best of all, and nothing measured twice.
    """
    known: dict[str, float] = {}
    ended: list[str] = []
    interrupted = False

    def measure(tiles: str) -> float:
        nonlocal interrupted
        if len(ended) == 4 and not interrupted:
            interrupted = True
            raise KeyboardInterrupt
        ended.append(tiles)
        return _TIMES[tiles]

    try:
        if search(list(_TIMES), measure, known) is None:
            return None
    except KeyboardInterrupt:
        pass
    best = search(list(_TIMES), measure, known)
    return best, len(ended), len(known)


def recorded(*, course: Course | None = None) -> Table:
    """Table 9.1 with the times in benchmarks/results/split_channels_*.json; without times where nothing is recorded."""
    root = (course or Course.find()).root
    times: dict[str, Mapping[str, Any]] = {}
    notes = []
    for path in sorted((root / "benchmarks" / "results").glob("split_channels_*.json")):
        result = json.loads(path.read_text("utf-8"))
        times |= {row["layer"]: row for row in result["rows"]}
        mean, worst = result["summary"]["geometric_mean"], result["summary"]["worst"]
        notes.append(f"{result['device']}: geometric mean {mean:.2f} of cuDNN's best, worst {worst:.2f}")
    rows = tuple(_recorded_row(name, problem, times.get(name)) for name, problem in LAYERS.items())
    header = ("layer", "K", "C", "H/W", "R/S", "us", "cuDNN us", "ours / cuDNN", "its best GEMM us", "tiles")
    return small_table(header, rows, f"* stride 2. {'; '.join(notes)}." if notes else "Nothing recorded.")


def ratios(*, course: Course | None = None) -> dict[str, float]:
    """Layer -> our time as a part of cuDNN's, as recorded; empty where nothing is."""
    root = (course or Course.find()).root
    found: dict[str, float] = {}
    for path in sorted((root / "benchmarks" / "results").glob("split_channels_*.json")):
        found |= {row["layer"]: row["ratio"] for row in json.loads(path.read_text("utf-8"))["rows"]}
    return found


def _recorded_row(name: str, problem: Convolution, row: Mapping[str, Any] | None) -> tuple[Any, ...]:
    what = (
        name + "*" * (problem.stride == 2), problem.filters, problem.channels, problem.height, problem.rows,
    )  # fmt: skip
    if row is None:
        return (*what, "", "", "", "", "")
    t = row["tiles"]
    gemm = min(row["gemm_us"].values(), default=None)
    tiles = f"{t['filters']} x {t['rows']} x {t['cols']}, {row['blocks']} blocks, {t['splits']} parts"
    shown = (f"{row['time_us']:.1f}", f"{row['cudnn_us']:.1f}", f"{row['ratio']:.2f}", f"{gemm:.1f}" if gemm else "")
    return (*what, *shown, tiles)
