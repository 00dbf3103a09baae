"""The roofline: where kernels stand under the roofs of a GPU, as a picture and in words."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from warpschool.counters import Counters, ratio
from warpschool.device import Launch
from warpschool.errors import ArgumentError
from warpschool.harness.launcher import RunResult
from warpschool.inspect.profile import full_gpu_estimate
from warpschool.model import DEFAULT_GPU, GpuSpec, Roofline, find_gpu
from warpschool.show.columns import NO_ARITHMETIC, percent
from warpschool.show.exhibit import Exhibit
from warpschool.show.labels import place_labels
from warpschool.show.table import Table
from warpschool.show.theme import stand_ins

if TYPE_CHECKING:  # it takes a while to load
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Kernel = Launch | RunResult | Counters
_GIVE = 'Give it the result of ws.run(step, sizes, device="sim"), a launch, or counters.'
_THEME = stand_ins()
_FONT = 9
_ROOM = 8
"""more points than this are labelled in short"""


@dataclass(frozen=True)
class Standing:
    """A kernel under the roofs: FLOP for each byte of the sectors that it touches, the bound, and what was measured."""

    label: str
    flops: int
    intensity: float
    bound_gflops: float
    limited_by: str
    measured_gflops: float | None = None

    @property
    def reached_gflops(self) -> float:
        """What was measured, or else the bound."""
        return self.measured_gflops or self.bound_gflops


def roofline(
    *kernels: Kernel | Mapping[str, Kernel], gpu: str | GpuSpec | Roofline = DEFAULT_GPU,
    measured_ms: Mapping[str, float] | None = None,
) -> Exhibit:  # fmt: skip
    """Draw kernels under the roofs of a GPU: the most that memory and arithmetic allow, from counters alone.

    Give launches, runs or counters, or a mapping from labels to them. `gpu` is a name (`ws.find_gpu` lists them), a
    `GpuSpec`, or roofs of your own: `Roofline("My GPU", 20_000, (Roof("DRAM", 900),))`, in GFLOP/s and GB/s.
    `measured_ms`: label -> a time measured on that GPU, drawn beside the bound. A bound is an estimate, never a
    measurement; it assumes work for every multiprocessor. Kernels without single-precision arithmetic are only
    listed.
    """
    labelled = _labelled(kernels)
    if not labelled:
        raise ArgumentError("roofline has nothing to draw", next_step=_GIVE)
    standings = _standings(labelled, gpu, dict(measured_ms or {}))
    shown = drawable(standings)
    if not shown:
        said = "None of these kernels adds or multiplies floats yet, so none has a place under the roofs."
        return Exhibit("Nothing to draw", said, note="Look at their bytes instead: run.counters, ws.show_access(run).")
    roofs = gpu if isinstance(gpu, Roofline) else Roofline.of(gpu)
    hidden = [standing.label for standing in standings if standing not in shown]
    finding = " ".join([reach(shown, roofs), *([growth(shown)] if len(shown) > 1 else [])])
    return Exhibit(
        f"Under the roofs of {roofs.gpu}", finding, sheets=(_table(standings, roofs), _roofs(roofs)),
        note=how_to_read(shown, roofs, hidden=hidden),
        more=f'<figure class="frame">{roofline_image(shown, roofs, finding)}</figure>',
    )  # fmt: skip


def standing(
    label: str, counters: Counters, gpu: str | GpuSpec | Roofline, *, measured_gflops: float | None = None
) -> Standing:
    """Where a kernel stands by its counters; its bound is 0 without single-precision arithmetic."""
    intensity = ratio(counters.flops, counters.global_sector_bytes)
    return Standing(label, counters.flops, intensity, *_bound(counters, gpu), measured_gflops)


def drawable(standings: Iterable[Standing]) -> list[Standing]:
    """Those that have a place in a plot: kernels that compute something."""
    return [s for s in standings if s.flops]


def _labelled(kernels: tuple[Kernel | Mapping[str, Kernel], ...]) -> dict[str, Kernel]:
    found: dict[str, Kernel] = {}
    for kernel in kernels:
        if isinstance(kernel, Mapping) and not isinstance(kernel, Counters):
            found |= kernel
        else:
            name = _name(kernel)
            found[name if name not in found else f"{name} ({len(found) + 1})"] = kernel
    return found


def _name(kernel: Any) -> str:
    if isinstance(kernel, RunResult):
        return kernel.plan.contract.name.removesuffix(".cu")
    return kernel.kernel if isinstance(kernel, Launch) else "kernel"


def _standings(kernels: Mapping[str, Kernel], gpu: str | GpuSpec | Roofline, times: dict[str, float]) -> list[Standing]:
    unknown = times.keys() - kernels.keys()
    if unknown:
        raise ArgumentError(
            f"measured_ms speaks of {', '.join(sorted(unknown))}", next_step=f"There is {', '.join(kernels)}."
        )
    found = []
    for label, kernel in kernels.items():
        time_ms = times.get(label)
        if time_ms is not None and not time_ms > 0:
            raise ArgumentError(f"measured_ms[{label!r}] is {time_ms}", next_step="A time in milliseconds is above 0.")
        if not isinstance(kernel, Launch | RunResult | Counters):
            what = f"roofline takes launches, runs or counters, not {type(kernel).__name__} ({label})"
            raise ArgumentError(what, next_step=_GIVE)
        counters = kernel if isinstance(kernel, Counters) else kernel.counters
        measured = counters.flops / time_ms * 1e-6 if time_ms else None
        found.append(standing(label, counters, gpu, measured_gflops=measured))
    return found


def _bound(counters: Counters, gpu: str | GpuSpec | Roofline) -> tuple[float, str]:
    """(GFLOP/s, what limits it)."""
    if not counters.flops:
        return 0.0, "-"
    if not isinstance(gpu, Roofline):
        estimate = full_gpu_estimate(counters, find_gpu(gpu))
        return counters.flops / estimate.time_ms * 1e-6, estimate.limited_by
    limits = {"arithmetic": gpu.peak_gflops}
    intensities = Roofline.intensities(counters)
    for roof in gpu.roofs:
        if roof.level in intensities:
            limits[roof.level] = intensities[roof.level] * roof.gb_per_s
        elif roof.level == "DRAM" and "L2" not in {r.level for r in gpu.roofs}:
            limits[roof.level] = intensities["L2"] * roof.gb_per_s  # no cache is known: every sector comes from there
    limit = min(limits, key=lambda level: limits[level])
    return limits[limit], limit


# ---------------------------------------------------------------- in words


def reach(standings: Sequence[Standing], roofs: Roofline) -> str:
    """What the best and the worst may reach, and what limits them."""
    best, last = (choose(standings, key=lambda s: s.bound_gflops) for choose in (max, min))
    said = (
        f"{best.label} may reach at most {percent(best.bound_gflops / roofs.peak_gflops)} of {roofs.gpu}'s "
        f"{roofs.peak_gflops:,.0f} GFLOP/s, limited by {best.limited_by}"
    )
    if last is not best:
        said += f"; {last.label} at most {percent(last.bound_gflops / roofs.peak_gflops)}, limited by {last.limited_by}"
    return f"{said}."


def growth(standings: Sequence[Standing]) -> str:
    """How much more arithmetic each byte feeds, from the kernel with least to that with most."""
    first, last = (choose(standings, key=lambda s: s.intensity) for choose in (min, max))
    said = f"{first.label} computes {first.intensity:.2g} FLOP for each byte that it moves"
    times = last.intensity / first.intensity
    if times == 1 or not math.isfinite(times):
        return f"{said}."
    return f"{said}, {last.label} {last.intensity:.3g}: the same memory feeds {times:.3g} times the arithmetic."


def how_to_read(standings: Sequence[Standing], roofs: Roofline, *, hidden: Sequence[str] = ()) -> str:
    """What the signs mean, and which kernels are not in the plot."""
    sentences = [
        f"Circles are bounds: the most that {roofs.gpu} could reach, given the memory, shared-memory and arithmetic "
        "work that was counted, with work for every multiprocessor. They are estimates, not measurements."
    ]
    if _is_crowded([s.label for s in standings]):
        sentences.append("Labels name lab and step: 05/07 is step 07 of lab05.")
    if any(s.measured_gflops for s in standings):
        sentences.append(
            "Filled diamonds were measured there; a line leads to the bound. A kernel can beat its bound a little "
            "where the GPU's compiler merges loads that are counted one by one here."
        )
    if hidden:
        sentences.append(f"Not drawn, for {NO_ARITHMETIC}: {', '.join(hidden)}.")
    return " ".join(sentences)


def roofline_image(standings: Sequence[Standing], roofs: Roofline, finding: str, *, prefix: str = "fig") -> str:
    """The plot as an `<img>`, with a text for those who do not see it."""
    from warpschool.show.figures import figure_image

    alt = f"Roofline plot of {roofs.gpu}. {finding} {'; '.join(_told(s, roofs) for s in standings)}."
    return figure_image(roofline_figure(standings, roofs), alt=alt, prefix=prefix)


def _told(standing: Standing, roofs: Roofline) -> str:
    reached = standing.reached_gflops
    bound = f" (bound {standing.bound_gflops:,.0f})" if standing.measured_gflops else ""
    return (
        f"{standing.label} {'reached' if bound else 'is bounded at'} {reached:,.0f} GFLOP/s{bound}, "
        f"{percent(reached / roofs.peak_gflops)} of the peak, at {standing.intensity:.3g} FLOP per byte"
    )


def _table(standings: Sequence[Standing], roofs: Roofline) -> Table:
    rows = []
    for s in standings:
        share = percent(s.bound_gflops / roofs.peak_gflops)
        place = [f"{s.intensity:.3g}", f"{s.bound_gflops:,.0f}", share] if s.flops else ["-"] * 3
        measured = f"{s.measured_gflops:,.0f}" if s.measured_gflops else "-"
        rows.append([s.label, f"{s.flops:,}", *place, s.limited_by, measured])
    head = ["kernel", "FLOP", "FLOP per byte", "bound in GFLOP/s (estimate)", "of the peak", "limited by"]
    return Table.of(f"Kernels under the roofs of {roofs.gpu}", [*head, "measured GFLOP/s"], rows)


def _roofs(roofs: Roofline) -> Table:
    rows = [["single precision", f"{roofs.peak_gflops:,.0f} GFLOP/s"]]
    rows += [[roof.level, f"{roof.gb_per_s:,.0f} GB/s"] for roof in roofs.roofs]
    return Table.of(f"The roofs of {roofs.gpu}", ["roof", "most"], rows)


# ---------------------------------------------------------------- the picture


def plottable(standings: Iterable[Standing]) -> list[Standing]:
    """Those that a logarithmic plot can show."""
    return [s for s in standings if all(math.isfinite(v) and v > 0 for v in (s.intensity, s.reached_gflops))]


def roofline_figure(standings: Iterable[Standing], roofline: Roofline) -> Figure:
    """Draw roofs and kernels; hollow points are bounds from counters, filled ones were measured."""
    from matplotlib.figure import Figure

    shown = plottable(standings)
    figure = Figure(figsize=(8.6, 4.9))
    axes = figure.add_axes((0.08, 0.11, 0.91, 0.84))
    low = min([0.1, *(s.intensity / 1.6 for s in shown)])
    high = max([64.0, *(s.intensity * 3 for s in shown)])
    bottom = min([100.0, *(min(s.bound_gflops, s.reached_gflops) / 2 for s in shown)])
    axes.set(xscale="log", yscale="log", xlim=(low, high), ylim=(bottom, roofline.peak_gflops * 2.2))
    _draw_roofs(axes, roofline, low, high, bottom)
    _draw_points(axes, shown)
    axes.set_xlabel("FLOP per byte of global memory sectors (32 bytes each)", color=_THEME["ink"])
    axes.text(0, 1.02, "GFLOP/s", transform=axes.transAxes, color=_THEME["ink"], ha="right")
    axes.grid(True, which="major", color=_THEME["line"], linewidth=0.6)
    axes.tick_params(which="both", colors=_THEME["soft"])
    axes.xaxis.set_major_formatter(lambda x, _: f"{x:g}")
    axes.yaxis.set_major_formatter(lambda y, _: f"{y:,.0f}")
    for side, spine in axes.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set_color(_THEME["soft"])
    figure.patch.set_alpha(0)
    axes.patch.set_alpha(0)
    return figure


def _draw_roofs(axes: Axes, roofline: Roofline, low: float, high: float, bottom: float) -> None:
    """Slanted memory roofs, each labelled along its line, and the flat arithmetic roof."""
    peak = roofline.peak_gflops
    scale = axes.transScale + axes.transLimits + axes.transAxes
    for roof in roofline.roofs:
        ends = [low * roof.gb_per_s, peak]
        axes.plot([low, peak / roof.gb_per_s], ends, color=_THEME["soft"], linewidth=1.2, zorder=1)
        place = max(low * 1.1, bottom * 1.25 / roof.gb_per_s)
        (x0, y0), (x1, y1) = (scale.transform((x, x * roof.gb_per_s)) for x in (place, 2 * place))
        axes.annotate(
            f"{roof.level}, {roof.gb_per_s:,.0f} GB/s", (place, place * roof.gb_per_s), color=_THEME["soft"],
            fontsize=8.5, rotation=math.degrees(math.atan2(y1 - y0, x1 - x0)), rotation_mode="anchor", xytext=(-2, 5),
            textcoords="offset points",
        )  # fmt: skip
    first = min(peak / roof.gb_per_s for roof in roofline.roofs)
    axes.plot([first, high], [peak, peak], color=_THEME["soft"], linewidth=1.2, zorder=1)
    axes.text(
        high / 1.05, peak * 1.12, f"{roofline.gpu}: {peak / 1e3:.1f} TFLOP/s single precision",
        color=_THEME["soft"], fontsize=8.5, ha="right",
    )  # fmt: skip


def _draw_points(axes: Axes, standings: Sequence[Standing]) -> None:
    for s in standings:
        _draw_point(axes, s.intensity, s.bound_gflops, _THEME["accent"], _THEME["panel"], "o")
        if s.measured_gflops:
            _draw_point(axes, s.intensity, s.measured_gflops, _THEME["warn"], _THEME["warn"], "D")
    for s in standings:
        if s.measured_gflops:
            ends = [s.bound_gflops, s.measured_gflops]
            axes.plot([s.intensity] * 2, ends, color=_THEME["soft"], linewidth=0.8, zorder=2)
    is_crowded = _is_crowded([s.label for s in standings])
    known = ["" if is_crowded or not s.measured_gflops else ", measured" for s in standings]
    names = [(compact(s.label) if is_crowded else s.label) + more for s, more in zip(standings, known, strict=True)]
    points = [(s.intensity, s.reached_gflops) for s in standings]
    places = place_labels(
        axes, points, names, fontsize=_FONT, texts=list(axes.texts),
        markers=[*points, *((s.intensity, s.bound_gflops) for s in standings if s.measured_gflops)],
    )  # fmt: skip
    line = {"arrowstyle": "-", "color": _THEME["soft"], "linewidth": 0.5, "shrinkA": 0}
    for point, name, place in zip(points, names, places, strict=True):
        axes.annotate(
            name, point, color=_THEME["ink"], fontsize=_FONT, xytext=(place.x, place.y), ha=place.align,
            textcoords="offset points", va="center", zorder=4,
            bbox={"facecolor": _THEME["paper"], "edgecolor": "none", "pad": 0.5},
            arrowprops=line if place.moved else None,
        )  # fmt: skip


def _draw_point(axes: Axes, intensity: float, gflops: float, colour: str, fill: str, sign: str) -> None:
    axes.plot(
        intensity, gflops, sign, markersize=8, markeredgewidth=2, zorder=3,
        markerfacecolor=fill, markeredgecolor=colour, clip_on=False,
    )  # fmt: skip


def _is_crowded(labels: Sequence[str]) -> bool:
    """Whether so many points have labels that these are shortened."""
    return len(labels) > _ROOM


def compact(label: str) -> str:
    """A step's name in five characters, for crowded plots: "lab05/07_warp_tiled" is "05/07"."""
    return re.sub(r"\Alab(\d\d)/(\d\d)_\w+\Z", r"\1/\2", label)
