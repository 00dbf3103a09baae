"""`roofline`: where kernels stand under the roofs of a GPU."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from warpschool.counters import Counters, ratio
from warpschool.device import Launch
from warpschool.errors import ArgumentError
from warpschool.harness.launcher import RunResult
from warpschool.inspect.profile import full_gpu_estimate
from warpschool.model import DEFAULT_GPU, GpuSpec, Roofline, find_gpu
from warpschool.show.columns import NO_ARITHMETIC, percent
from warpschool.show.exhibit import Exhibit
from warpschool.show.sheet import Sheet

Kernel = Launch | RunResult | Counters


@dataclass(frozen=True)
class Standing:
    """A kernel under the roofs: FLOP for each byte of the sectors that it touches, the bound, and what was measured."""

    label: str
    flops: int
    intensity: float
    bound_gflops: float
    limited_by: str
    measured_gflops: float | None = None


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
    standings = tuple(_standings(labelled, gpu, dict(measured_ms or {})))
    shown = [standing for standing in standings if standing.flops]
    if not shown:
        said = "None of these kernels adds or multiplies floats yet, so none has a place under the roofs."
        return Exhibit("Nothing to draw", said, note="Look at their bytes instead: run.counters, ws.show_access(run).")
    roofs = gpu if isinstance(gpu, Roofline) else Roofline.of(gpu)
    finding = _finding(shown, roofs)
    hidden = [standing.label for standing in standings if not standing.flops]
    note = "Circles are bounds from counters: estimates, not measurements."
    if any(standing.measured_gflops for standing in shown):
        note += " Filled diamonds were measured; a line leads to the bound."
    if hidden:
        note += f" Not drawn, for {NO_ARITHMETIC}: {', '.join(hidden)}."
    return Exhibit(
        f"Under the roofs of {roofs.gpu}", finding, sheets=(_sheet(standings, roofs), _roofs(roofs)), note=note,
        more=_picture(shown, roofs, finding),
    )  # fmt: skip


def _labelled(kernels: tuple[Kernel | Mapping[str, Kernel], ...]) -> dict[str, Kernel]:
    found: dict[str, Kernel] = {}
    for kernel in kernels:
        if isinstance(kernel, Mapping) and not isinstance(kernel, Counters):
            found |= kernel
            continue
        name = _name(kernel)
        found[name if name not in found else f"{name} ({len(found) + 1})"] = kernel
    return found


def _name(kernel: Any) -> str:
    if isinstance(kernel, RunResult):
        return kernel.plan.contract.name.removesuffix(".cu")
    return kernel.kernel if isinstance(kernel, Launch) else "kernel"


_GIVE = 'Give it the result of ws.run(step, sizes, device="sim"), a launch, or counters.'


def _counters(label: str, kernel: Any) -> Counters:
    if not isinstance(kernel, Launch | RunResult | Counters):
        what = f"roofline takes launches, runs or counters, not {type(kernel).__name__}"
        raise ArgumentError(f"{what} ({label})", next_step=_GIVE)
    return kernel if isinstance(kernel, Counters) else kernel.counters


def _standings(kernels: Mapping[str, Kernel], gpu: str | GpuSpec | Roofline, times: dict[str, float]) -> list[Standing]:
    unknown = times.keys() - kernels.keys()
    if unknown:
        raise ArgumentError(
            f"measured_ms speaks of {', '.join(sorted(unknown))}", next_step=f"There is {', '.join(kernels)}."
        )
    found = []
    for label, kernel in kernels.items():
        counters = _counters(label, kernel)
        bound, limit = _bound(counters, gpu)
        time_ms = times.get(label)
        if time_ms is not None and not time_ms > 0:
            raise ArgumentError(f"measured_ms[{label!r}] is {time_ms}", next_step="A time in milliseconds is above 0.")
        found.append(
            Standing(
                label, counters.flops, ratio(counters.flops, counters.global_sector_bytes), bound, limit,
                counters.flops / time_ms * 1e-6 if time_ms else None,
            )
        )  # fmt: skip
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


def _finding(standings: list[Standing], roofs: Roofline) -> str:
    best = max(standings, key=lambda s: s.bound_gflops)
    said = (
        f"{best.label} may reach at most {percent(best.bound_gflops / roofs.peak_gflops)} of {roofs.gpu}'s "
        f"{roofs.peak_gflops:,.0f} GFLOP/s, limited by {best.limited_by}"
    )
    last = min(standings, key=lambda s: s.bound_gflops)
    if last is not best:
        said += f"; {last.label} at most {percent(last.bound_gflops / roofs.peak_gflops)}, limited by {last.limited_by}"
    return f"{said}."


def _picture(standings: list[Standing], roofs: Roofline, finding: str) -> str:
    from warpschool.show.roofline_plot import Point, figure_image, roofline_figure

    points = []
    for s in standings:
        points.append(Point("" if s.measured_gflops else s.label, s.intensity, s.bound_gflops))
        if s.measured_gflops:
            points.append(Point(s.label, s.intensity, s.measured_gflops, measured=True))
    told = "; ".join(f"{s.label} at {s.intensity:.3g} FLOP per byte, {_reach(s)}" for s in standings)
    alt = f"Roofline plot of {roofs.gpu}. {finding} {told}."
    return f'<figure class="frame">{figure_image(roofline_figure(points, roofs), alt=alt)}</figure>'


def _reach(standing: Standing) -> str:
    bound = f"bound {standing.bound_gflops:,.0f} GFLOP/s"
    return f"{bound}, measured {standing.measured_gflops:,.0f}" if standing.measured_gflops else bound


def _sheet(standings: tuple[Standing, ...], roofs: Roofline) -> Sheet:
    rows = []
    for s in standings:
        share = percent(s.bound_gflops / roofs.peak_gflops)
        place = [f"{s.intensity:.3g}", f"{s.bound_gflops:,.0f}", share] if s.flops else ["-"] * 3
        measured = f"{s.measured_gflops:,.0f}" if s.measured_gflops else "-"
        rows.append([s.label, f"{s.flops:,}", *place, s.limited_by, measured])
    head = ["kernel", "FLOP", "FLOP per byte", "bound in GFLOP/s (estimate)", "of the peak", "limited by"]
    return Sheet.of(f"Kernels under the roofs of {roofs.gpu}", [*head, "measured GFLOP/s"], rows)


def _roofs(roofs: Roofline) -> Sheet:
    rows = [["single precision", f"{roofs.peak_gflops:,.0f} GFLOP/s"]]
    rows += [[roof.level, f"{roof.gb_per_s:,.0f} GB/s"] for roof in roofs.roofs]
    return Sheet.of(f"The roofs of {roofs.gpu}", ["roof", "most"], rows)
