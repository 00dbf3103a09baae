"""The figures of docs/learn/lab03.md: what a warp touches in which direction, and what that costs."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from scripts import book_runs as runs
from scripts.book_pictures import BLUE, GREY, ORANGE, PAPER, svg

from warpcourse.ladder import measured
from warpschool.inspect.accesses import WarpRequest

LAB = "lab03_coalescing"
MISTAKES = tuple(
    f"{LAB}/{name}"
    for name in (
        "01_row_per_thread/x_along_rows",
        "01_row_per_thread/one_axis_changed",
        "01_row_per_thread/narrow_block",
        "02_transpose_naive/wrong_pitch",
        "03_transpose_tiled/blocks_not_exchanged",
        "03_transpose_tiled/no_barrier",
        "03_transpose_tiled/guard_not_exchanged",
        "03_transpose_tiled/stores_down_columns",
        "04_gemm_bt/lanes_along_columns",
    )
)
GIVEN = f"{LAB}/01_row_per_thread/x_along_rows"
FIXED = f"{LAB}/01_row_per_thread"
WIDTHS = (4, 8, 16, 32, 64)


def square(n: int) -> dict[str, int]:
    return {"M": n, "N": n, "K": n}


def _worst(kernel: runs.Contract, kind: str, array: str, sizes: dict[str, int]) -> WarpRequest:
    found = runs.seen(kernel, sizes).worst("global", kind, array)
    assert found is not None
    return found


def axes_table() -> str:
    """The given kernel and the reference: sectors of each request, of all, and predicted times."""
    rows = []
    for told, kernel in (
        ("given: x counts rows", runs.specimen(GIVEN)),
        ("reference: x counts columns", runs.contract(FIXED)),
    ):
        c = runs.run(kernel, square(64)).counters
        each = [len(_worst(kernel, kind, array, square(64)).sectors) for kind, array in
                (("load", "A"), ("load", "B"), ("store", "C"))]  # fmt: skip
        rows.append(
            (
                told,
                *each,
                f"{c.global_load_sectors:,}",
                f"{c.global_load_efficiency:.0%}",
                runs.us(runs.time_us(runs.predicted(kernel, square(1024)))),
            )
        )
    head = ("kernel", ">sectors: load of A", ">load of B", ">store of C", ">loaded in all, n = 64",
            ">would do, of them", ">predicted, n = 1024")  # fmt: skip
    return runs.table(head, rows)


def widths_table() -> str:
    """Blocks of 8 rows and some columns."""
    kernel, rows = runs.contract(FIXED), []
    for width in WIDTHS:
        c = runs.run(kernel, square(64), constants={"BLOCK_X": width}).counters
        columns = min(width, 32)
        rows.append(
            (
                f"{width} x 8",
                f"{columns} x {32 // columns}",
                f"{c.global_load_sectors / c.global_load_requests:.3g}",
                f"{c.global_store_sectors / c.global_store_requests:.3g}",
                runs.us(runs.time_us(runs.predicted(kernel, square(1024), constants={"BLOCK_X": width}))),
            )
        )
    head = ("block, x by y", "a warp, x by y", ">sectors of a load", ">sectors of a store", ">predicted, n = 1024")
    return runs.table(head, rows)


def transposes_table() -> str:
    """The transposes of labs 03 and 04: sectors, passes, and what was measured beside a copy."""
    recorded = {row.step: row for row in measured(course=runs.COURSE) if row.part == "copies"}
    rows = []
    for step in (f"{LAB}/02_transpose_naive", f"{LAB}/03_transpose_tiled", "lab04_bank_conflicts/01_transpose_padded"):
        c = runs.run(runs.contract(step), {"M": 256, "N": 256}).counters
        passes = c.shared_load_wavefronts / c.shared_load_requests if c.shared_load_requests else 0
        found = recorded[step]
        rows.append(
            (
                runs.short(step),
                f"{c.global_load_sectors / c.global_load_requests:g}",
                f"{c.global_store_sectors / c.global_store_requests:g}",
                f"{passes:g}" if passes else "",
                runs.us(found.time_ms * 1e3),
                f"{found.ratio:.2f}",
            )
        )
    head = ("step", ">sectors of a load", ">sectors of a store", ">passes of a shared load", ">measured, 8192 x 8192",
            ">of a copy's speed")  # fmt: skip
    return runs.table(head, rows)


def products_table() -> str:
    """Products with B as it is and transposed."""
    recorded = {row.step: row for row in measured(course=runs.COURSE) if row.part in ("ladder", "branches")}
    rows = []
    for step in ("lab02_tiling/01_tiled", f"{LAB}/04_gemm_bt", "lab04_bank_conflicts/03_gemm_padded"):
        c = runs.run(runs.contract(step), square(128)).counters
        rows.append(
            (
                runs.short(step),
                f"{c.excess_load_sectors:,}",
                f"{c.shared_load_wavefronts / (128**3 / 32):.3g}",
                runs.us(recorded[step].time_ms * 1e3),
                f"{recorded[step].ratio:.2f}",
            )
        )
    head = ("step", ">load sectors in excess", ">passes per FMA of a warp", ">measured, n = 4096", ">of cuBLAS's speed")
    return runs.table(head, rows)


def _draw(axes: Axes, title: str, request: WarpRequest, columns: int) -> None:
    for sector in request.sectors:
        row, col = divmod(sector * 8, columns)
        axes.add_patch(Rectangle((col, row), 8, 1, facecolor=ORANGE, linewidth=0))
    for element in set(request.elements().tolist()):
        row, col = divmod(element, columns)
        axes.add_patch(Rectangle((col, row), 1, 1, facecolor=BLUE, linewidth=0))
    axes.set_facecolor(PAPER)
    axes.spines[:].set_color(GREY)
    axes.set(xlim=(0, columns), ylim=(64, 0), xticks=[0, 32, 64], yticks=[0, 32, 64], aspect="equal")
    axes.set_title(f"{title}\n{len(request.sectors)} sectors", fontsize=9)


def touched_picture() -> str:
    """One request each of the given kernel, the reference, and the stores of two transposes, in matrices of 64 x 64."""
    naive, tiled = runs.contract(f"{LAB}/02_transpose_naive"), runs.contract(f"{LAB}/03_transpose_tiled")
    plain = {"M": 64, "N": 64}
    requests = {
        "given: load of A": _worst(runs.specimen(GIVEN), "load", "A", square(64)),
        "reference: load of B": _worst(runs.contract(FIXED), "load", "B", square(64)),
        "02: store of At": _worst(naive, "store", "At", plain),
        "03: store of At": _worst(tiled, "store", "At", plain),
    }
    figure = Figure(figsize=(8.4, 2.6), layout="constrained", facecolor=PAPER)
    for axes, (title, request) in zip(figure.subplots(1, 4), requests.items(), strict=True):
        _draw(axes, title, request, 64)
    return svg(figure, "lab03-touched")


def stride_table() -> str:
    """Sectors of a warp that reads every s-th float, counted by the simulator."""
    kernel, rows = runs.printed("lab03", "stride.cu"), []
    for stride in (1, 2, 4, 8, 16):
        c = runs.run(kernel, {"n": 4096}, constants={"STRIDE": stride}).counters
        each = c.global_load_sectors / c.global_load_requests
        rows.append((stride, f"{each:g}", f"{4 / each:.0%}", f"{4800 * 4 / each:,.0f} GB/s"))
    head = (">stride in floats", ">sectors of a load", ">of them used", ">useful bytes of 4.8 TB/s")
    return runs.table(head, rows)


TABLES = {"axes": axes_table, "widths": widths_table, "transposes": transposes_table, "products": products_table,
          "stride": stride_table}  # fmt: skip
IMAGES = {"lab03-touched.svg": touched_picture}
