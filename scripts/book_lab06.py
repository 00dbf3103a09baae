"""The figures of docs/learn/lab06.md: bits of a number, sums that stop, errors of sums in several precisions, 8-bit
scales, and what fewer bits bring."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from scripts import book_runs as runs
from scripts.book_pictures import BLUE, BROWN, GREEN, GREY, ORANGE, PAPER, RED, svg

from warpcourse.lab06_half_precision import PRECISIONS, Errors, errors, product, quantise, to_half
from warpcourse.ladder import measure, measured

LAB = "lab06_half_precision"
KS = (16, 64, 256, 1024, 4096)
SHOWN = (
    "float",
    "half, summed as float",
    "half2, promoted every 16",
    "half, summed as half",
    "int8, a scale for each row",
)
COLOURS = dict(zip(SHOWN, (BLUE, GREEN, ORANGE, RED, BROWN), strict=True))
TENTH = 0.1
STEPS = ("lab05_work_per_thread/05_vectorized", f"{LAB}/01_half_storage", f"{LAB}/02_half2", f"{LAB}/04_gemm_int8")
MISTAKES = tuple(
    f"{LAB}/{name}"
    for name in (
        "01_half_storage/summed_as_half",
        "01_half_storage/always_wide",
        "01_half_storage/not_moved",
        "02_half2/never_promoted",
        "02_half2/promoted_every_32",
        "02_half2/one_half_at_a_time",
        "03_quantize_int8/wraps_around",
        "03_quantize_int8/cut_off",
        "03_quantize_int8/stored_without_atomic",
        "04_gemm_int8/summed_as_float",
        "04_gemm_int8/unsigned_dots",
    )
)


@cache
def found_errors(kind: str) -> tuple[Errors, ...]:
    chosen = [precision for precision in PRECISIONS if precision.name in SHOWN]
    return errors(kind, KS, precisions=chosen)


def ones_table() -> str:
    """Sums of ones, and of tenths, in half and in half with promotion."""
    rows = []
    for value in (1.0, 0.1):
        for count in (256, 2048, 4096):
            a, b = np.full((1, count), value, np.float32), np.ones((count, 1), np.float32)
            exact = float(to_half(value)) * count
            half = product(a, b, stored=to_half, summed=to_half)[0, 0]
            promoted = product(a, b, stored=to_half, summed=to_half, promoted_every=16)[0, 0]
            rows.append((f"{count:,} times {value:g}", f"{exact:,.1f}", f"{half:,.1f}", f"{promoted:,.1f}"))
    return runs.table(("sum of", ">exact, of the stored halves", ">summed as half", ">promoted every 16"), rows)


def errors_table() -> str:
    """The worst error of 256 sums of 4096 products."""
    rows = []
    well, ill = found_errors("well"), found_errors("ill")
    for name in SHOWN:
        rows.append((name, *(f"{next(e for e in kind if e.name == name).worst[-1]:.1e}" for kind in (well, ill))))
    return runs.table(("precision", ">all terms positive", ">terms that cancel"), rows)


def errors_picture() -> str:
    """Worst errors against the number of products."""
    figure = Figure(figsize=(8.4, 3.4), layout="constrained", facecolor=PAPER)
    markers, styles = "osD^v", ("-", "-", "--", "-", ":")
    for axes, (kind, told) in zip(
        figure.subplots(1, 2, sharey=True), (("well", "all terms positive"), ("ill", "terms that cancel")), strict=True
    ):
        axes.set_facecolor(PAPER)
        for one, marker, style in zip(found_errors(kind), markers, styles, strict=True):
            look = {"marker": marker, "markersize": 4, "color": COLOURS[one.name], "linestyle": style}
            axes.loglog(one.ks, one.worst, label=one.name, **look)
        axes.set_xticks(KS, [f"{k:,}" for k in KS])
        axes.minorticks_off()
        axes.set(xlabel="products in a sum", title=told)
        axes.spines[["top", "right"]].set_visible(False)
    figure.axes[0].set_ylabel("largest error / root mean square")
    figure.axes[1].legend(frameon=False, fontsize=7, loc="lower right")
    return svg(figure, "lab06-errors")


@dataclass(frozen=True)
class Stored:
    """A number as a type stores it: its bits, how many of them are sign and exponent, what they stand for, and how far
    the next number is."""

    name: str
    bits: str
    exponent: int
    value: float
    step: float


def stored(value: float) -> tuple[Stored, ...]:
    """The number in four types; as an 8-bit integer with a scale of 1 / 127."""
    single, half = np.float32(value), np.float16(value)
    word = int(single.view(np.uint32))
    brain = (word + 0x7FFF + (word >> 16 & 1)) >> 16  # to the nearest, and of two to the even one
    brain_value, after = (float(np.uint32(bits << 16).view(np.float32)) for bits in (brain, brain + 1))
    whole = round(value * 127)
    return (
        Stored("float", f"{word:032b}", 8, float(single), float(np.spacing(single))),
        Stored("bfloat16", f"{brain:016b}", 8, brain_value, after - brain_value),
        Stored("half", f"{int(half.view(np.uint16)):016b}", 5, float(half), float(np.spacing(half))),
        Stored("8-bit integer", f"{whole:08b}", 0, whole / 127, 1 / 127),
    )


def bits_picture() -> str:
    """0.1 in four types, bit by bit."""
    figure = Figure(figsize=(8.4, 2.9), layout="constrained", facecolor=PAPER)
    axes = figure.subplots()
    found = stored(TENTH)
    for row, one in enumerate(found):
        for place, bit in enumerate(one.bits):
            part = 0 if place == 0 else 1 if place <= one.exponent else 2
            colour = (ORANGE, GREEN, BLUE)[part]
            axes.add_patch(Rectangle((place, row + 0.28), 0.9, 0.5, facecolor=f"{colour}2e", edgecolor=colour,
                                     linewidth=0.8))  # fmt: skip
            axes.text(place + 0.45, row + 0.55, bit, ha="center", va="center", fontsize=8)
        axes.text(-0.5, row + 0.55, one.name, ha="right", va="center", fontsize=9)
        told = f"off by {abs(one.value - TENTH):.1e}; the next number is {one.step:.1e} away"
        axes.text(len(one.bits) + 0.4 if row else 0, row + (0.55 if row else 0.97), told, va="center", fontsize=8)
    for x, told, colour in ((0, "sign", ORANGE), (3, "exponent", GREEN), (7.6, "digits", BLUE)):
        axes.add_patch(Rectangle((x, -0.55), 0.9, 0.4, facecolor=f"{colour}2e", edgecolor=colour, linewidth=0.8))
        axes.text(x + 1.2, -0.35, told, va="center", fontsize=8)
    axes.set(xlim=(-5.5, 32.2), ylim=(len(found), -0.7))
    axes.axis("off")
    return svg(figure, "lab06-bits")


def running(value: float, count: int, *, promoted_every: int = 0) -> npt.NDArray[np.float64]:
    """The sum of equal terms after each of them, kept as half, or promoted to a float."""
    term, part, total, sums = np.float16(value), np.float16(0), np.float32(0), []
    for number in range(1, count + 1):
        part = np.float16(part + term)
        sums.append(float(total) + float(part))
        if promoted_every and number % promoted_every == 0:
            total, part = np.float32(total + np.float32(part)), np.float16(0)
    return np.array(sums)


def stops_picture() -> str:
    """Sums of ones and of tenths, term by term."""
    figure = Figure(figsize=(8.4, 3.2), layout="constrained", facecolor=PAPER)
    for axes, value in zip(figure.subplots(1, 2), (1.0, 0.1), strict=True):
        _draw_sums(axes, value)
    figure.axes[0].set_ylabel("sum")
    figure.axes[0].legend(frameon=False, fontsize=8, loc="upper left")
    return svg(figure, "lab06-stops")


def _draw_sums(axes: Axes, value: float) -> None:
    count = KS[-1]
    terms = np.arange(1, count + 1)
    shown = slice(63, None, 64)
    exact = float(np.float16(value)) * terms
    looks = (
        ("exact", exact, {"color": GREY, "linewidth": 4}),
        ("promoted every 16", running(value, count, promoted_every=16), {"color": BLUE, "linestyle": "--"}),
        ("summed as half", running(value, count), {"color": RED, "linewidth": 2}),
    )
    for told, sums, look in looks:
        axes.plot(terms[shown], sums[shown], label=told, **look)
    axes.set(xlabel="terms", title=f"terms of {value:g}", xticks=(0, 1024, 2048, 3072, 4096))
    axes.set_facecolor(PAPER)
    axes.spines[["top", "right"]].set_visible(False)


def scales_table() -> str:
    """A small row, quantised with its largest magnitude and with a limit."""
    values: Sequence[float] = (0.5, -1.0, 0.25, 0.02, 10.0)
    rows = []
    for told, clip in (("largest, 10", np.inf), ("clip = 1", 1.0)):
        found = quantise(np.array([values]), clip=clip)
        back = ", ".join(f"{v:.3f}" for v in found.values[0])
        rows.append((told, f"{found.scale[0, 0]:.5f}", ", ".join(str(int(q)) for q in found.q[0]), back))
    return runs.table(("limit", ">scale", "stored", "stands for"), rows)


def costs_table() -> str:
    """For each product of two numbers: bytes, instructions, and the recorded time."""
    recorded = {row.step: row for row in measured(course=runs.COURSE) if row.sizes.get("M") == 4096}
    rows = []
    for step in STEPS:
        cost = measure(step, course=runs.COURSE)
        c = cost.counters
        arithmetic = c.instructions_fp32 + c.instructions_fp16 + c.instructions_dot
        row = recorded[step]
        rows.append(
            (
                runs.short(step),
                f"{c.global_load_bytes / cost.products:.4g}",
                f"{c.shared_load_bytes / cost.products:.3g}",
                f"{arithmetic * 32 / cost.products:.3g}",
                f"{c.warp_instructions * 32 / cost.products:.3g}",
                f"{row.time_ms:.2f} ms",
            )
        )
    head = ("step", ">bytes of global memory a product", ">bytes of shared memory", ">arithmetic of a lane",
            ">all instructions of a lane", ">measured, n = 4096")  # fmt: skip
    return runs.table(head, rows)


TABLES = {"ones": ones_table, "errors": errors_table, "scales": scales_table, "costs": costs_table}
IMAGES = {
    "lab06-errors.svg": errors_picture, "lab06-bits.svg": bits_picture, "lab06-stops.svg": stops_picture,
}  # fmt: skip
