"""The figures of docs/learn/lab00.md: which way x runs, and which threads work in two trees."""

from __future__ import annotations

from matplotlib.figure import Figure
from scripts import book_runs as runs
from scripts.book_pictures import BLUE, GREY, PAPER, svg

from warpschool.contract import Contract

LAB = "lab00_first_kernels"
SQUARE = {"M": 2048, "N": 2048}
MISTAKES = tuple(
    f"{LAB}/{name}"
    for name in (
        "01_saxpy/no_guard",
        "01_saxpy/thread_index_only",
        "01_saxpy/scattered_lanes",
        "02_matrix_add/no_column_guard",
        "03_block_sum/missing_barrier",
        "03_block_sum/barrier_in_branch",
        "03_block_sum/not_zero_filled",
        "03_block_sum/half_a_warp_shuffled",
        "03_block_sum/serial",
    )
)
Work = list[tuple[int, frozenset[int]]]


def axes_table() -> str:
    """The chapter's kernel with x along columns and along rows."""
    kernel, rows = runs.printed("lab00", "doubled.cu"), []
    for turned, told in enumerate(("columns", "rows")):
        c = runs.run(kernel, SQUARE, constants={"TURNED": turned}).counters
        found = runs.predicted(kernel, SQUARE, constants={"TURNED": turned})
        per = c.global_load_sectors / c.global_load_requests
        rows.append(
            (
                told,
                f"{c.global_load_requests:,}",
                f"{c.global_load_sectors:,}",
                f"{per:g}",
                f"{c.global_load_efficiency:.0%}",
                runs.us(runs.time_us(found)),
            )
        )
    head = ("x runs along", ">load requests", ">sectors loaded", ">of a request", ">of them used", ">predicted")
    return runs.table(head, rows)


def work(kernel: Contract) -> Work:
    """The stores to shared memory of one block, between its barriers: (how many warps, which threads)."""
    found: Work = []
    seen = runs.seen(kernel, {"n": 256})
    own: list[tuple[int, frozenset[int]]] = []
    stored: set[int] = set()
    for request in seen.select("shared", "store"):
        if request.warp in {warp for warp, _ in own} or stored & set(request.elements().tolist()):
            found.append(_together(own))
            own, stored = [], set()
        own.append((request.warp, frozenset(int(lane) + 32 * request.warp for lane in request.lanes)))
        stored |= set(request.elements().tolist())
    return [*found, _together(own)]


def _together(own: list[tuple[int, frozenset[int]]]) -> tuple[int, frozenset[int]]:
    return len({warp for warp, _ in own}), frozenset().union(*(threads for _, threads in own))


def trees() -> dict[str, Work]:
    """The chapter's tree of neighbours and the reference's tree of halves."""
    return {
        "neighbours": work(runs.printed("lab00", "block_min.cu")),
        "halves": work(runs.contract(f"{LAB}/03_block_sum")),
    }


def trees_table() -> str:
    """Warps and threads at work after each barrier."""
    rows = []
    for name, found in trees().items():
        for number, (warps, threads) in enumerate(found):
            told = "all load" if number == 0 else f"round {number}"
            rows.append((name, told, len(threads), warps, f"{len(threads) / warps:g} of 32"))
    return runs.table(("tree", "what", ">threads that store", ">warps that issue", ">lanes at work"), rows)


def stretches(threads: frozenset[int]) -> list[tuple[int, int]]:
    """(first, how many) of neighbouring threads."""
    found: list[tuple[int, int]] = []
    for t in sorted(threads):
        if found and sum(found[-1]) == t:
            found[-1] = (found[-1][0], found[-1][1] + 1)
        else:
            found.append((t, 1))
    return found


def trees_picture() -> str:
    """The 256 threads of a block from left to right, a row for each round."""
    figure = Figure(figsize=(8.4, 2.6), layout="constrained", facecolor=PAPER)
    for axes, (name, found) in zip(figure.subplots(1, 2), trees().items(), strict=True):
        axes.set_facecolor(PAPER)
        for row, (_, threads) in enumerate(found):
            axes.broken_barh([(0, 256)], (row - 0.35, 0.7), facecolors="none", edgecolor=GREY, linewidth=0.5)
            axes.broken_barh(stretches(threads), (row - 0.35, 0.7), facecolors=BLUE)
        axes.set_yticks(range(len(found)), ["load", *(f"round {r}" for r in range(1, len(found)))])
        axes.set_xticks(range(0, 257, 32))
        axes.invert_yaxis()
        axes.spines[:].set_visible(False)
        axes.set_title(f"{name}: threads 0 to 255, a line at every warp", fontsize=9)
        for warp in range(0, 257, 32):
            axes.axvline(warp, color="black", linewidth=0.6)
    return svg(figure, "lab00-trees")


def parts_table() -> str:
    """Times of the references, and the least that DRAM allows."""
    bytes_of = {"01_saxpy": lambda s: 12 * s["n"], "02_matrix_add": lambda s: 12 * s["M"] * s["N"],
                "03_block_sum": lambda s: 4 * s["n"] + s["n"] / 64}  # fmt: skip
    rows = []
    for idea, count in bytes_of.items():
        found = runs.timed(f"{LAB}/{idea}")
        moved = count(found.sizes)
        sizes = ", ".join(f"{name} = {value:,}" for name, value in found.sizes.items() if name != "a")
        rows.append(
            (
                idea,
                sizes,
                f"{moved / 1e6:,.0f} MB",
                runs.us(moved / 4.8e6),
                runs.us(found.measured_us),
                f"{moved / found.measured_us * 1e-6:.1f} TB/s",
                runs.us(moved / 16e3),
            )
        )
    head = ("step", "size", ">bytes", ">at 4.8 TB/s", ">measured", ">which is", ">the same bytes at 16 GB/s")
    return runs.table(head, rows)


TABLES = {"axes": axes_table, "trees": trees_table, "parts": parts_table}
IMAGES = {"lab00-trees.svg": trees_picture}
