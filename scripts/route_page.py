"""Writes docs/learn/route.md and its picture from labs/route.toml and from counts of the labs' texts and starters."""

from __future__ import annotations

from pathlib import Path

from scripts.book_pictures import BLUE, GREY, PAPER, new_figure, svg

from warpschool.course import Course
from warpschool.route import Route, Stage, Track, Waypoint, read_route
from warpschool.show.route import hours, short

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "learn" / "route.md"
PICTURE = ROOT / "docs" / "images" / "learn" / "route.svg"

HEAD = """<!-- Written by `scripts/route_page.py` from labs/route.toml. Do not edit. -->

# The route

{labs} labs, and more than one way through them. `warpschool lab` shows this table with what you have done, and where
you are, before it opens JupyterLab; `warpschool status` lists every step. Whoever has never written a kernel begins
with [what a GPU is](gpu.md), and reads [measuring](measuring.md) after lab 00.

## What stands on what

![Boxes with the labs' numbers, from lab 00 at the left to those that need most at the right; an arrow leads from each
lab to those that need it.](../images/learn/route.svg)

An arrow means: do that one first. Each lab has a notebook, with the work, and a chapter, with the ideas and exercises
that can be done on paper. A lab in brackets is used by single steps, which can wait; their `From:` lines name
the step that they go on from.

| lab | about | chapter | after | used | steps | hours |
|---|---|---|---|---|---:|---:|
"""

ESTIMATE = """
## How the hours are estimated

Nobody was timed. A script counts what there is to do, and takes a rate for each kind. The rates are assumptions of ours
and stand in `labs/route.toml`:

- {words:g} min for 100 words of the notebook's text;
- {step:g} min for a step: reading its starter, running it, reading hints, trying again;
- {line:g} min for each line that the starter asks for, as its marker says ("about 6 lines");
- {explanation:g} min for the explanation at the end.

Lab {number}, for example: {counted_words:.0f} words, {counted_steps} steps, {counted_lines} lines, one explanation:
{sum}. A part of a lab gets its share of the text and of the explanation. Whoever is new to
C++ takes longer; whoever has seen a step before, less. If you time yourself, tell us: the rates are four numbers.

## Paths

"""


def page(route: Route) -> str:
    """The whole page."""
    text = HEAD.format(labs=len(route.waypoints)) + "\n".join(map(_row, route.waypoints)) + "\n" + _estimate(route)
    return text + "\n\n".join(map(_track, route.tracks)) + "\n"


def _link(point: Waypoint) -> str:
    name = point.lab.name
    return f"[{short(name)}](../../labs/{name}/{name}.ipynb)"


def _row(point: Waypoint) -> str:
    needs, uses = " ".join(map(short, point.needs)), " ".join(f"({short(lab)})" for lab in point.uses)
    steps = len(point.lab.steps)
    name = short(point.lab.name)
    chapter = f"[read]({name}.md)" if (PAGE.parent / f"{name}.md").exists() else ""
    needed = needs or "nothing"
    return f"| {_link(point)} | {point.about} | {chapter} | {needed} | {uses} | {steps} | {hours(point.hours)} |"


def _estimate(route: Route) -> str:
    rates, point = route.rates, route.waypoints[0]
    c = point.counted
    parts = (c.words / 100 * rates.for_100_words, c.steps * rates.for_a_step, c.lines * rates.for_a_line)
    told = " + ".join(f"{part:.0f}" for part in (*parts, c.explanations * rates.for_the_explanation))
    return ESTIMATE.format(
        words=rates.for_100_words, step=rates.for_a_step, line=rates.for_a_line,
        explanation=rates.for_the_explanation, number=short(point.lab.name)[3:], counted_words=c.words,
        counted_steps=c.steps, counted_lines=c.lines,
        sum=f"{told} = {c.minutes(rates):.0f} minutes, {hours(point.hours)}",
    )  # fmt: skip


def _track(track: Track) -> str:
    lines = [f"### {track.name[0].upper()}{track.name[1:]}: {hours(track.hours)}", "", track.told, ""]
    lines += ["| when | what | handed in at its end | hours |", "|---|---|---|---:|"]
    lines += [f"| {s.when} | {_what(s)} | {s.hand_in or 'nothing'} | {hours(s.hours)} |" for s in track.stages]
    return "\n".join(lines)


def _what(stage: Stage) -> str:
    """Labs as a whole by number, others with the numbers of their steps."""
    course, told = Course(ROOT), []
    for name in dict.fromkeys(step.lab for step in stage.steps):
        own = [step for step in stage.steps if step.lab == name]
        numbers = ", ".join(step.idea[:2] for step in own)
        told.append(short(name) if len(own) == len(course.lab(name).steps) else f"{short(name)}: {numbers}")
    return "; ".join(told)


def picture(route: Route) -> str:
    """The labs in columns by how many others stand below them; an arrow for each need that no other implies."""
    depth: dict[str, int] = {}
    for point in route.waypoints:
        depth[point.lab.name] = 1 + max((depth[name] for name in point.needs), default=-1)
    columns: dict[int, list[str]] = {}
    for name, column in depth.items():
        columns.setdefault(column, []).append(name)
    place = {
        name: (column, (len(names) - 1) / 2 - row)
        for column, names in columns.items()
        for row, name in enumerate(names)
    }
    figure, axes = new_figure(8.4, 4.6)
    axes.axis("off")
    for point in route.waypoints:
        x, y = place[point.lab.name]
        for name in _direct(route, point):
            axes.annotate(
                "", (x - 0.33, y), (place[name][0] + 0.33, place[name][1]),
                arrowprops={"arrowstyle": "-|>", "color": GREY, "shrinkA": 0, "shrinkB": 0},
                annotation_clip=False,
            )  # fmt: skip
        title = point.lab.name.partition("_")[2].replace("_", " ").replace(" ", "\n", 1)
        axes.text(
            x, y, f"{point.lab.name[3:5]}\n{title}", ha="center", va="center", fontsize=7.5, color="black",
            bbox={"boxstyle": "round,pad=0.35", "facecolor": PAPER, "edgecolor": BLUE},
        )  # fmt: skip
    axes.set(xlim=(-0.5, max(depth.values()) + 0.5), ylim=(-2.4, 2.4))
    return svg(figure, "route")


def _direct(route: Route, point: Waypoint) -> list[str]:
    """The labs that it needs, less those that another of them needs, too."""
    needs = {other.lab.name: other.needs for other in route.waypoints}

    def below(name: str) -> set[str]:
        return set(needs[name]).union(*map(below, needs[name]))

    return [name for name in point.needs if not any(name in below(other) for other in point.needs)]


def files() -> dict[Path, str]:
    """The page and its picture."""
    route = read_route(Course(ROOT))
    assert route is not None
    return {PAGE: page(route), PICTURE: picture(route)}
