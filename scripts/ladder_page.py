"""Writes docs/learn/ladder.md from the references.

Counters and instruction mixes come from the simulator, registers and occupancy from the compiler, times from
benchmarks/results/ where those exist. Nothing on the page is written by hand but its introduction.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from warpcourse.ladder import CASE, CLASSES, Measured, StepCost, change, measure, measured
from warpschool.contract.header import read_header
from warpschool.course import Course, Step

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "learn" / "ladder.md"
LAST = "lab05_work_per_thread/07_warp_tiled"
LABS = ("lab01", "lab02", "lab03", "lab04", "lab05", "lab06", "lab07")
_INTRODUCTION = """\
<!-- Written by `scripts/ladder_page.py`. Do not edit. -->

# The ladder

From the naive matrix product to one as fast as cuBLAS, one idea at a time. Each step names the step that it comes from;
the difference between the two is the idea.

All counts are those of the reference kernels in `solutions/`, taken by the simulator at {case} and
divided by the number of products, M N K (of a transpose: by its elements). *Passes* are wavefronts of shared loads for
each 32 products: what a warp's multiply-adds ask of shared memory. The instruction mix is that of the main loop, PTX
instructions counted once per warp, found as what a K twice as long adds. Registers are those that the compiler assigns
for the GPU's architecture; for the GTX 1080 and the K40, which the compiler does not know any more, they are those of
sm_75, and the tables say so.{times}
"""


def page(course: Course) -> str:
    """Return the page's text."""
    rungs = course.ladder(LAST)
    names = {step.name for step in rungs}
    branches = [s for s in course.steps() if s.lab[:5] in LABS and s.name not in names and _is_linked(s, course)]
    costs = {step.name: measure(step, course=course) for step in (*rungs, *branches)}
    times = best_times(measured(course=course))
    devices = sorted({time.device for time in times.values()})
    note = f" Times were measured by the scripts in `benchmarks/` on an {' and an '.join(devices)}." if devices else ""
    case = ", ".join(f"{name} = {value}" for name, value in CASE.items())
    parts = [
        _INTRODUCTION.format(case=case, times=note),
        "## At a glance\n",
        overview(rungs, costs, times),
        "## Step by step\n",
        *(section(step, costs, times, course) for step in rungs),
        "## Beside the ladder\n\nThese steps take other operands, or stand beside the ladder to show one thing.\n",
        *(section(step, costs, times, course) for step in branches),
    ]
    return "\n".join(parts)


def _is_linked(step: Step, course: Course) -> bool:
    """Whether a From line leads to or from the step, and the simulator runs it; others cannot be compared."""
    return bool(step.follows or course.successors(step.name)) and not step.target


def best_times(rows: Iterable[Measured]) -> dict[str, Measured]:
    """One time for each step: at the size at which all steps were measured."""
    found: dict[str, Measured] = {}
    for row in rows:
        found.setdefault(row.step, row)
    return found


def overview(steps: Sequence[Step], costs: dict[str, StepCost], times: dict[str, Measured]) -> str:
    """The ladder in one table."""
    head = ["step", "FMA share", "bytes from global", "bytes from shared", "passes", "barriers", "registers", "speed"]
    rows = []
    for step in steps:
        cost = costs[step.name]
        numbers = [
            f"{cost.mix['FMA']:.0%}", *per_product(cost)[:3], f"{cost.barriers_per_block:g}", registers(cost, "a100"),
        ]  # fmt: skip
        rows.append([link(step), *numbers, speed(times.get(step.name))])
    note = "Bytes and passes for each product; barriers for each block; registers on an A100.\n"
    return f"{table(head, rows)}\n{note}"


def section(step: Step, costs: dict[str, StepCost], times: dict[str, Measured], course: Course) -> str:
    """One step: idea, difference, counts before and after, mix, registers and occupancy, time."""
    assert step.solution is not None
    said, cost = read_header(step.solution.read_text("utf-8"), file=step.file_name), costs[step.name]
    parts = [f"### {step.name}\n", f"**{sentence(said.title)}** {sentence(said.text_of('Idea'))}\n"]
    if limits := said.text_of("Limits"):
        parts.append(f"What is left: {sentence(limits, capital=False)}\n")
    before = costs.get(step.follows) if step.follows else None
    if step.follows:
        what = change(step.follows, step.name, course=course)
        changed = f"What changes from {what.before} ({what.added} lines more, {what.removed} less)"
        lines = what.unified(course.step(step.follows).file_name, step.file_name)
        parts.append(f"<details><summary>{changed}</summary>\n\n```diff\n{lines}\n```\n\n</details>\n")
    parts += [counts(cost, before), mixes(cost, before), uses(cost)]
    parts.append(timing(times.get(step.name), times.get(step.follows)))
    return "\n".join(part for part in parts if part)


