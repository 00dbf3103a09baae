"""tour.html: the table of steps, the roofline, the caught mistake, and each step's source with its counters."""

from __future__ import annotations

from warpschool.model import Roofline
from warpschool.show.columns import percent, short, times
from warpschool.show.kernels import kernel_section
from warpschool.show.notes import hazard_notes
from warpschool.show.page import definitions, details, escape, facts, page, slug
from warpschool.show.roofline import drawable, growth, how_to_read, roofline_image, standing
from warpschool.show.source import marked_source
from warpschool.show.table import Cell, Table, share_cell
from warpschool.tour.report import Mistake, Tour, TourStep

MEANINGS = {
    "right?": "the answers agree with a float64 reference, no hazard was found, and the counters are within budget",
    "load efficiency": "global memory: the fewest 32-byte sectors that could hold the data, as a part of those touched",
    "bank conflicts": "extra passes through shared memory because lanes of a warp want different words of one bank",
    "data reuse": "how many multiply-adds use each float that was loaded from global memory",
    "FMA share": "multiply-adds as a part of all instructions: the useful part of a matrix product",
    "registers": "registers per thread, as ptxas assigns them",
    "occupancy": "warps that a multiprocessor holds, as a part of the most it could hold",
    "time": "median GPU time of the whole step at a size that fills the GPU, caches flushed",
    "predicted": "time of this run on an H200 as the clock predicts it, without a GPU, caches flushed: no measurement",
    "of cuBLAS": "speed as a part of cuBLAS's, both timed in turns",
}


def tour_page(tour: Tour) -> str:
    """The whole page."""
    sections = [
        _head(tour), _table(tour), roofline_section(tour), *([_mistake(tour.mistake)] if tour.mistake else []),
        *(_step(step) for step in tour.steps), _foot(tour),
    ]  # fmt: skip
    return page("warpschool tour", "<main>\n" + "\n".join(sections) + "\n</main>")


def _head(tour: Tour) -> str:
    right = sum(step.right for step in tour.steps)
    notices = []
    if tour.interrupted:
        notices.append(f"Interrupted: {len(tour.steps)} of {tour.planned} steps were run; this is what is done.")
    wrong = [step.short_name for step in tour.steps if not step.right]
    if wrong:
        notices.append(f"Not right: {', '.join(wrong)}.")
    said = "".join(f'<p class="notice{" bad" if wrong else ""}">{escape(notice)}</p>' for notice in notices)
    where = "and on " + tour.device if tour.on_gpu else "without a GPU"
    return (
        "<h1>warpschool tour</h1>\n"
        f'<p class="lead">CUDA C++ kernels, compiled by NVIDIA’s compiler and run on a simulator, {escape(where)}: '
        "each with its answers checked and its memory traffic counted, line by line.</p>\n"
        + facts({"steps right": f"{right} of {tour.planned}", "took": f"{tour.seconds:.1f} s"}) + said
    )  # fmt: skip


def _table(tour: Tour) -> str:
    heads = ["right?", "load efficiency", "bank conflicts", "data reuse", "FMA share", "registers", "occupancy"]
    heads += ["time", "of cuBLAS"] if tour.on_gpu else ["predicted"]
    caption = (
        f"One run of each step at its stated case. Occupancy is for {tour.gpu}. A dash stands where a kernel has "
        "nothing of the kind, or needs a newer GPU."
    )
    rows = []
    for step in tour.steps:
        link = f'<a href="#{slug(step.step)}">{escape(step.short_name)}</a>'
        rows.append([Cell(step.short_name, markup=link, below=(step.title,)), *step_cells(step, on_gpu=tour.on_gpu)])
    table = Table.of(caption, ["step", *heads], rows).html(label="the steps and their counters")
    legend = details("What the columns mean", definitions({name: MEANINGS[name] for name in heads}))
    return f'<h2 id="steps">The steps</h2>\n{table}{legend}'


