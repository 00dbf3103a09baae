"""What the split channels' notebook measures: loads against the thesis's formulas, the model, and what was recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from warpcourse.lab12_split_channels.tiles import (
    LAYERS,
    Tiles,
    block_intensity,
    estimate,
    ranked,
    thread_intensity,
    tiles_of,
    why_not,
)
from warpschool.course import Course
from warpschool.errors import WarpschoolError
from warpschool.harness.launcher import Program, random_inputs
from warpschool.nn import Convolution
from warpschool.notebook.runs import own_contract
from warpschool.recorded import beside_best
from warpschool.show.table import Table, small_table

LAB = "lab12_split_channels/"
RECORDED = "split_channels_*.json"
STEPS = (
    "01_register_tile", "02_block_tile", "03_staged_store", "04_split_c_warp", "05_split_c_block", "06_split_c_grid",
)  # fmt: skip


def loads(problem: Convolution, steps: Sequence[str] = STEPS, *, device: str = "sim") -> Table:
    """What the student's own steps load for each multiply-add, and the thesis's figures 4.6 and 5.2 at their tiles."""
    rows = []
    for step in steps:
        contract = own_contract(LAB + step)
        tiles = tiles_of(contract)
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
    return small_table(header, rows, "Loads in floats; the pixels outside the image cost none.")


def _per_load(products: int, load_bytes: int, *, digits: int) -> str:
    """Multiply-adds for each float loaded; a starter that multiplies nothing, or loads nothing, has no such figure."""
    return f"{4 * products / load_bytes:.{digits}f}" if products and load_bytes else "-"


def _block_text(tiles: Tiles, problem: Convolution, lanes: int, step: str) -> str:
    """Figure 5.2 for a block; the first step shares nothing, and lanes that split channels share a block's filters."""
    if step.startswith("01"):
        return f"{thread_intensity(tiles, problem):.1f}"
    return f"{block_intensity(tiles, problem):.1f}" if lanes == 1 else f"less: a warp has {32 // lanes} filters a time"


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
    rows = [
        (
            number, f"{e.time_us:.1f}", e.tiles.filters, f"{e.tiles.rows} x {e.tiles.cols}",
            f"{e.tiles.warp_rows} x {e.tiles.warp_cols} x {e.tiles.groups}", e.tiles.splits, e.blocks,
            f"{e.thread_intensity:.1f}", f"{e.block_intensity:.0f}",
        )
        for number, e in chosen
    ]  # fmt: skip
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
    found = beside_best("split_channels", course=course)
    times = {row["layer"]: row for row in found["rows"]} if found else {}
    rows = [_recorded_row(name, problem, times.get(name)) for name, problem in LAYERS.items()]
    header = ("layer", "K", "C", "H/W", "R/S", "us", "PyTorch's choice", "ours / it", "cuDNN's fastest", "ours / it",
              "its best GEMM", "tiles")  # fmt: skip
    if not found:
        return small_table(header, rows, "Nothing recorded.")
    means = found["summary"]
    note = (
        f"* stride 2. {found['device']}, cuDNN {found['cudnn']}: geometric means {means['geometric_mean']:.2f} of the "
        f"time that PyTorch's choice takes, {means['geometric_mean_to_best']:.2f} of cuDNN's fastest algorithm's, "
        f"{means['geometric_mean_to_gemm']:.2f} of its fastest GEMM's, which the thesis compares with."
    )
    return small_table(header, rows, note)


def ratios(*, course: Course | None = None) -> dict[str, float]:
    """Layer -> our time as a part of that of cuDNN's fastest algorithm, as recorded; empty where nothing is."""
    found = beside_best("split_channels", course=course)
    return {row["layer"]: row["best"]["ratio"] for row in found["rows"]} if found else {}


def _recorded_row(name: str, problem: Convolution, row: Mapping[str, Any] | None) -> tuple[Any, ...]:
    what = (
        name + "*" * (problem.stride == 2), problem.filters, problem.channels, problem.height, problem.rows,
    )  # fmt: skip
    if row is None:
        return (*what, "", "", "", "", "", "", "")
    t = row["tiles"]
    best = row["best"]
    gemm = min((1e3 * ms for way, ms in best["times_ms"].items() if "GEMM" in way), default=None)
    tiles = f"{t['filters']} x {t['rows']} x {t['cols']}, {row['blocks']} blocks, {t['splits']} parts"
    shown = (f"{row['time_us']:.1f}", f"{row['cudnn_us']:.1f}", f"{row['ratio']:.2f}", f"{1e3 * best['time_ms']:.1f}",
             f"{best['ratio']:.2f}", f"{gemm:.1f}" if gemm else "")  # fmt: skip
    return (*what, *shown, tiles)