def counts(cost: StepCost, before: StepCost | None) -> str:
    """What was counted, of this step and of the one before it."""
    head = ["a product", "global bytes", "shared bytes", "passes", "excess sectors", "bank conflicts", "barriers"]
    both = _both(cost, before)
    return table(head, ([name, *per_product(one), f"{one.barriers_per_block:g} a block"] for name, one in both))


def _both(cost: StepCost, before: StepCost | None) -> list[tuple[str, StepCost]]:
    return [(name, one) for name, one in (("before", before), ("this step", cost)) if one is not None]


def per_product(cost: StepCost) -> list[str]:
    """Loaded bytes, shared bytes, passes, excess sectors and bank conflicts, divided by the products."""
    counted, products = cost.counters, cost.products
    values = (
        counted.global_load_bytes / products,
        counted.shared_load_bytes / products,
        32 * counted.shared_load_wavefronts / products,
        counted.excess_sectors / products,
        counted.shared_bank_conflicts / products,
    )
    return [f"{value:.3g}" for value in values]


def mixes(cost: StepCost, before: StepCost | None) -> str:
    """The main loop's instructions, of this step and of the one before it."""
    rows = ([name, *(f"{one.mix[kind]:.1%}" for kind in CLASSES)] for name, one in _both(cost, before))
    return table(["instructions", *CLASSES], rows)


def uses(cost: StepCost) -> str:
    """Registers, shared memory and occupancy on every GPU."""
    head = ["GPU", "registers", "shared memory", "warps an SM", "occupancy", "limited by"]
    rows = []
    for use in cost.uses:
        if use.resources is None:
            rows.append([use.gpu, *[""] * 4, use.note])
            continue
        borrowed = f" ({use.arch})" if use.is_borrowed else ""
        first = [use.gpu, f"{use.resources.registers}{borrowed}", f"{use.resources.shared_bytes:,}"]
        one = use.occupancy
        if one is None:
            rows.append([*first, "0", "0%", use.note])
        else:
            held = [f"{one.warps} of {one.warps_max}", f"{one.fraction:.0%}", " and ".join(one.limited_by)]
            rows.append([*first, *held])
    return table(head, rows)


def timing(time: Measured | None, before: Measured | None) -> str:
    """The measured time in a sentence; nothing where there is none."""
    if time is None:
        return ""
    sizes = " x ".join(str(value) for value in time.sizes.values())
    text = f"Measured on an {time.device} at {sizes}: {time.time_ms:.3g} ms, {speed(time)}"
    if before is not None and before.sizes == time.sizes:
        text += f"; {before.time_ms / time.time_ms:.2f} times as fast as the step before"
    return f"{text}.\n"


def speed(time: Measured | None) -> str:
    """Rate and ratio in words."""
    if time is None:
        return "not measured"
    return f"{time.rate:.3g} {time.unit} ({time.ratio:.2f} of {time.reference})"


def registers(cost: StepCost, gpu: str) -> str:
    """Registers per thread on a GPU."""
    found = cost.use(gpu).resources
    return str(found.registers) if found else "none"


def sentence(text: str, *, capital: bool = True) -> str:
    """A header's text as a sentence."""
    text = " ".join(text.split())
    if capital and text[:1].islower():
        text = text[0].upper() + text[1:]
    return text if text.endswith((".", "?")) else f"{text}."


def link(step: Step) -> str:
    """A link to the step's section."""
    anchor = "".join(c for c in step.name.lower() if c.isalnum() or c in "_-")
    return f"[{step.idea}](#{anchor})"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table; all columns but the first are numbers."""
    lines = [list(head), ["---", *["---:"] * (len(head) - 1)], *map(list, rows)]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines) + "\n"


def files() -> dict[Path, str]:
    """The page."""
    return {PAGE: page(Course(ROOT))}