def step_cells(step: TourStep, *, on_gpu: bool) -> list[Cell]:
    """Whether a step is right, and its numbers: for the page and for the terminal."""
    cells = [_right(step), *[Cell("-")] * 6]
    if step.report is not None:
        counters, occupancy, registers = step.report.counters, step.report.occupancy, step.report.registers
        conflicts = counters.shared_bank_conflicts
        cells[1:] = [
            share_cell(counters.global_load_efficiency),
            Cell(short(conflicts), "bad" if conflicts else ""),
            Cell(times(counters.data_reuse)),
            share_cell(counters.fma_share) if counters.fma_instructions else Cell("-"),
            Cell("-" if registers is None else str(registers)),
            share_cell(occupancy.fraction) if occupancy else Cell("-"),
        ]
    if on_gpu:
        time_ms = step.gpu.timing.median_ms if step.gpu else None
        return [*cells, Cell("-" if time_ms is None else f"{time_ms:.3g} ms"), Cell(_gpu_share(step))]
    return [*cells, Cell("-" if step.predicted_us is None else f"{step.predicted_us:.3g} us")]


def roofline_section(tour: Tour) -> str:
    """The steps under the roofs, with what was measured on that very GPU; "" where no step computes anything."""
    found, products = [], set()
    for step in tour.steps:
        if step.report is not None:
            measured = step.gpu.gflops if step.gpu and tour.roofline_gpu.name == tour.device else None
            found.append(standing(step.short_name, step.report.counters, tour.roofline_gpu, measured_gflops=measured))
            if step.report.counters.fma_instructions:
                products.add(step.short_name)
    shown, roofs = drawable(found), Roofline.of(tour.roofline_gpu)
    if not shown:
        return ""
    finding = growth([s for s in shown if s.label in products] or shown)
    names = {s.label for s in shown}
    caption = how_to_read(shown, roofs, hidden=[s.short_name for s in tour.steps if s.short_name not in names])
    image = roofline_image(shown, roofs, finding, prefix="roofline-plot")
    return (
        '<h2 id="roofline">What limits them</h2>\n'
        f"<p>{escape(finding)}</p>\n<figure>{image}<figcaption>{escape(caption)}</figcaption></figure>"
    )


def _gpu_share(step: TourStep) -> str:
    """The share of cuBLAS's speed, or "-"."""
    return percent(step.gpu.cublas) if step.gpu and step.gpu.cublas is not None else "-"


def _right(step: TourStep) -> Cell:
    if step.right:
        return Cell("right", "good", markup="✓ right")
    return Cell(str(step.verdict), "bad", markup=f"✗ {escape(step.verdict)}")


def _mistake(mistake: Mistake) -> str:
    lead = (
        f"The same {mistake.name} without the barrier of line {mistake.removed_line}, "
        f"<code>{escape(mistake.removed_text)}</code>. "
        "On a GPU it may give right answers for months. The simulator says:"
    )
    if mistake.hazard is None:
        return f'<h2 id="mistake">A mistake</h2><p>{lead}</p><p class="notice bad">nothing: the race was missed.</p>'
    hazard = mistake.hazard
    shown = f"<p>{escape(hazard.message)}</p>"
    if notes := hazard_notes(mistake.source, [hazard]):
        label = f"{hazard.kind} found in line {hazard.line} of {mistake.name}, two threads named"
        shown = marked_source(mistake.source, notes, name=label, around=3)
    return f'<h2 id="mistake">A mistake, caught</h2>\n<p>{lead}</p>\n{shown}'


def _step(step: TourStep) -> str:
    right = _right(step)
    parts = [
        f'<section aria-labelledby="{slug(step.step)}"><h2 id="{slug(step.step)}">{escape(step.step)}</h2>',
        f'<p><span class="{right.kind}">{right.markup}</span> · {escape(step.title)}</p>',
    ]
    if not step.right:
        parts.append(f'<p class="notice bad">{escape(step.seen)}</p>')
    if step.gpu:
        share = f", {_gpu_share(step)} of cuBLAS" if step.gpu.cublas is not None else ""
        parts.append(f"<p>On the GPU: {escape(step.gpu.timing)}{share} at {escape(step.gpu.case)}.</p>")
    if step.gpu_note:
        parts.append(f"<p>On the GPU: {escape(step.gpu_note)}.</p>")
    if step.report is not None:
        parts.append(kernel_section(step.report))
    if step.counts:
        parts.append(f'<p class="soft">Graded on {escape(step.counts)}.</p>')
    return "\n".join([*parts, "</section>"])


def _foot(tour: Tour) -> str:
    left_out = "".join(f"<li>{escape(text)}</li>" for text in tour.left_out)
    unfinished = f"<p>Left out:</p><ul>{left_out}</ul>" if left_out else ""
    return f"<footer>{unfinished}<p>{escape(', '.join(f'{k} {v}' for k, v in tour.environment.items()))}</p></footer>"
